//! Tables of the keys that a TOML file may have. A reader takes from them which keys there are, and the JSON Schema that
//! editors check a file with is made from them, so that neither can know a key that the other does not.

use serde_json::{Map, Value, json};

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Must it be there?
    pub is_required: bool,
    /// What its value looks like.
    pub shape: fn() -> Value,
    /// What an editor says of it.
    pub about: &'static str,
}

impl Key {
    /// A key that must be there.
    pub const fn must(name: &'static str, shape: fn() -> Value, about: &'static str) -> Self {
        Self { name, is_required: true, shape, about }
    }

    /// A key that may be left out.
    pub const fn may(name: &'static str, shape: fn() -> Value, about: &'static str) -> Self {
        Self { name, is_required: false, shape, about }
    }
}

/// The names of the keys, in order.
pub fn names(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().map(|key| key.name).collect()
}

/// The names of those that must be there.
pub fn required(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().filter(|key| key.is_required).map(|key| key.name).collect()
}

/// The schema of a whole file: that of its outermost table, with a title.
pub fn document(title: &str, table: Value) -> Value {
    let mut document = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "title": title });
    extend(&mut document, table);
    document
}

/// The schema of a table with these keys and no others.
pub fn table(keys: &[Key]) -> Value {
    let property = |key: &Key| {
        let mut shape = (key.shape)();
        extend(&mut shape, json!({ "description": key.about }));
        (key.name.to_owned(), shape)
    };
    json!({
        "type": "object",
        "properties": keys.iter().map(property).collect::<Map<String, Value>>(),
        "required": required(keys),
        "additionalProperties": false,
    })
}

/// Adds the members of an object to another one.
pub fn extend(object: &mut Value, more: Value) {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
}

/// A text that is not blank.
pub fn text() -> Value {
    json!({ "type": "string", "pattern": r"\S" })
}

/// Texts.
pub fn texts() -> Value {
    json!({ "type": "array", "items": text() })
}

/// `true` or `false`.
pub fn flag() -> Value {
    json!({ "type": "boolean" })
}

/// One of some words.
pub fn word_of<T>(words: &[(&str, T)]) -> Value {
    json!({ "enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>() })
}
