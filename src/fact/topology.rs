//! How the plan's CPUs lie on the host: cores, nodes, the network interface.
//!
//! Sources: Documentation/admin-guide/cputopology.rst, Documentation/ABI/stable/sysfs-devices-node,
//! Documentation/ABI/testing/sysfs-bus-pci (numa_node).

use super::cgroup::{self, ISOLATION_FILES};
use super::cpu::{ONLINE, POSSIBLE};
use super::host::Look;
use super::{Fact, Host, Kind, Observation, Read, Source, Value};
use crate::cpuset::CpuSet;
use crate::reading::{Obstacle, Reading};
use crate::topology;

/// Where the threads of a core are listed; the first one that is there counts.
pub(super) const SIBLING_FILES: &[&str] = &[
    "sys/devices/system/cpu/cpu*/topology/thread_siblings_list",
    "sys/devices/system/cpu/cpu*/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu*/topology/thread_siblings",
    "sys/devices/system/cpu/cpu*/topology/core_cpus",
];

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "topology.siblings",
        kind: Kind::Cpus,
        files: SIBLING_FILES,
        about: "the online thread siblings of hot CPUs that are not hot themselves",
        read: Read::One(siblings),
    },
    Fact {
        name: "topology.shared_cores",
        kind: Kind::Cpus,
        files: SIBLING_FILES,
        about: "the hot CPUs that share a physical core with another hot CPU",
        read: Read::One(shared_cores),
    },
    Fact {
        name: "topology.nic_node",
        kind: Kind::Cpus,
        files: &[
            "sys/class/net/*/device/numa_node",
            "sys/class/net/*/device/../numa_node",
            "sys/devices/system/node/node*/cpulist",
        ],
        about: "the CPUs of the NUMA node of the plan's NIC; not exposed when the plan names none",
        read: Read::One(nic_node),
    },
    Fact {
        name: "topology.boot_cpu",
        kind: Kind::Cpus,
        files: &[ONLINE],
        about: "CPU 0, which boots and keeps work that cannot be moved",
        read: Read::One(boot_cpu),
    },
    Fact {
        name: "topology.housekeeping_online",
        kind: Kind::Integer,
        files: &[ONLINE, POSSIBLE, SIBLING_FILES[0], SIBLING_FILES[1], SIBLING_FILES[2], SIBLING_FILES[3]],
        about: "how many housekeeping CPUs are online",
        read: Read::One(housekeeping_online),
    },
    Fact {
        name: "topology.isolated_housekeeping",
        kind: Kind::Cpus,
        files: ISOLATION_FILES,
        about: "the CPUs that the plan lists as housekeeping and that the scheduler balances nothing to; none where it lists none",
        read: Read::One(isolated_housekeeping),
    },
];

/// The threads of a CPU's core, with the file kept as a source.
pub(super) fn threads(look: &mut Look<'_, '_>, cpu: u32) -> Reading<CpuSet> {
    let threads = topology::threads(look.host.root, cpu);
    let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    look.source(Source::of(&path, &threads.as_ref().map(CpuSet::to_string)));
    threads
}

fn siblings(host: &Host<'_>) -> Observation {
    of_hot_cores(host, |threads, hot| threads - hot)
}

fn shared_cores(host: &Host<'_>) -> Observation {
    of_hot_cores(host, |threads, hot| {
        let together = threads & hot;
        if together.len() > 1 { together } else { CpuSet::new() }
    })
}

/// The union over the cores of hot CPUs that are online; a core that cannot be read leaves a gap.
fn of_hot_cores(host: &Host<'_>, pick: impl Fn(&CpuSet, &CpuSet) -> CpuSet) -> Observation {
    let mut look = Look::at(host);
    let hot = host.plan.hot_cpus();
    let mut picked = CpuSet::new();
    let mut is_any_known = false;
    for cpu in host.hot_online().iter() {
        match threads(&mut look, cpu) {
            Reading::Value(threads) => {
                is_any_known = true;
                picked = &picked | &pick(&threads, &hot);
            }
            other => look.gap(&format!("threads of CPU {cpu}'s core"), &other),
        }
    }
    look.cpus(if is_any_known { Reading::Value(picked) } else { Reading::NotExposed })
}

fn nic_node(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let Some(nic) = &host.plan.nic else { return look.cpus(Reading::NotExposed) };
    let node = topology::nic_node(host.root, nic);
    let path = format!("sys/class/net/{nic}/device/numa_node");
    look.source(Source::of(&path, &node.as_ref().map(u32::to_string)));
    // Where all CPUs are on one node, that is the nearest one, whatever the firmware says of the device.
    let online = host.cpus(ONLINE);
    let nodes = online.value().map(|online| topology::nodes(host.root, online));
    if let (Reading::NotExposed | Reading::Unset, Some(Reading::Value(nodes))) = (&node, &nodes)
        && let [only] = nodes.as_slice()
    {
        look.note_pass("the host has one node");
        return look.cpus(Reading::Value(only.cpus.clone()));
    }
    let reading = match node {
        // Not the answer "not exposed", which the rule keeps for a plan without a NIC.
        Reading::NotExposed | Reading::Unset => {
            Reading::Unreadable(Obstacle::Other(format!("the node of {nic} is not known")))
        }
        node => node.and_then(|node| {
            let path = format!("sys/devices/system/node/node{node}/cpulist");
            look.read(&path).parse(CpuSet::parse_list)
        }),
    };
    // A node of memory alone has no CPU to be near to.
    let reading = match reading {
        Reading::Value(cpus) if cpus.is_empty() => {
            Reading::Unreadable(Obstacle::Other(format!("the node of {nic} has no CPU")))
        }
        reading => reading,
    };
    look.cpus(reading)
}

fn boot_cpu(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let online = look.read(ONLINE);
    look.cpus(online.map(|_| CpuSet::from_range(0..=0)))
}

fn housekeeping_online(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let online = look.read(ONLINE).parse(CpuSet::parse_list);
    let housekeeping = super::plan::housekeeping(host);
    if let Some(gap) = housekeeping.gap {
        look.doubt(gap.doubt, None);
    }
    let reading = online.and_then(|online| {
        housekeeping.reading.and_then(|value| match value {
            Value::Cpus(cpus) => Reading::Value(i64::try_from((&cpus & &online).len()).unwrap_or(i64::MAX)),
            _ => Reading::NotExposed,
        })
    });
    look.answer(reading.map(Value::Integer))
}

/// Where the plan lists none, any other CPU is housekeeping, and those that are isolated may be another plan's.
fn isolated_housekeeping(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let Some(listed) = &host.plan.housekeeping else { return look.cpus(Reading::Value(CpuSet::new())) };
    let isolated = cgroup::isolated(host);
    for source in isolated.sources {
        look.source(source);
    }
    if let Some(gap) = isolated.gap {
        look.doubt(gap.doubt, Some(gap.cpus.map_or_else(|| listed.clone(), |cpus| &cpus & listed)));
    }
    look.answer(isolated.reading.map(|value| match value {
        Value::Cpus(cpus) => Value::Cpus(&cpus & listed),
        other => other,
    }))
}
