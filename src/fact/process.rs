//! Processes: which run, and what the one that moves interrupts is told to keep off.
//!
//! Sources: proc(5); irqbalance(1) and its changes to 2026-03 (1.1.0 bans isolated and tickless CPUs by itself, 1.8.0 knows
//! `IRQBALANCE_BANNED_CPULIST`).

use super::host::Look;
use super::{Doubt, Fact, Host, Kind, Observation, Read, Source, Value};
use crate::cpuset::{CpuSet, ListError};
use crate::reading::Reading;
use crate::root::Root;

pub(super) const PROC: &str = "proc";

/// The name of process 2 of a host.
pub(super) const KTHREADD: &str = "kthreadd";

/// The files that runtimes leave in a container to say that it is one. Not all leave any (containerd does not).
pub(super) const MARKS: [&str; 3] = ["run/systemd/container", "run/.containerenv", ".dockerenv"];

/// The daemon's name, as `comm` has it.
pub(crate) const IRQBALANCE: &str = "irqbalance";

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "process.names",
        kind: Kind::Words,
        files: &["proc/*/comm", MARKS[0], MARKS[1], MARKS[2]],
        about: "the names (comm) of all processes; not exposed in a container or where processes are hidden",
        read: Read::One(names),
    },
    Fact {
        name: "irqbalance.banned",
        kind: Kind::Cpus,
        files: &[
            "proc/*/comm",
            "proc/*/environ",
            super::cgroup::ISOLATED,
            super::cpu::NOHZ_FULL,
            "proc/irq/*/smp_affinity_list",
        ],
        about: "the CPUs that the running irqbalance keeps interrupts off: by its environment, else isolated and tickless ones",
        read: Read::One(irqbalance_banned),
    },
];

/// The processes that can be seen.
pub(super) struct Processes {
    names: Vec<(u32, String)>,
    gap: Option<Doubt>,
}

impl Processes {
    /// Reads the name of every process.
    ///
    /// Not exposed where process 1 cannot be seen (`hidepid`), and in a container, whose own processes say nothing of the
    /// host's; kernel threads are seen only where all processes are.
    pub(super) fn read(host: &Host<'_>) -> Reading<Self> {
        let listing = host.root.list(PROC);
        let first = name(host.root, 1);
        listing.and_then(|listing| {
            if !matches!(first, Reading::Value(_)) {
                return first.and_then(|_| Reading::NotExposed);
            }
            if is_in_container(host.root) {
                return Reading::NotExposed;
            }
            let mut processes = Self { names: Vec::new(), gap: Doubt::of(PROC, &listing.whole()) };
            for pid in listing.numbers("") {
                match name(host.root, pid) {
                    Reading::Value(name) => processes.names.push((pid, name)),
                    // It ended while we looked.
                    Reading::NotExposed | Reading::Unset => {}
                    other => processes.gap = processes.gap.or_else(|| Doubt::of(&format!("{PROC}/{pid}/comm"), &other)),
                }
            }
            Reading::Value(processes)
        })
    }

    /// Has one of them a name like that?
    pub(super) fn has_named(&self, is_it: impl Fn(&str) -> bool) -> bool {
        self.names.iter().any(|(_, name)| is_it(name))
    }

    /// What could not be read of them.
    pub(super) fn gap(&self) -> Option<&Doubt> {
        self.gap.as_ref()
    }

    /// Their numbers and names.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &str)> {
        self.names.iter().map(|(pid, name)| (*pid, name.as_str()))
    }

    pub(super) fn source(&self) -> Source {
        Source::summary("proc/*/comm", format!("{} names", self.names.len()))
    }
}

/// `comm` is bytes: a process may give itself any. Only the newline that procfs adds comes off.
fn name(root: &Root, pid: u32) -> Reading<String> {
    root.read_bytes(&format!("{PROC}/{pid}/comm")).map(|mut bytes| {
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Process 2 of a host is `kthreadd`, and of a container it is another or none. But a tree may lack process 2 for want of
/// interest: it is a container when it has a mark, or when `capture.toml` says that the host was one without.
pub(super) fn is_in_container(root: &Root) -> bool {
    name(root, 2).value().is_none_or(|name| name != KTHREADD) && (root.may_be_unmarked_container() || is_marked(root))
}

fn is_marked(root: &Root) -> bool {
    MARKS.iter().any(|mark| root.exists(mark).value().is_some())
}

/// Is this a container without a mark, so that a tree made of it has to say so?
pub(crate) fn is_unmarked_container(root: &Root) -> bool {
    // Without process 1 nobody asks whether the others are those of a host.
    name(root, 1).value().is_some() && is_in_container(root) && !is_marked(root)
}

fn names(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let processes = host.processes();
    match processes {
        Reading::Value(processes) => look.source(processes.source()),
        other => {
            look.source(Source::unread("proc/1/comm", other));
            look.note("the processes of the host are not visible");
        }
    }
    let reading = processes.as_ref().map(|processes| {
        if let Some(doubt) = &processes.gap {
            look.doubt(doubt.clone(), None);
        }
        Value::Words(processes.names.iter().map(|(_, name)| name.clone()).collect())
    });
    look.answer(reading)
}

/// The variables by which irqbalance is told what to keep off: a mask, and a list for want of a mask.
pub(crate) const BANNED_VARIABLES: [&str; 2] = ["IRQBALANCE_BANNED_CPUS", "IRQBALANCE_BANNED_CPULIST"];

/// What an irqbalance says of CPUs in its environment.
#[derive(Debug, PartialEq, Eq)]
enum Banned {
    /// Neither variable is set to anything.
    Nothing,
    /// The variable that counts, and its CPUs or what is wrong with it.
    By(&'static str, Result<CpuSet, ListError>),
}

/// Reads an environment (`/proc/PID/environ`, separated by NULs). The mask goes before the list; an empty one is unset.
fn banned_by_environment(environ: &str) -> Banned {
    let variable = |name: &str| {
        let values = environ.split('\0').filter_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
        values.map(super::trim).find(|value| !value.is_empty())
    };
    let [by_mask, by_list] = BANNED_VARIABLES;
    if let Some(mask) = variable(by_mask) {
        return Banned::By(by_mask, CpuSet::parse_mask(mask));
    }
    match variable(by_list) {
        Some(list) => Banned::By(by_list, CpuSet::parse_list(list)),
        None => Banned::Nothing,
    }
}

fn irqbalance_banned(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = host.processes().as_ref().and_then(|processes| {
        let pids: Vec<u32> =
            processes.names.iter().filter(|(_, name)| name == IRQBALANCE).map(|(pid, _)| *pid).collect();
        if pids.is_empty() {
            // Asked only beside `process.names`, which says whether all processes could be seen.
            return Reading::NotExposed;
        }
        let mut banned: Option<CpuSet> = None;
        for pid in pids {
            let by_this_one = banned_by_process(&mut look, pid);
            banned = Some(banned.map_or_else(|| by_this_one.clone(), |by_others| &by_others & &by_this_one));
        }
        Reading::Value(banned.unwrap_or_default())
    });
    look.cpus(reading)
}

/// What one running irqbalance keeps off. No evidence of a ban is no ban.
fn banned_by_process(look: &mut Look<'_, '_>, pid: u32) -> CpuSet {
    let path = format!("{PROC}/{pid}/environ");
    let _ = look.read(&format!("{PROC}/{pid}/comm"));
    let environ = look.host.root.read_bytes(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    match environ.as_ref().map(|environ| banned_by_environment(environ)) {
        Reading::Value(Banned::By(name, Ok(cpus))) => {
            look.source(Source::summary(&path, format!("{name} bans {cpus}")));
            look.note(format!("irqbalance (pid {pid}) runs; {name} bans {}", Value::Cpus(cpus.clone())));
            cpus
        }
        Reading::Value(Banned::By(name, Err(error))) => {
            look.source(Source::summary(&path, format!("{name}: {error}")));
            look.note(format!("irqbalance (pid {pid}) runs; {name} is not understood: {error}"));
            CpuSet::new()
        }
        Reading::Value(Banned::Nothing) => {
            look.source(Source::summary(&path, "neither IRQBALANCE_BANNED variable".to_owned()));
            banned_by_itself(look, pid)
        }
        other => {
            look.source(Source::unread(&path, &other));
            let why = Doubt::of("environ", &other).map_or_else(String::new, |doubt| format!(" ({doubt})"));
            look.note(format!("irqbalance (pid {pid}) runs and nothing shows what it keeps off{why}"));
            CpuSet::new()
        }
    }
}

/// Told nothing, irqbalance 1.1.0 and newer keeps off isolated and tickless CPUs. Older ones do not, and what neither does
/// is to move a line that is already there: lines that touch hot CPUs show that this one does not keep off.
fn banned_by_itself(look: &mut Look<'_, '_>, pid: u32) -> CpuSet {
    match super::irq::lines_touching_hot(look.host) {
        Err(doubt) => {
            look.note(format!("irqbalance (pid {pid}) runs and was told nothing"));
            look.doubt(doubt, None);
            return CpuSet::new();
        }
        Ok(lines) if !lines.is_empty() => {
            let lines: Vec<String> = lines.iter().take(8).map(u32::to_string).collect();
            look.note(format!("irqbalance (pid {pid}) runs, and lines touch hot CPUs: {}", lines.join(", ")));
            return CpuSet::new();
        }
        Ok(_) => {}
    }
    let mut banned = CpuSet::new();
    for path in [super::cgroup::ISOLATED, super::cpu::NOHZ_FULL] {
        match look.read(path).parse(CpuSet::parse_list) {
            Reading::Value(cpus) => banned = &banned | &cpus,
            Reading::NotExposed | Reading::Unset => {}
            other => look.gap(path, &other),
        }
    }
    let shown = Value::Cpus(banned.clone());
    look.note(format!(
        "irqbalance (pid {pid}) runs; 1.1.0 and newer ban isolated and tickless CPUs by themselves: {shown}"
    ));
    banned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banned(environ: &str) -> String {
        match banned_by_environment(environ) {
            Banned::Nothing => "nothing".to_owned(),
            Banned::By(name, Ok(cpus)) => format!("{name} {cpus}"),
            Banned::By(name, Err(_)) => format!("{name} error"),
        }
    }

    #[test]
    fn the_two_variables_of_irqbalance() {
        assert_eq!(banned("PATH=/bin\0"), "nothing");
        assert_eq!(banned(""), "nothing");
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=f8\0"), "IRQBALANCE_BANNED_CPUS 3-7");
        assert_eq!(banned("A=b\0IRQBALANCE_BANNED_CPULIST=2-5\0"), "IRQBALANCE_BANNED_CPULIST 2-5");
        assert_eq!(banned("IRQBALANCE_BANNED_CPULIST=2-5\0IRQBALANCE_BANNED_CPUS=10\0"), "IRQBALANCE_BANNED_CPUS 4");
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=\0IRQBALANCE_BANNED_CPULIST=2-5\0"), "IRQBALANCE_BANNED_CPULIST 2-5");
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=\0"), "nothing");
        assert_eq!(banned("IRQBALANCE_BANNED_CPULIST=2-x\0"), "IRQBALANCE_BANNED_CPULIST error");
        assert_eq!(banned("XIRQBALANCE_BANNED_CPUS=f\0IRQBALANCE_BANNED_CPUSX=f\0"), "nothing");
    }
}
