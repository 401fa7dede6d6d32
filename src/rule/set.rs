//! The rules of an audit: those that are built in, and those of `--rules DIR`, which add to them or shadow one by id.

use std::fmt;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use super::{Rule, builtin, check};
use crate::doc::{self, LoadError};
use crate::problem::did_you_mean;

/// Rules in report order.
#[derive(Clone, Debug)]
pub struct RuleSet {
    rules: Vec<Rule>,
}

/// Everything that kept rules from being loaded, of all files at once.
#[derive(Debug)]
pub struct LoadErrors(pub Vec<LoadError>);

impl LoadErrors {
    /// All of it as text, with colours or without.
    pub fn render(&self, color: bool) -> String {
        let render = |error: &LoadError| match error {
            LoadError::Problems(problems) => problems.render(color),
            LoadError::Read { .. } => format!("error: {error}"),
        };
        self.0.iter().map(render).collect::<Vec<_>>().join("\n\n")
    }
}

impl fmt::Display for LoadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for LoadErrors {}

impl RuleSet {
    /// The rules that are built in.
    ///
    /// # Errors
    /// None in a released binary: a test loads them all.
    pub fn builtin() -> Result<Self, LoadErrors> {
        Self::builtin_where(|_, _| true)
    }

    /// The rules that are built in, as far as `keep` wants them by id and pack; the others are not even read.
    ///
    /// # Errors
    /// See [`RuleSet::builtin`].
    pub fn builtin_where(keep: impl Fn(&str, &str) -> bool) -> Result<Self, LoadErrors> {
        let mut errors = Vec::new();
        let mut rules = Vec::new();
        for (id, _, text) in builtin::FILES.iter().filter(|(id, pack, _)| keep(id, pack)) {
            match check::parse(&format!("rules/{id}.toml"), id, text, None) {
                Ok(rule) => rules.push(rule),
                Err(problems) => errors.push(LoadError::Problems(problems)),
            }
        }
        if errors.is_empty() { Ok(Self { rules }) } else { Err(LoadErrors(errors)) }
    }

    /// The rules that are built in and those of some folders, in the order of [`RuleSet::add_folder`].
    ///
    /// # Errors
    /// See [`RuleSet::add_folder`].
    pub fn with_folders(folders: &[PathBuf]) -> Result<Self, LoadErrors> {
        let mut rules = Self::builtin()?;
        for folder in folders {
            rules.add_folder(folder)?;
        }
        Ok(rules)
    }

    /// Adds the rules of a folder, in the order of their ids after those that are there; one with the id of another takes
    /// its place.
    ///
    /// # Errors
    /// Every problem of every file; a folder that cannot be read, holds no rule file, or holds two with the same id.
    pub fn add_folder(&mut self, folder: &Path) -> Result<(), LoadErrors> {
        let mut added = load_folder(folder)?;
        added.sort_by(|a, b| a.id.cmp(&b.id));
        for rule in added {
            match self.rules.iter_mut().find(|existing| existing.id == rule.id) {
                Some(existing) => *existing = rule,
                None => self.rules.push(rule),
            }
        }
        Ok(())
    }

    /// The rules, in report order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// The rule of that id.
    ///
    /// # Errors
    /// A text that says so, with the closest id.
    pub fn get(&self, id: &str) -> Result<&Rule, String> {
        self.rules.iter().find(|rule| rule.id == id).ok_or_else(|| {
            match did_you_mean(id, self.rules.iter().map(|rule| rule.id.as_str())) {
                Some(close) => format!("no rule `{id}`; did you mean `{close}`?"),
                None => format!("no rule `{id}`; `quietcore rules list` names them"),
            }
        })
    }

    /// Keeps only the rules that `keep` wants.
    pub fn retain(&mut self, keep: impl Fn(&Rule) -> bool) {
        self.rules.retain(|rule| keep(rule));
    }

    /// Raises the rules of these ids to required.
    pub fn require(&mut self, ids: &[String]) {
        for rule in self.rules.iter_mut().filter(|rule| ids.contains(&rule.id)) {
            rule.level = super::Level::Required;
        }
    }
}

fn is_meant_for_a_rule(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

/// Loads every rule of a folder and of those below it.
///
/// # Errors
/// See [`RuleSet::add_folder`].
pub fn load_folder(folder: &Path) -> Result<Vec<Rule>, LoadErrors> {
    let fail = |name: &Path, cause: std::io::Error| LoadError::Read { name: name.display().to_string(), cause };
    let mut errors = Vec::new();
    let mut rules: Vec<Rule> = Vec::new();
    // Links are followed: a mounted configuration map is made of them. Names with a dot before them are not entries.
    let is_shown = |entry: &DirEntry| entry.depth() == 0 || !entry.file_name().to_string_lossy().starts_with('.');
    for entry in WalkDir::new(folder).follow_links(true).sort_by_file_name().into_iter().filter_entry(is_shown) {
        let path = match entry {
            // Whatever was meant for a rule is one, or an error: a rule that is passed over would never be missed.
            Ok(entry) if is_meant_for_a_rule(entry.path()) && entry.depth() > 0 => entry.into_path(),
            Ok(entry) if entry.depth() == 0 && !entry.file_type().is_dir() => {
                errors.push(fail(folder, std::io::Error::other("not a folder")));
                continue;
            }
            Ok(_) => continue,
            Err(error) => {
                let path = error.path().unwrap_or(folder).to_owned();
                let cause = error.into_io_error().unwrap_or_else(|| std::io::Error::other("a loop of links"));
                errors.push(fail(&path, cause));
                continue;
            }
        };
        if path.extension().is_some_and(|extension| extension != "toml") {
            errors.push(fail(&path, std::io::Error::other("a rule file ends in .toml")));
            continue;
        }
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let origin = path.display().to_string();
        match doc::load(&path, |name, text| check::parse(name, &stem, text, Some(&origin))) {
            Ok(rule) => match rules.iter().find(|other| other.id == rule.id) {
                Some(other) => {
                    let there = other.origin.clone().unwrap_or_default();
                    errors.push(fail(
                        &path,
                        std::io::Error::other(format!("the id {} is also that of {there}", rule.id)),
                    ));
                }
                None => rules.push(rule),
            },
            Err(error) => errors.push(error),
        }
    }
    if rules.is_empty() && errors.is_empty() {
        errors.push(fail(folder, std::io::Error::other("no rule file (*.toml) in it")));
    }
    if errors.is_empty() { Ok(rules) } else { Err(LoadErrors(errors)) }
}
