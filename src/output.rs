//! Formats of reports. They see the report and nothing else.

use std::io::{self, Write};
use std::time::Duration;

use crate::reading::printable;
use crate::report::{Report, Survey};

mod diff;
mod github;
mod human;
mod json;
mod junit;
mod matrix;
mod prometheus;

pub use self::diff::{DiffFormat, write_diff};

/// A format of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people: a line a rule, remedies under failures, a summary.
    Human,
    /// For machines: schema 1.
    Json,
    /// For GitLab and Jenkins: JUnit XML, a test case a rule.
    Junit,
    /// For the textfile collector of node_exporter: metrics.
    Prometheus,
    /// For GitHub Actions: an annotation a finding.
    Github,
}

/// How much a human report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The summary, and warnings.
    Summary,
    /// What did not pass, and the summary.
    Quiet,
    /// A line a rule of the base, of the user's own and of what did not pass; the rest of the packs is summed up. Remedies.
    Normal,
    /// A line a rule, and remedies.
    Full,
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
    write_survey(Survey::of(report), format, style, out)
}

/// Writes the reports of one root or of several. Of several, people get a report each and a matrix, machines one document.
///
/// # Errors
/// What the stream answers.
pub fn write_survey(survey: Survey<'_>, format: Format, style: Style, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Human => {
            for report in survey.reports {
                human::write(report, style, out)?;
                if survey.is_of_several() {
                    writeln!(out)?;
                }
            }
            if survey.is_of_several() { matrix::write(survey, style.width, out) } else { Ok(()) }
        }
        Format::Json => json::write(survey, out),
        Format::Junit => junit::write(survey, out),
        Format::Prometheus => prometheus::write(survey, out),
        Format::Github => github::write(survey, out),
    }
}

/// How texts for people are broken: at blanks, so that paths and lists of CPUs stay whole and can be copied.
pub fn at_blanks<'a>(width: usize) -> textwrap::Options<'a> {
    textwrap::Options::new(width)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
}

/// A text that a terminal does not obey and that stays on its line: names of a tree are anybody's, line
/// breaks in them too. In a printed script what follows a line break would no longer be a comment, but a command.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}
