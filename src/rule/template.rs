//! Texts of rules with placeholders: `{offending}`, `{found}`, `{wanted}` and facts of the plan.

use std::fmt;
use std::ops::Range;

use crate::fact::{self, Fact};
use crate::problem::did_you_mean;

/// A text with placeholders, each of which exists.
#[derive(Clone, Debug, Default)]
pub struct Template(pub Vec<Piece>);

/// A part of a [`Template`].
#[derive(Clone, Debug)]
pub enum Piece {
    /// Text as it stands.
    Text(String),
    /// What broke the assertion.
    Offending,
    /// What was found.
    Found,
    /// What was wanted.
    Wanted,
    /// A fact of the plan.
    Fact(&'static Fact),
}

/// As people read it: placeholders by their names, braces single.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Offending => f.write_str("{offending}"),
            Piece::Found => f.write_str("{found}"),
            Piece::Wanted => f.write_str("{wanted}"),
            Piece::Fact(fact) => write!(f, "{{{}}}", fact.name),
        })
    }
}

/// A placeholder that does not exist, at bytes of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TemplateError {
    pub(super) at: Range<usize>,
    pub(super) message: String,
    pub(super) help: String,
}

/// The placeholders of an entry's `else`, beside facts of the plan.
const OF_AN_ENTRY: &[&str] = &["offending", "found", "wanted"];

/// Parses a text. `is_of_entry` says whether it is an entry's `else`, which may say what was found. A doubled brace is a
/// brace.
///
/// # Errors
/// Every placeholder that does not exist, and a brace that is not closed.
pub(super) fn parse(text: &str, is_of_entry: bool) -> Result<Template, Vec<TemplateError>> {
    let mut pieces = Vec::new();
    let mut errors = Vec::new();
    let mut plain = String::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(brace) = rest.find(['{', '}']) else {
            plain.push_str(rest);
            break;
        };
        let (before, from_brace) = rest.split_at(brace);
        plain.push_str(before);
        let start = at + brace;
        if from_brace.starts_with("{{") || from_brace.starts_with("}}") {
            plain.push_str(&from_brace[..1]);
            at = start + 2;
            continue;
        }
        let Some(end) = from_brace.find('}').filter(|_| from_brace.starts_with('{')) else {
            let message = "a brace without its other half".to_owned();
            errors.push(TemplateError { at: start..start + 1, message, help: "double it to print a brace".to_owned() });
            at = start + 1;
            continue;
        };
        let name = &from_brace[1..end];
        match placeholder(name, is_of_entry) {
            Ok(piece) => {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
                pieces.push(piece);
            }
            Err(help) => {
                let message = format!("placeholder {{{name}}} does not exist");
                errors.push(TemplateError { at: start..start + end + 1, message, help });
            }
        }
        at = start + end + 1;
    }
    pieces.push(Piece::Text(plain));
    pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
    if errors.is_empty() { Ok(Template(pieces)) } else { Err(errors) }
}

fn placeholder(name: &str, is_of_entry: bool) -> Result<Piece, String> {
    match name {
        "offending" if is_of_entry => return Ok(Piece::Offending),
        "found" if is_of_entry => return Ok(Piece::Found),
        "wanted" if is_of_entry => return Ok(Piece::Wanted),
        _ => {}
    }
    let of_plan = || fact::facts().filter(|fact| fact.is_of_plan());
    if let Some(fact) = of_plan().find(|fact| fact.name == name) {
        return Ok(Piece::Fact(fact));
    }
    let of_entry = if is_of_entry { OF_AN_ENTRY } else { &[] };
    let known = || of_entry.iter().copied().chain(of_plan().map(|fact| fact.name));
    Err(match did_you_mean(name, known()) {
        Some(close) => format!("did you mean {{{close}}}?"),
        None => format!("there are {}", known().map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, is_of_entry: bool) -> String {
        match parse(text, is_of_entry) {
            Ok(Template(pieces)) => format!("{pieces:?}").replace("Text(", "("),
            Err(errors) => errors.iter().map(|e| format!("{:?} {}", e.at, e.message)).collect::<Vec<_>>().join("; "),
        }
    }

    #[test]
    fn placeholders_and_braces() {
        assert_eq!(shown("a {offending} b", true), r#"[("a "), Offending, (" b")]"#);
        assert_eq!(shown("{found}{wanted}", true), "[Found, Wanted]");
        assert_eq!(shown("a {{x}} b", false), r#"[("a {x} b")]"#);
        assert_eq!(shown("", false), "[]");
        assert!(shown("isolcpus={plan.hot}", false).contains("plan.hot"));
    }

    #[test]
    fn a_template_prints_as_it_is_read() {
        let text = "a {{x}} {found} of {plan.hot}, {offending}{wanted}";
        let printed = parse(text, true).map(|template| template.to_string());
        assert_eq!(printed.as_deref(), Ok("a {x} {found} of {plan.hot}, {offending}{wanted}"));
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        assert_eq!(shown("{offendin}", true), "0..10 placeholder {offendin} does not exist");
        assert_eq!(shown("a {found}", false), "2..9 placeholder {found} does not exist");
        assert_eq!(shown("{cpu.online}", true), "0..12 placeholder {cpu.online} does not exist");
        assert_eq!(shown("a { b", true), "2..3 a brace without its other half");
        assert_eq!(
            shown("a } b {x}", true),
            "2..3 a brace without its other half; 6..9 placeholder {x} does not exist"
        );
    }
}
