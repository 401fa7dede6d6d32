//! The lockup detectors: the CPUs on which they interrupt whatever runs.
//!
//! Sources: Documentation/admin-guide/lockup-watchdogs.rst, Documentation/admin-guide/sysctl/kernel.rst, kernel/watchdog.c
//! of Linux 3.10, 6.1 and 6.12.

use super::host::Look;
use super::{Fact, Host, Kind, Observation, Read};
use crate::cpuset::CpuSet;
use crate::reading::Reading;

/// Either detector is on.
const WATCHDOG: &str = "proc/sys/kernel/watchdog";
/// The one that finds CPUs which take no interrupt, by one that cannot be masked.
const HARD: &str = "proc/sys/kernel/nmi_watchdog";
/// The one that finds CPUs which run no other task, by a timer and a thread of the highest priority (4.1).
const SOFT: &str = "proc/sys/kernel/soft_watchdog";
/// After how many seconds; 0 switches both off.
const THRESHOLD: &str = "proc/sys/kernel/watchdog_thresh";
/// The CPUs that are watched (4.1).
const CPUMASK: &str = "proc/sys/kernel/watchdog_cpumask";

/// From this version on there is a mask; before, all CPUs are watched.
const CPUMASK_SINCE: (u32, u32) = (4, 2);

pub(super) const FACTS: &[Fact] = &[Fact {
    name: "watchdog.cpus",
    kind: Kind::Cpus,
    files: &[WATCHDOG, HARD, SOFT, THRESHOLD, CPUMASK, super::cpu::POSSIBLE, super::kernel::OSRELEASE],
    about: "the CPUs that a lockup detector watches: watchdog_cpumask, and none while both detectors are off",
    read: Read::One(cpus),
}];

fn cpus(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let either = look.read(WATCHDOG).parse(super::parse_switch);
    let hard = look.read_if_there(HARD).parse(super::parse_switch);
    let soft = look.read_if_there(SOFT).parse(super::parse_switch);
    let either = match (either, &hard, &soft) {
        // The kernel makes the one file of the other two.
        (Reading::NotExposed, Reading::Value(true), _) | (Reading::NotExposed, _, Reading::Value(true)) => {
            Reading::Value(true)
        }
        (Reading::NotExposed, Reading::Value(false), Reading::Value(false)) => Reading::Value(false),
        (either, ..) => either,
    };
    if either == Reading::NotExposed {
        look.note_unknown("a kernel without lockup detectors has no such file");
    }
    let reading = either.and_then(|is_on| {
        if !is_on {
            look.note_pass("kernel.watchdog is 0");
            return Reading::Value(CpuSet::new());
        }
        let threshold = look.read_if_there(THRESHOLD).parse(super::parse_integer);
        if threshold == Reading::Value(0) {
            look.note_pass("kernel.watchdog_thresh is 0");
            return Reading::Value(CpuSet::new());
        }
        match hard {
            Reading::Value(true) => look.note_failure("nmi_watchdog is on: with interrupts that cannot be masked"),
            Reading::Value(false) => look.note_failure("nmi_watchdog is off, the soft lockup detector is on"),
            _ => {}
        }
        watched(&mut look)
    });
    look.cpus(reading)
}

/// The CPUs that are watched while a detector is on.
fn watched(look: &mut Look<'_, '_>) -> Reading<CpuSet> {
    let host = look.host;
    let mask = look.read(CPUMASK).parse(CpuSet::parse_list);
    let is_older = host.release().is_some_and(|release| release.version() < CPUMASK_SINCE);
    match mask {
        Reading::NotExposed if is_older => {
            look.note("before 4.2 all CPUs are watched");
            look.read(super::cpu::POSSIBLE).parse(CpuSet::parse_list)
        }
        mask => mask.map(|cpus| host.within_possible(cpus)),
    }
}
