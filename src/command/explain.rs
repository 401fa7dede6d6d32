//! `quietcore explain`: a rule in words, or what may happen on a CPU.

use std::io::{self, Write};

use super::page::Page;
use super::{Failure, load_rules};
use crate::cli::{ExplainArgs, ExplainCommand};
use crate::exit;
use crate::fact::Fact;
use crate::rule::{Assertion, Condition, Otherwise, Rule};

mod cpu;

/// How wide the labels of remedies are.
const LABEL: usize = 8;

pub(super) fn run(args: ExplainArgs, out: &mut impl Write) -> Result<u8, Failure> {
    if let Some(ExplainCommand::Cpu(args)) = args.of {
        return cpu::run(&args, out);
    }
    let rules = load_rules(&args.rules)?;
    let id = args.id.unwrap_or_default();
    let rule = rules.get(&id).map_err(|why| Failure::Usage(format!("error: {why}")))?;
    explain(rule, &mut Page::new(out))?;
    Ok(exit::PASSED)
}

fn explain(rule: &Rule, page: &mut Page<'_>) -> io::Result<()> {
    let pack = rule.pack.map_or_else(String::new, |pack| format!(", pack {pack}"));
    page.heading(&format!("{} ({}{pack}): {}", rule.id, rule.level.name(), rule.title))?;
    if let Some(origin) = &rule.origin {
        page.text(&format!("from {origin}"))?;
    }
    page.heading("Why")?;
    page.text(&rule.why)?;
    page.heading("How it is judged")?;
    judged(rule, page)?;
    page.heading("What it reads")?;
    let mut seen: Vec<&str> = Vec::new();
    for fact in rule.facts() {
        if !seen.contains(&fact.name) {
            seen.push(fact.name);
            reads(fact, page)?;
        }
    }
    list(page, "Who says so", &rule.source)?;
    list(page, "Where authorities differ", &rule.differs)?;
    fixes(rule, page)?;
    list(page, "What to know", &rule.notes)
}

/// A section of items, left out where there are none.
fn list(page: &mut Page<'_>, heading: &str, items: &[String]) -> io::Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    page.heading(heading)?;
    items.iter().try_for_each(|item| page.item(item))
}

fn judged(rule: &Rule, page: &mut Page<'_>) -> io::Result<()> {
    if let Some(when) = &rule.when {
        page.text(&condition(when))?;
    }
    let groups = [("All of these hold:", &rule.assert), ("One of these holds:", &rule.any)];
    for (several, entries) in groups.into_iter().filter(|(_, entries)| !entries.is_empty()) {
        let leader = if entries.len() == 1 { "This holds:" } else { several };
        page.text(leader)?;
        for (number, entry) in (1..).zip(entries) {
            judged_by(number, entry, page)?;
        }
    }
    page.text(
        "Not exposed means that the file is not there. What is denied, malformed or unreadable leaves the rule unknown \
         wherever the verdict depends on it.",
    )
}

/// As the plan spells it: `plan.locked_memory` is its key `locked-memory`.
fn condition(when: &Condition) -> String {
    let key = when.fact.name.trim_start_matches("plan.").replace('_', "-");
    let otherwise = match when.otherwise {
        Otherwise::NotApplicable => "does not apply",
        Otherwise::Pass => "passes: nothing can go wrong",
    };
    format!("Judged only where the plan sets {key}; otherwise it {otherwise}.")
}

fn judged_by(number: usize, entry: &Assertion, page: &mut Page<'_>) -> io::Result<()> {
    page.hanging(&format!("  {number}. "), "     ", &entry.in_words())?;
    let below = "     ";
    page.hanging(below, below, &format!("not exposed: {}", entry.absent_in_words()))?;
    for (label, template) in [("a pass says", &entry.holds), ("a failure says", &entry.otherwise)] {
        if let Some(template) = template {
            page.hanging(below, "       ", &format!("{label}: {template}"))?;
        }
    }
    Ok(())
}

fn reads(fact: &Fact, page: &mut Page<'_>) -> io::Result<()> {
    page.text(&format!("{} ({}): {}", fact.name, fact.ty(), fact.about))?;
    let files = if fact.files.is_empty() { &["the plan"] } else { fact.files };
    files.iter().try_for_each(|file| page.hanging("      ", "      ", file))
}

fn fixes(rule: &Rule, page: &mut Page<'_>) -> io::Result<()> {
    let fix = &rule.fix;
    let texts = [("now:", &fix.runtime), ("lasting:", &fix.persistent), ("reboot:", &fix.boot)];
    if texts.iter().all(|(_, text)| text.is_none()) {
        return Ok(());
    }
    page.heading("How to fix it")?;
    for (label, text) in texts {
        if let Some(text) = text {
            page.labelled(label, LABEL, &text.to_string())?;
        }
    }
    page.text("quietcore fix --plan PLAN prints the commands for a host and a plan.")
}
