//! `quietcore-bench hiccups` and `lab` as built.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{bench, last_cpu, parsed, run, signal, wait, wait_for_threads};

const SHORT: [&str; 4] = ["hiccups", "--ungated", "--seconds", "0.1"];

fn json(args: &[&str]) -> Value {
    let (code, out, err) = run(bench().args(args).args(["--format", "json"]));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_meter_says_what_was_lost_and_what_it_costs() {
    let report = json(&SHORT);
    assert_eq!((&report["schema"], &report["measurement"]), (&1.into(), &"hiccups".into()));
    assert!(report["host"]["cpus"]["meter"].is_u64(), "{}", report["host"]);
    let arm = &report["arms"][0];
    assert_eq!((&arm["name"], &arm["skipped"], &arm["threshold_ns"]), (&"alone".into(), &Value::Null, &200.into()));
    let figure = |name: &str| arm[name].as_f64().unwrap_or_else(|| panic!("{name} in {arm}"));
    assert!(figure("loop_ns") > 0.0 && figure("observed_ns") > 0.0 && figure("mean_wait_ns") >= 0.0);
    assert!((0.0..=1.0).contains(&figure("lost")));
    for (falling, ends) in [("gaps_per_s", ["200", "50000000"]), ("p_wait", ["200", "50000000"])] {
        let [short, long] = ends.map(|ns| arm[falling][ns].as_f64().unwrap());
        assert!(short >= long, "{falling} in {arm}");
        assert_eq!(arm[falling].as_object().unwrap().len(), 17);
    }
    assert!(!report["claims"].as_array().unwrap().is_empty());
}

#[test]
fn scenarios_take_turns() {
    let report = json(&["hiccups", "--ungated", "--scenario", "all", "--seconds", "0.1", "--rounds", "2"]);
    let arms: Vec<_> = report["arms"].as_array().unwrap().iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(arms, ["alone", "free", "shared"]);
    assert_eq!(report["arms"][0]["lost_by_round"].as_array().unwrap().len(), 2);
}

#[test]
fn a_meter_on_each_cpu() {
    let last = last_cpu();
    if last == 0 {
        println!("skipped: one CPU");
        return;
    }
    let report = json(&[&SHORT[..], &["-c", &format!("0,{last}")]].concat());
    let arms: Vec<_> = report["arms"].as_array().unwrap().iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(arms, ["alone-cpu0".to_owned(), format!("alone-cpu{last}")]);
    assert_eq!(report["host"]["cpus"]["meter-cpu0"], 0);
}

#[test]
fn gaps_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let report = json(&[&SHORT[..], &["--out", path]].concat());
    let gaps = fs::read_to_string(folder.path().join("hiccups-alone.csv")).unwrap();
    let lengths: Vec<u64> =
        gaps.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse().unwrap()).collect();
    assert!(gaps.starts_with("round,at_ns,ns\n"), "{gaps}");
    assert_eq!(report["arms"][0]["gaps"], lengths.len());
    assert!(lengths.iter().all(|&ns| ns >= 199), "{lengths:?}");
}

#[test]
fn a_file_an_arm_and_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    json(&["hiccups", "--ungated", "--scenario", "all", "--seconds", "0.09", "--out", path]);
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["hiccups-alone.csv", "hiccups-free.csv", "hiccups-shared.csv", "hiccups.html", "hiccups.json"]);
    parsed(&fs::read_to_string(folder.path().join("hiccups.html")).unwrap());
}

#[test]
fn the_user_ends_it() {
    let mut child = bench();
    child.args(["hiccups", "--ungated", "--scenario", "shared", "--seconds", "3600"]).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // The meter and its rival run: the handlers are there.
    wait_for_threads(&mut child, 3);
    signal(&child, Signal::INT);
    assert_eq!(wait(&mut child).code(), Some(130));
}

#[test]
fn mistakes() {
    for (args, text) in [
        (&["hiccups", "--ungated", "--seconds", "0"][..], "no such time"),
        (&["hiccups", "--ungated", "--duration", "0s"], "no time"),
        (&["hiccups", "--ungated", "--seconds", "1", "--duration", "1s"], "cannot be used with"),
        (&["hiccups", "--ungated", "--threshold", "fast"], "--threshold"),
        (&["hiccups", "--ungated", "-c", ""], "--cpus names no CPU"),
        (&["lab", "--ungated", "--only", "hickups"], "no measurement `hickups`"),
    ] {
        let (code, out, err) = run(bench().args(args));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}");
        assert!(err.contains(text), "{args:?}: {err}");
    }
}

#[test]
fn a_lab_and_the_comparison_of_two() {
    let (code, list, _) = run(bench().args(["lab", "--list"]));
    assert_eq!(code, Some(0));
    assert!(list.starts_with("hiccups ") && list.lines().last().unwrap().starts_with("echo "), "{list}");

    let folder = tempfile::tempdir().unwrap();
    let short = ["lab", "--ungated", "--only", "hiccups", "--duration", "90ms", "--rounds", "2", "--out"];
    let [before, after] = ["before", "after"].map(|name| {
        let path = folder.path().join(name);
        let (code, out, err) = run(bench().args(short).arg(&path));
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        path.join("lab.json")
    });
    let lab: Value = serde_json::from_slice(&fs::read(&before).unwrap()).unwrap();
    assert_eq!(lab["measurements"][0]["measurement"], "hiccups");
    assert!(lab["audit"]["verdict"].is_string() && lab["orders"].is_array());
    let page = fs::read_to_string(before.with_file_name("lab.html")).unwrap();
    assert!(parsed(&page).descendants().any(|node| node.attribute("id") == Some("hiccups")));

    let (code, text, _) = run(bench().args(["lab", "compare"]).args([&before, &after]));
    assert_eq!(code, Some(0));
    assert!(text.starts_with("audit  ") && text.contains("hiccups alone, lost"), "{text}");
    let (_, json, _) = run(bench().args(["lab", "compare", "--format", "json"]).args([&before, &after]));
    let found: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&found["measurement"], &found["arms"][0]["figure"]), (&"compare".into(), &"lost".into()));

    fs::write(&after, "{}").unwrap();
    let (code, _, err) = run(bench().args(["lab", "compare"]).args([&before, &after]));
    assert_eq!(code, Some(2));
    assert!(err.contains("lab.json is no result of quietcore-bench: it has no schema"), "{err}");
}
