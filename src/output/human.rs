//! The report for people: reads in 80 columns, in a pipe, in the journal. A word says the verdict; colour and symbol only
//! repeat it.

use std::io::{self, Write};

use owo_colors::{OwoColorize, Style as Color};

use super::{Detail, Style, at_blanks, one_line};
use crate::exit;
use crate::fact::Source;
use crate::reading::printable;
use crate::report::{Evidence, Finding, Report, Verdict};
use crate::rule::Level;

/// Symbol, blank, the longest word.
pub(super) const VERDICT_COLUMNS: usize = 9;

pub(super) fn write(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let page = Page { id_columns: report.findings.iter().map(|f| f.rule.len()).max().unwrap_or(0), style };
    let is_whole = matches!(style.detail, Detail::Normal | Detail::Verbose);
    if is_whole {
        page.heading(report, out)?;
    }
    for finding in &report.findings {
        let is_shown = style.detail == Detail::Quiet && finding.verdict() != Verdict::Pass;
        if is_whole || is_shown {
            page.finding(finding, out)?;
        }
    }
    if is_whole {
        writeln!(out)?;
    }
    for warning in &report.warnings {
        page.heading_line(out, "warning:", warning)?;
    }
    page.summary(report, out)
}

/// What the lines of a report have in common: their columns and their width.
pub(super) struct Page {
    /// The width of the column of rule ids.
    pub(super) id_columns: usize,
    /// What the user wants to see of it.
    pub(super) style: Style,
}

/// Symbol, word and colour of a verdict.
pub(super) fn look(finding: &Finding) -> (&'static str, &'static str, Color) {
    match (finding.verdict(), finding.level) {
        (Verdict::Pass, _) => ("+", "pass", Color::new().green()),
        (Verdict::Fail, Level::Required) => ("x", "FAIL", Color::new().red().bold()),
        (Verdict::Fail, Level::Advised) => ("!", "advice", Color::new().yellow()),
        (Verdict::Unknown, _) => ("?", "unknown", Color::new().yellow().bold()),
        (Verdict::NotApplicable, _) => ("-", "n/a", Color::new().dimmed()),
        (Verdict::Waived, _) => ("~", "waived", Color::new().cyan()),
    }
}

impl Page {
    fn indent(&self) -> usize {
        VERDICT_COLUMNS + 2 + self.id_columns + 2
    }

    fn heading(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let plan = &report.plan;
        let name = plan.name.as_deref().unwrap_or("made for this host");
        let kernel = report.kernel.as_ref().map_or_else(String::new, |kernel| format!(", kernel {kernel}"));
        let mut roles = format!("{name}: hot {}", plan.hot);
        for (what, cpus) in [("idle", &plan.idle), ("housekeeping", &plan.housekeeping)] {
            if let Some(cpus) = cpus.as_deref().filter(|cpus| !cpus.is_empty()) {
                roles = format!("{roles}, {what} {cpus}");
            }
        }
        self.heading_line(out, "host", &format!("{}{kernel}", report.root))?;
        self.heading_line(out, "plan", &roles)?;
        writeln!(out)
    }

    fn finding(&self, finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
        let (symbol, word, color) = look(finding);
        let verdict = format!("{symbol} {word:<width$}", width = VERDICT_COLUMNS - 2);
        let evidence = finding.evidence();
        let mut lines = self.lines(&evidence.message, self.indent()).into_iter();
        let first = lines.next().unwrap_or_default();
        writeln!(out, "{}  {:<width$}  {first}", verdict.style(color), finding.rule, width = self.id_columns)?;
        for line in lines {
            writeln!(out, "{:indent$}{line}", "", indent = self.indent())?;
        }
        if let Some(waiver) = finding.waiver() {
            self.labelled(out, "waiver: ", &format!("{} ({}, until {})", waiver.reason, waiver.owner, waiver.expires))?;
        }
        if self.style.detail == Detail::Verbose {
            self.details(finding, evidence, out)?;
        }
        if finding.verdict() == Verdict::Fail {
            self.remedy(finding, out)?;
        }
        Ok(())
    }

    fn remedy(&self, finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
        for (when, text) in finding.remedy.steps() {
            let label = format!("{when}:");
            self.labelled(out, &format!("{label:<8}"), text)?;
        }
        Ok(())
    }

    fn details(&self, finding: &Finding, evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
        self.labelled(out, "rule:   ", &finding.title)?;
        for (label, text) in [("wanted: ", &evidence.wanted), ("found:  ", &evidence.found)] {
            if !text.is_empty() {
                self.labelled(out, label, text)?;
            }
        }
        for source in &evidence.sources {
            self.labelled(out, "file:   ", &source_text(source))?;
        }
        Ok(())
    }

    /// A line under a finding, dimmed, with a label before it.
    pub(super) fn labelled(&self, out: &mut dyn Write, label: &str, text: &str) -> io::Result<()> {
        let indent = self.indent();
        let mut label = label;
        let blank = " ".repeat(label.len());
        for line in self.lines(text, indent + label.len() + 1) {
            writeln!(out, "{:indent$}{} {}", "", label.dimmed(), line.dimmed())?;
            label = &blank;
        }
        Ok(())
    }

    /// A line above or below the findings, with a label in bold before it.
    pub(super) fn heading_line(&self, out: &mut dyn Write, label: &str, text: &str) -> io::Result<()> {
        let mut label = label;
        let blank = " ".repeat(label.len());
        for line in self.lines(text, label.len() + 2) {
            writeln!(out, "{}  {line}", label.bold())?;
            label = &blank;
        }
        Ok(())
    }

    /// Breaks a text at blanks; paths and lists of CPUs stay whole, so that they can be copied. All texts of the report come
    /// through here or [`Page::summary`], which leave nothing in them that a terminal would obey.
    fn lines(&self, text: &str, indent: usize) -> Vec<String> {
        let width = self.style.width.saturating_sub(indent).max(20);
        textwrap::wrap(&printable(text), at_blanks(width)).into_iter().map(std::borrow::Cow::into_owned).collect()
    }

    fn summary(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let (word, color) = match (report.verdict(), report.exit_code()) {
            (Verdict::Fail, _) => ("FAIL", Color::new().red().bold()),
            (Verdict::Unknown, exit::PASSED) => ("pass with unknowns", Color::new().yellow().bold()),
            (Verdict::Unknown, _) => ("UNKNOWN (strict)", Color::new().yellow().bold()),
            _ if report.count(Verdict::Pass) + report.count(Verdict::Waived) == 0 => {
                ("nothing judged", Color::new().yellow().bold())
            }
            _ => ("pass", Color::new().green().bold()),
        };
        let advised =
            report.findings.iter().filter(|f| f.verdict() == Verdict::Fail && f.level == Level::Advised).count();
        let failed = report.count(Verdict::Fail) - advised;
        let mut counts = vec![format!("{} passed", report.count(Verdict::Pass)), format!("{failed} failed")];
        let others = [
            (advised, "advised against"),
            (report.count(Verdict::Unknown), "unknown"),
            (report.count(Verdict::NotApplicable), "not applicable"),
            (report.count(Verdict::Waived), "waived"),
        ];
        counts.extend(others.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
        let name = report.plan.name.as_ref().map_or_else(String::new, |name| format!("{name}, "));
        let mut line = format!("{}; {name}hot {}; {}", counts.join(", "), report.plan.hot, report.root);
        if let Some(kernel) = &report.kernel {
            line = format!("{line}, kernel {kernel}");
        }
        if let Some(elapsed) = self.style.elapsed {
            line = format!("{line}; {:.1} ms", elapsed.as_secs_f64() * 1000.0);
        }
        // In the journal it is one line; on a page it is wrapped like the rest.
        if matches!(self.style.detail, Detail::Summary | Detail::Quiet) {
            return writeln!(out, "{}: {}", word.style(color), one_line(&line));
        }
        let mut lines = self.lines(&format!("{word}: {line}"), 2).into_iter();
        let first = lines.next().unwrap_or_default();
        writeln!(out, "{}{}", word.style(color), first.strip_prefix(word).unwrap_or_default())?;
        for line in lines {
            writeln!(out, "  {line}")?;
        }
        Ok(())
    }
}

fn source_text(source: &Source) -> String {
    let value = source_value(source);
    match (&source.text, &source.error) {
        (Some(text), None) if text.is_empty() => format!("{} is {value}", source.path),
        (Some(_), None) => format!("{}: {value}", source.path),
        _ => format!("{} {value}", source.path),
    }
}

/// What was read of a source, or why nothing was.
pub(super) fn source_value(source: &Source) -> String {
    match (&source.text, &source.error) {
        (_, Some(error)) => format!("({error})"),
        (Some(text), None) if text.is_empty() => "empty".to_owned(),
        (Some(text), None) => text.clone(),
        (None, None) => "(not there)".to_owned(),
    }
}
