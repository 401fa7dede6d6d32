//! Packs: groups of built-in rules, by what they are about.

use crate::problem::did_you_mean;

/// A group of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pack {
    /// What a user types: one lowercase word.
    pub name: &'static str,
    /// What its rules are about.
    pub about: &'static str,
}

/// The pack that every host is held against.
pub const BASE: &str = "base";

/// The pack that holds a plan against the topology of a host.
pub const TOPOLOGY: &str = "topology";

/// All packs, in report order.
pub const PACKS: &[Pack] = &[
    Pack { name: BASE, about: "what a quiet CPU cannot do without: the eleven required rules" },
    Pack { name: TOPOLOGY, about: "whether the plan fits the CPUs, cores and nodes" },
    Pack { name: "delivery", about: "what else the kernel may send to a hot CPU, or let run there" },
    Pack { name: "boot", about: "what the boot line asked for, and what became of it" },
    Pack { name: "power", about: "how fast a CPU runs, and how soon it wakes" },
    Pack { name: "memory", about: "what moves, merges or takes away pages, and the pages that are kept ready" },
    Pack { name: "clock", about: "how the time is read" },
    Pack { name: "smt", about: "the second threads of cores" },
    Pack { name: "process", about: "what the process itself may do: its CPUs, its share of them, its priority" },
    Pack { name: "realtime", about: "what a plan with real-time threads needs beyond the base" },
    Pack { name: "information", about: "what to know of the host; nothing is wrong where it does not hold" },
];

/// The pack of that name.
pub fn find(name: &str) -> Option<&'static Pack> {
    PACKS.iter().find(|pack| pack.name == name)
}

/// What to write instead of a name that no pack has.
pub fn hint(name: &str) -> String {
    match did_you_mean(name, PACKS.iter().map(|pack| pack.name)) {
        Some(close) => format!("did you mean `{close}`?"),
        None => format!("the packs are {}", names().join(", ")),
    }
}

/// The names of all packs, in report order.
pub fn names() -> Vec<&'static str> {
    PACKS.iter().map(|pack| pack.name).collect()
}
