//! The gate: what becomes of the command, what the command finds, and where the report goes.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what cannot go on has failed")]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use common::{Done, Run, Tree, quietcore};
use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_quietcore");
const TUNED: &[&str] = &["gate", "--plan", "fixtures/tuned/plan.toml", "--root", "fixtures/tuned/root"];
const MISTUNED: &[&str] = &["gate", "--plan", "fixtures/mistuned/plan.toml", "--root", "fixtures/mistuned/root"];
const PATH: &str = "/usr/bin:/bin";

/// A gate that lets pass, or refuses, with further options and a command.
fn gate(fixture: &[&str], options: &[&str], command: &[&str]) -> Run {
    quietcore(fixture).args(options).args(["--"]).args(command).env("PATH", PATH)
}

/// A command started by a program (with its arguments), without a gate and with one that lets pass: what each of them came to.
fn without_and_with_a_gate(starter: &[&str], command: &[&str]) -> [Done; 2] {
    let gate = [&[PROGRAM], TUNED, &["--quiet", "--"]].concat();
    [&[][..], &gate].map(|gate| {
        let (program, arguments) = starter.split_first().unwrap();
        Run::of(Command::new(program)).args(arguments).args(gate).args(command).env("PATH", PATH).done()
    })
}

// ---- what the command finds --------------------------------------------------------------------------------------

/// The signals of a process, from its `status`: blocked, ignored and handled.
fn signals(done: Done) -> [u64; 3] {
    let status = done.answer(0);
    ["SigBlk", "SigIgn", "SigCgt"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t")).unwrap();
        u64::from_str_radix(line, 16).unwrap()
    })
}

#[test]
fn signals_are_masked_and_ignored_as_the_caller_had_them() {
    const ENV: &str = "/usr/bin/env";
    const PIPE: u64 = 1 << (13 - 1);
    let can = Run::of(Command::new(ENV)).args(["--default-signal", "--block-signal=USR1", "true"]).env("PATH", PATH);
    if !Path::new(ENV).exists() || can.done().code != Some(0) {
        println!("skipped: env sets no signals here: it takes the one of coreutils 8.31 or newer");
        return;
    }
    for (options, is_pipe_ignored) in [
        (&["--default-signal"][..], false),
        (&["--default-signal", "--ignore-signal=PIPE"], true),
        (&["--default-signal", "--ignore-signal=INT"], false),
        (&["--default-signal", "--ignore-signal=PIPE,INT,CHLD,SEGV,BUS"], true),
        (&["--default-signal", "--block-signal=PIPE,USR1,TERM"], false),
        (&["--ignore-signal", "--block-signal"], true),
    ] {
        let starter = [&[ENV], options].concat();
        let [direct, gated] = without_and_with_a_gate(&starter, &["cat", "/proc/self/status"]).map(signals);
        assert_eq!(gated, direct, "{options:?}");
        assert_eq!(gated[1] & PIPE != 0, is_pipe_ignored, "{options:?}: {gated:x?}");
    }
}

#[test]
fn descriptors_are_those_of_the_caller() {
    // The shell looks by itself, and opens nothing for it.
    const LIST: &str =
        "open=; for fd in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/self/fd/$fd ] && open=\"$open $fd\"; done; echo $open >&9";
    for redirections in ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-", "5</dev/null", "<&- 5</dev/null"] {
        let start = format!("exec \"$@\" 9>&1 {redirections}");
        let starter = ["/bin/sh", "-c", &start, "sh"];
        let [direct, gated] = without_and_with_a_gate(&starter, &["/bin/sh", "-c", LIST]);
        assert!(direct.out.contains('9'), "{redirections}: {direct:?}");
        assert_eq!(gated.out, direct.out, "{redirections}");
    }
}

#[test]
fn the_pid_the_environment_and_the_exit_status_are_the_commands() {
    let starter = ["/bin/sh", "-c", "echo $$; exec \"$@\"", "sh"];
    for done in without_and_with_a_gate(&starter, &["/bin/sh", "-c", "echo $$; echo $PATH; cat; exit 7"]) {
        let out = done.answer(7);
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines.len() == 3 && lines[0] == lines[1] && lines[2] == PATH, "{out}");
    }
}

// ---- commands that do not start ----------------------------------------------------------------------------------

/// A folder with files that are no programs.
fn no_programs() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text, mode) in [
        ("no-format", "echo run by a shell\n", 0o755),
        ("empty", "", 0o755),
        ("no-interpreter", "#!/no/such/interpreter\n", 0o755),
        ("not-executable", "#!/bin/sh\necho run\n", 0o644),
        ("qc-script", "#!/bin/sh\necho run\n", 0o755),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(dir.path().join("folder")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    symlink("loop", dir.path().join("loop")).unwrap();
    dir
}

/// A gate that lets pass, started in a folder with this `PATH` or none, without a word of its own.
fn passed_gate(path: Option<&str>, cwd: &Path, command: &str) -> Done {
    let tuned = Path::new(common::TOP).join("fixtures/tuned");
    let run = quietcore(["gate", "--quiet", "--plan"]).args([tuned.join("plan.toml")]);
    let run = run.args(["--root"]).args([tuned.join("root")]).args(["--", command]).cwd(cwd);
    match path {
        Some(path) => run.env("PATH", path),
        None => run,
    }
    .done()
}

#[test]
fn what_cannot_be_run_is_126_and_no_shell_runs_it() {
    let dir = no_programs();
    for (name, words) in [
        ("no-format", "unknown format"),
        ("empty", "unknown format"),
        ("no-interpreter", "the interpreter that it names, behind #! or in its ELF header, is not there"),
        ("not-executable", "permission denied"),
        ("folder", "it is a folder"),
    ] {
        let path = format!("/no/such/folder:{}:{PATH}", dir.path().display());
        for done in [
            passed_gate(None, dir.path(), &format!("./{name}")),
            passed_gate(None, dir.path(), &dir.path().join(name).display().to_string()),
            passed_gate(Some(&path), Path::new("/"), name),
        ] {
            assert_eq!((done.code, done.out.as_str()), (Some(126), ""), "{name}: {}", done.err);
            assert!(done.err.starts_with("error: failed to run ") && done.err.lines().count() == 1, "{}", done.err);
            assert!(done.err.contains(&format!("/{name}: ")) && done.err.contains(words), "{}", done.err);
        }
    }
    let done = passed_gate(None, dir.path(), "./loop");
    assert_eq!((done.code, done.out.as_str()), (Some(126), ""), "{}", done.err);
}

#[test]
fn what_is_not_there_is_127() {
    let dir = no_programs();
    for command in ["./nothing", "/no/such/program", "./qc-script/below", "./dangling", "./nothing/below"] {
        let done = passed_gate(Some(PATH), dir.path(), command);
        let said = format!("error: failed to run {command}: not found\n");
        assert_eq!((done.code, done.out.as_str(), done.err), (Some(127), "", said), "{command}");
    }
    for command in ["nothing", "dangling", "qc-script"] {
        let done = passed_gate(Some("/no/such/folder:/dev/null"), dir.path(), command);
        let said = format!("error: failed to run {command}: not found on PATH (/no/such/folder:/dev/null)\n");
        assert_eq!((done.code, done.err), (Some(127), said));
    }
    let done = passed_gate(Some(PATH), dir.path(), "");
    assert_eq!((done.code, done.err.as_str()), (Some(127), "error: failed to run a command with an empty name\n"));
}

#[test]
fn commands_are_looked_for_as_posix_says() {
    let dir = no_programs();
    let other = tempfile::tempdir().unwrap();
    fs::copy(dir.path().join("qc-script"), other.path().join("not-executable")).unwrap();
    let (here, there) = (dir.path().display(), other.path().display());
    for (path, command) in [
        // An empty element, and an empty PATH, are the current folder.
        (String::new(), "qc-script"),
        (":/no/such/folder".to_owned(), "qc-script"),
        ("/no/such/folder:".to_owned(), "qc-script"),
        (format!("{here}"), "qc-script"),
        // What may not be executed is passed over.
        (format!("{here}:{there}"), "not-executable"),
    ] {
        assert_eq!(passed_gate(Some(&path), dir.path(), command).answer(0), "run\n", "{path}: {command}");
    }
    // Anything else that is there is what was meant.
    fs::copy(dir.path().join("qc-script"), other.path().join("no-format")).unwrap();
    assert_eq!(passed_gate(Some(&format!("{here}:{there}")), Path::new("/"), "no-format").code, Some(126));
    // The current folder is in no PATH that does not say so; without one there is that of execvp.
    assert_eq!(passed_gate(None, dir.path(), "qc-script").code, Some(127));
    passed_gate(None, dir.path(), "true").answer(0);
}

/// Of a folder that may not be looked into nobody knows what is in it.
#[test]
fn a_folder_that_may_not_be_searched_hides_what_is_in_it() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: root may search everything");
        return;
    }
    let dir = no_programs();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o000)).unwrap();
    let path = dir.path().display().to_string();
    assert_eq!(passed_gate(Some(&path), Path::new("/"), "qc-script").code, Some(127));
    assert_eq!(passed_gate(None, Path::new("/"), &format!("{path}/qc-script")).code, Some(126));
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

// ---- where the report goes ---------------------------------------------------------------------------------------

const ECHO: &[&str] = &["echo", "started"];

fn summaries(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with("pass: ") || line.starts_with("FAIL: ")).count()
}

#[test]
fn a_pass_leaves_standard_output_to_the_command() {
    for format in ["human", "json", "junit", "prometheus", "github"] {
        let done = gate(TUNED, &["--format", format], ECHO).done();
        assert_eq!((done.code, done.out.as_str()), (Some(0), "started\n"), "{format}");
        assert!(done.err.lines().count() == 1 && summaries(&done.err) == 1, "{format}: {}", done.err);
        assert_eq!(gate(TUNED, &["--format", format, "--quiet"], ECHO).done().answer(0), "started\n", "{format}");
        let done = gate(TUNED, &["--format", format, "--verbose"], ECHO).done();
        assert_eq!((done.code, done.out.as_str()), (Some(0), "started\n"), "{format}");
        assert!(done.err.contains("sys/devices/system/cpu/isolated") && done.err.contains("\npass: "), "{}", done.err);
    }
}

#[test]
fn a_refusal_prints_the_report_as_check_does() {
    let check = |format: &str| {
        let args = [&["check"], &MISTUNED[1..], &["--packs", "all", "--format", format]].concat();
        quietcore(args).done().answer(1)
    };
    for format in ["json", "junit", "prometheus", "github"] {
        for (options, lines) in [(&[][..], 1), (&["--quiet"], 1), (&["--verbose"], usize::MAX)] {
            let done = gate(MISTUNED, &[&["--packs", "all", "--format", format], options].concat(), ECHO).done();
            assert_eq!((done.code, done.out), (Some(1), check(format)), "{format} {options:?}");
            assert!(done.err.lines().count() <= lines && summaries(&done.err) == 1, "{format}: {}", done.err);
        }
    }
    for options in [&[][..], &["--format", "human"], &["--quiet"]] {
        let done = gate(MISTUNED, options, ECHO).done();
        assert_eq!((done.code, done.out.as_str()), (Some(1), ""), "{options:?}");
        assert!(done.err.contains("siblings") && !done.err.contains("rt_throttle"), "{}", done.err);
        assert_eq!(summaries(done.err.lines().last().unwrap()), 1, "{}", done.err);
    }
    let done = gate(MISTUNED, &["--verbose"], ECHO).done();
    assert_eq!((done.code, done.out.as_str()), (Some(1), ""));
    assert!(done.err.contains("rt_throttle") && done.err.contains("wanted: "), "{}", done.err);
    let done = gate(TUNED, &["--quiet", "--verbose"], ECHO).done();
    assert_eq!((done.code, done.out.as_str()), (Some(2), ""));
}

#[test]
fn a_report_in_a_file_is_written_whether_the_audit_passes_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report");
    for (fixture, code, out) in [(TUNED, 0, "started\n"), (MISTUNED, 1, "")] {
        for format in ["json", "prometheus"] {
            let options = ["--packs", "all", "--format", format, "--output", file.to_str().unwrap()];
            let done = gate(fixture, &options, ECHO).done();
            assert_eq!((done.code, done.out.as_str()), (Some(code), out), "{format}");
            let checked = quietcore([&["check"], &fixture[1..], &options[..4]].concat()).done().answer(code);
            assert_eq!(fs::read_to_string(&file).unwrap(), checked);
            // The report is not at hand in the journal: what did not pass is said there.
            assert_eq!(summaries(&done.err), 1, "{}", done.err);
            assert_eq!(done.err.contains("siblings"), code == 1, "{}", done.err);
        }
    }
    gate(TUNED, &["--output", file.to_str().unwrap()], ECHO).done();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("rt_throttle") && text.contains("\npass: "), "{text}");
    // A report that was asked for and cannot be written is no pass, as it is none of `check`.
    let nowhere = dir.path().join("nowhere/report");
    for fixture in [TUNED, MISTUNED] {
        let done = gate(fixture, &["--output", nowhere.to_str().unwrap()], ECHO).done();
        assert_eq!((done.code, done.out.as_str()), (Some(4), ""), "{}", done.err);
        assert!(done.err.contains("failed to write "), "{}", done.err);
    }
}

#[test]
fn a_host_that_is_not_tuned_starts_nothing() {
    let laid = Tree::tuned().thp("always [madvise] never").lay();
    let gate = |more: &[&str]| {
        let args = ["gate", "--plan", "plan.toml", "--root", "root", "--format", "json"];
        laid.run(&args).args(more).args(["--", "touch", "ran"]).env("PATH", PATH).done()
    };
    assert_eq!(gate(&["--only", "thp"]).code, Some(0));
    let ran = laid.dir.path().join("ran");
    assert!(ran.exists());
    fs::remove_file(&ran).unwrap();
    fs::write(laid.root.join(common::THP).join("enabled"), "[always] madvise never\n").unwrap();
    let done = gate(&["--only", "thp"]);
    let report: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((done.code, &report["exit_code"]), (Some(1), &1.into()));
    assert!(!ran.exists());
}
