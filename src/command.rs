//! The subcommands, one a file, and what they share: how an answer is written and how a mistake ends.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, mem};

use anstream::adapter::strip_bytes;
use anstream::{AutoStream, ColorChoice};

use crate::cli::{Cli, Color, Command};
use crate::doc::LoadError;
use crate::preflight::PreflightError;
use crate::root::Root;
use crate::rule::{LoadErrors, RuleSet};

mod bench;
mod capture;
mod check;
mod diff;
mod exec;
mod explain;
mod file;
mod fix;
mod gate;
mod generate;
mod page;
mod plan;
mod rules;

/// Why a command ended without an answer.
#[derive(Debug)]
pub enum Failure {
    /// The user's mistake, explained: exit code 2.
    Usage(String),
    /// The answer could not be written: exit code 4.
    Output(io::Error),
    /// A file that the user asked for could not be written, explained: exit code 4.
    NotWritten(String),
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

/// A standard stream: written at once when it is flushed, without colours where they are not wanted. Its reader may go away
/// (`| head`): from then on nothing is written, and that is no error.
pub struct Stream<W> {
    buffer: Vec<u8>,
    is_plain: bool,
    is_closed: bool,
    out: W,
}

impl<W: Write> Stream<W> {
    fn new(out: W, choice: ColorChoice) -> Self {
        Self { buffer: Vec::new(), is_plain: choice == ColorChoice::Never, is_closed: false, out }
    }
}

impl<W: Write> Write for Stream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut bytes = mem::take(&mut self.buffer);
        if self.is_closed {
            return Ok(());
        }
        if self.is_plain {
            bytes = strip_bytes(&bytes).into_vec();
        }
        match self.out.write_all(&bytes).and_then(|()| self.out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            written => written,
        }
    }
}

/// The streams of a command.
pub struct Streams {
    /// Answers.
    pub out: Stream<io::StdoutLock<'static>>,
    /// Diagnostics.
    pub err: Stream<io::StderrLock<'static>>,
    /// Do files have colours? Only on demand: a file is no terminal, whatever standard output is.
    has_color_in_files: bool,
}

impl Streams {
    /// Standard output and error, with colours as the user wants them.
    pub fn standard(color: Color) -> Self {
        // `NO_COLOR` and `CLICOLOR_FORCE` are heeded under `auto` only.
        let (out, err) = match color {
            Color::Auto => (automatic(&io::stdout()), automatic(&io::stderr())),
            Color::Always => (ColorChoice::Always, ColorChoice::Always),
            Color::Never => (ColorChoice::Never, ColorChoice::Never),
        };
        Self {
            out: Stream::new(io::stdout().lock(), out),
            err: Stream::new(io::stderr().lock(), err),
            has_color_in_files: color == Color::Always,
        }
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
        Command::Capture(args) => capture::run(&args, streams),
        Command::Diff(args) => diff::run(&args, streams),
        Command::Explain(args) => explain::run(args, &mut streams.out),
        Command::Fix(args) => fix::run(args, &mut streams.out),
        Command::Bench { args } => Err(bench::become_it(&args)),
        Command::Generate(command) => generate::run(command, &mut streams.out),
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
