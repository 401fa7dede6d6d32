//! The rules of packs, each on cases of its own: `packs/RULE.toml` changes the tree and the plan of `fixtures/tuned`, and
//! says the verdict. CONTRIBUTING.md describes the form.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: what cannot go on has failed")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::{CMDLINE, audit_dir, builtin, finding, gist};
use quietcore::plan::Plan;
use quietcore::rule::Level;
use quietcore::rule::pack::{self, PACKS};
use serde::Deserialize;
use tempfile::TempDir;

const BASE: &str = "fixtures/tuned";

/// The cases of one rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Cases {
    #[serde(default)]
    case: Vec<Case>,
    /// Why the rule passes nowhere.
    cannot_pass: Option<String>,
    /// Why it fails nowhere.
    cannot_fail: Option<String>,
    /// Why it is never unknown for want of a file.
    cannot_be_unseen: Option<String>,
}

/// A host, and what the rule says of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Case {
    /// What the host is, in a few words.
    name: String,
    /// Files that are added or replaced, by their paths below the root.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Files, folders and links that are not there. Each must be in the base.
    #[serde(default)]
    remove: Vec<String>,
    /// The boot line; `{boot}` stands for that of the base.
    boot: Option<String>,
    /// What reading a path gives, for `capture.toml`: an errno by name.
    #[serde(default)]
    errors: toml::Table,
    /// Modes, for `capture.toml`.
    #[serde(default)]
    modes: toml::Table,
    /// Values of devices, for `capture.toml`.
    #[serde(default)]
    binary: toml::Table,
    /// Keys of the plan that are added or replaced, whole tables too.
    #[serde(default)]
    plan: toml::Table,
    /// Keys that the plan lacks.
    #[serde(default)]
    plan_without: Vec<String>,
    /// `pass`, `fail`, `not-applicable`, `unknown CAUSE`; with what broke the rule, if the case is about that:
    /// `fail cpus 22`, `fail words swap`.
    expect: String,
    /// Texts that the finding's sentence holds.
    #[serde(default)]
    says: Vec<String>,
}

/// The base on disk, and how to bring it back after a case.
struct Bench {
    dir: TempDir,
    undo: Vec<Undo>,
}

enum Undo {
    /// It was not there.
    Remove(PathBuf),
    /// It held this.
    Write(PathBuf, Vec<u8>),
    /// It was moved aside.
    Move { from: PathBuf, to: PathBuf },
}

impl Bench {
    fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap(), undo: Vec::new() };
        let from = Path::new(BASE).join("root");
        for entry in walkdir::WalkDir::new(&from) {
            let entry = entry.unwrap();
            let to = bench.root().join(entry.path().strip_prefix(&from).unwrap());
            match entry.file_type() {
                kind if kind.is_dir() => fs::create_dir_all(to).unwrap(),
                kind if kind.is_symlink() => symlink(fs::read_link(entry.path()).unwrap(), to).unwrap(),
                _ => drop(fs::copy(entry.path(), to).unwrap()),
            }
        }
        bench
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn write(&mut self, path: &str, text: &str) {
        let path = self.root().join(path);
        if let Ok(bytes) = fs::read(&path) {
            self.undo.push(Undo::Write(path.clone(), bytes));
        } else {
            // With the folders that are made for it.
            let made = path.ancestors().take_while(|path| fs::symlink_metadata(path).is_err()).last().unwrap();
            self.undo.push(Undo::Remove(made.to_owned()));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        fs::write(path, text).unwrap();
    }

    fn remove(&mut self, path: &str, case: &str) {
        let (to, aside) = (self.root().join(path), self.dir.path().join(format!("aside-{}", self.undo.len())));
        assert!(fs::symlink_metadata(&to).is_ok(), "{case}: no {path} to remove");
        fs::rename(&to, &aside).unwrap();
        self.undo.push(Undo::Move { from: aside, to });
    }

    fn lay(&mut self, case: &Case, name: &str) {
        for path in &case.remove {
            self.remove(path, name);
        }
        for (path, text) in &case.files {
            self.write(path, text);
        }
        if let Some(boot) = &case.boot {
            let line = fs::read_to_string(self.root().join(CMDLINE)).unwrap();
            self.write(CMDLINE, &format!("{}\n", boot.replace("{boot}", line.trim_end())));
        }
        let mut capture: toml::Table =
            toml::from_str(&fs::read_to_string(self.root().join("capture.toml")).unwrap()).unwrap();
        for (key, rows) in [("errors", &case.errors), ("modes", &case.modes), ("binary", &case.binary)] {
            let table = capture.entry(key).or_insert_with(|| toml::Table::new().into());
            table.as_table_mut().unwrap().extend(rows.clone());
        }
        self.write("capture.toml", &toml::to_string(&capture).unwrap());
    }

    fn restore(&mut self) {
        for undo in std::mem::take(&mut self.undo).into_iter().rev() {
            match undo {
                Undo::Remove(path) if path.is_dir() => fs::remove_dir_all(path).unwrap(),
                Undo::Remove(path) => fs::remove_file(path).unwrap(),
                Undo::Write(path, bytes) => fs::write(path, bytes).unwrap(),
                Undo::Move { from, to } => fs::rename(from, to).unwrap(),
            }
        }
    }
}

fn plan(case: &Case, name: &str) -> Plan {
    let text = fs::read_to_string(format!("{BASE}/plan.toml")).unwrap();
    let mut plan: toml::Table = toml::from_str(&text).unwrap();
    for key in &case.plan_without {
        assert!(plan.remove(key).is_some(), "{name}: the plan has no {key} to leave out");
    }
    plan.extend(case.plan.clone());
    let text = toml::to_string(&plan).unwrap();
    Plan::parse("plan.toml", &text).unwrap_or_else(|problems| panic!("{name}: {problems}"))
}

/// The rules of packs other than the base.
fn rules_of_packs() -> BTreeSet<String> {
    builtin().iter().filter(|rule| rule.pack != Some(pack::BASE)).map(|rule| rule.id.clone()).collect()
}

fn cases(rule: &str) -> Cases {
    let path = format!("tests/packs/{rule}.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_rule_of_a_pack_is_judged_as_its_cases_say() {
    let mut bench = Bench::new();
    let mut wrong = Vec::new();
    for rule in rules_of_packs() {
        let mut rules = builtin().clone();
        rules.retain(|other| other.id == rule);
        for case in cases(&rule).case {
            let name = format!("{rule}, {}", case.name);
            let plan = plan(&case, &name);
            bench.lay(&case, &name);
            let report = audit_dir(&bench.root(), &plan, &rules);
            bench.restore();
            let found = finding(&report, &rule);
            let (gist, message) = (gist(found), &found.evidence().message);
            // A verdict alone leaves open what broke the rule.
            if gist != case.expect && found.verdict().name() != case.expect {
                wrong.push(format!("{name}: {gist}, not {}: {message}", case.expect));
            }
            wrong.extend(
                case.says
                    .iter()
                    .filter(|text| !message.contains(*text))
                    .map(|text| format!("{name}: no {text:?} in {message:?}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_of_a_pack_has_a_case_that_passes_one_that_fails_and_one_where_it_sees_nothing() {
    let mut wrong = Vec::new();
    for rule in rules_of_packs() {
        let Cases { case, cannot_pass, cannot_fail, cannot_be_unseen } = cases(&rule);
        for (wanted, exemption) in
            [("pass", &cannot_pass), ("fail", &cannot_fail), ("unknown not-exposed", &cannot_be_unseen)]
        {
            let has_one = case.iter().any(|case| case.expect.starts_with(wanted));
            match exemption {
                None if !has_one => wrong.push(format!("{rule}: no case expects {wanted:?}, and nothing says why")),
                Some(_) if has_one => {
                    wrong.push(format!("{rule}: there is a case that expects {wanted:?} all the same"));
                }
                Some(reason) if reason.trim().is_empty() => wrong.push(format!("{rule}: no reason")),
                _ => {}
            }
        }
        let names: BTreeSet<&str> = case.iter().map(|case| case.name.as_str()).collect();
        if names.len() < case.len() {
            wrong.push(format!("{rule}: two cases of one name"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cases_are_about_rules_that_there_are() {
    let stem = |entry: fs::DirEntry| entry.path().file_stem().unwrap().to_str().unwrap().to_owned();
    let files: BTreeSet<String> = fs::read_dir("tests/packs").unwrap().map(|entry| stem(entry.unwrap())).collect();
    assert_eq!(files, rules_of_packs());
}

/// What is not chosen is left unread by the pack of the table, and what decides is always chosen.
#[test]
fn the_table_of_files_has_the_packs_of_the_rules() {
    for (rule, (id, pack, _)) in builtin().iter().zip(quietcore::rule::builtin::FILES) {
        assert_eq!((rule.id.as_str(), rule.pack), (*id, Some(*pack)));
        assert_eq!(rule.level == Level::Required, *pack == pack::BASE, "{id}");
    }
}

#[test]
fn built_in_rules_name_their_packs_and_come_in_their_order() {
    let rank = |pack: Option<&str>| PACKS.iter().position(|known| Some(known.name) == pack);
    let ranks: Vec<Option<usize>> = builtin().iter().map(|rule| rank(rule.pack)).collect();
    let homeless: Vec<&str> =
        builtin().iter().filter(|rule| rank(rule.pack).is_none()).map(|rule| rule.id.as_str()).collect();
    assert_eq!(homeless, [""; 0], "rules that name no pack");
    assert!(ranks.is_sorted(), "{ranks:?}");
    let names: BTreeSet<&str> = PACKS.iter().map(|pack| pack.name).collect();
    assert_eq!(names.len(), PACKS.len());
    for pack in PACKS {
        assert!(pack.name.bytes().all(|b| b.is_ascii_lowercase()), "{}", pack.name);
        assert!(pack.name != "all" && !pack.about.is_empty() && !pack.about.ends_with('.'), "{}", pack.name);
    }
}
