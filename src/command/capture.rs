//! `quietcore capture`: what an audit reads of a host, copied into a tree that audits like it.

use std::io::{self, Write};

use super::check::WIDTH;
use super::{Failure, Streams, open_root};
use crate::capture::{Captured, Target, TargetError, capture};
use crate::cli::CaptureArgs;
use crate::exit;
use crate::output::{at_blanks, one_line};

/// How many places a line of the summary names before it counts the rest.
const NAMED: usize = 8;

pub(super) fn run(args: &CaptureArgs, streams: &mut Streams) -> Result<u8, Failure> {
    let target = Target::new(&args.out).map_err(|error| match error {
        TargetError::Exists(_) => Failure::Usage(format!("error: {error}")),
        TargetError::Unseen(..) => Failure::NotWritten(format!("error: {error}")),
    })?;
    let root = open_root(&args.root)?;
    let captured = capture(&root, args.keep_hostname)
        .map_err(|error| Failure::Usage(format!("error: {}: {error}", root.name())))?;
    target.write(&captured.tree).map_err(|error| Failure::NotWritten(format!("error: {error}")))?;
    summary(&captured, &target, &mut streams.out)?;
    Ok(exit::PASSED)
}

fn summary(captured: &Captured, target: &Target, out: &mut dyn Write) -> io::Result<()> {
    let tree = &captured.tree;
    let denied = match captured.errors.denied {
        0 => String::new(),
        denied => format!(", {denied} of them for want of permission: root would see more"),
    };
    line(out, "captured", &format!("{}: {} files, {} bytes", target.path().display(), tree.files(), tree.bytes()))?;
    line(out, "errors", &format!("{} recorded{denied}", captured.errors.recorded))?;
    for (path, why) in &captured.left_out {
        line(out, "left out", &format!("{path}: {why}"))?;
    }
    let replaced = &captured.replaced;
    if let Some(node) = replaced.node.as_ref().filter(|_| !replaced.names.is_empty()) {
        let places = places(replaced.names.keys());
        line(out, "replaced", &format!("the host name {node} by as many x in {places}"))?;
    }
    if !replaced.addresses.is_empty() {
        line(out, "replaced", &format!("MAC addresses by x in {}", places(replaced.addresses.keys())))?;
    }
    for what in &captured.look_through {
        line(out, "look at", &format!("{what}: see that you may pass it on"))?;
    }
    // Not wrapped: it is there to be copied.
    let path = one_line(&target.path().display().to_string());
    match target {
        Target::Folder(_) => writeln!(out, "audit it  quietcore check --plan PLAN --root {path}"),
        Target::Archive(_) => {
            writeln!(out, "audit it  mkdir DIR && tar -xf {path} -C DIR")?;
            writeln!(out, "          quietcore check --plan PLAN --root DIR")
        }
    }
}

/// A line with its label before it, wrapped.
fn line(out: &mut dyn Write, label: &str, text: &str) -> io::Result<()> {
    let first = format!("{label:<10}");
    let blank = " ".repeat(first.len());
    let options = at_blanks(WIDTH).initial_indent(&first).subsequent_indent(&blank);
    for line in textwrap::wrap(&one_line(text), options) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn places<'a>(paths: impl ExactSizeIterator<Item = &'a String>) -> String {
    let rest = paths.len().saturating_sub(NAMED);
    let mut named: Vec<String> = paths.take(NAMED).cloned().collect();
    if rest > 0 {
        named.push(format!("{rest} more"));
    }
    named.join(", ")
}
