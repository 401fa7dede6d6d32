//! The audit before something starts: everything loaded and checked before the host is looked at, then one report.
//!
//! This is the gate as a library call: `quietcore check` and `gate` make it, and so does the bench harness before it
//! measures.
//!
//! ```no_run
//! use quietcore::preflight::{Options, Preflight};
//!
//! let preflight = Preflight::load(&Options::default(), Some("plan.toml".as_ref()))?;
//! let report = preflight.judge();
//! assert_eq!(report.exit_code(), quietcore::exit::PASSED);
//! # Ok::<(), quietcore::preflight::PreflightError>(())
//! ```

use std::path::{Path, PathBuf};

use thiserror::Error;
use time::UtcDateTime;

use crate::audit::audit;
use crate::doc::LoadError;
use crate::fact::Host;
use crate::plan::{Plan, Skipped};
use crate::problem::{FileProblems, Problem};
use crate::report::Report;
use crate::root::{Root, RootError};
use crate::rule::pack::BASE;
use crate::rule::{Level, LoadErrors, Rule, RuleSet, builtin};
use crate::topology::{Request, SuggestError, suggest};
use crate::waiver::Waivers;

/// Which packs are judged. A rule of no pack always is, and so is one that the plan requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packs {
    /// All of them.
    All,
    /// These alone.
    These(Vec<&'static str>),
    /// What can decide the exit code, wherever it belongs, all of the base, and these.
    Deciding(Vec<&'static str>),
}

impl Packs {
    fn have(&self, rule: &Rule) -> bool {
        let decides = matches!(self, Self::Deciding(_)) && rule.level == Level::Required;
        decides || rule.pack.is_none_or(|pack| self.have_pack(pack))
    }

    fn have_pack(&self, pack: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(&pack),
            Self::Deciding(names) => pack == BASE || names.contains(&pack),
        }
    }
}

/// What to judge, and by which rules.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder to read; `/` is the live host.
    pub root: PathBuf,
    /// Folders of rules that add to the built-in ones or shadow one by id.
    pub rules: Vec<PathBuf>,
    /// Judge the rules of these packs.
    pub packs: Packs,
    /// Judge only these rules, whatever their packs; none: those of the packs.
    pub only: Vec<String>,
    /// Leave these rules out.
    pub skip: Vec<String>,
    /// A file of waivers.
    pub waivers: Option<PathBuf>,
    /// Is an unknown verdict of a required rule a reason to refuse?
    pub strict: bool,
}

impl Default for Options {
    /// The live host, by the built-in rules.
    fn default() -> Self {
        let (rules, only, skip) = (Vec::new(), Vec::new(), Vec::new());
        Self { root: PathBuf::from("/"), rules, packs: Packs::All, only, skip, waivers: None, strict: false }
    }
}

/// Why nothing is judged: a mistake of the user's in the plan, the rules, the waivers or the root.
#[derive(Debug, Error)]
pub enum PreflightError {
    /// The root cannot be read.
    #[error("error: {0}")]
    Root(#[from] RootError),
    /// A plan or waiver file cannot be read, or is wrong.
    #[error("{0}")]
    Document(LoadErrors),
    /// Rules cannot be read, or are wrong.
    #[error(transparent)]
    Rules(#[from] LoadErrors),
    /// `only` or `skip` names a rule that does not exist, or they and `packs` leave none.
    #[error("error: {0}")]
    Choice(String),
    /// No plan was given, and none can be made for the host.
    #[error("error: no plan given, and none can be made for this host: {0}\nhelp: give one with --plan PLAN")]
    NoPlan(#[from] SuggestError),
}

impl From<LoadError> for PreflightError {
    fn from(error: LoadError) -> Self {
        Self::Document(LoadErrors(vec![error]))
    }
}

impl From<FileProblems> for PreflightError {
    fn from(problems: FileProblems) -> Self {
        LoadError::from(problems).into()
    }
}

/// A root, a plan, rules and waivers, all of them checked.
#[derive(Debug)]
pub struct Preflight {
    /// What is read.
    pub root: Root,
    /// What the host is to run.
    pub plan: Plan,
    /// By which rules.
    pub rules: RuleSet,
    waivers: Waivers,
    strict: bool,
}

impl Preflight {
    /// Loads everything. Without a plan one is made for the host, as `quietcore plan suggest` does.
    pub fn load(options: &Options, plan: Option<&Path>) -> Result<Self, PreflightError> {
        let root = Root::open(&options.root)?;
        let plan = match plan {
            Some(path) => Plan::load(path)?,
            None => suggested(&root)?,
        };
        let mut rules = candidates(options, &plan)?;
        let mut waivers = match &options.waivers {
            Some(path) => Waivers::load(path, &rules)?,
            None => Waivers::default(),
        };
        heed(&mut rules, &plan)?;
        // A waiver of a rule that is judged elsewhere is not unused.
        let is_left_out = |rule: &&Rule| !options.packs.have(rule) && !requires(&plan, rule);
        let left_out: Vec<&str> = rules.iter().filter(is_left_out).map(|rule| rule.id.as_str()).collect();
        waivers.retain(|waiver| !left_out.contains(&waiver.rule.as_str()));
        choose(&mut rules, &plan, options)?;
        Ok(Self { root, plan, rules, waivers, strict: options.strict })
    }

    /// Judges the host, with the waivers that are in force today.
    pub fn judge(&self) -> Report {
        let mut report = audit(&self.rules, &Host::new(&self.root, &self.plan), self.strict);
        self.waivers.apply(&mut report, UtcDateTime::now().date());
        report
    }
}

fn suggested(root: &Root) -> Result<Plan, PreflightError> {
    let mut plan = suggest(root, &Request::default())?.plan()?;
    // It has no file to be named by.
    plan.name.clear();
    Ok(plan)
}

/// The rules that may be judged. Where nothing but packs and ids of built-in rules chooses, the rest is not read: a rule
/// takes longer to read than to judge. Waivers, and ids that no built-in rule has, are looked up among all.
fn candidates(options: &Options, plan: &Plan) -> Result<RuleSet, LoadErrors> {
    let by_plan = plan.require.iter().chain(plan.skip.iter().map(|skipped| &skipped.id)).map(|id| &id.value);
    let named: Vec<&String> = by_plan.chain(&options.only).chain(&options.skip).collect();
    let is_builtin = |id: &&String| builtin::FILES.iter().any(|(known, ..)| known == id);
    if options.waivers.is_some() || !options.rules.is_empty() || !named.iter().all(is_builtin) {
        return RuleSet::with_folders(&options.rules);
    }
    let by_pack = |pack: &str| options.only.is_empty() && options.packs.have_pack(pack);
    RuleSet::builtin_where(|id, pack| by_pack(pack) || named.iter().any(|named| *named == id))
}

/// Raises the rules that the plan requires, and sees that it names no rule that there is not, and drops none that decides
/// the exit code.
///
/// # Errors
/// Everything that is wrong with what the plan says of rules, each where it stands.
pub fn heed(rules: &mut RuleSet, plan: &Plan) -> Result<(), FileProblems> {
    let mut problems = Vec::new();
    for id in plan.require.iter().chain(plan.skip.iter().map(|skipped| &skipped.id)) {
        if let Err(why) = rules.get(&id.value) {
            problems.push(Problem::new(id.span.clone(), why, "no such rule"));
        }
    }
    for Skipped { id, .. } in &plan.skip {
        let is_required = rules.get(&id.value).is_ok_and(|rule| rule.level == Level::Required);
        if is_required {
            let message = format!("`{}` is required: a plan drops advised rules only", id.value);
            let problem = Problem::new(id.span.clone(), message, "decides the exit code");
            problems.push(problem.help("accept its failure for a reason and until a day: --waivers FILE"));
        }
    }
    FileProblems::unless_empty(&plan.name, &plan.text, problems)?;
    let required: Vec<String> = plan.require.iter().map(|id| id.value.clone()).collect();
    rules.require(&required);
    Ok(())
}

fn requires(plan: &Plan, rule: &Rule) -> bool {
    plan.require.iter().any(|id| id.value == rule.id)
}

/// Keeps the rules that were asked for.
fn choose(rules: &mut RuleSet, plan: &Plan, options: &Options) -> Result<(), PreflightError> {
    for (option, ids) in [("--only", &options.only), ("--skip", &options.skip)] {
        for id in ids {
            rules.get(id).map_err(|why| PreflightError::Choice(format!("{option}: {why}")))?;
        }
    }
    let is_wanted = |rule: &Rule| {
        if options.only.is_empty() {
            options.packs.have(rule) || requires(plan, rule)
        } else {
            options.only.contains(&rule.id)
        }
    };
    rules.retain(|rule| is_wanted(rule) && !options.skip.contains(&rule.id));
    if rules.iter().next().is_none() {
        return Err(PreflightError::Choice("--packs, --only and --skip leave no rule to judge".to_owned()));
    }
    Ok(())
}
