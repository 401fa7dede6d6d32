//! `quietcore-bench xdp` as built: four arms or the reasons why not, and nothing left behind.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, bench, run, signal, wait};
use rustix::process::Signal;
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use serde_json::Value;

const ARMS: [&str; 4] = ["udp-block", "udp-spin", "xdp-poll", "xdp-spin"];

/// Few enough for a busy machine, and with room for its delays.
fn small() -> Command {
    let mut command = bench();
    command.args(["xdp", "--ungated", "--quick", "-n", "40", "--gap", "2ms", "--warmup", "5", "--rounds", "2"]);
    command.args(["--format", "json"]);
    command
}

/// Long enough to be ended in the middle.
fn long() -> Child {
    let mut command = bench();
    command.args(["xdp", "--ungated", "-n", "1000000"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// The arms of a report, by the order of `ARMS`.
fn arms(out: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(out).unwrap();
    let arms = report["arms"].as_array().unwrap();
    assert!(arms.iter().map(|arm| arm["name"].as_str().unwrap()).eq(ARMS), "{out}");
    arms.clone()
}

/// Why an arm was skipped.
fn reason(arm: &Value) -> Option<&str> {
    assert_eq!(arm["skipped"].is_null(), arm.get("p50").is_some(), "{arm}");
    arm["skipped"].as_str()
}

#[test]
fn four_arms_or_the_reasons() {
    let (code, out, err) = run(&mut small());
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    for arm in arms(&out) {
        if let Some(why) = reason(&arm) {
            println!("skipped: {}: {why}", arm["name"]);
            continue;
        }
        let figure = |name: &str| arm[name].as_u64().unwrap();
        assert_eq!((figure("sent"), figure("foreign"), figure("n") <= 40), (40, 0, true), "{arm}");
        assert!(["min", "p50", "p90", "p99", "p99.9", "max"].map(figure).is_sorted(), "{arm}");
        assert_eq!(arm.get("rx_ring_full").is_some(), arm["name"].as_str().unwrap().starts_with("xdp"));
    }
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["summary"], serde_json::json!({"gap_ns": 2_000_000, "xdp_mode": "skb"}));
    assert!(report["claims"].as_array().unwrap().iter().all(|claim| claim["required"] == false));
}

/// Runs the command without a capability, whoever runs the tests.
fn without(capability: CapabilitySet, mut command: Command) -> (Option<i32>, String, String) {
    let child = thread::spawn(move || {
        // Who may not do this has no capability to lose.
        let _ = remove_capability_from_bounding_set(capability);
        run(&mut command)
    });
    child.join().unwrap()
}

#[test]
fn without_the_right_to_make_a_namespace_nothing_is_measured() {
    let (code, out, err) = without(CapabilitySet::SYS_ADMIN, small());
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    for arm in arms(&out) {
        let why = reason(&arm).unwrap();
        assert!(why.contains("cannot make a network namespace") || why.contains("two CPUs"), "{why}");
    }
}

#[test]
fn without_the_right_to_an_af_xdp_socket_the_kernel_sockets_are_measured() {
    let (code, out, err) = without(CapabilitySet::NET_RAW, small());
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let arms = arms(&out);
    if let Some(why) = reason(&arms[0]) {
        return println!("skipped: {why}");
    }
    assert_eq!(reason(&arms[1]), None);
    for arm in &arms[2..] {
        assert!(reason(arm).unwrap().starts_with("cannot bind an AF_XDP socket: "), "{arm}");
    }
}

/// Waits until a run has made its namespaces; says whether it came to that.
fn is_under_way(child: &mut Child) -> bool {
    let folder = format!("/proc/{}/fd", child.id());
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline && child.try_wait().unwrap().is_none() {
        let descriptors = fs::read_dir(&folder).into_iter().flatten().flatten();
        let links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        if links.filter(|link| link.to_string_lossy().starts_with("net:")).count() == 2 {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Are there devices of ours in the namespace that the tests run in?
fn is_seen_from_outside() -> bool {
    let devices = fs::read_to_string("/proc/net/dev").unwrap();
    devices.lines().any(|line| ["sender:", "receiver:"].iter().any(|name| line.trim_start().starts_with(name)))
}

#[test]
fn a_killed_run_leaves_nothing_and_the_next_one_works() {
    let reasons = || {
        let (code, out, _) = run(&mut small());
        assert_eq!(code, Some(0), "{out}");
        arms(&out).iter().map(|arm| reason(arm).map(str::to_owned)).collect::<Vec<_>>()
    };
    let before = reasons();
    let mut child = long();
    if !is_under_way(&mut child) {
        return println!("skipped: no network namespace");
    }
    assert!(!is_seen_from_outside());
    signal(&child, Signal::KILL);
    wait(&mut child);
    assert!(!is_seen_from_outside());
    assert_eq!(reasons(), before);
}

#[test]
fn an_interrupt_ends_it() {
    let mut child = long();
    if !is_under_way(&mut child) {
        return println!("skipped: no network namespace");
    }
    signal(&child, Signal::INT);
    assert_eq!(wait(&mut child).code(), Some(130));
}

#[test]
fn command_lines_that_make_no_sense() {
    for args in [["--gap", "0"], ["--gap", "soon"], ["--xdp-mode", "zero-copy"]] {
        let (code, out, err) = run(bench().args(["xdp", "--ungated"]).args(args));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}");
        assert!(!err.is_empty());
    }
}

#[test]
fn help_fits_a_terminal() {
    let (code, out, _) = run(bench().args(["xdp", "--help"]));
    assert_eq!(code, Some(0));
    assert!(out.lines().all(|line| line.chars().count() <= 79), "{out}");
}
