//! Where the time comes from. A trait, so that a test can hold the clock.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// A source of timestamps.
pub trait Clock {
    /// Nanoseconds since some fixed moment; never runs backwards.
    fn now_ns(&self) -> u64;
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
}
