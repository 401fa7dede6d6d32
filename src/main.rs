//! The `quietcore` program.
#![forbid(unsafe_code)]

use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use clap::Parser;
use quietcore::cli::Cli;
use quietcore::command::{self, Failure, Streams};
use quietcore::exit;
use quietcore::reading::printable;

fn main() -> ExitCode {
    // A usage error ends here with exit code 2, help and version with 0.
    let cli = Cli::parse();
    let mut streams = Streams::standard(cli.color);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| command::run(cli, &mut streams)));
    let code = match outcome {
        Ok(Ok(code)) => code,
        Ok(Err(Failure::Usage(text))) => {
            // Nothing is left to do about a diagnostic that cannot be written; the exit code still says it.
            let _ = writeln!(streams.err, "{}", printable(&text));
            exit::USAGE
        }
        Ok(Err(Failure::Output(error))) => {
            let _ = writeln!(streams.err, "error: failed to write the answer: {error}");
            exit::INTERNAL
        }
        Ok(Err(Failure::NotWritten(text))) => {
            let _ = writeln!(streams.err, "{}", printable(&text));
            exit::INTERNAL
        }
        Ok(Err(Failure::NotStarted(code, text))) => {
            let _ = writeln!(streams.err, "{}", printable(&text));
            code
        }
        // The panic has printed what it was.
        Err(_) => exit::INTERNAL,
    };
    let _ = streams.err.flush();
    ExitCode::from(code)
}
