//! The report for people: reads in 80 columns, in a pipe, in the journal. A word says the verdict; colour and symbol only
//! repeat it.

use std::io::{self, Write};

use owo_colors::{OwoColorize, Style as Color};

use super::{Detail, Style, at_blanks, one_line};
use crate::exit;
use crate::fact::Source;
use crate::reading::printable;
use crate::report::{Decision, Evidence, Finding, Report, Verdict};
use crate::rule::Level;
use crate::rule::pack::BASE;

/// Symbol, blank, the longest word.
pub(super) const VERDICT_COLUMNS: usize = 9;

pub(super) fn write(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (shown, rest): (Vec<&Finding>, Vec<&Finding>) =
        report.findings.iter().partition(|finding| has_line(finding, style.detail));
    let page = Page { id_columns: shown.iter().map(|f| f.rule.len()).max().unwrap_or(0), style };
    let is_whole = matches!(style.detail, Detail::Normal | Detail::Full | Detail::Verbose);
    if is_whole {
        page.heading(report, out)?;
    }
    for finding in shown {
        page.finding(finding, out)?;
    }
    if style.detail != Detail::Summary {
        page.summed_up(&rest, out)?;
    }
    if is_whole {
        writeln!(out)?;
    }
    for warning in &report.warnings {
        page.heading_line(out, "warning:", warning)?;
    }
    page.summary(report, out)
}

/// Is it one that everybody wants to read of, pass or not: of the base, of the user's own rules, or one that decides?
fn is_prominent(finding: &Finding) -> bool {
    finding.level == Level::Required || finding.pack.is_none_or(|pack| pack == BASE)
}

/// Does the rule have a line of its own? The others are summed up.
fn has_line(finding: &Finding, detail: Detail) -> bool {
    let is_news = matches!(finding.decision, Decision::Fail(_) | Decision::Waived(..) | Decision::Dropped(_));
    match detail {
        Detail::Summary => false,
        Detail::Quiet => is_news || (is_prominent(finding) && finding.verdict() != Verdict::Pass),
        Detail::Normal => is_news || is_prominent(finding),
        Detail::Full | Detail::Verbose => true,
    }
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
        (Verdict::Fail, Level::Info) => ("i", "info", Color::new().cyan()),
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
        let is_brief = matches!(self.style.detail, Detail::Quiet | Detail::Normal) && !is_prominent(finding);
        match finding.verdict() {
            Verdict::Fail if is_brief => self.brief_remedy(finding, out),
            Verdict::Fail => self.remedy(finding, out),
            _ => Ok(()),
        }
    }

    /// One line: the first step if it fits there, else where to read of it.
    fn brief_remedy(&self, finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
        let Some((when, text)) = finding.remedy.steps().next() else { return Ok(()) };
        let label = format!("{:<8}", format!("{when}:"));
        let is_one_line = self.lines(text, self.indent() + label.len() + 1).len() == 1;
        if is_one_line {
            return self.labelled(out, &label, text);
        }
        self.labelled(out, "fix:    ", &format!("quietcore explain {}", finding.rule))
    }

    /// How many rules of a verdict have no line of their own, and of those that could not be judged, which.
    fn summed_up(&self, rest: &[&Finding], out: &mut dyn Write) -> io::Result<()> {
        let of = |verdict| rest.iter().filter(move |finding| finding.verdict() == verdict);
        let is_quiet = self.style.detail == Detail::Quiet;
        let mut parts = Vec::new();
        let passed = of(Verdict::Pass).count();
        if passed > 0 && !is_quiet {
            parts.push(format!("{passed} pass"));
        }
        let unknown: Vec<&str> = of(Verdict::Unknown).map(|finding| finding.rule.as_str()).collect();
        if !unknown.is_empty() {
            parts.push(format!("{} unknown ({})", unknown.len(), unknown.join(", ")));
        }
        match of(Verdict::NotApplicable).count() {
            0 => {}
            _ if is_quiet => {}
            1 => parts.push("1 does not apply".to_owned()),
            n => parts.push(format!("{n} do not apply")),
        }
        if parts.is_empty() { Ok(()) } else { self.heading_line(out, "advised", &parts.join(", ")) }
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
        let failed =
            |level| report.findings.iter().filter(|f| f.verdict() == Verdict::Fail && f.level == level).count();
        let mut counts =
            vec![format!("{} passed", report.count(Verdict::Pass)), format!("{} failed", failed(Level::Required))];
        let others = [
            (failed(Level::Advised), "advised against"),
            (failed(Level::Info), "for information"),
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
