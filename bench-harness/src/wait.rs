//! What gaps cost a message.
//!
//! A thread that is away for g₁ … gₙ in an observed time T makes a message wait that arrives meanwhile: for the rest of the
//! gap that it falls in. For arrivals that do not depend on the gaps,
//!
//! - the share of time lost is Σ gᵢ / T, which is also the probability of any wait at all;
//! - the mean wait is Σ gᵢ² / 2T;
//! - P(wait > x) is Σ max(gᵢ − x, 0) / T.

use crate::counter::precise;

/// The wait model of some gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// Gaps in nanoseconds with how often each came, the longest first, and the sums of what is at least as long:
    /// Σ count, Σ gap.
    gaps: Vec<(u64, f64, f64)>,
    sum_of_squares: f64,
    observed_ns: f64,
}

impl Wait {
    /// The model of `gaps`, pairs of length in nanoseconds and number, in `observed_ns`. `None` when nothing was observed.
    pub fn of(gaps: impl IntoIterator<Item = (u64, u64)>, observed_ns: f64) -> Option<Wait> {
        let mut lengths: Vec<(u64, u64)> = gaps.into_iter().filter(|&(_, count)| count > 0).collect();
        lengths.sort_unstable_by_key(|&(ns, _)| std::cmp::Reverse(ns));
        let (mut count, mut sum, mut sum_of_squares) = (0.0, 0.0, 0.0);
        let gaps = lengths.into_iter().map(|(ns, times)| {
            let (length, times) = (precise(ns), precise(times));
            count += times;
            sum += times * length;
            sum_of_squares += times * length * length;
            (ns, count, sum)
        });
        let gaps = gaps.collect();
        (observed_ns > 0.0).then_some(Wait { gaps, sum_of_squares, observed_ns })
    }

    /// The share of time lost.
    pub fn lost(&self) -> f64 {
        self.gaps.last().map_or(0.0, |&(_, _, sum)| sum / self.observed_ns)
    }

    /// The mean wait of an arrival, in nanoseconds; arrivals that do not wait count as 0.
    pub fn mean_ns(&self) -> f64 {
        self.sum_of_squares / (2.0 * self.observed_ns)
    }

    /// The probability that an arrival waits longer than `ns`.
    pub fn p_over(&self, ns: u64) -> f64 {
        match self.longer_than(ns) {
            0 => 0.0,
            longer => {
                let (_, count, sum) = self.gaps[longer - 1];
                (sum - count * precise(ns)) / self.observed_ns
            }
        }
    }

    /// Gaps of at least `ns`, a second.
    pub fn gaps_per_second(&self, ns: u64) -> f64 {
        let count = match self.gaps.partition_point(|&(gap, ..)| gap >= ns) {
            0 => 0.0,
            longer => self.gaps[longer - 1].1,
        };
        count * 1e9 / self.observed_ns
    }

    /// The wait that the share `p` of all arrivals does not exceed, in nanoseconds.
    ///
    /// Between two gaps P(wait > x) is a straight line; on the first one that reaches 1 − p lies the answer.
    pub fn quantile_ns(&self, p: f64) -> f64 {
        let wanted = (1.0 - p) * self.observed_ns;
        for (i, &(_, count, sum)) in self.gaps.iter().enumerate() {
            let next = self.gaps.get(i + 1).map_or(0, |&(ns, ..)| ns);
            if sum - count * precise(next) >= wanted {
                return ((sum - wanted) / count).max(0.0);
            }
        }
        0.0
    }

    fn longer_than(&self, ns: u64) -> usize {
        self.gaps.partition_point(|&(gap, ..)| gap > ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= 1e-9 * wanted.abs().max(1.0), "{found}, wanted {wanted}");
    }

    #[test]
    fn three_gaps() {
        let wait = Wait::of([(500, 1), (2000, 1), (90, 1)], 10_000.0).unwrap();
        close(wait.lost(), 0.259);
        close(wait.mean_ns(), f64::from(500 * 500 + 2000 * 2000 + 90 * 90) / 20_000.0);
        close(wait.p_over(1000), 0.1);
        close(wait.p_over(0), 0.259);
        close(wait.p_over(2000), 0.0);
        close(wait.gaps_per_second(500), 200_000.0);
        close(wait.gaps_per_second(501), 100_000.0);
    }

    #[test]
    fn a_tick_of_2_us_at_250_hz() {
        let wait = Wait::of([(2_000, 250)], 1e9).unwrap();
        close(wait.lost(), 0.0005);
        close(wait.mean_ns(), 0.5);
        close(wait.p_over(1_000), 0.00025);
    }

    #[test]
    fn a_thousand_gaps_of_10_us_and_one_of_10_ms_lose_the_same_and_cost_differently() {
        let many = Wait::of([(10_000, 1_000)], 1e9).unwrap();
        close(many.lost(), 0.01);
        close(many.mean_ns(), 50.0);
        close(many.p_over(5_000), 0.005);
        close(many.quantile_ns(0.999), 9_000.0);
        let one = Wait::of([(10_000_000, 1)], 1e9).unwrap();
        close(one.lost(), 0.01);
        close(one.mean_ns(), 50_000.0);
    }

    #[test]
    fn real_time_throttling() {
        close(Wait::of([(50_000_000, 1)], 1e9).unwrap().lost(), 0.05);
    }

    #[test]
    fn no_gap_costs_nothing_and_no_time_says_nothing() {
        let wait = Wait::of([], 1e9).unwrap();
        assert_eq!((wait.lost(), wait.mean_ns(), wait.p_over(0), wait.quantile_ns(0.5)), (0.0, 0.0, 0.0, 0.0));
        assert_eq!(Wait::of([(5, 1)], 0.0), None);
    }

    /// A generator whose numbers are the same each time (Knuth's MMIX constants).
    struct Lcg(u64);

    impl Lcg {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    /// Messages that arrive at random moments of a time line with these gaps wait as the formulas say.
    #[test]
    fn random_arrivals_agree() {
        const T: u64 = 10_000_000;
        const ARRIVALS: u32 = 400_000;
        let mut random = Lcg(7);
        let mut gaps = Vec::new();
        let mut at = 0;
        loop {
            at += 5_000 + random.below(60_000);
            let length = 1_000 + random.below(30_000);
            if at + length > T {
                break;
            }
            gaps.push((at, length));
            at += length;
        }
        let wait = Wait::of(gaps.iter().map(|&(_, length)| (length, 1)), precise(T)).unwrap();
        let waits: Vec<u64> = (0..ARRIVALS)
            .map(|_| {
                let moment = random.below(T);
                let before = gaps.partition_point(|&(at, _)| at <= moment);
                let end = before.checked_sub(1).map_or(0, |i| gaps[i].0 + gaps[i].1);
                end.saturating_sub(moment)
            })
            .collect();
        let share = |over: u64| {
            f64::from(u32::try_from(waits.iter().filter(|&&w| w > over).count()).unwrap()) / f64::from(ARRIVALS)
        };
        for over in [0, 1_000, 5_000, 20_000] {
            let (drawn, model) = (share(over), wait.p_over(over));
            assert!((drawn - model).abs() < 0.005, "P(wait > {over}): {drawn} drawn, {model} by the model");
        }
        let mean = precise(waits.iter().sum::<u64>()) / f64::from(ARRIVALS);
        assert!((mean / wait.mean_ns() - 1.0).abs() < 0.02, "{mean} drawn, {} by the model", wait.mean_ns());
        let below = 1.0 - share(whole(wait.quantile_ns(0.9)));
        assert!((below - 0.9).abs() < 0.005, "{below}");
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a wait of a test")]
    fn whole(ns: f64) -> u64 {
        ns.floor() as u64
    }

    proptest! {
        /// The definitions, term by term.
        #[test]
        fn formulas(gaps in prop::collection::vec((1u64..1000, 1u64..4), 0..20), over in 0u64..1200) {
            let t = 100_000.0;
            let wait = Wait::of(gaps.clone(), t).unwrap();
            let over_sum: u64 = gaps.iter().map(|&(g, n)| g.saturating_sub(over) * n).sum();
            let at_least: u64 = gaps.iter().filter(|&&(g, _)| g >= over).map(|&(_, n)| n).sum();
            prop_assert!((wait.p_over(over) - precise(over_sum) / t).abs() < 1e-9);
            prop_assert!((wait.gaps_per_second(over) - precise(at_least) * 1e9 / t).abs() < 1e-6);
        }

        /// A quantile is where the probability is what it was asked for.
        #[test]
        fn quantiles_invert(gaps in prop::collection::vec((1u64..1000, 1u64..4), 1..20), per_mille in 1u32..1000) {
            let t = 2_000.0;
            let p = f64::from(per_mille) / 1000.0;
            let wait = Wait::of(gaps, t).unwrap();
            let x = wait.quantile_ns(p);
            // Probabilities are asked for at whole nanoseconds, and on either side of x they enclose 1 - p.
            let (above, below) = (wait.p_over(whole(x)), wait.p_over(whole(x) + 1));
            prop_assert!(above >= (1.0 - p).min(wait.lost()) - 1e-9, "{above}");
            prop_assert!(below <= 1.0 - p + 1e-9, "{below}");
        }
    }
}
