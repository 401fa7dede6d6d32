//! The gate before every measurement: no number without a verdict on the host it came from.
//!
//! [`audit`] is the only place that knows how a host is audited; [`admit`] is the policy around it.

use std::fmt;
use std::path::Path;

use anstream::StripStream;
use quietcore::output::{self, Detail, Format, Style};
use quietcore::preflight::{Options, Packs, Preflight};
use quietcore::report::{self, Finding, Report};
use quietcore::rule::Level;
use serde::Serialize;
use thiserror::Error;

use crate::cpus::CpuList;

/// What an audit comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No required rule failed.
    Pass,
    /// At least one did.
    Fail,
    /// The host was not audited, or could not be judged.
    #[default]
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Unknown => "unknown",
        })
    }
}

/// An audit as a measurement carries it: `host.audit` of the JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// The verdict on the host.
    pub verdict: Verdict,
    /// The ids of the required rules that failed, in the order of the report.
    pub failed: Vec<String>,
    /// The report for a human; empty when there was no audit.
    #[serde(skip)]
    pub report: String,
    /// The plan's hot CPUs, in the plan's order; measurements run there unless told otherwise.
    #[serde(skip)]
    pub hot: CpuList,
    /// Why there was no audit, where there was none.
    #[serde(skip)]
    pub missing: Option<String>,
}

impl Audit {
    fn missing(why: String) -> Audit {
        Audit { missing: Some(why), ..Audit::default() }
    }
}

/// Why nothing is measured.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// There is nothing to audit by.
    #[error("refused: no plan to audit this host by; give --plan PLAN, or --ungated to measure it anyway")]
    NoPlan,
    /// The host failed. Holds the report.
    #[error("{0}\nrefused: the host fails its audit; --ungated measures anyway")]
    Failed(String),
}

/// Decides whether to measure. `audit` is asked once where there is a plan.
///
/// A verdict of `unknown` is let pass, as everywhere in quietcore. A plan that cannot be read, or is wrong, is the error
/// that `audit` gave, whether gated or not.
pub fn admit(
    plan: Option<&Path>,
    ungated: bool,
    audit: impl FnOnce(&Path) -> anyhow::Result<Audit>,
) -> anyhow::Result<Audit> {
    match plan.map(audit) {
        None if ungated => Ok(Audit::missing("no plan was given".to_owned())),
        None => Err(Refusal::NoPlan.into()),
        // A plan that is given and wrong is a mistake, gated or not.
        Some(Err(error)) => Err(error),
        Some(Ok(audit)) if audit.verdict == Verdict::Fail && !ungated => {
            Err(Refusal::Failed(audit.report.trim_end().to_owned()).into())
        }
        Some(Ok(audit)) => Ok(audit),
    }
}

/// Audits this host by `plan` and the built-in rules.
pub fn audit(plan: &Path) -> anyhow::Result<Audit> {
    let options = Options { packs: Packs::Deciding(Vec::new()), ..Options::default() };
    let preflight = Preflight::load(&options, Some(plan))?;
    let report = preflight.judge();
    let is_failed = |finding: &&Finding| finding.level == Level::Required && finding.verdict() == report::Verdict::Fail;
    let failed = report.findings.iter().filter(is_failed).map(|finding| finding.rule.clone()).collect();
    let verdict = match report.verdict() {
        report::Verdict::Fail => Verdict::Fail,
        report::Verdict::Unknown => Verdict::Unknown,
        _ => Verdict::Pass,
    };
    let hot = preflight.plan.hot.iter().flat_map(|role| role.cpus.iter()).collect();
    Ok(Audit { verdict, failed, report: rendered(&report)?, hot, missing: None })
}

/// What did not pass and the summary, as `quietcore gate` prints them.
fn rendered(report: &Report) -> anyhow::Result<String> {
    let mut text = Vec::new();
    let style = Style { detail: Detail::Quiet, width: 80, elapsed: None };
    output::write(report, Format::Human, style, &mut StripStream::new(&mut text))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audited(verdict: Verdict) -> Audit {
        let failed = if verdict == Verdict::Fail { vec!["isolated".to_owned()] } else { Vec::new() };
        Audit { verdict, failed, report: "the report\n".to_owned(), hot: CpuList::default(), missing: None }
    }

    fn admitted(verdict: Option<Verdict>, ungated: bool) -> Result<Verdict, String> {
        let plan = Path::new("plan.toml");
        let answer = |_: &Path| verdict.map(audited).ok_or_else(|| anyhow::anyhow!("no such plan"));
        admit(Some(plan), ungated, answer).map(|audit| audit.verdict).map_err(|error| error.to_string())
    }

    #[test]
    fn only_a_failed_audit_refuses() {
        assert_eq!(admitted(Some(Verdict::Pass), false), Ok(Verdict::Pass));
        assert_eq!(admitted(Some(Verdict::Unknown), false), Ok(Verdict::Unknown));
        assert_eq!(admitted(Some(Verdict::Fail), false), Err(Refusal::Failed("the report".to_owned()).to_string()));
    }

    #[test]
    fn ungated_measures_and_keeps_the_verdict() {
        assert_eq!(admitted(Some(Verdict::Fail), true), Ok(Verdict::Fail));
    }

    #[test]
    fn a_wrong_plan_is_a_mistake_gated_or_not() {
        for ungated in [false, true] {
            assert_eq!(admitted(None, ungated), Err("no such plan".to_owned()));
        }
    }

    #[test]
    fn without_a_plan_nothing_is_asked() {
        let never = |_: &Path| panic!("audited without a plan");
        assert!(admit(None, false, never).unwrap_err().is::<Refusal>());
        assert_eq!(admit(None, true, never).unwrap().verdict, Verdict::Unknown);
    }

    #[test]
    fn an_audit_as_the_result_carries_it() {
        let json = serde_json::to_string(&audited(Verdict::Fail)).unwrap();
        assert_eq!(json, r#"{"verdict":"fail","failed":["isolated"]}"#);
    }
}
