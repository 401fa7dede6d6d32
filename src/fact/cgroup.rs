//! Isolation from the scheduler's load balancing, whichever mechanism brought it about.
//!
//! Sources: Documentation/admin-guide/cgroup-v2.rst (cpuset partitions), Documentation/admin-guide/cgroup-v1/cpusets.rst
//! (sched_load_balance), kernel/sched/isolation.c and kernel/cgroup/cpuset.c of Linux 6.12.

use std::path::Path;

use super::cmdline::{self, IsolCpus};
use super::host::quoted;
use super::{Cause, Doubt, Fact, Host, Kind, Look, Observation, Read};
use crate::cpuset::CpuSet;
use crate::reading::{Obstacle, Reading};
use crate::root::Root;

/// The CPUs that `isolcpus=` took out of the scheduler's domains at boot; partitions do not show here.
pub const ISOLATED: &str = "sys/devices/system/cpu/isolated";

/// Where control groups are mounted.
pub(crate) const CGROUPS: &str = "sys/fs/cgroup";

/// Deeper groups and more of them than any service manager makes.
const MAX_DEPTH: usize = 32;
const MAX_GROUPS: usize = 20_000;

/// What tells isolated CPUs.
pub(super) const ISOLATION_FILES: &[&str] = &[
    ISOLATED,
    "sys/fs/cgroup/cpuset.cpus.isolated",
    "sys/fs/cgroup/*/cpuset.cpus.partition",
    "sys/fs/cgroup/*/cpuset.cpus.effective",
    "sys/fs/cgroup/*/cpuset.sched_load_balance",
    "sys/fs/cgroup/*/cpuset.cpus",
    cmdline::PATH,
];

pub(super) const FACTS: &[Fact] = &[Fact {
    name: "cpu.isolated",
    kind: Kind::Cpus,
    files: ISOLATION_FILES,
    about: "the CPUs that the scheduler does not balance load to: isolcpus=, cgroup v2 isolated partitions, cgroup v1 cpusets",
    read: Read::One(isolated),
}];

pub(super) fn isolated(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let hot = host.plan.hot_cpus();
    let named = &hot | &super::plan::idle_cpus(host);
    let mut found = Found { named, ..Found::default() };

    let boot = look.read(ISOLATED).parse(CpuSet::parse_list);
    found.add(&mut look, ISOLATED, "isolcpus", boot);
    let root_file = format!("{CGROUPS}/cpuset.cpus.isolated");
    let partitions = look.read_if_there(&root_file).parse(CpuSet::parse_list);
    found.add(&mut look, &root_file, "cgroup v2 (cpuset.cpus.isolated)", partitions);

    let Walk { groups, unseen, .. } = walk(host.root);
    let v1_root = groups.iter().find(|group| group.is_v1).map(Group::hierarchy);
    for (path, doubt) in &unseen {
        if !v1_root.is_some_and(|root| is_below(path, root)) {
            look.doubt(doubt.clone(), None);
        }
    }
    let mut invalid = Vec::new();
    for group in groups.iter().filter(|group| group.has_partition) {
        partition(&mut look, group, &mut found, &mut invalid);
    }
    if let Some(root) = v1_root {
        let cpusets: Vec<&Group> = groups.iter().filter(|group| is_below(&group.path, root)).collect();
        let unseen = unseen.iter().find(|(path, _)| is_below(path, root)).map(|(_, doubt)| doubt.clone());
        let Unbalanced { least, most, doubt } = unbalanced_by_v1(&mut look, root, &cpusets, unseen);
        found.add(&mut look, CGROUPS, "cgroup v1 (cpuset.sched_load_balance 0)", Reading::Value(least.clone()));
        if let Some(doubt) = doubt.filter(|_| most != Some(least)) {
            look.doubt(doubt, most);
        }
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

/// Is the folder this one, or below it? `cpuset` is not above `cpuset.d`.
fn is_below(path: &str, folder: &str) -> bool {
    Path::new(path).starts_with(folder)
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

/// What cgroup v1 leaves unbalanced.
struct Unbalanced {
    /// For certain.
    least: CpuSet,
    /// At most; none: any CPU.
    most: Option<CpuSet>,
    /// Why the two differ, where they do.
    doubt: Option<Doubt>,
}

/// A CPU is unbalanced when the root's flag is 0 and so is that of every cpuset which holds the CPU. So what cannot be read
/// can only take CPUs away: it leaves none of them certain.
fn unbalanced_by_v1(look: &mut Look<'_, '_>, root: &str, cpusets: &[&Group], unseen: Option<Doubt>) -> Unbalanced {
    let flag_path = format!("{root}/cpuset.sched_load_balance");
    let flag = look.read(&flag_path).parse(super::parse_integer);
    let cpus = look.host.cpus(&format!("{root}/cpuset.cpus")).value().cloned();
    let all = cpus.filter(|cpus| !cpus.is_empty()).or_else(|| look.host.possible());
    let mut balanced = CpuSet::new();
    let mut open = CpuSet::new();
    let mut doubt = unseen;
    let mut is_anything_certain = doubt.is_none();
    match &flag {
        Reading::Value(0) => {}
        Reading::Value(_) => return Unbalanced { least: CpuSet::new(), most: Some(CpuSet::new()), doubt: None },
        other => {
            doubt = doubt.or_else(|| Doubt::of(&flag_path, other));
            is_anything_certain = false;
        }
    }
    for group in cpusets.iter().filter(|group| group.path != root) {
        let flag_path = format!("{}/cpuset.sched_load_balance", group.path);
        let flag = look.host.text(&flag_path).parse(super::parse_integer);
        let cpus = look.host.cpus(&format!("{}/cpuset.cpus", group.path));
        match (flag, cpus) {
            (Reading::Value(0), _) => {}
            (Reading::Value(_), Reading::Value(cpus)) => balanced = &balanced | &cpus,
            (flag, Reading::Value(cpus)) => {
                open = &open | &cpus;
                doubt = doubt.or_else(|| Doubt::of(&flag_path, &flag));
            }
            (_, other) => {
                is_anything_certain = false;
                doubt = doubt.or_else(|| Doubt::of(&format!("{}/cpuset.cpus", group.path), &other));
            }
        }
    }
    let most = all.map(|all| &all - &balanced);
    let least = most.as_ref().filter(|_| is_anything_certain).map_or_else(CpuSet::new, |most| most - &open);
    Unbalanced { least, most, doubt }
}

/// What the boot line asked of `isolcpus=` that is not in force, and why where it can be told.
fn asked_in_vain(look: &mut Look<'_, '_>, missing: &CpuSet) {
    let Some(line) = look.host.boot_line().value() else { return };
    let grammar = cmdline::grammar(look.host);
    let in_vain =
        if look.has_gap() { "asked for; whether it is in force does not show" } else { "asked for and not in force" };
    let mut notes = Vec::new();
    for param in line.all("isolcpus") {
        let asked = param.value.as_deref().map(|value| IsolCpus::parse(value, grammar));
        let shown = quoted(&param.to_string());
        match asked {
            Some(Ok(asked)) if asked.cpus.is_disjoint(missing) => {}
            Some(Ok(asked)) if !asked.domain => notes.push(format!("{shown} lacks the flag domain")),
            Some(Ok(_)) => notes.push(format!("{shown} {in_vain}")),
            Some(Err(_)) | None => notes.push(format!("{shown} is a bad list and was ignored")),
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

impl Group {
    /// The folder that its hierarchy is mounted on: all of them (v2), or the first one below (v1).
    fn hierarchy(&self) -> &str {
        let below = self.path.get(CGROUPS.len() + 1..).unwrap_or_default();
        let first = below.split('/').next().unwrap_or_default();
        self.path.get(..CGROUPS.len() + 1 + first.len()).unwrap_or(CGROUPS)
    }
}

/// What a walk through the control groups came upon.
#[derive(Default)]
pub(crate) struct Walk {
    /// The groups with cpuset files, parents first.
    groups: Vec<Group>,
    /// The folders that could not be looked into.
    unseen: Vec<(String, Doubt)>,
    /// Every folder that was come upon, whether it was looked into or not.
    pub(crate) folders: Vec<String>,
}

/// Below a real group without any cpuset file there can be none: a controller is handed down from parent to child (cgroup
/// v2), or is not mounted there (v1).
pub(crate) fn walk(root: &Root) -> Walk {
    let mut found = Walk { folders: vec![CGROUPS.to_owned()], ..Walk::default() };
    let mut pending = vec![(CGROUPS.to_owned(), 0)];
    let mut visited = 0;
    while let Some((path, depth)) = pending.pop() {
        visited += 1;
        let bound = match (visited > MAX_GROUPS, depth > MAX_DEPTH) {
            (true, _) => Some(format!("more than {MAX_GROUPS} control groups")),
            (_, true) => Some(format!("more than {MAX_DEPTH} control groups deep")),
            _ => None,
        };
        let listing = match bound {
            Some(why) => Reading::Unreadable(Obstacle::Other(why)),
            None => root.list(&path),
        };
        if let Some(doubt) = Doubt::of(&path, &listing).filter(|doubt| doubt.cause != Cause::NotExposed) {
            found.unseen.push((path.clone(), doubt));
        }
        if visited > MAX_GROUPS {
            break;
        }
        let Reading::Value(listing) = listing else { continue };
        found.unseen.extend(Doubt::of(&path, &listing.whole()).map(|doubt| (path.clone(), doubt)));
        let has = |name: &str| listing.entries.iter().any(|entry| entry.name == name);
        let has_cpuset = listing.entries.iter().any(|entry| entry.name.starts_with("cpuset."));
        let is_barren = depth > 0 && has("cgroup.procs") && !has_cpuset && !has("cpuset");
        if !is_barren {
            let folders = listing.entries.iter().filter(|entry| entry.is_dir).rev();
            // Such a name cannot be asked for again.
            if listing.entries.iter().any(|entry| entry.is_dir && entry.name.contains(char::REPLACEMENT_CHARACTER)) {
                let hidden: Reading<()> =
                    Reading::Unreadable(Obstacle::Other("a group whose name is not UTF-8".to_owned()));
                found.unseen.extend(Doubt::of(&path, &hidden).map(|doubt| (path.clone(), doubt)));
            }
            let folders: Vec<String> = folders.map(|entry| format!("{path}/{}", entry.name)).collect();
            found.folders.extend(folders.iter().cloned());
            pending.extend(folders.into_iter().map(|folder| (folder, depth + 1)));
        }
        let has_partition = has("cpuset.cpus.partition");
        let is_v1 = has("cpuset.sched_load_balance");
        if has_partition || is_v1 || has("cpuset.cpus") {
            found.groups.push(Group { path, has_partition, is_v1 });
        }
    }
    found
}
