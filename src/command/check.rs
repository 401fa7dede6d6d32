//! `quietcore check`: the audit and its report.

use std::io::Write;
use std::time::Instant;

use super::{Failure, Streams, load_failure, load_rules, open_root};
use crate::audit::audit;
use crate::cli::{AuditArgs, CheckArgs};
use crate::fact::Host;
use crate::output::{self, Detail, Format, Style};
use crate::plan::Plan;
use crate::problem::{FileProblems, Problem};
use crate::root::Root;
use crate::rule::RuleSet;
use crate::topology::{Request, suggest};

/// The width of a report that goes anywhere but to a terminal, and the most on one.
const WIDTH: usize = 80;

pub(super) fn run(args: &CheckArgs, streams: &mut Streams) -> Result<u8, Failure> {
    let began = Instant::now();
    let root = open_root(&args.audit.root)?;
    let plan = match &args.plan {
        Some(path) => Plan::load(path).map_err(load_failure)?,
        None => suggested(&root)?,
    };
    let rules = choose_rules(&args.audit, &plan)?;
    let host = Host::new(&root, &plan);
    let report = audit(&rules, &host, args.audit.strict);

    let detail = match (args.quiet, args.verbose) {
        (true, _) => Detail::Quiet,
        (_, true) => Detail::Verbose,
        _ => Detail::Normal,
    };
    if args.plan.is_none() && args.format == Format::Human {
        let of_root = if root.is_live() { String::new() } else { format!(" --root {}", root.name()) };
        writeln!(streams.out, "no plan given: judging this host for one made for it; to keep it:")?;
        writeln!(streams.out, "  quietcore plan suggest{of_root} > plan.toml")?;
        writeln!(streams.out)?;
    }
    let style = Style { detail, width: WIDTH, elapsed: Some(began.elapsed()) };
    output::write(&report, args.format, style, &mut streams.out)?;
    Ok(report.exit_code())
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

/// The rules of an audit: all, or those asked for, with the levels that the plan raises.
pub(super) fn choose_rules(args: &AuditArgs, plan: &Plan) -> Result<RuleSet, Failure> {
    let mut rules = load_rules(&args.rules)?;
    for (option, ids) in [("--only", &args.only), ("--skip", &args.skip)] {
        for id in ids {
            rules.get(id).map_err(|why| Failure::Usage(format!("error: {option}: {why}")))?;
        }
    }
    let mut problems = Vec::new();
    for id in &plan.require {
        if let Err(why) = rules.get(&id.value) {
            problems.push(Problem::new(id.span.clone(), why, "no such rule"));
        }
    }
    FileProblems::unless_empty(&plan.name, &plan.text, problems)
        .map_err(|problems| Failure::Usage(problems.render(false)))?;
    let required: Vec<String> = plan.require.iter().map(|id| id.value.clone()).collect();
    rules.require(&required);
    rules.retain(|rule| (args.only.is_empty() || args.only.contains(&rule.id)) && !args.skip.contains(&rule.id));
    if rules.iter().next().is_none() {
        return Err(Failure::Usage("error: --only and --skip leave no rule to judge".to_owned()));
    }
    Ok(rules)
}
