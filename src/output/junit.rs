//! JUnit XML as GitLab and Jenkins read it: a suite a root, a test case a rule. Elements and attributes are frozen: more
//! may come, none is renamed. There are no times in it, so that the same report gives the same bytes.

use std::io::{self, Write};

use crate::fact::Cause;
use crate::reading::xml_escaped;
use crate::report::{Evidence, Finding, Report, Survey, Verdict};
use crate::rule::Level;

/// Names and values, in order.
type Attributes<'a> = [(&'a str, &'a str)];

pub(super) fn write(survey: Survey<'_>, out: &mut dyn Write) -> io::Result<()> {
    let total = |count: fn(&Report) -> usize| survey.reports.iter().map(count).sum::<usize>();
    let refused = survey.refusals.len();
    let mut xml = Xml { out, depth: 0 };
    writeln!(xml.out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    let counts = Counts {
        tests: total(|report| report.findings.len()) + refused,
        failures: total(failures),
        errors: refused,
        skipped: total(skipped),
    };
    xml.open("testsuites", &counts.attributes("quietcore"))?;
    for report in survey.reports {
        // Jenkins and GitLab tell cases apart by class and name.
        let class = if survey.is_of_several() { format!("quietcore {}", report.root) } else { "quietcore".to_owned() };
        suite(&mut xml, &class, report)?;
    }
    for refusal in survey.refusals {
        let class = format!("quietcore {}", refusal.root);
        let counts = Counts { tests: 1, failures: 0, errors: 1, skipped: 0 };
        xml.open("testsuite", &counts.attributes(&refusal.root))?;
        xml.open("testcase", &[("classname", class.as_str()), ("name", "audit")])?;
        xml.leaf("error", &[("message", &format!("not audited: {}", refusal.why))])?;
        xml.close("testcase")?;
        xml.close("testsuite")?;
    }
    xml.close("testsuites")
}

/// What is only told is no failure.
fn failures(report: &Report) -> usize {
    report.findings.iter().filter(|finding| finding.verdict() == Verdict::Fail && finding.level != Level::Info).count()
}

fn skipped(report: &Report) -> usize {
    report.count(Verdict::Unknown) + report.count(Verdict::NotApplicable)
}

/// What a suite, or all of them, came to.
struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

impl Counts {
    fn attributes(&self, name: &str) -> Vec<(&'static str, String)> {
        let counts =
            [("tests", self.tests), ("failures", self.failures), ("errors", self.errors), ("skipped", self.skipped)];
        let name = ("name", name.to_owned());
        std::iter::once(name).chain(counts.map(|(what, count)| (what, count.to_string()))).collect()
    }
}

fn suite(xml: &mut Xml<'_>, class: &str, report: &Report) -> io::Result<()> {
    let counts =
        Counts { tests: report.findings.len(), failures: failures(report), errors: 0, skipped: skipped(report) };
    xml.open("testsuite", &counts.attributes(&report.root))?;
    let plan = &report.plan;
    let properties = [
        ("plan", plan.name.as_deref()),
        ("hot", Some(plan.hot.as_str())),
        ("idle", plan.idle.as_deref()),
        ("housekeeping", plan.housekeeping.as_deref()),
        ("host", Some(report.root.as_str())),
        ("kernel", report.kernel.as_deref()),
    ];
    xml.properties(properties.iter().filter_map(|(name, value)| Some((*name, (*value)?))))?;
    for finding in &report.findings {
        case(xml, class, finding)?;
    }
    if !report.warnings.is_empty() {
        xml.text("system-out", &[], &report.warnings.join("\n"))?;
    }
    xml.close("testsuite")
}

fn case(xml: &mut Xml<'_>, class: &str, finding: &Finding) -> io::Result<()> {
    let attributes = [("classname", class), ("name", finding.rule.as_str())];
    let evidence = finding.evidence();
    match finding.verdict() {
        Verdict::Pass => return xml.leaf("testcase", &attributes),
        Verdict::Fail if finding.level == Level::Info => {
            xml.open("testcase", &attributes)?;
            xml.text("system-out", &[], &format!("{}: {}", finding.level.name(), evidence.message))?;
        }
        Verdict::Fail => {
            xml.open("testcase", &attributes)?;
            let attributes = [("type", finding.level.name()), ("message", evidence.message.as_str())];
            xml.text("failure", &attributes, &details(finding, evidence))?;
        }
        Verdict::Unknown => {
            let cause = finding.cause().map_or("", Cause::name);
            xml.open("testcase", &attributes)?;
            xml.leaf("skipped", &[("message", &format!("unknown ({cause}): {}", evidence.message))])?;
        }
        Verdict::NotApplicable => {
            xml.open("testcase", &attributes)?;
            xml.leaf("skipped", &[("message", &format!("not applicable: {}", evidence.message))])?;
        }
        Verdict::Waived => {
            xml.open("testcase", &attributes)?;
            if let Some(waiver) = finding.waiver() {
                xml.properties([
                    ("waiver-reason", waiver.reason.as_str()),
                    ("waiver-owner", &waiver.owner),
                    ("waiver-expires", &waiver.expires),
                ])?;
            }
            xml.text("system-out", &[], &format!("waived: {}", evidence.message))?;
        }
    }
    xml.close("testcase")
}

/// The text of a failure: the good condition, what was wanted and found, and how to mend it.
fn details(finding: &Finding, evidence: &Evidence) -> String {
    let mut lines = vec![finding.title.clone()];
    let wanted = [("wanted", evidence.wanted.as_str()), ("found", &evidence.found)];
    let labelled = wanted.into_iter().filter(|(_, text)| !text.is_empty()).chain(finding.remedy.steps());
    lines.extend(labelled.map(|(label, text)| format!("{label}: {text}")));
    lines.join("\n")
}

/// Writes elements, two blanks a level.
struct Xml<'w> {
    out: &'w mut dyn Write,
    depth: usize,
}

impl Xml<'_> {
    fn tag<V: AsRef<str>>(&mut self, name: &str, attributes: &[(&str, V)], end: &str) -> io::Result<()> {
        write!(self.out, "{:indent$}<{name}", "", indent = 2 * self.depth)?;
        for (name, value) in attributes {
            write!(self.out, " {name}=\"{}\"", xml_escaped(value.as_ref(), true))?;
        }
        write!(self.out, "{end}")
    }

    fn open<V: AsRef<str>>(&mut self, name: &str, attributes: &[(&str, V)]) -> io::Result<()> {
        self.tag(name, attributes, ">\n")?;
        self.depth += 1;
        Ok(())
    }

    fn close(&mut self, name: &str) -> io::Result<()> {
        self.depth -= 1;
        writeln!(self.out, "{:indent$}</{name}>", "", indent = 2 * self.depth)
    }

    /// An element without content.
    fn leaf(&mut self, name: &str, attributes: &Attributes<'_>) -> io::Result<()> {
        self.tag(name, attributes, "/>\n")
    }

    /// An element with text, which keeps its lines.
    fn text(&mut self, name: &str, attributes: &Attributes<'_>, text: &str) -> io::Result<()> {
        self.tag(name, attributes, ">")?;
        writeln!(self.out, "{}</{name}>", xml_escaped(text, false))
    }

    fn properties<'a>(&mut self, properties: impl IntoIterator<Item = (&'a str, &'a str)>) -> io::Result<()> {
        self.open("properties", &[] as &Attributes<'_>)?;
        for (name, value) in properties {
            self.leaf("property", &[("name", name), ("value", value)])?;
        }
        self.close("properties")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::is_obeyed;

    #[test]
    fn any_text_is_xml_and_comes_back() {
        let text: String = (0..0x300).chain(0xfff0..0x1_0010).filter_map(char::from_u32).collect();
        let mut out = Vec::new();
        let mut xml = Xml { out: &mut out, depth: 0 };
        xml.text("a", &[("b", &text)], &text).unwrap();
        let out = String::from_utf8(out).unwrap();
        let document = roxmltree::Document::parse(&out).unwrap();
        let visible = |c: char| match c {
            '\t' | '\n' | '\r' => c.to_string(),
            c if is_obeyed(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => c.escape_unicode().to_string(),
            c => c.to_string(),
        };
        let wanted: String = text.chars().map(visible).collect();
        assert_eq!(document.root_element().attribute("b"), Some(wanted.as_str()));
        assert_eq!(document.root_element().text(), Some(wanted.as_str()));
    }
}
