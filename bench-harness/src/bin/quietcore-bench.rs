//! Every measurement of the harness, one subcommand each.
#![deny(unsafe_code)]

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quietcore::preflight::PreflightError;
use quietcore_bench::cpus::CpuList;
use quietcore_bench::experiment::{Effort, Interrupted, MEASUREMENTS, Step};
use quietcore_bench::gate::{self, Refusal};
use quietcore_bench::session::{Miscast, Session};
use quietcore_bench::sys::signal;
use quietcore_bench::text::unless_reader_left;

/// Exit code of a command line that was not understood.
const USAGE: u8 = 2;
/// Exit code of a measurement that did not take place for a reason of its own.
const INTERNAL: u8 = 4;
/// Exit code of a measurement that the user ended: that of a shell for SIGINT.
const INTERRUPTED: u8 = 130;

/// What every measurement takes.
#[derive(Clone, Debug, Args)]
struct Common {
    /// Audit this host by PLAN first, and measure only when it passes
    #[arg(long, value_name = "PLAN")]
    plan: Option<PathBuf>,

    /// Measure whatever the audit says; the result carries its verdict
    #[arg(long)]
    ungated: bool,

    /// CPUs to use, one a role, the client's or main one first
    /// [default: the plan's hot CPUs, else the last ones]
    #[arg(short, long, value_name = "LIST")]
    cpus: Option<CpuList>,

    /// Samples of each row of the result
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    n: Option<u64>,

    /// How long to measure for each row instead: 2s, 20m, 2h
    #[arg(short, long, value_name = "TIME", value_parser = duration, conflicts_with = "n")]
    duration: Option<Duration>,

    /// Turns of each arm
    #[arg(long, value_name = "R", visible_alias = "trials", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// What is discarded before each turn
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    warmup: Option<u64>,

    /// Few samples: a smoke test, and marked as one
    #[arg(long)]
    quick: bool,

    /// How to print the result
    #[arg(long, value_enum, default_value = "human")]
    format: Format,

    /// Also write the result and the raw samples into DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Common {
    fn effort(&self) -> Effort {
        Effort { n: self.n, time: self.duration, warmup: self.warmup, rounds: self.rounds, quick: self.quick }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("nothing can be measured in no time".to_owned()) } else { Ok(time) }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Human,
    Json,
}

fn main() -> ExitCode {
    let matches = match command().try_get_matches() {
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
                    return answer(&command().error(ErrorKind::ValueValidation, error));
                }
                Err(error) if error.is::<Refusal>() => (ExitCode::FAILURE, format!("{error}\n")),
                // A plan that cannot be read, or is wrong.
                Err(error) if error.is::<PreflightError>() => (ExitCode::from(USAGE), format!("{error}\n")),
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

fn command() -> Command {
    let command = Command::new("quietcore-bench")
        .about("What tuning is worth: measurements that carry the host they came from")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(79);
    MEASUREMENTS.iter().fold(command, |command, row| {
        let subcommand = (row.options)(Common::augment_args(Command::new(row.name)));
        // Last, since the options bring a description of their own.
        command.subcommand(subcommand.about(row.about).long_about(None))
    })
}

fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let (name, matches) = matches.subcommand().context("no measurement was named")?;
    let row = MEASUREMENTS.iter().find(|row| row.name == name).context("no such measurement")?;
    let common = Common::from_arg_matches(matches)?;
    let stop = signal::stop_flag().context("cannot install signal handlers")?;
    signal::keep_children().context("cannot install signal handlers")?;
    let audit = gate::admit(common.plan.as_deref(), common.ungated, gate::audit)?;

    let experiment = (row.build)(matches)?;
    let bar = Bar::new();
    let session =
        Session { audit, cpus: common.cpus.clone(), effort: common.effort(), stop, progress: &|step| bar.show(step) };
    let report = session.measure(row.name, experiment.as_ref());
    bar.clear();
    let report = report?;

    if let Some(folder) = &common.out {
        report.save(folder)?;
    }
    let text = match common.format {
        Format::Human => report.to_string(),
        Format::Json => report.json()?,
    };
    let mut out = io::stdout().lock();
    unless_reader_left(out.write_all(text.as_bytes()).and_then(|()| out.flush())).context("cannot write the result")?;
    Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
