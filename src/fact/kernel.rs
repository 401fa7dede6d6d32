//! The kernel itself: its version and how it was built.

use std::io::Read as _;

use super::{Fact, Host, Look};
use crate::reading::{NotUnderstood, Reading};

/// The file with the kernel's release.
pub const OSRELEASE: &str = "proc/sys/kernel/osrelease";

/// The most that a decompressed kernel configuration may be, in bytes (they are about 300 KiB).
const MAX_CONFIG_BYTES: u64 = 4 * 1024 * 1024;

pub(super) const FACTS: &[Fact] = &[];

/// A kernel version as far as rules need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    major: u32,
    minor: u32,
}

impl Release {
    /// Reads a release: `6.12.117+deb12-amd64` is 6.12.
    ///
    /// # Errors
    /// A text that does not begin with two numbers joined by a dot.
    pub fn parse(text: &str) -> Result<Self, NotUnderstood> {
        let mut parts = super::trim(text).splitn(3, '.');
        let mut number = || {
            let part = parts.next()?;
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            part[..digits].parse().ok()
        };
        let (major, minor) = (number(), number());
        match (major, minor) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => Err(NotUnderstood),
        }
    }

    /// Major and minor number.
    pub fn version(self) -> (u32, u32) {
        (self.major, self.minor)
    }
}

/// Was the kernel built with an option (`CONFIG_NAME=y`)? Looks at `/proc/config.gz`, then at `/boot/config-RELEASE`.
/// None where neither is readable.
pub(super) fn config(look: &mut Look<'_, '_>, option: &str) -> Option<bool> {
    let host = look.host;
    if let Reading::Value(bytes) = host.root.read_bytes("proc/config.gz") {
        let mut text = String::new();
        let decoder = flate2::read::GzDecoder::new(bytes.as_slice());
        if decoder.take(MAX_CONFIG_BYTES).read_to_string(&mut text).is_ok() {
            return Some(record(look, "proc/config.gz", &text, option));
        }
    }
    let release = host.text(OSRELEASE);
    let release = super::trim(release.value()?).to_owned();
    if release.is_empty() || release.contains('/') {
        return None;
    }
    let path = format!("boot/config-{release}");
    let text = host.text(&path);
    Some(record(look, &path, text.value()?, option))
}

fn record(look: &mut Look<'_, '_>, path: &str, text: &str, option: &str) -> bool {
    let line = text.lines().find(|line| line.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')));
    let quoted = line.map_or_else(|| format!("{option} is not set"), str::to_owned);
    look.source(super::Source::summary(path, quoted));
    line.is_some_and(|line| line.ends_with("=y"))
}

/// The kernel's release as the report names it.
pub fn release_text(host: &Host<'_>) -> Option<String> {
    host.text(OSRELEASE).parse(super::parse_word).value().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        let version = |text| Release::parse(text).map(Release::version);
        assert_eq!(version("6.12.117+deb12-amd64\n"), Ok((6, 12)));
        assert_eq!(version("3.10.0-1160.el7.x86_64\n"), Ok((3, 10)));
        assert_eq!(version("7.0-rc1\n"), Ok((7, 0)));
        assert_eq!(version("6\n"), Err(NotUnderstood));
        assert_eq!(version("six.one\n"), Err(NotUnderstood));
        assert_eq!(version("\n"), Err(NotUnderstood));
        assert!(version("5.4.0").unwrap() < version("5.10.0").unwrap());
    }
}
