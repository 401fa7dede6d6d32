//! The keys and words that a rule file may have.

use serde_json::{Value, json};

use super::{Absent, Level, Otherwise, SCHEMA, pack};
use crate::fact::{self, Fact, Kind};
use crate::schema::{self, Key};

/// The keys of a rule.
pub(super) const RULE: &[Key] = &[
    Key::must("schema", version, "the schema of rule files"),
    Key::may("id", id, "the stem of the file"),
    Key::must("title", schema::text, "the good condition, in the present tense"),
    Key::must(
        "level",
        || schema::word_of(LEVELS),
        "required: a failure decides the exit code; advised: it is reported; info: it is told, and nothing is wrong",
    ),
    Key::may("pack", a_pack, "the pack that --packs chooses the rule by; without one it is always judged"),
    Key::must("why", schema::text, "what goes wrong where it does not hold"),
    Key::may("source", schema::texts, "who says so"),
    Key::may("differs", schema::texts, "where authorities disagree, and who says what"),
    Key::may("notes", schema::texts, "false alarms, and what a pass does not say"),
    Key::may("when", condition, "the condition: a setting of the plan; a flag must be true, another must be set"),
    Key::may("otherwise", || schema::word_of(OTHERWISE), "the verdict where the condition does not hold"),
    Key::may("fix", || schema::table(FIX), "how to mend a failure"),
    Key::may("assert", || entries(0), "entries that must all hold"),
    Key::may("any", || entries(2), "entries of which one must hold"),
];

/// The keys of `[fix]`.
pub(super) const FIX: &[Key] = &[
    Key::may("runtime", schema::text, "now, until the next reboot"),
    Key::may("persistent", schema::text, "across reboots, without one"),
    Key::may("boot", schema::text, "on the boot line: after a reboot"),
];

/// The subject of an entry.
const SUBJECT: Key = Key::must("that", operand, "the subject: a fact, or CPU sets joined by & | -");

/// The verbs of an entry, of which it has one.
pub(super) const VERBS: &[Key] = &[
    Key::may("within", operand, "every CPU of the subject is in this set"),
    Key::may("avoids", operand, "no CPU of the subject is in this set"),
    Key::may("is", literal, "the value is this one"),
    Key::may("is-not", literal, "the value is another one"),
    Key::may("one-of", literals, "the value is one of these"),
    Key::may("includes", word, "this word is among the words"),
    Key::may("excludes", word, "this word is not among the words"),
    Key::may("at-least", amount, "the value, of words their number, is this much or more"),
    Key::may("at-most", amount, "the value, of words their number, is this much or less"),
];

/// What else an entry may say.
const WORDS: &[Key] = &[
    Key::may("absent", || schema::word_of(ABSENT), "what it means that the host does not expose the fact"),
    Key::may("holds", schema::text, "the text of a pass"),
    Key::may("else", schema::text, "the text of a failure"),
];

/// The keys of an entry.
pub(super) fn of_entry() -> Vec<Key> {
    [&[SUBJECT], VERBS, WORDS].concat()
}

/// The words of `level`.
pub(super) const LEVELS: &[(&str, Level)] =
    &[("required", Level::Required), ("advised", Level::Advised), ("info", Level::Info)];

/// The words of `otherwise`.
pub(super) const OTHERWISE: &[(&str, Otherwise)] =
    &[("not-applicable", Otherwise::NotApplicable), ("pass", Otherwise::Pass)];

/// The words of `absent`.
pub(super) const ABSENT: &[(&str, Absent)] =
    &[("unknown", Absent::Unknown), ("fail", Absent::Fail), ("pass", Absent::Pass), ("empty", Absent::Empty)];

/// The facts that `when` may name.
pub(super) fn conditions() -> impl Iterator<Item = &'static Fact> {
    fact::facts().filter(|fact| fact.is_of_plan() && fact.kind != Kind::Cpus)
}

/// The JSON Schema (draft 2020-12) of rule files. It refuses nothing that is a rule; what it cannot tell is whether types
/// fit and operands and placeholders are right, which `quietcore rules lint` does.
pub fn json_schema() -> Value {
    let mut rule = schema::table(RULE);
    let with_entries = json!({
        "anyOf": [
            { "required": ["assert"], "properties": { "assert": { "minItems": 1 } } },
            { "required": ["any"], "properties": { "any": { "minItems": 1 } } },
        ],
        "dependentRequired": { "otherwise": ["when"] },
        "$defs": { "entry": entry(), "operand": any_operand() },
    });
    schema::extend(&mut rule, with_entries);
    schema::document("a rule of quietcore", rule)
}

fn entries(least: usize) -> Value {
    json!({ "type": "array", "minItems": least, "items": { "$ref": "#/$defs/entry" } })
}

/// An entry: one verb, and `empty` only where there is a set that could be.
fn entry() -> Value {
    let mut entry = schema::table(&of_entry());
    let one_verb = json!({
        "oneOf": VERBS.iter().map(|verb| json!({ "required": [verb.name] })).collect::<Vec<_>>(),
        "if": { "required": ["absent"], "properties": { "absent": { "const": "empty" } } },
        "then": { "anyOf": [{ "required": ["within"] }, { "required": ["avoids"] }] },
    });
    schema::extend(&mut entry, one_verb);
    entry
}

fn version() -> Value {
    json!({ "const": SCHEMA })
}

fn id() -> Value {
    json!({ "type": "string", "pattern": "^[a-z][a-z0-9_]*$" })
}

fn a_pack() -> Value {
    json!({ "enum": pack::names() })
}

fn condition() -> Value {
    json!({ "enum": conditions().map(|fact| fact.name).collect::<Vec<_>>() })
}

fn operand() -> Value {
    json!({ "$ref": "#/$defs/operand" })
}

/// Names of facts between signs. The list of names comes first for the sake of editors, which offer it.
fn any_operand() -> Value {
    let names: Vec<&str> = fact::facts().map(|fact| fact.name).collect();
    let name = names.join("|").replace('.', r"\.");
    let sign = r"[&|()\[\]\s-]";
    let pattern = format!("^{sign}*({name})({sign}+({name}))*{sign}*$");
    json!({ "anyOf": [{ "enum": names }, { "type": "string", "pattern": pattern }] })
}

fn literal() -> Value {
    json!({ "anyOf": [word(), { "type": ["integer", "boolean"] }] })
}

fn literals() -> Value {
    json!({ "type": "array", "minItems": 1, "items": literal() })
}

fn word() -> Value {
    json!({ "type": "string", "pattern": r"^\S+$" })
}

/// A number, a quantity with its unit, or a fact.
fn amount() -> Value {
    json!({ "anyOf": [operand(), { "type": "string", "pattern": r"^\s*[0-9]" }, { "type": "integer" }] })
}
