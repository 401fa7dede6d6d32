//! What there is to see: curves as data. [`svg`] draws them.

mod axis;
pub mod svg;

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
    /// Shares of 1, by how many nines they have: 0.9, 0.99 and 0.999 are equally far apart, so that the tail of a
    /// distribution has room. A share of 1 lies at the end of the axis; what is no share is left out.
    Nines,
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

/// Points of a distribution for each nine, at most: about one a pixel, and a page must stay readable for a browser, too.
const POINTS_A_NINE: f64 = 64.0;

/// The share of samples at or below each latency, a series an arm: all its trials together. `None` where no arm has
/// samples.
pub fn distribution(rows: &[Row]) -> Option<Picture> {
    let mut arms: Vec<(&str, Vec<u64>)> = Vec::new();
    for row in rows.iter().filter(|row| matches!(row.raw, Raw::Samples(_))) {
        let samples = row.raw.durations();
        match arms.iter_mut().find(|(name, _)| *name == row.arm()) {
            Some((_, all)) => all.extend(samples),
            None => arms.push((row.arm(), samples)),
        }
    }
    let series: Vec<Series> = arms
        .into_iter()
        .map(|(name, samples)| Series { name: name.to_owned(), points: cumulated(samples) })
        .filter(|series| !series.points.is_empty())
        .collect();
    (!series.is_empty()).then(|| Picture {
        name: "distribution".to_owned(),
        title: "Latency: the share of samples at or below each time".to_owned(),
        caption:
            "The cumulative distribution, with as much room for each further nine: where a line crosses 99.9 %, its \
                  p99.9 stands below. Further left is quicker. All trials of an arm are taken together; the last \
                  steps, up to the largest sample, are single samples."
                .to_owned(),
        x: Axis { label: "time", scale: Scale::Log, unit: Unit::Time },
        y: Axis { label: "share of samples", scale: Scale::Nines, unit: Unit::Share },
        shape: Shape::Steps,
        series,
    })
}

/// The distribution of `samples` from the smallest one, which none is below, to the largest; thinned evenly by nines.
fn cumulated(mut samples: Vec<u64>) -> Vec<(f64, f64)> {
    samples.sort_unstable();
    let n = samples.len();
    let Some(&smallest) = samples.first() else { return Vec::new() };
    let beyond = |previous: &f64| Some(previous / 10f64.powf(1.0 / POINTS_A_NINE)).filter(|beyond| *beyond >= 1.0);
    let mut at_or_below: Vec<usize> = std::iter::successors(Some(precise(n as u64)), beyond)
        .map(|beyond| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and their number")]
            let rank = n - (beyond as usize).min(n);
            // Of equal samples the last one has the share that is at or below them all.
            samples.partition_point(|&sample| sample <= samples[rank])
        })
        .collect();
    at_or_below.push(n);
    at_or_below.dedup();
    let share = |count: usize| precise(count as u64) / precise(n as u64);
    let steps = at_or_below.into_iter().map(|count| (precise(samples[count - 1]), share(count)));
    std::iter::once((precise(smallest), 0.0)).chain(steps).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples::Samples;

    #[test]
    fn a_small_distribution_is_exact() {
        assert_eq!(cumulated(vec![30, 10, 10, 20]), [(10.0, 0.0), (10.0, 0.5), (20.0, 0.75), (30.0, 1.0)]);
        assert_eq!(cumulated(Vec::new()), []);
    }

    #[test]
    fn what_was_skipped_is_not_drawn() {
        assert_eq!(distribution(&[Row::skipped("a", "no")]), None);
    }

    #[test]
    fn trials_of_an_arm_are_one_series() {
        let row = |name: &str, trial, ns| {
            let mut samples = Samples::with_capacity(1).unwrap();
            samples.record(ns);
            Row { name: name.to_owned(), trial, raw: Raw::Samples(vec![samples]), ..Row::default() }
        };
        let rows = [row("a-1", Some(1), 10), row("b-1", Some(1), 5), row("a-2", Some(2), 20), row("c-3", None, 7)];
        let series = distribution(&rows).unwrap().series;
        assert_eq!(series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c-3"]);
        assert_eq!(series[0].points, [(10.0, 0.0), (10.0, 0.5), (20.0, 1.0)]);
    }

    proptest! {
        #[test]
        fn thinning_keeps_points_of_the_curve(samples in prop::collection::vec(0u64..5_000, 1..3_000)) {
            let points = cumulated(samples.clone());
            prop_assert!(precise(points.len() as u64) <= POINTS_A_NINE * 3.5 + 3.0);
            prop_assert!(points[1..].is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
            let max = samples.iter().copied().max().unwrap();
            prop_assert_eq!(points.last().copied(), Some((precise(max), 1.0)));
            for &(x, share) in &points[1..] {
                let at_or_below = samples.iter().filter(|&&s| precise(s) <= x).count() as u64;
                prop_assert!((share - precise(at_or_below) / precise(samples.len() as u64)).abs() < 1e-12);
            }
        }
    }
}
