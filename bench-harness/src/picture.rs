//! What there is to see: curves as data. How they are drawn is the page's affair.

use crate::counter::precise;
use crate::experiment::{Raw, Row};

/// A picture: one or more series over the same axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// A short name for links and files, in `kebab-case`.
    pub name: String,
    /// What it shows, one line.
    pub title: String,
    /// How to read it, a sentence or two.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// How the points are drawn.
    pub shape: Shape,
    /// What is drawn, in the order of the legend.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What it measures, with the unit where [`Unit`] does not say it.
    pub label: &'static str,
    /// How values are spread.
    pub scale: Scale,
    /// How ticks are labelled.
    pub unit: Unit,
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm; values that are not positive cannot be shown, and are left out.
    Log,
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, written as ns, us, ms or s.
    Time,
    /// A share of 1, written in percent.
    Share,
    /// A plain number.
    Number,
}

/// How points become a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Straight lines between points.
    Line,
    /// A value holds until the next point.
    Steps,
    /// A value is that of the interval which begins at its point and ends at the next one's; the last point only ends.
    Bars,
}

/// A named series of points, x ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

/// Points of a distribution are thinned to about this many: a page must stay readable for a browser, too.
const MOST_POINTS: usize = 400;

/// The share of samples at or below each latency, a series an arm; `None` where no arm has samples.
pub fn distribution(rows: &[Row]) -> Option<Picture> {
    let series: Vec<Series> = rows
        .iter()
        .filter(|row| matches!(row.raw, Raw::Samples(_)))
        .map(|row| Series { name: row.name.clone(), points: cumulated(&row.raw.durations()) })
        .filter(|series| !series.points.is_empty())
        .collect();
    (!series.is_empty()).then(|| Picture {
        name: "distribution".to_owned(),
        title: "Latency: the share of samples at or below each time".to_owned(),
        caption: "Further left is quicker; a flat stretch at the top is the tail.".to_owned(),
        x: Axis { label: "time", scale: Scale::Log, unit: Unit::Time },
        y: Axis { label: "share of samples", scale: Scale::Linear, unit: Unit::Share },
        shape: Shape::Steps,
        series,
    })
}

/// The distribution of `samples`, thinned evenly by rank but for both ends, which are kept.
fn cumulated(samples: &[u64]) -> Vec<(f64, f64)> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    // The tail is where the eye goes, and even ranks would leave ten points to its hundredth: halve the rest instead.
    let mut ranks: Vec<usize> = (0..MOST_POINTS).map(|i| i * n / MOST_POINTS).collect();
    let mut rest = n / MOST_POINTS;
    while rest > 0 {
        ranks.push(n - 1 - rest / 2);
        ranks.push(n - rest.div_ceil(4));
        rest /= 2;
    }
    ranks.extend(n.checked_sub(1));
    // Of equal samples the last one has the share that is at or below them all.
    let mut at_or_below: Vec<usize> =
        ranks.into_iter().filter_map(|rank| sorted.get(rank)).map(|&ns| sorted.partition_point(|&s| s <= ns)).collect();
    at_or_below.sort_unstable();
    at_or_below.dedup();
    let share = |count: usize| precise(count as u64) / precise(n as u64);
    at_or_below.into_iter().map(|count| (precise(sorted[count - 1]), share(count))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_small_distribution_is_exact() {
        assert_eq!(cumulated(&[30, 10, 10, 20]), [(10.0, 0.5), (20.0, 0.75), (30.0, 1.0)]);
        assert_eq!(cumulated(&[]), []);
    }

    #[test]
    fn what_was_skipped_is_not_drawn() {
        assert_eq!(distribution(&[Row::skipped("a", "no")]), None);
    }

    proptest! {
        #[test]
        fn thinning_keeps_points_of_the_curve(samples in prop::collection::vec(0u64..5_000, 1..3_000)) {
            let points = cumulated(&samples);
            prop_assert!(points.len() <= MOST_POINTS + 64);
            prop_assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
            let max = samples.iter().copied().max().unwrap();
            prop_assert_eq!(points.last().copied(), Some((precise(max), 1.0)));
            for &(x, share) in &points {
                let at_or_below = samples.iter().filter(|&&s| precise(s) <= x).count() as u64;
                prop_assert!((share - precise(at_or_below) / precise(samples.len() as u64)).abs() < 1e-12);
            }
        }
    }
}
