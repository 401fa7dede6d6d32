//! The program as scripts and people see it: exit codes, streams, options, colours, help.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what cannot go on has failed")]

mod common;

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::CommandFactory as _;
use common::{CPU, Laid, ONLINE, POSSIBLE, PRESENT, Run, Tree, builtin, has_escapes, quietcore, scrub};
use quietcore::exit;
use quietcore::fact;
use quietcore::plan::Plan;
use quietcore::reading::is_obeyed;
use quietcore::rule::pack::{BASE, PACKS, Pack};
use serde_json::Value;

const TUNED: &[&str] = &["check", "--plan", "fixtures/tuned/plan.toml", "--root", "fixtures/tuned/root"];
const MISTUNED: &[&str] = &["check", "--plan", "fixtures/mistuned/plan.toml", "--root", "fixtures/mistuned/root"];
/// A guest: the governor cannot be judged, everything else passes.
const GUEST: &[&str] =
    &["check", "--plan", "fixtures/unseen/governor/plan.toml", "--root", "fixtures/unseen/governor/root"];

fn run(args: &[&str], more: &[&str]) -> Run {
    quietcore(args).args(more)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The ids of a JSON report.
fn ids(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["rule"].as_str().unwrap()).collect()
}

/// A snapshot of a text that the program printed.
fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, scrub(text, &[])));
}

/// A tree with nothing but a topology: sockets × cores × threads, the threads of a core `cores` apart in their socket.
fn machine(sockets: u32, cores: u32, threads: u32) -> Tree {
    let all = sockets * cores * threads;
    let list = format!("0-{}\n", all - 1).replace("0-0", "0");
    let mut tree = Tree::empty().with(ONLINE, &list).with(POSSIBLE, &list).with(PRESENT, &list);
    for socket in 0..sockets {
        let first = socket * cores * threads;
        let end = first + cores * threads - 1;
        tree = tree.with(&format!("sys/devices/system/node/node{socket}/cpulist"), format!("{first}-{end}\n"));
        for core in 0..cores {
            let siblings: quietcore::cpuset::CpuSet =
                (0..threads).map(|thread| first + core + thread * cores).collect();
            for cpu in siblings.iter() {
                tree = tree.with(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"), format!("{siblings}\n"));
            }
        }
    }
    tree
}

/// The machine of the worked case: 2 sockets × 8 cores × 2 threads, the interface on node 1.
fn worked_case() -> Laid {
    machine(2, 8, 2).with("sys/class/net/ens1f0/device/numa_node", "1\n").lay()
}

// ---- exit codes and streams --------------------------------------------------------------------------------------

#[test]
fn exit_codes_are_what_the_table_says() {
    assert_eq!([exit::PASSED, exit::FAILED, exit::USAGE, exit::UNKNOWN, exit::INTERNAL], [0, 1, 2, 3, 4]);
    let codes: Vec<u8> = exit::TABLE.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [0, 1, 2, 3, 4]);
    let help = quietcore(["--help"]).done().answer(0);
    for code in codes {
        assert!(help.lines().any(|line| line.starts_with(&format!("  {code}  "))), "{code} in\n{help}");
    }
}

#[test]
fn reports_go_to_standard_output_and_give_the_code() {
    for (args, code, strict_code) in [(TUNED, 0, 0), (MISTUNED, 1, 1), (GUEST, 0, 3)] {
        let human = run(args, &[]).done().answer(code);
        assert!(
            builtin().iter().filter(|rule| rule.pack == Some(BASE)).all(|rule| human.contains(&rule.id)),
            "{human}"
        );
        let strict = json(&run(args, &["--strict", "--format", "json"]).done().answer(strict_code));
        assert_eq!((&strict["exit_code"], &strict["strict"]), (&Value::from(strict_code), &Value::from(true)));
        let lax = json(&run(args, &["--format", "json"]).done().answer(code));
        assert_eq!((&lax["exit_code"], &lax["strict"]), (&Value::from(code), &Value::from(false)));
        assert_eq!(lax["findings"], strict["findings"]);
    }
}

#[test]
fn an_advised_rule_decides_nothing() {
    let folder = "fixtures/one/plan_topology";
    let (plan, root) = (format!("{folder}/plan.toml"), format!("{folder}/root"));
    let args = ["check", "--plan", &plan, "--root", &root, "--format", "json"];
    for more in [&[][..], &["--strict"]] {
        let report = json(&quietcore(args).args(more).done().answer(0));
        let found = report["findings"].as_array().unwrap().iter().find(|f| f["rule"] == "plan_topology").unwrap();
        assert_eq!(
            (&report["verdict"], &found["verdict"], &found["level"]),
            (&"pass".into(), &"fail".into(), &"advised".into())
        );
    }
}

#[test]
fn a_plan_may_require_what_is_advised() {
    let text = fs::read_to_string("fixtures/one/plan_topology/plan.toml").unwrap();
    let root = Path::new(common::TOP).join("fixtures/one/plan_topology/root");
    let dir = tempfile::tempdir().unwrap();
    let check = |plan: &str| {
        fs::write(dir.path().join("plan.toml"), plan).unwrap();
        quietcore(["check", "--plan", "plan.toml", "--format", "json", "--root"]).args([&root]).cwd(dir.path())
    };
    let report = json(&check(&format!("require = [\"plan_topology\"]\n{text}")).done().answer(1));
    let found = report["findings"].as_array().unwrap().iter().find(|f| f["rule"] == "plan_topology").unwrap();
    assert_eq!(found["level"], "required");
    let refusal = check(&format!("require = [\"plan_topologie\"]\n{text}")).done().refusal();
    assert!(refusal.contains("plan.toml:1:12") && refusal.contains("`plan_topology`"), "{refusal}");
}

#[test]
fn mistakes_in_the_command_line_are_refused() {
    for args in [
        &["frobnicate"][..],
        &["check", "--frobnicate"],
        &["check", "--format", "yaml"],
        &["check", "--color", "sometimes"],
        &["check", "--quiet", "--verbose"],
        &["check", "a positional"],
        &["plan"],
        &["plan", "check"],
        &["rules"],
        &["rules", "show"],
        &["rules", "show", "no_such_rule"],
        &["gate", "--plan", "fixtures/tuned/plan.toml", "--root", "fixtures/tuned/root"],
        &[],
    ] {
        let done = quietcore(args).done();
        assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{args:?}: {}", done.err);
        assert!(!done.err.is_empty() && !has_escapes(&done.err), "{args:?}");
    }
}

#[test]
fn plans_and_roots_that_are_none_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plan.toml"), common::PLAN).unwrap();
    fs::create_dir(dir.path().join("root")).unwrap();
    fs::write(dir.path().join("file"), "2-5\n").unwrap();
    fs::write(dir.path().join("latin.toml"), b"nic = \"\xe9\"\n").unwrap();
    for (plan, root, named) in [
        ("nowhere.toml", "root", "nowhere.toml"),
        ("root", "root", "root"),
        ("latin.toml", "root", "latin.toml"),
        ("plan.toml", "nowhere", "nowhere"),
        ("plan.toml", "file", "file"),
    ] {
        let check = quietcore(["check", "--plan", plan, "--root", root]).cwd(dir.path()).done().refusal();
        assert!(check.contains(named), "{check}");
        let plan_check = quietcore(["plan", "check", plan, "--root", root]).cwd(dir.path()).done().refusal();
        assert!(plan_check.contains(named), "{plan_check}");
    }
    for root in ["nowhere", "file"] {
        let suggest = quietcore(["plan", "suggest", "--root", root]).cwd(dir.path()).done().refusal();
        assert!(suggest.contains(root), "{suggest}");
        assert!(quietcore(["check", "--root", root]).cwd(dir.path()).done().refusal().contains(root));
    }
}

#[test]
fn a_wrong_capture_toml_is_refused() {
    for (text, place) in [
        ("schema = 2\n", "root/capture.toml:1:"),
        ("schema = 1\n[errors]\n\"/proc\" = \"EIO\"\n", "root/capture.toml:3:"),
        ("schema = 1\n[errors]\n\"proc\" = \"EWHAT\"\n", "root/capture.toml:3:"),
        ("schema = 1\n[erors]\n", "root/capture.toml:2:"),
    ] {
        let refusal = Tree::tuned().with("capture.toml", text).lay().check(&[]).done().refusal();
        assert!(refusal.contains(place), "{refusal}");
    }
}

#[test]
fn mistakes_in_a_plan_are_located_all_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let text = "isolate = \"1\"\nrealtime = 1\nlocked-memory = \"1 GiX\"\nidle = \"3-1\"\n[hot]\na = 3\nb = \"2-3\"\n";
    fs::write(dir.path().join("plan.toml"), text).unwrap();
    fs::create_dir(dir.path().join("root")).unwrap();
    let refusal = quietcore(["check", "--plan", "plan.toml", "--root", "root"]).cwd(dir.path()).done().refusal();
    for place in ["1:1", "2:12", "3:17", "4:9", "7:5"] {
        assert!(refusal.contains(&format!("plan.toml:{place}")), "{place} in\n{refusal}");
    }
    let again = quietcore(["plan", "check", "plan.toml", "--root", "root"]).cwd(dir.path()).done().refusal();
    assert_eq!(again, refusal);
    snapshot("plan_mistakes", &refusal);

    for (text, words) in [
        ("[hot\n", &[":1:"][..]),
        ("[hot]\n", &[":1:1", "[hot] is empty"]),
        ("", &["[hot] is missing"]),
        ("[hot]\na = 1\n[cold]\na = 2\n", &[":4:1", "twice"]),
        ("idle = \"2\"\n[hot]\na = 2\n", &[":3:5", "CPU 2"]),
    ] {
        fs::write(dir.path().join("plan.toml"), text).unwrap();
        let refusal = quietcore(["check", "--plan", "plan.toml", "--root", "root"]).cwd(dir.path()).done().refusal();
        assert!(words.iter().all(|word| refusal.contains(word)), "{words:?} in\n{refusal}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_quietcore"))
        .args(MISTUNED)
        .args(["--verbose"])
        .current_dir(common::TOP)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The reader is gone before the first line is there.
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(1), ""));
}

#[test]
fn an_answer_that_cannot_be_written_is_an_internal_error() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        println!("skipped: no /dev/full");
        return;
    };
    for args in [TUNED, &["rules", "list"], &["rules", "facts"], &["rules", "show", "thp"]] {
        let done = quietcore(args).out_to(full.try_clone().unwrap());
        assert_eq!(done.code, Some(4), "{args:?}: {}", done.err);
        assert!(!done.err.is_empty() && !done.err.contains("panicked"), "{}", done.err);
    }
}

// ---- options of check --------------------------------------------------------------------------------------------

#[test]
fn only_and_skip_choose_rules() {
    let of = |more: &[&str]| {
        let out = run(MISTUNED, &[&["--format", "json"], more].concat()).done();
        ids(&json(&out.out)).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of(&["--only", "thp"]), ["thp"]);
    assert_eq!(of(&["--only", " thp , cstate "]), ["cstate", "thp"]);
    // In report order, whatever the order asked for.
    assert_eq!(of(&["--only", "thp,isolated", "--only", "cstate"]), ["isolated", "cstate", "thp"]);
    assert_eq!(of(&["--only", "thp,cstate", "--skip", "thp"]), ["cstate"]);
    let all = builtin().iter().count();
    assert_eq!(of(&["--skip", "thp,cstate"]).len(), all - 2);
    // The code is that of the rules which were judged.
    run(MISTUNED, &["--only", "isolated,rt_throttle"]).done().answer(0);
    run(MISTUNED, &["--only", "thp"]).done().answer(1);
}

#[test]
fn only_and_skip_name_rules_that_there_are() {
    for option in ["--only", "--skip"] {
        let refusal = run(TUNED, &[option, "thp,isolatd"]).done().refusal();
        assert!(refusal.contains(option) && refusal.contains("isolatd") && refusal.contains("`isolated`"), "{refusal}");
        let refusal = run(TUNED, &[option, "quite_another_thing"]).done().refusal();
        assert!(refusal.contains("rules list"), "{refusal}");
    }
    // An empty id is no id.
    run(TUNED, &["--only", ""]).done().refusal();
}

#[test]
fn nothing_left_to_judge_is_no_pass() {
    let all = builtin().iter().map(|rule| rule.id.as_str()).collect::<Vec<_>>().join(",");
    run(TUNED, &["--skip", &all]).done().refusal();
    run(TUNED, &["--only", "thp", "--skip", "thp"]).done().refusal();
}

#[test]
fn quiet_says_what_did_not_pass() {
    let out = run(MISTUNED, &["--quiet"]).done().answer(1);
    assert!(out.contains("siblings") && !out.contains("rt_throttle"), "{out}");
    let out = run(TUNED, &["--quiet", "--only", "isolated,thp"]).done().answer(0);
    assert_eq!(out.lines().count(), 1, "the summary alone: {out}");
    let out = run(GUEST, &["-q", "--only", "isolated,governor"]).done().answer(0);
    assert!(out.contains("governor") && !out.contains("isolated"), "{out}");
}

#[test]
fn verbose_shows_the_files_with_the_text_read() {
    let normal = run(TUNED, &[]).done().answer(0);
    let verbose = run(TUNED, &["--verbose"]).done().answer(0);
    assert!(verbose.len() > normal.len());
    for text in ["sys/devices/system/cpu/isolated", "sys/kernel/mm/transparent_hugepage/defrag", "[madvise]"] {
        assert!(verbose.contains(text), "{text} in\n{verbose}");
    }
    snapshot("check_verbose", &verbose);
    snapshot("check_quiet", &run(MISTUNED, &["--quiet"]).done().answer(1));
}

#[test]
fn machine_formats_heed_no_detail() {
    let plain = run(MISTUNED, &["--format", "json"]).done().answer(1);
    for more in [&["--quiet"][..], &["--verbose"], &["--color", "always"]] {
        assert_eq!(run(MISTUNED, &[&["--format", "json"], more].concat()).done().answer(1), plain, "{more:?}");
    }
}

#[test]
fn the_json_report_has_the_keys_of_schema_1() {
    let report = json(&run(MISTUNED, &["--format", "json"]).done().answer(1));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let has = |value: &Value, wanted: &[&str]| {
        let keys = keys(value);
        assert!(wanted.iter().all(|key| keys.iter().any(|k| k == key)), "{wanted:?} in {keys:?}");
    };
    has(&report, &["schema", "verdict", "exit_code", "counts", "plan", "host", "findings"]);
    has(&report["counts"], &["pass", "fail", "unknown", "not-applicable", "waived"]);
    has(&report["plan"], &["hot", "idle", "housekeeping"]);
    has(&report["host"], &["root", "kernel"]);
    assert_eq!(report["schema"], 1);
    let findings = report["findings"].as_array().unwrap();
    for finding in findings {
        has(
            finding,
            &[
                "rule",
                "level",
                "verdict",
                "cause",
                "title",
                "message",
                "wanted",
                "found",
                "offending",
                "sources",
                "fix",
                "waiver",
            ],
        );
        for source in finding["sources"].as_array().unwrap() {
            has(source, &["path", "text"]);
        }
        // A remedy belongs to a failure, and every required rule has one.
        let is_broken = finding["verdict"] == "fail";
        let must_have = is_broken && finding["level"] == "required";
        assert!(finding["fix"].is_object() || !must_have, "{finding}");
        assert!(finding["fix"].is_null() || is_broken, "{finding}");
    }
    let total: u64 = report["counts"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(total, findings.len() as u64);
    let siblings = findings.iter().find(|finding| finding["rule"] == "siblings").unwrap();
    assert_eq!(siblings["offending"]["cpus"], "29-31");
    let guest = json(&run(GUEST, &["--format", "json"]).done().answer(0));
    let governor = guest["findings"].as_array().unwrap().iter().find(|f| f["rule"] == "governor").unwrap();
    assert_eq!((&governor["verdict"], &governor["cause"]), (&"unknown".into(), &"not-exposed".into()));
}

#[test]
fn the_same_command_prints_the_same_bytes() {
    let printed = |more: &[&str]| scrub(&run(MISTUNED, more).done().answer(1), &[]);
    for more in [&[][..], &["--verbose"], &["--format", "json"]] {
        assert_eq!(printed(more), printed(more));
    }
}

// ---- colours -----------------------------------------------------------------------------------------------------

#[test]
fn a_pipe_gets_no_escape_codes() {
    for args in [TUNED, MISTUNED, &["rules", "list"], &["rules", "show", "thp"], &["--help"]] {
        assert!(!has_escapes(&quietcore(args).done().out), "{args:?}");
    }
    let refusal = quietcore(["check", "--plan", "nowhere.toml"]).done().refusal();
    assert!(!has_escapes(&refusal));
}

#[test]
fn colours_are_the_users_to_choose() {
    let escapes = |args: &[&str], env: &[(&str, &str)]| {
        let run = env.iter().fold(run(MISTUNED, args), |run, (name, value)| run.env(name, value));
        has_escapes(&run.done().answer(1))
    };
    let (no, force) = (("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1"));
    assert!(!escapes(&[], &[]));
    assert!(escapes(&["--color", "always"], &[]));
    assert!(!escapes(&["--color", "never"], &[]));
    assert!(escapes(&[], &[force]));
    assert!(escapes(&["--color", "auto"], &[force]));
    assert!(!escapes(&["--color", "never"], &[force]));
    assert!(escapes(&["--color", "always"], &[no]));
    assert!(!escapes(&[], &[no]));
    // An empty NO_COLOR is none.
    assert!(escapes(&[], &[("NO_COLOR", ""), force]));
    // The option may stand before the subcommand too.
    assert!(has_escapes(&quietcore(["--color", "always"]).args(MISTUNED).done().answer(1)));
}

/// Names in a tree, texts of rules, plans and waivers are anybody's: a terminal is never made to obey them.
#[test]
fn no_text_of_anybody_reaches_the_terminal_as_an_escape() {
    const ESCAPE: &str = "\u{1b}[2J\u{9b}2J\u{7f}\u{202e}";
    let rule = r#"schema = 1
title = "title \u001b[2J"
level = "required"
why = "why \u001b[2J"
[fix]
runtime = "fix \u001b[2J"
[[assert]]
that = "cpu.governor[plan.hot]"
is = "performance"
else = "else \u001b[2J {offending}"
"#;
    let plan = "[hot]\na = 2\n[cold]\n\"b \\u009b\" = 4\n";
    let laid = Tree::tuned()
        .with("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", format!("power{ESCAPE}save\n"))
        .with("proc/sys/kernel/osrelease", format!("6.1.0{ESCAPE}\n"))
        .with(&format!("sys/fs/cgroup/group{ESCAPE}/cpuset.cpus.partition"), "isolated\n")
        .with(&format!("sys/fs/cgroup/group{ESCAPE}/cpuset.cpus.effective"), "2\n")
        .line(30, &format!("eth{ESCAPE}"), "0-7", "0")
        .lay();
    let dir = laid.dir.path();
    fs::create_dir(dir.join("rules")).unwrap();
    fs::write(dir.join("rules/terminal.toml"), rule).unwrap();
    let named = format!("plan{ESCAPE}\n.toml");
    fs::write(dir.join(&named), "[hot]\na = 2\n").unwrap();
    fs::write(dir.join("wrong.toml"), plan).unwrap();
    let check = ["--color", "always", "check", "--root", "root", "--rules", "rules", "--plan"];
    let runs = [
        laid.run(&check).args([named.as_str(), "--verbose"]),
        laid.run(&check).args([named.as_str(), "--quiet"]),
        laid.run(&check).args(["wrong.toml"]),
        laid.run(&check).args([format!("nowhere{ESCAPE}")]),
        laid.run(&["--color", "always", "check", "--plan", &named, "--root", &format!("nowhere{ESCAPE}")]),
        laid.run(&["--color", "always", "rules", "list", "--rules", "rules"]),
        laid.run(&check).args([named.as_str(), "--format", "json"]),
        laid.run(&["diff", "root", ".", "--format", "json", "--plan", &named]),
    ];
    for (index, run) in runs.into_iter().enumerate() {
        let done = run.done();
        let text = done.out + &done.err;
        // Colours are the only escapes, and end in `m`.
        for code in text.split('\u{1b}').skip(1) {
            let end = code.find(|c: char| c.is_ascii_alphabetic()).map(|end| &code[end..=end]);
            assert_eq!(end, Some("m"), "{index}: {text:?}");
        }
        assert!(!text.contains(|c: char| is_obeyed(c) && !matches!(c, '\n' | '\u{1b}')), "{index}: {text:?}");
    }
}

#[test]
fn a_waived_failure_was_judged() {
    let laid = Tree::tuned().thp("[always] madvise never").lay();
    let waiver = "[[waiver]]\nrule = \"thp\"\nreason = \"r\"\nowner = \"o\"\nexpires = 2999-01-01\n";
    fs::write(laid.dir.path().join("waivers.toml"), waiver).unwrap();
    let out = laid.check(&["--only", "thp", "--waivers", "waivers.toml", "--quiet"]).done().answer(0);
    assert!(out.contains("\npass: 0 passed, 0 failed, 1 waived"), "{out}");
}

#[test]
fn colours_change_no_word() {
    let plain = run(MISTUNED, &[]).done().answer(1);
    let colored = run(MISTUNED, &["--color", "always"]).done().answer(1);
    let stripped = anstream::adapter::strip_str(&colored).to_string();
    assert_eq!(scrub(&stripped, &[]), scrub(&plain, &[]));
}

// ---- help --------------------------------------------------------------------------------------------------------

/// Every command and subcommand, as typed.
fn commands() -> Vec<Vec<String>> {
    fn walk(command: &clap::Command, path: &[String], into: &mut Vec<Vec<String>>) {
        into.push(path.to_owned());
        // `bench` hands everything over to another program, `--help` too.
        let is_own = |subcommand: &&clap::Command| !matches!(subcommand.get_name(), "help" | "bench");
        for subcommand in command.get_subcommands().filter(is_own) {
            walk(subcommand, &[path, &[subcommand.get_name().to_owned()]].concat(), into);
        }
    }
    let mut all = Vec::new();
    walk(&quietcore::cli::Cli::command(), &[], &mut all);
    all
}

#[test]
fn help_reads_in_79_columns() {
    let commands = commands();
    assert!(commands.len() > 8, "{commands:?}");
    for command in commands {
        for flag in ["--help", "-h"] {
            // A wide terminal makes no difference.
            let help = quietcore(&command).args([flag]).env("COLUMNS", "200").done().answer(0);
            let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 79).collect();
            assert!(long.is_empty(), "{command:?} {flag}: {long:#?}");
            assert!(help.contains("Usage:") && !has_escapes(&help), "{command:?}");
            if flag == "--help" {
                let name = [&["help".to_owned()], command.as_slice()].concat().join("_");
                snapshot(&name, &help);
            }
        }
    }
}

#[test]
fn the_version_is_the_packages() {
    let version = concat!("quietcore ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(quietcore(["--version"]).done().answer(0), version);
    assert_eq!(quietcore(["-V"]).done().answer(0), version);
}

// ---- plan --------------------------------------------------------------------------------------------------------

#[test]
fn the_worked_case_of_plan_suggest() {
    let laid = worked_case();
    let args = ["plan", "suggest", "--nic", "ens1f0", "--hot", "feed,strategy,gateway", "--cold", "logger", "--root"];
    let text = laid.run(&args).args(["root"]).done().answer(0);
    let plan = Plan::parse("plan.toml", &text).unwrap();
    let role = |name: &str| plan.role(name).unwrap().cpus.to_string();
    assert_eq!([role("feed"), role("strategy"), role("gateway"), role("logger")], ["21", "22", "23", "28"]);
    assert_eq!(plan.idle.as_ref().unwrap().to_string(), "29-31");
    assert_eq!(plan.housekeeping.as_ref().unwrap().to_string(), "0-20,24-28");
    assert_eq!(plan.nic.as_deref(), Some("ens1f0"));
    snapshot("plan_suggest", &text);
    // Blanks around the names are no part of them.
    let args = ["plan", "suggest", "--nic", "ens1f0", "--hot", " feed , strategy,gateway ", "--cold", " logger"];
    assert_eq!(laid.run(&args).args(["--root", "root"]).done().answer(0), text);

    // What is suggested fits.
    fs::write(laid.dir.path().join("suggested.toml"), &text).unwrap();
    let out = laid.run(&["plan", "check", "suggested.toml", "--root", "root"]).done().answer(0);
    assert!(out.contains("plan_topology"), "{out}");
}

#[test]
fn plan_suggest_refuses_what_cannot_be() {
    let laid = worked_case();
    let nine = "a,b,c,d,e,f,g,h,i";
    for (args, words) in [
        (&["--nic", "ens1f0", "--hot", nine][..], &["9", "8"][..]),
        (&["--nic", "ens1fo", "--hot", "a"], &["ens1fo", "ens1f0"]),
        (&["--hot", "a,a"], &["`a`", "twice"]),
        (&["--hot", "idle"], &["`idle`"]),
        (&["--hot", ""], &["role"]),
        (&["--hot", "a, ,b"], &["role"]),
    ] {
        let refusal = laid.run(&["plan", "suggest", "--root", "root"]).args(args).done().refusal();
        assert!(words.iter().all(|word| refusal.contains(word)), "{args:?}: {refusal}");
    }
    let refusal = Tree::empty().lay().run(&["plan", "suggest", "--root", "root"]).done().refusal();
    assert!(!refusal.is_empty());
}

#[test]
fn plan_check_tells_what_does_not_fit() {
    let laid = worked_case();
    let check = |plan: &str| {
        fs::write(laid.dir.path().join("plan.toml"), plan).unwrap();
        laid.run(&["plan", "check", "plan.toml", "--root", "root"]).done()
    };
    let good = "nic = \"ens1f0\"\nidle = \"29-30\"\n[hot]\na = 21\nb = 22\n";
    let out = check(good).answer(0);
    snapshot("plan_check_fits", &out);
    for (what, plan) in [
        ("a hot CPU that the host lacks", "[hot]\na = 21\nb = 64\n"),
        ("two roles on one core", "[hot]\na = 21\nb = 29\n"),
        ("a hot CPU off the NIC's node", "nic = \"ens1f0\"\nidle = \"13\"\n[hot]\na = 5\n"),
        ("no housekeeping CPU", "idle = \"0,8\"\n[hot]\na = \"1-7,9-31\"\n"),
        ("CPU 0 is hot", "idle = \"8\"\n[hot]\na = 0\n"),
        ("a sibling is missing from idle", "idle = \"29\"\n[hot]\na = 21\nb = 22\n"),
    ] {
        let out = check(plan).answer(1);
        assert!(out.contains("plan_topology"), "{what}: {out}");
    }
    snapshot("plan_check_does_not_fit", &check("[hot]\na = 21\nb = 64\n").answer(1));
}

// ---- check without a plan ----------------------------------------------------------------------------------------

#[test]
fn without_a_plan_two_spare_cores_are_judged() {
    let laid = machine(1, 3, 1).lay();
    let out = laid.run(&["check", "--root", "root"]).done().answer(1);
    assert!(out.starts_with("no plan given"), "{out}");
    assert!(out.contains("quietcore plan suggest --root root > plan.toml"), "{out}");
    snapshot("check_without_plan", &out);

    // Machine formats have the report alone, and the same plan.
    let report = json(&laid.run(&["check", "--root", "root", "--format", "json"]).done().answer(1));
    assert_eq!((&report["plan"]["hot"], &report["plan"]["name"]), (&"1-2".into(), &Value::Null));

    // What it says to type gives the plan that it judged for.
    let suggested = laid.run(&["plan", "suggest", "--root", "root"]).done().answer(0);
    fs::write(laid.dir.path().join("plan.toml"), suggested).unwrap();
    let kept =
        json(&laid.run(&["check", "--plan", "plan.toml", "--root", "root", "--format", "json"]).done().answer(1));
    assert_eq!(kept["findings"], report["findings"]);
}

#[test]
fn without_a_plan_one_cpu_has_nothing_to_spare() {
    let laid = machine(1, 1, 1).lay();
    let refusal = laid.run(&["check", "--root", "root"]).done().refusal();
    assert!(refusal.contains("nothing to spare"), "{refusal}");
    snapshot("check_without_plan_one_cpu", &refusal);
    // A plan of one's own is judged all the same.
    fs::write(laid.dir.path().join("plan.toml"), "[hot]\na = 0\n").unwrap();
    laid.check(&[]).done().answer(1);
}

#[test]
fn without_a_plan_a_tree_without_cpus_is_refused() {
    let laid = Tree::empty().lay();
    for format in ["human", "json"] {
        laid.run(&["check", "--root", "root", "--format", format]).done().refusal();
    }
}

// ---- packs, and what a plan says of rules ------------------------------------------------------------------------

/// The packs of the findings of a JSON report, each once.
fn packs(report: &Value) -> Vec<&str> {
    let mut packs: Vec<&str> =
        report["findings"].as_array().unwrap().iter().map(|finding| finding["pack"].as_str().unwrap()).collect();
    packs.dedup();
    packs
}

#[test]
fn packs_choose_rules() {
    let of = |more: &[&str], code| json(&run(MISTUNED, &[&["--format", "json"], more].concat()).done().answer(code));
    let all = of(&[], 1);
    assert_eq!(of(&["--packs", "all"], 1), all);
    assert_eq!(ids(&all).len(), builtin().iter().count());
    assert_eq!(packs(&of(&["--packs", "base"], 1)), ["base"]);
    // What does not decide fails nothing.
    assert_eq!(packs(&of(&["--packs", "topology"], 0)), ["topology"]);
    assert_eq!(packs(&of(&["--packs", "topology,base"], 1)), ["base", "topology"]);
    // Rules are named whatever their packs.
    assert_eq!(ids(&of(&["--packs", "topology", "--only", "thp"], 1)), ["thp"]);
    assert!(!ids(&of(&["--packs", "topology,base", "--skip", "thp"], 1)).contains(&"thp"));
}

#[test]
fn packs_are_those_that_there_are() {
    for command in ["check", "gate", "diff", "fix"] {
        let args: &[&str] = match command {
            "diff" => &["fixtures/tuned/root", "fixtures/tuned/root"],
            "gate" => &["--", "true"],
            _ => &[],
        };
        let plan = ["--plan", "fixtures/tuned/plan.toml", "--packs", "topologie"];
        let refusal = quietcore([command]).args(plan).args(args).done().refusal();
        assert!(refusal.contains("did you mean `topology`?"), "{command}: {refusal}");
    }
    run(TUNED, &["--packs", ""]).done().refusal();
}

#[test]
fn a_rule_of_no_pack_is_judged_whatever_the_packs() {
    let dir = tempfile::tempdir().unwrap();
    let rule = |pack: &str| {
        format!(
            "schema = 1\ntitle = \"t\"\nlevel = \"advised\"\nwhy = \"w\"\n{pack}[[assert]]\nthat = \"plan.hot\"\nwithin = \"cpu.isolated\"\n"
        )
    };
    fs::write(dir.path().join("mine.toml"), rule("")).unwrap();
    fs::write(dir.path().join("minded.toml"), rule("pack = \"memory\"\n")).unwrap();
    let rules = dir.path().to_str().unwrap();
    let of = |packs: &str| {
        let out = run(TUNED, &["--rules", rules, "--packs", packs, "--format", "json"]).done().answer(0);
        let report = json(&out);
        ids(&report).into_iter().filter(|id| id.starts_with("min")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of("topology"), ["mine"]);
    assert_eq!(of("memory"), ["minded", "mine"]);
    // The user's own rules have a line each.
    let human = run(TUNED, &["--rules", rules]).done().answer(0);
    assert!(human.contains("+ pass     mine ") && !human.contains(" minded "), "{human}");
}

/// A plan of the tuned host with these lines at its top.
fn plan_with(lines: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.toml");
    let plan = fs::read_to_string("fixtures/tuned/plan.toml").unwrap();
    fs::write(&path, format!("{lines}\n{plan}")).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

fn gate(plan: &str, more: &[&str], root: &str) -> common::Done {
    quietcore(["gate", "--plan", plan, "--root", root]).args(more).args(["--", "true"]).done()
}

#[test]
fn a_gate_judges_what_decides_and_never_less() {
    let (tuned, mistuned) = ("fixtures/tuned/root", "fixtures/mistuned/root");
    let summary = |done: common::Done, code| {
        assert_eq!(done.code, Some(code), "{}", done.err);
        done.err.lines().last().unwrap().to_owned()
    };
    let (_dir, plan) = plan_with("");
    assert!(summary(gate(&plan, &[], tuned), 0).starts_with("pass: 11 passed, 0 failed; "));
    assert!(summary(gate(&plan, &["--packs", "topology"], tuned), 0).starts_with("pass: "));
    // The base is in, whatever is asked for.
    let refused = summary(gate(&plan, &["--packs", "topology"], mistuned), 1);
    assert!(refused.contains(" 9 failed"), "{refused}");
    // And so is what the plan requires: CPU 5 is not on the node of the NIC.
    let lines = "require = [\"plan_topology\"]";
    let (_dir, required) = plan_with(lines);
    assert!(summary(gate(&required, &[], tuned), 0).starts_with("pass: 12 passed, 0 failed; "));
    for more in [&[][..], &["--packs", "memory"]] {
        let text = fs::read_to_string(&required).unwrap().replace("feed = 21", "feed = 5").replace("0-20", "0-4");
        fs::write(&required, text).unwrap();
        let done = gate(&required, more, tuned);
        assert!(done.err.contains("plan_topology") && done.code == Some(1), "{}", done.err);
    }
}

#[test]
fn a_check_of_some_packs_judges_what_the_plan_requires() {
    let (_dir, plan) = plan_with("require = [\"plan_topology\"]");
    let args = ["check", "--plan", &plan, "--root", "fixtures/tuned/root", "--packs", "base", "--format", "json"];
    let report = json(&quietcore(args).done().answer(0));
    assert_eq!(ids(&report).last(), Some(&"plan_topology"));
    assert_eq!(report["findings"].as_array().unwrap().last().unwrap()["level"], "required");
}

#[test]
fn a_plan_drops_rules_visibly() {
    for (lines, why) in [
        ("skip = [\"plan_topology\"]", "the plan drops it: it gives no reason"),
        ("skip = { plan_topology = \"one node only\" }", "the plan drops it: one node only"),
    ] {
        let (_dir, plan) = plan_with(lines);
        let args = ["check", "--plan", &plan, "--root", "fixtures/tuned/root"];
        let report = json(&quietcore(args).args(["--format", "json"]).done().answer(0));
        let found = report["findings"].as_array().unwrap().iter().find(|f| f["rule"] == "plan_topology").unwrap();
        assert_eq!((&found["verdict"], &found["message"]), (&"not-applicable".into(), &why.into()));
        assert_eq!(found["sources"], Value::Array(Vec::new()));
        for more in [&[][..], &["--quiet"], &["--verbose"]] {
            let human = quietcore(args).args(more).done().answer(0);
            assert!(human.contains("- n/a") && human.contains(why), "{more:?}: {human}");
        }
    }
}

#[test]
fn what_a_plan_says_of_rules_is_checked() {
    let lines = "require = [\"plan_topologi\", \"thp\"]\nskip = { cstate = \"no\", isolatd = \"no\" }";
    let (dir, plan) = plan_with(lines);
    for args in [
        &["check", "--plan", &plan][..],
        &["plan", "check", &plan],
        &["gate", "--plan", &plan, "--", "true"],
        &["explain", "cpu", "21", "--plan", &plan],
        &["fix", "--plan", &plan],
    ] {
        let refusal = quietcore(args).done().refusal();
        for text in [
            "plan.toml:1:12",
            "did you mean `plan_topology`?",
            "plan.toml:2:10",
            "`cstate` is required: a plan drops advised rules only",
            "--waivers",
            "plan.toml:2:25",
            "did you mean `isolated`?",
        ] {
            assert!(refusal.contains(text), "{args:?}: {text} in\n{refusal}");
        }
        assert!(refusal.lines().all(|line| line.chars().count() <= 80 || line.contains("-->")), "{refusal}");
    }
    drop(dir);
}

#[test]
fn a_plan_may_name_rules_of_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let rule = "schema = 1\ntitle = \"t\"\nlevel = \"advised\"\nwhy = \"w\"\n[[assert]]\nthat = \"plan.hot\"\nwithin = \"cpu.offline\"\n";
    fs::write(dir.path().join("mine.toml"), rule).unwrap();
    let rules = dir.path().to_str().unwrap();
    let (_dir, plan) = plan_with("require = [\"mine\"]");
    let root = ["--root", "fixtures/tuned/root"];
    quietcore(["plan", "check", &plan]).args(root).done().refusal();
    quietcore(["plan", "check", &plan, "--rules", rules]).args(root).done().answer(0);
    quietcore(["check", "--plan", &plan, "--rules", rules, "--packs", "topology"]).args(root).done().answer(1);
}

#[test]
fn a_waiver_of_what_a_gate_does_not_judge_is_not_unused() {
    let dir = tempfile::tempdir().unwrap();
    let waivers = dir.path().join("waivers.toml");
    let text = "[[waiver]]\nrule = \"plan_topology\"\nreason = \"r\"\nowner = \"o\"\nexpires = 2999-01-01\n";
    fs::write(&waivers, text).unwrap();
    let more = ["--waivers", waivers.to_str().unwrap()];
    let (_dir, plan) = plan_with("");
    let done = gate(&plan, &more, "fixtures/tuned/root");
    assert_eq!((done.code, done.err.lines().count()), (Some(0), 1), "{}", done.err);
    assert!(run(TUNED, &more).done().answer(0).contains("the waiver of plan_topology is unused"));
}

#[test]
fn a_rule_that_only_informs_fails_nothing_and_reads_so() {
    let dir = tempfile::tempdir().unwrap();
    let rule = "schema = 1\ntitle = \"t\"\nlevel = \"info\"\npack = \"information\"\nwhy = \"w\"\n[fix]\nruntime = \"none\"\n\
                [[assert]]\nthat = \"plan.hot\"\nwithin = \"cpu.offline\"\nelse = \"it is so\"\n";
    fs::write(dir.path().join("remark.toml"), rule).unwrap();
    let rules = ["--rules", dir.path().to_str().unwrap()];
    let human = run(TUNED, &rules).done().answer(0);
    assert!(human.contains("i info     remark") && human.contains(" 2 for information"), "{human}");
    let github = run(TUNED, &[&rules[..], &["--format", "github"]].concat()).done().answer(0);
    assert!(github.contains("::notice title=quietcore%3A remark::it is so"), "{github}");
    let junit = run(TUNED, &[&rules[..], &["--format", "junit"]].concat()).done().answer(0);
    assert!(junit.contains("info: it is so") && !junit.contains("<failure"), "{junit}");
    let fix = quietcore(["fix", "--plan", "fixtures/tuned/plan.toml", "--root", "fixtures/tuned/root"]).args(rules);
    assert!(!fix.done().answer(0).contains("remark"));
}

// ---- rules -------------------------------------------------------------------------------------------------------

#[test]
fn rules_are_listed_in_report_order() {
    let out = quietcore(["rules", "list"]).done().answer(0);
    let rows: Vec<&str> = out.lines().filter(|line| line.starts_with("  ")).collect();
    let ids: Vec<&str> = rows.iter().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(ids, builtin().iter().map(|rule| rule.id.as_str()).collect::<Vec<_>>());
    for (line, rule) in rows.iter().zip(builtin().iter()) {
        assert!(line.contains(rule.level.name()) && line.contains(&rule.title), "{line}");
    }
    let headings: Vec<&str> = out.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
    let has_rules = |pack: &&Pack| builtin().iter().any(|rule| rule.pack == Some(pack.name));
    let wanted: Vec<String> =
        PACKS.iter().filter(has_rules).map(|pack| format!("{}: {}", pack.name, pack.about)).collect();
    assert_eq!(headings, wanted);
}

#[test]
fn a_rule_is_shown_as_its_file() {
    for rule in builtin().iter() {
        let file = fs::read_to_string(format!("rules/{}.toml", rule.id)).unwrap();
        assert_eq!(rule.text, file, "{}", rule.id);
    }
    let shown = quietcore(["rules", "show", "isolated"]).done().answer(0);
    assert_eq!(shown, fs::read_to_string("rules/isolated.toml").unwrap());
    assert!(quietcore(["rules", "show", "isolatd"]).done().refusal().contains("`isolated`"));
}

#[test]
fn facts_are_listed_with_their_types() {
    let out = quietcore(["rules", "facts"]).done().answer(0);
    for fact in fact::facts() {
        assert!(out.contains(&format!("{}  ({})", fact.name, fact.ty())), "{}", fact.name);
        assert!(out.contains(fact.about), "{}", fact.name);
    }
}

// ---- the tree and nothing else -----------------------------------------------------------------------------------

#[test]
fn a_tree_never_falls_through_to_the_live_host() {
    // Whatever the live host has, an empty tree has none of it.
    let out =
        run(&["check", "--plan", "fixtures/bare/plan.toml", "--root", "fixtures/bare/root"], &["--format", "json"]);
    let report = json(&out.done().answer(1));
    assert_eq!(report["host"]["kernel"], Value::Null);
    for finding in report["findings"].as_array().unwrap() {
        for source in finding["sources"].as_array().unwrap() {
            assert_eq!(source["text"], Value::Null, "{finding}");
        }
    }
}

#[test]
fn links_do_not_lead_out_of_a_tree() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("isolated"), "2-5\n").unwrap();
    let target = outside.path().join("isolated");
    let up = Path::new("../../../../../../../../../../../../../../../..").join(target.strip_prefix("/").unwrap());
    for (to, want) in [
        (target.as_path(), "fail"),
        (up.as_path(), "fail"),
        // An absolute link is one inside the tree.
        (Path::new("/sys/devices/system/cpu/nohz_full"), "pass"),
        (Path::new("nohz_full"), "pass"),
        (Path::new("isolated"), "unknown"),
    ] {
        let laid = Tree::tuned().without(common::ISOLATED).lay();
        std::os::unix::fs::symlink(to, laid.root.join(common::ISOLATED)).unwrap();
        let done = laid.check(&["--format", "json", "--only", "isolated"]).done();
        assert_eq!(json(&done.out)["findings"][0]["verdict"], want, "{}", to.display());
    }
}

#[test]
fn what_is_no_file_neither_hangs_nor_passes() {
    let laid = Tree::tuned().without(common::ISOLATED).without(common::NOHZ_FULL).lay();
    rustix::fs::mkfifoat(rustix::fs::CWD, laid.root.join(common::ISOLATED), rustix::fs::Mode::RUSR).unwrap();
    fs::create_dir(laid.root.join(common::NOHZ_FULL)).unwrap();
    let report = json(&laid.check(&["--format", "json", "--only", "isolated,nohz_full"]).done().out);
    for finding in report["findings"].as_array().unwrap() {
        assert_eq!(finding["verdict"], "unknown", "{finding}");
    }
}

#[test]
fn an_audit_of_a_tree_needs_neither_proc_nor_sys() {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_quietcore")]);
        command
    };
    let hide = "mount -t tmpfs none /sys && mount -t tmpfs none /proc && test ! -e /proc/version";
    match unshare(hide).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            println!("skipped: cannot hide /proc and /sys: {}", String::from_utf8_lossy(&output.stderr).trim());
            return;
        }
        Err(error) => {
            println!("skipped: cannot run unshare: {error}");
            return;
        }
    }
    let args = [MISTUNED, &["--format", "json"]].concat();
    let hidden = Run::of(unshare(&format!("{hide} && exec \"$@\"")))
        .args(&args)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .done()
        .answer(1);
    assert_eq!(hidden, quietcore(&args).done().answer(1));
}
