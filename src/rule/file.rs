//! What a rule file may contain, as it stands there: keys with their places, nothing looked up yet.

use std::ops::Range;

use super::keys::{self, VERBS};
use crate::doc::{self, Spanned, Table, Value};
use crate::problem::Problem;
use crate::schema;

/// A rule file, taken apart.
pub(super) struct RuleFile {
    pub(super) schema: Option<Spanned<i64>>,
    pub(super) id: Option<Spanned<String>>,
    pub(super) title: Option<Spanned<String>>,
    pub(super) level: Option<Spanned<String>>,
    pub(super) pack: Option<Spanned<String>>,
    pub(super) why: Option<Spanned<String>>,
    pub(super) source: Vec<Spanned<String>>,
    pub(super) differs: Vec<Spanned<String>>,
    pub(super) notes: Vec<Spanned<String>>,
    pub(super) when: Option<Spanned<String>>,
    pub(super) otherwise: Option<Spanned<String>>,
    pub(super) fix: FixTable,
    /// Is there an entry at all, even one that could not be read?
    pub(super) has_entries: bool,
    pub(super) assert: Vec<Entry>,
    pub(super) any: Vec<Entry>,
}

/// The `[fix]` table.
#[derive(Default)]
pub(super) struct FixTable {
    pub(super) runtime: Option<Spanned<String>>,
    pub(super) persistent: Option<Spanned<String>>,
    pub(super) boot: Option<Spanned<String>>,
}

/// An `[[assert]]` or `[[any]]` entry.
pub(super) struct Entry {
    pub(super) header: Range<usize>,
    pub(super) that: Option<Spanned<String>>,
    pub(super) verbs: Vec<(&'static str, Spanned<Value>)>,
    pub(super) absent: Option<Spanned<String>>,
    pub(super) holds: Option<Spanned<String>>,
    pub(super) otherwise: Option<Spanned<String>>,
}

/// Takes a rule file apart. Wrong types, unknown and missing keys are problems; what could be read is returned.
pub(super) fn parse(text: &str, problems: &mut Vec<Problem>) -> Option<RuleFile> {
    let mut table = doc::parse(text, problems)?;
    let has_entries = table.has("assert") || table.has("any");
    table.require(&schema::required(keys::RULE), problems);
    let mut texts = |key: &str| table.take_strings(key, problems).map(|texts| texts.value).unwrap_or_default();
    let (source, differs, notes) = (texts("source"), texts("differs"), texts("notes"));
    let file = RuleFile {
        has_entries,
        schema: table.take_integer("schema", problems),
        id: table.take_string("id", problems),
        title: table.take_string("title", problems),
        level: table.take_string("level", problems),
        pack: table.take_string("pack", problems),
        why: table.take_string("why", problems),
        source,
        differs,
        notes,
        when: table.take_string("when", problems),
        otherwise: table.take_string("otherwise", problems),
        fix: table.take_table("fix", problems).map(|fix| fix_table(fix, problems)).unwrap_or_default(),
        assert: entries(&mut table, "assert", problems),
        any: entries(&mut table, "any", problems),
    };
    table.finish(&schema::names(keys::RULE), problems);
    Some(file)
}

fn fix_table(mut table: Table, problems: &mut Vec<Problem>) -> FixTable {
    let fix = FixTable {
        runtime: table.take_string("runtime", problems),
        persistent: table.take_string("persistent", problems),
        boot: table.take_string("boot", problems),
    };
    table.finish(&schema::names(keys::FIX), problems);
    fix
}

fn entries(table: &mut Table, key: &str, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let tables = table.take_tables(key, problems);
    tables.into_iter().map(|table| entry(table, problems)).collect()
}

fn entry(mut table: Table, problems: &mut Vec<Problem>) -> Entry {
    let keys = keys::of_entry();
    table.require(&schema::required(&keys), problems);
    let header = table.header();
    let that = table.take_string("that", problems);
    let verbs = VERBS.iter().filter_map(|verb| Some((verb.name, table.take_value(verb.name)?))).collect();
    let absent = table.take_string("absent", problems);
    let holds = table.take_string("holds", problems);
    let otherwise = table.take_string("else", problems);
    table.finish(&schema::names(&keys), problems);
    Entry { header, that, verbs, absent, holds, otherwise }
}
