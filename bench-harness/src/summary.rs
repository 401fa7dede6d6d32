//! What is said about a set of samples: nearest-rank percentiles, never a bare mean.

use serde::Serialize;

use crate::counter::precise;

/// The figures of one trial. Times are nanoseconds, and each percentile is one of the samples: nothing is interpolated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many samples there were; at least one.
    pub n: u64,
    /// The median.
    pub p50: u64,
    /// 90 of 100 samples are at or below it.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1 000.
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    /// 9 999 of 10 000; only where ten samples or more lie beyond it.
    #[serde(rename = "p99.99", skip_serializing_if = "Option::is_none")]
    pub p99_99: Option<u64>,
    /// 99 999 of 100 000; only where ten samples or more lie beyond it.
    #[serde(rename = "p99.999", skip_serializing_if = "Option::is_none")]
    pub p99_999: Option<u64>,
    /// The smallest sample.
    pub min: u64,
    /// The largest sample.
    pub max: u64,
    /// The arithmetic mean.
    pub mean: f64,
}

/// The hundred-thousandths that make a whole: percentiles are given as integers, since `99.9 / 100 * 1000` in floating
/// point is more than 999 and its ceiling is the wrong rank.
const WHOLE: u128 = 100_000;

impl Summary {
    /// Summarises `samples`, in any order; nothing comes of nothing.
    pub fn of(samples: &[u64]) -> Option<Summary> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let rank = |share| nearest_rank(&sorted, share);
        let beyond = |share: u128| (sorted.len() as u128 * (WHOLE - share) >= 10 * WHOLE).then(|| rank(share));
        Some(Summary {
            n: sorted.len() as u64,
            p50: rank(50_000),
            p90: rank(90_000),
            p99: rank(99_000),
            p99_9: rank(99_900),
            p99_99: beyond(99_990),
            p99_999: beyond(99_999),
            min,
            max,
            mean: mean(&sorted),
        })
    }

    /// A figure by its name in the JSON.
    pub fn by_name(&self, name: &str) -> Option<f64> {
        Some(precise(match name {
            "p50" => self.p50,
            "p90" => self.p90,
            "p99" => self.p99,
            "p99.9" => self.p99_9,
            "p99.99" => self.p99_99?,
            "p99.999" => self.p99_999?,
            "min" => self.min,
            "max" => self.max,
            "n" => self.n,
            "mean" => return Some(self.mean),
            _ => return None,
        }))
    }
}

/// The value at rank `ceil(share / WHOLE * n)`, ranks counted from one. `sorted` must not be empty.
fn nearest_rank(sorted: &[u64], share: u128) -> u64 {
    let rank = (share * sorted.len() as u128).div_ceil(WHOLE);
    // The rank is at most n since the share is at most the whole, so that it fits a usize again.
    let rank = usize::try_from(rank).unwrap_or(usize::MAX).clamp(1, sorted.len());
    sorted[rank - 1]
}

#[expect(clippy::cast_precision_loss, reason = "a mean is printed with two decimals")]
fn mean(samples: &[u64]) -> f64 {
    let sum: u128 = samples.iter().map(|&ns| u128::from(ns)).sum();
    sum as f64 / samples.len() as f64
}

/// The middle of some figures, the lower one of two middles: one that was measured, as with every percentile here.
pub fn median(figures: &[u64]) -> Option<u64> {
    Summary::of(figures).map(|summary| summary.p50)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn worked_example() {
        let samples: Vec<u64> = (1..=1000).rev().collect();
        let s = Summary::of(&samples).unwrap();
        assert_eq!((s.p50, s.p90, s.p99, s.p99_9, s.min, s.max, s.n), (500, 900, 990, 999, 1, 1000, 1000));
        assert!((s.mean - 500.5).abs() < 1e-9);
        assert_eq!((s.p99_99, s.p99_999), (None, None));
    }

    #[test]
    fn one_sample_is_every_percentile() {
        let s = Summary::of(&[7]).unwrap();
        assert_eq!((s.p50, s.p90, s.p99, s.p99_9, s.min, s.max), (7, 7, 7, 7, 7, 7));
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_far_tail_needs_samples() {
        let samples: Vec<u64> = (1..=100_000).collect();
        let s = Summary::of(&samples).unwrap();
        assert_eq!((s.p99_99, s.p99_999), (Some(99_990), None));
    }

    #[test]
    fn the_mean_of_huge_samples_does_not_overflow() {
        let s = Summary::of(&[u64::MAX, u64::MAX]).unwrap();
        assert!(s.mean > 1.8e19);
    }

    proptest! {
        /// The definition, not the formula: the smallest sample with at least the share of all samples at or below it.
        #[test]
        fn nearest_rank_is_the_smallest_that_covers_its_share(samples in prop::collection::vec(0u64..50, 1..400)) {
            let s = Summary::of(&samples).unwrap();
            for (value, share) in [(s.p50, 50_000), (s.p90, 90_000), (s.p99, 99_000), (s.p99_9, 99_900)] {
                let at_or_below = |x: u64| samples.iter().filter(|&&y| y <= x).count() as u128 * WHOLE;
                let wanted = share * samples.len() as u128;
                prop_assert!(samples.contains(&value));
                prop_assert!(at_or_below(value) >= wanted);
                prop_assert!(samples.iter().all(|&x| x >= value || at_or_below(x) < wanted));
            }
        }

        #[test]
        fn percentiles_are_ordered_and_do_not_depend_on_the_order_of_samples(
            samples in prop::collection::vec(any::<u64>(), 1..300), turn in any::<prop::sample::Index>()
        ) {
            let s = Summary::of(&samples).unwrap();
            let ladder = [s.min, s.p50, s.p90, s.p99, s.p99_9, s.max];
            prop_assert!(ladder.is_sorted());
            let mut turned = samples.clone();
            turned.rotate_left(turn.index(samples.len()));
            prop_assert_eq!(Summary::of(&turned).unwrap(), s);
        }
    }
}
