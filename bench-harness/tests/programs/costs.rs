//! What things cost on this host, as built: every arm has its figures or says why it has none.

use crate::common::{bench, run};
use serde_json::Value;

/// Runs a measurement as a smoke test.
fn quick(args: &[&str]) -> Value {
    let (code, out, err) = run(bench().args(args).args(["--ungated", "--quick", "--format", "json"]));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}: {out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["measurement"], args[0]);
    report
}

/// The arms of a report, all of which are expected: those that were measured, with their names.
fn measured(report: &Value, expected: &[&str]) -> Vec<Value> {
    let arms = report["arms"].as_array().unwrap();
    let names: Vec<_> = arms.iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(names, expected);
    let (skipped, measured): (Vec<_>, Vec<_>) = arms.iter().cloned().partition(|arm| arm["skipped"].is_string());
    for arm in skipped {
        println!("{}: skipped: {}", arm["name"], arm["skipped"]);
        assert_eq!(arm.as_object().unwrap().len(), 2, "{arm}");
    }
    measured
}

#[test]
fn syscalls() {
    let report = quick(&["syscalls"]);
    for arm in measured(&report, &["counter", "vdso", "instant", "getpid"]) {
        assert!(arm["ns_per_call"].as_f64().unwrap() > 0.0 && arm.get("p50").is_none(), "{arm}");
        assert_eq!(arm["calls"], 100_000);
        assert_eq!(arm["ns_per_call_by_round"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn faults() {
    let report = quick(&["faults", "-n", "64"]);
    for arm in measured(&report, &["unlocked", "locked"]) {
        assert!(
            arm["map_ns_per_page"].as_f64().unwrap() > 0.0 && arm["touch_ns_per_page"].as_f64().unwrap() > 0.0,
            "{arm}"
        );
        assert_eq!((&arm["pages"], &arm["passes"]), (&64.into(), &2.into()));
        assert!(arm["name"] != "unlocked" || arm["faults"].as_u64().unwrap() >= 64, "{arm}");
    }
}
