//! Measurements, and what all of them share: who runs when, what is discarded, what a result looks like.
//!
//! A measurement is a file under `experiment/` and a row of [`MEASUREMENTS`]. Its arms differ in one thing and take
//! turns ([`rounds`]), so that whatever drifts meanwhile drifts for all of them.

pub mod echo;
pub mod faults;
pub mod hiccups;
pub mod nodelay;
pub mod pingpong;
pub mod privileges;
pub mod receive;
pub mod rounds;
pub mod syscalls;
pub mod tuning;
pub mod udp_rtt;
pub mod uring;
pub mod xdp;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ArgMatches;
use quietcore::units::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::caveat::Caveat;
use crate::picture::Picture;
use crate::samples::Samples;
use crate::summary::Summary;
use crate::table::Table;

pub use rounds::{Effort, Schedule};

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
pub const MEASUREMENTS: &[Measurement] = &[
    hiccups::MEASUREMENT,
    pingpong::MEASUREMENT,
    udp_rtt::MEASUREMENT,
    nodelay::MEASUREMENT,
    syscalls::MEASUREMENT,
    receive::MEASUREMENT,
    uring::MEASUREMENT,
    faults::MEASUREMENT,
    privileges::MEASUREMENT,
    tuning::MEASUREMENT,
    xdp::MEASUREMENT,
    echo::MEASUREMENT,
];

/// A measurement ready to run.
pub trait Experiment {
    /// What its CPUs are for.
    fn roles(&self) -> Roles;

    /// Measures. An error is a measurement that did not take place; what the host cannot do is a skipped arm.
    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings>;
}

/// What the CPUs of `--cpus` are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles {
    /// One CPU for each of these, in this order. With fewer CPUs the last roles are played: they are the measured ones.
    Each(&'static [&'static str]),
    /// As many CPUs as there are, all for the same; one where nobody asks for more.
    Any(&'static str),
}

/// What a measurement is given.
pub struct Lab<'a> {
    /// A CPU for each role, or fewer where the host has no more.
    pub cpus: Vec<u32>,
    /// How much to measure, as far as the user said.
    pub effort: Effort,
    /// What the plan says that the process will lock.
    pub locked_memory: Option<Bytes>,
    /// Set when the user wants it to end.
    pub stop: &'a AtomicBool,
    /// Told what comes next, between trials and never during one.
    pub progress: &'a dyn Fn(Step<'_>),
}

impl Lab<'_> {
    /// The CPUs of two `roles`, where there are two.
    pub fn two_cpus(&self, roles: [&str; 2]) -> Result<[u32; 2], Skip> {
        let [first, second] = roles;
        let lacking = || Skip(format!("needs two CPUs, one for the {first} and one for the {second}"));
        self.cpus.first_chunk().copied().ok_or_else(lacking)
    }

    /// An error when the user wants it to end.
    pub fn go_on(&self) -> Result<(), Interrupted> {
        go_on(self.stop)
    }
}

/// An error when `stop` says that the user wants it to end.
#[inline]
pub fn go_on(stop: &AtomicBool) -> Result<(), Interrupted> {
    if stop.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}

/// How far a measurement has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// What comes next.
    pub name: &'a str,
    /// Trials that are over.
    pub done: u32,
    /// Trials in all.
    pub of: u32,
}

/// What a measurement found.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// What one sample is, where the rows are made of samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<&'static str>,
    /// Every arm, measured or skipped; where a single trial is the result, every trial.
    pub arms: Vec<Row>,
    /// Figures over several arms or trials.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub summary: Map<String, Value>,
    /// What was expected, and whether it came.
    pub claims: Vec<Claim>,
    /// What to know before quoting a number.
    pub caveats: Vec<Caveat>,
    /// What a human reads of the figures that are no percentiles.
    #[serde(skip)]
    pub tables: Vec<Table>,
    /// What there is to see beside the distributions, which every row with samples has.
    #[serde(skip)]
    pub pictures: Vec<Picture>,
}

impl Findings {
    /// The measured arm of that name.
    pub fn arm(&self, name: &str) -> Option<&Row> {
        self.arms.iter().find(|row| row.name == name && row.skipped.is_none())
    }
}

/// One arm of a result, or one trial of it.
#[derive(Debug, Default, Serialize)]
pub struct Row {
    /// The arm; `ARM-TRIAL`, trials counted from 1, where a trial is the result.
    pub name: String,
    /// Which trial of its arm, where a trial is the result.
    #[serde(skip)]
    pub trial: Option<u32>,
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
    /// What the figures were made of.
    #[serde(skip)]
    pub raw: Raw,
}

/// What the figures of a row were made of, round by round.
#[derive(Debug)]
pub enum Raw {
    /// Durations in the order in which they were taken.
    Samples(Vec<Samples>),
    /// Gaps as far as they were kept: when each began, counted from the begin of its round, and how long it was, in
    /// nanoseconds.
    Gaps(Vec<Vec<(u64, u64)>>),
}

impl Default for Raw {
    fn default() -> Raw {
        Raw::Samples(Vec::new())
    }
}

impl Raw {
    /// Was nothing kept, not even rounds without a gap?
    pub fn is_empty(&self) -> bool {
        match self {
            Raw::Samples(rounds) => rounds.is_empty(),
            Raw::Gaps(rounds) => rounds.is_empty(),
        }
    }

    /// The first line of its CSV.
    pub fn columns(&self) -> &'static str {
        match self {
            Raw::Samples(_) => "round,ns",
            Raw::Gaps(_) => "round,at_ns,ns",
        }
    }

    /// Every duration, round after round.
    pub fn durations(&self) -> Vec<u64> {
        match self {
            Raw::Samples(rounds) => rounds.iter().flat_map(Samples::as_slice).copied().collect(),
            Raw::Gaps(rounds) => rounds.iter().flatten().map(|&(_, length)| length).collect(),
        }
    }
}

impl Row {
    /// An arm that the host cannot run.
    pub fn skipped(name: impl Into<String>, why: impl Into<String>) -> Row {
        Row { name: name.into(), skipped: Some(why.into()), ..Row::default() }
    }

    /// An arm without percentiles.
    pub fn figures(name: impl Into<String>, figures: impl IntoIterator<Item = (&'static str, Value)>) -> Row {
        let figures = figures.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Row { name: name.into(), figures, ..Row::default() }
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

impl Claim {
    /// What became of it: a word that says whether the run fails.
    pub fn word(&self) -> &'static str {
        match (self.holds, self.required) {
            (true, _) => "holds",
            (false, true) => "FAILS",
            (false, false) => "does not hold",
        }
    }

    /// `LOW FIGURE < HIGH FIGURE`, or `≪` where `times` is more than 1: the ratio reaches it. `None` where one of the arms
    /// was skipped.
    pub fn below(findings: &Findings, low: &str, high: &str, figure: &str, times: f64) -> Option<Claim> {
        let of = |arm| findings.arm(arm)?.figure(figure);
        let (low_value, high_value) = (of(low)?, of(high)?);
        let sign = if times > 1.0 { "≪" } else { "<" };
        let mut claim = format!("{low} {figure} {sign} {high} {figure}");
        if times > 1.0 {
            let _ = write!(claim, " (at least {times} times)");
        }
        let ratio = high_value / low_value;
        let holds = if times > 1.0 { ratio >= times } else { ratio > 1.0 };
        Some(Claim { claim, holds, measured: format!("ratio {ratio:.2}"), required: false })
    }

    /// `A FIGURE ≈ B FIGURE`: neither is more than `times` the other.
    pub fn near(findings: &Findings, a: &str, b: &str, figure: &str, times: f64) -> Option<Claim> {
        let of = |arm| findings.arm(arm)?.figure(figure);
        let ratio = of(a)? / of(b)?;
        Some(Claim {
            claim: format!("{a} {figure} ≈ {b} {figure} (within {times} times)"),
            holds: ratio <= times && ratio >= 1.0 / times,
            measured: format!("ratio {ratio:.2}"),
            required: false,
        })
    }
}

impl Row {
    /// The arm, also where the row is one trial of it.
    pub fn arm(&self) -> &str {
        let trial = self.trial.and_then(|trial| self.name.strip_suffix(&trial.to_string())?.strip_suffix('-'));
        trial.unwrap_or(&self.name)
    }

    /// A figure by its name in the JSON, a percentile or another one.
    pub fn figure(&self, name: &str) -> Option<f64> {
        match self.figures.get(name) {
            Some(value) => value.as_f64(),
            None => self.summary.as_ref()?.by_name(name),
        }
    }
}

/// The user asked for the end.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("interrupted")]
pub struct Interrupted;

/// What an arm needs and the host does not give. Holds the reason, a lowercase fragment.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Skip(pub String);

#[cfg(test)]
mod tests {
    use super::*;

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

    fn measured() -> Findings {
        let row = |name: &str, samples: &[u64], lost: f64| Row {
            summary: Summary::of(samples),
            ..Row::figures(name, [("lost", lost.into())])
        };
        let arms = vec![row("spin", &[10, 20, 30], 0.5), row("block", &[60, 80, 90], 0.25), Row::skipped("poll", "no")];
        Findings { arms, ..Findings::default() }
    }

    #[test]
    fn orders() {
        let findings = measured();
        let claim = Claim::below(&findings, "spin", "block", "p50", 1.0).unwrap();
        assert_eq!((claim.claim.as_str(), claim.holds), ("spin p50 < block p50", true));
        assert_eq!(claim.measured, "ratio 4.00");
        assert!(!Claim::below(&findings, "spin", "block", "p50", 5.0).unwrap().holds);
        assert!(!Claim::below(&findings, "spin", "block", "lost", 1.0).unwrap().holds);
        assert!(Claim::near(&findings, "spin", "block", "lost", 2.0).unwrap().holds);
        assert!(!Claim::near(&findings, "block", "spin", "p50", 3.0).unwrap().holds);
    }

    #[test]
    fn nothing_is_claimed_of_what_was_skipped_or_not_counted() {
        let findings = measured();
        assert_eq!(Claim::below(&findings, "poll", "block", "p50", 1.0), None);
        assert_eq!(Claim::below(&findings, "spin", "block", "faults", 1.0), None);
        assert_eq!(Claim::near(&findings, "spin", "poll", "p50", 1.0), None);
    }
}
