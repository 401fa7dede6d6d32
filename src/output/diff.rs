//! Two reports compared, for people: in the form of a report, and only what changed.

use std::io::{self, Write};

use owo_colors::{OwoColorize, Style as Color};

use super::human::{Page, VERDICT_COLUMNS, look, source_value};
use super::{Detail, Style};
use crate::report::Finding;
use crate::report::comparison::{Change, Comparison, Direction, SourceChange};

mod json;

/// A format of comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DiffFormat {
    /// For people.
    Human,
    /// For machines: schema 1.
    Json,
}

/// Writes a comparison; human text is wrapped at `width` columns.
///
/// # Errors
/// What the stream answers.
pub fn write_diff(
    comparison: &Comparison<'_>,
    format: DiffFormat,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        DiffFormat::Human => human(comparison, width, out),
        DiffFormat::Json => json::write(comparison, out),
    }
}

fn human(comparison: &Comparison<'_>, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let id_columns = comparison.changes.iter().map(|change| change.after.rule.len()).max().unwrap_or(0);
    let page = Page { id_columns, style: Style { detail: Detail::Normal, width, elapsed: None } };
    for (label, report) in [("before", comparison.before), ("after ", comparison.after)] {
        let kernel = report.kernel.as_ref().map_or_else(String::new, |kernel| format!(", kernel {kernel}"));
        page.heading_line(out, label, &format!("{}{kernel}", report.root))?;
    }
    let plan = &comparison.after.plan;
    page.heading_line(out, "plan  ", &format!("{}: hot {}", plan.name.as_deref().unwrap_or_default(), plan.hot))?;
    writeln!(out)?;
    for change in &comparison.changes {
        rule(&page, change, out)?;
    }
    if !comparison.changes.is_empty() {
        writeln!(out)?;
    }
    summary(comparison, out)
}

fn rule(page: &Page, change: &Change<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (symbol, color) = match (change.direction(), change.is_required()) {
        (Direction::Worse, true) => ("x", Color::new().red().bold()),
        (Direction::Worse, false) => ("!", Color::new().yellow()),
        (Direction::Better, _) => ("+", Color::new().green()),
        (Direction::Sideways, _) => ("~", Color::new().cyan()),
    };
    let direction = format!("{symbol} {:<width$}", change.direction().name(), width = VERDICT_COLUMNS - 2);
    let [(_, before, _), (_, after, _)] = [change.before, change.after].map(look);
    let verdicts = if before == after { format!("still {after}") } else { format!("{before} -> {after}") };
    writeln!(out, "{}  {:<width$}  {verdicts}", direction.style(color), change.after.rule, width = page.id_columns)?;
    let [before, after] = [change.before, change.after].map(Finding::evidence);
    // What was found says it shortest; where that is the same or there is none, the sentence may tell more.
    let is_found = before.found != after.found && !before.found.is_empty() && !after.found.is_empty();
    let [before, after] = [before, after].map(|evidence| if is_found { &evidence.found } else { &evidence.message });
    if before != after {
        page.labelled(out, "before: ", before)?;
        page.labelled(out, "after:  ", after)?;
    }
    for text in change.sources.iter().filter_map(source_change) {
        page.labelled(out, "file:   ", &text)?;
    }
    Ok(())
}

/// What a file held on both sides. Evidence names other files for another verdict: those of one side only tell people
/// nothing, and stand in the JSON.
fn source_change(change: &SourceChange<'_>) -> Option<String> {
    let (before, after) = (source_value(change.before?), source_value(change.after?));
    Some(format!("{}: {before} -> {after}", change.path))
}

fn summary(comparison: &Comparison<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (word, color) = match (comparison.is_worse(), comparison.changes.is_empty()) {
        (true, _) => ("WORSE", Color::new().red().bold()),
        (false, true) => ("same", Color::new().green().bold()),
        (false, false) => ("not worse", Color::new().green().bold()),
    };
    let advised = comparison.changes.iter().filter(|c| c.direction() == Direction::Worse && !c.is_required()).count();
    let mut worse = format!("{} worse", comparison.count(Direction::Worse));
    if advised > 0 {
        worse = format!("{worse} ({advised} of them advised)");
    }
    let (better, sideways) = (comparison.count(Direction::Better), comparison.count(Direction::Sideways));
    let counts = format!("{worse}, {better} better, {sideways} otherwise changed, {} unchanged", comparison.unchanged);
    writeln!(out, "{}: {counts}", word.style(color))
}
