//! Measurements, and what all of them share: who runs when, what is discarded, what a result looks like.
//!
//! A measurement is a file under `experiment/` and a row of [`MEASUREMENTS`]. Its arms differ in one thing and take
//! turns ([`interleave`]), so that whatever drifts meanwhile drifts for all of them.

pub mod echo;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::ArgMatches;
use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::caveat::Caveat;
use crate::measure::Trips;
use crate::samples::Samples;
use crate::summary::Summary;

/// A row of the table: what a measurement is called, what it takes, how it is made.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// The subcommand and the `measurement` of the JSON.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Adds the options that only this measurement has.
    pub options: fn(clap::Command) -> clap::Command,
    /// Makes it of parsed options.
    pub build: fn(&ArgMatches) -> Result<Box<dyn Experiment>, clap::Error>,
}

/// Every measurement, in the order in which they run.
pub const MEASUREMENTS: &[Measurement] = &[echo::MEASUREMENT];

/// A measurement ready to run.
pub trait Experiment {
    /// What its CPUs are for, in the order of `--cpus`.
    fn roles(&self) -> &'static [&'static str];

    /// Measures. An error is a measurement that did not take place; what the host cannot do is a skipped arm.
    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings>;
}

/// What a measurement is given.
pub struct Lab<'a> {
    /// A CPU for each role, or fewer where the host has no more.
    pub cpus: Vec<u32>,
    /// Make it short: a smoke test.
    pub quick: bool,
    /// Set when the user wants it to end.
    pub stop: &'a AtomicBool,
    /// Told what comes next, between trials and never during one.
    pub progress: &'a dyn Fn(&str),
}

/// What a measurement found.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// Every trial, or the arms that were skipped.
    pub arms: Vec<Row>,
    /// Figures over several trials.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub summary: Map<String, Value>,
    /// What was expected, and whether it came.
    pub claims: Vec<Claim>,
    /// What to know before quoting a number.
    pub caveats: Vec<Caveat>,
}

/// One trial of one arm.
#[derive(Debug, Serialize)]
pub struct Row {
    /// `ARM-TRIAL`, trials counted from 1; or `ARM` alone when it was skipped.
    pub name: String,
    /// Why there are no figures.
    pub skipped: Option<String>,
    /// The unit of the percentiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<&'static str>,
    /// The percentiles.
    #[serde(flatten)]
    pub summary: Option<Summary>,
    /// What else this arm counted.
    #[serde(flatten)]
    pub figures: Map<String, Value>,
    /// The samples, in the order in which they were taken.
    #[serde(skip)]
    pub samples: Samples,
}

impl Row {
    /// An arm that the host cannot run.
    pub fn skipped(name: &str, why: &str) -> Row {
        Row {
            name: name.to_owned(),
            skipped: Some(why.to_owned()),
            unit: None,
            summary: None,
            figures: Map::new(),
            samples: Samples::default(),
        }
    }
}

/// Something that was expected of the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// The good outcome, in the present tense.
    pub claim: String,
    /// Did it come?
    pub holds: bool,
    /// The figures that say so.
    pub measured: String,
    /// Does the run fail without it? So it is with what the kernel testifies to; a ratio is only reported, unless
    /// the user requires it.
    pub required: bool,
}

/// The user asked for the end.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("interrupted")]
pub struct Interrupted;

/// One side of a comparison.
pub trait Arm {
    /// Its name, without a trial's number.
    fn name(&self) -> &'static str;

    /// Runs once: warm-up discarded, `trips.n` samples recorded. Returns what else was counted.
    fn trial(&mut self, trips: Trips, samples: &mut Samples) -> anyhow::Result<Map<String, Value>>;
}

/// Runs `trials` rounds, in each of them every arm once in the order given, and returns a row a trial in that order.
pub fn interleave(
    arms: &mut [&mut dyn Arm],
    trials: u32,
    trips: Trips,
    stop: &AtomicBool,
    progress: &dyn Fn(&str),
) -> anyhow::Result<Vec<Row>> {
    let capacity = usize::try_from(trips.n).context("more samples than memory")?;
    let mut rows = Vec::new();
    for trial in 1..=trials {
        for arm in &mut *arms {
            let name = format!("{}-{trial}", arm.name());
            progress(&format!("{name} of {trials}"));
            let mut samples = Samples::with_capacity(capacity).context("no memory for the samples")?;
            let figures = arm.trial(trips, &mut samples);
            // Whatever a trial says that was cut short, the reason is the user.
            if stop.load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
            let figures = figures.with_context(|| format!("trial {name}"))?;
            let summary = Summary::of(samples.as_slice());
            rows.push(Row { name, skipped: None, unit: Some("ns"), summary, figures, samples });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// An arm that notes its turns and gives one sample a trip, `base` and upwards.
    struct Note<'a> {
        name: &'static str,
        base: u64,
        turns: &'a RefCell<Vec<&'static str>>,
        stop_after: Option<(usize, &'a AtomicBool)>,
    }

    impl Arm for Note<'_> {
        fn name(&self) -> &'static str {
            self.name
        }

        fn trial(&mut self, trips: Trips, samples: &mut Samples) -> anyhow::Result<Map<String, Value>> {
            self.turns.borrow_mut().push(self.name);
            (0..trips.n).for_each(|i| samples.record(self.base + i));
            if let Some((turns, stop)) = self.stop_after
                && self.turns.borrow().len() == turns
            {
                stop.store(true, Ordering::Relaxed);
                anyhow::bail!("cut short");
            }
            Ok(Map::from_iter([("base".to_owned(), self.base.into())]))
        }
    }

    const TRIPS: Trips = Trips { warmup: 0, n: 3 };

    #[test]
    fn arms_take_turns() {
        let turns = RefCell::new(Vec::new());
        let mut a = Note { name: "a", base: 10, turns: &turns, stop_after: None };
        let mut b = Note { name: "b", base: 20, turns: &turns, stop_after: None };
        let announced = RefCell::new(Vec::new());
        let announce = |text: &str| announced.borrow_mut().push(text.to_owned());
        let rows = interleave(&mut [&mut a, &mut b], 2, TRIPS, &AtomicBool::new(false), &announce).unwrap();
        assert_eq!(*turns.borrow(), ["a", "b", "a", "b"]);
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["a-1", "b-1", "a-2", "b-2"]);
        assert_eq!(rows[1].summary.as_ref().unwrap().p50, 21);
        assert_eq!(rows[1].figures["base"], 20);
        assert_eq!(announced.borrow()[3], "b-2 of 2");
    }

    #[test]
    fn a_stop_ends_the_race_and_is_the_reason() {
        let turns = RefCell::new(Vec::new());
        let stop = AtomicBool::new(false);
        let mut a = Note { name: "a", base: 10, turns: &turns, stop_after: Some((2, &stop)) };
        let error = interleave(&mut [&mut a], 5, TRIPS, &stop, &|_| {}).unwrap_err();
        assert!(error.is::<Interrupted>());
        assert_eq!(turns.borrow().len(), 2);
    }

    #[test]
    fn a_row_is_flat() {
        let row = Row::skipped("naive", "one CPU");
        assert_eq!(serde_json::to_string(&row).unwrap(), r#"{"name":"naive","skipped":"one CPU"}"#);
    }

    #[test]
    fn names_of_measurements_are_unique() {
        let mut names: Vec<_> = MEASUREMENTS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MEASUREMENTS.len());
    }
}
