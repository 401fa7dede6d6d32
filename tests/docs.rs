//! The documentation says what the program does: its generated parts are those that the program gives now, its command
//! lines parse, its examples are plans and rules.
//!
//! `UPDATE_DOCS=1 cargo test --test docs` rewrites the generated parts.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;
use std::{env, fs};

use clap::Parser;
use quietcore::cli::Cli;
use quietcore::exit;
use quietcore::plan::Plan;
use quietcore::report::Verdict;
use quietcore::rule::pack::{PACKS, Pack};
use quietcore::rule::{self, RuleSet};
use quietcore::waiver::Waivers;

/// The documents that are about the program, from the top of the repository.
const DOCUMENTS: &[&str] = &["README.md", "rules/README.md", "CONTRIBUTING.md", "contrib/README.md"];

const END: &str = "<!-- end -->";

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(document: &str) -> String {
    // Tests run side by side: whichever comes first refreshes, and all of them see the result.
    static REFRESH: Once = Once::new();
    REFRESH.call_once(|| {
        if env::var_os("UPDATE_DOCS").is_some() {
            for document in DOCUMENTS {
                let text = read_as_it_stands(document);
                fs::write(top().join(document), regenerated(document, &text)).unwrap();
            }
        }
    });
    read_as_it_stands(document)
}

fn read_as_it_stands(document: &str) -> String {
    fs::read_to_string(top().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// Runs the program at the top of the repository.
fn quietcore(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quietcore")).args(args).current_dir(top()).output().unwrap()
}

/// What the program answers to a command line that is no mistake.
fn answer(line: &str) -> String {
    let args: Vec<&str> = line.split_whitespace().collect();
    let output = quietcore(&args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let is_answer =
        output.status.code().is_some_and(|code| [exit::PASSED, exit::FAILED].map(i32::from).contains(&code));
    assert!(is_answer && stderr.is_empty(), "quietcore {line}: {}\n{stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The text of a generated part, by what stands in the comment before it.
fn generated(marker: &str) -> String {
    match marker.split_once(": ").unwrap_or((marker, "")) {
        ("report", args) => format!("```console\n{}\n{}```\n", prompt(args), without_elapsed(&answer(args))),
        ("json", args) => format!("```json\n{}```\n", tight(&answer(args))),
        ("exit codes", "") => exit_codes(),
        ("packs", "") => packs(),
        ("rules", "") => answer("generate rules"),
        ("facts", "") => answer("generate vocabulary"),
        _ => panic!("nothing is generated for <!-- {marker} -->"),
    }
}

/// A command line as one types it in 80 columns.
fn prompt(args: &str) -> String {
    let mut lines = vec!["$ quietcore".to_owned()];
    for option in args.replace(" --", "\n--").lines() {
        let last = lines.last_mut().unwrap();
        if last.len() + 1 + option.len() <= 78 {
            write!(last, " {option}").unwrap();
        } else {
            last.push_str(" \\");
            lines.push(format!("    {option}"));
        }
    }
    lines.join("\n")
}

/// How long it took differs from run to run.
fn without_elapsed(report: &str) -> String {
    let line = |line: &str| match line.rsplit_once("; ") {
        Some((rest, last)) if last.ends_with(" ms") => format!("{rest}; … ms\n"),
        _ => format!("{line}\n"),
    };
    report.lines().map(line).collect()
}

/// The same JSON with on one line what fits there.
fn tight(pretty: &str) -> String {
    const WIDTH: usize = 110;
    let lines: Vec<&str> = pretty.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let opens = |line: &str| line.ends_with(['{', '[']);
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        let mut next = (*line).to_owned();
        if opens(line) {
            let inner = lines[at..].iter().take_while(|inner| indent(inner) > indent(line)).count();
            let whole: Vec<&str> = lines[at..=at + inner].iter().map(|line| line.trim_start()).collect();
            let whole = format!("{line} {}", whole.join(" "));
            if whole.len() <= WIDTH {
                next = whole;
                at += inner + 1;
            }
        }
        let goes_on = |last: &&mut String| {
            let is_end = last.trim_start().starts_with(['}', ']']);
            indent(last) == indent(&next) && last.ends_with(',') && !is_end && !opens(&next)
        };
        match out.last_mut().filter(goes_on) {
            Some(last) if last.len() + next.trim_start().len() < WIDTH => {
                last.push(' ');
                last.push_str(next.trim_start());
            }
            _ => out.push(next),
        }
    }
    out.join("\n") + "\n"
}

fn exit_codes() -> String {
    let rows = exit::TABLE.iter().map(|(code, meaning)| format!("| {code} | {meaning} |\n"));
    format!("| code | meaning |\n|---|---|\n{}", rows.collect::<String>())
}

fn packs() -> String {
    let rules = RuleSet::builtin().unwrap();
    let row = |pack: &Pack| {
        let ids: Vec<String> =
            rules.iter().filter(|rule| rule.pack == Some(pack.name)).map(|rule| format!("`{}`", rule.id)).collect();
        (!ids.is_empty()).then(|| format!("| `{}` | {} | {} |\n", pack.name, pack.about, ids.join(", ")))
    };
    let rows: String = PACKS.iter().filter_map(row).collect();
    format!("| pack | about | rules |\n|---|---|---|\n{rows}")
}

/// The document with its generated parts as they should be.
fn regenerated(document: &str, text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        writeln!(out, "{line}").unwrap();
        let Some(marker) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        assert_ne!(line, END, "{document}: an end without a beginning");
        assert!(lines.any(|line| line == END), "{document}: no {END} after {line}");
        writeln!(out, "{}{END}", generated(marker)).unwrap();
    }
    out
}

/// The fenced blocks of a document: the word after the fence, and the lines.
fn fences(text: &str) -> Vec<(String, String)> {
    let mut fences = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(word) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            fences.push((word.to_owned(), body.join("\n") + "\n"));
        }
    }
    fences
}

/// The command lines of the program in a document, in blocks and in running text, without the program's name.
fn command_lines(text: &str) -> Vec<String> {
    let mut prose = true;
    let spans = text.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        prose ^= is_fence;
        prose && !is_fence
    });
    let spans: Vec<&str> = spans.flat_map(|line| line.split('`').skip(1).step_by(2)).collect();
    let blocks: Vec<String> = fences(text).into_iter().map(|(_, body)| body.replace("\\\n", " ")).collect();
    blocks.iter().flat_map(|body| body.lines()).chain(spans).filter_map(command_line).collect()
}

fn command_line(line: &str) -> Option<String> {
    let line = line.trim();
    let line = line.strip_prefix("$ ").or_else(|| line.strip_prefix("ExecStartPre=/usr/bin/")).unwrap_or(line);
    let args = line.strip_prefix("cargo run --release -- ").or_else(|| line.strip_prefix("quietcore "))?;
    // What follows is the shell's.
    let end = [" > ", " | ", " || ", " && ", " #"].iter().filter_map(|cut| args.find(cut)).min();
    Some(args[..end.unwrap_or(args.len())].trim().to_owned())
}

#[test]
fn generated_parts_are_what_the_program_gives() {
    for document in DOCUMENTS {
        let now = read(document);
        let wanted = regenerated(document, &now);
        if now == wanted {
            continue;
        }
        let same = now.lines().zip(wanted.lines()).take_while(|(now, wanted)| now == wanted).count();
        let (found, wanted) = (now.lines().nth(same), wanted.lines().nth(same));
        panic!(
            "{document}:{}: found\n  {found:?}\nwanted\n  {wanted:?}\nrefresh: UPDATE_DOCS=1 cargo test --test docs",
            same + 1
        );
    }
}

#[test]
fn the_generated_parts_are_there() {
    for (document, marker) in [
        ("README.md", "<!-- report: check "),
        ("README.md", "<!-- json: check "),
        ("README.md", "<!-- exit codes -->"),
        ("README.md", "<!-- packs -->"),
        ("rules/README.md", "<!-- rules -->"),
        ("rules/README.md", "<!-- facts -->"),
    ] {
        assert!(read(document).lines().any(|line| line.starts_with(marker)), "{document} lacks {marker}");
    }
}

#[test]
fn every_rule_and_every_verdict_is_documented() {
    let (readme, language) = (read("README.md"), read("rules/README.md"));
    for line in answer("rules list").lines().filter(|line| line.starts_with(' ')) {
        let id = line.split_whitespace().next().unwrap();
        assert!(readme.contains(&format!("`{id}`")) || language.contains(&format!("`{id}`")), "{id}");
    }
    for verdict in Verdict::ALL {
        let row = format!("| {} | ", verdict.name().replace('-', " "));
        assert!(readme.lines().any(|line| line.starts_with(&row)), "README.md has no row {row:?}");
    }
}

#[test]
fn command_lines_parse_and_those_on_fixtures_run() {
    for document in DOCUMENTS {
        let lines = command_lines(&read(document));
        assert!(!lines.is_empty() || *document == "CONTRIBUTING.md", "{document} shows no command line");
        for line in lines {
            let words = std::iter::once("quietcore").chain(line.split_whitespace());
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{document}: quietcore {line}\n{error}");
            }
            if line.contains("fixtures/") {
                answer(&line);
            }
        }
    }
}

#[test]
fn command_lines_are_found_where_they_stand() {
    let text = "a `quietcore rules lint DIR` b `cargo`\n```sh\n$ quietcore check \\\n    --quiet > out  # why\n\
                cargo run --release -- check\ncargo test\n```\n`quietcore\n```ini\nExecStartPre=/usr/bin/quietcore check\n```\n";
    assert_eq!(command_lines(text), ["check      --quiet", "check", "check", "rules lint DIR"]);
}

#[test]
fn examples_are_plans_waivers_and_rules() {
    let (mut plans, mut waivers, mut rules) = (0, 0, 0);
    for document in DOCUMENTS {
        for (word, body) in fences(&read(document)) {
            if word != "toml" {
                continue;
            }
            if body.contains("[[case]]") {
                // Of a test of a rule: `packs.rs` reads those.
                toml::from_str::<toml::Table>(&body).unwrap_or_else(|error| panic!("{document}: {error}"));
            } else if body.contains("\n[hot]") {
                plans += 1;
                Plan::parse(document, &body).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
            } else if body.contains("[[waiver]]") {
                waivers += 1;
                Waivers::parse(document, &body, &RuleSet::builtin().unwrap())
                    .unwrap_or_else(|problems| panic!("{}", problems.render(false)));
            } else {
                rules += 1;
                // The first line says which file it is.
                let path = PathBuf::from(body.lines().next().unwrap().trim_start_matches("# "));
                let stem = path.file_stem().unwrap().to_str().unwrap();
                rule::parse(document, stem, &body, None)
                    .unwrap_or_else(|problems| panic!("{}", problems.render(false)));
            }
        }
    }
    assert_eq!((plans, waivers, rules), (2, 1, 2), "an example was lost or is not looked at");
}

#[test]
fn links_lead_somewhere() {
    for document in DOCUMENTS.iter().chain(&["CHANGELOG.md", "fixtures/README.md"]) {
        let text = read(document);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let document = top().join(document);
            let path = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            let document = document.display();
            let target = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{document}: {link}: {error}"));
            let anchor = |line: &str| line.trim_start_matches(['#', ' ']).to_lowercase().replace(' ', "-");
            let is_there = target.lines().any(|line| line.starts_with('#') && anchor(line) == section);
            assert!(section.is_empty() || is_there, "{document}: {link}: no such section");
        }
    }
}

#[test]
fn the_changelog_has_room_for_what_is_not_released() {
    assert!(read("CHANGELOG.md").lines().any(|line| line == "## [Unreleased]"));
}
