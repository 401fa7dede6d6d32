//! What things cost on this host, as built: every arm has its figures or says why it has none.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, bench, measured, quick, run, signal, wait};
use rustix::process::Signal;
use serde_json::Value;

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

#[test]
fn privileges() {
    let report = quick(&["privileges"]);
    let names = ["SCHED_FIFO", "SO_BUSY_POLL", "mlockall", "cpu_dma_latency", "io_uring", "AF_XDP"];
    let arms = measured(&report, &names);
    assert_eq!(arms.len(), names.len());
    for arm in arms {
        let result = arm["result"].as_str().unwrap();
        assert!(result == "ok" || result.starts_with('E'), "{arm}");
    }
    assert_eq!(report["claims"], serde_json::json!([]));
}

/// The counts of a message's way, and percentiles in their order.
fn assert_trips(arm: &Value) {
    let figure = |name: &str| arm[name].as_u64().unwrap();
    let ladder = ["min", "p50", "p90", "p99", "p99.9", "max"].map(figure);
    assert!(ladder[0] > 0 && ladder.is_sorted(), "{arm}");
    assert_eq!((figure("sent"), figure("n") + figure("lost") + figure("backwards")), (20, 20), "{arm}");
}

#[test]
fn uring() {
    let report = quick(&["uring", "-n", "20"]);
    measured(&report, &["block", "single", "multishot", "sqpoll"]).iter().for_each(assert_trips);
}

#[test]
fn tuning() {
    let report = quick(&["tuning", "-n", "20"]);
    let arms = measured(&report, &["stock", "capped", "loaded", "fenced"]);
    arms.iter().for_each(assert_trips);
    if !arms.is_empty() {
        assert!(report["summary"]["dividend"].as_str().unwrap().starts_with("p99.9 as the host is: "));
    }
    let codes: Vec<_> = report["caveats"].as_array().unwrap().iter().map(|caveat| &caveat["code"]).collect();
    let capped = arms.iter().any(|arm| arm["name"] == "capped");
    assert_eq!(codes.iter().any(|code| *code == "host-changed"), capped, "{codes:?}");
}

/// A folder with a program called stress-ng, which notes its number and does nothing else, for `PATH`.
fn fake_load() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("stress-ng");
    let pid = folder.path().join("pid");
    let text = format!("#!/bin/sh\necho $$ >{0}.new && mv {0}.new {0}\nexec sleep 1000\n", pid.display());
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

#[test]
fn a_load_ends_with_the_measurement_whatever_ends_that() {
    for with in [Signal::INT, Signal::TERM, Signal::KILL] {
        let folder = fake_load();
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let mut bench = bench();
        bench.args(["tuning", "--ungated", "--only", "loaded", "--load", "stress-ng", "-n", "10000000"]);
        let mut bench = bench.env("PATH", path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let load = loop {
            if let Ok(text) = std::fs::read_to_string(folder.path().join("pid")) {
                break text.trim().to_owned();
            }
            if bench.try_wait().unwrap().is_some() {
                println!("skipped: one CPU");
                return;
            }
            assert!(Instant::now() < deadline, "no load");
            thread::sleep(Duration::from_millis(5));
        };
        signal(&bench, with);
        assert_eq!(wait(&mut bench).code(), if with == Signal::KILL { None } else { Some(130) });
        // Gone, or a zombie that waits for whoever inherited it.
        let is_alive =
            || std::fs::read_to_string(format!("/proc/{load}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        while is_alive() {
            assert!(Instant::now() < deadline, "a load was left behind");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_load_that_is_not_installed_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bench();
    command.args(["tuning", "--ungated", "--quick", "-n", "20", "--load", "stress-ng", "--only", "loaded,fenced"]);
    let (code, out, _) = run(command.args(["--format", "json"]).env("PATH", folder.path()));
    assert_eq!(code, Some(0), "{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert!(measured(&report, &["loaded", "fenced"]).is_empty());
}
