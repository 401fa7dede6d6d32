//! Timers: which CPUs run those that others armed.
//!
//! Up to 6.8 the kernel sends a timer that is armed on an idle CPU to a busy one of the same scheduling domain which is not
//! tickless (`get_nohz_timer_target`), unless `timer_migration` is 0. From 6.9 on timers of the wheel stay where they are
//! armed, and busy CPUs run those of idle ones for them, whatever the sysctl says; a tickless CPU counts as idle there.
//! Since 6.19 isolated CPUs are left out of that.
//!
//! Sources: Documentation/admin-guide/sysctl/kernel.rst, kernel/sched/core.c, kernel/time/timer.c and
//! kernel/time/timer_migration.c of Linux 4.15, 6.1, 6.12 and 6.19.

use super::host::Look;
use super::kernel::Release;
use super::{Doubt, Fact, Gap, Host, Kind, Observation, Read, Value};
use crate::cpuset::CpuSet;
use crate::reading::Reading;

const MIGRATION: &str = "proc/sys/kernel/timer_migration";

/// The fact that says which CPUs are in no scheduling domain.
const ISOLATED: &str = "cpu.isolated";

/// The fact that says whether ticks stop at all. Where they do not, each CPU runs its own timers.
const NOHZ: &str = "cmdline.nohz";

/// From this version on busy CPUs run the timers of idle ones.
const PULLED_SINCE: (u32, u32) = (6, 9);
/// From this version on isolated CPUs do not.
const ISOLATED_LEFT_OUT_SINCE: (u32, u32) = (6, 19);

pub(super) const FACTS: &[Fact] = &[Fact {
    name: "timer.targets",
    kind: Kind::Cpus,
    files: &[
        MIGRATION,
        super::kernel::OSRELEASE,
        super::cmdline::PATH,
        super::cpu::POSSIBLE,
        super::cgroup::ISOLATED,
        "sys/fs/cgroup/cpuset.cpus.isolated",
        "sys/fs/cgroup/*/cpuset.cpus.partition",
        "sys/fs/cgroup/*/cpuset.cpus.effective",
        "sys/fs/cgroup/*/cpuset.sched_load_balance",
        "sys/fs/cgroup/*/cpuset.cpus",
    ],
    about: "the CPUs that timers of other CPUs may come to while they are not tickless: by timer_migration to 6.8, any that is busy since, isolated ones no more from 6.19 on",
    read: Read::One(targets),
}];

/// How the kernel brings the timers of one CPU to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By the sysctl, within scheduling domains.
    Sent,
    /// By the CPUs that are busy.
    Pulled,
    /// By those of them that are not isolated.
    PulledByDomains,
}

impl Way {
    fn of(version: (u32, u32)) -> Self {
        if version < PULLED_SINCE {
            Self::Sent
        } else if version < ISOLATED_LEFT_OUT_SINCE {
            Self::Pulled
        } else {
            Self::PulledByDomains
        }
    }
}

fn targets(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let migration = look.read(MIGRATION).parse(super::parse_switch);
    let release = look.read(super::kernel::OSRELEASE).parse(Release::parse);
    if let Some(nohz) = super::find(NOHZ).and_then(|fact| fact.observe(host))
        && nohz.reading == Reading::Value(Value::Word("off".to_owned()))
    {
        look.note_pass("with nohz=off no timer is moved");
        return look.cpus(Reading::Value(CpuSet::new()));
    }
    let way = match release {
        Reading::Value(release) => Way::of(release.version()),
        unseen => return look.cpus(unseen.map(|_| CpuSet::new())),
    };
    match (way, &migration) {
        (Way::Sent, Reading::Value(false)) => {
            look.note_pass("kernel.timer_migration is 0");
            return look.cpus(Reading::Value(CpuSet::new()));
        }
        (Way::Sent, Reading::Value(true)) => {
            look.note_failure("kernel.timer_migration is 1: timers of idle CPUs go to busy ones of their domain");
        }
        (Way::Sent, _) => {}
        (Way::Pulled, _) => look.note_failure(
            "from 6.9 on a busy CPU runs the timers of idle ones, isolated or not (to 6.18), whatever timer_migration is",
        ),
        (Way::PulledByDomains, _) => {
            look.note_failure("from 6.9 on a busy CPU runs the timers of idle ones, whatever timer_migration is");
        }
    }
    let possible = look.read(super::cpu::POSSIBLE).parse(CpuSet::parse_list);
    let reading = possible.map(|possible| {
        let mut targets = match way {
            Way::Pulled => Targets { least: possible.clone(), most: possible, doubt: None },
            Way::Sent | Way::PulledByDomains => Targets::not_isolated(&mut look, &possible),
        };
        // Whether the sysctl sends any timer is not known: then none is certain.
        if let Some(doubt) = Doubt::of(MIGRATION, &migration).filter(|_| way == Way::Sent) {
            targets.least = CpuSet::new();
            targets.doubt = Some(doubt);
        }
        if let Some(doubt) = targets.doubt.filter(|_| targets.least != targets.most) {
            look.doubt(doubt, Some(targets.most));
        }
        targets.least
    });
    look.cpus(reading)
}

/// The CPUs that timers may come to.
struct Targets {
    /// For certain.
    least: CpuSet,
    /// At most.
    most: CpuSet,
    /// Why the two differ, where they do.
    doubt: Option<Doubt>,
}

impl Targets {
    /// All but those that are in no scheduling domain.
    fn not_isolated(look: &mut Look<'_, '_>, possible: &CpuSet) -> Self {
        let isolated = super::find(ISOLATED).and_then(|fact| fact.observe(look.host));
        let Some(isolated) = isolated else {
            return Self { least: CpuSet::new(), most: possible.clone(), doubt: None };
        };
        isolated.sources.iter().for_each(|source| look.source(source.clone()));
        let (certain, gap) = match (&isolated.reading, &isolated.gap) {
            (Reading::Value(Value::Cpus(cpus)), gap) => (cpus.clone(), gap.clone()),
            _ => (CpuSet::new(), isolated.doubt(ISOLATED).map(|doubt| Gap { doubt, cpus: None })),
        };
        let most = possible - &certain;
        let least = match gap.as_ref().map(|gap| &gap.cpus) {
            None => most.clone(),
            Some(Some(more)) => &most - more,
            Some(None) => CpuSet::new(),
        };
        Self { least, most, doubt: gap.map(|gap| gap.doubt) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_their_ways() {
        assert_eq!(Way::of((3, 10)), Way::Sent);
        assert_eq!(Way::of((6, 8)), Way::Sent);
        assert_eq!(Way::of((6, 9)), Way::Pulled);
        assert_eq!(Way::of((6, 18)), Way::Pulled);
        assert_eq!(Way::of((6, 19)), Way::PulledByDomains);
        assert_eq!(Way::of((7, 3)), Way::PulledByDomains);
    }
}
