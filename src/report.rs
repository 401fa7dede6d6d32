//! What an audit decided. Formats of output see this and nothing else.

pub mod comparison;

use crate::cpuset::CpuSet;
use crate::exit;
use crate::fact::{Cause, Source};
use crate::rule::Level;

/// A verdict by its name alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Judged, holds.
    Pass,
    /// Judged, does not hold.
    Fail,
    /// Could not be judged.
    Unknown,
    /// The rule's condition does not hold here.
    NotApplicable,
    /// Failed, and a waiver in force covers it.
    Waived,
}

impl Verdict {
    /// All verdicts, in the order in which they are counted.
    pub const ALL: [Self; 5] = [Self::Pass, Self::Fail, Self::Unknown, Self::NotApplicable, Self::Waived];

    /// As machine formats write it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Unknown => "unknown",
            Verdict::NotApplicable => "not-applicable",
            Verdict::Waived => "waived",
        }
    }
}

/// What broke a rule, in terms that a machine can use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offending {
    /// CPUs.
    pub cpus: CpuSet,
    /// Interrupt lines.
    pub lines: Vec<u32>,
    /// Words.
    pub words: Vec<String>,
}

impl Offending {
    /// Is nothing named?
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty() && self.lines.is_empty() && self.words.is_empty()
    }
}

/// What a verdict rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// One sentence for people: what holds and by which mechanism, or what is wrong.
    pub message: String,
    /// What the rule wants.
    pub wanted: String,
    /// What the host has.
    pub found: String,
    /// What broke the rule.
    pub offending: Offending,
    /// The files that it came from, with the text read.
    pub sources: Vec<Source>,
}

/// Evidence that names at least one file. Only [`Decision::pass`] and [`Decision::fail`] make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grounds(Evidence);

/// The decision about one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Holds.
    Pass(Grounds),
    /// Holds for want of anything that could break it: the plan does not do what the rule is about.
    PassByPlan(Evidence),
    /// Does not hold.
    Fail(Grounds),
    /// Does not hold, and a waiver in force covers it.
    Waived(Grounds, WaiverNote),
    /// Cannot be judged.
    Unknown(Cause, Evidence),
    /// The condition does not hold here.
    NotApplicable(Evidence),
    /// The plan drops the rule: it was not judged.
    Dropped(Evidence),
}

impl Decision {
    /// A pass, if the evidence names a file: nothing passes on nothing read.
    pub fn pass(evidence: Evidence) -> Self {
        Self::grounded(evidence, Self::Pass)
    }

    /// A failure, if the evidence names a file.
    pub fn fail(evidence: Evidence) -> Self {
        Self::grounded(evidence, Self::Fail)
    }

    fn grounded(evidence: Evidence, decide: fn(Grounds) -> Self) -> Self {
        if evidence.sources.is_empty() {
            return Self::Unknown(Cause::Unreadable, evidence);
        }
        decide(Grounds(evidence))
    }
}

/// A waiver as a report names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaiverNote {
    /// Why the failure is accepted.
    pub reason: String,
    /// Who accepted it.
    pub owner: String,
    /// The last day that it is in force on, `YYYY-MM-DD` in UTC.
    pub expires: String,
}

/// How to mend a failure, placeholders filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remedy {
    /// Now, until the next reboot.
    pub runtime: Option<String>,
    /// Across reboots, without one.
    pub persistent: Option<String>,
    /// On the boot line: after a reboot.
    pub boot: Option<String>,
}

impl Remedy {
    /// Its steps: when each takes effect, in a word, and what to do.
    pub fn steps(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("now", &self.runtime), ("lasting", &self.persistent), ("reboot", &self.boot)]
            .into_iter()
            .filter_map(|(when, step)| Some((when, step.as_deref()?)))
    }
}

/// A rule's part of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's id.
    pub rule: String,
    /// The rule's good condition.
    pub title: String,
    /// The rule's pack; none for a rule of the user's own.
    pub pack: Option<&'static str>,
    /// Whether a failure decides the exit code.
    pub level: Level,
    /// The decision.
    pub decision: Decision,
    /// How to mend a failure.
    pub remedy: Remedy,
}

impl Finding {
    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        match &self.decision {
            Decision::Pass(_) | Decision::PassByPlan(_) => Verdict::Pass,
            Decision::Fail(_) => Verdict::Fail,
            Decision::Waived(..) => Verdict::Waived,
            Decision::Unknown(..) => Verdict::Unknown,
            Decision::NotApplicable(_) | Decision::Dropped(_) => Verdict::NotApplicable,
        }
    }

    /// The cause of the verdict unknown.
    pub fn cause(&self) -> Option<Cause> {
        match &self.decision {
            Decision::Unknown(cause, _) => Some(*cause),
            _ => None,
        }
    }

    /// What the verdict rests on.
    pub fn evidence(&self) -> &Evidence {
        match &self.decision {
            Decision::Pass(Grounds(evidence))
            | Decision::Fail(Grounds(evidence))
            | Decision::Waived(Grounds(evidence), _)
            | Decision::PassByPlan(evidence)
            | Decision::Unknown(_, evidence)
            | Decision::NotApplicable(evidence)
            | Decision::Dropped(evidence) => evidence,
        }
    }

    /// The waiver that covers the failure.
    pub fn waiver(&self) -> Option<&WaiverNote> {
        match &self.decision {
            Decision::Waived(_, note) => Some(note),
            _ => None,
        }
    }

    /// Takes a failure as waived; any other decision stays what it is.
    pub(crate) fn waive(&mut self, note: WaiverNote) {
        if let Decision::Fail(grounds) = &self.decision {
            self.decision = Decision::Waived(grounds.clone(), note);
        }
    }

    /// Adds a remark to the text of a failure.
    pub(crate) fn remark(&mut self, remark: &str) {
        if let Decision::Fail(Grounds(evidence)) = &mut self.decision {
            evidence.message = format!("{}; {remark}", evidence.message);
        }
    }
}

/// The plan as a report names it. Sets are kernel lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanSummary {
    /// The path as the user gave it; none for the plan that was made for the host.
    pub name: Option<String>,
    /// Hot CPUs.
    pub hot: String,
    /// Idle siblings, from the plan or the topology; none where neither says.
    pub idle: Option<String>,
    /// Housekeeping CPUs; none where neither the plan nor the host says.
    pub housekeeping: Option<String>,
    /// Do hot threads run under a real-time policy?
    pub realtime: bool,
    /// The interface that the hot path serves.
    pub nic: Option<String>,
    /// What the process will lock, in bytes.
    pub locked_memory: Option<u64>,
    /// The deepest idle state allowed, in microseconds.
    pub max_wakeup_latency_us: Option<u64>,
}

/// The outcome of an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What the host was judged for.
    pub plan: PlanSummary,
    /// The root as the user named it.
    pub root: String,
    /// The kernel's release, if it is readable.
    pub kernel: Option<String>,
    /// A finding a rule, in report order.
    pub findings: Vec<Finding>,
    /// Is an unknown verdict of a required rule a reason to refuse?
    pub strict: bool,
    /// What concerns the audit and no rule's verdict: waivers that are unused or expire soon.
    pub warnings: Vec<String>,
}

impl Report {
    /// How many findings have the verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict() == verdict).count()
    }

    /// The verdict on the host: of required rules, a failure counts before an unknown one.
    pub fn verdict(&self) -> Verdict {
        let required = |verdict| {
            self.findings.iter().any(|finding| finding.level == Level::Required && finding.verdict() == verdict)
        };
        [Verdict::Fail, Verdict::Unknown].into_iter().find(|verdict| required(*verdict)).unwrap_or(Verdict::Pass)
    }

    /// The exit code: an unknown verdict lets pass unless the audit is strict.
    pub fn exit_code(&self) -> u8 {
        match self.verdict() {
            Verdict::Fail => exit::FAILED,
            Verdict::Unknown if self.strict => exit::UNKNOWN,
            _ => exit::PASSED,
        }
    }
}

/// A root that could not be audited, though others were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The root as the user named it.
    pub root: String,
    /// Why: a lowercase fragment.
    pub why: String,
}

/// The audits of one root, or of several.
#[derive(Clone, Copy, Debug)]
pub struct Survey<'r> {
    /// A report a root that was audited, in the order of the command line.
    pub reports: &'r [Report],
    /// The roots that could not be.
    pub refusals: &'r [Refusal],
}

impl<'r> Survey<'r> {
    /// The survey of a single root.
    pub fn of(report: &'r Report) -> Self {
        Self { reports: std::slice::from_ref(report), refusals: &[] }
    }

    /// Is it about more than one root? Formats then say which one they speak of.
    pub fn is_of_several(&self) -> bool {
        self.reports.len() + self.refusals.len() > 1
    }

    /// The worst exit code of all roots.
    pub fn exit_code(&self) -> u8 {
        let refused = self.refusals.iter().map(|_| exit::USAGE);
        exit::worst(self.reports.iter().map(Report::exit_code).chain(refused))
    }
}
