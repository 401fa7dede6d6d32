//! The meter: a loop that reads a counter, and a store of the moments in which it did not.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use hdrhistogram::Histogram;

use crate::counter::Ticks;

/// A gap, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// When it began, counted from the first pass.
    pub at: u64,
    /// How long it was.
    pub length: u64,
}

/// Gaps as they come: the first ones each by itself, those that no longer fit in a histogram. None is lost.
///
/// All memory is taken and touched when it is made, so that recording neither allocates nor faults.
#[derive(Debug)]
pub struct Gaps {
    kept: Vec<Gap>,
    /// Lengths in ticks, to three digits.
    overflow: Histogram<u64>,
    longest: u64,
}

/// The longest gap that the histogram tells from a longer one, in ticks: an hour at 4 GHz. [`Gaps::longest`] is exact.
const LONGEST_BINNED: u64 = 3600 * 4_000_000_000;

/// Significant digits of the histogram.
const DIGITS: u8 = 3;

impl Gaps {
    /// A store for `capacity` gaps, and a histogram for the rest.
    pub fn with_capacity(capacity: usize) -> anyhow::Result<Gaps> {
        let mut kept = Vec::new();
        kept.try_reserve_exact(capacity).context("no memory for the gaps")?;
        // Not zero: a zeroed allocation may be left to the kernel's zero page, to be faulted in by the loop.
        kept.resize(capacity, Gap { at: u64::MAX, length: u64::MAX });
        kept.clear();
        let mut overflow = Histogram::new_with_bounds(1, LONGEST_BINNED, DIGITS).context("bounds of the histogram")?;
        // Touches its pages: the counts are written, and then cleared.
        let mut value = 1;
        while value < LONGEST_BINNED {
            overflow.saturating_record(value);
            value += (value >> 10).max(1);
        }
        overflow.reset();
        Ok(Gaps { kept, overflow, longest: 0 })
    }

    /// Adds a gap.
    #[inline]
    pub fn record(&mut self, gap: Gap) {
        self.longest = self.longest.max(gap.length);
        if self.kept.len() < self.kept.capacity() {
            self.kept.push(gap);
        } else {
            self.overflow.saturating_record(gap.length);
        }
    }

    /// The gaps that were kept each by itself, in the order in which they came: the first ones.
    pub fn kept(&self) -> &[Gap] {
        &self.kept
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.kept.len() as u64 + self.overflow.len()
    }

    /// How many are in the histogram alone.
    pub fn binned(&self) -> u64 {
        self.overflow.len()
    }

    /// The longest one, in ticks.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Lengths in ticks with how often each came, in no order; those of the histogram to three digits.
    pub fn lengths(&self) -> impl Iterator<Item = (u64, u64)> {
        let kept = self.kept.iter().map(|gap| (gap.length, 1));
        let binned = self.overflow.iter_recorded().map(|bin| {
            let middle = self.overflow.median_equivalent(bin.value_iterated_to());
            (middle.min(self.longest), bin.count_at_value())
        });
        kept.chain(binned)
    }
}

/// What a meter saw beside the gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How often the counter was read.
    pub passes: u64,
    /// Ticks in which gaps could be seen: all but those spent on recording them.
    pub observed: u64,
    /// Times that the counter ran backwards. A trusted one never does.
    pub backwards: u64,
}

/// How a meter runs. All times are ticks.
#[derive(Clone, Copy, Debug)]
pub struct Meter<'a> {
    /// Passes this long or longer are gaps.
    pub threshold: u64,
    /// How long to go on.
    pub span: u64,
    /// How long to go on without a look at `stop`.
    pub unwatched: u64,
    /// Set when the user wants it to end.
    pub stop: &'a AtomicBool,
}

impl Meter<'_> {
    /// Reads `ticks` in a loop and records every pass that took `threshold` or longer.
    ///
    /// What it does beside reading, it does between two reads that are not compared: recording a gap is not the next gap.
    pub fn run(&self, ticks: &impl Ticks, gaps: &mut Gaps) -> Seen {
        let mut seen = Seen::default();
        let first = ticks.read();
        let mut last = first;
        let end = first.saturating_add(self.span);
        let mut blind = 0;
        while last < end && !self.stop.load(Ordering::Relaxed) {
            let turn = end.min(last.saturating_add(self.unwatched));
            while last < turn {
                let now = ticks.read();
                seen.passes += 1;
                // One comparison a pass: a counter that ran backwards gives a huge difference.
                let length = now.wrapping_sub(last);
                if length < self.threshold {
                    last = now;
                    continue;
                }
                if now < last {
                    seen.backwards += 1;
                } else {
                    gaps.record(Gap { at: last - first, length });
                }
                last = ticks.read();
                blind += last.saturating_sub(now);
            }
            let before = last;
            last = ticks.read();
            blind += last.saturating_sub(before);
        }
        seen.observed = last.saturating_sub(first).saturating_sub(blind);
        seen
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use proptest::prelude::*;

    use super::*;

    /// A counter that gives what it is told, and then goes on in steps of 1.
    struct Script {
        values: RefCell<std::vec::IntoIter<u64>>,
        last: Cell<u64>,
    }

    impl Script {
        fn new(values: &[u64]) -> Script {
            Script { values: RefCell::new(Vec::from(values).into_iter()), last: Cell::new(0) }
        }
    }

    impl Ticks for Script {
        fn read(&self) -> u64 {
            let next = self.values.borrow_mut().next().unwrap_or(self.last.get() + 1);
            self.last.set(next);
            next
        }
    }

    fn run(values: &[u64], span: u64, capacity: usize) -> (Seen, Gaps) {
        let stop = AtomicBool::new(false);
        let mut gaps = Gaps::with_capacity(capacity).unwrap();
        let meter = Meter { threshold: 20, span, unwatched: u64::MAX, stop: &stop };
        (meter.run(&Script::new(values), &mut gaps), gaps)
    }

    fn gap(at: u64, length: u64) -> Gap {
        Gap { at, length }
    }

    #[test]
    fn passes_at_or_above_the_threshold_are_gaps() {
        let (seen, gaps) = run(&[100, 105, 124, 144, 150, 160, 1_000], 61, 8);
        // 144 - 124 is a gap. Then the counter is read afresh: 150; 160; and 1000 ends it.
        assert_eq!(gaps.kept(), [gap(24, 20), gap(60, 840)]);
        assert_eq!(seen.passes, 5);
    }

    #[test]
    fn recording_a_gap_is_not_the_next_gap() {
        // The gap ends at 200; recording it takes until 500, which is above the threshold and is nobody's gap.
        let (seen, gaps) = run(&[100, 110, 200, 500, 510, 520], 415, 8);
        assert_eq!(gaps.kept(), [gap(10, 90)]);
        // From 100 to 520, without the 300 of recording and without the last look.
        assert_eq!((seen.observed, seen.passes), (120, 4));
    }

    #[test]
    fn a_counter_that_runs_backwards_is_counted_and_no_gap() {
        let (seen, gaps) = run(&[100, 110, 90, 95, 100, 200], 50, 8);
        assert_eq!((seen.backwards, gaps.kept()), (1, [gap(0, 100)].as_slice()));
    }

    #[test]
    fn the_flag_is_looked_at() {
        let stop = AtomicBool::new(true);
        let mut gaps = Gaps::with_capacity(1).unwrap();
        let meter = Meter { threshold: 20, span: u64::MAX, unwatched: 10, stop: &stop };
        assert_eq!(meter.run(&Script::new(&[5]), &mut gaps), Seen::default());
    }

    #[test]
    fn a_look_at_the_flag_is_no_gap() {
        let stop = AtomicBool::new(false);
        let mut gaps = Gaps::with_capacity(8).unwrap();
        let meter = Meter { threshold: 20, span: 1_000, unwatched: 10, stop: &stop };
        // 100, 111 ends the first turn; the look lasts until 500.
        let seen = meter.run(&Script::new(&[100, 111, 500, 505, 1_120, 1_120]), &mut gaps);
        assert_eq!(gaps.kept(), [gap(405, 615)]);
        assert_eq!(seen.observed, 11 + 5 + 615);
    }

    #[test]
    fn a_full_store_goes_on_in_the_histogram() {
        let mut gaps = Gaps::with_capacity(2).unwrap();
        for (at, length) in [(0, 50), (100, 70), (200, 1_234_567), (400, 30), (500, 30)] {
            gaps.record(gap(at, length));
        }
        assert_eq!(gaps.kept(), [gap(0, 50), gap(100, 70)]);
        assert_eq!((gaps.count(), gaps.binned(), gaps.longest()), (5, 3, 1_234_567));
        let mut lengths: Vec<_> = gaps.lengths().collect();
        lengths.sort_unstable();
        assert_eq!(lengths[..3], [(30, 2), (50, 1), (70, 1)]);
        let (longest, count) = lengths[3];
        assert!(count == 1 && longest.abs_diff(1_234_567) < 1_235, "{longest}");
    }

    #[test]
    fn a_gap_beyond_the_histogram_is_still_counted_and_its_length_known() {
        let mut gaps = Gaps::with_capacity(0).unwrap();
        gaps.record(gap(0, u64::MAX));
        assert_eq!((gaps.count(), gaps.longest()), (1, u64::MAX));
    }

    proptest! {
        /// Whatever the counter does, as long as it does not run backwards: gaps and passes together are the time.
        #[test]
        fn time_adds_up(steps in prop::collection::vec(1u64..60, 1..200)) {
            let values: Vec<u64> = steps.iter().scan(0, |at, step| { *at += step; Some(*at) }).collect();
            let (seen, gaps) = run(&values, 500, 4);
            let lost: u64 = gaps.lengths().map(|(length, count)| length * count).sum();
            prop_assert!(lost <= seen.observed);
            // What is no gap is shorter than the threshold.
            prop_assert!(seen.observed - lost <= (seen.passes - gaps.count()) * 19);
        }
    }
}
