//! `quietcore check`: the audit and its report.

use std::io::Write;
use std::time::Instant;

use super::{Failure, Streams};
use crate::cli::CheckArgs;
use crate::output::{self, Detail, Format, Style};
use crate::preflight::Preflight;
use crate::reading::printable;

/// The width of a report, wherever it goes.
pub(super) const WIDTH: usize = 80;

pub(super) fn run(args: &CheckArgs, streams: &mut Streams) -> Result<u8, Failure> {
    let began = Instant::now();
    let preflight = Preflight::load(&args.audit.options(), args.plan.as_deref())?;
    let report = preflight.judge();
    if args.plan.is_none() && args.format == Format::Human {
        let of_root =
            if preflight.root.is_live() { String::new() } else { format!(" --root {}", preflight.root.name()) };
        writeln!(streams.out, "no plan given: judging this host for one made for it; to keep it:")?;
        writeln!(streams.out, "  quietcore plan suggest{} > plan.toml", printable(&of_root))?;
        writeln!(streams.out)?;
    }
    let detail = match (args.quiet, args.verbose) {
        (true, _) => Detail::Quiet,
        (_, true) => Detail::Verbose,
        _ => Detail::Normal,
    };
    let style = Style { detail, width: WIDTH, elapsed: Some(began.elapsed()) };
    output::write(&report, args.format, style, &mut streams.out)?;
    Ok(report.exit_code())
}
