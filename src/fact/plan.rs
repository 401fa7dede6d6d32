//! What the plan says, as facts; and what of the plan follows from the host where the plan is silent.

use super::cpu::{OFFLINE_FILES, POSSIBLE};
use super::topology::SIBLING_FILES;
use super::{Doubt, Fact, Host, Kind, Look, Observation, Read, Value};
use crate::cpuset::CpuSet;
use crate::reading::{Obstacle, Reading};
use crate::units::Micros;

/// The deepest idle state that a plan allows when it says nothing: POLL and C1.
pub(super) const DEFAULT_MAX_WAKEUP_LATENCY: Micros = Micros(2);

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "plan.hot",
        kind: Kind::Cpus,
        files: &[],
        about: "the CPUs of the plan's hot roles",
        read: Read::One(|host| given(Value::Cpus(host.plan.hot_cpus()))),
    },
    Fact {
        name: "plan.hot_online",
        kind: Kind::Cpus,
        files: OFFLINE_FILES,
        about: "the hot CPUs that are online, as far as the host shows",
        read: Read::One(hot_online),
    },
    Fact {
        name: "plan.idle",
        kind: Kind::Cpus,
        files: SIBLING_FILES,
        about: "the siblings to be left idle: the plan's, else the thread siblings of the hot CPUs that are online",
        read: Read::One(idle),
    },
    Fact {
        name: "plan.housekeeping",
        kind: Kind::Cpus,
        files: &[POSSIBLE],
        about: "the CPUs that do everything else: the plan's, else all possible ones that are neither hot nor idle",
        read: Read::One(housekeeping),
    },
    Fact {
        name: "plan.realtime",
        kind: Kind::Flag,
        files: &[],
        about: "whether hot threads run under SCHED_FIFO, SCHED_RR or SCHED_DEADLINE",
        read: Read::One(|host| given(Value::Flag(host.plan.realtime))),
    },
    Fact {
        name: "plan.locked_memory",
        kind: Kind::Bytes,
        files: &[],
        about: "the memory that the process will lock",
        read: Read::One(|host| {
            observed(host.plan.locked_memory.map_or(Reading::Unset, |b| Reading::Value(Value::Bytes(b))))
        }),
    },
    Fact {
        name: "plan.nic",
        kind: Kind::Word,
        files: &[],
        about: "the interface that the hot path serves",
        read: Read::One(|host| {
            observed(host.plan.nic.clone().map_or(Reading::Unset, |nic| Reading::Value(Value::Word(nic))))
        }),
    },
    Fact {
        name: "plan.max_wakeup_latency",
        kind: Kind::Micros,
        files: &[],
        about: "the exit latency of the deepest idle state that hot CPUs may have; 2us unless the plan says otherwise",
        read: Read::One(|host| {
            given(Value::Micros(host.plan.max_wakeup_latency.unwrap_or(DEFAULT_MAX_WAKEUP_LATENCY)))
        }),
    },
];

fn given(value: Value) -> Observation {
    observed(Reading::Value(value))
}

fn observed(reading: Reading<Value>) -> Observation {
    Observation { reading, gap: None, sources: Vec::new(), notes: Vec::new() }
}

fn hot_online(host: &Host<'_>) -> Observation {
    let hot = host.hot_online();
    let mut look = Look::at(host);
    // Never the empty set: what holds of no CPU is no reason to pass.
    if hot.is_empty() {
        let _ = look.read(super::cpu::ONLINE);
        return look.cpus(Reading::Unreadable(Obstacle::Other("no hot CPU is online".to_owned())));
    }
    look.cpus(Reading::Value(hot))
}

fn idle(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    if let Some(idle) = &host.plan.idle {
        if idle.is_empty() {
            look.note_pass("the plan says that no sibling is to be idle");
        }
        return look.cpus(Reading::Value(idle.clone()));
    }
    let hot = host.plan.hot_cpus();
    let mut siblings = CpuSet::new();
    let mut is_any_known = false;
    for cpu in host.hot_online().iter() {
        match super::topology::threads(&mut look, cpu) {
            Reading::Value(threads) => {
                siblings = &siblings | &threads;
                is_any_known = true;
            }
            other => look.gap(&format!("threads of CPU {cpu}'s core"), &other),
        }
    }
    let siblings = &siblings - &hot;
    if !is_any_known {
        let answer = if host.hot_online().is_empty() {
            Reading::Unreadable(Obstacle::Other("no hot CPU is online".to_owned()))
        } else {
            Reading::NotExposed
        };
        return look.cpus(answer);
    }
    if siblings.is_empty() && !look.has_gap() {
        look.note_pass("no sibling online");
    }
    look.cpus(Reading::Value(siblings))
}

/// The siblings to be left idle, as far as they are known.
pub(super) fn idle_cpus(host: &Host<'_>) -> CpuSet {
    let observation = super::find("plan.idle").map(|fact| host.observe(fact, idle));
    match observation.as_ref().map(|observation| &observation.reading) {
        Some(Reading::Value(Value::Cpus(idle))) => idle.clone(),
        _ => CpuSet::new(),
    }
}

/// Where the host does not say which CPUs are possible, nothing but the plan's own list is known; where it does not say which
/// siblings the hot CPUs have, any other CPU may be one.
pub(super) fn housekeeping(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    if let Some(housekeeping) = &host.plan.housekeeping {
        return look.cpus(Reading::Value(housekeeping.clone()));
    }
    let possible = look.read(POSSIBLE).parse(CpuSet::parse_list);
    let siblings = idle(host);
    let doubt = siblings.gap.map(|gap| gap.doubt).or_else(|| Doubt::of("siblings of hot CPUs", &siblings.reading));
    let taken = &host.plan.hot_cpus() | &idle_cpus(host);
    let rest = possible.map(|possible| &possible - &taken);
    if let (Some(doubt), Reading::Value(rest)) = (doubt, &rest) {
        look.doubt(doubt, Some(rest.clone()));
        return look.cpus(Reading::Value(CpuSet::new()));
    }
    look.cpus(rest)
}
