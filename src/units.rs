//! Sizes and durations as people write them in plans and rules, and as reports print them.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A size in bytes.
///
/// Read: `64MiB`, `512 KiB`, `1GB` (decimal, as IEC 80000-13 has it), `4096`. Printed in the largest binary unit that
/// divides it, `1 GiB`, and otherwise in full, `67108865 bytes`: no rounding, because limits are compared exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No limit: what `RLIM_INFINITY` is to the kernel and `unlimited` in `/proc/PID/limits`.
    pub const UNLIMITED: Self = Self(u64::MAX);
}

/// A duration in microseconds: the kernel's own unit for the latencies of idle states.
///
/// Read: `2us`, `2µs`, `1 ms`, `1s`, and whole microseconds in `ns`. Printed in the largest unit that divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

/// Why a size or duration was not understood. The texts are lowercase fragments; [`UnitError::help`] has the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnitError {
    /// Something other than digits stands where the number should.
    #[error("`{0}` is not a whole number and a unit")]
    NotANumber(String),
    /// A duration without unit.
    #[error("`{0}` has no unit")]
    NoUnit(String),
    /// A unit that does not exist, or that people use for two different ones (`M`).
    #[error("`{unit}` is not a unit of {of}")]
    UnknownUnit {
        /// The unit as written.
        unit: String,
        /// What is measured: `size` or `time`.
        of: &'static str,
    },
    /// Beyond 64 bits.
    #[error("`{0}` is too large")]
    TooLarge(String),
    /// Nanoseconds that are not whole microseconds.
    #[error("`{0}` is finer than a microsecond")]
    TooFine(String),
}

impl UnitError {
    /// What to write instead, as an imperative.
    pub fn help(&self) -> &'static str {
        match self {
            UnitError::NotANumber(_) => "write a whole number and a unit: \"64MiB\" for a size, \"2us\" for a time",
            UnitError::UnknownUnit { of: "size", .. } => {
                "write KiB, MiB, GiB, TiB (1024), kB, MB, GB, TB (1000) or bytes"
            }
            UnitError::NoUnit(_) | UnitError::UnknownUnit { .. } => "write us, ms or s",
            UnitError::TooLarge(_) => "write a smaller number",
            UnitError::TooFine(_) => "write whole microseconds: the kernel has no finer idle latencies",
        }
    }
}

/// Binary units, the largest first.
const BINARY: &[(&str, u64)] = &[("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
/// The other units of size that are read.
const OTHER_SIZES: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("byte", 1),
    ("bytes", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];
/// Units of time in microseconds, the largest first.
const TIMES: &[(&str, u64)] = &[("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// The number and the unit of a quantity.
fn split(text: &str) -> Result<(u64, &str), UnitError> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() || unit.starts_with(['.', ',']) {
        return Err(UnitError::NotANumber(text.to_owned()));
    }
    let number = number.parse().map_err(|_| UnitError::TooLarge(text.to_owned()))?;
    Ok((number, unit.trim_start()))
}

fn factor(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

/// The quantity in the largest unit that divides it.
fn largest<'a>(units: &[(&'a str, u64)], amount: u64) -> Option<(u64, &'a str)> {
    let (name, factor) = units.iter().find(|(_, factor)| amount != 0 && amount.is_multiple_of(*factor))?;
    Some((amount / factor, name))
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text)?;
        let factor = factor(BINARY, unit)
            .or_else(|| factor(OTHER_SIZES, unit))
            .ok_or_else(|| UnitError::UnknownUnit { unit: unit.to_owned(), of: "size" })?;
        number.checked_mul(factor).map(Bytes).ok_or_else(|| UnitError::TooLarge(text.trim().to_owned()))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match largest(BINARY, self.0) {
            _ if *self == Self::UNLIMITED => f.write_str("unlimited"),
            Some((number, unit)) => write!(f, "{number} {unit}"),
            None if self.0 == 1 => f.write_str("1 byte"),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

impl FromStr for Micros {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text)?;
        let whole = || text.trim().to_owned();
        match unit {
            "" => Err(UnitError::NoUnit(whole())),
            "ns" if number.is_multiple_of(1_000) => Ok(Micros(number / 1_000)),
            "ns" => Err(UnitError::TooFine(whole())),
            // The micro sign and the Greek letter look alike, and keyboards have either.
            "\u{b5}s" | "\u{3bc}s" => Ok(Micros(number)),
            unit => {
                let factor =
                    factor(TIMES, unit).ok_or_else(|| UnitError::UnknownUnit { unit: unit.to_owned(), of: "time" })?;
                number.checked_mul(factor).map(Micros).ok_or_else(|| UnitError::TooLarge(whole()))
            }
        }
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = largest(TIMES, self.0).unwrap_or((self.0, "us"));
        write!(f, "{number} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(text: &str) -> Result<u64, String> {
        text.parse::<Bytes>().map(|bytes| bytes.0).map_err(|error| error.to_string())
    }

    fn micros(text: &str) -> Result<u64, String> {
        text.parse::<Micros>().map(|micros| micros.0).map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_are_read_with_binary_and_decimal_units() {
        assert_eq!(bytes("64MiB"), Ok(67_108_864));
        assert_eq!(bytes(" 512 KiB "), Ok(524_288));
        assert_eq!(bytes("1GB"), Ok(1_000_000_000));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("16777215 TiB"), Ok(u64::MAX - (1 << 40) + 1));
    }

    #[test]
    fn sizes_that_are_none_are_refused() {
        assert_eq!(bytes("1 GiX"), Err("`GiX` is not a unit of size".into()));
        assert_eq!(bytes("64M"), Err("`M` is not a unit of size".into()));
        assert_eq!(bytes("1.5GiB"), Err("`1.5GiB` is not a whole number and a unit".into()));
        assert_eq!(bytes("-1"), Err("`-1` is not a whole number and a unit".into()));
        assert_eq!(bytes(""), Err("`` is not a whole number and a unit".into()));
        assert_eq!(bytes("16777216TiB"), Err("`16777216TiB` is too large".into()));
        assert_eq!(bytes("99999999999999999999"), Err("`99999999999999999999` is too large".into()));
    }

    #[test]
    fn times_need_a_unit_and_whole_microseconds() {
        assert_eq!(micros("2us"), Ok(2));
        assert_eq!(micros("2\u{b5}s"), Ok(2));
        assert_eq!(micros("2 \u{3bc}s"), Ok(2));
        assert_eq!(micros("1ms"), Ok(1_000));
        assert_eq!(micros("1s"), Ok(1_000_000));
        assert_eq!(micros("2000ns"), Ok(2));
        assert_eq!(micros("500ns"), Err("`500ns` is finer than a microsecond".into()));
        assert_eq!(micros("2"), Err("`2` has no unit".into()));
        assert_eq!(micros("1h"), Err("`h` is not a unit of time".into()));
        assert_eq!(micros("99999999999999s"), Err("`99999999999999s` is too large".into()));
    }

    #[test]
    fn quantities_are_printed_in_the_largest_exact_unit() {
        assert_eq!(Bytes(1 << 30).to_string(), "1 GiB");
        assert_eq!(Bytes(67_108_864).to_string(), "64 MiB");
        assert_eq!(Bytes(67_108_865).to_string(), "67108865 bytes");
        assert_eq!(Bytes(1).to_string(), "1 byte");
        assert_eq!(Bytes(0).to_string(), "0 bytes");
        assert_eq!(Micros(2).to_string(), "2 us");
        assert_eq!(Micros(1_500).to_string(), "1500 us");
        assert_eq!(Micros(2_000_000).to_string(), "2 s");
        assert_eq!(Micros(0).to_string(), "0 us");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(amount: u64, shift in 0u32..64) {
            let amount = amount << shift;
            prop_assert_eq!(Bytes(amount).to_string().parse(), Ok(Bytes(amount)));
            prop_assert_eq!(Micros(amount).to_string().parse(), Ok(Micros(amount)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,12}|[0-9]{0,25} ?[a-zA-Z]{0,5}") {
            let _ = (text.parse::<Bytes>(), text.parse::<Micros>());
        }
    }
}
