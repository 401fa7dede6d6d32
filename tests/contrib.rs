//! What lies in `contrib/`: units that systemd takes, scripts that shells take, command lines, metrics and exit codes that
//! exist. What needs a program that is not installed is skipped, and says so.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests: what cannot go on has failed"
)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use clap::Parser;
use common::{TOP, audit_fixture, written};
use quietcore::cli::Cli;
use quietcore::output::Format;

const PROGRAM: &str = "/usr/bin/quietcore";

fn contrib(path: &str) -> PathBuf {
    Path::new(TOP).join("contrib").join(path)
}

fn read(path: &str) -> String {
    let path = contrib(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file of `contrib`, relative to it.
fn files() -> Vec<String> {
    fn walk(dir: &Path, into: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, into);
            } else {
                into.push(path.strip_prefix(contrib("")).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut files = Vec::new();
    walk(&contrib(""), &mut files);
    files.sort();
    files
}

/// Runs a program that may be missing.
fn run(program: &str, args: &[&str]) -> Option<Output> {
    match Command::new(program).args(args).output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: {program} cannot be run: {error}");
            None
        }
    }
}

#[track_caller]
fn assert_silent(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{}: {said}", output.status);
}

// ---- systemd -----------------------------------------------------------------------------------------------------

#[test]
fn systemd_takes_every_unit() {
    if run("systemd-analyze", &["--version"]).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // The program need not be installed: the one that was built stands in.
    let lay = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text.replace(PROGRAM, env!("CARGO_BIN_EXE_quietcore"))).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // The service that the drop-in is for.
    let mut units = vec![lay("feed.service", "[Service]\nExecStart=/bin/true\n")];
    for file in files().iter().filter_map(|file| file.strip_prefix("systemd/")) {
        let path = lay(file, &read(&format!("systemd/{file}")));
        if !file.contains(".d/") {
            units.push(path);
        }
    }
    assert!(units.len() >= 5, "{units:?}");
    // It ends with 0 for keys that do not exist: what it says is what counts.
    let args: Vec<&str> = ["verify", "--man=no"].into_iter().chain(units.iter().map(String::as_str)).collect();
    assert_silent(&run("systemd-analyze", &args).unwrap());
    // And it does look at the drop-in.
    fs::write(dir.path().join("feed.service.d/typo.conf"), "[Service]\nExecStartPree=/bin/true\n").unwrap();
    let said = run("systemd-analyze", &["verify", "--man=no", &units[0]]).unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("ExecStartPree"));
}

/// Command lines of the program in units, without its path; lines that go on are one.
fn commands_of_units() -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for file in files().into_iter().filter(|file| file.starts_with("systemd/")) {
        let text = read(&file).replace("\\\n", " ");
        for line in text.lines().filter(|line| line.starts_with("Exec")) {
            let command = line.split_once(&format!("={PROGRAM} ")).unwrap_or_else(|| panic!("{file}: {line}")).1;
            commands.push((file.clone(), command.to_owned()));
        }
    }
    commands
}

#[test]
fn command_lines_parse() {
    let mut commands = commands_of_units();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for file in ["slurm/quietcore-healthcheck", "kubernetes/quietcore-problem", "ci/gitlab-ci.yml", "ci/action.yml"] {
        let text = read(file).replace("\"$QUIETCORE\" ", "quietcore ");
        let line =
            text.lines().find_map(|line| line.split_once("quietcore check ")).unwrap_or_else(|| panic!("{file}"));
        let args = line.1.split(" 2>").next().unwrap().replace("\"${options[@]}\"", "--root a --root b");
        commands.push((file.to_owned(), format!("check {}", args.replace('"', ""))));
    }
    let play = read("ansible/preflight.yml");
    let argv = play.lines().find_map(|line| line.trim().strip_prefix("argv: [quietcore, ")).unwrap();
    commands.push(("ansible".to_owned(), argv.trim_end_matches(']').replace(',', "")));
    for (file, command) in commands {
        let words = std::iter::once("quietcore").chain(command.split_whitespace());
        if let Err(error) = Cli::try_parse_from(words) {
            panic!("{file}: quietcore {command}\n{error}");
        }
    }
}

#[test]
fn nothing_is_gated_with_a_prefix_that_undoes_the_gate() {
    for (file, _) in commands_of_units() {
        for line in read(&file).lines().filter(|line| line.starts_with("ExecStart")) {
            assert!(line.contains("=/"), "{file}: {line}");
        }
    }
}

// ---- shells and formats ------------------------------------------------------------------------------------------

#[test]
fn scripts_are_scripts() {
    let mut scripts = 0;
    for file in files() {
        let text = read(&file);
        let Some(first) = text.lines().next().and_then(|line| line.strip_prefix("#!")) else { continue };
        scripts += 1;
        let path = contrib(&file);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{file} cannot be executed");
        let shell = if first.ends_with("bash") { "bash" } else { "sh" };
        if let Some(output) = run(shell, &["-n", path.to_str().unwrap()]) {
            assert_silent(&output);
        }
    }
    assert_eq!(scripts, 6);
}

#[test]
fn documents_are_yaml_and_json() {
    for file in files() {
        let path = contrib(&file);
        let extension = path.extension().unwrap_or_default();
        if extension == "json" {
            serde_json::from_str::<serde_json::Value>(&read(&file)).unwrap();
        } else if extension == "yml" {
            assert!(!read(&file).contains('\t'), "{file}");
            let code =
                "import sys\ntry:\n import yaml\nexcept ImportError: sys.exit(77)\nyaml.safe_load(open(sys.argv[1]))";
            match run("python3", &["-c", code, path.to_str().unwrap()]) {
                Some(output) if output.status.code() == Some(77) => println!("skipped: python3 has no yaml"),
                Some(output) => assert_silent(&output),
                None => {}
            }
        }
    }
}

#[test]
fn alerts_are_about_metrics_that_are_written() {
    let metrics = written(&audit_fixture("mistuned"), Format::Prometheus);
    let alerts = read("prometheus/quietcore.rules.yml");
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names: Vec<&str> = alerts
        .lines()
        .filter(|line| line.contains("expr:"))
        .flat_map(|line| line.split(|c| !is_of_name(c)))
        .filter(|word| word.starts_with("quietcore_"))
        .collect();
    assert_eq!(names, ["quietcore_rule_verdict", "quietcore_rule_verdict", "quietcore_audit_warnings"]);
    for name in names {
        assert!(metrics.contains(&format!("# TYPE {name} gauge\n")), "{name}");
    }
    if let Some(output) =
        run("promtool", &["check", "rules", contrib("prometheus/quietcore.rules.yml").to_str().unwrap()])
    {
        assert_silent(&output);
    }
    if let Some(output) =
        run("ansible-playbook", &["--syntax-check", contrib("ansible/preflight.yml").to_str().unwrap()])
    {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

// ---- what the scripts make of exit codes -------------------------------------------------------------------------

/// A script with stand-ins for the programs that it runs: quietcore prints this report and ends with this code, scontrol
/// prints its arguments.
fn run_script(script: &str, report: &str, code: u8) -> (Option<i32>, String) {
    let mut command = Command::new(contrib(script));
    command.env("PATH", format!("{TOP}/tests/stand-ins:/usr/bin:/bin")).env("SLURMD_NODENAME", "n1");
    let output = command.env("REPORT", report).env("CODE", code.to_string()).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_node_problem_detector_gets_its_own_exit_codes() {
    let report = written(&audit_fixture("mistuned"), Format::Github);
    let run = |report: &str, code| run_script("kubernetes/quietcore-problem", report, code);
    assert_eq!(run("", 0), (Some(0), "tuned for its plan\n".to_owned()));
    let (code, said) = run(&report, 1);
    assert_eq!(code, Some(1));
    assert!(said.starts_with("not tuned: siblings nohz_full rcu_nocbs "), "{said}");
    assert_eq!(run("::error title=quietcore%3A thp::unknown\n", 3), (Some(2), "cannot be judged: thp\n".to_owned()));
    for code in [2, 4, 127] {
        assert_eq!(run("", code), (Some(2), format!("not audited: exit code {code}\n")));
    }
}

#[test]
fn slurm_drains_a_node_that_is_not_tuned() {
    let run = |report: &str, code| run_script("slurm/quietcore-healthcheck", report, code);
    assert_eq!(run("pass: 12 passed\n", 0), (Some(0), String::new()));
    let wanted = "update nodename=n1 state=drain reason=quietcore, exit code";
    let fails = "x FAIL     thp  always\nFAIL: 11 passed, 1 failed\n";
    assert_eq!(run(fails, 1).1, format!("{wanted} 1: FAIL: 11 passed, 1 failed\n"));
    assert_eq!(run("error: no plan\n", 2).1, format!("{wanted} 2: error: no plan\n"));
    assert_eq!(run("UNKNOWN (strict): 1\n", 3).1, format!("{wanted} 3: UNKNOWN (strict): 1\n"));
    assert_eq!(run("", 4).1, format!("{wanted} 4: see quietcore check\n"));
}
