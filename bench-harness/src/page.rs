//! Results as a page: one HTML file that needs nothing else, to look at, to print and to send on.
//!
//! Whatever a host says of itself is text here and nothing else. The page is well-formed XML, too, so that a test can read
//! it; it has no script, and its policy forbids to load anything.

use std::collections::BTreeMap;

use crate::caveat::Caveat;
use crate::experiment::Claim;
use crate::picture::{self, Picture, svg};
use crate::report::{self, Report};
use crate::table::Table;
use crate::text::markup;

const STYLE: &str = include_str!("page.css");

/// How to read what every page has. Elements and texts of our own, not escaped.
const READING: &str = "\
<ul>
<li>Times are nanoseconds unless a unit stands there. A percentile is one of the samples (nearest rank): 999 of 1000 are at
or below p99.9. Beyond it, a percentile is given where at least ten samples lie above it.</li>
<li>A claim <strong>holds</strong> or <strong>does not hold</strong>, and the figures beside it say why. One that
<strong>FAILS</strong> is one that the run depends on: it ended with exit code 1.</li>
<li>What the host cannot do is <strong>skipped</strong> for the reason given, and has no figures.</li>
<li>On logarithmic axes equal distances are equal ratios. Lines differ in their dashes and markers; their colours say
nothing else. The last marker of a line is its largest value.</li>
<li>Ratios between arms carry over to another host; times do not.</li>
</ul>
";

/// What stands before the reports where there are several.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// The figures of all reports that matter most.
    pub table: Table,
    /// What is to be said about them, a sentence each.
    pub remarks: Vec<String>,
}

/// The page of one report.
pub fn of_report(report: &Report) -> String {
    html(report.measurement, &[report], None)
}

/// One page for `reports`, in this order: with a table of contents where there are several.
pub fn html(title: &str, reports: &[&Report], overview: Option<&Overview>) -> String {
    let mut page = Page::default();
    let title = markup(title);
    page.line(&format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>"
    ));
    let (facts, own_facts) = shared(reports, |report| report.host.facts());
    let (caveats, own_caveats) = shared(reports, |report| report.findings.caveats.clone());
    if let (&[report], None) = (reports, overview) {
        page.about(report);
        page.caveats(&caveats, "h2");
        page.host(&facts, "h2");
        page.report(report, "h2");
    } else {
        page.contents(reports);
        page.caveats(&caveats, "h2");
        page.host(&facts, "h2");
        if let Some(overview) = overview {
            page.overview(overview);
        }
        for ((report, facts), caveats) in reports.iter().zip(&own_facts).zip(&own_caveats) {
            let name = markup(report.measurement);
            page.line(&format!("<section id=\"{name}\">\n<h2>{name}</h2>"));
            page.about(report);
            page.caveats(caveats, "h3");
            page.host(facts, "h3");
            page.report(report, "h3");
            page.line("</section>");
        }
    }
    page.line("<section>\n<h2>How to read this</h2>");
    page.out.push_str(READING);
    page.files(reports);
    page.line("</section>\n</body>\n</html>");
    page.out
}

/// What all reports have in common, and what each has beside that.
fn shared<T: PartialEq>(reports: &[&Report], of: impl Fn(&Report) -> Vec<T>) -> (Vec<T>, Vec<Vec<T>>) {
    let mut all: Vec<Vec<T>> = reports.iter().map(|report| of(report)).collect();
    let Some((first, rest)) = all.split_first_mut() else { return (Vec::new(), Vec::new()) };
    let (common, own) =
        std::mem::take(first).into_iter().partition(|item| rest.iter().all(|other| other.contains(item)));
    *first = own;
    for items in rest {
        items.retain(|item| !common.contains(item));
    }
    (common, all)
}

#[derive(Default)]
struct Page {
    out: String,
}

impl Page {
    fn line(&mut self, html: &str) {
        self.out.push_str(html);
        self.out.push('\n');
    }

    fn heading(&mut self, level: &str, text: &str) {
        self.line(&format!("<{level}>{}</{level}>", markup(text)));
    }

    /// A list of what is HTML already; none where there is nothing in it.
    fn list(&mut self, items: impl Iterator<Item = String>) {
        let items: Vec<String> = items.map(|item| format!("<li>{item}</li>\n")).collect();
        if !items.is_empty() {
            self.line(&format!("<ul>\n{}</ul>", items.concat()));
        }
    }

    fn contents(&mut self, reports: &[&Report]) {
        self.line("<nav>");
        self.list(reports.iter().map(|report| {
            let name = markup(report.measurement);
            let about = report.about().map(|about| format!(": {}", markup(about))).unwrap_or_default();
            let fails = if report.holds() { "" } else { " <strong>FAILS</strong>" };
            format!("<a href=\"#{name}\">{name}</a>{about}{fails}")
        }));
        self.line("</nav>");
    }

    fn overview(&mut self, Overview { table, remarks }: &Overview) {
        if table.rows.is_empty() && remarks.is_empty() {
            return;
        }
        self.heading("h2", "Overview");
        if !table.rows.is_empty() {
            self.table(table, "words");
        }
        self.list(remarks.iter().map(|remark| markup(remark)));
    }

    fn about(&mut self, report: &Report) {
        if let Some(about) = report.about() {
            self.line(&format!("<p class=\"about\">{}</p>", markup(about)));
        }
    }

    fn caveats(&mut self, caveats: &[Caveat], level: &str) {
        if caveats.is_empty() {
            return;
        }
        self.line("<div class=\"caveats\">");
        self.heading(level, "Before you quote a number");
        let item = |caveat: &Caveat| format!("<strong>{}</strong>: {}", caveat.code(), markup(&caveat.text()));
        self.list(caveats.iter().map(item));
        self.line("</div>");
    }

    fn host(&mut self, facts: &[(&'static str, String)], level: &str) {
        if facts.is_empty() {
            return;
        }
        self.heading(level, "Host");
        let rows = facts.iter().map(|(name, fact)| vec![(*name).to_owned(), fact.clone()]).collect();
        self.table(&Table { rows, ..Table::default() }, "words");
    }

    /// What one report found, its parts under headings of `level`.
    fn report(&mut self, report: &Report, level: &str) {
        let findings = &report.findings;
        let tables: Vec<&Table> = findings.tables.iter().filter(|table| !table.rows.is_empty()).collect();
        let percentiles = report::percentiles(&findings.arms, true);
        let remarks: Vec<String> = findings.arms.iter().filter_map(report::remark).collect();
        if !tables.is_empty() || percentiles.is_some() || !remarks.is_empty() || !findings.summary.is_empty() {
            self.heading(level, "Figures");
        }
        for table in tables.into_iter().chain(&percentiles) {
            self.table(table, "figures");
        }
        self.list(remarks.iter().map(|remark| markup(remark)));
        self.list(
            findings.summary.iter().map(|(name, value)| format!("{}: {}", markup(name), markup(&report::plain(value)))),
        );
        if !findings.claims.is_empty() {
            self.heading(level, "Claims");
            self.list(findings.claims.iter().map(|claim| {
                let Claim { claim: text, measured, .. } = claim;
                format!("<strong>{}</strong>: {} ({})", claim.word(), markup(text), markup(measured))
            }));
        }
        let distribution = picture::distribution(&findings.arms);
        let pictures: Vec<&Picture> = distribution.iter().chain(&findings.pictures).collect();
        if !pictures.is_empty() {
            self.heading(level, "Pictures");
        }
        for picture in pictures {
            self.picture(picture, &format!("{}-{}", report.measurement, picture.name));
        }
    }

    fn picture(&mut self, picture: &Picture, id: &str) {
        let Picture { title, caption, .. } = picture;
        self.line(&format!(
            "<figure>\n<figcaption><strong>{}</strong><br/>{}</figcaption>\n<div class=\"scroll\">",
            markup(title),
            markup(caption)
        ));
        self.out.push_str(&svg::draw(picture, id).concat());
        self.line("</div>\n</figure>");
    }

    fn table(&mut self, table: &Table, class: &str) {
        let Table { title, columns, rows } = table;
        if !title.is_empty() {
            self.line(&format!("<p class=\"title\">{}</p>", markup(title)));
        }
        self.line(&format!("<div class=\"scroll\">\n<table class=\"{class}\">"));
        if !columns.is_empty() {
            let heads = columns.iter().map(|column| {
                let lines: Vec<String> = column.split('\n').map(markup).collect();
                if column.is_empty() {
                    "<td></td>".to_owned()
                } else {
                    format!("<th scope=\"col\">{}</th>", lines.join("<br/>"))
                }
            });
            let heads: String = heads.collect();
            self.line(&format!("<thead>\n<tr>{heads}</tr>\n</thead>"));
        }
        self.line("<tbody>");
        for row in rows {
            let cells = row.iter().enumerate().map(|(i, cell)| match i {
                0 => format!("<th scope=\"row\">{}</th>", markup(cell)),
                _ => format!("<td>{}</td>", markup(cell)),
            });
            let cells: String = cells.collect();
            self.line(&format!("<tr>{cells}</tr>"));
        }
        self.line("</tbody>\n</table>\n</div>");
    }

    /// What lies beside the page.
    fn files(&mut self, reports: &[&Report]) {
        self.heading("h3", "Files beside this page");
        let mut items = Vec::new();
        for report in reports {
            items.push(format!("<code>{}.json</code>: all figures, for programs", markup(report.measurement)));
            let mut by_columns: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for (name, raw) in report.raw_files() {
                by_columns.entry(raw.columns()).or_default().push(format!("<code>{}</code>", markup(&name)));
            }
            let of_raw =
                |(columns, names): (&str, Vec<String>)| format!("{}: {columns}, a line each", names.join(", "));
            items.extend(by_columns.into_iter().map(of_raw));
        }
        self.list(items.into_iter());
    }
}
