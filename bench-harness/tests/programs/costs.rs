//! What things cost on this host, as built: every arm has its figures or says why it has none.

use crate::common::{measured, quick};
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
