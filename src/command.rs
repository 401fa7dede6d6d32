//! The subcommands, one a file, and what they share: how an answer is written and how a mistake ends.

use std::env;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anstream::{AutoStream, ColorChoice};

use crate::cli::{Cli, Color, Command};
use crate::doc::LoadError;
use crate::preflight::PreflightError;
use crate::root::Root;
use crate::rule::{LoadErrors, RuleSet};

mod bench;
mod check;
mod gate;
mod generate;
mod plan;
mod rules;

/// Why a command ended without an answer.
#[derive(Debug)]
pub enum Failure {
    /// The user's mistake, explained: exit code 2.
    Usage(String),
    /// The answer could not be written: exit code 4.
    Output(io::Error),
    /// The command behind a gate could not be started, with the exit code that shells give for it.
    NotStarted(u8, String),
}

impl From<PreflightError> for Failure {
    fn from(error: PreflightError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Standard output whose reader may go away (`| head`): from then on nothing is written, and that is no error.
pub struct Answer {
    stream: BufWriter<AutoStream<io::StdoutLock<'static>>>,
    is_closed: bool,
}

impl Answer {
    fn unless_closed<T>(&mut self, done: T, write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
        if self.is_closed {
            return Ok(done);
        }
        match write(&mut self.stream) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(done)
            }
            written => written,
        }
    }
}

impl Write for Answer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_closed(bytes.len(), |stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), |stream| stream.flush())
    }
}

/// The streams of a command.
pub struct Streams {
    /// Answers.
    pub out: Answer,
    /// Diagnostics.
    pub err: AutoStream<io::StderrLock<'static>>,
}

impl Streams {
    /// Standard output and error, with colours as the user wants them.
    pub fn standard(color: Color) -> Self {
        let choice = match color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        };
        // `NO_COLOR` and `CLICOLOR_FORCE` are heeded under `auto` only.
        let choose = |auto: ColorChoice| if choice == ColorChoice::Auto { auto } else { choice };
        let out = choose(automatic(&io::stdout()));
        let err = choose(automatic(&io::stderr()));
        let stream = BufWriter::new(AutoStream::new(io::stdout().lock(), out));
        Self { out: Answer { stream, is_closed: false }, err: AutoStream::new(io::stderr().lock(), err) }
    }
}

/// What `auto` means for a stream. `CLICOLOR_FORCE=0` forces nothing.
fn automatic(stream: &impl anstream::stream::RawStream) -> ColorChoice {
    let is_forced_by_zero = env::var_os("CLICOLOR_FORCE").is_some_and(|value| value == "0");
    match AutoStream::choice(stream) {
        ColorChoice::Always | ColorChoice::AlwaysAnsi if is_forced_by_zero && !stream.is_terminal() => {
            ColorChoice::Never
        }
        choice => choice,
    }
}

/// Runs the command that the user typed and gives its exit code.
///
/// # Errors
/// See [`Failure`].
pub fn run(cli: Cli, streams: &mut Streams) -> Result<u8, Failure> {
    let code = match cli.command {
        Command::Check(args) => check::run(&args, streams),
        Command::Gate(args) => gate::run(&args, streams),
        Command::Plan(command) => plan::run(command, streams),
        Command::Rules(command) => rules::run(command, &mut streams.out),
        Command::Bench { args } => Err(bench::become_it(&args)),
        Command::Generate(command) => generate::run(&command, &mut streams.out),
    }?;
    streams.out.flush()?;
    Ok(code)
}

fn open_root(dir: &Path) -> Result<Root, Failure> {
    Root::open(dir).map_err(|error| Failure::Usage(format!("error: {error}")))
}

fn load_rules(folders: &[PathBuf]) -> Result<RuleSet, Failure> {
    RuleSet::with_folders(folders).map_err(|errors| Failure::Usage(errors.to_string()))
}

fn load_failure(error: LoadError) -> Failure {
    Failure::Usage(LoadErrors(vec![error]).render(false))
}
