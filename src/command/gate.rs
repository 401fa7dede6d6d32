//! `quietcore gate`: the audit, and then the command in its place.
//!
//! The command takes over the process: same pid, same terminal, same limits. Nothing of the gate is left behind: its
//! descriptors close at the exec, its threads are none, and the signal mask and dispositions are the caller's. Standard
//! output is the command's: the report goes there only when there will be no command.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet as Affinity, sched_setaffinity};

use super::check::{WIDTH, detail};
use super::exec::become_command;
use super::{Failure, Streams, file};
use crate::cli::GateArgs;
use crate::cpuset::CpuSet;
use crate::exit;
use crate::output::{self, Detail, Format, Style};
use crate::plan::Plan;
use crate::preflight::Preflight;
use crate::report::Report;

/// Refuses with the audit's exit code; otherwise does not return but for an error.
pub(super) fn run(args: &GateArgs, streams: &mut Streams) -> Result<u8, Failure> {
    let began = Instant::now();
    let preflight = Preflight::load(&args.audit.options(&args.root, args.packs()), Some(&args.plan))?;
    let cpus = args.role.as_ref().map(|role| role_cpus(&preflight.plan, role)).transpose()?;
    let report = preflight.judge();
    tell(args, &report, began.elapsed(), streams)?;
    if report.exit_code() != exit::PASSED {
        return Ok(report.exit_code());
    }
    if let Some(cpus) = cpus {
        pin(&cpus)?;
    }
    let (program, rest) = args.command.split_first().ok_or_else(|| Failure::Usage("error: no command".to_owned()))?;
    let not_run = become_command(program, rest);
    Err(Failure::NotStarted(not_run.code, format!("error: failed to run {}", not_run.why)))
}

/// Writes the report where it was asked for, and for people on standard error: on a pass the summary alone, on a refusal
/// also what did not pass, for the journal.
fn tell(args: &GateArgs, report: &Report, elapsed: Duration, streams: &mut Streams) -> Result<(), Failure> {
    let is_pass = report.exit_code() == exit::PASSED;
    let style = |detail| Style { detail, width: WIDTH, elapsed: Some(elapsed) };
    let mut is_printed = false;
    if let Some(path) = &args.output {
        let mut text = Vec::new();
        output::write(report, args.format, style(detail(args.quiet, args.verbose, &args.audit)), &mut text)?;
        file::replace_report(path, text, streams)?;
    } else if args.format != Format::Human && !is_pass {
        output::write(report, args.format, style(Detail::Normal), &mut streams.out)?;
        is_printed = true;
    }
    let detail = match (is_pass, args.verbose) {
        (_, true) => Detail::Verbose,
        (true, _) if args.quiet => return Ok(()),
        (true, _) => Detail::Summary,
        (false, _) if is_printed => Detail::Summary,
        (false, _) => Detail::Quiet,
    };
    // A log that is full is no reason to keep a tuned host from starting what it is tuned for; a refusal is its exit code.
    let _ = output::write(report, Format::Human, style(detail), &mut streams.err).and_then(|()| streams.err.flush());
    Ok(())
}

fn role_cpus(plan: &Plan, role: &str) -> Result<CpuSet, Failure> {
    plan.role(role).map(|role| role.cpus.clone()).ok_or_else(|| {
        let roles: Vec<&str> = plan.hot.iter().chain(&plan.cold).map(|role| role.name.as_str()).collect();
        Failure::Usage(format!("error: --role: the plan has no role `{role}`; it has {}", roles.join(", ")))
    })
}

fn pin(cpus: &CpuSet) -> Result<(), Failure> {
    let mut affinity = Affinity::new();
    for cpu in cpus.iter() {
        let index = usize::try_from(cpu).unwrap_or(usize::MAX);
        if index >= Affinity::MAX_CPU {
            return Err(Failure::Usage(format!(
                "error: failed to pin: CPU {cpu} is beyond what an affinity mask holds"
            )));
        }
        affinity.set(index);
    }
    sched_setaffinity(None, &affinity).map_err(|why| not_pinned(cpus, &io::Error::from(why).to_string()))
}

/// The audit has passed, and the command still does not start.
fn not_pinned(cpus: &CpuSet, why: &str) -> Failure {
    Failure::NotStarted(exit::NOT_EXECUTABLE, format!("error: failed to pin to CPUs {cpus}: {why}"))
}
