//! How to mend what fails, for a host and a plan: printed, never applied.
//!
//! Each form answers the failures that it can answer, in the words of its own place (a boot line, a shell script, units, a
//! TuneD profile), says which failure each line answers and how long it lasts, and says of the others that it cannot. A
//! rule that no form knows, or whose file is not the built-in one, speaks with its own `[fix]` texts.
//!
//! What is printed ends up in a root shell and on a boot line, and some of it comes from the host under audit: names of
//! interrupt handlers, the running boot line. Only numbers, lists and words of this program ever stand outside of
//! comments and of the running line itself, and comments hold no control character.

use std::rc::Rc;

use crate::cpuset::CpuSet;
use crate::fact::cmdline::BootLine;
use crate::fact::{self, Host, Observation, Value, cpu};
use crate::plan::Plan;
use crate::reading::Reading;
use crate::report::{Finding, Remedy, Report, Verdict};
use crate::rule::{Level, Rule, RuleSet};

mod cmdline;
mod runtime;
mod systemd;
mod text;
mod tuned;

use text::Text;

/// The rules that every form answers, or says of that it cannot: the base, in report order.
const ANSWERED: &[&str] = &[
    "isolated",
    "siblings",
    "nohz_full",
    "rcu_nocbs",
    "irq_affinity",
    "irqbalance",
    "governor",
    "cstate",
    "thp",
    "memlock",
    "rt_throttle",
];

/// In which form remedies are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// The boot line, merged with the running one
    Cmdline,
    /// A shell script of what can be done now
    Runtime,
    /// A drop-in for the service, and what it needs at each boot
    Systemd,
    /// A TuneD profile
    Tuned,
}

impl Form {
    /// All forms, in the order in which they are printed.
    pub const ALL: [Self; 4] = [Self::Cmdline, Self::Runtime, Self::Systemd, Self::Tuned];

    /// As a user types it.
    pub fn name(self) -> &'static str {
        match self {
            Form::Cmdline => "cmdline",
            Form::Runtime => "runtime",
            Form::Systemd => "systemd",
            Form::Tuned => "tuned",
        }
    }
}

/// A host that was judged, and what a remedy has to know of it.
pub struct Situation<'s> {
    host: &'s Host<'s>,
    report: &'s Report,
    rules: &'s RuleSet,
    /// Where nothing is known of a set of CPUs, nothing bounds what is said of it.
    possible: Option<CpuSet>,
    online: Option<CpuSet>,
    /// The hot CPUs that can be here.
    hot: CpuSet,
    /// The siblings to be left idle that are online.
    idle: CpuSet,
    /// The CPUs that do everything else.
    housekeeping: CpuSet,
}

/// A failure to be answered, or a rule that could not be judged.
#[derive(Clone, Copy)]
struct Need<'s> {
    finding: &'s Finding,
    rule: &'s Rule,
}

impl Need<'_> {
    /// The built-in rules have remedies of their own here; a rule file of somebody else's may want something else.
    fn is_builtin(&self, id: &str) -> bool {
        self.rule.id == id && self.rule.origin.is_none()
    }

    /// `siblings, failed: siblings online and not isolated: 29-31`.
    fn headline(&self) -> String {
        let state = match (self.finding.verdict(), self.finding.level) {
            (Verdict::Unknown, _) => "not known",
            (_, Level::Required) => "failed",
            (_, Level::Advised | Level::Info) => "advised against",
        };
        format!("{}, {state}: {}", self.finding.rule, self.finding.evidence().message)
    }

    fn is_unknown(&self) -> bool {
        self.finding.verdict() == Verdict::Unknown
    }

    /// The CPUs that broke the rule.
    fn offending(&self) -> &CpuSet {
        &self.finding.evidence().offending.cpus
    }
}

impl<'s> Situation<'s> {
    /// What was judged, and by which rules.
    pub fn new(host: &'s Host<'s>, rules: &'s RuleSet, report: &'s Report) -> Self {
        let possible = host.possible();
        let bounded = |set: CpuSet| possible.as_ref().map_or_else(|| set.clone(), |possible| &set & possible);
        let online = host.cpus(cpu::ONLINE).value().cloned();
        let idle = bounded(shown(host, "plan.idle"));
        Self {
            hot: bounded(host.plan.hot_cpus()),
            idle: online.as_ref().map_or_else(|| idle.clone(), |online| &idle & online),
            housekeeping: bounded(shown(host, "plan.housekeeping")),
            possible,
            online,
            host,
            report,
            rules,
        }
    }

    /// One form, or all of them behind each other.
    pub fn print(&self, form: Option<Form>) -> String {
        let one = |form| match form {
            Form::Cmdline => cmdline::print(self),
            Form::Runtime => runtime::print(self),
            Form::Systemd => systemd::print(self),
            Form::Tuned => tuned::print(self),
        };
        if let Some(form) = form {
            return one(form);
        }
        // The whole is nothing to run: each part is what its own `--as` prints.
        let part = |form: Form| format!("######## quietcore fix --as {}\n\n{}", form.name(), one(form).trim_end());
        Form::ALL.map(part).join("\n\n") + "\n"
    }

    fn plan(&self) -> &'s Plan {
        self.host.plan
    }

    /// Everything that has to be answered, in report order.
    fn needs(&self) -> impl Iterator<Item = Need<'s>> + '_ {
        let wants = |finding: &&Finding| match finding.verdict() {
            Verdict::Fail => finding.level != Level::Info,
            // Of an advised rule that could not be judged nobody knows that there is something to mend.
            Verdict::Unknown => finding.level == Level::Required,
            _ => false,
        };
        let need = |finding: &'s Finding| Some(Need { finding, rule: self.rules.get(&finding.rule).ok()? });
        self.report.findings.iter().filter(wants).filter_map(need)
    }

    /// What a built-in rule needs.
    fn need(&self, id: &str) -> Option<Need<'s>> {
        self.needs().find(|need| need.is_builtin(id))
    }

    /// Has somebody accepted that the rule fails?
    fn is_waived(&self, id: &str) -> bool {
        self.report.findings.iter().any(|finding| finding.rule == id && finding.verdict() == Verdict::Waived)
    }

    /// The needs of the rules that every form answers, in report order.
    fn answered(&self) -> impl Iterator<Item = Need<'s>> + '_ {
        ANSWERED.iter().filter_map(|id| self.need(id))
    }

    fn observe(&self, name: &str) -> Option<Rc<Observation>> {
        fact::find(name)?.observe(self.host)
    }

    /// The word of a fact, if it has one.
    fn word(&self, name: &str) -> Option<String> {
        match &self.observe(name)?.reading {
            Reading::Value(Value::Word(word)) => Some(word.clone()),
            _ => None,
        }
    }

    /// The CPUs that a fact shows for certain.
    fn shown(&self, name: &str) -> CpuSet {
        shown(self.host, name)
    }

    /// The kernel's version; where it is not known, as the newest.
    fn version(&self) -> (u32, u32) {
        self.host.release().map_or((u32::MAX, 0), fact::kernel::Release::version)
    }

    fn boot_line(&self) -> Option<&BootLine> {
        self.host.boot_line().value()
    }

    /// For whom this is, and what holds of all of it.
    fn head(&self, text: &mut Text, what: &str) {
        let kernel = self.report.kernel.as_ref().map_or_else(String::new, |kernel| format!(", kernel {kernel}"));
        text.comment(&format!("{what} for {} on {}{kernel}.", self.plan().name, self.report.root));
        text.comment("Printed by quietcore fix and not applied: read it first.");
        let impossible = &self.plan().hot_cpus() - &self.hot;
        if !impossible.is_empty() {
            text.comment(&format!("The plan's CPUs {impossible} are not possible on this host and are left out."));
        }
        for finding in self.report.findings.iter().filter(|finding| finding.verdict() == Verdict::Waived) {
            text.comment(&format!("{} is waived and left as it is.", finding.rule));
        }
        if self.needs().next().is_none() {
            text.comment("Nothing failed: there is nothing to mend.");
        }
    }

    /// What needs have to say that no form knows: their own texts.
    fn own_texts(&self, text: &mut Text, pick: fn(&Remedy) -> &Option<String>) {
        for need in self.needs().filter(|need| !ANSWERED.iter().any(|id| need.is_builtin(id))) {
            text.blank();
            text.comment(&need.headline());
            match pick(&need.finding.remedy) {
                Some(own) => text.below(&format!("the rule says: {own}")),
                None => text.below("the rule names no remedy of this kind"),
            }
        }
    }
}

fn shown(host: &Host<'_>, name: &str) -> CpuSet {
    match fact::find(name).and_then(|fact| fact.observe(host)).as_deref().map(|observation| &observation.reading) {
        Some(Reading::Value(Value::Cpus(cpus))) => cpus.clone(),
        _ => CpuSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::builtin;

    #[test]
    fn the_base_rules_are_answered() {
        let base: Vec<&str> = builtin::FILES[..builtin::BASE].iter().map(|(id, ..)| *id).collect();
        assert_eq!(ANSWERED, base);
    }
}
