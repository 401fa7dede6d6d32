//! The quickest clock of the host: the CPU's counter where it can be trusted, `CLOCK_MONOTONIC_RAW` elsewhere.
//!
//! The counter is trusted when the CPU calls it invariant and the kernel keeps time by it. A kernel that has found its
//! time-stamp counter unstable has turned to another clock source, and then the counter is no clock for us either.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::clock::{Clock, in_ns, nanoseconds};
use crate::sys::counter;

/// Something that counts at an even rate.
pub trait Ticks {
    /// The count. Comes from one CPU; that all CPUs agree is what "invariant" and the kernel's own check are for.
    fn read(&self) -> u64;
}

/// The CPU's counter.
#[derive(Clone, Copy, Debug)]
pub struct Cpu;

impl Ticks for Cpu {
    #[inline]
    fn read(&self) -> u64 {
        counter::read()
    }
}

/// `CLOCK_MONOTONIC_RAW`: not bent by NTP, and through the vDSO where the clock source permits it.
#[derive(Clone, Copy, Debug)]
pub struct Raw;

impl Ticks for Raw {
    #[inline]
    fn read(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::MonotonicRaw))
    }
}

impl Clock for Raw {
    fn now_ns(&self) -> u64 {
        self.read()
    }
}

/// A counter with its scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counter {
    /// Which one.
    pub source: Source,
    /// The length of a tick.
    pub ns_per_tick: f64,
    /// The step in which it advances, in nanoseconds: lengths that differ by less are the same.
    pub resolution_ns: f64,
}

/// Where the ticks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// [`Cpu`].
    Cpu,
    /// [`Raw`], and why not the other.
    Raw(&'static str),
}

/// The kernel's clock sources that are made of the CPU's counter.
const MADE_OF_COUNTER: [&str; 5] = ["tsc", "tsc-early", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// How long a calibration takes: enough for a part in a million.
const SPAN: Duration = Duration::from_millis(50);

impl Counter {
    /// Chooses and calibrates, which takes 50 ms where the rate has to be measured.
    pub fn choose() -> Counter {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let clocksource = fs::read_to_string(path).ok();
        if let Some(why) = counter::why_not().or_else(|| distrust(clocksource.as_deref())) {
            return Counter { source: Source::Raw(why), ns_per_tick: 1.0, resolution_ns: resolution(&Raw, 1.0) };
        }
        let ns_per_tick = match counter::frequency() {
            Some(hertz) => 1e9 / precise(hertz),
            None => calibrate(&Cpu, &Raw, SPAN),
        };
        Counter { source: Source::Cpu, ns_per_tick, resolution_ns: resolution(&Cpu, ns_per_tick) }
    }

    /// What the source is called.
    pub fn name(&self) -> &'static str {
        match self.source {
            Source::Cpu => counter::NAME,
            Source::Raw(_) => "CLOCK_MONOTONIC_RAW",
        }
    }

    /// A time in ticks, at least one.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and times are positive")]
    pub fn ticks(&self, ns: u64) -> u64 {
        ((precise(ns) / self.ns_per_tick).round() as u64).max(1)
    }

    /// Ticks in nanoseconds.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and ticks are positive")]
    pub fn ns(&self, ticks: u64) -> u64 {
        (precise(ticks) * self.ns_per_tick).round() as u64
    }
}

/// Why the kernel's choice of clock source speaks against the CPU's counter.
fn distrust(clocksource: Option<&str>) -> Option<&'static str> {
    match clocksource.map(str::trim) {
        Some(name) if MADE_OF_COUNTER.contains(&name) => None,
        Some(_) => Some("the kernel keeps time by another clock source"),
        None => Some("the kernel's clock source is not exposed"),
    }
}

/// The length of a tick in nanoseconds, by two looks at `clock`, `span` apart.
pub fn calibrate(ticks: &impl Ticks, clock: &impl Clock, span: Duration) -> f64 {
    let span = in_ns(span);
    let (first_tick, first_ns) = bracketed(ticks, clock);
    loop {
        let (tick, ns) = bracketed(ticks, clock);
        if ns.saturating_sub(first_ns) >= span {
            return precise(ns - first_ns) / precise(tick.saturating_sub(first_tick).max(1));
        }
    }
}

/// The same moment on both: of several tries the one in which the clock took the fewest ticks to read, since a try that
/// was interrupted took more.
fn bracketed(ticks: &impl Ticks, clock: &impl Clock) -> (u64, u64) {
    const TRIES: usize = 16;
    let tries = (0..TRIES).map(|_| {
        let before = ticks.read();
        let ns = clock.now_ns();
        let width = ticks.read().wrapping_sub(before);
        (width, before.wrapping_add(width / 2), ns)
    });
    let (_, tick, ns) = tries.min_by_key(|&(width, ..)| width).unwrap_or_default();
    (tick, ns)
}

/// The step in which `ticks` advances, in nanoseconds: the smallest difference between two passes of different length.
fn resolution(ticks: &impl Ticks, ns_per_tick: f64) -> f64 {
    const READS: usize = 10_000;
    let mut last = ticks.read();
    let mut passes: Vec<u64> = std::iter::repeat_with(|| {
        let now = ticks.read();
        now.saturating_sub(std::mem::replace(&mut last, now))
    })
    .take(READS)
    .chain([0])
    .collect();
    passes.sort_unstable();
    passes.dedup();
    let steps = passes.windows(2).map(|pair| pair[1] - pair[0]);
    precise(steps.min().unwrap_or(1)) * ns_per_tick
}

/// A count as a number that can be divided: exact to 2^53, which is a hundred days of nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "figures are printed with a few digits")]
pub fn precise(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A counter and a clock that share their time: 4 ticks are 10 ns, each look takes `cost` ticks, and the seventh
    /// takes a hundred times as long.
    struct Bench {
        tick: Cell<u64>,
        looks: Cell<u64>,
        cost: u64,
    }

    impl Bench {
        fn look(&self) -> u64 {
            self.looks.set(self.looks.get() + 1);
            let cost = if self.looks.get().is_multiple_of(7) { self.cost * 100 } else { self.cost };
            self.tick.set(self.tick.get() + cost);
            self.tick.get()
        }
    }

    impl Ticks for Bench {
        fn read(&self) -> u64 {
            self.look()
        }
    }

    impl Clock for Bench {
        fn now_ns(&self) -> u64 {
            self.look() * 10 / 4
        }
    }

    #[test]
    fn calibration_avoids_interrupted_looks() {
        let bench = Bench { tick: Cell::new(1000), looks: Cell::new(0), cost: 40 };
        let found = calibrate(&bench, &bench, Duration::from_millis(1));
        assert!((found - 2.5).abs() < 1e-3, "{found}");
    }

    #[test]
    fn a_clock_source_of_another_kind_is_distrust() {
        for name in MADE_OF_COUNTER {
            assert_eq!(distrust(Some(&format!("{name}\n"))), None);
        }
        for name in [Some("hpet\n"), Some("acpi_pm"), Some("refined-jiffies"), Some(""), None] {
            assert!(distrust(name).is_some(), "{name:?}");
        }
    }

    #[test]
    fn a_coarse_counter_is_told_from_a_slow_read() {
        // Reads take 35 to 41 ticks, and the counter shows tens.
        struct Coarse(Cell<u64>);
        impl Ticks for Coarse {
            fn read(&self) -> u64 {
                self.0.set(self.0.get() + 35 + self.0.get() % 7);
                self.0.get() / 10 * 10
            }
        }
        assert!((resolution(&Coarse(Cell::new(1)), 2.0) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn scales() {
        let counter = Counter { source: Source::Cpu, ns_per_tick: 0.4, resolution_ns: 0.4 };
        assert_eq!((counter.ticks(200), counter.ns(500), counter.ticks(0)), (500, 200, 1));
        assert_eq!(counter.ns(u64::MAX / 2), 3_689_348_814_741_910_528);
    }

    #[test]
    fn this_hosts_counter_counts() {
        let counter = Counter::choose();
        assert!(counter.ns_per_tick > 0.0 && counter.resolution_ns > 0.0, "{counter:?}");
        let last = Raw.read();
        assert!(Raw.read() >= last);
    }
}
