//! The command line of `quietcore-echo`, and the name it was invoked by.
//!
//! Parsed by hand: scripts elsewhere speak this interface, and its texts are exact.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

/// What is called when `argv` has no first element.
const OWN_NAME: &str = "quietcore-echo";

/// Round trips that `measure` discards unless told otherwise.
const DEFAULT_WARMUP: u64 = 200;

/// The base name that the program was invoked by. Every message starts with it.
#[derive(Clone, Debug)]
pub struct Name(OsString);

impl Name {
    /// Takes the base name of `argv[0]`.
    pub fn of(argv0: Option<&OsStr>) -> Name {
        let whole = argv0.unwrap_or_default().as_bytes();
        let base = whole.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if base.is_empty() { Name(OWN_NAME.into()) } else { Name(OsStr::from_bytes(base).to_owned()) }
    }

    /// The name as it goes into a message: it need not be UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Writes one line to stderr, `NAME: ` before it, in one call so that lines of several programs do not mix.
    ///
    /// A failure is dropped: there is nobody left to tell, and a server goes on without its messages.
    pub fn say(&self, message: &str) {
        let line = [self.as_bytes(), b": ", message.as_bytes(), b"\n"].concat();
        let _ = io::stderr().lock().write_all(&line);
    }

    /// The three lines that answer a usage error.
    pub fn usage(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (lead, rest) in [
            ("usage: ", " fastpath --port P --pin CPU [--busy-poll]\n"),
            ("       ", " naive --port P\n"),
            ("       ", " measure --target HOST:PORT --n N [--warmup W] [--tag TAG]\n"),
        ] {
            text.extend_from_slice(lead.as_bytes());
            text.extend_from_slice(self.as_bytes());
            text.extend_from_slice(rest.as_bytes());
        }
        text
    }
}

/// A command line that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// The tuned server.
    Fastpath {
        /// Where to listen.
        port: u16,
        /// The CPU to run on; not yet known to exist.
        cpu: u64,
        /// Spin on the connection instead of sleeping on it.
        busy_poll: bool,
    },
    /// Its opposite.
    Naive {
        /// Where to listen.
        port: u16,
    },
    /// The client.
    Measure(Measure),
}

/// What `measure` was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The target's host, not yet known to be an address.
    pub host: OsString,
    /// The target's port.
    pub port: u16,
    /// Round trips that count; at least one.
    pub n: u64,
    /// Round trips before them. The sum of both fits a `u64`.
    pub warmup: u64,
    /// A word to find the result by.
    pub tag: Option<OsString>,
}

/// Understands the arguments after the program's name; `None` is a usage error. Of an option given twice the last
/// one counts.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Invocation> {
    let mut args = args.into_iter();
    match args.next()?.to_str()? {
        "fastpath" => {
            let (mut port, mut cpu, mut busy_poll) = (None, None, false);
            while let Some(option) = args.next() {
                match option.to_str()? {
                    "--port" => port = Some(port_number(&args.next()?)?),
                    "--pin" => cpu = Some(decimal(&args.next()?)?),
                    "--busy-poll" => busy_poll = true,
                    _ => return None,
                }
            }
            Some(Invocation::Fastpath { port: port?, cpu: cpu?, busy_poll })
        }
        "naive" => {
            let mut port = None;
            while let Some(option) = args.next() {
                match option.to_str()? {
                    "--port" => port = Some(port_number(&args.next()?)?),
                    _ => return None,
                }
            }
            Some(Invocation::Naive { port: port? })
        }
        "measure" => {
            let (mut at, mut n, mut warmup, mut tag) = (None, None, DEFAULT_WARMUP, None);
            while let Some(option) = args.next() {
                match option.to_str()? {
                    "--target" => at = Some(target(&args.next()?)?),
                    "--n" => n = Some(decimal(&args.next()?).filter(|&n| n > 0)?),
                    "--warmup" => warmup = decimal(&args.next()?)?,
                    "--tag" => tag = Some(args.next()?),
                    _ => return None,
                }
            }
            let ((host, port), n) = (at?, n?);
            n.checked_add(warmup)?;
            Some(Invocation::Measure(Measure { host, port, n, warmup, tag }))
        }
        _ => None,
    }
}

/// A full-string unsigned decimal: `str::parse` alone would take `+5`.
fn decimal(text: &OsStr) -> Option<u64> {
    let digits = text.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}

fn port_number(text: &OsStr) -> Option<u16> {
    decimal(text)?.try_into().ok().filter(|&port| port > 0)
}

/// Splits at the last colon.
fn target(text: &OsStr) -> Option<(OsString, u16)> {
    let bytes = text.as_bytes();
    let colon = bytes.iter().rposition(|&byte| byte == b':')?;
    let port = port_number(OsStr::from_bytes(&bytes[colon + 1..]))?;
    Some((OsStr::from_bytes(&bytes[..colon]).to_owned(), port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn given(line: &str) -> Option<Invocation> {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn names() {
        for (argv0, name) in
            [("app", "app"), ("/usr/bin/app", "app"), ("./app", "app"), ("", OWN_NAME), ("x/", OWN_NAME)]
        {
            assert_eq!(Name::of(Some(OsStr::new(argv0))).as_bytes(), name.as_bytes(), "{argv0}");
        }
        assert_eq!(Name::of(None).as_bytes(), OWN_NAME.as_bytes());
        assert_eq!(Name::of(Some(OsStr::from_bytes(b"/x/\xff"))).as_bytes(), b"\xff");
    }

    #[test]
    fn understood() {
        let fast = |busy_poll| Some(Invocation::Fastpath { port: 9999, cpu: 1, busy_poll });
        assert_eq!(given("fastpath --port 9999 --pin 1"), fast(false));
        assert_eq!(given("fastpath --busy-poll --pin 1 --port 9999"), fast(true));
        assert_eq!(given("naive --port 1 --port 65535"), Some(Invocation::Naive { port: 65535 }));
        let Some(Invocation::Measure(m)) = given("measure --target a:b:80 --n 5 --tag x") else { panic!() };
        assert_eq!((m.host, m.port, m.n, m.warmup, m.tag), ("a:b".into(), 80, 5, 200, Some("x".into())));
    }

    #[test]
    fn usage_errors() {
        for line in [
            "",
            "frobnicate",
            "fastpath --port 9999",
            "fastpath --pin 1",
            "fastpath --port 9999 --pin",
            "fastpath --port 9999 --pin -1",
            "fastpath --port 9999 --pin 1 extra",
            "fastpath --port=9999 --pin 1",
            "naive",
            "naive --port 0",
            "naive --port 65536",
            "naive --port +80",
            "naive --port 9999 --pin 1",
            "measure --n 5",
            "measure --target 127.0.0.1:9999",
            "measure --target 127.0.0.1 --n 5",
            "measure --target 127.0.0.1: --n 5",
            "measure --target 127.0.0.1:0 --n 5",
            "measure --target 127.0.0.1:9 --n 0",
            "measure --target 127.0.0.1:9 --n 5x",
            "measure --target 127.0.0.1:9 --n 18446744073709551616",
            "measure --target 127.0.0.1:9 --n 18446744073709551615 --warmup 1",
            "measure --target 127.0.0.1:9 --n 5 --warmup ",
        ] {
            assert_eq!(given(line), None, "{line}");
        }
        assert_eq!(parse([]), None);
        assert_eq!(parse([OsString::from("naive"), OsStr::from_bytes(b"--\xff").to_owned()]), None);
    }

    proptest! {
        #[test]
        fn a_number_is_digits_and_nothing_else(text in "[-+ 0-9a-f.]{0,22}") {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            prop_assert_eq!(decimal(OsStr::new(&text)), text.parse().ok().filter(|_| digits));
        }

        #[test]
        fn no_command_line_is_a_panic(args in prop::collection::vec("(fastpath|naive|measure|--[a-z-]{1,9}|[0-9.:]{0,12})", 0..8)) {
            let _ = parse(args.into_iter().map(OsString::from));
        }
    }
}
