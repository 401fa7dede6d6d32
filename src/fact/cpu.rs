//! CPUs: which there are, which tick, how fast they are kept.
//!
//! Sources: Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/cputopology.rst,
//! Documentation/admin-guide/pm/cpufreq.rst, drivers/base/cpu.c of Linux 6.12.

use super::cmdline::{self, IsolCpus, Param};
use super::{Fact, Host, Kind, Look, Observation, Read};
use crate::cpuset::{BootGrammar, CpuSet};
use crate::reading::{NotUnderstood, Reading, quote};

/// The CPUs that may ever be there.
pub const POSSIBLE: &str = "sys/devices/system/cpu/possible";
/// The CPUs in use.
pub const ONLINE: &str = "sys/devices/system/cpu/online";
/// The CPUs that are plugged in.
pub const PRESENT: &str = "sys/devices/system/cpu/present";
/// The CPUs whose tick stops while they run one task.
pub const NOHZ_FULL: &str = "sys/devices/system/cpu/nohz_full";

/// What `offline` reads.
pub const OFFLINE_FILES: &[&str] = &[ONLINE, POSSIBLE, "sys/devices/system/cpu/cpu*/online"];

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "cpu.possible",
        kind: Kind::Cpus,
        files: &[POSSIBLE],
        about: "the CPUs that may ever be there",
        read: Read::One(|host| list(host, POSSIBLE)),
    },
    Fact {
        name: "cpu.present",
        kind: Kind::Cpus,
        files: &[PRESENT],
        about: "the CPUs that are plugged in",
        read: Read::One(|host| list(host, PRESENT)),
    },
    Fact {
        name: "cpu.online",
        kind: Kind::Cpus,
        files: &[ONLINE, POSSIBLE],
        about: "the CPUs in use; a rule that reads it is judged even when no hot CPU is online",
        read: Read::One(online),
    },
    Fact {
        name: "cpu.offline",
        kind: Kind::Cpus,
        files: OFFLINE_FILES,
        about: "the possible CPUs that are shown to be offline: cpuN/online is 0, or not in online; no cpuN/online means online",
        read: Read::One(offline_fact),
    },
    Fact {
        name: "cpu.nohz_full",
        kind: Kind::Cpus,
        files: &[NOHZ_FULL, cmdline::PATH],
        about: "the CPUs in the mask of adaptive ticks, whatever nohz= says; `(null)` is the empty set",
        read: Read::One(nohz_full),
    },
    Fact {
        name: "cpu.governor",
        kind: Kind::Word,
        files: &["sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"],
        about: "the cpufreq governor of a CPU",
        read: Read::PerCpu(governor),
    },
];

fn list(host: &Host<'_>, path: &str) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(path).parse(CpuSet::parse_list);
    look.cpus(reading)
}

fn online(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(ONLINE).parse(CpuSet::parse_list);
    if let Some(possible) = host.possible() {
        let impossible = &host.plan.hot_cpus() - &possible;
        if !impossible.is_empty() {
            let _ = look.read(POSSIBLE);
            look.note_failure(format!("this host has no CPU {impossible}: possible are {possible}"));
        }
    }
    look.cpus(reading)
}

/// The CPUs that are shown to be offline: among the possible ones, and those of the plan where `possible` is silent.
///
/// An `online` file that is not understood shows nothing; the file of the CPU itself still may.
pub(super) fn offline(host: &Host<'_>) -> Reading<CpuSet> {
    let plan = host.plan;
    let named = &plan.hot_cpus() | &plan.idle.clone().unwrap_or_default();
    let possible = host.possible();
    let mut offline = CpuSet::new();
    let mut is_anything_shown = false;
    match host.cpus(ONLINE) {
        Reading::Value(online) => {
            is_anything_shown = true;
            offline = &possible.clone().unwrap_or_else(|| named.clone()) - &online;
        }
        Reading::NotExposed => {}
        _ => is_anything_shown = true,
    }
    for cpu in (&named - &offline).iter() {
        if let Reading::Value(text) = host.text(&online_path(cpu)) {
            is_anything_shown = true;
            if super::trim(&text) == "0" && possible.as_ref().is_none_or(|possible| possible.contains(cpu)) {
                offline.insert(cpu);
            }
        }
    }
    if is_anything_shown { Reading::Value(offline) } else { Reading::NotExposed }
}

fn online_path(cpu: u32) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}/online")
}

fn offline_fact(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(ONLINE).parse(CpuSet::parse_list);
    if let Reading::Malformed(text) = reading {
        look.note(format!("{ONLINE} is malformed (`{text}`): CPUs are taken as online"));
    }
    let offline = offline(host);
    let mut named: Vec<u32> = host.plan.idle.clone().unwrap_or_default().iter().collect();
    named.extend(host.plan.hot_cpus().iter());
    for cpu in named {
        let _ = look.read_if_there(&online_path(cpu));
    }
    look.cpus(offline)
}

fn nohz_full(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(NOHZ_FULL).parse(CpuSet::parse_list);
    let hot = host.plan.hot_cpus();
    let missing = |set: &CpuSet| &hot - set;
    let asks = |missing: CpuSet| {
        move |param: &Param, grammar: BootGrammar| match param.value.as_deref() {
            _ if param.is("nohz_full") => {
                let list = CpuSet::parse_boot_list(param.value.as_deref().unwrap_or_default(), grammar);
                list.map_or(true, |list| list.is_empty() || !list.is_disjoint(&missing))
            }
            Some(value) if param.is("isolcpus") => {
                value.split(',').any(|flag| flag == "nohz")
                    && IsolCpus::parse(value, grammar).map_or(true, |asked| !asked.cpus.is_disjoint(&missing))
            }
            _ => false,
        }
    };
    match &reading {
        Reading::NotExposed => {
            look.note_failure("kernel built without adaptive ticks: no nohz_full file");
            if let Some(asked) = cmdline::asked(host, asks(hot.clone())) {
                look.note_failure(format!("{asked} asked for and ignored"));
            }
        }
        Reading::Value(set) if missing(set).is_empty() => look.note_pass(format!("nohz_full covers {hot}")),
        Reading::Value(set) => {
            if let Some(asked) = cmdline::asked(host, asks(missing(set))) {
                look.note_failure(format!("{asked} asked for and refused"));
            }
        }
        _ => {}
    }
    look.cpus(reading)
}

fn governor(host: &Host<'_>, cpu: u32) -> Observation {
    let mut look = Look::at(host);
    let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    let reading = look.read(&path).and_then(|text| match super::parse_word(&text) {
        Ok(word) => Reading::Value(word),
        Err(NotUnderstood) => Reading::Malformed(quote(&text)),
    });
    if reading == Reading::NotExposed {
        look.note("virtual machine?");
    }
    look.word(reading)
}
