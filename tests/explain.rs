//! What `quietcore explain` prints: for every rule, and for CPUs of the fixtures.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

use quietcore::exit;

struct Done {
    code: u8,
    out: String,
    err: String,
}

fn explain(args: &[&str]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quietcore"));
    let output = command.arg("explain").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done {
        code: u8::try_from(output.status.code().unwrap()).unwrap(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

fn answer(args: &[&str]) -> String {
    let done = explain(args);
    assert_eq!((done.code, done.err.as_str()), (exit::PASSED, ""), "{args:?}");
    done.out
}

fn cpu(fixture: &str, cpu: &str) -> String {
    let (plan, root) = (format!("fixtures/{fixture}/plan.toml"), format!("fixtures/{fixture}/root"));
    answer(&["cpu", cpu, "--plan", &plan, "--root", &root])
}

fn rule_ids() -> Vec<String> {
    let rules = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("rules")).unwrap();
    let id = |path: &Path| Some(path.file_name()?.to_str()?.strip_suffix(".toml")?.to_owned());
    let mut ids: Vec<String> = rules.filter_map(|entry| id(&entry.unwrap().path())).collect();
    ids.sort();
    ids
}

#[test]
fn every_rule_is_explained_in_79_columns() {
    let ids = rule_ids();
    assert!(ids.len() >= 12);
    for id in &ids {
        let text = answer(&[id]);
        assert!(text.starts_with(&format!("{id} (")), "{id}");
        for section in ["\nWhy\n", "\nHow it is judged\n", "\nWhat it reads\n", "\nWho says so\n"] {
            assert!(text.contains(section), "{id} lacks {section:?}");
        }
        for line in text.lines() {
            assert!(line.chars().count() <= 79, "{id}: {line}");
        }
    }
}

/// The base rules are those that people argue about: what to know before believing them is written down.
#[test]
fn the_base_rules_have_notes() {
    for (id, ..) in &quietcore::rule::builtin::FILES[..quietcore::rule::builtin::BASE] {
        assert!(answer(&[id]).contains("\nWhat to know\n"), "{id}");
    }
}

#[test]
fn rules_in_words() {
    insta::assert_snapshot!("rule@isolated", answer(&["isolated"]));
    insta::assert_snapshot!("rule@cstate", answer(&["cstate"]));
    insta::assert_snapshot!("rule@memlock", answer(&["memlock"]));
}

#[test]
fn a_rule_of_a_folder_is_explained_with_its_origin() {
    let folder = tempfile::tempdir().unwrap();
    let text = "schema = 1\ntitle = \"no swap\"\nlevel = \"advised\"\nwhy = \"w\"\ndiffers = [\"a says x, b says y\"]\n\
                notes = [\"a false alarm\"]\n[[assert]]\nthat = \"thp.enabled\"\nis = \"never\"\n";
    let path = folder.path().join("mine.toml");
    fs::write(&path, text).unwrap();
    let told = answer(&["mine", "--rules", folder.path().to_str().unwrap()]);
    assert!(told.contains("mine.toml"), "{told}");
    assert!(told.contains("\nWhere authorities differ\n  - a says x, b says y\n"), "{told}");
    assert!(told.contains("\nWhat to know\n  - a false alarm\n"), "{told}");
    assert!(!told.contains("How to fix it"), "{told}");

    fs::write(&path, text.replace("\"a false alarm\"", "\" \"")).unwrap();
    let refused = explain(&["mine", "--rules", folder.path().to_str().unwrap()]);
    assert_eq!(refused.code, exit::USAGE);
    assert!(refused.err.contains("`notes` is empty"), "{}", refused.err);
}

#[test]
fn mistakes_are_usage_errors() {
    let close = explain(&["isolatd"]);
    assert_eq!((close.code, close.out.as_str()), (exit::USAGE, ""));
    assert!(close.err.contains("did you mean `isolated`?"), "{}", close.err);
    let plan = "fixtures/tuned/plan.toml";
    for args in [
        &["far_from_any"][..],
        &[],
        &["cpu"],
        &["cpu", "21"],
        &["cpu", "x", "--plan", plan],
        &["cpu", "-1", "--plan", plan],
        &["cpu", "65536", "--plan", plan],
        &["cpu", "21-23", "--plan", plan],
        &["cpu", "21", "--plan", "fixtures/none.toml"],
        &["cpu", "21", "--plan", plan, "--root", "fixtures/none"],
    ] {
        let done = explain(args);
        assert_eq!((done.code, done.out.as_str()), (exit::USAGE, ""), "{args:?}");
        assert!(!done.err.is_empty(), "{args:?}");
    }
}

#[test]
fn help_has_examples() {
    for args in [&["--help"][..], &["cpu", "--help"]] {
        let help = answer(args);
        assert!(help.contains("quietcore explain cpu 21 --plan plan.toml"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 79), "{help}");
    }
}

#[test]
fn maps_of_cpus() {
    for (fixture, number) in
        [("tuned", "21"), ("mistuned", "21"), ("mistuned", "22"), ("mistuned", "3"), ("laptop", "4"), ("bare", "21")]
    {
        let text = cpu(fixture, number);
        assert!(text.lines().all(|line| line.chars().count() <= 79), "{text}");
        insta::assert_snapshot!(format!("cpu@{fixture}-{number}"), text);
    }
}

#[test]
fn the_role_of_a_cpu() {
    for (fixture, number, role) in [
        ("tuned", "22", "hot: strategy\n"),
        ("mistuned", "29", "idle: left free beside hot 21\n"),
        ("tuned", "29", "idle: left free\n"),
        ("mistuned", "28", "cold: logger\n"),
        ("mistuned", "0", "housekeeping: does everything else\n"),
        ("laptop", "5", "idle: left free beside hot 4\n"),
        ("tuned", "99", "none in the plan\n"),
    ] {
        let text = cpu(fixture, number);
        assert!(text.contains(&format!("role          {role}")), "{fixture} {number}: {text}");
    }
}

#[test]
fn a_cpu_that_is_offline_or_not_possible_is_said_so_and_no_more() {
    let offline = cpu("tuned", "29");
    assert!(offline.contains("online        no"), "{offline}");
    let impossible = cpu("tuned", "99");
    assert!(impossible.contains("not possible on this host, possible are 0-31"), "{impossible}");
    for text in [offline, impossible] {
        assert!(!text.contains("scheduler") && !text.contains("governor"), "{text}");
    }
}

/// The lines that come to a CPU, of each kind.
#[test]
fn interrupt_lines_by_how_they_come_to_a_cpu() {
    let tree = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = tree.path().join("root").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("sys/devices/system/cpu/online", "0-3\n");
    write("sys/devices/system/cpu/possible", "0-3\n");
    write("proc/sys/kernel/osrelease", "6.1.0\n");
    for (irq, handler, mask, effective) in [
        (10, "moved", "0-3\n", "1\n"),
        (11, "pending", "0-1\n", "2\n"),
        (12, "elsewhere", "0-1\n", "0\n"),
        (13, "nvme0q1", "0-3\n", "2\n"),
        (14, "nvme0q2", "2\n", "2\n"),
        (15, "nvme0q3", "0-3\n", "1\n"),
        (16, "odd", "what\n", "1\n"),
    ] {
        write(&format!("proc/irq/{irq}/smp_affinity_list"), mask);
        write(&format!("proc/irq/{irq}/effective_affinity_list"), effective);
        write(&format!("proc/irq/{irq}/{handler}/.keep"), "");
    }
    let plan = tree.path().join("plan.toml");
    fs::write(&plan, "[hot]\nfeed = 2\n").unwrap();
    let root = tree.path().join("root");
    let text = answer(&["cpu", "2", "--plan", plan.to_str().unwrap(), "--root", root.to_str().unwrap()]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "may fire there: 10 (moved);",
        "delivered there until their next interrupt: 11 (pending);",
        "managed, delivered there: 13 (nvme0q1);",
        "managed, fire there for I/O that it submits: 14 (nvme0q2);",
        "cannot be judged: 16 (odd)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
