//! The echo programs: two servers and their client.
#![deny(unsafe_code)]

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use quietcore_bench::echo::fast::Fast;
use quietcore_bench::echo::naive::Naive;
use quietcore_bench::echo::serve;
use quietcore_bench::invocation::{Invocation, Name, parse};
use quietcore_bench::measure;

/// Exit code of a command line that was not understood.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let mut args = env::args_os();
    let name = Name::of(args.next().as_deref());
    let Some(invocation) = parse(args) else {
        let _ = io::stderr().lock().write_all(&name.usage());
        return ExitCode::from(USAGE);
    };
    let outcome = match invocation {
        Invocation::Fastpath { port, cpu, busy_poll } => {
            serve(&name, port, &Fast { cpu, busy_poll }).map_err(|failure| failure.to_string())
        }
        Invocation::Naive { port } => serve(&name, port, &Naive).map_err(|failure| failure.to_string()),
        Invocation::Measure(ask) => {
            measure::run(&name, &ask, &mut io::stdout().lock()).map_err(|error| error.to_string())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            name.say(&format!("error: {message}"));
            ExitCode::FAILURE
        }
    }
}
