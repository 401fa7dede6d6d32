//! `quietcore rules`: the rules, their files, and the facts that they are made of.

use std::io::Write;

use super::{Failure, load_rules};
use crate::cli::RulesCommand;
use crate::exit;
use crate::fact::{self, count};
use crate::reading::printable;
use crate::rule::pack::PACKS;
use crate::rule::{self, Rule, RuleSet, lint_folder};

pub(super) fn run(command: RulesCommand, out: &mut impl Write) -> Result<u8, Failure> {
    match command {
        RulesCommand::List { rules } => {
            list(&load_rules(&rules)?, out)?;
        }
        RulesCommand::Show { id, rules } => {
            let rules = load_rules(&rules)?;
            let rule = rules.get(&id).map_err(|why| Failure::Usage(format!("error: {why}")))?;
            write!(out, "{}", rule.text)?;
        }
        RulesCommand::Lint { dir: Some(dir) } => {
            let rules = lint_folder(&dir).map_err(|errors| Failure::Usage(errors.render(false)))?;
            report_lint(out, &rules.iter().collect::<Vec<_>>(), &dir.display().to_string())?;
        }
        RulesCommand::Lint { dir: None } => {
            let rules = load_rules(&[])?;
            report_lint(out, &rules.iter().collect::<Vec<_>>(), "built in")?;
        }
        RulesCommand::Facts => {
            for fact in fact::facts() {
                writeln!(out, "{}  ({})", fact.name, fact.ty())?;
                writeln!(out, "    {}", fact.about)?;
            }
        }
        RulesCommand::Schema => writeln!(out, "{:#}", rule::json_schema())?,
    }
    Ok(exit::PASSED)
}

/// The rules by packs, those of no pack last.
fn list(rules: &RuleSet, out: &mut impl Write) -> Result<(), Failure> {
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    let packs = PACKS.iter().map(|pack| (Some(pack.name), format!("{}: {}", pack.name, pack.about)));
    let own = (None, "rules of no pack, which are always judged".to_owned());
    let mut gap = "";
    for (pack, heading) in packs.chain([own]) {
        let members: Vec<&Rule> = rules.iter().filter(|rule| rule.pack == pack).collect();
        if members.is_empty() {
            continue;
        }
        writeln!(out, "{gap}{heading}")?;
        gap = "\n";
        for rule in members {
            let origin = rule.origin.as_ref().map_or_else(String::new, |path| format!(" ({path})"));
            let line = format!("  {:<width$}  {:<8}  {}{origin}", rule.id, rule.level.name(), rule.title);
            writeln!(out, "{}", printable(&line))?;
        }
    }
    Ok(())
}

fn report_lint(out: &mut impl Write, rules: &[&Rule], place: &str) -> Result<(), Failure> {
    let ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    let rules = count(rules.len(), "rule");
    writeln!(out, "{rules} without a problem ({}): {}", printable(place), ids.join(", "))?;
    Ok(())
}
