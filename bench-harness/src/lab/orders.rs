//! What measurements are expected to give, as orders of magnitude: a figure beyond its range is a question, no failure.
//!
//! The ranges are those of 3-4 GHz x86-64 hosts with Linux 6 and no hypervisor. A guest wakes its idle virtual CPUs through
//! its host, which makes medians up to twice and tails five to twenty times as long.

use serde::Serialize;

use crate::report::Report;

/// A figure and the range in which it is expected.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// What it is, for a human.
    pub what: &'static str,
    /// Where it is found.
    pub measurement: &'static str,
    /// The arm.
    pub arm: &'static str,
    /// The figure, by its name in the JSON.
    pub figure: &'static str,
    /// The range, both ends included.
    pub from: f64,
    /// The range's end.
    pub to: f64,
    /// What the figure counts.
    pub unit: Unit,
    /// The likely reason for a figure below the range.
    pub below: &'static str,
    /// The likely reason for a figure above it, where the host is no guest.
    pub above: &'static str,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// A share of 1.
    Share,
    /// Things.
    Count,
}

/// An order that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// What it is.
    pub what: &'static str,
    /// Where it was found.
    pub measurement: &'static str,
    /// The arm.
    pub arm: &'static str,
    /// The figure.
    pub figure: &'static str,
    /// The range.
    pub expected: String,
    /// What came.
    pub measured: String,
    /// Is it within the range?
    pub holds: bool,
    /// Why it probably is not; empty when it is.
    pub reason: String,
}

/// Likely reasons that several figures share: a wake-up that takes long, one that is not needed, and spinning that is
/// disturbed.
const DEEP: &str = "a CPU that wakes up from a deep idle state, or shares itself with others";
const AWAKE: &str = "a CPU that does not go to sleep between messages";
const RIVAL: &str = "something else runs on one of the two CPUs, or they share no cache";

/// Every order, in the order of the measurements.
pub const ORDERS: &[Order] = &[
    Order {
        what: "a pass of the meter",
        measurement: "hiccups",
        arm: "alone",
        figure: "loop_ns",
        from: 5.0,
        to: 20.0,
        unit: Unit::Time,
        below: "a counter that is quicker to read",
        above: "a counter that is slow to read, or a clock in its place",
    },
    Order {
        what: "time lost, alone",
        measurement: "hiccups",
        arm: "alone",
        figure: "lost",
        from: 0.0,
        to: 0.013,
        unit: Unit::Share,
        below: "nothing",
        above: "a busy host: an untuned laptop loses 1.3 %",
    },
    Order {
        what: "time lost, shared",
        measurement: "hiccups",
        arm: "shared",
        figure: "lost",
        from: 0.4,
        to: 0.6,
        unit: Unit::Share,
        below: "a scheduler that favours the meter",
        above: "more than one rival on that CPU",
    },
    Order {
        what: "pipe, one CPU",
        measurement: "pingpong",
        arm: "pipe-same-cpu",
        figure: "p50",
        from: 1_000.0,
        to: 4_000.0,
        unit: Unit::Time,
        below: "a quicker way through the kernel",
        above: "mitigations, or something else on that CPU",
    },
    Order {
        what: "pipe, two CPUs",
        measurement: "pingpong",
        arm: "pipe-two-cpus",
        figure: "p50",
        from: 3_000.0,
        to: 40_000.0,
        unit: Unit::Time,
        below: AWAKE,
        above: DEEP,
    },
    Order {
        what: "cache line, two CPUs",
        measurement: "pingpong",
        arm: "line-two-cpus",
        figure: "p50",
        from: 50.0,
        to: 500.0,
        unit: Unit::Time,
        below: "two threads of one core",
        above: RIVAL,
    },
    Order {
        what: "UDP round trip, blocking",
        measurement: "udp-rtt",
        arm: "block",
        figure: "p50",
        from: 8_000.0,
        to: 25_000.0,
        unit: Unit::Time,
        below: AWAKE,
        above: DEEP,
    },
    Order {
        what: "UDP round trip, blocking, p99.9",
        measurement: "udp-rtt",
        arm: "block",
        figure: "p99.9",
        from: 30_000.0,
        to: 200_000.0,
        unit: Unit::Time,
        below: "a quiet host",
        above: DEEP,
    },
    Order {
        what: "UDP round trip, spinning",
        measurement: "udp-rtt",
        arm: "spin",
        figure: "p50",
        from: 1_500.0,
        to: 5_000.0,
        unit: Unit::Time,
        below: "a quicker way through the kernel",
        above: RIVAL,
    },
    Order {
        what: "TCP in two writes, nodelay",
        measurement: "nodelay",
        arm: "nodelay-on",
        figure: "p50",
        from: 10_000.0,
        to: 30_000.0,
        unit: Unit::Time,
        below: AWAKE,
        above: DEEP,
    },
    Order {
        what: "TCP in two writes, no nodelay",
        measurement: "nodelay",
        arm: "nodelay-off",
        figure: "p50",
        from: 38_000_000.0,
        to: 50_000_000.0,
        unit: Unit::Time,
        below: "acknowledgements that are not delayed (quickack)",
        above: "a longer delay of acknowledgements",
    },
    Order {
        what: "the CPU's counter",
        measurement: "syscalls",
        arm: "counter",
        figure: "ns_per_call",
        from: 6.0,
        to: 10.0,
        unit: Unit::Time,
        below: "a quicker CPU",
        above: "a slower CPU, or one on which reading the counter waits for what precedes it",
    },
    Order {
        what: "a clock by the vDSO",
        measurement: "syscalls",
        arm: "vdso",
        figure: "ns_per_call",
        from: 15.0,
        to: 25.0,
        unit: Unit::Time,
        below: "a quicker CPU",
        above: "a slower CPU; ten times as much is a clock source that the vDSO cannot read",
    },
    Order {
        what: "Instant::now",
        measurement: "syscalls",
        arm: "instant",
        figure: "ns_per_call",
        from: 20.0,
        to: 35.0,
        unit: Unit::Time,
        below: "a quicker CPU",
        above: "a slower CPU; ten times as much is a clock source that the vDSO cannot read",
    },
    Order {
        what: "a system call",
        measurement: "syscalls",
        arm: "getpid",
        figure: "ns_per_call",
        from: 100.0,
        to: 250.0,
        unit: Unit::Time,
        below: "a CPU that needs no mitigation on its way into the kernel",
        above: "mitigations, auditing or tracing of system calls",
    },
    Order {
        what: "one way, blocking",
        measurement: "receive",
        arm: "block",
        figure: "p50",
        from: 4_000.0,
        to: 15_000.0,
        unit: Unit::Time,
        below: AWAKE,
        above: DEEP,
    },
    Order {
        what: "one way, blocking, p99.9",
        measurement: "receive",
        arm: "block",
        figure: "p99.9",
        from: 20_000.0,
        to: 100_000.0,
        unit: Unit::Time,
        below: "a quiet host",
        above: DEEP,
    },
    Order {
        what: "one way, spinning",
        measurement: "receive",
        arm: "spin",
        figure: "p50",
        from: 1_000.0,
        to: 4_000.0,
        unit: Unit::Time,
        below: "a quicker way through the kernel",
        above: RIVAL,
    },
    Order {
        what: "one way, spinning, p99.9",
        measurement: "receive",
        arm: "spin",
        figure: "p99.9",
        from: 5_000.0,
        to: 20_000.0,
        unit: Unit::Time,
        below: "a quiet host",
        above: RIVAL,
    },
    Order {
        what: "one way by io_uring",
        measurement: "uring",
        arm: "single",
        figure: "p50",
        from: 4_000.0,
        to: 15_000.0,
        unit: Unit::Time,
        below: "a receiver whose CPU does not go to sleep",
        above: "a CPU that wakes up from a deep idle state",
    },
    Order {
        what: "a page touched",
        measurement: "faults",
        arm: "unlocked",
        figure: "touch_ns_per_page",
        from: 1_000.0,
        to: 2_000.0,
        unit: Unit::Time,
        below: "a quicker way to clear pages",
        above: "a busy host, or memory that has to be reclaimed first",
    },
    Order {
        what: "a locked page touched",
        measurement: "faults",
        arm: "locked",
        figure: "touch_ns_per_page",
        from: 15.0,
        to: 60.0,
        unit: Unit::Time,
        below: "caches that hold all of the mapping",
        above: "slow memory, or a busy host",
    },
    Order {
        what: "one way, idle states capped",
        measurement: "tuning",
        arm: "capped",
        figure: "p50",
        from: 4_000.0,
        to: 15_000.0,
        unit: Unit::Time,
        below: "a quicker CPU",
        above: "a cap that has no effect, or a busy host",
    },
    Order {
        what: "tail under load",
        measurement: "tuning",
        arm: "loaded",
        figure: "p99.9",
        from: 1e6,
        to: 20e6,
        unit: Unit::Time,
        below: "a scheduler that runs who wakes up at once, or a CPU that was free",
        above: "more load than this measurement's own",
    },
    Order {
        what: "tail behind the fence",
        measurement: "tuning",
        arm: "fenced",
        figure: "p99.9",
        from: 20_000.0,
        to: 200_000.0,
        unit: Unit::Time,
        below: "a quiet host",
        above: "other load on the receiver's CPU, or on the sender's while it sends",
    },
    Order {
        what: "one way over veth, kernel socket that blocks",
        measurement: "xdp",
        arm: "udp-block",
        figure: "p50",
        from: 4_000.0,
        to: 15_000.0,
        unit: Unit::Time,
        below: "the receiver's CPU does not go to sleep between datagrams",
        above: "the receiver's CPU sleeps deeply between datagrams, or shares itself with others",
    },
    Order {
        what: "one way over veth, kernel socket that spins",
        measurement: "xdp",
        arm: "udp-spin",
        figure: "p50",
        from: 1_000.0,
        to: 4_000.0,
        unit: Unit::Time,
        below: "a quicker host than those that the range is of",
        above: "something else runs on the receiver's CPU, or the sender's CPU sleeps deeply between datagrams",
    },
    Order {
        what: "one way over veth, AF_XDP with poll(2)",
        measurement: "xdp",
        arm: "xdp-poll",
        figure: "p50",
        from: 4_000.0,
        to: 15_000.0,
        unit: Unit::Time,
        below: "the receiver's CPU does not go to sleep between datagrams",
        above: "the receiver's CPU sleeps deeply between datagrams, or shares itself with others",
    },
    Order {
        what: "one way over veth, AF_XDP that spins",
        measurement: "xdp",
        arm: "xdp-spin",
        figure: "p50",
        from: 1_000.0,
        to: 4_000.0,
        unit: Unit::Time,
        below: "a quicker host than those that the range is of",
        above: "something else runs on the receiver's CPU, or the sender's CPU sleeps deeply between datagrams",
    },
];

impl Order {
    /// Looks at what was measured; `None` where this was not.
    pub fn look(&self, reports: &[Report]) -> Option<Outcome> {
        let report = reports.iter().find(|report| report.measurement == self.measurement)?;
        let value = report.findings.arm(self.arm)?.figure(self.figure)?;
        // Percentiles are those of messages, whose way leads through a wake-up.
        let holds = value >= self.from && value <= self.to;
        let reason = if holds {
            String::new()
        } else if value < self.from {
            self.below.to_owned()
        } else if report.host.guest == Some(true) && self.figure.starts_with('p') {
            "a guest: the hypervisor has a part in every wake-up and takes its CPUs away now and then".to_owned()
        } else {
            self.above.to_owned()
        };
        Some(Outcome {
            what: self.what,
            measurement: self.measurement,
            arm: self.arm,
            figure: self.figure,
            expected: self.range(),
            measured: self.unit.written(value),
            holds,
            reason,
        })
    }

    fn range(&self) -> String {
        match (self.from, self.to) {
            (from, to) if to == f64::INFINITY => format!("at least {}", self.unit.written(from)),
            (from, to) if from <= 0.0 => format!("at most {}", self.unit.written(to)),
            (from, to) => format!("{} to {}", self.unit.written(from), self.unit.written(to)),
        }
    }
}

impl Unit {
    /// A figure with as many digits as mean something.
    pub fn written(self, value: f64) -> String {
        match self {
            Unit::Time => {
                let (scaled, unit) = match value {
                    ns if ns < 1e3 => (ns, "ns"),
                    ns if ns < 1e6 => (ns / 1e3, "us"),
                    ns if ns < 1e9 => (ns / 1e6, "ms"),
                    ns => (ns / 1e9, "s"),
                };
                format!("{} {unit}", three_digits(scaled))
            }
            Unit::Share => format!("{} %", three_digits(value * 100.0)),
            Unit::Count => three_digits(value),
        }
    }
}

/// Three significant digits, without zeros that say nothing.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::experiment::{Findings, MEASUREMENTS, Row};
    use crate::summary::Summary;

    const LOST: Order = Order {
        what: "time lost, alone",
        measurement: "hiccups",
        arm: "alone",
        figure: "lost",
        from: 0.001,
        to: 0.02,
        unit: Unit::Share,
        below: "a quiet host",
        above: "a busy host",
    };

    fn look(lost: f64, guest: bool) -> Option<Outcome> {
        let arms = vec![Row::figures("alone", [("lost", lost.into())])];
        let host = Environment { guest: Some(guest), ..Environment::default() };
        LOST.look(&[Report::new("hiccups", host, Findings { arms, ..Findings::default() })])
    }

    #[test]
    fn a_figure_beyond_its_range_has_a_likely_reason() {
        let outcome = look(0.01, true).unwrap();
        assert_eq!((outcome.holds, outcome.reason.as_str()), (true, ""));
        assert_eq!((outcome.expected.as_str(), outcome.measured.as_str()), ("0.1 % to 2 %", "1 %"));
        assert_eq!(look(0.0001, true).unwrap().reason, "a quiet host");
        assert_eq!(look(0.5, false).unwrap().reason, "a busy host");
        assert_eq!(look(0.5, true).unwrap().reason, "a busy host");
        let round_trip = Order { figure: "p50", unit: Unit::Time, ..LOST };
        let row = Row { summary: Summary::of(&[5]), ..Row::figures("alone", []) };
        let host = Environment { guest: Some(true), ..Environment::default() };
        let report = Report::new("hiccups", host, Findings { arms: vec![row], ..Findings::default() });
        assert!(round_trip.look(&[report]).unwrap().reason.starts_with("a guest"));
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        assert_eq!(LOST.look(&[]), None);
        let skipped = Findings { arms: vec![Row::skipped("alone", "no")], ..Findings::default() };
        assert_eq!(LOST.look(&[Report::new("hiccups", Environment::default(), skipped)]), None);
    }

    #[test]
    fn orders_are_about_measurements_that_there_are() {
        for order in ORDERS {
            assert!(MEASUREMENTS.iter().any(|row| row.name == order.measurement), "{}", order.what);
            assert!(order.from <= order.to && !order.below.is_empty() && !order.above.is_empty(), "{}", order.what);
        }
    }

    #[test]
    fn figures_as_they_are_written() {
        for (unit, value, text) in [
            (Unit::Time, 14.96, "15 ns"),
            (Unit::Time, 1_500.0, "1.5 us"),
            (Unit::Time, 999.7, "1000 ns"),
            (Unit::Time, 44_000_000.0, "44 ms"),
            (Unit::Time, 2e9, "2 s"),
            (Unit::Share, 0.0005, "0.05 %"),
            (Unit::Count, 8192.0, "8192"),
            (Unit::Count, 0.0, "0"),
        ] {
            assert_eq!(unit.written(value), text);
        }
    }
}
