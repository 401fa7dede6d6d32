//! `quietcore plan`: a plan made for a host, and a plan held against one.

use std::io::Write;

use super::check::WIDTH;
use super::{Failure, Streams, load_failure, load_rules, open_root};
use crate::audit::audit;
use crate::cli::PlanCommand;
use crate::exit;
use crate::fact::Host;
use crate::output::{self, Detail, Format, Style};
use crate::plan::{self, Plan};
use crate::preflight::{PreflightError, heed};
use crate::rule::pack::TOPOLOGY;
use crate::topology::{Request, suggest};

pub(super) fn run(command: PlanCommand, streams: &mut Streams) -> Result<u8, Failure> {
    match command {
        PlanCommand::Suggest { nic, hot, cold, root } => {
            let root = open_root(&root)?;
            let suggested = suggest(&root, &Request { nic, hot, cold });
            let suggested = suggested.map_err(|error| Failure::Usage(format!("error: {error}")))?;
            write!(streams.out, "{suggested}")?;
            Ok(exit::PASSED)
        }
        PlanCommand::Schema => {
            writeln!(streams.out, "{:#}", plan::json_schema())?;
            Ok(exit::PASSED)
        }
        PlanCommand::Check { plan, root, rules } => {
            let plan = Plan::load(&plan).map_err(load_failure)?;
            let root = open_root(&root)?;
            let mut rules = load_rules(&rules)?;
            heed(&mut rules, &plan).map_err(PreflightError::from)?;
            rules.retain(|rule| rule.pack == Some(TOPOLOGY));
            // Advised beside other rules; here they are the question, but for those that the plan drops.
            let is_asked = |id: &String| !plan.skip.iter().any(|skipped| skipped.id.value == *id);
            let asked: Vec<String> = rules.iter().map(|rule| rule.id.clone()).filter(is_asked).collect();
            rules.require(&asked);
            let report = audit(&rules, &Host::new(&root, &plan), false);
            let style = Style { detail: Detail::Full, width: WIDTH, elapsed: None };
            output::write(&report, Format::Human, style, &mut streams.out)?;
            Ok(report.exit_code())
        }
    }
}
