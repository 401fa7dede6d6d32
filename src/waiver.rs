//! Waivers: failures that somebody accepts, for a reason and until a day. They stay visible in every report.

use std::ops::Range;
use std::path::Path;

use time::{Date, Duration, Month};
use toml::value::Datetime;

use crate::cpuset::CpuSet;
use crate::doc::{self, LoadError, Spanned, Table};
use crate::problem::{FileProblems, Problem};
use crate::report::{Finding, Report, Verdict, WaiverNote};
use crate::rule::RuleSet;

const KEYS: &[&str] = &["rule", "reason", "owner", "expires", "cpus"];

/// How long before its last day a waiver is warned about.
const SOON: Duration = Duration::days(14);

/// A waiver, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiver {
    /// The rule whose failure is accepted.
    pub rule: String,
    /// Why.
    pub reason: String,
    /// By whom.
    pub owner: String,
    /// The last day that it is in force on, in UTC.
    pub expires: Date,
    /// Only a failure whose offending CPUs are all among these is accepted; none: any failure.
    pub cpus: Option<CpuSet>,
}

/// The waivers of a file, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waivers(Vec<Waiver>);

impl Waivers {
    /// Reads a file of waivers.
    ///
    /// # Errors
    /// It cannot be read, or is wrong; see [`Waivers::parse`].
    pub fn load(path: &Path, rules: &RuleSet) -> Result<Self, LoadError> {
        doc::load(path, |name, text| Self::parse(name, text, rules))
    }

    /// Reads a text of `[[waiver]]` tables for these rules.
    ///
    /// # Errors
    /// Everything that is wrong with it: unknown keys, a rule that does not exist, a missing reason, owner or date, a date
    /// that is none.
    pub fn parse(name: &str, text: &str, rules: &RuleSet) -> Result<Self, FileProblems> {
        let mut problems = Vec::new();
        let mut waivers = Vec::new();
        if let Some(mut table) = doc::parse(text, &mut problems) {
            let tables = table.take_tables("waiver", &mut problems);
            waivers.extend(tables.into_iter().filter_map(|table| waiver(table, rules, &mut problems)));
            table.finish(&["waiver"], &mut problems);
        }
        FileProblems::unless_empty(name, text, problems)?;
        Ok(Self(waivers))
    }

    /// Keeps only the waivers that `keep` wants.
    pub fn retain(&mut self, keep: impl Fn(&Waiver) -> bool) {
        self.0.retain(|waiver| keep(waiver));
    }

    /// Takes failures as waived where a waiver is in force on `today` (UTC). One that has expired is remarked upon; one
    /// that will soon, and one that matches nothing, is warned about.
    pub fn apply(&self, report: &mut Report, today: Date) {
        let mut warnings = Vec::new();
        for waiver in &self.0 {
            let Some(finding) = report.findings.iter_mut().find(|finding| finding.rule == waiver.rule) else {
                warnings.push(format!("the waiver of {} is unused: the rule is not judged here", waiver.rule));
                continue;
            };
            let is_failed = finding.verdict() == Verdict::Fail;
            if !is_failed || !waiver.covers(finding) {
                if finding.verdict() != Verdict::Waived {
                    warnings.push(waiver.unused(finding));
                }
                continue;
            }
            if today > waiver.expires {
                finding.remark(&format!("the waiver of {} expired on {}", waiver.owner, waiver.expires));
                continue;
            }
            finding.waive(waiver.note());
            if waiver.expires - today <= SOON {
                warnings
                    .push(format!("the waiver of {} expires on {} ({})", waiver.rule, waiver.expires, waiver.owner));
            }
        }
        report.warnings.extend(warnings);
    }
}

impl Waiver {
    fn covers(&self, finding: &Finding) -> bool {
        let offending = &finding.evidence().offending.cpus;
        self.cpus.as_ref().is_none_or(|cpus| !offending.is_empty() && offending.is_subset(cpus))
    }

    fn unused(&self, finding: &Finding) -> String {
        match (&self.cpus, finding.verdict()) {
            (Some(cpus), Verdict::Fail) => {
                format!("the waiver of {} is unused: what fails is not within its CPUs, {cpus}", self.rule)
            }
            (_, verdict) => format!("the waiver of {} is unused: the verdict is {}", self.rule, verdict.name()),
        }
    }

    fn note(&self) -> WaiverNote {
        WaiverNote { reason: self.reason.clone(), owner: self.owner.clone(), expires: self.expires.to_string() }
    }
}

fn waiver(mut table: Table, rules: &RuleSet, problems: &mut Vec<Problem>) -> Option<Waiver> {
    table.require(&["rule", "reason", "owner", "expires"], problems);
    let rule = table.take_string("rule", problems);
    if let Some(Err(why)) = rule.as_ref().map(|rule| rules.get(&rule.value)) {
        let span = rule.as_ref().map_or(table.header(), |rule| rule.span.clone());
        problems.push(Problem::new(span, why, "no such rule"));
    }
    let reason = said(table.take_string("reason", problems), "reason", problems);
    let owner = said(table.take_string("owner", problems), "owner", problems);
    let expires = table.take_date("expires", problems).and_then(|date| {
        let day = day_of(&date.value);
        if day.is_none() {
            let problem = Problem::new(date.span, "`expires` is a date and nothing more", "not a date");
            problems.push(problem.help("write a day without a time or quotes: 2027-03-31"));
        }
        day
    });
    let cpus = table.take_string("cpus", problems).map(|list| cpus_of(&list, problems));
    table.finish(KEYS, problems);
    Some(Waiver { rule: rule?.value, reason: reason?, owner: owner?, expires: expires?, cpus })
}

fn said(text: Option<Spanned<String>>, key: &str, problems: &mut Vec<Problem>) -> Option<String> {
    let text = text?;
    if text.value.trim().is_empty() {
        problems
            .push(Problem::new(text.span, format!("`{key}` is empty"), "nothing here").help("say it in a few words"));
        return None;
    }
    Some(text.value)
}

fn cpus_of(list: &Spanned<String>, problems: &mut Vec<Problem>) -> CpuSet {
    let mut wrong = |span: Range<usize>, message: String| {
        problems.push(Problem::new(span, message, "no CPUs").help("write a kernel list such as \"2-5,8\""));
    };
    match CpuSet::parse_list(&list.value) {
        Ok(cpus) if cpus.is_empty() => wrong(list.span.clone(), "`cpus` names no CPU".to_owned()),
        Ok(cpus) => return cpus,
        Err(error) => wrong(list.span.clone(), error.to_string()),
    }
    CpuSet::new()
}

/// The day of a TOML local date; none for a date with a time, or a time.
fn day_of(datetime: &Datetime) -> Option<Date> {
    let date = datetime.date.filter(|_| datetime.time.is_none() && datetime.offset.is_none())?;
    Date::from_calendar_date(i32::from(date.year), Month::try_from(date.month).ok()?, date.day).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Waivers, String> {
        let rules = RuleSet::builtin().unwrap();
        Waivers::parse("w.toml", text, &rules).map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_waiver_with_everything() {
        let text = "[[waiver]]\nrule = \"cstate\"\nreason = \"BIOS caps them\"\nowner = \"ops\"\nexpires = 2027-03-31\ncpus = \"21\"\n";
        let Waivers(waivers) = parse(text).unwrap();
        assert_eq!(waivers[0].expires.to_string(), "2027-03-31");
        assert_eq!(waivers[0].cpus.as_ref().map(CpuSet::to_string).as_deref(), Some("21"));
        assert_eq!(parse("").unwrap(), Waivers::default());
    }

    #[test]
    fn what_is_wrong_is_said_all_at_once() {
        let text = "[[waiver]]\nrule = \"thpp\"\nexpires = \"2999-01-01\"\nowner = \"\"\nuntil = 1\ncpus = \"x\"\n";
        let said = parse(text).unwrap_err();
        for part in [
            "did you mean `thp`",
            "`reason` is missing",
            "expected a date",
            "`owner` is empty",
            "unknown key `until`",
            "`x` is not",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(
            parse("[[waiver]]\nrule = \"thp\"\nreason = \"r\"\nowner = \"o\"\nexpires = 2999-01-01T00:00:00Z\n")
                .is_err()
        );
        assert!(parse("[waiver]\nrule = \"thp\"\n").is_err());
    }
}
