//! The scheduler: what takes the CPU from a real-time thread that spins.
//!
//! Sources: Documentation/scheduler/sched-rt-group.rst, kernel/sched/rt.c, kernel/sched/deadline.c and
//! kernel/sched/debug.c of Linux 6.1, 6.12 and 6.18.

use super::host::Look;
use super::kernel::BuildOption;
use super::{Fact, Host, Kind, Observation, Read, Value};
use crate::reading::{Obstacle, Reading};
use crate::units::Micros;

pub(super) const RT_RUNTIME: &str = "proc/sys/kernel/sched_rt_runtime_us";
const PERIOD: &str = "proc/sys/kernel/sched_rt_period_us";
const FAIR_SERVER: &str = "sys/kernel/debug/sched/fair_server";

/// From this version on the sysctl throttles real-time groups only, and the fair server serves starving tasks instead.
const FAIR_SERVER_SINCE: (u32, u32) = (6, 12);

/// Where a cgroup v1 cpu controller shows that the kernel schedules real-time groups (`CONFIG_RT_GROUP_SCHED`).
const RT_GROUP_FILES: &[&str] = &[
    "sys/fs/cgroup/cpu/cpu.rt_runtime_us",
    "sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us",
    "sys/fs/cgroup/cpuacct,cpu/cpu.rt_runtime_us",
];

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "sched.rt_runtime_us",
        kind: Kind::Integer,
        files: &[RT_RUNTIME],
        about: "the sysctl as it stands, in microseconds of each period; -1 is no throttling up to 6.11",
        read: Read::One(rt_runtime_us),
    },
    Fact {
        name: "sched.rt_throttle",
        kind: Kind::Micros,
        files: &[
            RT_RUNTIME,
            PERIOD,
            "sys/kernel/debug/sched/fair_server/cpu*/runtime",
            super::kernel::OSRELEASE,
            "sys/fs/cgroup/cpu/cpu.rt_runtime_us",
            "sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us",
            "sys/fs/cgroup/cpuacct,cpu/cpu.rt_runtime_us",
            super::kernel::CONFIG_GZ,
            "boot/config-*",
        ],
        about: "the time of each second that the kernel takes from a real-time thread which spins on a CPU: by sched_rt_runtime_us to 6.11, by fair_server from 6.12 on",
        read: Read::PerCpu(rt_throttle),
    },
];

fn rt_runtime_us(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(RT_RUNTIME).parse(super::parse_integer);
    look.answer(reading.map(Value::Integer))
}

fn rt_throttle(host: &Host<'_>, cpu: u32) -> Observation {
    let mut look = Look::at(host);
    let release = host.release();
    let has_fair_server = match host.root.exists(FAIR_SERVER) {
        Reading::Value(()) => Some(true),
        _ => release.map(|release| release.version() >= FAIR_SERVER_SINCE),
    };
    let _ = look.read_if_there(super::kernel::OSRELEASE);
    let by_sysctl = by_sysctl(&mut look);
    let taken = match has_fair_server {
        Some(false) => by_sysctl,
        Some(true) => by_fair_server(&mut look, cpu, by_sysctl),
        // Neither the version nor fair_server shows: what the sysctl takes is taken for certain only where it takes any.
        None => {
            let why = Obstacle::Other("neither the kernel's version nor fair_server shows".to_owned());
            look.gap::<()>(FAIR_SERVER, &Reading::Unreadable(why));
            by_sysctl
        }
    };
    look.answer(taken.map(Value::Micros))
}

/// What `sched_rt_runtime_us` takes of a second: nothing at -1 and from the whole period on.
fn by_sysctl(look: &mut Look<'_, '_>) -> Reading<Micros> {
    let runtime = look.read(RT_RUNTIME).parse(super::parse_integer);
    let period = look.read(PERIOD).parse(super::parse_integer);
    match (runtime, period) {
        (Reading::Value(-1), _) => {
            look.note("sched_rt_runtime_us is -1");
            Reading::Value(Micros(0))
        }
        (Reading::Value(runtime), Reading::Value(period)) => {
            look.note(format!("sched_rt_runtime_us is {runtime} of {period}"));
            let wrong = if period <= 0 { period } else { runtime };
            throttled(runtime, period).map_or_else(|| Reading::Malformed(wrong.to_string()), Reading::Value)
        }
        (Reading::Value(_), period) => period.map(|_| Micros(0)),
        (runtime, _) => runtime.map(|_| Micros(0)),
    }
}

/// The part of a second that is left of each period beyond the runtime.
fn throttled(runtime: i64, period: i64) -> Option<Micros> {
    if runtime < 0 || period <= 0 {
        return None;
    }
    if runtime >= period {
        return Some(Micros(0));
    }
    let left = i128::from(period - runtime) * 1_000_000 / i128::from(period);
    // A sliver of a period still is throttling.
    u64::try_from(left).ok().map(|left| Micros(left.max(1)))
}

/// From 6.12 on: the fair server takes its runtime, and the sysctl counts only with real-time groups.
fn by_fair_server(look: &mut Look<'_, '_>, cpu: u32, by_sysctl: Reading<Micros>) -> Reading<Micros> {
    let path = format!("{FAIR_SERVER}/cpu{cpu}/runtime");
    let runtime = look.read(&path).parse(|text| super::trim(text).parse::<u64>());
    let mut taken = Micros(0);
    match runtime {
        Reading::Value(0) => look.note("fair_server runtime is 0"),
        Reading::Value(nanoseconds) => {
            look.note(format!("fair_server runtime is {nanoseconds} ns"));
            taken = Micros((nanoseconds / 1000).max(1));
        }
        other => {
            look.note("a runnable normal task on the CPU may take 50 ms a second (fair_server)");
            look.gap(&path, &other);
        }
    }
    match (has_rt_groups(look), by_sysctl) {
        (Reading::Value(true), Reading::Value(by_sysctl)) => taken = Micros(taken.0.max(by_sysctl.0)),
        (Reading::Value(true), other) => look.gap(RT_RUNTIME, &other),
        (Reading::Value(false) | Reading::NotExposed | Reading::Unset, _) => {
            look.note("the sysctl throttles nothing from 6.12 on without real-time groups");
        }
        // Whether the sysctl counts does not show: that matters only where it would take something.
        (_, Reading::Value(Micros(0))) => {}
        (unseen, _) => look.gap("whether CONFIG_RT_GROUP_SCHED is set", &unseen),
    }
    Reading::Value(taken)
}

fn has_rt_groups(look: &mut Look<'_, '_>) -> Reading<bool> {
    for path in RT_GROUP_FILES {
        if look.host.root.exists(path).value().is_some() {
            let _ = look.read(path);
            return Reading::Value(true);
        }
    }
    super::kernel::config(look, BuildOption::RtGroupSched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_sysctl_takes_of_a_second() {
        assert_eq!(throttled(950_000, 1_000_000), Some(Micros(50_000)));
        assert_eq!(throttled(1_000_000, 1_000_000), Some(Micros(0)));
        assert_eq!(throttled(0, 1_000_000), Some(Micros(1_000_000)));
        assert_eq!(throttled(95, 100), Some(Micros(50_000)));
        assert_eq!(throttled(i64::MAX - 1, i64::MAX), Some(Micros(1)));
        assert_eq!(throttled(-2, 1_000_000), None);
        assert_eq!(throttled(5, 0), None);
    }
}
