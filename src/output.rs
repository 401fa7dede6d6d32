//! Formats of reports. They see the report and nothing else.

use std::io::{self, Write};
use std::time::Duration;

use crate::report::Report;

mod diff;
mod human;
mod json;

pub use self::diff::{DiffFormat, write_diff};

/// A format of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people: a line a rule, remedies under failures, a summary.
    Human,
    /// For machines: schema 1.
    Json,
}

/// How much a human report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The summary, and warnings.
    Summary,
    /// What did not pass, and the summary.
    Quiet,
    /// A line a rule, and remedies.
    Normal,
    /// Also why, what was wanted and found, and each file with the text read.
    Verbose,
}

/// What a format needs beside the report.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// How much a human report says.
    pub detail: Detail,
    /// The width to wrap human text at, in columns.
    pub width: usize,
    /// How long the audit took, for the human summary; machine formats have no times in them.
    pub elapsed: Option<Duration>,
}

/// Writes a report. Colours are written too; the stream that it goes to takes them out where they are not wanted.
///
/// # Errors
/// What the stream answers.
pub fn write(report: &Report, format: Format, style: Style, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Human => human::write(report, style, out),
        Format::Json => json::write(report, out),
    }
}
