//! Rules: policy as data, checked completely before any host is looked at.
//!
//! A rule is one TOML file. `file` takes it apart, `expr` reads operands, `check` holds it against the vocabulary of
//! facts and their types, and what comes out is a [`Rule`]: every name in it exists and every verb fits its operands, so
//! that a misspelt name and a setting that the host does not expose can never be mistaken for each other.

use crate::fact::{Fact, Value};

pub mod builtin;
mod check;
mod expr;
mod file;
mod keys;
pub mod pack;
mod set;
mod template;
mod words;

pub use check::parse;
pub use expr::{Expr, SetOp};
pub use keys::json_schema;
pub use set::{LoadErrors, RuleSet, load_folder as lint_folder};
pub use template::{Piece, Template};

/// The schema of rule files that this version reads.
pub const SCHEMA: i64 = 1;

/// Does a failure of the rule decide the exit code?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// It does.
    Required,
    /// It is reported and lets pass.
    Advised,
    /// It is told: nothing is wrong with the host.
    Info,
}

impl Level {
    /// As rule files and machine formats write it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Required => "required",
            Level::Advised => "advised",
            Level::Info => "info",
        }
    }
}

/// What a rule says of a host that its condition does not hold for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// The rule does not apply.
    NotApplicable,
    /// The rule holds: there is nothing that could go wrong.
    Pass,
}

/// When a rule applies.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// A fact of the plan: a flag that must be true, or a value that must be set.
    pub fact: &'static Fact,
    /// What the rule says where it is not.
    pub otherwise: Otherwise,
}

/// What an entry makes of a fact that the host does not expose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It cannot be judged.
    Unknown,
    /// It does not hold.
    Fail,
    /// It holds.
    Pass,
    /// A CPU set on the right side that is not exposed is the empty set. A subject never is: nothing passes on nothing.
    Empty,
}

/// The right side of `at-least` and `at-most`.
#[derive(Clone, Debug)]
pub enum Amount {
    /// Written in the rule.
    Literal(Value),
    /// A fact.
    Operand(Expr),
}

/// What an entry asks of its subject.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Every CPU of the subject is in the set.
    Within(Expr),
    /// No CPU of the subject is in the set.
    Avoids(Expr),
    /// The value is this one.
    Is(Value),
    /// The value is another one.
    IsNot(Value),
    /// The value is one of these.
    OneOf(Vec<Value>),
    /// The word is among the words.
    Includes(String),
    /// The word is not among the words.
    Excludes(String),
    /// The value is this much or more.
    AtLeast(Amount),
    /// The value is this much or less.
    AtMost(Amount),
}

/// One `[[assert]]` or `[[any]]` entry.
#[derive(Clone, Debug)]
pub struct Assertion {
    /// The subject.
    pub that: Expr,
    /// What is asked of it.
    pub verb: Verb,
    /// What *not exposed* means here.
    pub absent: Absent,
    /// The text of a pass.
    pub holds: Option<Template>,
    /// The text of a failure.
    pub otherwise: Option<Template>,
}

/// How to mend a failure, by how long it lasts.
#[derive(Clone, Debug, Default)]
pub struct Fix {
    /// Now, until the next reboot.
    pub runtime: Option<Template>,
    /// Across reboots, without one.
    pub persistent: Option<Template>,
    /// On the boot line: after a reboot.
    pub boot: Option<Template>,
}

/// A rule, checked.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The stem of its file.
    pub id: String,
    /// The good condition, in the present tense.
    pub title: String,
    /// The pack that it belongs to; none for a rule of the user's own that names none.
    pub pack: Option<&'static str>,
    /// Whether it decides the exit code.
    pub level: Level,
    /// What goes wrong where it does not hold.
    pub why: String,
    /// Who says so.
    pub source: Vec<String>,
    /// Where authorities disagree, and who says what.
    pub differs: Vec<String>,
    /// What to know before believing a verdict: false alarms, and what a pass does not say.
    pub notes: Vec<String>,
    /// When it applies; always where there is none.
    pub when: Option<Condition>,
    /// Entries that must all hold.
    pub assert: Vec<Assertion>,
    /// Entries of which one must hold; none, or at least two.
    pub any: Vec<Assertion>,
    /// How to mend a failure.
    pub fix: Fix,
    /// The text of its file.
    pub text: String,
    /// Where that file is; none for a rule that is built in.
    pub origin: Option<String>,
}

impl Rule {
    /// All facts that its entries name.
    pub fn facts(&self) -> Vec<&'static Fact> {
        let mut facts = Vec::new();
        for entry in self.assert.iter().chain(&self.any) {
            entry.facts(&mut facts);
        }
        facts
    }

    /// Does an entry read the fact?
    pub fn reads(&self, name: &str) -> bool {
        self.facts().iter().any(|fact| fact.name == name)
    }
}

impl Assertion {
    /// Adds the facts that the entry names.
    pub fn facts(&self, into: &mut Vec<&'static Fact>) {
        self.that.facts(into);
        match &self.verb {
            Verb::Within(right)
            | Verb::Avoids(right)
            | Verb::AtLeast(Amount::Operand(right))
            | Verb::AtMost(Amount::Operand(right)) => right.facts(into),
            _ => {}
        }
    }
}
