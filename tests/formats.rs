//! The formats for machines, the file that a report is written to, and several roots at once.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: what cannot go on has failed")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Tree, audit_fixture, fixtures, has_escapes, quietcore, scrub, written};
use quietcore::fact::{Cause, Source};
use quietcore::output::Format;
use quietcore::reading::is_obeyed;
use quietcore::report::{Decision, Evidence, Finding, Offending, PlanSummary, Remedy, Report, Verdict, WaiverNote};
use quietcore::rule::Level;

/// Characters that mean something to a format, or that it cannot hold.
const HOSTILE: &str = "a<b>&\"'\u{0}\u{1b}[31m\u{fffe}\r\n::error::x%0A, y: \\ ]]> ü";

const MACHINES: [Format; 4] = [Format::Json, Format::Junit, Format::Prometheus, Format::Github];

/// A report with every verdict, at every level, and every text of the report in it.
fn variety(text: &str) -> Report {
    let evidence = |what: &str| Evidence {
        message: format!("{what} {text}"),
        wanted: format!("wanted {text}"),
        found: format!("found {text}"),
        offending: Offending { words: vec![text.to_owned()], ..Offending::default() },
        sources: vec![Source { path: "proc/version".to_owned(), text: Some(text.to_owned()), error: None }],
    };
    let note = || WaiverNote {
        reason: format!("reason {text}"),
        owner: format!("owner {text}"),
        expires: "2999-01-31".to_owned(),
    };
    let waived = |decision| match decision {
        Decision::Fail(grounds) => Decision::Waived(grounds, note()),
        other => other,
    };
    let remedy =
        Remedy { runtime: Some(format!("now {text}")), persistent: None, boot: Some(format!("at boot {text}")) };
    let finding = |rule: &str, level, decision| Finding {
        rule: rule.to_owned(),
        title: format!("title {text}"),
        pack: Some("memory").filter(|_| level != Level::Required),
        level,
        decision,
        remedy: remedy.clone(),
    };
    Report {
        plan: PlanSummary {
            name: Some(format!("plan {text}")),
            hot: "2-3".to_owned(),
            idle: None,
            housekeeping: Some("0-1".to_owned()),
            realtime: false,
            nic: None,
            locked_memory: None,
            max_wakeup_latency_us: None,
        },
        root: format!("root {text}"),
        kernel: Some(format!("kernel {text}")),
        findings: vec![
            finding("passes", Level::Required, Decision::pass(evidence("passes"))),
            finding("fails", Level::Required, Decision::fail(evidence("fails"))),
            finding("advises", Level::Advised, Decision::fail(evidence("advises"))),
            finding("hidden", Level::Required, Decision::Unknown(Cause::Denied, evidence("hidden"))),
            finding("elsewhere", Level::Advised, Decision::NotApplicable(evidence("elsewhere"))),
            finding("dropped", Level::Advised, Decision::Dropped(evidence("dropped"))),
            finding("unseen", Level::Advised, Decision::Unknown(Cause::NotExposed, evidence("unseen"))),
            finding("told", Level::Info, Decision::fail(evidence("told"))),
            finding("accepted", Level::Required, waived(Decision::fail(evidence("accepted")))),
        ],
        strict: false,
        warnings: vec![format!("warning {text}")],
    }
}

/// Every report of the tests: those of the fixtures, and two that have everything.
fn reports() -> Vec<Report> {
    let mut reports: Vec<Report> = fixtures().iter().map(|name| audit_fixture(name)).collect();
    reports.extend([variety("text"), variety(HOSTILE)]);
    reports
}

fn count(report: &Report, verdicts: &[Verdict]) -> usize {
    verdicts.iter().map(|verdict| report.count(*verdict)).sum()
}

/// Failures of rules that want something mended.
fn failures(report: &Report) -> usize {
    report.findings.iter().filter(|f| f.verdict() == Verdict::Fail && f.level != Level::Info).count()
}

// ---- each format -------------------------------------------------------------------------------------------------

/// Texts of a host are anybody's, and a report of any format may be printed on a terminal.
#[test]
fn no_format_has_anything_in_it_that_a_terminal_obeys() {
    let obeyed: String = (0..=0xffff).filter_map(char::from_u32).filter(|c| is_obeyed(*c) && *c != '\t').collect();
    assert!(['\u{1b}', '\u{7f}', '\u{9b}', '\u{202e}', '\u{2066}'].iter().all(|c| obeyed.contains(*c)));
    for format in [&MACHINES[..], &[Format::Human]].concat() {
        let text = written(&variety(&obeyed), format);
        let found: Vec<char> = text.chars().filter(|c| is_obeyed(*c) && *c != '\n').collect();
        assert!(found.is_empty(), "{format:?}: {found:?}");
    }
    let json = written(&variety(&obeyed), Format::Json);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["plan"]["name"], format!("plan {obeyed}"), "escaped, not replaced");
}

#[test]
fn every_verdict_in_every_format() {
    for (format, name) in MACHINES.into_iter().zip(["json", "junit", "prometheus", "github"]) {
        insta::assert_snapshot!(format!("variety_{name}"), written(&variety("text"), format));
        insta::assert_snapshot!(format!("hostile_{name}"), written(&variety(HOSTILE), format));
    }
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    for report in reports() {
        for format in MACHINES {
            assert_eq!(written(&report, format), written(&report, format));
        }
    }
}

#[test]
fn junit_is_xml_and_counts_what_it_holds() {
    for report in reports() {
        let text = written(&report, Format::Junit);
        let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let all = |tag: &'static str| document.descendants().filter(move |node| node.has_tag_name(tag));
        let (failed, skipped) = (failures(&report), count(&report, &[Verdict::Unknown, Verdict::NotApplicable]));
        assert_eq!(all("testcase").count(), report.findings.len());
        assert_eq!(all("failure").count(), failed);
        assert_eq!(all("skipped").count(), skipped);
        for node in all("testsuites").chain(all("testsuite")) {
            let counts = ["tests", "failures", "errors", "skipped"].map(|name| node.attribute(name).unwrap());
            let wanted = [report.findings.len(), failed, 0, skipped].map(|count| count.to_string());
            assert_eq!(counts.map(str::to_owned), wanted);
        }
        let names: Vec<&str> = all("testcase").map(|case| case.attribute("name").unwrap()).collect();
        assert_eq!(names, report.findings.iter().map(|finding| finding.rule.as_str()).collect::<Vec<_>>());
    }
}

#[test]
fn a_waived_failure_is_a_passed_case_that_says_by_whom() {
    let text = written(&variety("text"), Format::Junit);
    let document = roxmltree::Document::parse(&text).unwrap();
    let case = document.descendants().find(|node| node.attribute("name") == Some("accepted")).unwrap();
    assert!(!case.children().any(|child| child.has_tag_name("failure") || child.has_tag_name("skipped")));
    let properties: Vec<(&str, &str)> = case
        .descendants()
        .filter(|node| node.has_tag_name("property"))
        .map(|node| (node.attribute("name").unwrap(), node.attribute("value").unwrap()))
        .collect();
    let wanted = [("waiver-reason", "reason text"), ("waiver-owner", "owner text"), ("waiver-expires", "2999-01-31")];
    assert_eq!(properties, wanted);
}

/// Samples of a text in the format of Prometheus, by their series. Panics where the collector would refuse it, and where
/// `promtool check metrics` would find fault with the help, the type or the name of a metric.
fn samples(text: &str) -> BTreeMap<String, String> {
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let (mut metric, mut helped, mut samples, mut done) = ("", "", BTreeMap::new(), Vec::new());
    assert!(text.ends_with('\n'));
    for line in text.strip_suffix('\n').unwrap().split('\n') {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && is_name(name), "{line}");
            helped = name;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.strip_suffix(" gauge").unwrap();
            assert_eq!(name, helped);
            assert!(!name.ends_with("_total") && !name.ends_with("_count"), "{line}");
            // All samples of a metric stand together.
            assert!(!done.contains(&helped), "{line}");
            done.push(helped);
            metric = name;
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let labels = series.strip_prefix(metric).unwrap_or_else(|| panic!("{line:?} is no {metric}"));
            assert!(is_label_set(labels), "{line:?}");
            assert!(value.parse::<u64>().is_ok(), "{line}");
            assert_eq!(samples.insert(series.to_owned(), value.to_owned()), None, "{line}");
        }
    }
    samples
}

/// Nothing, or `{name="value",…}` with the value's quotes, backslashes and line ends escaped.
fn is_label_set(labels: &str) -> bool {
    let Some(mut rest) = labels.strip_prefix('{').and_then(|labels| labels.strip_suffix('}')) else {
        return labels.is_empty();
    };
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut chars = after.char_indices();
        let mut end = None;
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' if matches!(chars.next(), Some((_, '\\' | '"' | 'n'))) => {}
                '\\' => return false,
                '"' => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
        }
        let Some(end) = end else { return false };
        if !name.trim_start_matches(',').bytes().all(|b| b.is_ascii_lowercase()) {
            return false;
        }
        rest = &after[end + 1..];
    }
    rest.is_empty()
}

#[test]
fn one_verdict_of_a_rule_is_one_and_the_others_are_zero() {
    for report in reports() {
        let samples = samples(&written(&report, Format::Prometheus));
        assert_eq!(samples["quietcore_audit_success"], u8::from(report.exit_code() == 0).to_string());
        assert_eq!(samples["quietcore_audit_exit_code"], report.exit_code().to_string());
        for finding in &report.findings {
            for verdict in Verdict::ALL {
                let (rule, level) = (&finding.rule, finding.level.name());
                let verdict_name = verdict.name();
                let series =
                    format!("quietcore_rule_verdict{{rule=\"{rule}\",verdict=\"{verdict_name}\",level=\"{level}\"}}");
                assert_eq!(samples[&series], u8::from(finding.verdict() == verdict).to_string(), "{series}");
            }
        }
        let rules: usize = samples
            .iter()
            .filter(|(series, _)| series.starts_with("quietcore_rules{"))
            .map(|(_, value)| value.parse::<usize>().unwrap())
            .sum();
        assert_eq!(rules, report.findings.len());
    }
}

#[test]
fn promtool_has_nothing_to_say() {
    if Command::new("promtool").arg("--version").output().is_err() {
        println!("skipped: promtool is not installed");
        return;
    }
    for report in reports() {
        let text = tempfile::NamedTempFile::new().unwrap();
        fs::write(text.path(), written(&report, Format::Prometheus)).unwrap();
        let stdin = fs::File::open(text.path()).unwrap();
        let output = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::from(stdin)).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn github_gets_an_annotation_for_all_but_passes() {
    for report in reports() {
        let text = written(&report, Format::Github);
        let kinds = |kind: &str| text.lines().filter(|line| line.starts_with(&format!("::{kind} title="))).count();
        let of = |verdict, level| report.findings.iter().filter(|f| (f.verdict(), f.level) == (verdict, level)).count();
        assert_eq!(kinds("error"), of(Verdict::Fail, Level::Required));
        let warnings = of(Verdict::Fail, Level::Advised) + of(Verdict::Unknown, Level::Required);
        assert_eq!(kinds("warning"), warnings + report.warnings.len());
        let all = count(&report, &[Verdict::Fail, Verdict::Unknown, Verdict::Waived]);
        // The summary is one more.
        assert_eq!(kinds("notice"), all - kinds("error") - warnings + 1);
        assert_eq!(text.lines().count(), kinds("error") + kinds("warning") + kinds("notice"), "{text}");
    }
}

#[test]
fn what_a_strict_audit_refuses_for_is_an_error() {
    let mut report = variety("text");
    report.findings.retain(|finding| finding.rule != "fails");
    assert!(written(&report, Format::Github).contains("::warning title=quietcore%3A hidden::unknown (denied)"));
    report.strict = true;
    assert!(written(&report, Format::Github).contains("::error title=quietcore%3A hidden::unknown (denied)"));
}

// ---- --output ----------------------------------------------------------------------------------------------------

#[test]
fn a_file_gets_the_report_and_standard_output_nothing() {
    let laid = Tree::tuned().thp("[always] madvise never").lay();
    for format in ["human", "json", "junit", "prometheus", "github"] {
        let printed = laid.check(&["--format", format]).done().answer(1);
        let done = laid.check(&["--format", format, "--output", "report"]).done();
        assert_eq!(done.answer(1), "");
        let path = laid.dir.path().join("report");
        let report = fs::read_to_string(&path).unwrap();
        assert_eq!(scrub(&report, &[]), scrub(&printed, &[]), "{format}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
    }
    let left: Vec<_> = fs::read_dir(laid.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".tmp")), "{left:?}");
}

#[test]
fn a_file_has_colours_on_demand_only() {
    let laid = Tree::tuned().lay();
    let report = |color: &[&str]| {
        laid.check(&["--output", "report"]).args(color).env("CLICOLOR_FORCE", "1").done().answer(0);
        fs::read_to_string(laid.dir.path().join("report")).unwrap()
    };
    assert!(!has_escapes(&report(&[])));
    assert!(has_escapes(&report(&["--color", "always"])));
}

#[test]
fn whoever_has_the_old_file_open_keeps_it_whole() {
    let laid = Tree::tuned().lay();
    let (path, other) = (laid.dir.path().join("report.prom"), laid.dir.path().join("other"));
    fs::write(&path, "the old one\n").unwrap();
    // The same file by another name: written in place, it would change with it.
    fs::hard_link(&path, &other).unwrap();
    laid.check(&["--format", "prometheus", "--output", "report.prom"]).done().answer(0);
    assert_eq!(fs::read_to_string(&other).unwrap(), "the old one\n");
    assert_ne!(fs::metadata(&path).unwrap().ino(), fs::metadata(&other).unwrap().ino());
    assert!(fs::read_to_string(&path).unwrap().contains("quietcore_audit_success 1\n"));
}

#[test]
fn a_file_that_cannot_be_written_is_exit_code_4_and_stays() {
    let laid = Tree::tuned().lay();
    fs::write(laid.dir.path().join("old"), "old\n").unwrap();
    symlink("old", laid.dir.path().join("link")).unwrap();
    symlink("nowhere", laid.dir.path().join("dangling")).unwrap();
    for (path, why) in [
        ("missing/report", "No such file"),
        ("old/report", "Not a directory"),
        ("root", "not a regular file"),
        ("link", "not a regular file"),
        ("dangling", "not a regular file"),
        ("/dev/null", "not a regular file"),
    ] {
        let done = laid.check(&["--output", path]).done();
        assert_eq!((done.code, done.out.as_str()), (Some(4), ""), "{path}: {}", done.err);
        assert!(done.err.contains(path) && done.err.contains(why), "{path}: {}", done.err);
    }
    assert_eq!(fs::read_to_string(laid.dir.path().join("old")).unwrap(), "old\n");
    assert!(laid.dir.path().join("link").is_symlink() && laid.dir.path().join("dangling").is_symlink());
}

#[test]
fn a_mistake_leaves_the_old_file() {
    let laid = Tree::tuned().lay();
    fs::write(laid.dir.path().join("old"), "old\n").unwrap();
    laid.check(&["--only", "no_such_rule", "--output", "old"]).done().refusal();
    assert_eq!(fs::read_to_string(laid.dir.path().join("old")).unwrap(), "old\n");
}

// ---- several roots -----------------------------------------------------------------------------------------------

/// `check` of these fixtures for the plan of the tuned one.
fn check(hosts: &[&str], more: &[&str]) -> common::Run {
    let roots = hosts.iter().flat_map(|host| ["--root".to_owned(), root(host)]);
    quietcore(["check", "--plan", "fixtures/tuned/plan.toml"]).args(roots).args(more)
}

fn root(host: &str) -> String {
    if Path::new(host).is_absolute() { host.to_owned() } else { format!("fixtures/{host}/root") }
}

#[test]
fn a_matrix_follows_the_reports() {
    let hosts = ["tuned", "mistuned", "laptop", "bare"];
    for more in [&[][..], &["--quiet"], &["--verbose"]] {
        let out = check(&hosts, more).done().answer(1);
        let matrix = out.split("\n\n").last().unwrap();
        assert!(matrix.lines().all(|line| line.chars().count() <= 80), "{matrix}");
        insta::assert_snapshot!("matrix_of_four", matrix);
    }
}

#[test]
fn many_roots_are_numbered() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = vec!["check".to_owned(), "--quiet".to_owned(), "--only=thp,governor".to_owned()];
    args.extend(["--plan".to_owned(), format!("{}/fixtures/tuned/plan.toml", common::TOP)]);
    for (number, host) in (1..).zip(["tuned", "mistuned", "laptop"].repeat(6)) {
        let name = format!("host-{number}");
        symlink(format!("{}/fixtures/{host}/root", common::TOP), dir.path().join(&name)).unwrap();
        args.extend(["--root".to_owned(), name]);
    }
    let out = quietcore(args).cwd(dir.path()).done().answer(1);
    let start = out.find(" 1  host-1").unwrap();
    insta::assert_snapshot!("matrix_of_eighteen", &out[start..]);
    assert!(out[start..].lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn json_of_several_roots_holds_the_report_of_each() {
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let both = parse(&check(&["tuned", "mistuned"], &["--format", "json"]).done().answer(1));
    let one = |host, code| parse(&check(&[host], &["--format", "json"]).done().answer(code));
    let wanted = serde_json::json!({
        "schema": 1, "exit_code": 1, "reports": [one("tuned", 0), one("mistuned", 1)], "refusals": [],
    });
    assert_eq!(both, wanted);
}

#[test]
fn the_worst_exit_code_counts_and_the_other_roots_are_audited() {
    assert_eq!(check(&["tuned", "unseen/thp"], &["--only", "thp"]).done().code, Some(0));
    assert_eq!(check(&["unseen/thp", "tuned"], &["--only", "thp", "--strict"]).done().code, Some(3));
    assert_eq!(check(&["unseen/thp", "mistuned"], &["--only", "thp", "--strict"]).done().code, Some(1));
    let hosts = ["tuned", "/no/such/root", "mistuned"];
    for format in ["human", "json", "junit", "prometheus", "github"] {
        let done = check(&hosts, &["--only", "thp", "--format", format]).done();
        assert_eq!(done.code, Some(2), "{}", done.err);
        assert!(done.err.contains("/no/such/root"), "{}", done.err);
        insta::assert_snapshot!(format!("refusal_{format}"), done.out);
    }
}

#[test]
fn formats_of_several_roots_are_one_document() {
    let hosts = ["tuned", "mistuned"];
    let out = check(&hosts, &["--format", "junit"]).done().answer(1);
    let document = roxmltree::Document::parse(&out).unwrap();
    let names: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("testsuite"))
        .map(|node| node.attribute("name"))
        .collect();
    assert_eq!(names, [Some("fixtures/tuned/root"), Some("fixtures/mistuned/root")]);
    let samples = samples(&check(&hosts, &["--format", "prometheus"]).done().answer(1));
    assert_eq!(samples["quietcore_audit_success{root=\"fixtures/tuned/root\"}"], "1");
    assert_eq!(samples["quietcore_audit_success{root=\"fixtures/mistuned/root\"}"], "0");
}

#[test]
fn a_root_given_twice_is_one() {
    for format in ["json", "prometheus"] {
        let once = check(&["tuned"], &["--format", format]).done().answer(0);
        assert_eq!(check(&["tuned", "tuned"], &["--format", format]).done().answer(0), once);
    }
}

#[test]
fn each_of_several_roots_has_a_plan_made_for_it() {
    let out = quietcore(["check", "--quiet", "--root", &root("tuned"), "--root", &root("mistuned")]).done();
    assert!(out.out.starts_with("no plan given: judging each host for one made for it\n\n"), "{}", out.out);
}

#[test]
fn a_gate_takes_one_root() {
    let args = ["gate", "--plan", "fixtures/tuned/plan.toml", "--root", "a", "--root", "b", "--", "true"];
    assert!(quietcore(args).done().refusal().contains("cannot be used multiple times"));
}
