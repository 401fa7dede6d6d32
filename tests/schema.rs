//! The JSON Schemas of rule files and plans: they take every rule and every plan, and refuse what a schema can refuse.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what cannot go on has failed")]

mod common;

use std::fs;

use boon::{Compiler, SchemaIndex, Schemas};
use common::{fixtures, quietcore};
use quietcore::fact;
use quietcore::plan::{self, Plan};
use quietcore::rule::{self, builtin};
use serde_json::Value;

struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    fn new(schema: Value) -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("schema.json", schema).unwrap();
        // Also holds the schema against the meta-schema of its draft.
        let index = compiler.compile("schema.json", &mut schemas).unwrap();
        Self { schemas, index }
    }

    /// Does it take the text? None where the text is no TOML, so that there is nothing to hold against it.
    fn takes(&self, toml: &str) -> Option<bool> {
        let value: Value = toml::from_str(toml).ok()?;
        Some(self.schemas.validate(&value, self.index).is_ok())
    }
}

/// Files of `bad-rules` that only the program can refuse: types, the grammar of operands beyond their names, placeholders,
/// and the name of the file.
const BEYOND_THE_SCHEMA: &[&str] = &[
    "Not-An-Id",
    "bytes_against_nonsense",
    "bytes_against_time",
    "bytes_below_zero",
    "dangling_operator",
    "deep_parentheses",
    "family_of_words",
    "family_without_cpus",
    "flag_against_word",
    "id_differs_from_stem",
    "index_on_a_set",
    "integer_against_set",
    "integer_against_word",
    "joined_family",
    "joined_word",
    "missing_operator",
    "mixed_list",
    "placeholder",
    "placeholder_of_an_entry_in_fix",
    "placeholder_of_the_host",
    "plan_only",
    "plan_only_amount",
    "set_against_family",
    "set_against_word",
    "time_against_bytes",
    "time_as_integer",
    "time_without_unit",
    "unclosed_brace",
    "unclosed_index",
    "unclosed_parenthesis",
    "verb_against_bytes",
    "verb_against_flag",
    "verb_against_integer",
    "verb_against_line_family",
    "verb_against_set",
    "verb_against_word",
    "verb_against_words",
    "word_against_integer",
];

#[test]
fn rules_are_taken() {
    let schema = Schema::new(rule::json_schema());
    for (id, _, text) in builtin::FILES {
        assert_eq!(schema.takes(text), Some(true), "{id}");
    }
    let readme = fs::read_to_string("rules/README.md").unwrap();
    let example = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(schema.takes(example), Some(true));
}

#[test]
fn what_the_schema_takes_of_the_bad_rules_is_known() {
    let schema = Schema::new(rule::json_schema());
    let mut names: Vec<String> = fs::read_dir("tests/bad-rules")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned()))
        .collect();
    names.sort();
    names.retain(|name| {
        schema.takes(&fs::read_to_string(format!("tests/bad-rules/{name}.toml")).unwrap()) == Some(true)
    });
    assert_eq!(names, BEYOND_THE_SCHEMA);
}

/// The program and the schema say the same of a rule with this entry.
#[test]
fn the_schema_is_as_wide_as_the_language() {
    let schema = Schema::new(rule::json_schema());
    let head = "schema = 1\ntitle = \"t\"\nlevel = \"advised\"\nwhy = \"w\"\n";
    for (entry, is_rule) in [
        ("that = \" plan.hot \"\nwithin = \"(cpu.isolated|cpu.offline) - cpu.possible\"\nabsent = \"empty\"", true),
        ("that = \"cpu.governor[plan.hot & cpu.online]\"\none-of = [\"performance\", \"schedutil\"]", true),
        ("that = \"limits.memlock\"\nat-least = \"plan.locked_memory\"", true),
        ("that = \"limits.memlock\"\nat-least = \" 64 MiB\"", true),
        ("that = \"limits.memlock\"\nat-least = 4096", true),
        ("that = \"process.names\"\nexcludes = \"irqbalance\"", true),
        ("that = \"cmdline.cpuidle_off\"\nis = true", true),
        ("that = \"plan.hott\"\nwithin = \"cpu.isolated\"", false),
        ("that = \"plan.hot\"\nwithin = \"cpu.isolated | cpu.ofline\"", false),
        ("that = \"plan.hot\"\nwithin = \"cpu.isolated + cpu.offline\"", false),
        ("that = \"plan.hot\"\nwithin = \"cpu.isolated\"\navoids = \"cpu.offline\"", false),
        ("that = \"cmdline.cpuidle_off\"\nis = true\nabsent = \"empty\"", false),
        ("that = \"process.names\"\nexcludes = \"two words\"", false),
        ("within = \"cpu.isolated\"", false),
    ] {
        let text = format!("{head}[[assert]]\n{entry}\n");
        assert_eq!(rule::parse("a.toml", "a", &text, None).is_ok(), is_rule, "the program: {entry}");
        assert_eq!(schema.takes(&text), Some(is_rule), "the schema: {entry}");
    }
}

#[test]
fn every_fact_can_be_named() {
    let schema = rule::json_schema();
    let names = schema["$defs"]["operand"]["anyOf"][0]["enum"].as_array().unwrap();
    assert!(fact::facts().map(|fact| fact.name).eq(names.iter().map(|name| name.as_str().unwrap())));
}

#[test]
fn plans_are_taken_and_what_is_none_is_not() {
    let schema = Schema::new(plan::json_schema());
    for host in fixtures() {
        let text = fs::read_to_string(format!("fixtures/{host}/plan.toml")).unwrap();
        assert_eq!(schema.takes(&text), Some(true), "{host}");
    }
    for (text, is_plan) in [
        ("idle = \"\"\nhousekeeping = 0\n[hot]\na = \"2-20:1/2, 22\"\n", true),
        ("locked-memory = 4096\nmax-wakeup-latency = \" 2 us\"\n[hot]\na = 1\n", true),
        ("require = [\"plan_topology\"]\n[hot]\n\"a b\" = 1\n[cold]\nb = 1\n", false),
        ("require = [\"plan_topology\"]\n[hot]\n\"a b\" = 1\n[cold]\nb = 2\n", true),
        ("nic = \"a/b\"\n[hot]\na = 1\n", false),
        ("locked-memory = -1\n[hot]\na = 1\n", false),
        ("locked-memory = \"much\"\n[hot]\na = 1\n", false),
        ("[hot]\n", false),
        ("realtime = true\n", false),
        ("[hot]\na = \"\"\n", false),
        ("[hot]\na = \"all\"\n", false),
        ("[hot]\na = 99999999\n", false),
        ("[hot]\na = 1\nidle = \"2\"\n", false),
        ("hott = 1\n[hot]\na = 1\n", false),
    ] {
        assert_eq!(Plan::parse("plan.toml", text).is_ok(), is_plan, "the program: {text}");
        // That sets overlap is beyond it.
        let is_overlap = text.contains("[cold]\nb = 1");
        assert_eq!(schema.takes(text), Some(is_plan || is_overlap), "the schema: {text}");
    }
}

#[test]
fn the_program_prints_them() {
    for (command, schema) in [("rules", rule::json_schema()), ("plan", plan::json_schema())] {
        let printed = quietcore([command, "schema"]).done().answer(0);
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), schema);
    }
}
