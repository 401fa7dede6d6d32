//! `quietcore bench`: hands over to `quietcore-bench`, found the way git and cargo find their parts.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use super::Failure;
use super::exec::become_command;
use crate::exit;

const PROGRAM: &str = "quietcore-bench";

/// Becomes `quietcore-bench`: the one beside this program, else the first on `PATH`. Returns only when it cannot.
pub(super) fn become_it(args: &[OsString]) -> Failure {
    let beside = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(PROGRAM)));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let not_run = become_command(program.as_os_str(), args);
    Failure::Usage(if not_run.code == exit::NOT_FOUND {
        format!(
            "error: no {PROGRAM} beside quietcore or on PATH\nhelp: build it with cargo build --release --workspace"
        )
    } else {
        format!("error: failed to run {}", not_run.why)
    })
}
