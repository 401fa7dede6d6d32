//! A result on paper: the JSON of schema 1, a text for a human, and the files of `--out`.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use quietcore::reading::printable_json;
use serde::Serialize;
use serde_json::Value;

use crate::environment::Environment;
use crate::experiment::{Findings, Raw, Row};
use crate::samples::Samples;
use crate::table::Table;

/// The version of the JSON's form.
pub const SCHEMA: u32 = 1;

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
        Ok(printable_json(&serde_json::to_string_pretty(self)?).into_owned() + "\n")
    }

    /// Writes `MEASUREMENT.json`, the page `MEASUREMENT.html` and `MEASUREMENT-ARM.csv` for each arm with what its figures
    /// were made of into `folder`, which is made where it is missing.
    pub fn save(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        write_file(&folder.join(format!("{}.json", self.measurement)), |out| out.write_all(self.json()?.as_bytes()))?;
        for row in &self.findings.arms {
            let path = folder.join(format!("{}-{}.csv", self.measurement, row.name));
            match &row.raw {
                Raw::Samples(rounds) if rounds.is_empty() => {}
                Raw::Samples(rounds) => write_file(&path, |out| samples(out, rounds))?,
                Raw::Gaps(rounds) => write_file(&path, |out| gaps(out, rounds))?,
            }
        }
        Ok(())
    }
}

/// A line a sample, in the order in which they were taken.
fn samples(out: &mut impl Write, rounds: &[Samples]) -> io::Result<()> {
    writeln!(out, "round,ns")?;
    for (round, samples) in (1..).zip(rounds) {
        samples.as_slice().iter().try_for_each(|ns| writeln!(out, "{round},{ns}"))?;
    }
    Ok(())
}

/// A line a gap, in the order in which they came.
fn gaps(out: &mut impl Write, rounds: &[Vec<(u64, u64)>]) -> io::Result<()> {
    writeln!(out, "round,at_ns,ns")?;
    for (round, gaps) in (1..).zip(rounds) {
        gaps.iter().try_for_each(|(at, length)| writeln!(out, "{round},{at},{length}"))?;
    }
    Ok(())
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
        let Environment { kernel, cpu, guest, clocksource, governor, steal_ms, load, cpus, audit } = &self.host;
        let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "not exposed".to_owned());
        writeln!(f, "{}", self.measurement)?;
        writeln!(f, "  kernel      {}", known(kernel))?;
        let guest = if *guest == Some(true) { ", in a guest" } else { "" };
        writeln!(f, "  cpu         {}{guest}", known(cpu))?;
        writeln!(f, "  clocksource {}", known(clocksource))?;
        writeln!(f, "  governor    {}", known(governor))?;
        writeln!(f, "  steal       {}", known(&steal_ms.map(|ms| format!("{ms} ms"))))?;
        writeln!(f, "  load        {}", known(&load.map(|load| format!("{load:.2}"))))?;
        let cpus: Vec<String> = cpus.iter().map(|(role, cpu)| format!("{role} {cpu}")).collect();
        let cpus = if cpus.is_empty() { "any".to_owned() } else { cpus.join(", ") };
        writeln!(f, "  cpus        {cpus}")?;
        let failed = if audit.failed.is_empty() { String::new() } else { format!(": {}", audit.failed.join(", ")) };
        writeln!(f, "  audit       {}{failed}\n", audit.verdict)?;
        for table in &self.findings.tables {
            writeln!(f, "{table}")?;
        }
        if let Some(table) = percentiles(&self.findings.arms) {
            writeln!(f, "{table}")?;
        }
        self.findings.arms.iter().try_for_each(|row| plain_row(f, row))?;
        for (name, value) in &self.findings.summary {
            writeln!(f, "{name:<12}{}", plain(value))?;
        }
        if !self.findings.summary.is_empty() {
            writeln!(f)?;
        }
        for claim in &self.findings.claims {
            let word = match (claim.holds, claim.required) {
                (true, _) => "holds",
                (false, true) => "FAILS",
                (false, false) => "does not hold",
            };
            writeln!(f, "{word}: {} ({})", claim.claim, claim.measured)?;
        }
        writeln!(f)?;
        self.findings.caveats.iter().try_for_each(|caveat| writeln!(f, "{}: {}", caveat.code(), caveat.text()))
    }
}

/// The percentiles of all rows that have any; times in nanoseconds.
fn percentiles(rows: &[Row]) -> Option<Table> {
    let mut table = Table::new("", &["ns", "p50", "p90", "p99", "p99.9", "min", "max", "mean"]);
    for row in rows {
        if let Some(s) = &row.summary {
            let figures = [s.p50, s.p90, s.p99, s.p99_9, s.min, s.max].map(|ns| ns.to_string());
            let name = std::iter::once(row.name.clone());
            table.rows.push(name.chain(figures).chain([format!("{:.0}", s.mean)]).collect());
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What no table shows: why an arm was skipped, or what was found where that is no number.
fn plain_row(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    match (&row.skipped, row.figures.get("result")) {
        (Some(why), _) => writeln!(f, "{}: skipped: {why}", row.name),
        (None, Some(result)) => {
            let tried = row.figures.get("tried").map(|tried| format!(" ({})", plain(tried))).unwrap_or_default();
            writeln!(f, "{}: {}{tried}", row.name, plain(result))
        }
        (None, None) => Ok(()),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect::<Vec<_>>().join(", ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
