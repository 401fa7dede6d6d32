//! A result on paper: the JSON of schema 1, a text for a human, and the files of `--out`.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

use crate::environment::Environment;
use crate::experiment::{Findings, Row};

/// The version of the JSON's form.
const SCHEMA: u32 = 1;

/// A measurement's result with the host that it came from.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    measurement: &'static str,
    host: Environment,
    #[serde(flatten)]
    findings: Findings,
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
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Writes `MEASUREMENT.json` and the raw samples of each trial, a number a line, into `folder`.
    pub fn save(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        write_file(&folder.join(format!("{}.json", self.measurement)), |out| out.write_all(self.json()?.as_bytes()))?;
        for row in self.findings.arms.iter().filter(|row| row.skipped.is_none()) {
            let path = folder.join(format!("{}-{}.ns", self.measurement, row.name));
            write_file(&path, |out| row.samples.as_slice().iter().try_for_each(|ns| writeln!(out, "{ns}")))?;
        }
        Ok(())
    }
}

fn write_file(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> anyhow::Result<()> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        fill(&mut out)?;
        out.flush()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Environment { kernel, cpu, clocksource, governor, steal_ms, load, cpus, audit } = &self.host;
        let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "not exposed".to_owned());
        writeln!(f, "{}", self.measurement)?;
        writeln!(f, "  kernel      {}", known(kernel))?;
        writeln!(f, "  cpu         {}", known(cpu))?;
        writeln!(f, "  clocksource {}", known(clocksource))?;
        writeln!(f, "  governor    {}", known(governor))?;
        writeln!(f, "  steal       {}", known(&steal_ms.map(|ms| format!("{ms} ms"))))?;
        writeln!(f, "  load        {}", known(&load.map(|load| format!("{load:.2}"))))?;
        let cpus: Vec<String> = cpus.iter().map(|(role, cpu)| format!("{role} {cpu}")).collect();
        writeln!(f, "  cpus        {}", cpus.join(", "))?;
        let failed = if audit.failed.is_empty() { String::new() } else { format!(": {}", audit.failed.join(", ")) };
        writeln!(f, "  audit       {}{failed}\n", audit.verdict)?;
        table(f, &self.findings.arms)?;
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

/// The trials, a line each; times in nanoseconds. Of a trial with percentiles these are shown, and its counters add up
/// in the summary; an arm without any shows what it found instead.
fn table(f: &mut fmt::Formatter<'_>, rows: &[Row]) -> fmt::Result {
    const LABELS: [&str; 7] = ["p50", "p90", "p99", "p99.9", "min", "max", "mean"];
    if rows.iter().any(|row| row.summary.is_some()) {
        write!(f, "{:<12}", "ns")?;
        LABELS.iter().try_for_each(|label| write!(f, "{label:>10}"))?;
        writeln!(f)?;
    }
    for row in rows {
        write!(f, "{:<12}", row.name)?;
        if let Some(why) = &row.skipped {
            write!(f, "skipped: {why}")?;
        }
        if let Some(s) = &row.summary {
            [s.p50, s.p90, s.p99, s.p99_9, s.min, s.max].iter().try_for_each(|ns| write!(f, "{ns:>10}"))?;
            write!(f, "{:>10.0}", s.mean)?;
        }
        for (name, value) in row.figures.iter().filter(|_| row.summary.is_none()) {
            write!(f, "  {name} {}", plain(value))?;
        }
        writeln!(f)?;
    }
    writeln!(f)
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
