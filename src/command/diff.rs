//! `quietcore diff`: two trees, audited for one plan, and what changed between them.

use std::path::Path;

use super::check::WIDTH;
use super::{Failure, Streams};
use crate::cli::DiffArgs;
use crate::output;
use crate::preflight::{Options, Preflight, PreflightError};
use crate::report::Report;
use crate::report::comparison::Comparison;

pub(super) fn run(args: &DiffArgs, streams: &mut Streams) -> Result<u8, Failure> {
    let (before, after) = (audited(args, &args.before)?, audited(args, &args.after)?);
    let comparison = Comparison::of(&before, &after);
    output::write_diff(&comparison, args.format, WIDTH, &mut streams.out)?;
    Ok(comparison.exit_code())
}

/// The report on a folder. An archive is one only after it has been unpacked.
fn audited(args: &DiffArgs, tree: &Path) -> Result<Report, Failure> {
    let (rules, packs) = (args.rules.clone(), args.packs.packs());
    let options = Options { root: tree.to_owned(), rules, packs, ..Options::default() };
    let preflight = Preflight::load(&options, Some(&args.plan)).map_err(|error| match error {
        PreflightError::Root(_) if tree.is_file() => {
            let next = format!("unpack it: mkdir DIR && tar -xf {} -C DIR", tree.display());
            Failure::Usage(format!("{error}\nhelp: {next}"))
        }
        error => error.into(),
    })?;
    Ok(preflight.judge())
}
