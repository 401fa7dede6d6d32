//! What `check` and `gate` judge: everything loaded and checked before the host is looked at.

use std::path::Path;

use time::UtcDateTime;

use super::{Failure, load_failure, load_rules, open_root};
use crate::audit::audit;
use crate::cli::AuditArgs;
use crate::fact::Host;
use crate::plan::Plan;
use crate::problem::{FileProblems, Problem};
use crate::report::Report;
use crate::root::Root;
use crate::rule::RuleSet;
use crate::topology::{Request, suggest};
use crate::waiver::Waivers;

/// A root, a plan, rules and waivers.
pub(super) struct Case {
    pub(super) root: Root,
    pub(super) plan: Plan,
    rules: RuleSet,
    waivers: Waivers,
    strict: bool,
}

impl Case {
    /// Loads everything. Without a plan one is made for the host.
    pub(super) fn load(args: &AuditArgs, plan: Option<&Path>) -> Result<Self, Failure> {
        let root = open_root(&args.root)?;
        let plan = match plan {
            Some(path) => Plan::load(path).map_err(load_failure)?,
            None => suggested(&root)?,
        };
        let mut rules = load_rules(&args.rules)?;
        let waivers = match &args.waivers {
            Some(path) => Waivers::load(path, &rules).map_err(load_failure)?,
            None => Waivers::default(),
        };
        raise(&mut rules, &plan)?;
        choose(&mut rules, args)?;
        Ok(Self { root, plan, rules, waivers, strict: args.strict })
    }

    /// Judges the host, with the waivers that are in force today.
    pub(super) fn judge(&self) -> Report {
        let mut report = audit(&self.rules, &Host::new(&self.root, &self.plan), self.strict);
        self.waivers.apply(&mut report, UtcDateTime::now().date());
        report
    }
}

/// The plan that `plan suggest` makes of the host.
fn suggested(root: &Root) -> Result<Plan, Failure> {
    let suggested = suggest(root, &Request::default()).map_err(|error| {
        let next = "give one with --plan PLAN";
        Failure::Usage(format!("error: no plan given, and none can be made for this host: {error}\nhelp: {next}"))
    })?;
    let mut plan = suggested.plan().map_err(|problems| Failure::Usage(problems.render(false)))?;
    plan.name.clear();
    Ok(plan)
}

/// Raises the rules that the plan requires.
fn raise(rules: &mut RuleSet, plan: &Plan) -> Result<(), Failure> {
    let unknown = |id: &crate::doc::Spanned<String>| {
        rules.get(&id.value).err().map(|why| Problem::new(id.span.clone(), why, "no such rule"))
    };
    let problems = plan.require.iter().filter_map(unknown).collect();
    FileProblems::unless_empty(&plan.name, &plan.text, problems)
        .map_err(|problems| Failure::Usage(problems.render(false)))?;
    let required: Vec<String> = plan.require.iter().map(|id| id.value.clone()).collect();
    rules.require(&required);
    Ok(())
}

/// Keeps the rules of `--only`, without those of `--skip`.
fn choose(rules: &mut RuleSet, args: &AuditArgs) -> Result<(), Failure> {
    for (option, ids) in [("--only", &args.only), ("--skip", &args.skip)] {
        for id in ids {
            rules.get(id).map_err(|why| Failure::Usage(format!("error: {option}: {why}")))?;
        }
    }
    rules.retain(|rule| (args.only.is_empty() || args.only.contains(&rule.id)) && !args.skip.contains(&rule.id));
    if rules.iter().next().is_none() {
        return Err(Failure::Usage("error: --only and --skip leave no rule to judge".to_owned()));
    }
    Ok(())
}
