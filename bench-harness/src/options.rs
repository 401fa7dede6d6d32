//! The command line of `quietcore-bench`: what every measurement takes, and the commands that are made of the table.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, ValueEnum};

use quietcore::reading::printable;

use crate::cpus::CpuList;
use crate::experiment::{Effort, MEASUREMENTS, Measurement};

/// What every measurement takes.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Audit this host by PLAN first, and measure only when it passes
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,

    /// Measure whatever the audit says; the result carries its verdict
    #[arg(long)]
    pub ungated: bool,

    /// CPUs to use, one a role, the client's or main one first
    /// [default: the plan's hot CPUs, else the last ones]
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<CpuList>,

    /// Samples of each row of the result
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub n: Option<u64>,

    /// How long to measure for each row instead: 2s, 20m, 2h
    #[arg(short, long, value_name = "TIME", value_parser = duration, conflicts_with = "n")]
    pub duration: Option<Duration>,

    /// Turns of each arm
    #[arg(long, value_name = "R", visible_alias = "trials", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,

    /// What is discarded before each turn
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    pub warmup: Option<u64>,

    /// Few samples: a smoke test, and marked as one
    #[arg(long)]
    pub quick: bool,

    /// How to print the result: human or json
    #[arg(long, value_enum, default_value = "human", hide_possible_values = true)]
    pub format: Format,

    /// Also write the result, a page with pictures and the raw samples into DIR
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Format {
    /// A result in this form.
    pub fn written<T: fmt::Display>(
        self,
        result: &T,
        json: impl FnOnce(&T) -> serde_json::Result<String>,
    ) -> serde_json::Result<String> {
        match self {
            Format::Human => Ok(printable(&result.to_string()).into_owned()),
            Format::Json => json(result),
        }
    }
}

impl Common {
    /// How much to measure.
    pub fn effort(&self) -> Effort {
        Effort { n: self.n, time: self.duration, warmup: self.warmup, rounds: self.rounds, quick: self.quick }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("nothing can be measured in no time".to_owned()) } else { Ok(time) }
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    /// For people: figures in 80 columns
    Human,
    /// For programs: schema 1
    Json,
}

/// What the lab takes beside that.
#[derive(Clone, Debug, Args)]
pub struct Lab {
    /// List the measurements, and measure nothing
    #[arg(long)]
    pub list: bool,

    /// Only these
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<String>,

    /// All but these
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub skip: Vec<String>,
}

/// Two results to compare.
#[derive(Clone, Debug, Args)]
pub struct Compare {
    /// The result before: JSON of `lab`, or of one measurement
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,

    /// The result after
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,

    /// How to print the comparison: human or json
    #[arg(long, value_enum, default_value = "human", hide_possible_values = true)]
    pub format: Format,
}

/// The whole command line, a subcommand a measurement and one for all of them.
pub fn program() -> Command {
    let compare = Compare::augment_args(Command::new(COMPARE))
        .about("Compare two results: what changed on the host, and what that did to each figure");
    let lab = Lab::augment_args(Common::augment_args(Command::new(LAB)))
        .about("Run all measurements in order, with what was expected beside what came")
        .long_about(None)
        .args_conflicts_with_subcommands(true)
        .subcommand(compare);
    let program = Command::new("quietcore-bench")
        .about("What tuning is worth: measurements that carry the host they came from")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(79);
    MEASUREMENTS.iter().fold(program, |program, row| program.subcommand(command(row))).subcommand(lab)
}

/// The subcommand that runs all measurements.
pub const LAB: &str = "lab";

/// Its own subcommand, which compares results.
pub const COMPARE: &str = "compare";

/// The command of a measurement: what all take, and its own options.
pub fn command(row: &Measurement) -> Command {
    let command = (row.options)(Common::augment_args(Command::new(row.name)));
    // Last, since the options bring a description of their own.
    command.about(row.about).long_about(None)
}
