//! Two reports for one plan, compared: what changed in verdicts and in the evidence under them.

use std::collections::BTreeMap;

use crate::exit;
use crate::fact::Source;
use crate::report::{Finding, Report, Verdict};
use crate::rule::Level;

/// Which way a rule went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From pass to fail or unknown, from unknown or not applicable to fail.
    Worse,
    /// From fail to anything else, from unknown to pass.
    Better,
    /// The verdict or its evidence is another one, and neither better nor worse.
    Sideways,
}

impl Direction {
    /// As machine formats write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Sideways => "changed",
        }
    }

    fn of(before: Verdict, after: Verdict) -> Self {
        match (before, after) {
            (Verdict::Pass, Verdict::Fail | Verdict::Unknown)
            | (Verdict::Unknown | Verdict::NotApplicable | Verdict::Waived, Verdict::Fail) => Self::Worse,
            (Verdict::Fail, after) if after != Verdict::Fail => Self::Better,
            (Verdict::Unknown, Verdict::Pass) => Self::Better,
            _ => Self::Sideways,
        }
    }
}

/// A source that differs. None: it is no part of the evidence on that side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceChange<'r> {
    /// Relative to the root.
    pub path: &'r str,
    /// What was read before.
    pub before: Option<&'r Source>,
    /// What was read after.
    pub after: Option<&'r Source>,
}

/// A rule whose verdict or evidence changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<'r> {
    /// The finding before.
    pub before: &'r Finding,
    /// The finding after.
    pub after: &'r Finding,
    /// The sources that differ, by path.
    pub sources: Vec<SourceChange<'r>>,
}

impl<'r> Change<'r> {
    /// None where nothing changed. Titles, levels and remedies are the rule's and the plan's.
    fn of(before: &'r Finding, after: &'r Finding) -> Option<Self> {
        let is_same =
            (before.verdict(), before.cause(), before.evidence()) == (after.verdict(), after.cause(), after.evidence());
        (!is_same).then(|| Self { before, after, sources: source_changes(before, after) })
    }

    /// Which way the rule went.
    pub fn direction(&self) -> Direction {
        Direction::of(self.before.verdict(), self.after.verdict())
    }

    /// Is it a rule that decides the exit code?
    pub fn is_required(&self) -> bool {
        self.after.level == Level::Required
    }
}

/// Sources are told apart by path and, where one is there twice, by their order.
fn source_changes<'r>(before: &'r Finding, after: &'r Finding) -> Vec<SourceChange<'r>> {
    let mut by_path: BTreeMap<&str, [Vec<&'r Source>; 2]> = BTreeMap::new();
    for (side, finding) in [before, after].into_iter().enumerate() {
        for source in &finding.evidence().sources {
            by_path.entry(&source.path).or_default()[side].push(source);
        }
    }
    let pairs = by_path.into_iter().flat_map(|(path, [before, after])| {
        let most = before.len().max(after.len());
        let at = |sources: &[&'r Source], at: usize| sources.get(at).copied();
        let pair = |i| SourceChange { path, before: at(&before, i), after: at(&after, i) };
        (0..most).map(pair).collect::<Vec<_>>()
    });
    pairs.filter(|pair| pair.before != pair.after).collect()
}

/// Two reports, and what changed from one to the other.
#[derive(Clone, Debug)]
pub struct Comparison<'r> {
    /// The report before.
    pub before: &'r Report,
    /// The report after.
    pub after: &'r Report,
    /// The rules that changed, in report order.
    pub changes: Vec<Change<'r>>,
    /// How many rules did not.
    pub unchanged: usize,
}

impl<'r> Comparison<'r> {
    /// Compares two reports on the same rules.
    pub fn of(before: &'r Report, after: &'r Report) -> Self {
        let pairs: Vec<(&Finding, &Finding)> = after
            .findings
            .iter()
            .filter_map(|after| Some((before.findings.iter().find(|before| before.rule == after.rule)?, after)))
            .collect();
        let changes: Vec<Change<'_>> = pairs.iter().filter_map(|(before, after)| Change::of(before, after)).collect();
        let unchanged = pairs.len() - changes.len();
        Self { before, after, changes, unchanged }
    }

    /// How many rules went that way.
    pub fn count(&self, direction: Direction) -> usize {
        self.changes.iter().filter(|change| change.direction() == direction).count()
    }

    /// Did a required rule get worse?
    pub fn is_worse(&self) -> bool {
        self.changes.iter().any(|change| change.is_required() && change.direction() == Direction::Worse)
    }

    /// The exit code: 1 when a required rule got worse.
    pub fn exit_code(&self) -> u8 {
        if self.is_worse() { exit::FAILED } else { exit::PASSED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Cause;
    use crate::report::{Decision, Evidence, PlanSummary, Remedy};

    fn source(path: &str, text: &str) -> Source {
        Source::summary(path, text.to_owned())
    }

    fn evidence(found: &str, sources: Vec<Source>) -> Evidence {
        Evidence { found: found.to_owned(), sources, ..Evidence::default() }
    }

    fn finding(rule: &str, level: Level, decision: Decision) -> Finding {
        Finding { rule: rule.to_owned(), title: String::new(), pack: None, level, decision, remedy: Remedy::default() }
    }

    fn decision(verdict: Verdict) -> Decision {
        let evidence = evidence("x", vec![source("f", "x")]);
        match verdict {
            Verdict::Pass => Decision::pass(evidence),
            Verdict::Fail | Verdict::Waived => Decision::fail(evidence),
            Verdict::Unknown => Decision::Unknown(Cause::Denied, evidence),
            Verdict::NotApplicable => Decision::NotApplicable(evidence),
        }
    }

    fn report(findings: Vec<Finding>) -> Report {
        let plan = PlanSummary {
            name: None,
            hot: String::new(),
            idle: None,
            housekeeping: None,
            realtime: false,
            nic: None,
            locked_memory: None,
            max_wakeup_latency_us: None,
        };
        Report { plan, root: String::new(), kernel: None, findings, strict: false, warnings: Vec::new() }
    }

    #[test]
    fn each_way_a_verdict_can_go() {
        use Direction::{Better, Sideways, Worse};
        use Verdict::{Fail, NotApplicable, Pass, Unknown};
        for (before, after, direction) in [
            (Pass, Fail, Worse),
            (Pass, Unknown, Worse),
            (Unknown, Fail, Worse),
            (NotApplicable, Fail, Worse),
            (Fail, Pass, Better),
            (Fail, Unknown, Better),
            (Fail, NotApplicable, Better),
            (Unknown, Pass, Better),
            (Pass, NotApplicable, Sideways),
            (NotApplicable, Pass, Sideways),
            (NotApplicable, Unknown, Sideways),
            (Unknown, NotApplicable, Sideways),
        ] {
            assert_eq!(Direction::of(before, after), direction, "{before:?} {after:?}");
            for level in [Level::Required, Level::Advised] {
                let [before, after] =
                    [before, after].map(|verdict| report(vec![finding("r", level, decision(verdict))]));
                let is_worse = direction == Worse && level == Level::Required;
                assert_eq!(Comparison::of(&before, &after).exit_code(), u8::from(is_worse));
            }
        }
    }

    #[test]
    fn evidence_alone_is_a_change_and_only_what_differs_is_named() {
        let of = |found, sources| finding("r", Level::Required, Decision::fail(evidence(found, sources)));
        let same = || finding("s", Level::Required, decision(Verdict::Pass));
        let before = report(vec![of("2", vec![source("a", "1"), source("b", "2"), source("b", "3")]), same()]);
        let after = report(vec![of("2-3", vec![source("b", "2"), source("b", "4"), source("c", "5")]), same()]);
        let comparison = Comparison::of(&before, &after);
        assert_eq!((comparison.changes.len(), comparison.unchanged), (1, 1));
        let change = &comparison.changes[0];
        assert_eq!(change.direction(), Direction::Sideways);
        let text = |source: Option<&Source>| source.and_then(|source| source.text.clone());
        let named: Vec<_> = change.sources.iter().map(|s| (s.path, text(s.before), text(s.after))).collect();
        let (one, three) = (Some("1".to_owned()), Some("3".to_owned()));
        let (four, five) = (Some("4".to_owned()), Some("5".to_owned()));
        assert_eq!(named, [("a", one, None), ("b", three, four), ("c", None, five)]);
    }
}
