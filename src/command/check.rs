//! `quietcore check`: the audit of one root or of several, and the report.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Failure, Streams, file};
use crate::cli::{AuditArgs, CheckArgs};
use crate::output::{self, Detail, Format, Style};
use crate::preflight::{Preflight, PreflightError};
use crate::reading::printable;
use crate::report::{Refusal, Survey};

/// The width of a report, wherever it goes.
pub(super) const WIDTH: usize = 80;

pub(super) fn run(args: &CheckArgs, streams: &mut Streams) -> Result<u8, Failure> {
    let began = Instant::now();
    let (mut reports, mut refusals) = (Vec::new(), Vec::new());
    let mut suggestion = None;
    let roots = without_repetitions(&args.roots);
    for root in &roots {
        match Preflight::load(&args.audit.options(root, args.packs.packs()), args.plan.as_deref()) {
            Ok(preflight) => {
                suggestion.get_or_insert_with(|| suggestion_for(&preflight));
                reports.push(preflight.judge());
            }
            // It is about this root: the others can be audited, and the exit code says that one was not.
            Err(error @ (PreflightError::Root(_) | PreflightError::NoPlan(_))) if roots.len() > 1 => {
                writeln!(streams.err, "{}", printable(&error.to_string()))?;
                refusals.push(Refusal { root: root.display().to_string(), why: reason(&error) });
            }
            Err(error) => return Err(error.into()),
        }
    }
    let survey = Survey { reports: &reports, refusals: &refusals };
    // Of several audits together the time says nothing about one of them.
    let elapsed = (!survey.is_of_several()).then(|| began.elapsed());
    let style = Style { detail: detail(args.quiet, args.verbose, &args.audit), width: WIDTH, elapsed };
    let mut text = Vec::new();
    if let (Format::Human, None, Some(command)) = (args.format, &args.plan, suggestion) {
        say_that_no_plan_was_given(survey, &command, &mut text)?;
    }
    output::write_survey(survey, args.format, style, &mut text)?;
    match &args.output {
        None => streams.out.write_all(&text)?,
        Some(path) => file::replace_report(path, text, streams)?,
    }
    Ok(survey.exit_code())
}

/// The roots in their order, each once: two reports of one root would be two values of one metric.
fn without_repetitions(roots: &[PathBuf]) -> Vec<&Path> {
    let mut once: Vec<&Path> = Vec::new();
    for root in roots {
        if !once.contains(&root.as_path()) {
            once.push(root);
        }
    }
    once
}

/// Why a root was not audited, without the word before it and the help behind it.
fn reason(error: &PreflightError) -> String {
    match error {
        PreflightError::Root(error) => error.to_string(),
        PreflightError::NoPlan(error) => format!("no plan can be made for it: {error}"),
        other => other.to_string(),
    }
}

/// How much a report for people says with these options.
pub(super) fn detail(quiet: bool, verbose: bool, audit: &AuditArgs) -> Detail {
    match (quiet, verbose) {
        (true, _) => Detail::Quiet,
        (_, true) => Detail::Verbose,
        // Who names rules wants to read what is said of them.
        _ if !audit.only.is_empty() => Detail::Full,
        _ => Detail::Normal,
    }
}

/// The command that prints the plan which a host is judged for when none is given.
fn suggestion_for(preflight: &Preflight) -> String {
    let root = &preflight.root;
    let of_root = if root.is_live() { String::new() } else { format!(" --root {}", root.name()) };
    format!("quietcore plan suggest{} > plan.toml", printable(&of_root))
}

fn say_that_no_plan_was_given(survey: Survey<'_>, suggestion: &str, out: &mut dyn Write) -> io::Result<()> {
    if survey.is_of_several() {
        return writeln!(out, "no plan given: judging each host for one made for it\n");
    }
    writeln!(out, "no plan given: judging this host for one made for it; to keep it:\n  {suggestion}\n")
}
