//! The host that a number came from. Every fact may be missing: a container or a guest does not show everything.

use std::collections::BTreeMap;
use std::fs;

use serde::Serialize;

use crate::cpus::CpuList;
use crate::gate::Audit;

/// The host as a result carries it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Environment {
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The CPU's model name.
    pub cpu: Option<String>,
    /// Does it run under a hypervisor? Only x86 says so.
    pub guest: Option<bool>,
    /// What the clock is read from. Other than `tsc` on x86 means that each timestamp is a system call.
    pub clocksource: Option<String>,
    /// The frequency governor of the CPUs used, or several with commas between; nothing where there is none.
    pub governor: Option<String>,
    /// Time that the hypervisor took from the CPUs used while the measurement ran, in milliseconds.
    pub steal_ms: Option<u64>,
    /// The load average of the last minute when the measurement began.
    pub load: Option<f64>,
    /// Which CPU played which role.
    pub cpus: BTreeMap<String, u32>,
    /// The audit's verdict.
    pub audit: Audit,
}

impl Environment {
    /// The facts for a human, with their names.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let Environment { kernel, cpu, guest, clocksource, governor, steal_ms, load, cpus, audit } = self;
        let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "not exposed".to_owned());
        let guest = if *guest == Some(true) { ", in a guest" } else { "" };
        let cpus: Vec<String> = cpus.iter().map(|(role, cpu)| format!("{role} {cpu}")).collect();
        let cpus = if cpus.is_empty() { "any".to_owned() } else { cpus.join(", ") };
        let failed = if audit.failed.is_empty() { String::new() } else { format!(": {}", audit.failed.join(", ")) };
        vec![
            ("kernel", known(kernel)),
            ("cpu", format!("{}{guest}", known(cpu))),
            ("clocksource", known(clocksource)),
            ("governor", known(governor)),
            ("steal", known(&steal_ms.map(|ms| format!("{ms} ms")))),
            ("load", known(&load.map(|load| format!("{load:.2}")))),
            ("cpus", cpus),
            ("audit", format!("{}{failed}", audit.verdict)),
        ]
    }
}

/// An observation that began; the end of the measurement completes it.
#[derive(Debug)]
pub struct Observation {
    before: Environment,
    steal_ticks: Option<u64>,
}

impl Observation {
    /// Looks at the host, before anything disturbs it.
    pub fn begin(cpus: BTreeMap<String, u32>, audit: Audit) -> Observation {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok();
        let before = Environment {
            kernel: line("/proc/sys/kernel/osrelease"),
            cpu: cpuinfo.as_deref().and_then(model_name),
            guest: cpuinfo.as_deref().and_then(is_guest),
            clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            governor: governor(cpus.values().copied()),
            steal_ms: None,
            load: line("/proc/loadavg").and_then(|text| load_average(&text)),
            cpus,
            audit,
        };
        let steal_ticks = steal_now(&before.cpus);
        Observation { before, steal_ticks }
    }

    /// Looks again, for what accumulates.
    pub fn end(self) -> Environment {
        let ticks = self.steal_ticks.zip(steal_now(&self.before.cpus)).map(|(then, now)| now.saturating_sub(then));
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Environment { steal_ms: ticks.map(|ticks| ticks * 1000 / per_second), ..self.before }
    }
}

/// Are the two CPUs threads of one core?
pub fn are_siblings(a: u32, b: u32) -> bool {
    line(&format!("/sys/devices/system/cpu/cpu{a}/topology/thread_siblings_list"))
        .and_then(|text| text.parse::<CpuList>().ok())
        .is_some_and(|siblings| siblings.as_slice().contains(&b))
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn governor(cpus: impl Iterator<Item = u32>) -> Option<String> {
    let mut governors: Vec<String> =
        cpus.filter_map(|cpu| line(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"))).collect();
    governors.sort_unstable();
    governors.dedup();
    Some(governors.join(",")).filter(|names| !names.is_empty())
}

fn steal_now(cpus: &BTreeMap<String, u32>) -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    cpus.values().map(|&cpu| steal_ticks(&stat, cpu)).sum()
}

/// The `model name` of `/proc/cpuinfo`; only x86 has one.
fn model_name(cpuinfo: &str) -> Option<String> {
    let value = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.trim_start().strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// Is `hypervisor` among the `flags` of `/proc/cpuinfo`? CPUID leaf 1, ECX bit 31, which hypervisors set.
fn is_guest(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.trim_start().strip_prefix(':'))?;
    Some(flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

/// The eighth figure of a CPU's line in `/proc/stat`, in clock ticks.
fn steal_ticks(stat: &str, cpu: u32) -> Option<u64> {
    let name = format!("cpu{cpu}");
    let mut fields =
        stat.lines().map(str::split_ascii_whitespace).find(|fields| fields.clone().next() == Some(&name))?;
    fields.nth(8)?.parse().ok()
}

fn load_average(loadavg: &str) -> Option<f64> {
    loadavg.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo() {
        assert_eq!(
            model_name("processor\t: 0\nmodel name\t: AMD EPYC\nmodel name\t: x\n").as_deref(),
            Some("AMD EPYC")
        );
        assert_eq!(model_name("processor\t: 0\nBogoMIPS\t: 50.00\n"), None);
    }

    #[test]
    fn guests() {
        assert_eq!(is_guest("processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n"), Some(true));
        assert_eq!(is_guest("flags\t\t: fpu vme\nbugs\t\t: hypervisor\n"), Some(false));
        assert_eq!(is_guest("Features\t: fp asimd\n"), None);
    }

    #[test]
    fn steal() {
        let stat = "cpu  9 9 9 9 9 9 9 99 0 0\ncpu1 1 2 3 4 5 6 7 80 0 0\ncpu10 1 2 3 4 5 6 7 8 0 0\ncpu2 1 2\n";
        assert_eq!(steal_ticks(stat, 1), Some(80));
        assert_eq!(steal_ticks(stat, 10), Some(8));
        assert_eq!(steal_ticks(stat, 2), None);
        assert_eq!(steal_ticks(stat, 3), None);
    }

    #[test]
    fn load() {
        assert_eq!(load_average("0.35 0.18 0.07 1/123 4567"), Some(0.35));
        assert_eq!(load_average(""), None);
    }
}
