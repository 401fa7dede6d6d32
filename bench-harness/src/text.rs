//! Texts of the operating system and of markup, and what every program here does about a reader that has gone.

use std::io;
use std::time::Duration;

use quietcore::reading::{printable_json, xml_escaped};
use rustix::io::Errno;
use serde::Serialize;
use thiserror::Error;

/// The C library's text for an error, as `strerror` gives it and without the number that Rust appends.
pub fn strerror(errno: Errno) -> String {
    let code = errno.raw_os_error();
    let mut text = io::Error::from_raw_os_error(code).to_string();
    if let Some(bare) = text.strip_suffix(&format!(" (os error {code})")) {
        text.truncate(bare.len());
    }
    text
}

/// The C name of an error, such as `EPERM`, or `errno N` where it has none that is known here.
pub fn errno_name(errno: Errno) -> String {
    // Answers of sockets; the rest is what kernel files answer too.
    let name = match errno {
        Errno::AFNOSUPPORT => Some("EAFNOSUPPORT"),
        Errno::NOBUFS => Some("ENOBUFS"),
        Errno::NOPROTOOPT => Some("ENOPROTOOPT"),
        Errno::PROTONOSUPPORT => Some("EPROTONOSUPPORT"),
        Errno::SOCKTNOSUPPORT => Some("ESOCKTNOSUPPORT"),
        other => quietcore::reading::errno_name(other),
    };
    name.map_or_else(|| format!("errno {}", errno.raw_os_error()), str::to_owned)
}

/// A result as JSON, with nothing in its texts that a terminal would obey, and a line break at the end.
pub fn json(result: &impl Serialize) -> serde_json::Result<String> {
    Ok(printable_json(&serde_json::to_string_pretty(result)?).into_owned() + "\n")
}

/// A time on the command line: `2s`, `20m`, `1h 30m`, `200ns`, and a bare number of nanoseconds.
pub fn time(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(ns) => Ok(Duration::from_nanos(ns)),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }
}

/// What the kernel did not do, and why.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("cannot {what}: {}", strerror(*errno))]
pub struct Refused {
    /// In the imperative.
    pub what: &'static str,
    /// Why.
    pub errno: Errno,
}

impl Refused {
    /// Says of an error what was to be done.
    pub fn to(what: &'static str) -> impl Fn(Errno) -> Refused {
        move |errno| Refused { what, errno }
    }
}

/// A text as it stands in HTML and SVG, in an element or an attribute: it is shown and does nothing, whoever wrote it.
pub fn markup(text: &str) -> String {
    xml_escaped(text, true)
}

/// A closed pipe is no error: whoever read the output has seen enough.
pub fn unless_reader_left(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
impl Refused {
    /// For a test that needs what was refused: says that it is skipped where a host may well lack that, and fails elsewhere.
    pub(crate) fn skip(self) {
        let lacking = [Errno::PERM, Errno::NOSYS, Errno::AFNOSUPPORT, Errno::OPNOTSUPP, Errno::NODEV];
        assert!(lacking.contains(&self.errno), "{self}");
        println!("skipped: {self}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_carry_no_number() {
        assert_eq!(strerror(Errno::ADDRINUSE), "Address already in use");
        assert_eq!(strerror(Errno::CONNREFUSED), "Connection refused");
    }

    #[test]
    fn no_text_of_a_result_is_obeyed() {
        assert_eq!(json(&["a\u{9b}b\u{202e}"]).unwrap(), "[\n  \"a\\u009bb\\u202e\"\n]\n");
    }

    #[test]
    fn names_of_errors() {
        let names = [Errno::PERM, Errno::AFNOSUPPORT, Errno::NOSYS, Errno::XFULL].map(errno_name);
        assert_eq!(names[..3], ["EPERM", "EAFNOSUPPORT", "ENOSYS"]);
        assert!(names[3].starts_with("errno "), "{}", names[3]);
    }

    #[test]
    fn times() {
        let ms = Duration::from_millis;
        for (text, wanted) in [
            ("2s", ms(2_000)),
            ("20m", ms(1_200_000)),
            ("1500us", ms(1) + ms(1) / 2),
            ("200", ms(0) + Duration::from_nanos(200)),
        ] {
            assert_eq!(time(text), Ok(wanted), "{text}");
        }
        for text in ["", "-1", "2 parsecs", "1.5", "s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_closed_pipe_is_forgiven() {
        assert!(unless_reader_left(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        assert!(unless_reader_left(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
