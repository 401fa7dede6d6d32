//! Text for people, wrapped so that it reads in 80 columns and in a pipe.

use std::io::{self, Write};

use owo_colors::OwoColorize;

use crate::output::at_blanks;
use crate::reading::printable;

/// The widest line.
const WIDTH: usize = 79;

/// What stands before the text of a section.
const INDENT: &str = "  ";

/// Writes headings and the paragraphs below them. Colours are written too; the stream takes them out where they are not
/// wanted.
pub(super) struct Page<'o> {
    out: &'o mut dyn Write,
    has_begun: bool,
}

impl<'o> Page<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out, has_begun: false }
    }

    /// A heading, with a blank line before every one but the first.
    pub(super) fn heading(&mut self, text: &str) -> io::Result<()> {
        if self.has_begun {
            writeln!(self.out)?;
        }
        self.has_begun = true;
        wrap(text, "", "").iter().try_for_each(|line| writeln!(self.out, "{}", line.bold()))
    }

    /// A paragraph of a section.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        self.hanging(INDENT, INDENT, text)
    }

    /// One item of a list.
    pub(super) fn item(&mut self, text: &str) -> io::Result<()> {
        self.hanging("  - ", "    ", text)
    }

    /// A text behind a label, later lines below the text.
    pub(super) fn labelled(&mut self, label: &str, columns: usize, text: &str) -> io::Result<()> {
        let first = format!("{INDENT}{label:<columns$} ");
        let rest = " ".repeat(first.chars().count());
        self.hanging(&first, &rest, text)
    }

    /// A text with these words before its first line and before the others.
    pub(super) fn hanging(&mut self, first: &str, rest: &str, text: &str) -> io::Result<()> {
        wrap(text, first, rest).iter().try_for_each(|line| writeln!(self.out, "{line}"))
    }
}

/// Holds two words together, and is written as a blank.
pub(super) const GLUE: &str = "\u{a0}";

/// Breaks a text at blanks; paths and lists of CPUs stay whole, so that they can be copied.
fn wrap(text: &str, first: &str, rest: &str) -> Vec<String> {
    let options = at_blanks(WIDTH).initial_indent(first).subsequent_indent(rest);
    textwrap::wrap(&printable(text), options).into_iter().map(|line| line.replace(GLUE, " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Page<'_>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut Page::new(&mut out)).unwrap();
        String::from_utf8(out).unwrap().replace("\u{1b}[1m", "*").replace("\u{1b}[0m", "*")
    }

    #[test]
    fn sections_are_apart_and_lines_hang() {
        let text = written(|page| {
            page.heading("Why")?;
            page.text(&"word ".repeat(20))?;
            page.heading("Notes")?;
            page.item("one")?;
            page.labelled("now:", 8, &"path/that/stays/whole ".repeat(5))
        });
        assert_eq!(
            text,
            "*Why*\n  word word word word word word word word word word word word word word word\n  word word word \
             word word\n\n*Notes*\n  - one\n  now:     path/that/stays/whole path/that/stays/whole \
             path/that/stays/whole\n           path/that/stays/whole path/that/stays/whole\n"
        );
    }
}
