//! Where the time comes from. A trait, so that a test can hold the clock.

use std::time::Duration;

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A source of timestamps.
pub trait Clock {
    /// Nanoseconds since some fixed moment; never runs backwards.
    fn now_ns(&self) -> u64;
}

/// A clock to sleep by.
pub trait Alarm: Clock {
    /// Sleeps until this clock shows `ns`, or less long: a signal ends it early.
    fn sleep_until(&self, ns: u64);
}

/// `CLOCK_MONOTONIC`, read through the vDSO: no system call where the clock source permits it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now_ns(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::Monotonic))
    }
}

impl Alarm for Monotonic {
    fn sleep_until(&self, ns: u64) {
        const A_SECOND: u64 = 1_000_000_000;
        let tv_sec = i64::try_from(ns / A_SECOND).unwrap_or(i64::MAX);
        // Below a second, whatever the type.
        let tv_nsec = (ns % A_SECOND).cast_signed();
        // The caller has to look at the clock again in any case.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &Timespec { tv_sec, tv_nsec });
    }
}

/// A time in nanoseconds; the longest that there is where it is longer, 584 years.
pub fn in_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A time of one of the kernel's clocks in nanoseconds.
#[inline]
pub fn nanoseconds(time: Timespec) -> u64 {
    // The kernel gives no negative time on its monotonic clocks, and 2^64 ns are 584 years of uptime.
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_runs_backwards() {
        let mut last = Monotonic.now_ns();
        for _ in 0..10_000 {
            let now = Monotonic.now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn sleeps_until_it_is_time() {
        let due = Monotonic.now_ns() + 1_000_000;
        while Monotonic.now_ns() < due {
            Monotonic.sleep_until(due);
        }
        // A time that is over is no time to sleep.
        Monotonic.sleep_until(0);
    }
}
