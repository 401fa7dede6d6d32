//! What the kernel says about a process. Never what the process says about itself.

use std::fs;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::cpus::CpuList;

/// Counters of a single-threaded process since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times that it gave up its CPU to wait: `voluntary_ctxt_switches`.
    pub voluntary_switches: u64,
    /// Times that its CPU was taken from it: `nonvoluntary_ctxt_switches`.
    pub involuntary_switches: u64,
    /// Pages that had to be mapped or read: minor and major faults.
    pub page_faults: u64,
}

impl Counters {
    /// What happened between an `earlier` reading and this one.
    #[must_use]
    pub fn since(self, earlier: Counters) -> Counters {
        Counters {
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
            page_faults: self.page_faults.saturating_sub(earlier.page_faults),
        }
    }
}

/// The kernel did not testify.
#[derive(Debug, Error)]
pub enum NoWitness {
    /// The file cannot be read: the process has ended, or `/proc` is not there or hides it.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file does not hold what the kernel writes there.
    #[error("{path} has no {field}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What was looked for.
        field: &'static str,
    },
}

/// Reads the counters of process `pid`.
pub fn counters(pid: u32) -> Result<Counters, NoWitness> {
    let status = read(pid, "status")?;
    let number = |field| {
        field_of(&status, field).and_then(|value| value.parse().ok()).ok_or_else(|| malformed(pid, "status", field))
    };
    let page_faults = page_faults(&read(pid, "stat")?).ok_or_else(|| malformed(pid, "stat", "fault counts"))?;
    Ok(Counters {
        voluntary_switches: number("voluntary_ctxt_switches")?,
        involuntary_switches: number("nonvoluntary_ctxt_switches")?,
        page_faults,
    })
}

/// Reads where process `pid` may run.
pub fn allowed_cpus(pid: u32) -> Result<CpuList, NoWitness> {
    const FIELD: &str = "Cpus_allowed_list";
    let status = read(pid, "status")?;
    field_of(&status, FIELD).and_then(|list| list.parse().ok()).ok_or_else(|| malformed(pid, "status", FIELD))
}

fn path(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

fn read(pid: u32, file: &str) -> Result<String, NoWitness> {
    let path = path(pid, file);
    // A process may give itself a name that is not UTF-8, and both files quote it.
    match fs::read(&path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(source) => Err(NoWitness::Unreadable { path, source }),
    }
}

fn malformed(pid: u32, file: &str, field: &'static str) -> NoWitness {
    NoWitness::Malformed { path: path(pid, file), field }
}

/// The value of a `Field:\tvalue` line of `/proc/PID/status`.
fn field_of<'a>(status: &'a str, field: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim)
}

/// `minflt` + `majflt` of `/proc/PID/stat`. Fields are counted after the last parenthesis: the name before it may hold
/// blanks and parentheses of its own.
fn page_faults(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    // The first one after the name is field 3, `state`; see proc_pid_stat(5).
    let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3)?.parse::<u64>().ok();
    field(10)?.checked_add(field(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines() {
        let status = "Name:\tCpus_allowed_list:\nCpus_allowed_list:\t0-1\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t9\n";
        assert_eq!(field_of(status, "Cpus_allowed_list"), Some("0-1"));
        assert_eq!(field_of(status, "voluntary_ctxt_switches"), Some("3"));
        assert_eq!(field_of(status, "VmRSS"), None);
    }

    #[test]
    fn fault_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 101 5 20 6 0 0";
        assert_eq!(page_faults(stat), Some(121));
        assert_eq!(page_faults("7 (a) S 1 7 7 0 -1 4194560 x 5 20 6"), None);
        assert_eq!(page_faults("7 (a) S 1"), None);
        assert_eq!(page_faults(""), None);
    }

    #[test]
    fn this_process_has_a_place_and_a_past() {
        let pid = std::process::id();
        assert!(!allowed_cpus(pid).unwrap().as_slice().is_empty());
        assert!(counters(pid).unwrap().page_faults > 0);
    }

    #[test]
    fn a_process_that_is_not_there() {
        let error = counters(u32::MAX).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /proc/4294967295/status: "), "{error}");
    }

    #[test]
    fn differences() {
        let later = Counters { voluntary_switches: 5, involuntary_switches: 2, page_faults: 9 };
        let earlier = Counters { voluntary_switches: 2, involuntary_switches: 2, page_faults: 4 };
        assert_eq!(later.since(earlier), Counters { voluntary_switches: 3, involuntary_switches: 0, page_faults: 5 });
    }
}
