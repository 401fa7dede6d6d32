//! What came of looking at a file or of interpreting it: an answer, never an error of the audit.
//!
//! A host that does not expose a file, a file that may not be read, and text that the reader does not understand are
//! three different findings, and none of them is a pass. They travel as values so that one of them costs one rule its
//! verdict and never the report.

use std::borrow::Cow;
use std::fmt;

use rustix::io::Errno;

/// How much of a text that was not understood is quoted, in characters.
const QUOTE_CHARS: usize = 60;

/// The outcome of reading one thing from a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// Read and understood.
    Value(T),
    /// Read and understood, and the thing is simply not set: a parameter that is not on the boot line.
    Unset,
    /// The host does not have it: the file or folder is absent.
    NotExposed,
    /// It is there and cannot be read.
    Unreadable(Obstacle),
    /// It was read and is not what the kernel prints there. Holds a quotation of the text.
    Malformed(String),
}

/// Why something that exists could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The operating system's answer (or, for a captured tree, the one that `capture.toml` recorded).
    Errno(Errno),
    /// A limit or refusal of the reader's own, as a lowercase fragment: `larger than 1 MiB`.
    Other(String),
}

impl Obstacle {
    /// Is it a matter of permission?
    pub fn is_denied(&self) -> bool {
        matches!(self, Obstacle::Errno(Errno::ACCESS | Errno::PERM))
    }
}

impl From<Errno> for Obstacle {
    fn from(errno: Errno) -> Self {
        Obstacle::Errno(errno)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Errno(errno) => match errno_name(*errno) {
                Some(name) => f.write_str(name),
                None => write!(f, "errno {}", errno.raw_os_error()),
            },
            Obstacle::Other(why) => f.write_str(why),
        }
    }
}

/// A text is not what the kernel prints there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not understood")]
pub struct NotUnderstood;

impl<T> Reading<T> {
    /// Applies `f` to the value, if there is one.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        self.and_then(|value| Reading::Value(f(value)))
    }

    /// Continues with `f` where there is a value; every other answer stays what it is.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Reading::Value(value) => f(value),
            Reading::Unset => Reading::Unset,
            Reading::NotExposed => Reading::NotExposed,
            Reading::Unreadable(obstacle) => Reading::Unreadable(obstacle),
            Reading::Malformed(text) => Reading::Malformed(text),
        }
    }

    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Reading::Value(value) => Some(value),
            _ => None,
        }
    }

    /// The same answer, borrowing the value.
    pub fn as_ref(&self) -> Reading<&T> {
        match self {
            Reading::Value(value) => Reading::Value(value),
            Reading::Unset => Reading::Unset,
            Reading::NotExposed => Reading::NotExposed,
            Reading::Unreadable(obstacle) => Reading::Unreadable(obstacle.clone()),
            Reading::Malformed(text) => Reading::Malformed(text.clone()),
        }
    }
}

impl Reading<String> {
    /// Interprets the text with `parse`; what it refuses becomes [`Reading::Malformed`] with the text quoted.
    pub fn parse<T, E>(self, parse: impl FnOnce(&str) -> Result<T, E>) -> Reading<T> {
        self.and_then(|text| match parse(&text) {
            Ok(value) => Reading::Value(value),
            Err(_) => Reading::Malformed(quote(&text)),
        })
    }
}

/// A text as it stands in a report: control characters escaped, cut to a readable length.
pub fn quote(text: &str) -> String {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
    let mut out = String::new();
    for c in trimmed.chars().take(QUOTE_CHARS) {
        // Quotations stand between other quotes.
        if c == '\'' { out.push(c) } else { out.extend(c.escape_debug()) }
    }
    if trimmed.chars().nth(QUOTE_CHARS).is_some() {
        out.push_str("...");
    }
    out
}

/// Does a terminal obey this character instead of showing it? Control characters, C1 ones and DEL among them, and those that
/// turn the direction of writing around. Names in a tree and texts of rules are anybody's.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text that a terminal prints and does not obey: what [`is_obeyed`], but for line breaks, is escaped as Rust does.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.escape_debug().to_string())
}

/// JSON that a terminal prints and does not obey, and that says the same: such characters stand in its strings alone, where
/// `\u202e` is as good.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    // None of them is beyond U+FFFF, where JSON takes two escapes.
    escaped(json, |c| format!("\\u{:04x}", u32::from(c)))
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    let is_escaped = |c: char| is_obeyed(c) && c != '\n';
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) { out.push_str(&escape(c)) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// A text as XML 1.0 takes it. Files of a host may hold anything: characters that XML cannot have, not even escaped, and
/// those that a terminal would obey are written as Rust writes them (`\u{1b}`). In attributes, where a parser would make
/// blanks of them, line ends are escaped.
pub fn xml_escaped(text: &str, is_attribute: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if is_attribute => out.push_str("&quot;"),
            '\t' if is_attribute => out.push_str("&#9;"),
            '\n' if is_attribute => out.push_str("&#10;"),
            // A parser would make a line feed of a bare one, in text too.
            '\r' => out.push_str("&#13;"),
            '\t' | '\n' => out.push(c),
            c if is_obeyed(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// The errnos that kernel files answer with, by their C names: those that may stand in `capture.toml`.
const ERRNOS: &[(&str, Errno)] = &[
    ("EACCES", Errno::ACCESS),
    ("EAGAIN", Errno::AGAIN),
    ("EBADF", Errno::BADF),
    ("EBUSY", Errno::BUSY),
    ("EFAULT", Errno::FAULT),
    ("EINTR", Errno::INTR),
    ("EINVAL", Errno::INVAL),
    ("EIO", Errno::IO),
    ("EISDIR", Errno::ISDIR),
    ("ELOOP", Errno::LOOP),
    ("EMFILE", Errno::MFILE),
    ("ENAMETOOLONG", Errno::NAMETOOLONG),
    ("ENFILE", Errno::NFILE),
    ("ENODATA", Errno::NODATA),
    ("ENODEV", Errno::NODEV),
    ("ENOENT", Errno::NOENT),
    ("ENOMEM", Errno::NOMEM),
    ("ENOSYS", Errno::NOSYS),
    ("ENOTDIR", Errno::NOTDIR),
    ("ENOTSUP", Errno::NOTSUP),
    ("ENXIO", Errno::NXIO),
    ("EOPNOTSUPP", Errno::OPNOTSUPP),
    ("EOVERFLOW", Errno::OVERFLOW),
    ("EPERM", Errno::PERM),
    ("ESRCH", Errno::SRCH),
    ("ESTALE", Errno::STALE),
    ("ETIMEDOUT", Errno::TIMEDOUT),
    ("EXDEV", Errno::XDEV),
];

/// The C name of an errno, if it is one that kernel files answer with.
pub fn errno_name(errno: Errno) -> Option<&'static str> {
    ERRNOS.iter().find(|(_, e)| *e == errno).map(|(name, _)| *name)
}

/// The errno of a C name: the reverse of [`errno_name`].
pub fn errno_of_name(name: &str) -> Option<Errno> {
    ERRNOS.iter().find(|(n, _)| *n == name).map(|(_, errno)| *errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_names_and_numbers_are_each_others_reverse() {
        for (name, errno) in ERRNOS {
            assert_eq!(errno_of_name(name), Some(*errno));
            assert!(errno_name(*errno).is_some());
        }
        assert_eq!(errno_of_name("EWHATEVER"), None);
    }

    #[test]
    fn a_quotation_is_short_and_printable() {
        assert_eq!(quote("2-5,garbage\n"), "2-5,garbage");
        assert_eq!(quote("'2-5' \"x\"\n"), "'2-5' \\\"x\\\"");
        assert_eq!(quote("a\u{1b}[31mb\tc\0\n"), "a\\u{1b}[31mb\\tc");
        assert_eq!(quote(&"x".repeat(100)).chars().count(), QUOTE_CHARS + 3);
    }

    #[test]
    fn a_printable_text_is_not_obeyed_by_a_terminal() {
        assert_eq!(printable("line 5 (größe)\n\"quoted\""), "line 5 (größe)\n\"quoted\"");
        assert_eq!(printable("a\u{1b}[2J\u{9b}1m\r\tb\u{7f}\u{202e}c"), "a\\u{1b}[2J\\u{9b}1m\\r\\tb\\u{7f}\\u{202e}c");
    }

    #[test]
    fn printable_json_says_the_same() {
        let all: String = (0..=0xffff).filter_map(char::from_u32).chain(['\u{1f980}']).collect();
        let json = serde_json::to_string_pretty(&[&all, "\n"]).unwrap();
        let safe = printable_json(&json);
        assert!(!safe.contains(|c| is_obeyed(c) && c != '\n') && safe.contains("\\u007f") && safe.contains("\\u202e"));
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), [all.as_str(), "\n"]);
        assert!(matches!(printable_json("[\n  \"größe\"\n]"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_parse_refuses_is_malformed_and_other_answers_pass_through() {
        let number = |text: &str| text.trim().parse::<u32>();
        assert_eq!(Reading::Value("7\n".to_owned()).parse(number), Reading::Value(7));
        assert_eq!(Reading::Value("seven\n".to_owned()).parse(number), Reading::Malformed("seven".into()));
        assert_eq!(Reading::<String>::NotExposed.parse(number), Reading::NotExposed);
        assert_eq!(Reading::<String>::Unset.parse(number), Reading::Unset);
    }
}
