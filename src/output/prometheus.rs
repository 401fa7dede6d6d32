//! The text format of Prometheus, for node_exporter's textfile collector. Metrics and labels are frozen: more may come,
//! none is renamed.
//!
//! Every rule has a series for each verdict, 1 for the one that holds and 0 for the others: a verdict that changes then
//! goes to 0 at once, where a series that is no longer written would live on for five minutes. There are no time stamps:
//! the collector refuses them, and `node_textfile_mtime_seconds` says how old the file is.

use std::io::{self, Write};

use crate::exit;
use crate::reading::printable;
use crate::report::{Report, Survey, Verdict};
use crate::rule::Level;

const LEVELS: [Level; 3] = [Level::Required, Level::Advised, Level::Info];

pub(super) fn write(survey: Survey<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page { out, of_several: survey.is_of_several(), metric: "" };
    page.metric("quietcore_audit_success", "Whether the audit ended with exit code 0 (1) or another one (0).")?;
    for report in survey.reports {
        page.sample(&report.root, &[], u64::from(report.exit_code() == exit::PASSED))?;
    }
    for refusal in survey.refusals {
        page.sample(&refusal.root, &[], 0)?;
    }
    page.metric("quietcore_audit_exit_code", "The exit code of the audit.")?;
    for report in survey.reports {
        page.sample(&report.root, &[], u64::from(report.exit_code()))?;
    }
    for refusal in survey.refusals {
        page.sample(&refusal.root, &[], u64::from(exit::USAGE))?;
    }
    if survey.reports.is_empty() {
        return Ok(());
    }
    page.metric("quietcore_audit_info", "What the host was judged for; always 1.")?;
    for report in survey.reports {
        let plan = &report.plan;
        let name = plan.name.as_deref().unwrap_or_default();
        let kernel = report.kernel.as_deref().unwrap_or_default();
        page.sample(&report.root, &[("plan", name), ("hot", &plan.hot), ("kernel", kernel)], 1)?;
    }
    page.metric("quietcore_audit_warnings", "Warnings of the audit: waivers that are unused or expire soon.")?;
    for report in survey.reports {
        page.sample(&report.root, &[], size(report.warnings.len()))?;
    }
    page.metric("quietcore_rules", "Rules by level and verdict.")?;
    for report in survey.reports {
        for (level, verdict) in LEVELS.iter().flat_map(|level| Verdict::ALL.map(|verdict| (*level, verdict))) {
            let labels = [("level", level.name()), ("verdict", verdict.name())];
            page.sample(&report.root, &labels, count(report, level, verdict))?;
        }
    }
    page.metric("quietcore_rule_verdict", "The verdict of a rule: 1 for the one that holds, 0 for the others.")?;
    for report in survey.reports {
        for finding in &report.findings {
            for verdict in Verdict::ALL {
                let labels =
                    [("rule", finding.rule.as_str()), ("verdict", verdict.name()), ("level", finding.level.name())];
                page.sample(&report.root, &labels, u64::from(finding.verdict() == verdict))?;
            }
        }
    }
    Ok(())
}

fn count(report: &Report, level: Level, verdict: Verdict) -> u64 {
    size(report.findings.iter().filter(|finding| finding.level == level && finding.verdict() == verdict).count())
}

fn size(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Where the metrics go. A root is named where there are several.
struct Page<'w> {
    out: &'w mut dyn Write,
    of_several: bool,
    metric: &'static str,
}

impl Page<'_> {
    /// Begins a metric; its samples follow. All are gauges.
    fn metric(&mut self, name: &'static str, help: &str) -> io::Result<()> {
        self.metric = name;
        writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} gauge")
    }

    fn sample(&mut self, root: &str, labels: &[(&str, &str)], value: u64) -> io::Result<()> {
        let root = self.of_several.then_some(("root", root));
        let label = |(name, value): (&str, &str)| format!("{name}=\"{}\"", escaped(value));
        let labels: Vec<String> = labels.iter().copied().chain(root).map(label).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        writeln!(self.out, "{}{labels} {value}", self.metric)
    }
}

/// The three characters that would end a label's value are escaped; control characters are written out.
fn escaped(value: &str) -> String {
    printable(value).replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_ends_its_label() {
        let mut out = Vec::new();
        let mut page = Page { out: &mut out, of_several: true, metric: "m" };
        page.sample("a\"} 1\n\\", &[("rule", "x")], 1).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "m{rule=\"x\",root=\"a\\\"} 1\\n\\\\\"} 1\n");
    }
}
