//! The verdicts of several roots side by side, for people: a line a rule, a column a root. Words where they fit, else the
//! symbols of the reports with a legend.

use std::io::{self, Write};

use owo_colors::{OwoColorize, Style as Color};

use super::human;
use crate::reading::printable;
use crate::report::{Report, Survey};

/// The row below the rules.
const LAST_ROW: &str = "exit code";
/// Between columns.
const GAP: usize = 2;
const LEGEND: &str = "+ pass  x FAIL  ! advice  i info  ? unknown  - not applicable  ~ waived";

pub(super) fn write(survey: Survey<'_>, width: usize, out: &mut dyn Write) -> io::Result<()> {
    if !survey.reports.is_empty() {
        Matrix::of(survey.reports, width).write(survey.reports, width, out)?;
    }
    if !survey.reports.is_empty() && !survey.refusals.is_empty() {
        writeln!(out)?;
    }
    for refusal in survey.refusals {
        writeln!(
            out,
            "{} {}: {}",
            "not audited".style(Color::new().red().bold()),
            printable(&refusal.root),
            printable(&refusal.why)
        )?;
    }
    Ok(())
}

struct Matrix {
    /// Of the rules' ids.
    id_columns: usize,
    /// Above the columns: short names of the roots, or their numbers.
    headings: Vec<String>,
    /// Of a cell, without the gap before it.
    cell_columns: usize,
    has_words: bool,
    has_names: bool,
}

impl Matrix {
    /// Words and names where they fit, then words and numbers, then symbols and numbers.
    fn of(reports: &[Report], width: usize) -> Self {
        let ids = reports.iter().flat_map(|report| &report.findings).map(|finding| finding.rule.len());
        let id_columns = ids.max().unwrap_or(0).max(LAST_ROW.len());
        let roots: Vec<&str> = reports.iter().map(|report| report.root.as_str()).collect();
        let names: Vec<String> = short_names(&roots).iter().map(|name| printable(name).into_owned()).collect();
        let numbers: Vec<String> = (1..=roots.len()).map(|number| number.to_string()).collect();
        let words = reports.iter().flat_map(|report| &report.findings).map(|finding| human::look(finding).1.len());
        let word_columns = words.max().unwrap_or(0);
        let longest = |headings: &[String]| headings.iter().map(|heading| heading.chars().count()).max().unwrap_or(0);
        let fits = |columns: usize| id_columns + roots.len() * (GAP + columns) <= width;
        let (name_columns, number_columns) = (longest(&names).max(word_columns), longest(&numbers));
        let new = |headings, cell_columns, has_words, has_names| Self {
            id_columns,
            headings,
            cell_columns,
            has_words,
            has_names,
        };
        if fits(name_columns) {
            new(names, name_columns, true, true)
        } else if fits(word_columns.max(number_columns)) {
            new(numbers, word_columns.max(number_columns), true, false)
        } else {
            new(numbers, number_columns, false, false)
        }
    }

    fn write(&self, reports: &[Report], width: usize, out: &mut dyn Write) -> io::Result<()> {
        if !self.has_names {
            for (number, report) in self.headings.iter().zip(reports) {
                writeln!(out, "{number:>width$}  {}", printable(&report.root), width = self.cell_columns)?;
            }
            writeln!(out)?;
        }
        if !self.has_words {
            writeln!(out, "{LEGEND}\n")?;
        }
        // More columns than fit go below.
        let at_once = (width.saturating_sub(self.id_columns) / (GAP + self.cell_columns)).max(1);
        for (index, block) in reports.chunks(at_once).enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            self.block(block, self.headings.iter().skip(index * at_once).take(at_once), out)?;
        }
        Ok(())
    }

    fn block<'h>(
        &self,
        reports: &[Report],
        headings: impl Iterator<Item = &'h String>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let plain = |cell: String| (cell, Color::new());
        self.row("", &headings.cloned().map(plain).collect::<Vec<_>>(), out)?;
        let rules = reports.first().map(|report| report.findings.as_slice()).unwrap_or_default();
        for rule in rules.iter().map(|finding| finding.rule.as_str()) {
            let cell = |report: &Report| {
                let look = report.findings.iter().find(|finding| finding.rule == rule).map(human::look);
                look.map_or_else(Default::default, |(symbol, word, color)| {
                    ((if self.has_words { word } else { symbol }).to_owned(), color)
                })
            };
            self.row(rule, &reports.iter().map(cell).collect::<Vec<_>>(), out)?;
        }
        let codes: Vec<_> = reports.iter().map(|report| plain(report.exit_code().to_string())).collect();
        self.row(LAST_ROW, &codes, out)
    }

    /// A line: every cell but the last is filled up with blanks, outside of its colour.
    fn row(&self, id: &str, cells: &[(String, Color)], out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{id:<width$}", width = self.id_columns)?;
        for (index, (text, color)) in cells.iter().enumerate() {
            write!(out, "{:GAP$}{}", "", text.style(*color))?;
            if index + 1 < cells.len() {
                let blanks = self.cell_columns.saturating_sub(text.chars().count());
                write!(out, "{:blanks$}", "")?;
            }
        }
        writeln!(out)
    }
}

/// The roots without the folders that all of them begin or end with: `fixtures/tuned/root` beside
/// `fixtures/laptop/root` is `tuned`.
fn short_names(roots: &[&str]) -> Vec<String> {
    let paths: Vec<Vec<&str>> = roots.iter().map(|root| root.split('/').collect()).collect();
    // One part at least stays of each.
    let most = paths.iter().map(Vec::len).min().unwrap_or(0).saturating_sub(1);
    let before = alike(&paths, most);
    let reversed: Vec<Vec<&str>> = paths.iter().map(|path| path.iter().rev().copied().collect()).collect();
    let after = alike(&reversed, most - before);
    let short = |(path, root): (&Vec<&str>, &&str)| {
        let name = path[before..path.len() - after].join("/");
        if name.is_empty() { (*root).to_owned() } else { name }
    };
    paths.iter().zip(roots).map(short).collect()
}

/// How many parts, of `most`, all of the paths begin with.
fn alike(paths: &[Vec<&str>], most: usize) -> usize {
    (0..most).take_while(|part| paths.windows(2).all(|pair| pair[0][*part] == pair[1][*part])).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_tells_roots_apart() {
        assert_eq!(short_names(&["fixtures/tuned/root", "fixtures/laptop/root"]), ["tuned", "laptop"]);
        assert_eq!(short_names(&["a/b/c", "a/x/y/c"]), ["b", "x/y"]);
        assert_eq!(short_names(&["/", "/srv/host"]), ["/", "srv/host"]);
        assert_eq!(short_names(&["/a", "/a/b"]), ["a", "a/b"]);
        assert_eq!(short_names(&["a/b", "a/b"]), ["b", "b"]);
        assert_eq!(short_names(&[]), [""; 0]);
    }
}
