//! Every measurement of the harness, one subcommand each.
#![deny(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{ArgMatches, FromArgMatches};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quietcore::preflight::PreflightError;
use quietcore_bench::experiment::{Interrupted, MEASUREMENTS, Step};
use quietcore_bench::gate::{self, Refusal};
use quietcore_bench::lab;
use quietcore_bench::lab::compare::{Comparison, NotAResult, Side};
use quietcore_bench::options::{self, Common, Compare, LAB, program};
use quietcore_bench::report::Report;
use quietcore_bench::session::{Miscast, Session};
use quietcore_bench::sys::signal;
use quietcore_bench::text::unless_reader_left;

/// Exit code of a command line that was not understood.
const USAGE: u8 = 2;
/// Exit code of a measurement that did not take place for a reason of its own.
const INTERNAL: u8 = 4;
/// Exit code of a measurement that the user ended: that of a shell for SIGINT.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let matches = match program().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return answer(&error),
    };
    match run(&matches) {
        Ok(code) => code,
        Err(error) if error.is::<Interrupted>() => ExitCode::from(INTERRUPTED),
        Err(error) => {
            let (code, message) = match error.downcast::<clap::Error>() {
                Ok(error) => return answer(&error),
                Err(error) if error.is::<Miscast>() => {
                    return answer(&program().error(ErrorKind::ValueValidation, error));
                }
                Err(error) if error.is::<Refusal>() => (ExitCode::FAILURE, format!("{error}\n")),
                // A file that the user named and that cannot be read, or is wrong.
                Err(error) if error.is::<PreflightError>() => (ExitCode::from(USAGE), format!("{error}\n")),
                Err(error) if error.is::<NotAResult>() => {
                    (ExitCode::from(USAGE), format!("quietcore-bench: {error}\n"))
                }
                Err(error) => (ExitCode::from(INTERNAL), format!("quietcore-bench: {error:#}\n")),
            };
            // Nobody is left to be told when this fails.
            let _ = io::stderr().lock().write_all(message.as_bytes());
            code
        }
    }
}

/// Prints what clap has to say: an error, or the help that was asked for.
fn answer(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(USAGE),
    }
}

fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let (name, matches) = matches.subcommand().context("no measurement was named")?;
    if name != LAB {
        let row = MEASUREMENTS.iter().find(|row| row.name == name).context("no such measurement")?;
        let common = Common::from_arg_matches(matches)?;
        let experiment = (row.build)(matches)?;
        let report = in_session(&common, |session| session.measure(row.name, experiment.as_ref()))?;
        print(&common.format.written(&report, Report::json)?)?;
        if let Some(folder) = &common.out {
            report.save(folder)?;
        }
        return Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if let Some((_, matches)) = matches.subcommand() {
        let Compare { before, after, format } = Compare::from_arg_matches(matches)?;
        let comparison = Comparison::of(&Side::read(&before)?, &Side::read(&after)?);
        print(&format.written(&comparison, Comparison::json)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let common = Common::from_arg_matches(matches)?;
    let options::Lab { list, only, skip } = options::Lab::from_arg_matches(matches)?;
    let chosen = lab::choose(&only, &skip).map_err(|why| program().error(ErrorKind::ValueValidation, why))?;
    if chosen.is_empty() {
        return Err(program().error(ErrorKind::ValueValidation, "--only and --skip leave no measurement").into());
    }
    if list {
        let lines: Vec<String> = chosen.iter().map(|row| format!("{:<12}{}\n", row.name, row.about)).collect();
        print(&lines.concat())?;
        return Ok(ExitCode::SUCCESS);
    }
    let lab = in_session(&common, |session| lab::Lab::run(&chosen, session))?;
    print(&common.format.written(&lab, lab::Lab::json)?)?;
    if let Some(folder) = &common.out {
        lab.save(folder)?;
    }
    Ok(match (lab.holds(), lab.broken.is_empty()) {
        (false, _) => ExitCode::FAILURE,
        (true, false) => ExitCode::from(INTERNAL),
        (true, true) => ExitCode::SUCCESS,
    })
}

/// Audits the host as the command line says, and measures in a session with its verdict.
fn in_session<T>(common: &Common, measure: impl FnOnce(&Session<'_>) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let stop = signal::stop_flag().context("cannot install signal handlers")?;
    signal::keep_children().context("cannot install signal handlers")?;
    // Not after minutes of measuring.
    if let Some(folder) = &common.out {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let audit = gate::admit(common.plan.as_deref(), common.ungated, gate::audit)?;
    let bar = Bar::new();
    let (cpus, effort) = (common.cpus.clone(), common.effort());
    let result = measure(&Session { audit, cpus, effort, stop, progress: &|step| bar.show(step) });
    bar.clear();
    result
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    unless_reader_left(out.write_all(text.as_bytes()).and_then(|()| out.flush())).context("cannot write the result")
}

/// A progress bar on stderr, where that is a terminal. It is drawn when a trial begins and never during one: nothing here
/// wakes up by itself.
struct Bar {
    bar: ProgressBar,
    begin: Instant,
}

impl Bar {
    /// What ends sooner needs no bar.
    const PATIENCE: Duration = Duration::from_secs(1);

    fn new() -> Bar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        Bar { bar, begin: Instant::now() }
    }

    fn show(&self, step: Step<'_>) {
        if self.bar.is_hidden() && self.begin.elapsed() >= Bar::PATIENCE {
            // Hidden still where stderr is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_length(step.of.into());
        self.bar.set_position(step.done.into());
        self.bar.set_message(step.name.to_owned());
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
