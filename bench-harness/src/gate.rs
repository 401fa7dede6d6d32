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
use quietcore::units::Bytes;
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
    /// The plan that the host was held against: a file, or `suggested` for the one that its topology suggests.
    pub plan: Option<String>,
    /// What the plan says that the process will lock.
    #[serde(skip)]
    pub locked_memory: Option<Bytes>,
    /// Why there was no audit, where there was none.
    #[serde(skip)]
    pub missing: Option<String>,
}

/// Stands for the name of a plan that was made of the host's topology.
pub const SUGGESTED: &str = "suggested";

/// Why nothing is measured: the host failed. Holds the report.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0}\nrefused: the host fails its audit; --ungated measures anyway")]
pub struct Refusal(String);

/// Decides whether to measure. `audit` is asked once.
///
/// A verdict of `unknown` is let pass, as everywhere in quietcore. A plan that cannot be read, or is wrong, is the error
/// that `audit` gave, whether gated or not; so is a host that no plan can be made for, unless it is measured ungated.
pub fn admit(
    plan: Option<&Path>,
    ungated: bool,
    audit: impl FnOnce(Option<&Path>) -> anyhow::Result<Audit>,
) -> anyhow::Result<Audit> {
    match audit(plan) {
        Err(error) if plan.is_none() && ungated => Ok(Audit { missing: Some(format!("{error}")), ..Audit::default() }),
        Err(error) => Err(error),
        Ok(audit) if audit.verdict == Verdict::Fail && !ungated => {
            Err(Refusal(audit.report.trim_end().to_owned()).into())
        }
        Ok(audit) => Ok(audit),
    }
}

/// Audits this host by the built-in rules that decide, and by `plan` or the one that its topology suggests.
pub fn audit(plan: Option<&Path>) -> anyhow::Result<Audit> {
    let options = Options { packs: Packs::Deciding(Vec::new()), ..Options::default() };
    let preflight = Preflight::load(&options, plan)?;
    let report = preflight.judge();
    let is_failed = |finding: &&Finding| finding.level == Level::Required && finding.verdict() == report::Verdict::Fail;
    let failed = report.findings.iter().filter(is_failed).map(|finding| finding.rule.clone()).collect();
    let verdict = match report.verdict() {
        report::Verdict::Fail => Verdict::Fail,
        report::Verdict::Unknown => Verdict::Unknown,
        _ => Verdict::Pass,
    };
    let (hot, lead) = match plan {
        Some(_) => (preflight.plan.hot.iter().flat_map(|role| role.cpus.iter()).collect(), ""),
        // Its CPUs are as good as any that are chosen here.
        None => (CpuList::default(), "no plan given: judging this host for one made for it\n\n"),
    };
    let name = plan.map_or_else(|| SUGGESTED.to_owned(), |path| path.display().to_string());
    let report = format!("{lead}{}", rendered(&report)?);
    let locked_memory = preflight.plan.locked_memory;
    Ok(Audit { verdict, failed, report, hot, plan: Some(name), locked_memory, missing: None })
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
        Audit {
            verdict,
            failed,
            report: "the report\n".to_owned(),
            plan: Some("p.toml".to_owned()),
            ..Audit::default()
        }
    }

    const PLANS: [Option<&str>; 2] = [Some("p.toml"), None];

    fn admitted(plan: Option<&str>, verdict: Option<Verdict>, ungated: bool) -> Result<Verdict, String> {
        let answer = |asked: Option<&Path>| {
            assert_eq!(asked, plan.map(Path::new));
            verdict.map(audited).ok_or_else(|| anyhow::anyhow!("no such plan"))
        };
        admit(plan.map(Path::new), ungated, answer).map(|audit| audit.verdict).map_err(|error| error.to_string())
    }

    #[test]
    fn only_a_failed_audit_refuses() {
        for plan in PLANS {
            assert_eq!(admitted(plan, Some(Verdict::Pass), false), Ok(Verdict::Pass));
            assert_eq!(admitted(plan, Some(Verdict::Unknown), false), Ok(Verdict::Unknown));
            let refused = Err(Refusal("the report".to_owned()).to_string());
            assert_eq!(admitted(plan, Some(Verdict::Fail), false), refused);
        }
    }

    #[test]
    fn ungated_measures_and_keeps_the_verdict() {
        for plan in PLANS {
            assert_eq!(admitted(plan, Some(Verdict::Fail), true), Ok(Verdict::Fail));
        }
    }

    #[test]
    fn a_wrong_plan_is_a_mistake_gated_or_not() {
        for ungated in [false, true] {
            assert_eq!(admitted(Some("p.toml"), None, ungated), Err("no such plan".to_owned()));
        }
    }

    #[test]
    fn a_host_that_no_plan_can_be_made_for_is_measured_when_the_user_insists() {
        assert_eq!(admitted(None, None, false), Err("no such plan".to_owned()));
        assert_eq!(admitted(None, None, true), Ok(Verdict::Unknown));
    }

    #[test]
    fn an_audit_as_the_result_carries_it() {
        let json = serde_json::to_string(&audited(Verdict::Fail)).unwrap();
        assert_eq!(json, r#"{"verdict":"fail","failed":["isolated"],"plan":"p.toml"}"#);
    }
}
