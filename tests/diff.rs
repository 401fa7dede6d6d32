//! `quietcore diff`: what changed from one tree to another, for one plan.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what cannot go on has failed")]

mod common;

use std::fs;

use common::{CPU, Laid, Run, THP, Tree, has_escapes, quietcore, scrub};
use serde_json::{Value, json};

const PLAN: &str = "fixtures/tuned/plan.toml";

fn diff(before: &str, after: &str) -> Run {
    let root = |host: &str| format!("fixtures/{host}/root");
    quietcore(["diff".to_owned(), root(before), root(after), "--plan".to_owned(), PLAN.to_owned()])
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, scrub(text, &[])) });
}

/// Two trees beside each other: `root`, and `after` below the folder.
fn pair(before: &Tree, after: &Tree) -> Laid {
    let laid = before.lay();
    let other = after.lay();
    fs::rename(&other.root, laid.dir.path().join("after")).unwrap();
    laid
}

fn compared(laid: &Laid) -> Run {
    laid.run(&["diff", "root", "after", "--plan", "plan.toml"])
}

#[test]
fn worse_is_exit_code_1_and_better_is_0() {
    let worse = diff("tuned", "mistuned").done().answer(1);
    snapshot("worse", &worse);
    let better = diff("mistuned", "tuned").done().answer(0);
    let governor = ["+", "better", "governor", "FAIL", "->", "pass"];
    assert!(better.lines().any(|line| line.split_whitespace().eq(governor)), "{better}");
    assert!(better.contains("\nnot worse: "), "{better}");
    // The summary is one line whatever its length.
    for line in worse.lines().filter(|line| line.len() > 80 && !line.starts_with("WORSE: ")) {
        assert_eq!(line.split_whitespace().last().map(|path| path.contains('/')), Some(true), "{line}");
    }
    assert!(!has_escapes(&worse));
}

#[test]
fn trees_that_audit_alike_are_one_line() {
    let same = diff("tuned", "tuned").done().answer(0);
    let lines: Vec<&str> = same.lines().collect();
    assert_eq!(lines.len(), 5, "{same}");
    assert!(lines[4].starts_with("same: 0 worse, 0 better, 0 otherwise changed, "), "{same}");
    assert!(lines[4].ends_with(" unchanged"), "{same}");
}

#[test]
fn evidence_that_changed_under_the_same_verdict_is_shown() {
    let before = Tree::tuned();
    let after = Tree::tuned().with(&format!("{CPU}/isolated"), "2-6\n").thp("always madvise [never]\n");
    let text = compared(&pair(&before, &after)).done().answer(0);
    assert!(text.contains("~ changed  thp"), "{text}");
    assert!(text.contains("still pass"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(&format!("file: {THP}/enabled: always [madvise] never -> always madvise [never]")),
        "{text}"
    );
    assert!(words.contains("file: sys/devices/system/cpu/isolated: 2-5 -> 2-6"), "{text}");
    assert!(!text.contains("governor"), "{text}");
}

#[test]
fn an_advised_rule_is_shown_and_does_not_decide() {
    let plan = "[hot]\na = 2\nb = 3\n";
    let before = Tree::tuned().plan(plan);
    let shared = |cpu: u32| format!("{CPU}/cpu{cpu}/topology/thread_siblings_list");
    let after = before.clone().with(&shared(2), "2-3\n").with(&shared(3), "2-3\n");
    let laid = pair(&before, &after);
    let text = compared(&laid).done().answer(0);
    assert!(text.contains("! worse    plan_topology  pass -> advice"), "{text}");
    assert!(text.contains("not worse: 1 worse (1 of them advised), "), "{text}");
    fs::write(laid.dir.path().join("plan.toml"), format!("require = [\"plan_topology\"]\n{plan}")).unwrap();
    assert!(compared(&laid).done().answer(1).contains("x worse    plan_topology  pass -> FAIL"));
}

#[test]
fn what_can_no_longer_be_judged_is_worse() {
    let laid = pair(&Tree::tuned(), &Tree::tuned().denied(&[&format!("{CPU}/cpu2/cpufreq")]));
    let text = compared(&laid).done().answer(1);
    assert!(text.contains("pass -> unknown"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("scaling_governor: performance -> (EACCES)"), "{text}");
    let back = laid.run(&["diff", "after", "root", "--plan", "plan.toml"]).done().answer(0);
    assert!(back.contains("unknown -> pass"), "{back}");
}

#[test]
fn json_has_a_schema_and_both_sides() {
    let text = diff("tuned", "mistuned").args(["--format", "json"]).done().answer(1);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["schema"], 1);
    assert_eq!((&report["worse"], &report["exit_code"]), (&json!(true), &json!(1)));
    assert_eq!(report["before"], json!({"root": "fixtures/tuned/root", "kernel": "6.1.0-28-amd64"}));
    assert_eq!(report["plan"], json!({"name": PLAN, "hot": "21-23"}));
    let changes = report["changes"].as_array().unwrap();
    let governor = changes.iter().find(|change| change["rule"] == "governor").unwrap();
    assert_eq!((&governor["change"], &governor["level"]), (&json!("worse"), &json!("required")));
    assert_eq!((&governor["before"]["verdict"], &governor["after"]["verdict"]), (&json!("pass"), &json!("fail")));
    assert_eq!(governor["after"]["found"], "powersave on CPU 22");
    let file = |cpu: u32| json!(format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"));
    let sources = governor["sources"].as_array().unwrap();
    let of = |cpu: u32| sources.iter().find(|source| source["path"] == file(cpu)).unwrap();
    assert_eq!(of(22)["before"]["text"], "performance");
    assert_eq!(of(22)["after"]["text"], "powersave");
    assert_eq!(of(21)["after"], Value::Null, "no part of the evidence any more");
    let counts = &report["counts"];
    let sum: u64 = ["worse", "better", "changed"].iter().map(|key| counts[key].as_u64().unwrap()).sum();
    assert_eq!(usize::try_from(sum).unwrap(), changes.len());
    assert_eq!(text, diff("tuned", "mistuned").args(["--format", "json"]).done().answer(1), "the same bytes");
}

#[test]
fn mistakes_are_exit_code_2() {
    let laid = Tree::tuned().lay();
    laid.run(&["capture", "--root", "root", "a.tar"]).done().answer(0);
    let refusal = |args: &[&str]| laid.run(args).done().refusal();
    let text = refusal(&["diff", "root", "a.tar", "--plan", "plan.toml"]);
    assert!(text.contains("a.tar is not a folder\nhelp: unpack it: mkdir DIR && tar -xf a.tar -C DIR"), "{text}");
    assert!(refusal(&["diff", "root", "nowhere", "--plan", "plan.toml"]).contains("nowhere"));
    assert!(refusal(&["diff", "root", "root", "--plan", "none.toml"]).contains("none.toml"));
    assert!(refusal(&["diff", "root", "root"]).contains("--plan"));
    assert!(refusal(&["diff", "root", "root", "--plan", "plan.toml", "--format", "xml"]).contains("xml"));
}

#[test]
fn rules_of_the_user_are_compared_too() {
    let before = Tree::tuned();
    let laid = pair(&before, &before.clone().with("sys/devices/system/cpu/isolated", "2-6\n"));
    fs::create_dir(laid.dir.path().join("rules")).unwrap();
    let rule = "schema = 1\ntitle = \"housekeeping CPUs are not isolated\"\nlevel = \"required\"\n\
                why = \"w\"\n[[assert]]\nthat = \"plan.housekeeping\"\navoids = \"cpu.isolated\"\n\
                else = \"isolated: {offending}\"\n";
    fs::write(laid.dir.path().join("rules/housekeeping_free.toml"), rule).unwrap();
    let run = laid.run(&["diff", "root", "after", "--plan", "plan.toml", "--rules", "rules"]);
    let text = run.done().answer(1);
    assert!(text.contains("x worse    housekeeping_free  pass -> FAIL"), "{text}");
}
