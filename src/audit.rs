//! The audit: rules held against a host for a plan.

use crate::cpuset::CpuSet;
use crate::fact::{Cause, Host, Value, kernel};
use crate::reading::Reading;
use crate::report::{Decision, Evidence, Finding, Offending, PlanSummary, Remedy, Report};
use crate::rule::{Assertion, Condition, Level, Otherwise, Rule, RuleSet, Template};

mod bounds;
mod verb;
mod words;

use verb::{Judgement, Outcome};

/// Judges a host by rules.
pub fn audit(rules: &RuleSet, host: &Host<'_>, strict: bool) -> Report {
    Report {
        plan: summary(host),
        root: host.root.name(),
        kernel: kernel::release_text(host),
        findings: rules.iter().map(|rule| finding(rule, host)).collect(),
        strict,
        warnings: Vec::new(),
    }
}

fn summary(host: &Host<'_>) -> PlanSummary {
    let plan = host.plan;
    let fact = |name: &str| {
        let observation = crate::fact::find(name).and_then(|fact| verb::observe(fact, host))?;
        match observation.reading.value() {
            Some(Value::Cpus(cpus)) if observation.gap.is_none() => Some(cpus.to_string()),
            _ => None,
        }
    };
    PlanSummary {
        name: (!plan.name.is_empty()).then(|| plan.name.clone()),
        hot: plan.hot_cpus().to_string(),
        idle: fact("plan.idle"),
        housekeeping: fact("plan.housekeeping"),
        realtime: plan.realtime,
        nic: plan.nic.clone(),
        locked_memory: plan.locked_memory.map(|bytes| bytes.0),
        max_wakeup_latency_us: plan.max_wakeup_latency.map(|micros| micros.0),
    }
}

fn finding(rule: &Rule, host: &Host<'_>) -> Finding {
    let fill = |template: &Option<Template>| template.as_ref().map(|text| verb::fill(text, host, |_| String::new()));
    Finding {
        rule: rule.id.clone(),
        title: rule.title.clone(),
        pack: rule.pack,
        level: rule.level,
        decision: decide(rule, host),
        remedy: Remedy {
            runtime: fill(&rule.fix.runtime),
            persistent: fill(&rule.fix.persistent),
            boot: fill(&rule.fix.boot),
        },
    }
}

fn decide(rule: &Rule, host: &Host<'_>) -> Decision {
    if let Some(decision) = dropped(rule, host) {
        return decision;
    }
    // What holds of no CPU is no reason to pass. A rule that looks at which CPUs there are says so itself.
    let looks_at_cpus = rule.reads("cpu.online") || rule.reads("cpu.present");
    if host.hot_online().is_empty() && !looks_at_cpus {
        let message = "no hot CPU is online".to_owned();
        return Decision::Unknown(Cause::Unreadable, Evidence { message, ..Evidence::default() });
    }
    if let Some(decision) = rule.when.as_ref().and_then(|when| not_concerned(when, host)) {
        return decision;
    }
    let mut deciding = all(&rule.assert, host);
    if !rule.any.is_empty() {
        deciding.push(any(&rule.any, host));
    }
    conclude(&deciding)
}

/// The decision on a rule that the plan drops. A plan cannot drop what decides the exit code.
fn dropped(rule: &Rule, host: &Host<'_>) -> Option<Decision> {
    let drop = host.plan.skip.iter().find(|drop| drop.id.value == rule.id)?;
    let why = drop.reason.as_deref().unwrap_or("it gives no reason");
    let evidence = Evidence { message: format!("the plan drops it: {why}"), ..Evidence::default() };
    (rule.level != Level::Required).then_some(Decision::Dropped(evidence))
}

/// The decision where the rule's condition does not hold.
fn not_concerned(when: &Condition, host: &Host<'_>) -> Option<Decision> {
    let observation = verb::observe(when.fact, host)?;
    let shown = match &observation.reading {
        Reading::Value(Value::Flag(false)) => "false",
        Reading::Value(_) => return None,
        _ => "not set",
    };
    // As the plan spells it: `plan.locked_memory` is its key `locked-memory`.
    let key = when.fact.name.trim_start_matches("plan.").replace('_', "-");
    let message = format!("{key} is {shown} in the plan: it does not concern it");
    let evidence = Evidence { message, wanted: String::new(), found: shown.to_owned(), ..Evidence::default() };
    Some(match when.otherwise {
        Otherwise::NotApplicable => Decision::NotApplicable(evidence),
        Otherwise::Pass => Decision::PassByPlan(evidence),
    })
}

/// Several must hold. A pass speaks with the words of the entries that have some.
fn all(entries: &[Assertion], host: &Host<'_>) -> Vec<Judgement> {
    let has_words = entries.iter().any(|entry| entry.holds.is_some());
    let mut judged = Vec::new();
    // Of a CPU that the host does not have, nothing more is said than what is said first.
    let mut lacking = CpuSet::new();
    for entry in entries {
        let judgement = verb::judge(entry, host, &lacking);
        if judgement.outcome == Outcome::Fails {
            let offending = &judgement.offending.cpus;
            lacking = &lacking | &(offending - &host.within_possible(offending.clone()));
        }
        judged.push(judgement);
    }
    for (entry, judgement) in entries.iter().zip(&mut judged) {
        if judgement.outcome == Outcome::Holds && has_words && entry.holds.is_none() {
            judgement.text.clear();
        }
    }
    judged
}

/// One of several must hold: pass before unknown before fail. A failure speaks with the words of the entries that have an
/// `else`; the others are further ways to hold, and that each of them is not taken is no news.
fn any(entries: &[Assertion], host: &Host<'_>) -> Judgement {
    let mut judged: Vec<Judgement> = entries.iter().map(|entry| verb::judge(entry, host, &CpuSet::new())).collect();
    let is = |outcome| move |judgement: &Judgement| judgement.outcome == outcome;
    if let Some(at) = judged.iter().position(is(Outcome::Holds)) {
        return judged.swap_remove(at);
    }
    let has_words = entries.iter().any(|entry| entry.otherwise.is_some());
    let outcome = if judged.iter().any(is(Outcome::Unknown)) { Outcome::Unknown } else { Outcome::Fails };
    let mut joined = Judgement { outcome, ..nothing() };
    for (entry, judgement) in entries.iter().zip(judged) {
        // What is known to fail is not what keeps the verdict open.
        if judgement.outcome != outcome {
            continue;
        }
        if outcome == Outcome::Unknown || entry.otherwise.is_some() || !has_words {
            join_text(&mut joined.text, &judgement.text, "; ");
        }
        join_text(&mut joined.wanted, &format!("{} {}", entry.that, judgement.wanted), " or ");
        join_text(&mut joined.found, &judgement.found, "; ");
        joined.offending = merge(joined.offending, judgement.offending);
        joined.doubt = joined.doubt.or(judgement.doubt);
        joined.notes.extend(judgement.notes);
        joined.sources.extend(judgement.sources);
    }
    joined
}

fn nothing() -> Judgement {
    Judgement {
        outcome: Outcome::Unknown,
        text: String::new(),
        wanted: String::new(),
        found: String::new(),
        offending: Offending::default(),
        doubt: None,
        notes: Vec::new(),
        sources: Vec::new(),
    }
}

/// All must hold: fail before unknown before pass. The evidence is that of the entries which decided.
fn conclude(judged: &[Judgement]) -> Decision {
    let has = |outcome| judged.iter().any(|judgement| judgement.outcome == outcome);
    let outcome = if has(Outcome::Fails) {
        Outcome::Fails
    } else if has(Outcome::Unknown) || judged.is_empty() {
        Outcome::Unknown
    } else {
        Outcome::Holds
    };
    let mut evidence = Evidence::default();
    let mut notes: Vec<&String> = Vec::new();
    let mut cause = None;
    for judgement in judged.iter().filter(|judgement| judgement.outcome == outcome) {
        join_text(&mut evidence.message, &judgement.text, "; ");
        join_text(&mut evidence.wanted, &judgement.wanted, ", ");
        join_text(&mut evidence.found, &judgement.found, "; ");
        evidence.offending = merge(evidence.offending, judgement.offending.clone());
        cause = cause.or(judgement.doubt.as_ref().map(|doubt| doubt.cause));
        for note in &judgement.notes {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        for source in &judgement.sources {
            if !evidence.sources.contains(source) {
                evidence.sources.push(source.clone());
            }
        }
    }
    for note in notes {
        join_text(&mut evidence.message, note, "; ");
    }
    match outcome {
        Outcome::Holds => Decision::pass(evidence),
        Outcome::Fails => Decision::fail(evidence),
        Outcome::Unknown => Decision::Unknown(cause.unwrap_or(Cause::Unreadable), evidence),
    }
}

/// Adds the parts of a text that are not there yet.
fn join_text(into: &mut String, text: &str, separator: &str) {
    for part in text.split(separator).filter(|part| !part.is_empty()) {
        if into.split(separator).any(|known| known == part) {
            continue;
        }
        if !into.is_empty() {
            into.push_str(separator);
        }
        into.push_str(part);
    }
}

fn merge(mut into: Offending, other: Offending) -> Offending {
    into.cpus = &into.cpus | &other.cpus;
    into.lines.extend(other.lines);
    into.lines.sort_unstable();
    into.lines.dedup();
    into.words.extend(other.words);
    into.words.sort();
    into.words.dedup();
    into
}
