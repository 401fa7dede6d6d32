//! `quietcore-bench echo` as built: what it reports, what it refuses, and that it leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{self, PATIENCE, bench, last_cpu, parsed, run, signal, wait};
use quietcore_bench::experiment::Interrupted;
use quietcore_bench::server::{Kind, Server};
use quietcore_bench::witness;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Few enough for a busy machine.
const SMALL: [&str; 8] = ["echo", "--ungated", "--n", "300", "--warmup", "20", "--trials", "2"];

fn may_race() -> bool {
    witness::allowed_cpus(std::process::id()).unwrap().as_slice().len() > 1
}

fn children_of(parent: u32) -> Vec<u32> {
    let Ok(text) = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")) else { return Vec::new() };
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_race_in_json() {
    if !may_race() {
        return;
    }
    let (code, out, err) = run(bench().args(SMALL).args(["--format", "json"]));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["schema"], 1);
    assert_eq!(report["measurement"], "echo");
    assert!(["pass", "fail", "unknown"].contains(&report["host"]["audit"]["verdict"].as_str().unwrap()));
    for fact in ["kernel", "cpu", "clocksource", "governor", "steal_ms", "load"] {
        assert!(report["host"].get(fact).is_some(), "{fact}");
    }
    assert_ne!(report["host"]["cpus"]["client"], report["host"]["cpus"]["server"]);
    let arms = report["arms"].as_array().unwrap();
    let names: Vec<_> = arms.iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["naive-1", "fastpath-1", "naive-2", "fastpath-2"]);
    for arm in arms {
        assert_eq!((arm["skipped"].is_null(), &arm["unit"], &arm["n"]), (true, &"ns".into(), &300.into()));
        let figure = |name: &str| arm[name].as_u64().unwrap();
        let ladder = ["min", "p50", "p90", "p99", "p99.9", "max"].map(figure);
        assert!(ladder[0] > 0 && ladder.is_sorted(), "{arm}");
    }
    assert!(arms[1]["voluntary_ctxt_switches"].as_u64().unwrap() <= 3);
    assert!(arms[0]["voluntary_ctxt_switches"].as_u64().unwrap() >= 100);
    assert_eq!(report["summary"]["fastpath"]["messages"], 600);
    assert!(report["summary"]["ratio"].as_f64().unwrap() > 0.0);
    let required: Vec<_> =
        report["claims"].as_array().unwrap().iter().filter(|claim| claim["required"] == true).collect();
    assert_eq!(required.len(), 4);
    assert!(required.iter().all(|claim| claim["holds"] == true), "{required:?}");
    let caveats: Vec<_> =
        report["caveats"].as_array().unwrap().iter().map(|caveat| caveat["code"].as_str().unwrap()).collect();
    // The second one on a host with no core to spare.
    assert!(caveats.contains(&"suggested-plan") || caveats.contains(&"not-audited"), "{caveats:?}");
}

#[test]
fn a_race_for_a_human() {
    if !may_race() {
        return;
    }
    let (code, out, _) = run(bench().args(SMALL).args(["--client", "spin"]));
    assert_eq!(code, Some(0), "{out}");
    for text in ["kernel", "naive-2", "fastpath-2", "ratio", "holds: naive keeps every CPU"] {
        assert!(out.contains(text), "{text} is missing in\n{out}");
    }
}

#[test]
fn a_ratio_that_nobody_reaches() {
    if !may_race() {
        return;
    }
    let (code, out, _) = run(bench().args(SMALL).args(["--require-ratio", "100000"]));
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("FAILS: naive's median p50 is at least 100000 times fastpath's"), "{out}");
}

#[test]
fn one_cpu_is_enough_for_the_proof() {
    let cpu = last_cpu().to_string();
    let program = env!("CARGO_BIN_EXE_quietcore-bench");
    let mut alone = std::process::Command::new("taskset");
    alone.args(["-c", &cpu, program, "echo", "--ungated", "--format", "json"]).stdin(Stdio::null());
    let Ok(output) = alone.output() else {
        return;
    };
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for arm in report["arms"].as_array().unwrap() {
        assert!(arm["skipped"].is_string() && arm.get("p50").is_none(), "{arm}");
    }
    assert_eq!(report["claims"].as_array().unwrap().len(), 2);
    assert!(report["caveats"].as_array().unwrap().iter().any(|caveat| caveat["code"] == "one-cpu"));
}

#[test]
fn raw_samples() {
    if !may_race() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new");
    assert_eq!(run(bench().args(SMALL).arg("--out").arg(&out)).0, Some(0));
    let report: Value = serde_json::from_slice(&fs::read(out.join("echo.json")).unwrap()).unwrap();
    let samples = fs::read_to_string(out.join("echo-naive-1.csv")).unwrap();
    let lines = samples.strip_prefix("round,ns\n").unwrap().lines();
    let mut samples: Vec<u64> = lines.map(|line| line.strip_prefix("1,").unwrap().parse().unwrap()).collect();
    samples.sort_unstable();
    assert_eq!((samples.len(), report["arms"][0]["p50"].as_u64()), (300, Some(samples[149])));
    assert_eq!(fs::read_dir(&out).unwrap().count(), 6);
    // Trials of an arm are one line of the picture.
    let page = fs::read_to_string(out.join("echo.html")).unwrap();
    let page = parsed(&page);
    let picture = page.descendants().find(|node| node.tag_name().name() == "svg").unwrap();
    let texts: Vec<_> = picture.descendants().filter_map(|node| node.text()).collect();
    assert!(texts.contains(&"naive") && texts.contains(&"fastpath") && !texts.contains(&"naive-1"), "{texts:?}");
}

#[test]
fn without_a_plan_the_host_is_held_against_one_made_for_it() {
    let (code, out, err) = run(bench().args(["echo", "--quick"]));
    // Whether this host passes, or has a core to spare at all, is its own affair.
    match code {
        Some(0) => assert!(out.contains("suggested-plan: "), "{out}"),
        Some(1) => {
            assert!(err.starts_with("no plan given: judging this host for one made for it\n\n"), "{err}");
            assert!(err.ends_with("refused: the host fails its audit; --ungated measures anyway\n"), "{err}");
        }
        _ => assert!(code == Some(2) && err.contains("no plan given, and none can be made"), "{err}"),
    }
}

/// A plan that no host passes: its hot CPU is beyond any.
fn failing_plan(folder: &Path) -> PathBuf {
    let plan = folder.join("plan.toml");
    fs::write(&plan, "[hot]\nfeed = 65000\n").unwrap();
    plan
}

#[test]
fn a_host_that_fails_its_audit_is_not_measured() {
    let folder = tempfile::tempdir().unwrap();
    let plan = failing_plan(folder.path());
    let (code, out, err) = run(bench().args(["echo", "--quick", "--plan"]).arg(&plan));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("isolated") && err.contains("65000"), "{err}");
    assert!(err.ends_with("refused: the host fails its audit; --ungated measures anyway\n"), "{err}");
    assert!(!err.contains('\u{1b}'), "{err}");
}

#[test]
fn a_plan_that_is_wrong_is_no_audit() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, "[hott]\nfeed = 1\n").unwrap();
    let (code, out, err) = run(bench().args(["echo", "--quick", "--plan"]).arg(&plan));
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("plan.toml:1:2") && err.contains("did you mean `hot`"), "{err}");
}

#[test]
fn ungated_measures_and_the_result_says_so() {
    if !may_race() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plan = failing_plan(folder.path());
    let (code, out, err) = run(bench().args(SMALL).args(["--format", "json", "--plan"]).arg(&plan));
    assert_eq!(code, Some(0), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["host"]["audit"]["verdict"], "fail");
    assert!(report["host"]["audit"]["failed"].as_array().unwrap().contains(&"isolated".into()), "{report}");
}

#[test]
fn command_lines_that_make_no_sense() {
    for args in [
        &["nothing"][..],
        &["echo", "--ungated", "--n", "0"],
        &["echo", "--ungated", "--trials", "0"],
        &["echo", "--ungated", "--cpus", "3-1"],
        &["echo", "--ungated", "--cpus", "0,60000"],
        &["echo", "--ungated", "--cpus", "0"],
        &["echo", "--ungated", "--require-ratio", "0"],
        &["echo", "--ungated", "--only", "naive", "--require-ratio", "2"],
    ] {
        let (code, out, err) = run(bench().args(args));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}");
        assert!(!err.is_empty());
    }
}

#[test]
fn help_fits_a_terminal_and_names_what_exists() {
    let (code, out, _) = run(bench().args(["echo", "--help"]));
    assert_eq!(code, Some(0));
    assert!(out.starts_with("Race a naive echo server"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 79), "{out}");
}

/// A bench program, killed and reaped when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a race that would take long, and waits until its server is busy; returns that server's pid too.
fn long_race() -> (Running, u32) {
    let mut command = bench();
    command.args(["echo", "--ungated", "--n", "10000000", "--warmup", "100", "--trials", "1", "--only", "fastpath"]);
    let bench = Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "the race did not begin");
        // The servers of the proof are never connected to; one that has run for a while is in the race.
        if let [server] = children_of(bench.0.id())[..]
            && ticks(server) >= 10
        {
            return (bench, server);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Clock ticks of user and system time.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

fn gone(pid: u32) {
    let deadline = Instant::now() + PATIENCE;
    while is_alive(pid) {
        assert!(Instant::now() < deadline, "a server was left behind");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_user_ends_it() {
    if !may_race() {
        return;
    }
    for with in [Signal::INT, Signal::TERM] {
        let (mut bench, server) = long_race();
        let start = Instant::now();
        signal(&bench.0, with);
        assert_eq!(wait(&mut bench.0).code(), Some(130));
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        gone(server);
    }
}

#[test]
fn sigkill_leaves_no_server() {
    if !may_race() {
        return;
    }
    let (bench, server) = long_race();
    drop(bench);
    gone(server);
}

#[test]
fn a_server_that_dies_is_an_error_and_no_number() {
    if !may_race() {
        return;
    }
    let (mut bench, server) = long_race();
    let pid = Pid::from_raw(i32::try_from(server).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert_eq!(wait(&mut bench.0).code(), Some(4));
    let err = common::line(bench.0.stderr.as_mut().unwrap());
    assert!(err.contains("fastpath, round 1") && err.contains("connection closed at iteration"), "{err}");
}

/// Starts a program that only pretends to be a server.
fn pretend(script: &str) -> anyhow::Result<Server> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/fake").join(script);
    Server::start(&script, Kind::Naive, None, &AtomicBool::new(false))
}

#[test]
fn a_taken_port_is_tried_again_but_not_for_ever() {
    let error = pretend("port-taken.sh").unwrap_err().to_string();
    assert!(error.starts_with("no port for a server after 5 attempts: fake: error: bind 0.0.0.0:"), "{error}");
}

#[test]
fn another_refusal_is_passed_on() {
    let error = pretend("refused.sh").unwrap_err().to_string();
    assert_eq!(error, "a server did not start: fake: error: socket: Permission denied");
}

#[test]
fn a_server_that_does_not_stop_is_killed() {
    let server = pretend("deaf.sh").unwrap();
    let pid = server.pid();
    let error = server.stop().unwrap_err().to_string();
    assert_eq!(error, "a server that was asked to stop did not within 1 s");
    assert!(!is_alive(pid));
}

#[test]
fn an_interrupted_start_says_so() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/fake/deaf.sh");
    let error = Server::start(&script, Kind::Naive, None, &AtomicBool::new(true)).unwrap_err();
    assert!(error.is::<Interrupted>());
}
