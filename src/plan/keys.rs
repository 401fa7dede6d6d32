//! The keys that a plan may have.

use serde_json::{Value, json};

use crate::cpuset::MAX_CPU;
use crate::schema::{self, Key};

/// The keys, in the order in which they are written.
pub(super) const KEYS: &[Key] = &[
    Key::may("nic", interface, "the interface that the hot path serves"),
    Key::may("realtime", schema::flag, "do hot threads run under SCHED_FIFO, SCHED_RR or SCHED_DEADLINE?"),
    Key::may("locked-memory", size, "what the process will lock: \"1GiB\""),
    Key::may("max-wakeup-latency", quantity, "the deepest idle state allowed on hot CPUs: \"2us\""),
    Key::may("idle", cpus, "siblings left idle; else as the topology shows them"),
    Key::may("housekeeping", cpus, "the CPUs that do everything else; else all the rest"),
    Key::may("require", schema::texts, "ids of rules that this plan raises to required"),
    Key::may("skip", skipped, "ids of rules that this plan drops: a list, or a table of ids and reasons"),
    Key::must("hot", hot, "the hot roles, each with its CPU or a list of them"),
    Key::may("cold", roles, "the cold roles, which may share CPUs"),
];

/// Is it one of the keys of a plan, and hence no role?
pub(super) fn is_key(name: &str) -> bool {
    KEYS.iter().any(|key| key.name == name)
}

/// The JSON Schema (draft 2020-12) of plans. It refuses nothing that is a plan; what it cannot tell is whether sets overlap
/// and ranges run forwards, which `quietcore plan check` does.
pub fn json_schema() -> Value {
    schema::document("a plan of quietcore", schema::table(KEYS))
}

fn interface() -> Value {
    json!({ "type": "string", "pattern": r"^[^/: \t\n\r\f]{1,15}$" })
}

fn quantity() -> Value {
    json!({ "type": "string", "pattern": r"^\s*[0-9]+\s*\S*\s*$" })
}

fn size() -> Value {
    json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, quantity()] })
}

/// A CPU, or a kernel list that may be empty: `8`, `2-5`, `2-20:1/2`.
fn cpus() -> Value {
    json!({ "anyOf": [cpu(), { "type": "string", "pattern": "^[-0-9,:/ ]*$" }] })
}

fn cpu() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": MAX_CPU })
}

/// Roles by their names, none of which is a key of the plan; each has a CPU at least.
fn roles() -> Value {
    let some = json!({ "anyOf": [cpu(), { "type": "string", "pattern": "^[-0-9,:/ ]*[0-9][-0-9,:/ ]*$" }] });
    let taken: Vec<&str> = schema::names(KEYS);
    json!({
        "type": "object",
        "additionalProperties": some,
        "propertyNames": { "minLength": 1, "not": { "enum": taken } },
    })
}

/// Ids of rules, or a table with a reason for each.
fn skipped() -> Value {
    json!({ "anyOf": [schema::texts(), { "type": "object", "additionalProperties": schema::text() }] })
}

fn hot() -> Value {
    let mut hot = roles();
    schema::extend(&mut hot, json!({ "minProperties": 1 }));
    hot
}
