//! `quietcore gate`: the audit, and then the command in its place.
//!
//! The command takes over the process: same pid, same terminal, same limits. Nothing of the gate is left behind: its
//! descriptors close at the exec, its threads are none, and the signal mask is the caller's. `SIGPIPE` has its default
//! action, as after any exec of a program written in Rust, whose runtime hides what the caller had set.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use rustix::thread::{CpuSet as Affinity, sched_setaffinity};

use super::check::WIDTH;
use super::{Failure, Streams};
use crate::cli::GateArgs;
use crate::cpuset::CpuSet;
use crate::exit;
use crate::output::{self, Detail, Format, Style};
use crate::plan::Plan;
use crate::preflight::Preflight;

/// Refuses with the audit's exit code, the report on stderr; otherwise does not return but for an error.
pub(super) fn run(args: &GateArgs, streams: &mut Streams) -> Result<u8, Failure> {
    let began = Instant::now();
    let preflight = Preflight::load(&args.audit.options(&args.root, args.packs()), Some(&args.plan))?;
    let cpus = args.role.as_ref().map(|role| role_cpus(&preflight.plan, role)).transpose()?;
    let report = preflight.judge();
    // On a pass the summary alone; on a refusal also what did not pass, for the journal.
    let detail = if report.exit_code() == exit::PASSED { Detail::Summary } else { Detail::Quiet };
    let style = Style { detail, width: WIDTH, elapsed: Some(began.elapsed()) };
    // A log that is full is no reason to keep a tuned host from starting what it is tuned for; a refusal is its exit code.
    let _ = output::write(&report, Format::Human, style, &mut streams.err).and_then(|()| streams.err.flush());
    if report.exit_code() != exit::PASSED {
        return Ok(report.exit_code());
    }
    if let Some(cpus) = cpus {
        pin(&cpus)?;
    }
    Err(become_command(args))
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

fn become_command(args: &GateArgs) -> Failure {
    let Some((program, rest)) = args.command.split_first() else {
        return Failure::Usage("error: no command".to_owned());
    };
    let error = Command::new(program).args(rest).exec();
    let code = if error.kind() == io::ErrorKind::NotFound { exit::NOT_FOUND } else { exit::NOT_EXECUTABLE };
    Failure::NotStarted(code, format!("error: failed to run {}: {error}", program.display()))
}
