//! TOML with the place of everything in it, taken key by key, so that every mistake in a file is reported at once.
//!
//! Serde stops at the first unknown key or wrong type. Here a reader takes the keys that it knows, each with its type;
//! what does not fit becomes a [`Problem`] and the reading goes on; [`Table::finish`] reports the keys that nobody took.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use thiserror::Error;
use toml::de::{DeTable, DeValue};
use toml::value::Datetime;

use crate::problem::{FileProblems, Problem, did_you_mean};

/// The longest text that is read from a plan, rule or waiver file, in bytes: a thousand times what people write.
const MAX_BYTES: u64 = 1 << 20;

/// A value and the bytes of the text that it was read from. A string's span includes its quotes.
#[derive(Clone, Debug, PartialEq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Bytes from the start of the text.
    pub span: Range<usize>,
}

impl<T> Spanned<T> {
    /// The same place with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned { value: f(self.value), span: self.span }
    }
}

/// A TOML value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string of any kind, escapes resolved.
    String(String),
    /// An integer of any base that fits.
    Integer(i64),
    /// A float. Nothing here is one, so that its value is not kept.
    Float,
    /// `true` or `false`.
    Bool(bool),
    /// A date, a time or both.
    Date(Datetime),
    /// An array, of tables too.
    Array(Vec<Spanned<Value>>),
    /// A table, inline or with a header.
    Table(Table),
}

impl Value {
    /// The type with its article, as messages name it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::String(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float => "a float",
            Value::Bool(_) => "a boolean",
            Value::Date(_) => "a date",
            Value::Array(_) => "an array",
            Value::Table(_) => "a table",
        }
    }
}

/// A table whose keys are taken one by one.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    // In the order of the text.
    entries: Vec<(Spanned<String>, Spanned<Value>)>,
    header: Range<usize>,
}

/// Parses a TOML text.
///
/// A text that is not TOML gives a problem for each place where it is not, and no table. A key that is given twice is a
/// problem too, but the rest of the text can still be judged: the table then has the first value.
pub fn parse(text: &str, problems: &mut Vec<Problem>) -> Option<Table> {
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut is_toml = true;
    for error in errors {
        // The parser has no place for what is missing at the end of the text.
        let span = error.span().unwrap_or(text.len()..text.len());
        if error.message() == "duplicate key" {
            let key = text.get(span.clone()).unwrap_or_default();
            let message = format!("`{key}` is given twice");
            problems.push(Problem::new(span, message, "already in this table").help("keep one of them"));
        } else {
            is_toml = false;
            let problem = Problem::new(span, format!("not TOML: {}", error.message()), "here");
            problems.push(problem.help("write `key = value` lines, strings in quotes, tables as [name]"));
        }
    }
    if !is_toml {
        return None;
    }
    Some(Table::from_toml(root.into_inner(), 0..0, problems))
}

/// Why a file that the user named could not be used.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It could not be read, is too large, or is not text.
    #[error("failed to read {name}: {cause}")]
    Read {
        /// The path as the user gave it.
        name: String,
        /// What the operating system said, or what is wrong with the bytes.
        cause: io::Error,
    },
    /// It was read, and there are mistakes in it.
    #[error(transparent)]
    Problems(#[from] FileProblems),
}

/// Reads a file that a user wrote, a mebibyte of UTF-8 at most, and hands its name and text to `parse`.
pub fn load<T>(path: &Path, parse: impl FnOnce(&str, &str) -> Result<T, FileProblems>) -> Result<T, LoadError> {
    let name = path.display().to_string();
    match read(path) {
        Ok(text) => Ok(parse(&name, &text)?),
        Err(cause) => Err(LoadError::Read { name, cause }),
    }
}

fn read(path: &Path) -> io::Result<String> {
    // Without waiting: a FIFO that nobody writes to would never open.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("not UTF-8 text from byte {byte} on"))
    })
}

impl Table {
    fn from_toml(table: DeTable<'_>, header: Range<usize>, problems: &mut Vec<Problem>) -> Self {
        let mut entries: Vec<_> = table
            .into_iter()
            .map(|(key, value)| {
                let key = Spanned { span: key.span(), value: key.into_inner().into_owned() };
                (key, from_toml(value, problems))
            })
            .collect();
        entries.sort_by_key(|(key, _)| key.span.start);
        Self { entries, header }
    }

    /// Where the table begins: its header, its braces, or the start of the text for the outermost one.
    pub fn header(&self) -> Range<usize> {
        self.header.clone()
    }

    /// Is the key there, and not taken yet?
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(name, _)| name.value == key)
    }

    /// The keys that are not taken yet, in the order of the text.
    pub fn keys(&self) -> impl Iterator<Item = &Spanned<String>> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// Is there no key left?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Everything that is not taken yet, for tables whose keys are names of the user's own.
    pub fn into_entries(self) -> Vec<(Spanned<String>, Spanned<Value>)> {
        self.entries
    }

    /// Reports each of the keys that is not there, pointing at the table's header. To be asked before they are taken.
    pub fn require(&self, keys: &[&str], problems: &mut Vec<Problem>) {
        for key in keys.iter().filter(|key| !self.has(key)) {
            let message = format!("`{key}` is missing");
            problems.push(Problem::new(self.header(), message, "not in this table").help(format!("add `{key} = …`")));
        }
    }

    /// Takes a key with whatever value it has.
    pub fn take_value(&mut self, key: &str) -> Option<Spanned<Value>> {
        let at = self.entries.iter().position(|(name, _)| name.value == key)?;
        Some(self.entries.remove(at).1)
    }

    /// Takes a key that holds a string.
    pub fn take_string(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<Spanned<String>> {
        let value = self.take_value(key)?;
        expect(value, "a string", problems, |value| match value {
            Value::String(string) => Ok(string),
            other => Err(other),
        })
    }

    /// Takes a key that holds `true` or `false`.
    pub fn take_bool(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<Spanned<bool>> {
        let value = self.take_value(key)?;
        expect(value, "a boolean", problems, |value| match value {
            Value::Bool(yes) => Ok(yes),
            other => Err(other),
        })
    }

    /// Takes a key that holds an integer.
    pub fn take_integer(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<Spanned<i64>> {
        let value = self.take_value(key)?;
        expect(value, "an integer", problems, |value| match value {
            Value::Integer(integer) => Ok(integer),
            other => Err(other),
        })
    }

    /// Takes a key that holds a date, without quotes.
    pub fn take_date(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<Spanned<Datetime>> {
        let value = self.take_value(key)?;
        expect(value, "a date", problems, |value| match value {
            Value::Date(date) => Ok(date),
            other => Err(other),
        })
    }

    /// Takes a key that holds an array of strings; the items that are none are reported and left out.
    pub fn take_strings(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<Spanned<Vec<Spanned<String>>>> {
        let array = self.take_array(key, "an array of strings", problems)?;
        Some(array.map(|items| {
            let string = |item| {
                expect(item, "a string", problems, |value| match value {
                    Value::String(string) => Ok(string),
                    other => Err(other),
                })
            };
            items.into_iter().filter_map(string).collect()
        }))
    }

    /// Takes a key that holds a table.
    pub fn take_table(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<Table> {
        table(self.take_value(key)?, problems)
    }

    /// Takes a key that holds an array of tables (`[[key]]`); none when the key is not there.
    pub fn take_tables(&mut self, key: &str, problems: &mut Vec<Problem>) -> Vec<Table> {
        let wanted = format!("an array of tables, `[[{key}]]`");
        let Some(array) = self.take_array(key, &wanted, problems) else { return Vec::new() };
        array.value.into_iter().filter_map(|item| table(item, problems)).collect()
    }

    fn take_array(
        &mut self,
        key: &str,
        wanted: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<Spanned<Vec<Spanned<Value>>>> {
        let value = self.take_value(key)?;
        expect(value, wanted, problems, |value| match value {
            Value::Array(items) => Ok(items),
            other => Err(other),
        })
    }

    /// Reports every key that was not taken; `known` are the keys that this table may have.
    pub fn finish(self, known: &[&str], problems: &mut Vec<Problem>) {
        for (key, _) in self.entries {
            let help = match did_you_mean(&key.value, known.iter().copied()) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("the keys here are {}", known.join(", ")),
            };
            problems.push(Problem::new(key.span, format!("unknown key `{}`", key.value), "no such key").help(help));
        }
    }
}

fn table(value: Spanned<Value>, problems: &mut Vec<Problem>) -> Option<Table> {
    let table = expect(value, "a table", problems, |value| match value {
        Value::Table(table) => Ok(table),
        other => Err(other),
    })?;
    Some(table.value)
}

/// The value as the wanted type; otherwise a problem that names both types.
fn expect<T>(
    value: Spanned<Value>,
    wanted: &str,
    problems: &mut Vec<Problem>,
    convert: impl FnOnce(Value) -> Result<T, Value>,
) -> Option<Spanned<T>> {
    match convert(value.value) {
        Ok(converted) => Some(Spanned { value: converted, span: value.span }),
        Err(other) => {
            problems.push(wrong_type(value.span, wanted, &other));
            None
        }
    }
}

/// The problem of a value that has the wrong type.
pub fn wrong_type(span: Range<usize>, wanted: &str, found: &Value) -> Problem {
    Problem::new(
        span,
        format!("expected {wanted}, found {}", found.type_name()),
        format!("this is {}", found.type_name()),
    )
    .help(format!("write {wanted} here"))
}

fn from_toml(value: toml::Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Spanned<Value> {
    let span = value.span();
    let value = match value.into_inner() {
        DeValue::String(string) => Value::String(string.into_owned()),
        DeValue::Integer(integer) => {
            Value::Integer(i64::from_str_radix(integer.as_str(), integer.radix()).unwrap_or_else(|_| {
                problems.push(Problem::new(span.clone(), "an integer beyond 64 bits", "too large"));
                0
            }))
        }
        DeValue::Float(_) => Value::Float,
        DeValue::Boolean(yes) => Value::Bool(yes),
        DeValue::Datetime(date) => Value::Date(date),
        DeValue::Array(items) => Value::Array(items.into_iter().map(|item| from_toml(item, problems)).collect()),
        DeValue::Table(table) => Value::Table(Table::from_toml(table, span.clone(), problems)),
    };
    Spanned { value, span }
}

/// Where a part of a string value stands in the text.
///
/// Exact when the source between the quotes is the value (a one-line string without escapes), else the whole value.
pub fn inner(text: &str, value: Range<usize>, part: Range<usize>) -> Range<usize> {
    let Some(source) = text.get(value.clone()) else { return value };
    let is_multi_line = source.len() >= 6 && (source.starts_with("\"\"\"") || source.starts_with("'''"));
    let between_quotes = match source.as_bytes() {
        [b'\'', .., b'\''] => source.get(1..source.len() - 1),
        [b'"', .., b'"'] => source.get(1..source.len() - 1).filter(|between| !between.contains('\\')),
        _ => None,
    };
    match between_quotes {
        Some(between) if !is_multi_line && between.get(part.clone()).is_some() => {
            let start = value.start + 1;
            start + part.start..start + part.end
        }
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_of(text: &str) -> Table {
        let mut problems = Vec::new();
        let table = parse(text, &mut problems);
        assert_eq!(problems, []);
        table.unwrap()
    }

    fn messages(problems: &[Problem]) -> Vec<&str> {
        problems.iter().map(|problem| problem.message.as_str()).collect()
    }

    #[test]
    fn values_come_with_their_places() {
        let text = "a = \"x\"\nb = true\nc = 0x1f\nd = 2027-03-31\ne = [\"y\", 'z']\n";
        let (mut table, mut problems) = (table_of(text), Vec::new());
        assert_eq!(table.take_string("a", &mut problems), Some(Spanned { value: "x".into(), span: 4..7 }));
        assert!(table.take_bool("b", &mut problems).unwrap().value);
        assert_eq!(table.take_integer("c", &mut problems).unwrap().value, 31);
        assert_eq!(table.take_date("d", &mut problems).unwrap().value.to_string(), "2027-03-31");
        let strings = table.take_strings("e", &mut problems).unwrap();
        let texts: Vec<&str> = strings.value.iter().map(|item| &text[item.span.clone()]).collect();
        assert_eq!(texts, ["\"y\"", "'z'"]);
        assert_eq!(table.take_string("f", &mut problems), None);
        table.finish(&[], &mut problems);
        assert_eq!(problems, []);
    }

    #[test]
    fn every_wrong_type_and_unknown_key_is_reported() {
        let text = "a = 1\nb = \"true\"\nc = [\"x\", 2]\n[d]\ne = 1.5\n[[f]]\n";
        let (mut table, mut problems) = (table_of(text), Vec::new());
        table.require(&["a", "z"], &mut problems);
        assert_eq!(table.take_string("a", &mut problems), None);
        assert_eq!(table.take_bool("b", &mut problems), None);
        assert_eq!(table.take_strings("c", &mut problems).unwrap().value.len(), 1);
        assert_eq!(table.take_tables("d", &mut problems), []);
        assert_eq!(table.take_table("f", &mut problems), None);
        assert_eq!(
            messages(&problems),
            [
                "`z` is missing",
                "expected a string, found an integer",
                "expected a boolean, found a string",
                "expected a string, found an integer",
                "expected an array of tables, `[[d]]`, found a table",
                "expected a table, found an array",
            ]
        );
        assert_eq!(problems[0].span, 0..0);
        assert_eq!(&text[problems[3].span.clone()], "2");
    }

    #[test]
    fn unknown_keys_are_reported_where_they_stand() {
        let (table, mut problems) = (table_of("housekeping = 1\n\"\" = 2\nx.y = 3\n"), Vec::new());
        table.finish(&["housekeeping", "idle"], &mut problems);
        assert_eq!(messages(&problems), ["unknown key `housekeping`", "unknown key ``", "unknown key `x`"]);
        assert_eq!(problems[0].help.as_deref(), Some("did you mean `housekeeping`?"));
        assert_eq!(problems[1].help.as_deref(), Some("the keys here are housekeeping, idle"));
        assert_eq!(problems.iter().map(|p| p.span.clone()).collect::<Vec<_>>(), [0..11, 16..18, 23..24]);
    }

    #[test]
    fn tables_come_in_the_order_of_the_text() {
        let (mut table, mut problems) = (table_of("[[x]]\nz = 1\na = 2\n[[x]]\n[y]\nk = 1\n"), Vec::new());
        let tables = table.take_tables("x", &mut problems);
        assert_eq!(tables[0].keys().map(|key| key.value.as_str()).collect::<Vec<_>>(), ["z", "a"]);
        assert_eq!(tables.iter().map(Table::header).collect::<Vec<_>>(), [0..5, 18..23]);
        assert_eq!(table.take_table("y", &mut problems).unwrap().header(), 24..27);
        assert_eq!(problems, []);
    }

    #[test]
    fn a_text_that_is_not_toml_has_a_place() {
        for (text, at) in [("[hot\n", 4), ("a = \n", 4), ("a = \"x\n", 4), ("= 1", 0), ("a", 1), ("a = 1 b = 2", 6)] {
            let mut problems = Vec::new();
            assert_eq!(parse(text, &mut problems), None, "{text}");
            assert!(problems[0].span.start.abs_diff(at) <= 2, "{text}: {problems:?}");
            assert!(problems[0].message.starts_with("not TOML: "), "{problems:?}");
        }
    }

    #[test]
    fn a_key_given_twice_leaves_the_rest_to_be_judged() {
        let mut problems = Vec::new();
        let mut table = parse("a = 1\na = 2\nb = 3\n[t]\n[t]\nx = 1\n", &mut problems).unwrap();
        assert_eq!(messages(&problems), ["`a` is given twice", "`t` is given twice"]);
        assert_eq!(problems[0].span, 6..7);
        assert_eq!(table.take_integer("a", &mut problems).unwrap().value, 1);
        assert!(table.has("b") && table.take_table("t", &mut problems).unwrap().has("x"));
    }

    #[test]
    fn integers_beyond_64_bits_are_problems() {
        let mut problems = Vec::new();
        parse("a = 99999999999999999999\n", &mut problems);
        assert_eq!(problems[0].span, 4..24);
    }

    #[test]
    fn files_that_are_no_text_are_refused_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let load_bytes = |bytes: &[u8]| {
            let path = dir.path().join("x.toml");
            std::fs::write(&path, bytes).unwrap();
            load(&path, |_, text| Ok(text.len())).map_err(|error| error.to_string())
        };
        assert_eq!(load_bytes(b"a = 1"), Ok(5));
        assert!(load_bytes(b"a = \xff").unwrap_err().ends_with("x.toml: not UTF-8 text from byte 4 on"));
        assert!(load_bytes(&vec![b'#'; 2 << 20]).unwrap_err().ends_with("x.toml: larger than 1 MiB"));
        let error = load(&dir.path().join("nowhere.toml"), |_, _| Ok(())).unwrap_err().to_string();
        assert!(error.starts_with("failed to read ") && error.contains("nowhere.toml: No such file"), "{error}");
    }

    #[test]
    fn hostile_texts_end() {
        let deep = format!("a = {}", "[".repeat(100_000));
        let dotted = format!("{}z = 1", "a.".repeat(100_000));
        let twice = "a = 1\n".repeat(10_000);
        for text in [deep.as_str(), &dotted, &twice, "\0", "\u{feff}a = 1", "a = \"\\ud800\""] {
            let mut problems = Vec::new();
            let table = parse(text, &mut problems);
            assert!(table.is_some() || !problems.is_empty());
        }
    }

    #[test]
    fn a_part_of_a_string_is_found_where_it_stands() {
        let text = r#"a = "x & y" b = "x \u0026 y" c = '\x' d = "" e = """xy""""#;
        let span = |source: &str| {
            let start = text.find(source).unwrap();
            start..start + source.len()
        };
        assert_eq!(&text[inner(text, span("\"x & y\""), 4..5)], "y");
        assert_eq!(inner(text, span("\"x \\u0026 y\""), 4..5), span("\"x \\u0026 y\""));
        assert_eq!(&text[inner(text, span("'\\x'"), 1..2)], "x");
        assert_eq!(inner(text, 42..44, 0..0), 43..43);
        assert_eq!(inner(text, span("\"\"\"xy\"\"\""), 0..1), span("\"\"\"xy\"\"\""));
        assert_eq!(inner(text, span("\"x & y\""), 0..99), span("\"x & y\""));
        assert_eq!(inner(text, 500..600, 0..1), 500..600);
    }
}
