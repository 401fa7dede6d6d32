//! JSON of comparisons, schema 1. The structs here are the format: keys may be added, none renamed.

use std::io::{self, Write};

use serde::Serialize;

use crate::fact::{Cause, Source};
use crate::output::json::write_json;
use crate::report::comparison::{Change, Comparison, Direction, SourceChange};
use crate::report::{Finding, Report};

#[derive(Serialize)]
struct JsonComparison<'r> {
    schema: u32,
    worse: bool,
    exit_code: u8,
    counts: Counts,
    plan: JsonPlan<'r>,
    before: JsonHost<'r>,
    after: JsonHost<'r>,
    changes: Vec<JsonChange<'r>>,
}

#[derive(Serialize)]
struct Counts {
    worse: usize,
    better: usize,
    changed: usize,
    unchanged: usize,
}

#[derive(Serialize)]
struct JsonPlan<'r> {
    name: Option<&'r str>,
    hot: &'r str,
}

#[derive(Serialize)]
struct JsonHost<'r> {
    root: &'r str,
    kernel: Option<&'r str>,
}

#[derive(Serialize)]
struct JsonChange<'r> {
    rule: &'r str,
    level: &'static str,
    change: &'static str,
    before: JsonSide<'r>,
    after: JsonSide<'r>,
    sources: Vec<JsonSourceChange<'r>>,
}

#[derive(Serialize)]
struct JsonSide<'r> {
    verdict: &'static str,
    cause: Option<&'static str>,
    message: &'r str,
    wanted: &'r str,
    found: &'r str,
}

#[derive(Serialize)]
struct JsonSourceChange<'r> {
    path: &'r str,
    before: Option<JsonText<'r>>,
    after: Option<JsonText<'r>>,
}

#[derive(Serialize)]
struct JsonText<'r> {
    text: Option<&'r str>,
    error: Option<&'r str>,
}

pub(super) fn write(comparison: &Comparison<'_>, out: &mut dyn Write) -> io::Result<()> {
    write_json(&JsonComparison::of(comparison), out)
}

impl<'r> JsonComparison<'r> {
    fn of(comparison: &'r Comparison<'r>) -> Self {
        let plan = &comparison.after.plan;
        Self {
            schema: 1,
            worse: comparison.is_worse(),
            exit_code: comparison.exit_code(),
            counts: Counts {
                worse: comparison.count(Direction::Worse),
                better: comparison.count(Direction::Better),
                changed: comparison.count(Direction::Sideways),
                unchanged: comparison.unchanged,
            },
            plan: JsonPlan { name: plan.name.as_deref(), hot: &plan.hot },
            before: JsonHost::of(comparison.before),
            after: JsonHost::of(comparison.after),
            changes: comparison.changes.iter().map(JsonChange::of).collect(),
        }
    }
}

impl<'r> JsonHost<'r> {
    fn of(report: &'r Report) -> Self {
        Self { root: &report.root, kernel: report.kernel.as_deref() }
    }
}

impl<'r> JsonChange<'r> {
    fn of(change: &'r Change<'r>) -> Self {
        Self {
            rule: &change.after.rule,
            level: change.after.level.name(),
            change: change.direction().name(),
            before: JsonSide::of(change.before),
            after: JsonSide::of(change.after),
            sources: change.sources.iter().map(JsonSourceChange::of).collect(),
        }
    }
}

impl<'r> JsonSide<'r> {
    fn of(finding: &'r Finding) -> Self {
        let evidence = finding.evidence();
        Self {
            verdict: finding.verdict().name(),
            cause: finding.cause().map(Cause::name),
            message: &evidence.message,
            wanted: &evidence.wanted,
            found: &evidence.found,
        }
    }
}

impl<'r> JsonSourceChange<'r> {
    fn of(change: &SourceChange<'r>) -> Self {
        Self { path: change.path, before: change.before.map(JsonText::of), after: change.after.map(JsonText::of) }
    }
}

impl<'r> JsonText<'r> {
    fn of(source: &'r Source) -> Self {
        Self { text: source.text.as_deref(), error: source.error.as_deref() }
    }
}
