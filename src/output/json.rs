//! JSON, schema 1. The structs here are the format: keys may be added, none renamed.

use std::io::{self, Write};

use serde::Serialize;

use crate::cpuset::CpuSet;
use crate::fact::{Cause, Source};
use crate::reading::printable_json;
use crate::report::{Finding, Offending, PlanSummary, Refusal, Remedy, Report, Survey, Verdict};

/// Of several roots: an object about all of them, with a report each.
#[derive(Serialize)]
struct JsonSurvey<'r> {
    schema: u32,
    exit_code: u8,
    reports: Vec<JsonReport<'r>>,
    refusals: Vec<JsonRefusal<'r>>,
}

#[derive(Serialize)]
struct JsonRefusal<'r> {
    root: &'r str,
    why: &'r str,
}

#[derive(Serialize)]
struct JsonReport<'r> {
    schema: u32,
    verdict: &'static str,
    exit_code: u8,
    strict: bool,
    counts: Counts,
    plan: JsonPlan<'r>,
    host: JsonHost<'r>,
    findings: Vec<JsonFinding<'r>>,
    warnings: &'r [String],
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Counts {
    pass: usize,
    fail: usize,
    unknown: usize,
    not_applicable: usize,
    waived: usize,
}

#[derive(Serialize)]
struct JsonPlan<'r> {
    name: Option<&'r str>,
    hot: &'r str,
    idle: Option<&'r str>,
    housekeeping: Option<&'r str>,
    realtime: bool,
    nic: Option<&'r str>,
    locked_memory_bytes: Option<u64>,
    max_wakeup_latency_us: Option<u64>,
}

#[derive(Serialize)]
struct JsonHost<'r> {
    root: &'r str,
    kernel: Option<&'r str>,
}

#[derive(Serialize)]
struct JsonFinding<'r> {
    rule: &'r str,
    pack: Option<&'static str>,
    level: &'static str,
    verdict: &'static str,
    cause: Option<&'static str>,
    title: &'r str,
    message: &'r str,
    wanted: &'r str,
    found: &'r str,
    offending: Option<JsonOffending<'r>>,
    sources: Vec<JsonSource<'r>>,
    fix: Option<JsonFix<'r>>,
    waiver: Option<JsonWaiver<'r>>,
}

#[derive(Serialize)]
struct JsonWaiver<'r> {
    reason: &'r str,
    owner: &'r str,
    expires: &'r str,
}

#[derive(Serialize)]
struct JsonOffending<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<String>,
    #[serde(skip_serializing_if = "<[u32]>::is_empty")]
    lines: &'r [u32],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    words: &'r [String],
}

#[derive(Serialize)]
struct JsonSource<'r> {
    path: &'r str,
    text: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'r str>,
}

#[derive(Serialize)]
struct JsonFix<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persistent: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    boot: Option<&'r str>,
}

pub(super) fn write(survey: Survey<'_>, out: &mut dyn Write) -> io::Result<()> {
    match survey.reports {
        [report] if !survey.is_of_several() => write_json(&JsonReport::of(report), out),
        _ => write_json(&JsonSurvey::of(survey), out),
    }
}

/// Writes a value on lines of its own, with nothing in its strings that a terminal would obey.
pub(super) fn write_json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", printable_json(&serde_json::to_string_pretty(value)?))
}

impl<'r> JsonSurvey<'r> {
    fn of(survey: Survey<'r>) -> Self {
        let refusal = |refusal: &'r Refusal| JsonRefusal { root: &refusal.root, why: &refusal.why };
        Self {
            schema: 1,
            exit_code: survey.exit_code(),
            reports: survey.reports.iter().map(JsonReport::of).collect(),
            refusals: survey.refusals.iter().map(refusal).collect(),
        }
    }
}

impl<'r> JsonReport<'r> {
    fn of(report: &'r Report) -> Self {
        Self {
            schema: 1,
            verdict: report.verdict().name(),
            exit_code: report.exit_code(),
            strict: report.strict,
            counts: Counts {
                pass: report.count(Verdict::Pass),
                fail: report.count(Verdict::Fail),
                unknown: report.count(Verdict::Unknown),
                not_applicable: report.count(Verdict::NotApplicable),
                waived: report.count(Verdict::Waived),
            },
            plan: JsonPlan::of(&report.plan),
            host: JsonHost { root: &report.root, kernel: report.kernel.as_deref() },
            findings: report.findings.iter().map(JsonFinding::of).collect(),
            warnings: &report.warnings,
        }
    }
}

impl<'r> JsonPlan<'r> {
    fn of(plan: &'r PlanSummary) -> Self {
        Self {
            name: plan.name.as_deref(),
            hot: &plan.hot,
            idle: plan.idle.as_deref(),
            housekeeping: plan.housekeeping.as_deref(),
            realtime: plan.realtime,
            nic: plan.nic.as_deref(),
            locked_memory_bytes: plan.locked_memory,
            max_wakeup_latency_us: plan.max_wakeup_latency_us,
        }
    }
}

impl<'r> JsonFinding<'r> {
    fn of(finding: &'r Finding) -> Self {
        let evidence = finding.evidence();
        Self {
            rule: &finding.rule,
            pack: finding.pack,
            level: finding.level.name(),
            verdict: finding.verdict().name(),
            cause: finding.cause().map(Cause::name),
            title: &finding.title,
            message: &evidence.message,
            wanted: &evidence.wanted,
            found: &evidence.found,
            offending: JsonOffending::of(&evidence.offending),
            sources: evidence.sources.iter().map(JsonSource::of).collect(),
            fix: JsonFix::of(&finding.remedy).filter(|_| matches!(finding.verdict(), Verdict::Fail | Verdict::Waived)),
            waiver: finding.waiver().map(|note| JsonWaiver {
                reason: &note.reason,
                owner: &note.owner,
                expires: &note.expires,
            }),
        }
    }
}

impl<'r> JsonOffending<'r> {
    fn of(offending: &'r Offending) -> Option<Self> {
        let cpus = |cpus: &CpuSet| (!cpus.is_empty()).then(|| cpus.to_string());
        let shown = Self { cpus: cpus(&offending.cpus), lines: &offending.lines, words: &offending.words };
        (!offending.is_empty()).then_some(shown)
    }
}

impl<'r> JsonSource<'r> {
    fn of(source: &'r Source) -> Self {
        Self { path: &source.path, text: source.text.as_deref(), error: source.error.as_deref() }
    }
}

impl<'r> JsonFix<'r> {
    fn of(remedy: &'r Remedy) -> Option<Self> {
        if *remedy == Remedy::default() {
            return None;
        }
        Some(Self {
            runtime: remedy.runtime.as_deref(),
            persistent: remedy.persistent.as_deref(),
            boot: remedy.boot.as_deref(),
        })
    }
}
