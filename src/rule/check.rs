//! A rule file held against the vocabulary: every problem at once, or a [`Rule`].

use std::ops::Range;

use super::file::{self, Entry, FixTable, RuleFile};
use super::keys::{self, ABSENT, LEVELS, OTHERWISE, VERBS};
use super::{Absent, Amount, Assertion, Condition, Expr, Fix, Level, Otherwise, Rule, SCHEMA, Template, Verb};
use super::{expr, pack, template};
use crate::doc::{self, Spanned, Value as Toml, wrong_type};
use crate::fact::{Kind, Type, Value};
use crate::problem::{FileProblems, Problem, did_you_mean};
use crate::schema;
use crate::units::{Bytes, Micros, UnitError};

/// Reads and checks the text of a rule file called `name`, whose stem is `stem`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(name: &str, stem: &str, text: &str, origin: Option<&str>) -> Result<Rule, FileProblems> {
    let mut check = Check { text, problems: Vec::new() };
    let rule = file::parse(text, &mut check.problems).map(|file| check.rule(file, stem, origin));
    FileProblems::unless_empty(name, text, check.problems)?;
    rule.ok_or_else(|| {
        let problem = Problem::new(0..0, "not a rule", "here");
        FileProblems { name: name.to_owned(), text: text.to_owned(), problems: vec![problem] }
    })
}

struct Check<'t> {
    text: &'t str,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn problem(&mut self, span: Range<usize>, message: impl Into<String>, label: &str, help: impl Into<String>) {
        self.problems.push(Problem::new(span, message, label).help(help));
    }

    fn rule(&mut self, file: RuleFile, stem: &str, origin: Option<&str>) -> Rule {
        self.schema(file.schema.as_ref());
        self.id(file.id.as_ref(), stem);
        let when = self.when(file.when.as_ref(), file.otherwise.as_ref());
        let level = file.level.and_then(|level| self.word_of(&level, "level", LEVELS)).unwrap_or(Level::Required);
        if !file.has_entries {
            let help = "add an [[assert]] entry: a rule that asserts nothing passes everywhere";
            self.problem(0..0, "the rule has no [[assert]] and no [[any]]", "asserts nothing", help);
        }
        if let [only] = file.any.as_slice() {
            let help = "make it an [[assert]], or add the other [[any]]";
            self.problem(only.header.clone(), "a single [[any]]", "one of one must hold", help);
        }
        Rule {
            id: stem.to_owned(),
            title: self.text_of(file.title, "title"),
            pack: file.pack.and_then(|name| self.pack(&name)),
            level,
            why: self.text_of(file.why, "why"),
            source: self.texts_of(file.source, "source"),
            differs: self.texts_of(file.differs, "differs"),
            notes: self.texts_of(file.notes, "notes"),
            when,
            assert: file.assert.into_iter().filter_map(|entry| self.entry(entry)).collect(),
            any: file.any.into_iter().filter_map(|entry| self.entry(entry)).collect(),
            fix: self.fix(file.fix),
            text: self.text.to_owned(),
            origin: origin.map(str::to_owned),
        }
    }

    fn schema(&mut self, schema: Option<&Spanned<i64>>) {
        if let Some(schema) = schema.filter(|schema| schema.value != SCHEMA) {
            let message = format!("schema {} is not supported", schema.value);
            self.problem(schema.span.clone(), message, "another schema", format!("this version reads schema {SCHEMA}"));
        }
    }

    fn id(&mut self, id: Option<&Spanned<String>>, stem: &str) {
        if let Some(id) = id.filter(|id| id.value != stem) {
            let message = format!("id `{}` is not the file's stem `{stem}`", id.value);
            self.problem(id.span.clone(), message, "differs from the file name", "rename the file or drop the key");
        }
        let is_well_formed = stem.starts_with(|c: char| c.is_ascii_lowercase())
            && stem.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !is_well_formed {
            let help = "name the file in lowercase letters, digits and underscores";
            self.problem(0..0, format!("`{stem}` is no rule id"), "the file's stem is the id", help);
        }
    }

    fn pack(&mut self, name: &Spanned<String>) -> Option<&'static str> {
        let found = pack::find(&name.value);
        if found.is_none() {
            let message = format!("there is no pack `{}`", name.value);
            self.problem(name.span.clone(), message, "no such pack", pack::hint(&name.value));
        }
        found.map(|pack| pack.name)
    }

    fn text_of(&mut self, value: Option<Spanned<String>>, key: &str) -> String {
        let Some(value) = value else { return String::new() };
        if value.value.trim().is_empty() {
            self.problem(value.span.clone(), format!("`{key}` is empty"), "nothing here", "write one sentence");
        }
        value.value
    }

    fn texts_of(&mut self, values: Vec<Spanned<String>>, key: &str) -> Vec<String> {
        values.into_iter().map(|value| self.text_of(Some(value), key)).collect()
    }

    fn word_of<T: Copy>(&mut self, value: &Spanned<String>, key: &str, words: &[(&str, T)]) -> Option<T> {
        if let Some((_, found)) = words.iter().find(|(word, _)| *word == value.value) {
            return Some(*found);
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let message = format!("`{}` is no value of `{key}`", value.value);
        self.problem(value.span.clone(), message, "no such word", format!("write one of {}", known.join(", ")));
        None
    }

    fn when(&mut self, when: Option<&Spanned<String>>, otherwise: Option<&Spanned<String>>) -> Option<Condition> {
        let stated = otherwise.and_then(|word| self.word_of(word, "otherwise", OTHERWISE));
        let Some(when) = when else {
            if let Some(otherwise) = otherwise {
                let help = "say when the rule applies: when = \"plan.realtime\"";
                self.problem(otherwise.span.clone(), "`otherwise` without `when`", "otherwise than what?", help);
            }
            return None;
        };
        let Some(fact) = keys::conditions().find(|fact| fact.name == when.value) else {
            let known: Vec<&str> = keys::conditions().map(|fact| fact.name).collect();
            let help = match did_you_mean(&when.value, known.iter().copied()) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("write one of {}", known.join(", ")),
            };
            self.problem(
                when.span.clone(),
                format!("`{}` is no condition", when.value),
                "not a setting of the plan",
                help,
            );
            return None;
        };
        Some(Condition { fact, otherwise: stated.unwrap_or(Otherwise::NotApplicable) })
    }

    fn fix(&mut self, fix: FixTable) -> Fix {
        Fix {
            runtime: fix.runtime.and_then(|text| self.template(&text, false)),
            persistent: fix.persistent.and_then(|text| self.template(&text, false)),
            boot: fix.boot.and_then(|text| self.template(&text, false)),
        }
    }

    fn template(&mut self, text: &Spanned<String>, is_of_entry: bool) -> Option<Template> {
        if text.value.trim().is_empty() {
            self.problem(text.span.clone(), "an empty text", "says nothing", "write what to say, or drop the key");
            return None;
        }
        match template::parse(&text.value, is_of_entry) {
            Ok(template) => Some(template),
            Err(errors) => {
                for error in errors {
                    let span = doc::inner(self.text, text.span.clone(), error.at);
                    self.problem(span, error.message, "no such placeholder", error.help);
                }
                None
            }
        }
    }

    fn operand(&mut self, text: &Spanned<String>) -> Option<Expr> {
        if text.value.trim().is_empty() {
            let help = "name a fact: a rule that compares with nothing passes everywhere or nowhere";
            self.problem(text.span.clone(), "an empty operand", "nothing here", help);
            return None;
        }
        match expr::parse(&text.value) {
            Ok(expr) => Some(expr),
            Err(errors) => {
                for error in errors {
                    let span = doc::inner(self.text, text.span.clone(), error.at);
                    self.problem(span, error.message, error.label, error.help);
                }
                None
            }
        }
    }

    fn entry(&mut self, entry: Entry) -> Option<Assertion> {
        let absent =
            entry.absent.and_then(|word| self.word_of(&word, "absent", ABSENT).map(|absent| (absent, word.span)));
        let holds = entry.holds.and_then(|text| self.template(&text, true));
        let otherwise = entry.otherwise.and_then(|text| self.template(&text, true));
        let that = entry.that.and_then(|that| self.operand(&that).map(|expr| Spanned { value: expr, span: that.span }));
        let mut verbs = entry.verbs.into_iter();
        let first = verbs.next();
        for (name, value) in verbs {
            let message = format!("`{name}` is one verb too many");
            self.problem(value.span, message, "one verb an entry", "make it an entry of its own");
        }
        let Some((name, value)) = first else {
            self.problem(
                entry.header,
                "an entry without a verb",
                "asserts nothing",
                format!("add one of {}", schema::names(VERBS).join(", ")),
            );
            return None;
        };
        let Some(that) = that else {
            // The right side is still looked at, for its own mistakes.
            if let (true, Toml::String(text)) = (matches!(name, "within" | "avoids"), value.value) {
                let _ = self.operand(&Spanned { value: text, span: value.span });
            }
            return None;
        };
        let verb = self.verb(name, value, &that)?;
        let stated = absent.as_ref().map_or(Absent::Unknown, |(absent, _)| *absent);
        let assertion = Assertion { that: that.value, verb, absent: stated, holds, otherwise };
        if let Some((Absent::Empty, span)) = absent {
            let has_sets = matches!(assertion.verb, Verb::Within(_) | Verb::Avoids(_));
            if !has_sets {
                let help = "write unknown, fail or pass";
                self.problem(span, "`empty` without a CPU set on the right", "nothing can be empty here", help);
            }
        }
        let mut facts = Vec::new();
        assertion.facts(&mut facts);
        if facts.iter().all(|fact| fact.is_of_plan()) {
            let help = "compare with a fact of the host: what the plan says of itself is the same everywhere";
            self.problem(that.span, "an assertion that reads only the plan", "says nothing of a host", help);
        }
        Some(assertion)
    }

    fn verb(&mut self, name: &'static str, value: Spanned<Toml>, that: &Spanned<Expr>) -> Option<Verb> {
        let ty = that.value.ty();
        let fits = match name {
            "within" | "avoids" => ty.kind == Kind::Cpus,
            "is" | "is-not" | "one-of" => matches!(ty.kind, Kind::Word | Kind::Integer | Kind::Flag),
            "includes" | "excludes" => ty.kind == Kind::Words,
            _ => matches!(ty.kind, Kind::Integer | Kind::Bytes | Kind::Micros | Kind::Words),
        };
        // Of words it is their number that is compared.
        let amount = if ty.kind == Kind::Words { Kind::Integer } else { ty.kind };
        if !fits {
            let message = format!("`{name}` does not fit `{}`, which is {}", that.value, ty.with_article());
            self.problem(
                that.span.clone(),
                message,
                "has another type",
                format!("for it there is {}", verbs_for(ty.kind)),
            );
            return None;
        }
        match name {
            "within" => self.set_operand(value).map(Verb::Within),
            "avoids" => self.set_operand(value).map(Verb::Avoids),
            "is" => self.literal(value, ty.kind).map(Verb::Is),
            "is-not" => self.literal(value, ty.kind).map(Verb::IsNot),
            "one-of" => self.literals(value, ty.kind).map(Verb::OneOf),
            "includes" => self.word(value).map(Verb::Includes),
            "excludes" => self.word(value).map(Verb::Excludes),
            "at-least" => self.amount(value, amount).map(Verb::AtLeast),
            _ => self.amount(value, amount).map(Verb::AtMost),
        }
    }

    fn set_operand(&mut self, value: Spanned<Toml>) -> Option<Expr> {
        let text = self.string(value)?;
        let right = self.operand(&text)?;
        let ty = right.ty();
        if ty == (Type { kind: Kind::Cpus, per: None }) {
            return Some(right);
        }
        let message = format!("`{right}` is {}, not a CPU set", ty.with_article());
        self.problem(text.span, message, "has another type", "compare with a CPU set");
        None
    }

    fn string(&mut self, value: Spanned<Toml>) -> Option<Spanned<String>> {
        match value.value {
            Toml::String(text) => Some(Spanned { value: text, span: value.span }),
            other => {
                self.problems.push(wrong_type(value.span, "a string", &other));
                None
            }
        }
    }

    /// A literal word: one that no value could be equal to is a mistake.
    fn word(&mut self, value: Spanned<Toml>) -> Option<String> {
        let text = self.string(value)?;
        if text.value.is_empty() || text.value.contains(char::is_whitespace) {
            let message = format!("\"{}\" is not one word", text.value);
            self.problem(text.span, message, "no value is ever this", "write one word");
            return None;
        }
        Some(text.value)
    }

    fn literal(&mut self, value: Spanned<Toml>, kind: Kind) -> Option<Value> {
        match (kind, value.value) {
            (Kind::Word, Toml::String(text)) => {
                self.word(Spanned { value: Toml::String(text), span: value.span }).map(Value::Word)
            }
            (Kind::Integer, Toml::Integer(n)) => Some(Value::Integer(n)),
            (Kind::Flag, Toml::Bool(flag)) => Some(Value::Flag(flag)),
            (kind, other) => {
                let wanted = match kind {
                    Kind::Integer => "an integer",
                    Kind::Flag => "a boolean",
                    _ => "a string",
                };
                self.problems.push(wrong_type(value.span, wanted, &other));
                None
            }
        }
    }

    fn literals(&mut self, value: Spanned<Toml>, kind: Kind) -> Option<Vec<Value>> {
        let items = match value.value {
            Toml::Array(items) => items,
            other => {
                self.problems.push(wrong_type(value.span, "an array", &other));
                return None;
            }
        };
        if items.is_empty() {
            self.problem(value.span, "an empty list", "nothing is one of none", "list the values that are right");
            return None;
        }
        let wanted = items.len();
        let literals: Vec<Value> = items.into_iter().filter_map(|item| self.literal(item, kind)).collect();
        (literals.len() == wanted).then_some(literals)
    }

    /// A literal of the subject's kind, or a fact of that kind.
    fn amount(&mut self, value: Spanned<Toml>, kind: Kind) -> Option<Amount> {
        let unit = |error: &UnitError| (error.to_string(), error.help().to_owned());
        let (text, span) = match (kind, value.value) {
            (Kind::Integer, Toml::Integer(n)) => return Some(Amount::Literal(Value::Integer(n))),
            (Kind::Bytes, Toml::Integer(n)) if n >= 0 => {
                return u64::try_from(n).ok().map(|n| Amount::Literal(Value::Bytes(Bytes(n))));
            }
            (_, Toml::String(text)) => (text, value.span),
            (kind, other) => {
                let wanted = match kind {
                    Kind::Integer => "an integer or a fact",
                    Kind::Bytes => "a size such as \"64MiB\" or a fact",
                    _ => "a time such as \"2us\" or a fact",
                };
                self.problems.push(wrong_type(value.span, wanted, &other));
                return None;
            }
        };
        let literal = match kind {
            _ if text.starts_with(|c: char| c.is_ascii_alphabetic()) => None,
            Kind::Bytes => Some(text.parse::<Bytes>().map(Value::Bytes).map_err(|error| unit(&error))),
            Kind::Micros => Some(text.parse::<Micros>().map(Value::Micros).map_err(|error| unit(&error))),
            _ => None,
        };
        match literal {
            Some(Ok(value)) => return Some(Amount::Literal(value)),
            Some(Err((message, help))) => {
                self.problem(span, message, "not understood", help);
                return None;
            }
            None => {}
        }
        let right = self.operand(&Spanned { value: text, span: span.clone() })?;
        let ty = right.ty();
        if ty == (Type { kind, per: None }) {
            return Some(Amount::Operand(right));
        }
        let wanted = Type { kind, per: None }.with_article();
        self.problem(
            span,
            format!("`{right}` is {}, not {wanted}", ty.with_article()),
            "has another type",
            "compare like with like",
        );
        None
    }
}

/// The verbs that a kind has.
fn verbs_for(kind: Kind) -> &'static str {
    match kind {
        Kind::Cpus => "within, avoids",
        Kind::Word | Kind::Flag => "is, is-not, one-of",
        Kind::Words => "includes, excludes, at-least, at-most",
        Kind::Integer => "is, is-not, one-of, at-least, at-most",
        Kind::Bytes | Kind::Micros => "at-least, at-most",
    }
}
