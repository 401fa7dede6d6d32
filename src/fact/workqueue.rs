//! Workqueues: where work runs that its queuer bound to no CPU.
//!
//! Sources: Documentation/core-api/workqueue.rst, kernel/workqueue.c of Linux 4.2, 6.1 and 6.12 (`apply_wqattrs_prepare`,
//! `wq_unbound_cpumask_store`).

use super::host::Look;
use super::{Doubt, Fact, Host, Kind, Observation, Read, Value};
use crate::cpuset::CpuSet;
use crate::reading::Reading;

/// The mask of all unbound workqueues, as it is in force.
const CPUMASK: &str = "sys/devices/virtual/workqueue/cpumask";
/// What was asked for, and what isolation takes out of it (6.8).
const REQUESTED: &str = "sys/devices/virtual/workqueue/cpumask_requested";
const ISOLATED: &str = "sys/devices/virtual/workqueue/cpumask_isolated";

/// The mask of the workqueue that writes dirty pages back: one folder under two names.
const WRITEBACK: [&str; 2] =
    ["sys/devices/virtual/workqueue/writeback/cpumask", "sys/bus/workqueue/devices/writeback/cpumask"];

/// From this version on there is a mask of all unbound workqueues.
const CPUMASK_SINCE: (u32, u32) = (4, 2);

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "workqueue.cpumask",
        kind: Kind::Cpus,
        files: &[CPUMASK, REQUESTED, ISOLATED],
        about: "the CPUs that the workers of unbound workqueues may run on; those that are bound to a CPU do not heed it",
        read: Read::One(cpumask),
    },
    Fact {
        name: "workqueue.writeback",
        kind: Kind::Cpus,
        files: &[WRITEBACK[0], WRITEBACK[1], CPUMASK, super::kernel::OSRELEASE],
        about: "the CPUs that write dirty pages back: what the workqueue's own mask and that of all unbound workqueues have in common, else the latter",
        read: Read::One(writeback),
    },
];

fn mask(look: &mut Look<'_, '_>, path: &str) -> Reading<CpuSet> {
    let reading = look.read_if_there(path).parse(CpuSet::parse_mask);
    reading.map(|mask| look.host.within_possible(mask))
}

/// The mask of all unbound workqueues, kept as a source also where it is not there.
fn mask_of_all(look: &mut Look<'_, '_>) -> Reading<CpuSet> {
    let _ = look.read(CPUMASK);
    mask(look, CPUMASK)
}

/// Is the kernel older than the mask of all unbound workqueues?
fn is_older(host: &Host<'_>) -> bool {
    host.release().is_some_and(|release| release.version() < CPUMASK_SINCE)
}

fn cpumask(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = mask_of_all(&mut look);
    let (requested, isolated) = (mask(&mut look, REQUESTED), mask(&mut look, ISOLATED));
    let hot = host.plan.hot_cpus();
    match &reading {
        Reading::NotExposed if is_older(host) => look.note_unknown("no kernel before 4.2 has the file"),
        Reading::Value(cpus) if cpus.is_disjoint(&hot) => {
            // A partition can be made invalid at any time, and its CPUs come back then.
            if requested.value().is_some_and(|requested| !requested.is_disjoint(&hot)) {
                look.note_pass("cpumask_requested has hot CPUs: isolation alone keeps them out");
            }
        }
        _ => {
            if let Some(isolated) = isolated.value() {
                look.note_failure(format!("cpumask_isolated has {}", Value::Cpus(isolated.clone())));
            }
        }
    }
    look.cpus(reading)
}

/// Where the workers of a workqueue run (`apply_wqattrs_prepare`): its file shows what was asked for, not what came of it.
fn in_force(own: &CpuSet, of_all: &CpuSet) -> CpuSet {
    let common = own & of_all;
    if common.is_empty() { of_all.clone() } else { common }
}

fn writeback(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let hot = host.plan.hot_cpus();
    let path = WRITEBACK.into_iter().find(|path| host.text(path) != Reading::NotExposed).unwrap_or(WRITEBACK[0]);
    let _ = look.read(path);
    let own = mask(&mut look, path);
    let of_all = mask_of_all(&mut look);
    let reading = match (own, of_all) {
        (Reading::Value(own), Reading::Value(of_all)) => {
            if own.is_disjoint(&of_all) {
                look.note("its own mask has nothing in common with that of all unbound workqueues, which counts then");
            } else if !own.is_disjoint(&hot) && of_all.is_disjoint(&hot) {
                look.note_pass("its own mask has hot CPUs; that of all unbound workqueues takes them out");
            }
            Reading::Value(in_force(&own, &of_all))
        }
        (Reading::Value(own), Reading::NotExposed) if is_older(host) => Reading::Value(own),
        // Within the mask of all workqueues it is, whatever its own.
        (own, Reading::Value(of_all)) => {
            if let Some(doubt) = Doubt::of(path, &own) {
                look.note_pass("its own mask is not known; that of all unbound workqueues bounds it");
                look.doubt(doubt, Some(of_all));
            }
            Reading::Value(CpuSet::new())
        }
        (Reading::Value(_), unseen) => {
            look.gap(CPUMASK, &unseen);
            Reading::Value(CpuSet::new())
        }
        (own, _) => own,
    };
    look.cpus(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workqueue_runs_where_both_masks_allow() {
        let set = |list: &str| CpuSet::parse_list(list).unwrap();
        assert_eq!(in_force(&set("0-31"), &set("0-20")), set("0-20"));
        assert_eq!(in_force(&set("0-3,21"), &set("0-20")), set("0-3"));
        assert_eq!(in_force(&set("21"), &set("0-20")), set("0-20"));
        assert_eq!(in_force(&set("4"), &set("0-7")), set("4"));
    }
}
