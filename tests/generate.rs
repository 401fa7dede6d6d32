//! Manual pages and completions, made from the command line's own table.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use clap::CommandFactory;
use common::quietcore;
use quietcore::cli::Cli;

/// Names of the program and its subcommands that are not hidden, joined as pages are.
fn pages() -> BTreeSet<String> {
    fn walk(command: &clap::Command, name: &str, all: &mut BTreeSet<String>) {
        all.insert(format!("{name}.1"));
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            walk(sub, &format!("{name}-{}", sub.get_name()), all);
        }
    }
    let mut all = BTreeSet::new();
    walk(&Cli::command(), "quietcore", &mut all);
    all
}

#[test]
fn every_subcommand_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(quietcore(["generate", "man"]).args([dir.path()]).done().answer(0), "");
    let found: BTreeSet<String> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, pages());
    assert!(found.contains("quietcore-plan-suggest.1") && !found.iter().any(|page| page.contains("generate")));
    let check = fs::read_to_string(dir.path().join("quietcore-check.1")).unwrap();
    for part in [".TH quietcore-check 1", r"\-\-plan", r"\-\-output", "prometheus"] {
        assert!(check.contains(part), "{part}: {check}");
    }
    // The time of day or the machine is nowhere in them.
    let again = tempfile::tempdir().unwrap();
    quietcore(["generate", "man"]).args([again.path()]).done().answer(0);
    for page in &found {
        assert_eq!(fs::read(dir.path().join(page)).unwrap(), fs::read(again.path().join(page)).unwrap());
    }
}

#[test]
fn a_folder_that_is_not_there_is_no_panic() {
    let done = quietcore(["generate", "man", "/no/such/folder"]).done();
    assert_eq!((done.code, done.out.as_str()), (Some(4), ""));
    assert!(done.err.starts_with("error: failed to write the answer: "), "{}", done.err);
}

#[test]
fn completions_are_scripts_of_their_shells() {
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = quietcore(["generate", "completions", shell]).done().answer(0);
        for option in ["prometheus", "suggest", "waivers"] {
            assert!(script.contains(option), "{shell}: {option}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("completions");
        fs::write(&path, script).unwrap();
        match Command::new(shell).arg(check).arg(&path).output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && said.is_empty(), "{shell}: {said}");
            }
            Err(error) => println!("skipped: {shell} cannot be run: {error}"),
        }
    }
}
