//! Measurements of messages between two threads, as built: what they report, what they skip, and that they end.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{bench, last_cpu, measured, quick, run, signal, wait, wait_for_threads};

/// Checks that an arm has this many samples and an orderly ladder.
fn has_samples(arm: &Value, n: u64) {
    assert_eq!((arm["n"].as_u64(), arm["unit"].as_str()), (Some(n), Some("ns")), "{arm}");
    let ladder = ["min", "p50", "p90", "p99", "p99.9", "max"].map(|name| arm[name].as_u64().unwrap());
    assert!(ladder[0] > 0 && ladder.is_sorted(), "{arm}");
}

/// Runs a measurement where it has one CPU only: its report, unless there is no `taskset`.
fn on_one_cpu(args: &[&str]) -> Option<Value> {
    let mut alone = Command::new("taskset");
    alone.args(["-c", &last_cpu().to_string(), env!("CARGO_BIN_EXE_quietcore-bench")]).args(args);
    let output = alone.args(["--ungated", "--quick", "--format", "json"]).stdin(Stdio::null()).output();
    let Ok(output) = output else {
        println!("skipped: no taskset here");
        return None;
    };
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Interrupts a measurement that would go on for long.
fn ends_when_the_user_wants(args: &[&str]) {
    for with in [Signal::INT, Signal::TERM] {
        let mut command = bench();
        command.args(args).arg("--ungated").stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // Both threads run: the handlers are there.
        wait_for_threads(&mut child, 3);
        signal(&child, with);
        assert_eq!(wait(&mut child).code(), Some(130), "{args:?}");
    }
}

const RECEIVE: [&str; 4] = ["block", "busypoll", "spin", "spin+busypoll"];

#[test]
fn receive() {
    let report = quick(&["receive", "-n", "50", "--warmup", "5"]);
    for arm in measured(&report, &RECEIVE) {
        let lost = arm["lost"].as_u64().unwrap();
        has_samples(&arm, 50 - lost);
        assert_eq!((&arm["sent"], &arm["duplicates"], &arm["foreign"]), (&50.into(), &0.into(), &0.into()));
        assert_eq!(arm["p50_by_round"].as_array().unwrap().len(), 2);
        // Loopback has no NAPI instance.
        let polls = arm["name"].as_str().unwrap().contains("busypoll");
        assert_eq!(arm.get("busy_poll_inert").and_then(Value::as_bool), polls.then_some(true), "{arm}");
    }
}

#[test]
fn receive_fails_above_its_limit() {
    let limited = |limit| {
        let args = ["receive", "--ungated", "--quick", "-n", "20", "--only", "block", "--fail-above", limit];
        run(bench().args(args))
    };
    let (code, out, _) = limited("1ns");
    assert_eq!(code, Some(1), "{out}");
    let verdict = if out.contains("skipped: needs two CPUs") { "a message takes" } else { "block: no message takes" };
    assert!(out.contains(&format!("FAILS: {verdict}")), "{out}");
    if verdict.starts_with("block") {
        assert_eq!(limited("1h").0, Some(0));
    }
}

#[test]
fn receive_needs_two_cpus() {
    let Some(report) = on_one_cpu(&["receive"]) else { return };
    assert!(measured(&report, &RECEIVE).is_empty());
    assert_eq!(report["arms"][0]["skipped"], "needs two CPUs, one for the sender and one for the receiver");
}

#[test]
fn receive_ends_when_the_user_wants() {
    if quick(&["receive", "-n", "1", "--only", "block"])["arms"][0]["skipped"].is_string() {
        return;
    }
    // The receiver is asleep nearly all the time.
    ends_when_the_user_wants(&["receive", "--only", "block", "--interval", "1h"]);
    ends_when_the_user_wants(&["receive", "--only", "spin", "-n", "1000000"]);
}

const PINGPONG: [&str; 6] =
    ["pipe-same-cpu", "pipe-two-cpus", "futex-same-cpu", "futex-two-cpus", "line-same-cpu", "line-two-cpus"];

#[test]
fn pingpong() {
    let report = quick(&["pingpong", "-n", "60", "--warmup", "5"]);
    for arm in measured(&report, &PINGPONG) {
        has_samples(&arm, 60 - arm["lost"].as_u64().unwrap());
    }
    let line = report["arms"].as_array().unwrap().iter().find(|arm| arm["name"] == "line-same-cpu").unwrap();
    assert!(line["skipped"].as_str().unwrap().starts_with("a thread that spins"), "{line}");
}

#[test]
fn pingpong_on_one_cpu() {
    let Some(report) = on_one_cpu(&["pingpong", "-n", "20"]) else { return };
    let same = measured(&report, &PINGPONG);
    assert_eq!(same.iter().map(|arm| arm["name"].as_str().unwrap()).collect::<Vec<_>>(), [PINGPONG[0], PINGPONG[2]]);
    let skipped = &report["arms"][1];
    assert_eq!(skipped["skipped"], "needs two CPUs, one for the client and one for the server");
}

#[test]
fn udp_rtt() {
    let report = quick(&["udp-rtt", "-n", "60", "--size", "1472"]);
    for arm in measured(&report, &["block", "spin"]) {
        has_samples(&arm, 60 - arm["lost"].as_u64().unwrap());
        assert_eq!(arm["sent"], 60);
    }
    for size in ["0", "65508"] {
        assert_eq!(run(bench().args(["udp-rtt", "--ungated", "--size", size])).0, Some(2));
    }
    let Some(report) = on_one_cpu(&["udp-rtt"]) else { return };
    assert_eq!(report["arms"][1]["skipped"], "needs two CPUs, one for the client and one for the server");
}

#[test]
fn nodelay() {
    let report = quick(&["nodelay", "-n", "4", "--warmup", "2"]);
    for arm in measured(&report, &["nodelay-on", "nodelay-off"]) {
        has_samples(&arm, 4);
    }
}

#[test]
fn round_trips_end_when_the_user_wants() {
    if quick(&["udp-rtt", "-n", "1"])["arms"][0]["skipped"].is_string() {
        return;
    }
    ends_when_the_user_wants(&["udp-rtt", "--duration", "1h"]);
    ends_when_the_user_wants(&["pingpong", "--duration", "1h"]);
    ends_when_the_user_wants(&["nodelay", "--duration", "1h"]);
}
