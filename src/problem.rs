//! Mistakes in the texts that users write (plans, rules, waivers): what is wrong, where, and what to write instead.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, normalize_untrusted_str};

/// Columns of a rendered problem: one less than a terminal has, as in the help texts.
const WIDTH: usize = 79;
/// How many problems of one file are shown. A file with more of them is not one that somebody will mend by hand.
const SHOWN: usize = 50;
/// How much of an offending text is underlined, in bytes: more than a line shows.
const UNDERLINED: usize = 4 * WIDTH;

/// One mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The offending text, in bytes from the start of the file.
    pub span: Range<usize>,
    /// What is wrong, as a lowercase fragment that names the offending words: ``unknown key `isolate` ``.
    pub message: String,
    /// A few words beside the underlined text.
    pub label: String,
    /// What to write instead, as an imperative.
    pub help: Option<String>,
    /// A second place that the mistake is about, with its own few words.
    pub also: Option<(Range<usize>, String)>,
}

impl Problem {
    /// A problem without help and with one place.
    pub fn new(span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self { span, message: message.into(), label: label.into(), help: None, also: None }
    }

    /// The same problem with a help line.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same problem with a second place.
    #[must_use]
    pub fn also(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.also = Some((span, label.into()));
        self
    }
}

/// Everything that is wrong with one file: at least one problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblems {
    /// The path as the user gave it.
    pub name: String,
    /// The whole text of the file.
    pub text: String,
    /// The problems in any order; never empty.
    pub problems: Vec<Problem>,
}

impl FileProblems {
    /// An error when there are problems.
    pub fn unless_empty(name: &str, text: &str, problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            return Ok(());
        }
        Err(Self { name: name.to_owned(), text: text.to_owned(), problems })
    }

    /// The problems in the order of their places, each with `NAME:LINE:COLUMN`, the offending text underlined and the
    /// help; lines and columns count from 1, columns in characters. No newline at the end.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() }.term_width(WIDTH);
        let lines = Lines::new(&self.text);
        let name = normalize_untrusted_str(&self.name);
        let mut problems: Vec<&Problem> = self.problems.iter().collect();
        problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
        let render = |problem: &&Problem| renderer.render(&[group(problem, &name, &lines)]).trim_end().to_owned();
        let mut parts: Vec<String> = problems.iter().take(SHOWN).map(render).collect();
        if problems.len() > SHOWN {
            parts.push(format!("{} more problems in {name}", problems.len() - SHOWN));
        }
        parts.join("\n\n")
    }
}

impl fmt::Display for FileProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for FileProblems {}

/// One problem as the renderer takes it.
fn group<'a>(problem: &'a Problem, name: &'a str, lines: &Lines<'a>) -> Group<'a> {
    let place = lines.mark(&problem.span);
    let also = problem.also.as_ref().map(|(span, label)| (lines.mark(span), label));
    // Only the lines from the one place to the other: the renderer walks all that it is given.
    let places =
        || std::iter::once(&place).chain(also.as_ref().map(|(mark, _)| mark)).map(|mark| lines.index(mark.start));
    let (first, last) = (places().min().unwrap_or(0), places().max().unwrap_or(0));
    let base = lines.line(first).start;
    let shift = |mark: &Range<usize>| mark.start - base..mark.end - base;
    let mut snippet = Snippet::source(&lines.text[base..lines.line(last).end])
        .path(name)
        .line_start(first + 1)
        .annotation(AnnotationKind::Primary.span(shift(&place)).label(&problem.label));
    if let Some((mark, label)) = &also {
        snippet = snippet.annotation(AnnotationKind::Context.span(shift(mark)).label(*label));
    }
    let group = Level::ERROR.primary_title(&problem.message).element(snippet);
    match &problem.help {
        None => group,
        Some(help) => {
            let room = WIDTH - "   = help: ".len();
            group.element(Level::HELP.message(textwrap::fill(&normalize_untrusted_str(help), room)))
        }
    }
}

/// A text and where its lines begin.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    /// Index of the line that holds this byte.
    fn index(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte).saturating_sub(1)
    }

    /// The bytes of a line, without its end.
    fn line(&self, index: usize) -> Range<usize> {
        let start = self.starts[index];
        let end = self.starts.get(index + 1).map_or(self.text.len(), |next| next - 1);
        start..start + self.text[start..end].trim_end_matches('\r').len()
    }

    /// A span made fit to be underlined: inside the text, on character boundaries, no longer than its first line.
    fn mark(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.boundary(span.start);
        let line = self.line(self.index(start));
        // A mark on the end of a line (an unclosed quote) stays on that line.
        let start = start.min(line.end);
        start..self.boundary(span.end.clamp(start, line.end).min(start + UNDERLINED))
    }

    /// The last character boundary at or before this byte.
    fn boundary(&self, byte: usize) -> usize {
        (0..=byte.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }
}

/// The known word that is closest to a misspelt one, if any is close: a third of the letters may differ.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// No name is longer, and the comparison takes memory in proportion to the length.
    const LONGEST: usize = 64;
    let letters = word.chars().count();
    if letters > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= letters.max(candidate.chars().count()).div_ceil(3).min(4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str, problems: Vec<Problem>) -> String {
        FileProblems { name: "plan.toml".into(), text: text.into(), problems }.render(false)
    }

    #[test]
    fn a_problem_shows_its_place_its_text_and_its_help() {
        let text = "nic = \"eth0\"\nisolate = \"1\"\n";
        let problem = Problem::new(13..20, "unknown key `isolate`", "no such key").help("did you mean `idle`?");
        assert_eq!(
            render(text, vec![problem]),
            "error: unknown key `isolate`
 --> plan.toml:2:1
  |
2 | isolate = \"1\"
  | ^^^^^^^ no such key
  |
  = help: did you mean `idle`?"
        );
    }

    #[test]
    fn two_places_are_both_shown() {
        let text = "idle = \"2\"\n# a comment\n\n[hot]\na = 2\n";
        let problem = Problem::new(34..35, "CPU 2 is both hot and idle", "hot here").also(7..10, "idle here");
        assert_eq!(
            render(text, vec![problem]),
            "error: CPU 2 is both hot and idle
 --> plan.toml:5:5
  |
1 | idle = \"2\"
  |        --- idle here
...
5 | a = 2
  |     ^ hot here"
        );
    }

    #[test]
    fn problems_come_in_the_order_of_the_text() {
        let out = render("ab\ncd\n", vec![Problem::new(3..5, "second", "x"), Problem::new(0..1, "first", "y")]);
        assert!(out.find("first") < out.find("second"), "{out}");
    }

    #[test]
    fn any_span_of_any_text_can_be_rendered() {
        for text in
            ["", "\n", "a", "a\n", "ä = \"ö\"\r\nb = 1\r\n", "\r\n\r\n", "\t= 1", "\u{feff}a", "a\rb\n", "\u{1b}[31m"]
        {
            for start in 0..text.len() + 3 {
                for end in [start, start + 1, start + 4] {
                    let also = Problem::new(start..end, "m", "l").also(0..1, "also").help("h");
                    let out = render(text, vec![Problem::new(start..end, "m", "l"), also]);
                    assert!(out.contains(" plan.toml:"), "{out}");
                    assert!(!out.contains('\u{1b}'), "{out:?}");
                }
            }
        }
    }

    #[test]
    fn columns_count_characters_and_the_end_of_the_file_has_a_place() {
        assert!(render("é = ü", vec![Problem::new(5..7, "m", "l")]).contains("plan.toml:1:5"));
        assert!(render("[hot", vec![Problem::new(4..4, "m", "l")]).contains("plan.toml:1:5"));
        assert!(render("", vec![Problem::new(0..0, "m", "l")]).contains("plan.toml:1:1"));
        assert!(render("a\r\nb = 1\r\n", vec![Problem::new(7..8, "m", "l")]).contains("plan.toml:2:5"));
    }

    #[test]
    fn long_lines_are_cut_and_the_column_stays_true() {
        let text = format!("{}X{}\n", "a".repeat(1_000_000), "b".repeat(1_000_000));
        let out = render(&text, vec![Problem::new(1_000_000..1_000_001, "m", "here")]);
        assert!(out.contains("plan.toml:1:1000001"), "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= WIDTH), "{out}");
        let whole = render(&text, vec![Problem::new(0..2_000_000, "m", "here")]);
        assert!(whole.len() < 4_000, "{}", whole.len());
    }

    #[test]
    fn a_flood_of_problems_is_cut_and_counted() {
        let text = "a\n".repeat(10_000);
        let problems = (0..10_000).map(|i| Problem::new(2 * i..2 * i + 1, "m", "l")).collect();
        assert!(render(&text, problems).ends_with("9950 more problems in plan.toml"));
    }

    #[test]
    fn close_words_are_suggested_and_others_are_not() {
        let known = ["housekeeping", "locked-memory", "idle", "hot", "nic"];
        assert_eq!(did_you_mean("hosekeeping", known), Some("housekeeping"));
        assert_eq!(did_you_mean("locked_memory", known), Some("locked-memory"));
        assert_eq!(did_you_mean("NIC", known), Some("nic"));
        assert_eq!(did_you_mean("ilde", known), Some("idle"));
        assert_eq!(did_you_mean("isolate", known), None);
        assert_eq!(did_you_mean("x", known), None);
        assert_eq!(did_you_mean(&"x".repeat(1_000_000), known), None);
    }
}
