//! Workflow commands of GitHub Actions: `::error title=…::…`, one a line. The runner makes annotations of them.
//!
//! What decides the exit code is an error; advised failures, required rules that are unknown and warnings are warnings;
//! other unknown verdicts, what is told for information, waived failures and the summary are notices. The runner shows the first ten of each kind a step, so that passes have no line.

use std::io::{self, Write};

use crate::exit;
use crate::fact::Cause;
use crate::reading::printable;
use crate::report::{Finding, Report, Survey, Verdict};
use crate::rule::Level;

pub(super) fn write(survey: Survey<'_>, out: &mut dyn Write) -> io::Result<()> {
    for report in survey.reports {
        let place = if survey.is_of_several() { format!(" on {}", report.root) } else { String::new() };
        for finding in &report.findings {
            if let Some(kind) = kind(report, finding) {
                command(out, kind, &format!("quietcore: {}{place}", finding.rule), &text(finding))?;
            }
        }
        for warning in &report.warnings {
            command(out, "warning", &format!("quietcore{place}"), warning)?;
        }
        command(out, "notice", &format!("quietcore{place}"), &summary(report))?;
    }
    for refusal in survey.refusals {
        command(out, "error", &format!("quietcore on {}", refusal.root), &format!("not audited: {}", refusal.why))?;
    }
    Ok(())
}

/// The kind of annotation that a finding gets; none where there is nothing to look at.
fn kind(report: &Report, finding: &Finding) -> Option<&'static str> {
    match (finding.verdict(), finding.level) {
        (Verdict::Fail, Level::Required) => Some("error"),
        // Under `--strict` it is what the audit refuses for, unless there is a failure.
        (Verdict::Unknown, Level::Required) if report.exit_code() == exit::UNKNOWN => Some("error"),
        (Verdict::Unknown, Level::Required) | (Verdict::Fail, Level::Advised) => Some("warning"),
        (Verdict::Fail | Verdict::Unknown | Verdict::Waived, _) => Some("notice"),
        (Verdict::Pass | Verdict::NotApplicable, _) => None,
    }
}

fn text(finding: &Finding) -> String {
    let mut text = finding.evidence().message.clone();
    if let Some(cause) = finding.cause().map(Cause::name) {
        text = format!("unknown ({cause}): {text}");
    }
    if let Some(waiver) = finding.waiver() {
        text = format!("waived: {text}\n{} ({}, until {})", waiver.reason, waiver.owner, waiver.expires);
    }
    if finding.verdict() == Verdict::Fail {
        text.extend(finding.remedy.steps().map(|(when, step)| format!("\n{when}: {step}")));
    }
    text
}

fn summary(report: &Report) -> String {
    let counts = Verdict::ALL.map(|verdict| format!("{} {}", report.count(verdict), verdict.name()));
    let plan = report.plan.name.as_ref().map_or_else(String::new, |name| format!("{name}, "));
    let kernel = report.kernel.as_ref().map_or_else(String::new, |kernel| format!(", kernel {kernel}"));
    let verdict = report.verdict().name();
    format!("{verdict}: {}; {plan}hot {}; {}{kernel}", counts.join(", "), report.plan.hot, report.root)
}

fn command(out: &mut dyn Write, kind: &str, title: &str, text: &str) -> io::Result<()> {
    let title = data(title).replace(':', "%3A").replace(',', "%2C");
    writeln!(out, "::{kind} title={title}::{}", data(text))
}

/// As the runner's own toolkit escapes it: the percent sign first, as it begins the escapes. The log is shown by a
/// terminal of sorts, so that other control characters are written out.
fn data(text: &str) -> String {
    let lines = text.split('\r').map(|line| printable(line).replace('%', "%25").replace('\n', "%0A"));
    lines.collect::<Vec<_>>().join("%0D")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_command_or_begins_another() {
        let mut out = Vec::new();
        command(&mut out, "error", "a: b, 5%\n", "c: d, 5%\r\n::error::x").unwrap();
        let line = String::from_utf8(out).unwrap();
        assert_eq!(line, "::error title=a%3A b%2C 5%25%0A::c: d, 5%25%0D%0A::error::x\n");
    }
}
