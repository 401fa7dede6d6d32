//! `quietcore fix`: how to mend what fails, printed and never applied.

use std::io::Write;

use super::Failure;
use crate::cli::FixArgs;
use crate::exit;
use crate::fact::Host;
use crate::fix::Situation;
use crate::preflight::{Options, Preflight};

pub(super) fn run(args: FixArgs, out: &mut impl Write) -> Result<u8, Failure> {
    let FixArgs { plan, root, form, packs, rules, waivers } = args;
    let options = Options { root, rules, packs: packs.packs(), waivers, ..Options::default() };
    let preflight = Preflight::load(&options, Some(&plan))?;
    let report = preflight.judge();
    let host = Host::new(&preflight.root, &preflight.plan);
    write!(out, "{}", Situation::new(&host, &preflight.rules, &report).print(form))?;
    // What is printed mends something or says that there is nothing to mend: either is an answer.
    Ok(exit::PASSED)
}
