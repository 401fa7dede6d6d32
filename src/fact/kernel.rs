//! The kernel itself: its version and how it was built.

use std::io::Read as _;

use super::{Fact, Host, Kind, Look, Observation, Read, Source, Value};
use crate::reading::{NotUnderstood, Obstacle, Reading, quote};

/// The file with the kernel's release.
pub const OSRELEASE: &str = "proc/sys/kernel/osrelease";

/// The kernel's own copy of its configuration.
pub(crate) const CONFIG_GZ: &str = "proc/config.gz";

/// The most that a decompressed kernel configuration may be, in bytes (they are about 300 KiB).
const MAX_CONFIG_BYTES: u64 = 4 * 1024 * 1024;

/// What `uname -v` prints: how the kernel was built is among its words.
pub(super) const VERSION: &str = "proc/sys/kernel/version";
/// There, and 1, on kernels with the patches or the configuration for real time, but not on all of them.
pub(super) const REALTIME: &str = "sys/kernel/realtime";

pub(super) const FACTS: &[Fact] = &[Fact {
    name: "kernel.preempt_rt",
    kind: Kind::Flag,
    files: &[REALTIME, VERSION],
    about: "whether the kernel is a real-time one (PREEMPT_RT); `preempt=full` makes none",
    read: Read::One(preempt_rt),
}];

pub(super) fn preempt_rt(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let by_file = look.read_if_there(REALTIME).parse(super::parse_integer);
    let reading = match by_file {
        Reading::Value(1) => {
            look.note_pass("sys/kernel/realtime is 1");
            Reading::Value(true)
        }
        Reading::Value(_) | Reading::NotExposed => look.read(VERSION).map(|text| {
            let is_realtime = says_preempt_rt(&text);
            if is_realtime {
                look.note_pass("PREEMPT_RT in proc/sys/kernel/version");
            }
            is_realtime
        }),
        other => other.map(|_| false),
    };
    look.answer(reading.map(Value::Flag))
}

/// `#1 SMP PREEMPT_RT Debian 6.1.119-1`; `PREEMPT RT` up to 5.x.
fn says_preempt_rt(version: &str) -> bool {
    let words: Vec<&str> = version.split_whitespace().collect();
    words.contains(&"PREEMPT_RT") || words.windows(2).any(|pair| pair == ["PREEMPT", "RT"])
}

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

/// An option of the kernel's build that a fact reads. Every one is listed here, so that a captured tree holds them and
/// nothing else of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuildOption {
    /// Real-time groups: `sched_rt_runtime_us` throttles them.
    RtGroupSched,
    /// From 6.16 on: they are off unless the boot line says otherwise.
    RtGroupSchedDefaultDisabled,
    /// Offloading of RCU callbacks: `rcu_nocbs=` is a parameter.
    RcuNocbCpu,
    /// Memory that moves by itself to the node that uses it.
    NumaBalancing,
}

impl BuildOption {
    const ALL: &[Self] =
        &[Self::RtGroupSched, Self::RtGroupSchedDefaultDisabled, Self::RcuNocbCpu, Self::NumaBalancing];

    fn name(self) -> &'static str {
        match self {
            Self::RtGroupSched => "CONFIG_RT_GROUP_SCHED",
            Self::RtGroupSchedDefaultDisabled => "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED",
            Self::RcuNocbCpu => "CONFIG_RCU_NOCB_CPU",
            Self::NumaBalancing => "CONFIG_NUMA_BALANCING",
        }
    }

    fn line(self, config: &str) -> Option<&str> {
        config.lines().find(|line| line.strip_prefix(self.name()).is_some_and(|rest| rest.starts_with('=')))
    }
}

/// Is it a kernel configuration? One that was reduced may be empty.
fn is_config(text: &str) -> bool {
    text.trim().is_empty() || text.lines().any(|line| line.starts_with("CONFIG_") || line.starts_with("# CONFIG_"))
}

/// A kernel configuration reduced to the options that facts read. What is none stays none, and is not copied.
pub(crate) fn reduce_config(config: &str) -> String {
    if !is_config(config) {
        return "no kernel configuration\n".to_owned();
    }
    BuildOption::ALL.iter().filter_map(|option| option.line(config)).flat_map(|line| [line, "\n"]).collect()
}

/// Where distributions put the configuration of the kernel of this release; none for what is no file name.
pub(crate) fn config_path(release: &str) -> Option<String> {
    (!release.contains('/')).then(|| format!("boot/config-{release}"))
}

/// Was the kernel built with an option (`CONFIG_NAME=y`)? By `/proc/config.gz`, else by `/boot/config-RELEASE`; not exposed
/// where neither is there.
pub(super) fn config(look: &mut Look<'_, '_>, option: BuildOption) -> Reading<bool> {
    let compressed = look.host.root.read_bytes(CONFIG_GZ);
    if compressed != Reading::NotExposed {
        let text = compressed.and_then(|bytes| decompress_config(&bytes));
        return is_built_in(look, CONFIG_GZ, text, option);
    }
    let release = look.host.text(OSRELEASE).parse(super::parse_word);
    release.and_then(|release| {
        let Some(path) = config_path(&release) else { return Reading::NotExposed };
        let text = look.host.text(&path);
        is_built_in(look, &path, text, option)
    })
}

/// The text of `/proc/config.gz`.
pub(crate) fn decompress_config(bytes: &[u8]) -> Reading<String> {
    let mut text = String::new();
    let decoder = flate2::read::GzDecoder::new(bytes);
    match decoder.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text) {
        Ok(_) if text.len() as u64 > MAX_CONFIG_BYTES => {
            Reading::Unreadable(Obstacle::Other("larger than 4 MiB decompressed".to_owned()))
        }
        Ok(_) => Reading::Value(text),
        Err(error) => Reading::Malformed(quote(&error.to_string())),
    }
}

fn is_built_in(look: &mut Look<'_, '_>, path: &str, text: Reading<String>, option: BuildOption) -> Reading<bool> {
    if text.value().is_none() {
        look.source(Source::of(path, &text));
    }
    text.and_then(|text| {
        if !is_config(&text) {
            look.source(Source::of(path, &Reading::Value(text.clone())));
            return Reading::Malformed(quote(&text));
        }
        let line = option.line(&text);
        let shown = line.map_or_else(|| format!("{} is not set", option.name()), str::to_owned);
        look.source(Source::summary(path, shown));
        Reading::Value(line.is_some_and(|line| line.ends_with("=y")))
    })
}

/// The kernel's release as the report names it.
pub fn release_text(host: &Host<'_>) -> Option<String> {
    host.text(OSRELEASE).parse(super::parse_word).value().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_reduced_to_what_facts_read() {
        let config = "CONFIG_LOCALVERSION=\"-x\"\nCONFIG_RT_GROUP_SCHED_X=y\nCONFIG_RT_GROUP_SCHED=y\nCONFIG_SMP=y\n";
        assert_eq!(reduce_config(config), "CONFIG_RT_GROUP_SCHED=y\n");
        assert_eq!(reduce_config("# CONFIG_RT_GROUP_SCHED is not set\n"), "");
        assert_eq!(reduce_config(""), "");
        for text in ["no kernel configuration\n", "root:x:0:0\n"] {
            assert!(!is_config(text) && !is_config(&reduce_config(text)));
        }
        assert!(matches!(decompress_config(b"no gzip"), Reading::Malformed(_)));
        assert_eq!(config_path("6.1.0").as_deref(), Some("boot/config-6.1.0"));
        assert_eq!(config_path("../x"), None);
    }

    #[test]
    fn kernels_that_call_themselves_real_time() {
        assert!(says_preempt_rt("#1 SMP PREEMPT_RT Debian 6.1.119-1 (2024-11-22)\n"));
        assert!(says_preempt_rt("#1 SMP PREEMPT RT Tue Nov 3 14:23:33 UTC 2020\n"));
        for build in
            ["#1 SMP PREEMPT_DYNAMIC Debian", "#1 SMP PREEMPT Debian", "#1 SMP Debian RT", "#1 SMP PREEMPT_RTX"]
        {
            assert!(!says_preempt_rt(build), "{build}");
        }
    }

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
