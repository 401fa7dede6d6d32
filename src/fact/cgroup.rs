//! Isolation from the scheduler's load balancing, whichever mechanism brought it about.
//!
//! Sources: Documentation/admin-guide/cgroup-v2.rst (cpuset partitions), Documentation/admin-guide/cgroup-v1/cpusets.rst
//! (sched_load_balance), kernel/sched/isolation.c and kernel/cgroup/cpuset.c of Linux 6.12.

use super::cmdline::{self, IsolCpus};
use super::host::quoted;
use super::{Fact, Host, Kind, Look, Observation, Read};
use crate::cpuset::CpuSet;
use crate::reading::{NotUnderstood, Obstacle, Reading};

/// The CPUs that `isolcpus=` took out of the scheduler's domains at boot; partitions do not show here.
pub const ISOLATED: &str = "sys/devices/system/cpu/isolated";

const CGROUPS: &str = "sys/fs/cgroup";

/// Deeper groups and more of them than any service manager makes.
const MAX_DEPTH: usize = 32;
const MAX_GROUPS: usize = 20_000;

pub(super) const FACTS: &[Fact] = &[Fact {
    name: "cpu.isolated",
    kind: Kind::Cpus,
    files: &[
        ISOLATED,
        "sys/fs/cgroup/cpuset.cpus.isolated",
        "sys/fs/cgroup/*/cpuset.cpus.partition",
        "sys/fs/cgroup/*/cpuset.cpus.effective",
        "sys/fs/cgroup/*/cpuset.sched_load_balance",
        "sys/fs/cgroup/*/cpuset.cpus",
        cmdline::PATH,
    ],
    about: "the CPUs that the scheduler does not balance load to: isolcpus=, cgroup v2 isolated partitions, cgroup v1 cpusets",
    read: Read::One(isolated),
}];

fn isolated(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let hot = host.plan.hot_cpus();
    let named = &hot | &host.plan.idle.clone().unwrap_or_default();
    let mut found = Found { named, ..Found::default() };

    let boot = look.read(ISOLATED).parse(CpuSet::parse_list);
    found.add(&mut look, ISOLATED, "isolcpus", boot);
    let root_file = format!("{CGROUPS}/cpuset.cpus.isolated");
    let partitions = look.read_if_there(&root_file).parse(CpuSet::parse_list);
    found.add(&mut look, &root_file, "cgroup v2 (cpuset.cpus.isolated)", partitions);

    let groups = walk(&mut look);
    let mut invalid = Vec::new();
    for group in groups.iter().filter(|group| group.has_partition) {
        partition(&mut look, group, &mut found, &mut invalid);
    }
    if groups.iter().any(|group| group.is_v1) {
        let unbalanced = unbalanced_by_v1(&mut look, &groups);
        found.add(&mut look, CGROUPS, "cgroup v1 (cpuset.sched_load_balance 0)", unbalanced);
    }

    let missing = &hot - &found.cpus;
    if !missing.is_empty() {
        for note in invalid {
            look.note_failure(note);
        }
        asked_in_vain(&mut look, &missing);
    }
    if found.is_exposed || look.has_gap() {
        look.cpus(Reading::Value(found.cpus))
    } else {
        look.cpus(Reading::NotExposed)
    }
}

/// The union of what the mechanisms isolate.
#[derive(Default)]
struct Found {
    cpus: CpuSet,
    is_exposed: bool,
    /// The CPUs of the plan, which notes speak of.
    named: CpuSet,
}

impl Found {
    /// Adds one mechanism's CPUs; one that cannot be read leaves a gap, an absent one adds nothing.
    fn add(&mut self, look: &mut Look<'_, '_>, path: &str, mechanism: &str, reading: Reading<CpuSet>) {
        match reading {
            Reading::Value(cpus) => {
                self.is_exposed = true;
                let news = &(&cpus & &self.named) - &self.cpus;
                if !news.is_empty() {
                    look.note_pass(format!("{news} by {mechanism}"));
                }
                self.cpus = &self.cpus | &cpus;
            }
            Reading::NotExposed => {}
            other => look.gap(path, &other),
        }
    }
}

/// A partition counts only when it is exactly `isolated`: an invalid one is `isolated invalid (reason)`, since 6.1 with a
/// reason and not always then, and its CPUs are back in the scheduler's domains.
fn partition(look: &mut Look<'_, '_>, group: &Group, found: &mut Found, invalid: &mut Vec<String>) {
    let path = format!("{}/cpuset.cpus.partition", group.path);
    let kind = look.host.text(&path);
    match kind {
        Reading::Value(text) => {
            found.is_exposed = true;
            let text = super::trim(&text);
            if text == "isolated" {
                let _ = look.read(&path);
                let effective = format!("{}/cpuset.cpus.effective", group.path);
                let name = group.path.strip_prefix(CGROUPS).unwrap_or(&group.path);
                match look.read(&effective).parse(CpuSet::parse_list) {
                    Reading::NotExposed => look.gap::<()>(&effective, &Reading::NotExposed),
                    reading => found.add(look, &effective, &format!("the partition {name}"), reading),
                }
            } else if text.contains("invalid") {
                let _ = look.read(&path);
                invalid.push(format!("{path} reads {}", quoted(text)));
            } else if text == "root" {
                let _ = look.read(&path);
            } else if text != "member" {
                let _ = look.read(&path);
                look.gap::<()>(&path, &Reading::Malformed(crate::reading::quote(text)));
            }
        }
        Reading::NotExposed | Reading::Unset => {}
        other => {
            let _ = look.read(&path);
            look.gap(&path, &other);
        }
    }
}

/// A CPU is unbalanced when the root's flag is 0 and so is that of every cpuset which holds the CPU.
fn unbalanced_by_v1(look: &mut Look<'_, '_>, groups: &[Group]) -> Reading<CpuSet> {
    let mut unbalanced = None;
    for group in groups.iter().filter(|group| group.is_v1) {
        let flag_path = format!("{}/cpuset.sched_load_balance", group.path);
        let flag = look.host.text(&flag_path).parse(super::parse_integer);
        let cpus = look.host.cpus(&format!("{}/cpuset.cpus", group.path));
        // Groups come parents first, so the first one is the hierarchy's root.
        let Some(so_far) = &unbalanced else {
            let _ = look.read(&flag_path);
            match flag {
                Reading::Value(0) => {}
                Reading::Value(_) => return Reading::Value(CpuSet::new()),
                other => return other.map(|_| CpuSet::new()),
            }
            let all = match (cpus, look.host.possible()) {
                (Reading::Value(cpus), _) => cpus,
                (Reading::NotExposed, Some(possible)) => possible,
                (other, _) => return other,
            };
            unbalanced = Some(all);
            continue;
        };
        let balanced = match (flag, cpus) {
            (Reading::Value(0), _) | (Reading::NotExposed, Reading::NotExposed) => continue,
            (_, Reading::Value(cpus)) => cpus,
            (_, other) => return other,
        };
        unbalanced = Some(so_far - &balanced);
    }
    unbalanced.map_or(Reading::NotExposed, Reading::Value)
}

/// What the boot line asked of `isolcpus=` that is not in force, and why where it can be told.
fn asked_in_vain(look: &mut Look<'_, '_>, missing: &CpuSet) {
    let Some(line) = look.host.boot_line().value() else { return };
    let grammar = cmdline::grammar(look.host);
    let mut notes = Vec::new();
    for param in line.all("isolcpus") {
        let asked = param.value.as_deref().map(|value| IsolCpus::parse(value, grammar));
        let shown = quoted(&param.to_string());
        match asked {
            Some(Ok(asked)) if asked.cpus.is_disjoint(missing) => {}
            Some(Ok(asked)) if !asked.domain => notes.push(format!("{shown} lacks the flag domain")),
            Some(Ok(_)) => notes.push(format!("{shown} asked for and not in force")),
            Some(Err(NotUnderstood)) | None => notes.push(format!("{shown} is a bad list and was ignored")),
        }
    }
    for note in notes {
        look.note_failure(note);
    }
}

/// A control group that holds cpuset files.
struct Group {
    path: String,
    has_partition: bool,
    is_v1: bool,
}

/// The groups with cpuset files, parents first. Below a real group without any there can be none: a controller is handed
/// down from parent to child (cgroup v2), or is not mounted there (v1).
fn walk(look: &mut Look<'_, '_>) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut pending = vec![(CGROUPS.to_owned(), 0)];
    let mut visited = 0;
    while let Some((path, depth)) = pending.pop() {
        visited += 1;
        if visited > MAX_GROUPS || depth > MAX_DEPTH {
            let why = Obstacle::Other(format!("more than {MAX_GROUPS} control groups, or more than {MAX_DEPTH} deep"));
            look.gap::<()>(&path, &Reading::Unreadable(why));
            break;
        }
        let listing = match look.host.root.list(&path) {
            Reading::Value(listing) => listing,
            Reading::NotExposed | Reading::Unset => continue,
            other => {
                look.gap(&path, &other);
                continue;
            }
        };
        if listing.cut {
            look.gap::<()>(&path, &Reading::Unreadable(Obstacle::Other("too many entries".to_owned())));
        }
        let has = |name: &str| listing.entries.iter().any(|entry| entry.name == name);
        let has_cpuset = listing.entries.iter().any(|entry| entry.name.starts_with("cpuset."));
        let is_barren = depth > 0 && has("cgroup.procs") && !has_cpuset && !has("cpuset");
        if !is_barren {
            let folders = listing.entries.iter().filter(|entry| entry.is_dir).rev();
            pending.extend(folders.map(|entry| (format!("{path}/{}", entry.name), depth + 1)));
        }
        let (has_partition, is_v1) = (has("cpuset.cpus.partition"), has("cpuset.sched_load_balance"));
        if has_partition || is_v1 {
            groups.push(Group { path, has_partition, is_v1 });
        }
    }
    groups
}
