//! `capture.toml`: what a captured tree's plain files cannot hold.
//!
//! ```toml
//! schema = 1
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
use serde::Deserialize;

use super::RootError;
use crate::reading::errno_of_name;

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

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty() && self.modes.is_empty() && self.binary.is_empty()
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
        if c.is_control() {
            out.extend(c.escape_debug());
        } else {
            out.push(c);
        }
    }
    out
}
