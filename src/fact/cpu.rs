//! CPUs: which there are, which tick, how fast they are kept.
//!
//! Sources: Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/cputopology.rst,
//! Documentation/admin-guide/pm/cpufreq.rst, drivers/base/cpu.c of Linux 6.12.

use super::cmdline::{self, IsolCpus, Param};
use super::{Doubt, Fact, Host, Kind, Look, Observation, Read, Value};
use crate::cpuset::{BootGrammar, CpuSet};
use crate::reading::Reading;

/// The CPUs that may ever be there.
pub const POSSIBLE: &str = "sys/devices/system/cpu/possible";
/// The CPUs in use.
pub const ONLINE: &str = "sys/devices/system/cpu/online";
/// The CPUs that are plugged in.
pub const PRESENT: &str = "sys/devices/system/cpu/present";
/// The CPUs whose tick stops while they run one task.
pub const NOHZ_FULL: &str = "sys/devices/system/cpu/nohz_full";

const SMT_ACTIVE: &str = "sys/devices/system/cpu/smt/active";
const SMT_CONTROL: &str = "sys/devices/system/cpu/smt/control";

/// What tells offline CPUs.
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
        about: "the CPUs that are plugged in; a rule that reads it is judged even when no hot CPU is online",
        read: Read::One(|host| list(host, PRESENT)),
    },
    Fact {
        name: "cpu.online",
        kind: Kind::Cpus,
        files: OFFLINE_FILES,
        about: "the CPUs in use; a rule that reads it is judged even when no hot CPU is online",
        read: Read::One(online),
    },
    Fact {
        name: "cpu.offline",
        kind: Kind::Cpus,
        files: OFFLINE_FILES,
        about: "the possible CPUs that are shown to be offline: cpuN/online is 0, or not in online; no cpuN/online means online",
        read: Read::One(offline),
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
    Fact {
        name: "cpu.smt_active",
        kind: Kind::Flag,
        files: &[SMT_ACTIVE, SMT_CONTROL],
        about: "whether some core, not always a hot one, has two threads online",
        read: Read::One(smt_active),
    },
];

fn list(host: &Host<'_>, path: &str) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(path).parse(CpuSet::parse_list);
    look.cpus(reading)
}

/// The `online` file, corrected by the files of the CPUs themselves: of all of them where there is no `online`, else of the
/// plan's.
fn online(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let named = named(host);
    if let Some(possible) = host.possible()
        && !host.plan.hot_cpus().is_subset(&possible)
    {
        let _ = look.read(POSSIBLE);
        look.note_failure(format!("possible on this host are {possible}"));
    }
    let reading = match look.read(ONLINE).parse(CpuSet::parse_list) {
        Reading::NotExposed => {
            let all = host.possible().unwrap_or(named);
            let own = OwnFiles::read(&mut look, &all);
            let online = &(&all - &own.offline) - &own.unclear;
            if let Some(doubt) = own.doubt {
                look.doubt(doubt, Some(own.unclear));
            }
            if own.is_any_there { Reading::Value(online) } else { Reading::NotExposed }
        }
        reading => {
            let own = OwnFiles::read(&mut look, &named);
            reading.map(|online| &online - &own.offline)
        }
    };
    look.cpus(reading)
}

/// The CPUs that the plan names: hot ones, and siblings as the plan or the topology has them.
fn named(host: &Host<'_>) -> CpuSet {
    &host.plan.hot_cpus() | &super::plan::idle_cpus(host)
}

/// What the files of some CPUs themselves say.
#[derive(Default)]
struct OwnFiles {
    /// Is any of them there?
    is_any_there: bool,
    /// Those that say 0.
    offline: CpuSet,
    /// Those that are there and say nothing that can be read or understood, and why the first of them does not.
    unclear: CpuSet,
    doubt: Option<Doubt>,
}

impl OwnFiles {
    fn read(look: &mut Look<'_, '_>, cpus: &CpuSet) -> Self {
        let mut own = Self::default();
        for cpu in cpus.iter() {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/online");
            match look.read_if_there(&path).parse(super::parse_integer) {
                Reading::NotExposed | Reading::Unset => continue,
                Reading::Value(0) => own.offline.insert(cpu),
                Reading::Value(1) => {}
                unclear => {
                    own.unclear.insert(cpu);
                    let unclear = unclear.and_then(|number| Reading::<()>::Malformed(number.to_string()));
                    own.doubt = own.doubt.or_else(|| Doubt::of(&path, &unclear));
                }
            }
            own.is_any_there = true;
        }
        own
    }
}

/// Those of some possible CPUs that are shown to be offline.
///
/// An `online` file that is not understood shows nothing; the file of the CPU itself still may.
pub(super) fn offline_among(host: &Host<'_>, cpus: &CpuSet) -> Reading<CpuSet> {
    let own = OwnFiles::read(&mut Look::at(host), cpus);
    let online = host.cpus(ONLINE);
    if online == Reading::NotExposed && !own.is_any_there {
        return Reading::NotExposed;
    }
    let unlisted = online.value().map_or_else(CpuSet::new, |online| cpus - online);
    Reading::Value(&unlisted | &own.offline)
}

fn offline(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(ONLINE).parse(CpuSet::parse_list);
    if let Reading::Malformed(text) = reading {
        look.note(format!("{ONLINE} is malformed (`{text}`): CPUs are taken as online"));
    }
    let named = named(host);
    let own = OwnFiles::read(&mut look, &named);
    if let Some(doubt) = own.doubt.filter(|_| host.cpus(ONLINE) == Reading::NotExposed) {
        look.doubt(doubt, Some(own.unclear));
    }
    let cpus = host.possible().unwrap_or_else(|| named.clone());
    // The files of CPUs that the plan does not name are not looked at: `online` speaks for them.
    let listed = host.cpus(ONLINE).value().map_or_else(CpuSet::new, |online| &cpus - online);
    let among = offline_among(host, &host.within_possible(named));
    look.cpus(among.map(|offline| &offline | &listed))
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

fn smt_active(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let active = look.read(SMT_ACTIVE).parse(super::parse_integer).and_then(|active| match active {
        0 => Reading::Value(false),
        1 => Reading::Value(true),
        other => Reading::Malformed(other.to_string()),
    });
    if let Reading::Value(control) = look.read_if_there(SMT_CONTROL).parse(super::parse_word) {
        look.note_pass(format!("smt/control is {control}"));
    }
    look.answer(active.map(Value::Flag))
}

fn governor(host: &Host<'_>, cpu: u32) -> Observation {
    let mut look = Look::at(host);
    let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    let reading = look.read(&path).parse(super::parse_word);
    if reading == Reading::NotExposed {
        look.note_unknown("virtual machine?");
    }
    look.word(reading)
}
