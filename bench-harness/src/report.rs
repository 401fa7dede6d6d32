//! A result on paper: the JSON of schema 1, a text for a human, and the files of `--out`.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use quietcore::output::at_blanks;
use serde::Serialize;
use serde_json::Value;

use crate::caveat::Caveat;
use crate::environment::Environment;
use crate::experiment::{Findings, MEASUREMENTS, Raw, Row};
use crate::page;
use crate::summary::Summary;
use crate::table::Table;
use crate::text;

/// The version of the JSON's form.
pub const SCHEMA: u32 = 1;

/// Columns of the text.
const WIDTH: usize = 80;

/// A measurement's result with the host that it came from.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    /// The measurement's name.
    pub measurement: &'static str,
    /// The host meanwhile.
    pub host: Environment,
    /// What was found.
    #[serde(flatten)]
    pub findings: Findings,
}

impl Report {
    /// Puts findings and host together.
    pub fn new(measurement: &'static str, host: Environment, findings: Findings) -> Report {
        Report { schema: SCHEMA, measurement, host, findings }
    }

    /// Did everything hold that the run depends on?
    pub fn holds(&self) -> bool {
        self.findings.claims.iter().all(|claim| claim.holds || !claim.required)
    }

    /// The JSON text, with a line break at the end.
    pub fn json(&self) -> serde_json::Result<String> {
        text::json(self)
    }

    /// Writes `MEASUREMENT.json`, the page `MEASUREMENT.html` and `MEASUREMENT-ARM.csv` for each arm with what its figures
    /// were made of into `folder`, which is made where it is missing.
    pub fn save(&self, folder: &Path) -> anyhow::Result<()> {
        make_folder(folder)?;
        let name = self.measurement;
        write_file(&folder.join(format!("{name}.json")), |out| out.write_all(self.json()?.as_bytes()))?;
        write_file(&folder.join(format!("{name}.html")), |out| out.write_all(page::of_report(self).as_bytes()))?;
        self.raw_files().try_for_each(|(name, raw)| write_file(&folder.join(name), |out| csv(out, raw)))
    }

    /// The files of raw figures, with what is in them.
    pub(crate) fn raw_files(&self) -> impl Iterator<Item = (String, &Raw)> {
        let measured = self.findings.arms.iter().filter(|row| !row.raw.is_empty());
        measured.map(|row| (format!("{}-{}.csv", self.measurement, row.name), &row.raw))
    }

    /// The measurement's line of help, where it is one of the table.
    pub(crate) fn about(&self) -> Option<&'static str> {
        MEASUREMENTS.iter().find(|row| row.name == self.measurement).map(|row| row.about)
    }
}

/// A line a sample or a gap, in the order in which they came.
fn csv(out: &mut impl Write, raw: &Raw) -> io::Result<()> {
    writeln!(out, "{}", raw.columns())?;
    match raw {
        Raw::Samples(rounds) => (1..).zip(rounds).try_for_each(|(round, samples)| {
            samples.as_slice().iter().try_for_each(|ns| writeln!(out, "{round},{ns}"))
        }),
        Raw::Gaps(rounds) => (1..).zip(rounds).try_for_each(|(round, gaps)| {
            gaps.iter().try_for_each(|(at, length)| writeln!(out, "{round},{at},{length}"))
        }),
    }
}

/// Makes a folder, and those above it, where there is none.
pub(crate) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Writes a file, whole or with an error that names it.
pub(crate) fn write_file(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> anyhow::Result<()> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        fill(&mut out)?;
        out.flush()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.measurement)?;
        let mut fact = |name: &str, fact: &str| {
            let text = format!("  {name:<11} {fact}");
            writeln!(f, "{}", textwrap::fill(&text, at_blanks(WIDTH).subsequent_indent("              ")))
        };
        self.host.facts().iter().try_for_each(|(name, text)| fact(name, text))?;
        self.findings.sample.iter().try_for_each(|sample| fact("a sample", sample))?;
        writeln!(f)?;
        for table in &self.findings.tables {
            writeln!(f, "{table}")?;
        }
        if let Some(table) = percentiles(&self.findings.arms, false) {
            writeln!(f, "{table}")?;
        }
        self.findings.arms.iter().filter_map(remark).try_for_each(|remark| writeln!(f, "{}", broken(&remark)))?;
        for (name, value) in &self.findings.summary {
            writeln!(f, "{name:<12}{}", plain(value))?;
        }
        if !self.findings.summary.is_empty() {
            writeln!(f)?;
        }
        for claim in &self.findings.claims {
            writeln!(f, "{}", broken(&format!("{}: {} ({})", claim.word(), claim.claim, claim.measured)))?;
        }
        writeln!(f)?;
        let caveat = |caveat: &Caveat| broken(&format!("{}: {}", caveat.code(), caveat.text()));
        self.findings.caveats.iter().try_for_each(|of| writeln!(f, "{}", caveat(of)))
    }
}

/// A text in lines that fit a terminal.
fn broken(text: &str) -> String {
    textwrap::fill(text, at_blanks(WIDTH).subsequent_indent("  "))
}

/// The percentiles of all rows that have any; times in nanoseconds. `whole` leaves nothing out, and may be wider than a
/// terminal.
pub(crate) fn percentiles(rows: &[Row], whole: bool) -> Option<Table> {
    let summaries = || rows.iter().filter_map(|row| Some((row, row.summary.as_ref()?)));
    let figure = |summary: &Summary, name| summary.by_name(name).map_or("-".to_owned(), |value| format!("{value:.0}"));
    let has = |name: &&str| summaries().any(|(_, summary)| summary.by_name(name).is_some());
    let names = ["p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "min", "max", "mean", "n"];
    let is_brief = |name: &&str| !["p99.99", "p99.999", "n"].contains(name);
    let names: Vec<&str> = names.into_iter().filter(|name| has(name) && (whole || is_brief(name))).collect();
    let mut table = Table::new("", &[&["ns"], names.as_slice()].concat());
    for (row, summary) in summaries() {
        let figures = names.iter().map(|name| figure(summary, name));
        table.rows.push(std::iter::once(row.name.clone()).chain(figures).collect());
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What no table shows: why an arm was skipped, or what was found where that is no number.
pub(crate) fn remark(row: &Row) -> Option<String> {
    match (&row.skipped, row.figures.get("result")) {
        (Some(why), _) => Some(format!("{}: skipped: {why}", row.name)),
        (None, Some(result)) => {
            let tried = row.figures.get("tried").map(|tried| format!(" ({})", plain(tried))).unwrap_or_default();
            Some(format!("{}: {}{tried}", row.name, plain(result)))
        }
        (None, None) => None,
    }
}

/// A figure of any kind for a human.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect::<Vec<_>>().join(", ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Claim;

    #[test]
    fn texts_fit_a_terminal_and_say_what_a_sample_is() {
        let claim = "no message takes longer than ".repeat(5);
        let claim = Claim { claim, holds: false, measured: "one did".to_owned(), required: true };
        let findings = Findings {
            sample: Some("one way"),
            arms: vec![Row::skipped("busypoll", "it takes a capability that is not there ".repeat(3))],
            claims: vec![claim],
            caveats: vec![Caveat::BusyPollInert(vec!["the messages come from no NAPI instance".to_owned(); 3])],
            ..Findings::default()
        };
        let text = Report::new("receive", Environment::default(), findings).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("\n  a sample    one way\n") && text.contains("\nFAILS: no message"), "{text}");
        assert!(text.contains("\nbusypoll: skipped: it takes") && text.contains("\nbusy-poll-inert: "), "{text}");
    }
}
