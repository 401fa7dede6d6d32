//! What the audit's own process may do, and with it the service that the audit runs in as `ExecStartPre=`: on which CPUs it
//! may run, how much of them it may use, and whether its threads may be real-time.
//!
//! Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst (cpu.max, cpuset.cpus.effective),
//! Documentation/scheduler/sched-bwc.rst, Documentation/scheduler/sched-rt-group.rst, kernel/sched/syscalls.c of Linux 6.12,
//! getrlimit(2), capabilities(7).

use super::cgroup::CGROUPS;
use super::host::Look;
use super::kernel::BuildOption;
use super::memory::{LIMITS, STATUS, UID_MAP, holds, is_in_initial_user_namespace, parse_limit};
use super::{Fact, Host, Kind, Observation, Read, Source, Value, cmdline, kernel, sched};
use crate::cpuset::CpuSet;
use crate::reading::{NotUnderstood, Obstacle, Reading};
use crate::root::Root;
use crate::units::Bytes;

/// The control groups of the audit's own process, one a hierarchy.
pub(crate) const OWN_GROUPS: &str = "proc/self/cgroup";

/// Where it is, cgroup v2 is mounted on the folder of control groups itself, and not beside hierarchies of v1.
const V2_MARK: &str = "sys/fs/cgroup/cgroup.controllers";

/// The controllers that reach down to a group of cgroup v2, which then has their files.
const CONTROLLERS: &str = "sys/fs/cgroup/*/cgroup.controllers";

/// Since this version a parameter and an option of the build say whether real-time groups are in force.
const RT_GROUP_PARAMETER_SINCE: (u32, u32) = (6, 16);

/// `CAP_SYS_NICE` of include/uapi/linux/capability.h: a process that holds it may take any real-time priority.
const CAP_SYS_NICE: u32 = 23;
/// `MAX_RT_PRIO - 1`: the highest one.
const HIGHEST_PRIORITY: i64 = 99;

/// What is read in the groups of the process, from its own up to the one that its hierarchy begins with.
pub(crate) const OWN_FILES: &[&str] = &[
    "cgroup.controllers",
    "cgroup.events",
    "cgroup.type",
    "release_agent",
    "cpu.max",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.rt_runtime_us",
    "cpuset.effective_cpus",
];

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "limits.cpu_quota",
        kind: Kind::Word,
        files: &[
            OWN_GROUPS,
            V2_MARK,
            "sys/fs/cgroup/*/cpu.max",
            "sys/fs/cgroup/*/cpu.cfs_quota_us",
            "sys/fs/cgroup/*/cpu.cfs_period_us",
            CONTROLLERS,
            "sys/fs/cgroup/*/cgroup.events",
            "sys/fs/cgroup/*/cgroup.type",
            "sys/fs/cgroup/*/release_agent",
        ],
        about: "`max` where no control group above the audit's own process has a CPU quota; else the tightest, `50000/100000` for half a CPU",
        read: Read::One(cpu_quota),
    },
    Fact {
        name: "limits.cpus",
        kind: Kind::Cpus,
        files: &[
            OWN_GROUPS,
            V2_MARK,
            CONTROLLERS,
            "sys/fs/cgroup/*/cpuset.cpus.effective",
            "sys/fs/cgroup/*/cpuset.effective_cpus",
            "sys/fs/cgroup/*/cpuset.cpus",
            STATUS,
        ],
        about: "the CPUs that the cpuset of the audit's own process lets it run on, whatever its affinity is now",
        read: Read::One(cpus),
    },
    Fact {
        name: "limits.rtprio",
        kind: Kind::Integer,
        files: &[LIMITS, STATUS, UID_MAP],
        about: "the highest real-time priority that the audit's own process may take: its soft limit, or 99 with CAP_SYS_NICE in the initial user namespace",
        read: Read::One(rtprio),
    },
    Fact {
        name: "limits.rttime",
        kind: Kind::Word,
        files: &[LIMITS],
        about: "the microseconds after which the kernel signals a real-time thread of the audit's own process that never blocks, or `unlimited`",
        read: Read::One(rttime),
    },
    Fact {
        name: "limits.rt_group",
        kind: Kind::Flag,
        files: &[
            OWN_GROUPS,
            V2_MARK,
            CONTROLLERS,
            "sys/fs/cgroup/*/cpu.rt_runtime_us",
            "sys/fs/cgroup/*/cgroup.events",
            "sys/fs/cgroup/*/cgroup.type",
            sched::RT_RUNTIME,
            kernel::CONFIG_GZ,
            "boot/config-*",
            kernel::OSRELEASE,
            cmdline::PATH,
        ],
        about: "whether the control group of the audit's own process lets its threads be real-time",
        read: Read::One(rt_group),
    },
];

// ---- the groups of the process -------------------------------------------------------------------------------------

/// The control group of the process in the hierarchy of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnGroup {
    /// The folder that the hierarchy is mounted on.
    mount: String,
    /// The group below it, `/` for the first one.
    path: String,
    /// The line that says so.
    line: String,
    is_v2: bool,
}

impl OwnGroup {
    /// The folders of the group and of those above it, its own first.
    fn folders(&self) -> Vec<String> {
        let mut folders = Vec::new();
        let mut path = self.path.trim_end_matches('/');
        while let Some((above, _)) = path.rsplit_once('/') {
            folders.push(format!("{}{path}", self.mount));
            path = above;
        }
        folders.push(self.mount.clone());
        folders
    }

    /// Is the folder that the hierarchy is mounted on its first group, and not that of a namespace? By files that every
    /// group has but the first one (v2), or that only this one has (v1).
    fn is_whole(&self, root: &Root) -> bool {
        let is_there = |name: &&str| root.exists(&format!("{}/{name}", self.mount)).value().is_some();
        if self.is_v2 { !["cgroup.type", "cgroup.events"].iter().any(is_there) } else { is_there(&"release_agent") }
    }
}

/// A line of `/proc/self/cgroup`: the controllers of the hierarchy (none for v2), and the group.
#[derive(Debug, PartialEq, Eq)]
struct Membership<'t> {
    line: &'t str,
    controllers: Vec<&'t str>,
    path: &'t str,
}

/// Reads a line of `/proc/PID/cgroup`: `4:cpu,cpuacct:/system.slice`, `0::/system.slice`.
fn membership(line: &str) -> Option<Membership<'_>> {
    let mut parts = line.splitn(3, ':');
    let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let is_one = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) && path.starts_with('/');
    is_one.then(|| Membership {
        line,
        controllers: controllers.split(',').filter(|name| !name.is_empty()).collect(),
        path,
    })
}

/// Reads `/proc/PID/cgroup`.
///
/// # Errors
/// A line of another form.
fn parse_memberships(text: &str) -> Result<Vec<Membership<'_>>, NotUnderstood> {
    text.lines().filter(|line| !line.is_empty()).map(|line| membership(line).ok_or(NotUnderstood)).collect()
}

/// The group of the process in the hierarchy that has this controller: its own one (v1), else the common one (v2).
fn own_group(root: &Root, memberships: &[Membership<'_>], controller: &str) -> Reading<OwnGroup> {
    let is_there = |mount: &String| root.exists(mount).value().is_some();
    let v1 = memberships.iter().find(|own| own.controllers.contains(&controller));
    let v2 = || memberships.iter().find(|own| own.controllers.is_empty());
    let Some(own) = v1.or_else(v2) else { return Reading::NotExposed };
    // Where systemd and docker mount them; `cpu` is a link to `cpu,cpuacct` where these are one hierarchy.
    let candidates = if v1.is_some() {
        [own.controllers.join(","), controller.to_owned()].map(|name| format!("{CGROUPS}/{name}")).to_vec()
    } else if root.exists(V2_MARK).value().is_some() {
        vec![CGROUPS.to_owned()]
    } else {
        vec![format!("{CGROUPS}/unified")]
    };
    let Some(mount) = candidates.into_iter().find(is_there) else { return Reading::NotExposed };
    let group = OwnGroup { mount, path: own.path.to_owned(), line: own.line.to_owned(), is_v2: v1.is_none() };
    // What lies outside of a namespace is shown as a way out of it, or not at all.
    let is_shown = !own.path.split('/').any(|part| part == "..")
        && group.folders().first().is_some_and(|own| root.exists(own).value().is_some());
    if is_shown {
        return Reading::Value(group);
    }
    Reading::Unreadable(Obstacle::Other(format!("the group {} is not visible here", own.path)))
}

/// The group of the process in the hierarchy of a controller, with what says so kept as a source.
fn own(look: &mut Look<'_, '_>, controller: &str) -> Reading<OwnGroup> {
    let root = look.host.root;
    let text = look.host.text(OWN_GROUPS);
    let whole = Source::of(OWN_GROUPS, &text);
    let group = text.and_then(|text| match parse_memberships(&text) {
        Ok(memberships) => own_group(root, &memberships, controller),
        Err(NotUnderstood) => Reading::Malformed(crate::reading::quote(&text)),
    });
    // Of some ten hierarchies one is asked about.
    look.source(group.value().map_or(whole, |group| Source::summary(OWN_GROUPS, group.line.clone())));
    group
}

/// The folders of the groups of the process in all hierarchies that facts read of, those above them too.
pub(crate) fn own_folders(root: &Root) -> Vec<String> {
    let text = root.read(OWN_GROUPS);
    let memberships = text.value().and_then(|text| parse_memberships(text).ok()).unwrap_or_default();
    let groups = ["cpu", "cpuset"].iter().filter_map(|name| own_group(root, &memberships, name).value().cloned());
    let mut folders: Vec<String> = groups.flat_map(|group| group.folders()).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// Does a controller reach down to a group of cgroup v2? All do to the first one.
fn reaches(look: &mut Look<'_, '_>, folder: &str, controller: &str) -> Reading<bool> {
    let controllers = look.read_if_there(&format!("{folder}/cgroup.controllers"));
    controllers.map(|names| names.split_ascii_whitespace().any(|name| name == controller))
}

// ---- how much of a CPU -------------------------------------------------------------------------------------------------

/// A CPU quota: so many microseconds of CPU time in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quota {
    quota: u64,
    period: u64,
}

impl Quota {
    /// Is this less CPU time than the other?
    fn is_tighter(self, other: Self) -> bool {
        u128::from(self.quota) * u128::from(other.period) < u128::from(other.quota) * u128::from(self.period)
    }
}

/// Reads `cpu.max`: `max 100000`, `50000 100000`. None is no quota.
///
/// # Errors
/// Other text.
fn parse_cpu_max(text: &str) -> Result<Option<Quota>, NotUnderstood> {
    let words: Vec<&str> = super::trim(text).split_ascii_whitespace().collect();
    match words.as_slice() {
        ["max", period] => period.parse::<u64>().map(|_| None).map_err(|_| NotUnderstood),
        [quota, period] => quota_of(quota, period).map(Some),
        _ => Err(NotUnderstood),
    }
}

fn quota_of(quota: &str, period: &str) -> Result<Quota, NotUnderstood> {
    match (quota.parse(), period.parse()) {
        (Ok(quota), Ok(period)) if period > 0 => Ok(Quota { quota, period }),
        _ => Err(NotUnderstood),
    }
}

fn cpu_quota(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = own(&mut look, "cpu").and_then(|group| {
        let mut tightest: Option<(Quota, String)> = None;
        let mut unseen: Option<(String, Reading<()>)> = None;
        for folder in group.folders() {
            let (path, quota) = quota_in(&mut look, &group, &folder);
            match quota {
                Reading::Value(Some(quota)) => {
                    if tightest.as_ref().is_none_or(|(least, _)| quota.is_tighter(*least)) {
                        tightest = Some((quota, folder));
                    }
                }
                Reading::Value(None) | Reading::Unset => {}
                other => unseen = unseen.take().or(Some((path, other.map(|_| ())))),
            }
        }
        // What could not be seen could only take more.
        let Some((Quota { quota, period }, folder)) = tightest else {
            if !group.is_whole(host.root) {
                let why = Obstacle::Other("is the first group of a namespace: those above it do not show".to_owned());
                look.gap::<()>(&group.mount, &Reading::Unreadable(why));
            }
            if let Some((path, why)) = unseen {
                look.gap(&path, &why);
            }
            return Reading::Value("max".to_owned());
        };
        look.note_failure(format!("{quota} us of each {period} us by {folder}"));
        Reading::Value(format!("{quota}/{period}"))
    });
    look.word(reading)
}

/// The file that has the quota of a group, and what it says.
fn quota_in(look: &mut Look<'_, '_>, group: &OwnGroup, folder: &str) -> (String, Reading<Option<Quota>>) {
    if group.is_v2 {
        let path = format!("{folder}/cpu.max");
        let quota = match look.read_if_there(&path).parse(parse_cpu_max) {
            // The first group has none, and one that the controller does not reach down to has none of its own.
            Reading::NotExposed if folder == group.mount && group.is_whole(look.host.root) => Reading::Value(None),
            Reading::NotExposed if reaches(look, folder, "cpu") == Reading::Value(false) => Reading::Value(None),
            answer => answer,
        };
        return (path, quota);
    }
    let path = format!("{folder}/cpu.cfs_quota_us");
    let quota = match look.read_if_there(&path).parse(super::parse_integer) {
        // A kernel without quotas has the file in no group.
        Reading::NotExposed if !is_there(look, &group.mount, "cpu.cfs_quota_us") => Reading::Value(None),
        answer => answer.and_then(|quota| match u64::try_from(quota) {
            Err(_) => Reading::Value(None),
            Ok(quota) => look
                .read(&format!("{folder}/cpu.cfs_period_us"))
                .parse(|period| quota_of(&quota.to_string(), super::trim(period)).map(Some)),
        }),
    };
    (path, quota)
}

fn is_there(look: &Look<'_, '_>, folder: &str, name: &str) -> bool {
    look.host.root.exists(&format!("{folder}/{name}")).value().is_some()
}

// ---- on which CPUs -----------------------------------------------------------------------------------------------------

/// By the cpuset: `Cpus_allowed_list` is what the process is bound to now, and with `isolcpus=` a process may bind itself to
/// CPUs that are not in it. Where no cpuset shows, that list is what is certain.
fn cpus(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let allowed = own(&mut look, "cpuset").and_then(|group| {
        let list = |look: &mut Look<'_, '_>, folder: &str, name: &str| {
            look.read_if_there(&format!("{folder}/{name}")).parse(CpuSet::parse_list)
        };
        if !group.is_v2 {
            let folder = group.folders().into_iter().next().unwrap_or_default();
            return match list(&mut look, &folder, "cpuset.effective_cpus") {
                Reading::NotExposed => list(&mut look, &folder, "cpuset.cpus"),
                answer => answer,
            };
        }
        // Where the controller does not reach down to a group, the nearest one above it counts.
        for folder in group.folders() {
            match list(&mut look, &folder, "cpuset.cpus.effective") {
                Reading::NotExposed if reaches(&mut look, &folder, "cpuset") == Reading::Value(false) => {}
                answer => return answer,
            }
        }
        Reading::NotExposed
    });
    let doubt = match allowed {
        Reading::Value(cpus) => return look.cpus(Reading::Value(cpus)),
        other => super::Doubt::of("the cpuset of the audit's own process", &other),
    };
    let affinity = host.text(STATUS).parse(super::task::parse_allowed);
    match &affinity {
        Reading::Value(cpus) => look.source(Source::summary(STATUS, format!("Cpus_allowed_list {cpus}"))),
        other => look.source(Source::unread(STATUS, other)),
    }
    if let Some(doubt) = doubt {
        look.doubt(doubt, None);
    }
    look.cpus(affinity)
}

// ---- real time -----------------------------------------------------------------------------------------------------------

fn rtprio(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let limit = look.host.text(LIMITS).parse(|text| parse_limit(text, "Max realtime priority"));
    match limit.value() {
        Some(limit) => look.source(Source::summary(LIMITS, format!("Max realtime priority {}", limit.values()))),
        None => look.source(Source::of(LIMITS, &host.text(LIMITS))),
    }
    let reading = limit.and_then(|limit| {
        let soft = priority(limit.soft);
        if soft >= HIGHEST_PRIORITY {
            return Reading::Value(soft);
        }
        if let Reading::Value(true) = holds(&mut look, CAP_SYS_NICE) {
            match is_in_initial_user_namespace(&mut look) {
                Reading::Value(true) => {
                    look.note("CAP_SYS_NICE lifts the limit; a service without the capability will feel it");
                    return Reading::Value(HIGHEST_PRIORITY);
                }
                Reading::Value(false) => look.note("CAP_SYS_NICE of a user namespace does not lift it"),
                other => look.gap(UID_MAP, &other),
            }
        }
        if limit.hard > limit.soft {
            look.note(format!("the hard limit allows {}", priority(limit.hard)));
        }
        Reading::Value(soft)
    });
    look.answer(reading.map(Value::Integer))
}

/// A limit of real-time priorities; beyond the highest one there is none.
fn priority(limit: Bytes) -> i64 {
    i64::try_from(limit.0).unwrap_or(HIGHEST_PRIORITY).min(HIGHEST_PRIORITY)
}

fn rttime(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let limit = look.host.text(LIMITS).parse(|text| parse_limit(text, "Max realtime timeout"));
    match limit.value() {
        Some(limit) => look.source(Source::summary(LIMITS, format!("Max realtime timeout {}", limit.values()))),
        None => look.source(Source::of(LIMITS, &host.text(LIMITS))),
    }
    look.word(limit.map(|limit| match limit.soft {
        Bytes::UNLIMITED => Bytes::UNLIMITED.to_string(),
        Bytes(micros) => micros.to_string(),
    }))
}

/// With real-time groups a group has a budget for its real-time threads, none unless somebody gives it one, and without it
/// the kernel refuses them (EPERM), whatever the priority and the capability. Control groups v2 have no such budget to give.
fn rt_group(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = own(&mut look, "cpu").and_then(|group| {
        let answer = if group.is_v2 { by_v2(&mut look, &group) } else { by_v1(&mut look, &group) };
        // With throttling switched off the budgets are not looked at.
        if answer == Reading::Value(false)
            && look.read(sched::RT_RUNTIME).parse(super::parse_integer) == Reading::Value(-1)
        {
            look.note("sched_rt_runtime_us is -1: budgets are not looked at");
            return Reading::Value(true);
        }
        answer
    });
    look.answer(reading.map(Value::Flag))
}

fn by_v1(look: &mut Look<'_, '_>, group: &OwnGroup) -> Reading<bool> {
    let folder = group.folders().into_iter().next().unwrap_or_default();
    let path = format!("{folder}/cpu.rt_runtime_us");
    match look.read_if_there(&path).parse(super::parse_integer) {
        Reading::NotExposed => {
            look.note_pass("the kernel has no real-time groups");
            Reading::Value(true)
        }
        budget => budget.map(|budget| {
            look.note(format!("cpu.rt_runtime_us of {folder} is {budget}"));
            budget != 0
        }),
    }
}

fn by_v2(look: &mut Look<'_, '_>, group: &OwnGroup) -> Reading<bool> {
    // The scheduler's group is the nearest one that the controller `cpu` reaches down to.
    let mut limited = None;
    for folder in group.folders().into_iter().filter(|folder| *folder != group.mount) {
        match reaches(look, &folder, "cpu") {
            Reading::Value(false) => {}
            Reading::Value(true) => {
                limited = Some(folder);
                break;
            }
            other => return other,
        }
    }
    let Some(limited) = limited else {
        if group.is_whole(look.host.root) {
            look.note_pass("the process is in the first group of the scheduler");
            return Reading::Value(true);
        }
        let why = "the first group of a namespace: what it is outside of it does not show";
        return Reading::Unreadable(Obstacle::Other(why.to_owned()));
    };
    has_rt_groups(look).map(|has_them| {
        if has_them {
            look.note_failure(format!("the kernel has real-time groups, and {limited} can have no budget"));
        } else {
            look.note_pass("the kernel has no real-time groups");
        }
        !has_them
    })
}

/// Are real-time groups in force? By the kernel's build, and from 6.16 on by `rt_group_sched=`.
fn has_rt_groups(look: &mut Look<'_, '_>) -> Reading<bool> {
    let is_built_in = kernel::config(look, BuildOption::RtGroupSched);
    let may_be_off = look.host.release().is_none_or(|release| release.version() >= RT_GROUP_PARAMETER_SINCE);
    if is_built_in != Reading::Value(true) || !may_be_off {
        return is_built_in;
    }
    let line = look.host.boot_line();
    if line.value().is_some() {
        let _ = look.read(cmdline::PATH);
    }
    let by_line = line.value().and_then(|line| line.integer("rt_group_sched")).map(|(_, value)| value != 0);
    match by_line {
        Some(is_on) => Reading::Value(is_on),
        None => kernel::config(look, BuildOption::RtGroupSchedDefaultDisabled).map(|is_off| !is_off),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::tree;

    #[test]
    fn memberships_of_a_process() {
        let parse = |text| parse_memberships(text).map(|all| all.len());
        assert_eq!(parse("0::/system.slice/feed.service\n"), Ok(1));
        assert_eq!(parse("4:cpu,cpuacct:/a\n3:cpuset:/\n1:name=systemd:/a:b\n0::/a\n"), Ok(4));
        assert_eq!(membership("1:name=systemd:/a:b").map(|own| own.path), Some("/a:b"));
        assert_eq!(parse(""), Ok(0));
        for text in ["0:/a\n", "x::/a\n", "0::a\n", "::/a\n", "junk\n"] {
            assert_eq!(parse(text), Err(NotUnderstood), "{text:?}");
        }
    }

    #[test]
    fn the_group_of_a_controller_is_found_where_it_is_mounted() {
        let own = |files: &[(&str, &str)], text: &str, controller: &str| {
            let (_dir, root) = tree(files);
            let group = own_group(&root, &parse_memberships(text).unwrap(), controller);
            group.map(|group| group.folders().join(" "))
        };
        let value = |folders: &str| Reading::Value(folders.to_owned());
        let v2 = [("sys/fs/cgroup/cgroup.controllers", ""), ("sys/fs/cgroup/a/b/cpu.max", "")];
        let (a, top) = ("sys/fs/cgroup/a", "sys/fs/cgroup");
        assert_eq!(own(&v2, "0::/a/b\n", "cpu"), value(&format!("{a}/b {a} {top}")));
        assert_eq!(own(&v2, "0::/\n", "cpu"), value(top));
        assert!(matches!(own(&v2, "0::/c\n", "cpu"), Reading::Unreadable(_)));
        assert!(matches!(own(&v2, "0::/../a\n", "cpu"), Reading::Unreadable(_)));
        assert_eq!(own(&[], "0::/a\n", "cpu"), Reading::NotExposed);
        assert_eq!(own(&v2, "", "cpu"), Reading::NotExposed);
        let v1 = [("sys/fs/cgroup/cpu,cpuacct/a/x", ""), ("sys/fs/cgroup/unified/a/x", "")];
        let text = "4:cpu,cpuacct:/a\n0::/a\n";
        let cpu = "sys/fs/cgroup/cpu,cpuacct";
        assert_eq!(own(&v1, text, "cpu"), value(&format!("{cpu}/a {cpu}")));
        // Hybrid: what no hierarchy of its own has is in the common one.
        let unified = "sys/fs/cgroup/unified";
        assert_eq!(own(&v1, text, "cpuset"), value(&format!("{unified}/a {unified}")));
        assert_eq!(own(&[("sys/fs/cgroup/cpu/x", "")], "4:cpuacct,cpu:/\n", "cpu"), value("sys/fs/cgroup/cpu"));
    }

    #[test]
    fn quotas() {
        let quota = |quota, period| Ok(Some(Quota { quota, period }));
        assert_eq!(parse_cpu_max("max 100000\n"), Ok(None));
        assert_eq!(parse_cpu_max("50000 100000\n"), quota(50_000, 100_000));
        assert_eq!(parse_cpu_max("200000 100000"), quota(200_000, 100_000));
        for text in ["max\n", "max x\n", "50000\n", "50000 0\n", "-1 100000\n", "", "1 2 3\n"] {
            assert_eq!(parse_cpu_max(text), Err(NotUnderstood), "{text:?}");
        }
        let tighter = |a: (u64, u64), b: (u64, u64)| {
            Quota { quota: a.0, period: a.1 }.is_tighter(Quota { quota: b.0, period: b.1 })
        };
        assert!(tighter((50_000, 100_000), (60_000, 100_000)));
        assert!(tighter((50_000, 100_000), (40_000, 50_000)));
        assert!(!tighter((50_000, 100_000), (25_000, 50_000)));
    }
}
