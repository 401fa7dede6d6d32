//! `quietcore generate`: the parts of the documentation that are made from the program, so that they cannot drift.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;

use super::{Failure, load_rules};
use crate::cli::{Cli, GenerateCommand};
use crate::exit;
use crate::fact;
use crate::rule::Rule;
use crate::rule::pack::PACKS;

pub(super) fn run(command: GenerateCommand, out: &mut impl Write) -> Result<u8, Failure> {
    match command {
        GenerateCommand::Vocabulary => {
            row(out, &["fact", "type", "files", "what it is"])?;
            row(out, &["---"; 4])?;
            for fact in fact::facts() {
                let files = if fact.files.is_empty() { "the plan".to_owned() } else { codes(fact.files) };
                row(out, &[&format!("`{}`", fact.name), &fact.ty().to_string(), &files, fact.about])?;
            }
        }
        GenerateCommand::Rules => {
            let rules = load_rules(&[])?;
            let mut gap = "";
            for pack in PACKS {
                let members: Vec<&Rule> = rules.iter().filter(|rule| rule.pack == Some(pack.name)).collect();
                if members.is_empty() {
                    continue;
                }
                writeln!(out, "{gap}### {}\n\nIt is about {}.\n", pack.name, pack.about)?;
                gap = "\n";
                row(out, &["rule", "level", "holds when", "who says so"])?;
                row(out, &["---"; 4])?;
                for rule in members {
                    let id = format!("[`{0}`]({0}.toml)", rule.id);
                    row(out, &[&id, rule.level.name(), &rule.title, &rule.source.join("; ")])?;
                }
            }
        }
        GenerateCommand::Man { dir } => manual(&dir)?,
        GenerateCommand::Completions { shell } => {
            // By way of a buffer: clap_complete panics when it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "quietcore", &mut script);
            out.write_all(&script)?;
        }
    }
    Ok(exit::PASSED)
}

/// Writes the page of the program and one a subcommand, `quietcore-plan-suggest.1`.
fn manual(dir: &Path) -> io::Result<()> {
    clap_mangen::generate_to(Cli::command(), dir)
}

/// A row of a Markdown table. A bar would end its cell early, even between backticks.
fn row(out: &mut impl Write, cells: &[&str]) -> io::Result<()> {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    writeln!(out, "| {} |", cells.join(" | "))
}

/// Each in backticks.
fn codes(files: &[&str]) -> String {
    files.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ")
}
