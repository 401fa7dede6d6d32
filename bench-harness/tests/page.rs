//! The page of a result: what stands in it, and that a host's texts do nothing there.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use quietcore_bench::caveat::Caveat;
use quietcore_bench::environment::Environment;
use quietcore_bench::experiment::{Claim, Findings, Raw, Row};
use quietcore_bench::gate::{Audit, Verdict};
use quietcore_bench::page::{self, Overview};
use quietcore_bench::picture::{Axis, Picture, Scale, Series, Shape, Unit};
use quietcore_bench::report::Report;
use quietcore_bench::samples::Samples;
use quietcore_bench::summary::Summary;
use quietcore_bench::table::Table;
use roxmltree::{Document, Node, ParsingOptions};

const HOSTILE: &str = "</td></script><script>alert('x')</script>\"' onload=\"y\" & <!-- \u{1b}[31m \u{202e}";

fn host() -> Environment {
    let audit = Audit { verdict: Verdict::Fail, failed: vec!["isolated".to_owned()], ..Audit::default() };
    let cpus = BTreeMap::from([("client".to_owned(), 2), ("server".to_owned(), 3)]);
    Environment { kernel: Some("6.1.0".to_owned()), load: Some(0.5), cpus, audit, ..Environment::default() }
}

fn arm(name: &str, ns: &[u64]) -> Row {
    let mut samples = Samples::with_capacity(ns.len()).unwrap();
    for &ns in ns {
        samples.record(ns);
    }
    Row { name: name.to_owned(), summary: Summary::of(ns), raw: Raw::Samples(vec![samples]), ..Row::default() }
}

fn claim(claim: &str, holds: bool, required: bool) -> Claim {
    Claim { claim: claim.to_owned(), holds, measured: "ratio 3.00".to_owned(), required }
}

fn report(measurement: &'static str) -> Report {
    let mut table = Table::new("frames", &["", "sent\nframes", "lost"]);
    table.rows.push(vec!["block".to_owned(), "4".to_owned(), "0".to_owned()]);
    let findings = Findings {
        arms: vec![
            arm("block", &[5_000, 5_000, 6_000, 20_000]),
            arm("spin", &[1_000, 2_000]),
            Row::skipped("busypoll", "setsockopt: Operation not permitted"),
        ],
        claims: vec![
            claim("spin p50 < block p50", true, false),
            claim("block < spin", false, false),
            claim("no sample is lost", false, true),
        ],
        caveats: vec![Caveat::Quick],
        tables: vec![table],
        pictures: vec![Picture {
            name: "gaps".to_owned(),
            title: "Gaps".to_owned(),
            caption: "Further left is better.".to_owned(),
            x: Axis { label: "gap", scale: Scale::Log, unit: Unit::Time },
            y: Axis { label: "gaps", scale: Scale::Linear, unit: Unit::Number },
            shape: Shape::Bars,
            series: vec![Series { name: "block".to_owned(), points: vec![(1e3, 1.0), (1e4, 3.0), (1e5, 0.0)] }],
        }],
        ..Findings::default()
    };
    Report::new(measurement, host(), findings)
}

/// The page as a document; it has a type, and nothing is declared in that.
fn parsed(html: &str) -> Document<'_> {
    Document::parse_with_options(html, ParsingOptions { allow_dtd: true, ..ParsingOptions::default() }).unwrap()
}

fn elements<'a>(document: &'a Document<'a>, name: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.is_element() && node.tag_name().name() == name)
}

fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter_map(|node| if node.is_text() { node.text() } else { None }).collect()
}

#[test]
fn the_page_of_one_report() {
    let html = page::of_report(&report("receive"));
    let (head, body) = html.split_once("</style>").unwrap();
    let (head, _style) = head.split_once("<style>\n").unwrap();
    let without_style = format!("{head}{}", body.trim_start());
    insta::assert_snapshot!(without_style);
}

#[test]
fn it_loads_nothing_and_runs_nothing() {
    let html = page::of_report(&report("receive"));
    let document = parsed(&html);
    let loads = ["script", "link", "img", "iframe", "object", "image", "use", "foreignObject"];
    assert!(loads.iter().all(|name| elements(&document, name).next().is_none()));
    for word in ["@import", "url(", "src="] {
        assert!(!html.contains(word), "{word}");
    }
    let policy =
        elements(&document, "meta").find_map(|meta| meta.attribute("http-equiv").zip(meta.attribute("content")));
    assert_eq!(policy, Some(("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")));
}

#[test]
fn ids_are_unique_and_pictures_are_named() {
    let (a, b) = (report("receive"), report("uring"));
    let html = page::html("lab", &[&a, &b], None);
    let document = parsed(&html);
    let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    assert_eq!(elements(&document, "svg").count(), 4);
    for svg in elements(&document, "svg") {
        assert_eq!(svg.attribute("role"), Some("img"));
        let names = svg.attribute("aria-labelledby").unwrap();
        assert!(names.split(' ').all(|name| ids.contains(&name)), "{names}");
    }
}

#[test]
fn texts_of_the_host_are_shown_and_do_nothing() {
    let mut report = report("receive");
    report.host.kernel = Some(HOSTILE.to_owned());
    report.host.cpus.insert(HOSTILE.to_owned(), 1);
    report.host.audit.failed.push(HOSTILE.to_owned());
    let findings = &mut report.findings;
    findings.arms.push(Row::skipped(HOSTILE, HOSTILE));
    findings.arms.push(arm(HOSTILE, &[7]));
    findings.arms.push(Row::figures("p", [("result", HOSTILE.into())]));
    findings.summary.insert(HOSTILE.to_owned(), HOSTILE.into());
    findings.claims.push(Claim { measured: HOSTILE.to_owned(), ..claim(HOSTILE, true, false) });
    findings.caveats.push(Caveat::NotAudited(HOSTILE.to_owned()));
    findings.tables.push(Table {
        title: HOSTILE.to_owned(),
        columns: vec![HOSTILE.to_owned()],
        rows: vec![vec![HOSTILE.to_owned()]],
    });
    let picture = &mut findings.pictures[0];
    (picture.title, picture.caption) = (HOSTILE.to_owned(), HOSTILE.to_owned());
    picture.series[0].name = HOSTILE.to_owned();
    let overview = Overview { table: Table::new(HOSTILE, &[HOSTILE]), remarks: vec![HOSTILE.to_owned()] };
    let html = page::html(HOSTILE, &[&report], Some(&overview));
    let document = parsed(&html);
    assert_eq!(elements(&document, "script").count(), 0);
    assert!(document.descendants().all(|node| node.attribute("onload").is_none()));
    assert!(!html.contains('\u{1b}') && !html.contains('\u{202e}'));
    let shown = HOSTILE.replace('\u{1b}', "\\u{1b}").replace('\u{202e}', "\\u{202e}");
    let times = text(document.root_element()).matches(&shown).count();
    assert!(times >= 18, "{times}");
}

#[test]
fn several_reports_have_contents_and_say_once_what_is_the_same() {
    let (a, mut b) = (report("receive"), report("uring"));
    b.host.load = Some(7.25);
    b.findings.caveats.push(Caveat::Steal(40));
    let mut table = Table::new("expected", &["", "expected", "measured"]);
    table.rows.push(vec!["spin p50".to_owned(), "1 to 4 us".to_owned(), "1 us".to_owned()]);
    let overview = Overview { table, remarks: vec!["faults: did not take place: no memory".to_owned()] };
    let html = page::html("lab", &[&a, &b], Some(&overview));
    let document = parsed(&html);
    let links: Vec<_> = elements(&document, "a").filter_map(|a| a.attribute("href")).collect();
    assert_eq!(links, ["#receive", "#uring"]);
    let contents = elements(&document, "nav").map(text).collect::<String>();
    assert_eq!(contents.matches("FAILS").count(), 2, "{contents}");
    let sections: Vec<Node<'_, '_>> =
        elements(&document, "section").filter(|section| section.has_attribute("id")).collect();
    assert_eq!(
        sections.iter().map(|section| section.attribute("id").unwrap()).collect::<Vec<_>>(),
        ["receive", "uring"]
    );
    let count = |needle: &str| text(document.root_element()).matches(needle).count();
    assert_eq!((count("6.1.0"), count("a smoke test"), count("7.25"), count("took 40 ms")), (1, 1, 1, 1));
    assert!(text(sections[1]).contains("7.25") && text(sections[1]).contains("took 40 ms"));
    assert!(html.find("no memory").unwrap() < html.find("<section").unwrap());
}

#[test]
fn a_lab_of_nothing_is_a_page() {
    parsed(&page::html("lab", &[], None));
    let nothing = Report::new("privileges", Environment::default(), Findings::default());
    assert!(text(parsed(&page::of_report(&nothing)).root_element()).contains("not exposed"));
}

#[test]
fn saved_beside_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    report("receive").save(folder.path()).unwrap();
    let mut names: Vec<String> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["receive-block.csv", "receive-spin.csv", "receive.html", "receive.json"]);
    let html = fs::read_to_string(folder.path().join("receive.html")).unwrap();
    for name in ["receive-block.csv", "receive-spin.csv", "receive.json"] {
        assert!(html.contains(name), "{name}");
    }
}
