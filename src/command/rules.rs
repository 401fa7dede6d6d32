//! `quietcore rules`: the rules, their files, and the facts that they are made of.

use std::io::Write;

use super::{Failure, load_rules};
use crate::cli::RulesCommand;
use crate::exit;
use crate::fact::{self, count};
use crate::reading::printable;
use crate::rule::{self, Rule, lint_folder};

pub(super) fn run(command: RulesCommand, out: &mut impl Write) -> Result<u8, Failure> {
    match command {
        RulesCommand::List { rules } => {
            let rules = load_rules(&rules)?;
            let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
            for rule in rules.iter() {
                let origin = rule.origin.as_ref().map_or_else(String::new, |path| format!(" ({path})"));
                let line = format!("{:<width$}  {:<8}  {}{origin}", rule.id, rule.level.name(), rule.title);
                writeln!(out, "{}", printable(&line))?;
            }
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

fn report_lint(out: &mut impl Write, rules: &[&Rule], place: &str) -> Result<(), Failure> {
    let ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    let rules = count(rules.len(), "rule");
    writeln!(out, "{rules} without a problem ({}): {}", printable(place), ids.join(", "))?;
    Ok(())
}
