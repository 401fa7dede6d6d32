//! `capture.toml`: what a captured tree's plain files cannot hold.
//!
//! ```toml
//! schema = 1
//! container = true          # its processes were those of a container, and no file marked it as one; else left out
//! [errors]                  # reading it gave this errno
//! "sys/devices/system/cpu/cpu3/cpufreq/scaling_governor" = "EBUSY"
//! [modes]                   # a mode that means something (a line that cannot be moved)
//! "proc/irq/36/smp_affinity" = "0444"
//! [binary]                  # s32 device values
//! "dev/cpu_dma_latency" = 2000000000
//! ```

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::iter;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::RootError;
use crate::reading::{errno_name, errno_of_name, is_obeyed};

/// How much of a wrong `capture.toml` an error repeats, in characters.
const EXCERPT_CHARS: usize = 200;

/// What `capture.toml` says. The default says nothing: a tree without one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Capture {
    /// Required and checked; there is one schema, so there is nothing to tell by it.
    #[serde(rename = "schema")]
    _schema: Schema,
    #[serde(default)]
    container: bool,
    #[serde(default)]
    errors: BTreeMap<TreePath, ErrnoName>,
    #[serde(default)]
    modes: BTreeMap<TreePath, OctalMode>,
    #[serde(default)]
    binary: BTreeMap<TreePath, i32>,
}

impl Capture {
    /// Parses the text of `capture.toml`; `file` names it in the error.
    pub(super) fn parse(text: &str, file: &str) -> Result<Capture, RootError> {
        toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.get(..start).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            RootError::CaptureWrong {
                file: file.to_owned(),
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                message: printable(error.message()),
                text: printable(text[line_start..].lines().next().unwrap_or_default()),
            }
        })
    }

    /// Does it say nothing about any path?
    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty() && self.modes.is_empty() && self.binary.is_empty()
    }

    /// Was the host a container without a mark?
    pub(super) fn is_container(&self) -> bool {
        self.container
    }

    /// The error of a path or of the nearest folder above it that has one.
    pub(super) fn error(&self, path: &str) -> Option<Errno> {
        let folders = iter::successors(Some(path), |below| below.rsplit_once('/').map(|(folder, _)| folder));
        folders.into_iter().find_map(|path| self.errors.get(path)).map(|errno| errno.0)
    }

    pub(super) fn mode(&self, path: &str) -> Option<u32> {
        self.modes.get(path).map(|mode| mode.0)
    }

    pub(super) fn binary(&self, path: &str) -> Option<i32> {
        self.binary.get(path).copied()
    }
}

/// What is to stand in a tree's `capture.toml`: the writing half of this file.
#[derive(Debug, Serialize)]
pub struct Records {
    schema: u32,
    #[serde(skip_serializing_if = "<&bool as std::ops::Not>::not")]
    container: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    errors: BTreeMap<String, &'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    modes: BTreeMap<String, &'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    binary: BTreeMap<String, i32>,
}

impl Default for Records {
    fn default() -> Self {
        Self { schema: 1, container: false, errors: BTreeMap::new(), modes: BTreeMap::new(), binary: BTreeMap::new() }
    }
}

impl Records {
    /// Records that the host is a container that no file marks as one.
    pub fn container(&mut self) {
        self.container = true;
    }

    /// Records that reading a path, or anything below it, gives an errno. False for one that kernel files do not answer
    /// with and that has no name here.
    pub fn error(&mut self, path: String, errno: Errno) -> bool {
        errno_name(errno).map(|name| self.errors.insert(path, name)).is_some()
    }

    /// Records that nobody may write the file.
    pub fn read_only(&mut self, path: String) {
        self.modes.insert(path, "0444");
    }

    /// Records the value of a device that answers with a signed 32-bit number.
    pub fn s32(&mut self, path: String, value: i32) {
        self.binary.insert(path, value);
    }

    /// The paths that errors are recorded for.
    pub fn errors(&self) -> impl ExactSizeIterator<Item = &str> {
        self.errors.keys().map(String::as_str)
    }

    /// Is there nothing to record, so that the tree needs no `capture.toml`?
    pub fn is_empty(&self) -> bool {
        !self.container && self.errors.is_empty() && self.modes.is_empty() && self.binary.is_empty()
    }

    /// The text of the file.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "i64")]
struct Schema;

impl TryFrom<i64> for Schema {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        if number == 1 { Ok(Schema) } else { Err(format!("schema {number} is not known, only 1 is")) }
    }
}

/// A path as the reader asks for it. Any other spelling would never be looked up, so it is refused.
#[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String")]
struct TreePath(String);

impl TryFrom<String> for TreePath {
    type Error = &'static str;

    fn try_from(path: String) -> Result<Self, Self::Error> {
        if path.starts_with('/') {
            return Err("a path here is relative to the tree: without the leading `/`");
        }
        if path.split('/').any(|component| matches!(component, "" | "." | "..")) {
            return Err("a path here has no empty, `.` or `..` component");
        }
        Ok(TreePath(path))
    }
}

impl Borrow<str> for TreePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct ErrnoName(Errno);

impl TryFrom<String> for ErrnoName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        errno_of_name(&name).map(ErrnoName).ok_or_else(|| format!("`{name}` is not an errno that kernel files give"))
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct OctalMode(u32);

impl TryFrom<String> for OctalMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // `from_str_radix` alone would take a sign and any length.
        let octal = matches!(text.len(), 3 | 4) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        match u32::from_str_radix(&text, 8) {
            Ok(mode) if octal => Ok(OctalMode(mode)),
            _ => Err(format!("`{text}` is not an octal mode like 0444")),
        }
    }
}

/// A text that a terminal prints as it is, cut to a bearable length. Both the file's lines and the parser's messages,
/// which repeat keys, come from whoever made the tree.
fn printable(text: &str) -> String {
    let mut out = String::new();
    for (count, c) in text.trim().chars().enumerate() {
        if count == EXCERPT_CHARS {
            out.push('…');
            break;
        }
        if is_obeyed(c) {
            out.extend(c.escape_debug());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_back() {
        let mut records = Records::default();
        assert!(records.is_empty());
        for path in ["proc/903/environ", "sys/fs/cgroup/a\"b\\c\nd", "sys/class/net/it's"] {
            assert!(records.error(path.to_owned(), Errno::ACCESS));
        }
        assert!(!records.error("proc/cmdline".to_owned(), Errno::CHILD), "no errno of a kernel file");
        records.read_only("proc/irq/36/smp_affinity".to_owned());
        records.s32("dev/cpu_dma_latency".to_owned(), -1);
        records.container();
        let capture = Capture::parse(&records.to_toml().unwrap(), "capture.toml").unwrap();
        assert_eq!(capture.error("proc/903/environ"), Some(Errno::ACCESS));
        assert_eq!(capture.error("sys/fs/cgroup/a\"b\\c\nd/e"), Some(Errno::ACCESS));
        assert_eq!(capture.error("sys/class/net/it's"), Some(Errno::ACCESS));
        assert_eq!(capture.error("proc/cmdline"), None);
        assert_eq!(capture.mode("proc/irq/36/smp_affinity"), Some(0o444));
        assert_eq!(capture.binary("dev/cpu_dma_latency"), Some(-1));
        assert!(capture.is_container());
        assert!(!Capture::parse("schema = 1\n", "capture.toml").unwrap().is_container());
    }
}
