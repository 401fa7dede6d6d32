//! `quietcore bench`: hands over to `quietcore-bench`, found the way git and cargo find their parts.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use super::Failure;

const PROGRAM: &str = "quietcore-bench";

/// Becomes `quietcore-bench`: the one beside this program, else the first on `PATH`. Returns only when it cannot.
pub(super) fn become_it(args: &[OsString]) -> Failure {
    let beside = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(PROGRAM)));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(args).exec();
    Failure::Usage(match error.kind() {
        io::ErrorKind::NotFound => {
            format!(
                "error: no {PROGRAM} beside quietcore or on PATH\nhelp: build it with cargo build --release --workspace"
            )
        }
        _ => format!("error: failed to run {}: {error}", program.display()),
    })
}
