//! Before and after: two results of a lab, or of one measurement, arm by arm, and what changed on the host between them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use super::orders::Unit;
use crate::report::SCHEMA;
use crate::summary::median;
use crate::table::Table;
use crate::text;

/// A file that is no result of this program.
#[derive(Debug, Error)]
pub enum NotAResult {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is something else, or of another version.
    #[error("{path} is no result of quietcore-bench: {why}")]
    Malformed {
        /// Which file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

/// A result as far as it is compared.
#[derive(Clone, Debug, Deserialize)]
struct Measured {
    measurement: String,
    host: Host,
    arms: Vec<Arm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Host {
    #[serde(default)]
    audit: Audit,
    #[serde(flatten)]
    facts: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Audit {
    #[serde(default)]
    verdict: String,
    #[serde(default)]
    failed: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Arm {
    name: String,
    #[serde(default)]
    skipped: Option<String>,
    #[serde(flatten)]
    figures: Map<String, Value>,
}

/// One file: a lab's result, or that of a single measurement.
#[derive(Clone, Debug)]
pub struct Side {
    measured: Vec<Measured>,
}

impl Side {
    /// Reads a result.
    pub fn read(path: &Path) -> Result<Side, NotAResult> {
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|source| NotAResult::Unreadable { path: name.clone(), source })?;
        Side::parse(&text).map_err(|why| NotAResult::Malformed { path: name, why })
    }

    fn parse(text: &str) -> Result<Side, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match value.get("schema").and_then(Value::as_u64) {
            Some(schema) if schema == u64::from(SCHEMA) => {}
            Some(schema) => return Err(format!("its schema is {schema}, not {SCHEMA}")),
            None => return Err("it has no schema".to_owned()),
        }
        let one = |value: Value| serde_json::from_value(value).map_err(|error| error.to_string());
        let measured = match value.get("measurements") {
            Some(Value::Array(all)) => all.iter().cloned().map(one).collect::<Result<_, _>>()?,
            Some(_) => return Err("its measurements are no list".to_owned()),
            None => vec![one(value)?],
        };
        Ok(Side { measured })
    }
}

/// Figures that are compared, the first one first, and what they count. Percentiles of gaps are not: fewer short gaps make
/// a host better and their median longer.
const COMPARED: &[(&str, Unit)] = &[
    ("lost", Unit::Share),
    ("mean_wait_ns", Unit::Time),
    ("worst_ns", Unit::Time),
    ("ns_per_call", Unit::Time),
    ("faults", Unit::Count),
    ("touch_ns_per_page", Unit::Time),
    ("p50", Unit::Time),
    ("p99", Unit::Time),
    ("p99.9", Unit::Time),
];

/// Two results beside each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    schema: u32,
    measurement: &'static str,
    /// What changed in the audit.
    pub audit: AuditChange,
    /// Facts of the host that are not the same, by name.
    pub host: Vec<FactChange>,
    /// Figures, arm by arm.
    pub arms: Vec<Change>,
    /// Arms that only one side has figures of, and why.
    pub missing: Vec<Missing>,
}

/// What changed in the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditChange {
    /// The verdict before.
    pub before: String,
    /// The verdict after.
    pub after: String,
    /// Rules that failed before and no longer do.
    pub mended: Vec<String>,
    /// Rules that fail now and did not before.
    pub broken: Vec<String>,
    /// Rules that failed before and still do.
    pub still: Vec<String>,
}

/// A fact that is not the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FactChange {
    /// Its name in the result.
    pub fact: String,
    /// Before.
    pub before: Value,
    /// After.
    pub after: Value,
}

/// A figure on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The measurement.
    pub measurement: String,
    /// The arm.
    pub arm: String,
    /// The figure.
    pub figure: &'static str,
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
    /// After to before; nothing where before is 0.
    pub ratio: Option<f64>,
    /// The least and the greatest ratio of a round after to a round before, where rounds are known.
    pub spread: Option<(f64, f64)>,
    #[serde(skip)]
    unit: Option<Unit>,
}

/// An arm with figures on one side only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The measurement.
    pub measurement: String,
    /// The arm.
    pub arm: String,
    /// Which side lacks it: `before` or `after`.
    pub side: &'static str,
    /// Why, as far as that side says.
    pub why: String,
}

/// An arm with its trials, where trials are rows of their own.
#[derive(Clone, Debug)]
struct Figures {
    skipped: Option<String>,
    values: Vec<Figure>,
}

#[derive(Clone, Debug)]
struct Figure {
    name: &'static str,
    unit: Unit,
    value: f64,
    /// The same of each round, where rounds are known.
    rounds: Vec<f64>,
}

impl Comparison {
    /// Compares.
    pub fn of(before: &Side, after: &Side) -> Comparison {
        let mut arms = Vec::new();
        let mut missing = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        for measured in before.measured.iter().chain(&after.measured) {
            if !names.contains(&measured.measurement.as_str()) {
                names.push(&measured.measurement);
            }
        }
        for name in names {
            let of =
                |side: &'_ Side| side.measured.iter().find(|m| m.measurement == name).map(by_arm).unwrap_or_default();
            let (old, new) = (of(before), of(after));
            let mut all: Vec<&String> = old.iter().chain(&new).map(|(arm, _)| arm).collect();
            let mut seen = BTreeSet::new();
            all.retain(|arm| seen.insert(arm.as_str()));
            for arm in all {
                let find =
                    |side: &[(String, Figures)]| side.iter().find(|(name, _)| name == arm).map(|(_, f)| f.clone());
                match (find(&old), find(&new)) {
                    (Some(a), Some(b)) if a.skipped.is_none() && b.skipped.is_none() => {
                        arms.extend(changes(name, arm, &a, &b));
                    }
                    (a, b) => {
                        for (side, figures) in [("before", a), ("after", b)] {
                            let why = match figures {
                                Some(figures) => figures.skipped,
                                None => Some("not measured".to_owned()),
                            };
                            missing.extend(why.map(|why| Missing {
                                measurement: name.to_owned(),
                                arm: arm.clone(),
                                side,
                                why,
                            }));
                        }
                    }
                }
            }
        }
        let (old, new) = (host(before), host(after));
        Comparison {
            schema: SCHEMA,
            measurement: "compare",
            audit: AuditChange::of(&old.audit, &new.audit),
            host: facts(&old, &new),
            arms,
            missing,
        }
    }

    /// The JSON text, with a line break at the end.
    pub fn json(&self) -> serde_json::Result<String> {
        text::json(self)
    }
}

/// All measurements of a result share their host; the first one speaks for it.
fn host(side: &Side) -> Host {
    side.measured.first().map(|measured| measured.host.clone()).unwrap_or_default()
}

/// Facts that differ, but for those which differ each time.
fn facts(before: &Host, after: &Host) -> Vec<FactChange> {
    const FLEETING: [&str; 2] = ["steal_ms", "load"];
    let names: BTreeSet<&String> = before.facts.keys().chain(after.facts.keys()).collect();
    let value = |host: &Host, name: &str| host.facts.get(name).cloned().unwrap_or(Value::Null);
    names
        .into_iter()
        .filter(|name| !FLEETING.contains(&name.as_str()))
        .map(|name| FactChange { fact: name.clone(), before: value(before, name), after: value(after, name) })
        .filter(|change| change.before != change.after)
        .collect()
}

impl AuditChange {
    fn of(before: &Audit, after: &Audit) -> AuditChange {
        let only = |a: &Audit, b: &Audit| a.failed.iter().filter(|rule| !b.failed.contains(rule)).cloned().collect();
        AuditChange {
            before: before.verdict.clone(),
            after: after.verdict.clone(),
            mended: only(before, after),
            broken: only(after, before),
            still: before.failed.iter().filter(|rule| after.failed.contains(rule)).cloned().collect(),
        }
    }
}

/// The arms of a measurement, in order; trials of one arm (`ARM-1`, `ARM-2`, …) become rounds of it.
fn by_arm(measured: &Measured) -> Vec<(String, Figures)> {
    let mut groups: Vec<(String, Vec<&Arm>)> = Vec::new();
    for arm in &measured.arms {
        let name = match arm.name.rsplit_once('-') {
            Some((name, trial)) if measured.measurement == "echo" && trial.parse::<u32>().is_ok() => name,
            _ => &arm.name,
        };
        match groups.iter_mut().find(|(known, _)| known == name) {
            Some((_, rows)) => rows.push(arm),
            None => groups.push((name.to_owned(), vec![arm])),
        }
    }
    groups.into_iter().map(|(name, rows)| (name, Figures::of(&rows))).collect()
}

impl Figures {
    fn of(rows: &[&Arm]) -> Figures {
        let figure = |row: &Arm, name: &str| row.figures.get(name).and_then(Value::as_f64);
        // Elsewhere `lost` is a number of messages, and the percentiles are what counts.
        let has_gaps = rows.iter().any(|row| row.figures.contains_key("loop_ns"));
        let of_rounds = |name: &str| -> Vec<f64> {
            let key = format!("{name}_by_round");
            let given = rows.iter().filter_map(|row| row.figures.get(&key)?.as_array());
            let given: Vec<f64> = given.flatten().filter_map(Value::as_f64).collect();
            if given.is_empty() { rows.iter().filter_map(|row| figure(row, name)).collect() } else { given }
        };
        let values = COMPARED
            .iter()
            .filter(|(name, _)| if has_gaps { !name.starts_with('p') } else { *name != "lost" })
            .filter_map(|&(name, unit)| {
                let trials: Vec<f64> = rows.iter().filter_map(|row| figure(row, name)).collect();
                Some(Figure { name, unit, value: middle(&trials)?, rounds: of_rounds(name) })
            })
            .collect();
        let skipped = rows.iter().find_map(|row| row.skipped.clone());
        Figures { skipped, values }
    }
}

/// The middle one, the lower of two; nothing of nothing.
fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ranks: Vec<u64> = (0..sorted.len() as u64).collect();
    let rank = usize::try_from(median(&ranks)?).ok()?;
    sorted.get(rank).copied()
}

fn changes(measurement: &str, arm: &str, before: &Figures, after: &Figures) -> Vec<Change> {
    let mut changes = Vec::new();
    for old in &before.values {
        let Some(new) = after.values.iter().find(|new| new.name == old.name) else { continue };
        let several = old.rounds.len() > 1 && new.rounds.len() > 1;
        changes.push(Change {
            measurement: measurement.to_owned(),
            arm: arm.to_owned(),
            figure: old.name,
            before: old.value,
            after: new.value,
            ratio: (old.value > 0.0).then(|| new.value / old.value),
            spread: if several { spread(&old.rounds, &new.rounds) } else { None },
            unit: Some(old.unit),
        });
    }
    changes
}

/// The least and the greatest ratio of one of `after` to one of `before`.
fn spread(before: &[f64], after: &[f64]) -> Option<(f64, f64)> {
    let ends = |values: &[f64]| {
        let low = values.iter().copied().min_by(f64::total_cmp)?;
        let high = values.iter().copied().max_by(f64::total_cmp)?;
        Some((low, high))
    };
    let ((low_before, high_before), (low_after, high_after)) = (ends(before)?, ends(after)?);
    (low_before > 0.0).then(|| (low_after / high_before, high_after / low_before))
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AuditChange { before, after, mended, broken, still } = &self.audit;
        writeln!(f, "audit  {before} before, {after} after")?;
        for (word, rules) in [("mended", mended), ("broken", broken), ("still failing", still)] {
            if !rules.is_empty() {
                writeln!(f, "       {word}: {}", rules.join(", "))?;
            }
        }
        let plain = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Null => "not exposed".to_owned(),
            Value::Object(members) => {
                members.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
            }
            other => other.to_string(),
        };
        for FactChange { fact, before, after } in &self.host {
            writeln!(f, "{fact}  {} before, {} after", plain(before), plain(after))?;
        }
        writeln!(f)?;
        let mut table = Table::new("", &["", "before", "after", "ratio", "of rounds"]);
        for change in &self.arms {
            let written = |value: f64| change.unit.map_or_else(|| value.to_string(), |unit| unit.written(value));
            table.rows.push(vec![
                format!("{} {}, {}", change.measurement, change.arm, change.figure),
                written(change.before),
                written(change.after),
                change.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
                change.spread.map_or_else(String::new, |(low, high)| format!("{low:.2} to {high:.2}")),
            ]);
        }
        if table.rows.is_empty() {
            writeln!(f, "nothing was measured on both sides")?;
        } else {
            write!(f, "{table}")?;
        }
        for Missing { measurement, arm, side, why } in &self.missing {
            writeln!(f, "{measurement} {arm}: no figures {side}: {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn side(value: &Value) -> Side {
        Side::parse(&value.to_string()).unwrap()
    }

    fn result(measurement: &str, audit: &Value, arms: &Value) -> Value {
        let host = json!({"kernel": "6.1", "load": 0.5, "cpus": {"meter": 1}, "audit": audit});
        json!({"schema": 1, "measurement": measurement, "host": host, "arms": arms})
    }

    fn lab(measurements: &[Value]) -> Value {
        json!({"schema": 1, "measurement": "lab", "measurements": measurements})
    }

    #[test]
    fn before_and_after_tuning() {
        let failing = json!({"verdict": "fail", "failed": ["isolated", "thp"]});
        let mended = json!({"verdict": "fail", "failed": ["thp", "governor"]});
        let block = |p50: u64, rounds: &[u64]| json!([{"name": "block", "skipped": null, "lost": 0, "p50": p50, "p99.9": 900, "p50_by_round": rounds}]);
        let before = lab(&[
            result("receive", &failing, &block(100, &[90, 100, 110])),
            result(
                "hiccups",
                &failing,
                &json!([{"name": "alone", "loop_ns": 10, "lost": 0.01, "p50": 700, "worst_ns": 0}]),
            ),
        ]);
        let after = lab(&[
            result("receive", &mended, &block(50, &[45, 50, 60])),
            result(
                "hiccups",
                &mended,
                &json!([{"name": "alone", "loop_ns": 10, "lost": 0.001, "p50": 900, "worst_ns": 5}]),
            ),
        ]);
        let found = Comparison::of(&side(&before), &side(&after));
        assert_eq!(found.audit.mended, ["isolated"]);
        assert_eq!(found.audit.broken, ["governor"]);
        assert_eq!(found.audit.still, ["thp"]);
        assert!(found.host.is_empty(), "{:?}", found.host);
        let p50 = &found.arms[0];
        assert_eq!((p50.figure, p50.before, p50.after, p50.ratio), ("p50", 100.0, 50.0, Some(0.5)));
        let (low, high) = p50.spread.unwrap();
        assert!((low - 45.0 / 110.0).abs() < 1e-9 && (high - 60.0 / 90.0).abs() < 1e-9);
        let figures: Vec<_> =
            found.arms.iter().map(|change| (change.arm.as_str(), change.figure, change.ratio)).collect();
        assert_eq!(
            figures[1..],
            [("block", "p99.9", Some(1.0)), ("alone", "lost", Some(0.1)), ("alone", "worst_ns", None)]
        );
        let text = found.to_string();
        assert!(
            text.contains("receive block, p50       100 ns   50 ns   0.50  0.41 to 0.67")
                && text.contains("0.41 to 0.67"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn trials_are_rounds_of_an_arm() {
        let race = |p50s: [u64; 3]| {
            let rows: Vec<_> =
                (1..).zip(p50s).map(|(t, p50)| json!({"name": format!("naive-{t}"), "p50": p50})).collect();
            side(&result("echo", &json!({}), &rows.into()))
        };
        let found = Comparison::of(&race([30, 10, 20]), &race([40, 20, 60]));
        assert_eq!(found.arms.len(), 1);
        let change = &found.arms[0];
        assert_eq!((change.arm.as_str(), change.before, change.after), ("naive", 20.0, 40.0));
        assert_eq!(change.spread, Some((20.0 / 30.0, 6.0)));
    }

    #[test]
    fn what_one_side_lacks_is_said() {
        let with = side(&result("xdp", &json!({}), &json!([{"name": "xdp-spin", "p50": 5}])));
        let skipped = side(&result("xdp", &json!({}), &json!([{"name": "xdp-spin", "skipped": "EPERM"}])));
        let other = side(&result("receive", &json!({}), &json!([])));
        let missing = |a: &Side, b: &Side| {
            Comparison::of(a, b).missing.iter().map(|m| format!("{} {}", m.side, m.why)).collect::<Vec<_>>()
        };
        assert_eq!(missing(&with, &skipped), ["after EPERM"]);
        assert_eq!(missing(&other, &with), ["before not measured"]);
        assert!(Comparison::of(&with, &skipped).arms.is_empty());
    }

    #[test]
    fn facts_that_changed() {
        let mut after = result("receive", &json!({}), &json!([]));
        after["host"]["kernel"] = "6.12".into();
        after["host"]["load"] = 9.into();
        let found = Comparison::of(&side(&result("receive", &json!({}), &json!([]))), &side(&after));
        assert_eq!(found.host, [FactChange { fact: "kernel".to_owned(), before: "6.1".into(), after: "6.12".into() }]);
    }

    #[test]
    fn what_is_no_result() {
        for (text, why) in [
            ("{", "EOF"),
            ("[]", "no schema"),
            (r#"{"schema": 2}"#, "schema is 2"),
            (r#"{"schema": 1, "measurements": 5}"#, "no list"),
            (r#"{"schema": 1}"#, "missing field"),
        ] {
            let error = Side::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn middles() {
        assert_eq!((middle(&[3.0, 1.0, 2.0]), middle(&[1.0, 2.0]), middle(&[])), (Some(2.0), Some(1.0), None));
    }
}
