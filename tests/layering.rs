//! The layers of the sources, by the paths that they name: a module uses what lies below it and nothing above.
//!
//! `{cpuset, units, exit, problem, reading, doc, schema} <- {root, plan, topology} <- fact <- rule, report <- audit, waiver <- command,
//! cli, main`; `output` sees the report; a rule is loaded without a host; `root` alone opens the files of a host.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The layers, the lowest first. Modules of one layer may use each other, as long as that does not go round.
const LAYERS: &[&[&str]] = &[
    &["cpuset", "units", "exit", "problem", "reading", "doc", "schema"],
    &["root", "plan", "topology"],
    &["fact"],
    &["rule", "report"],
    &["audit", "waiver", "output", "capture"],
    &["preflight", "fix"],
    &["command", "cli"],
    &["main"],
];

/// All that a format may name outside its own module: the report, and the types that the report is made of.
const SEEN_BY_OUTPUT: &[&str] = &[
    "report",
    "exit",
    "cpuset::CpuSet",
    "fact::Source",
    "fact::Cause",
    "rule::Level",
    "rule::pack::BASE",
    "reading::printable",
    "reading::printable_json",
    "reading::xml_escaped",
];

/// What a rule may not name: it is loaded before there is a host.
const HIDDEN_FROM_RULES: &[&str] = &["root", "topology", "plan", "reading", "fact::Host", "fact::Look"];

/// Who opens or lists files, and which. Everything else reads a host through `root`.
const OPENS_FILES: &[(&str, &str)] = &[
    ("root.rs", "the files of a host"),
    ("root/", "the files of a host"),
    ("doc.rs", "plans, rules and waivers, which users name"),
    ("rule/set.rs", "folders of rules, which users name"),
    ("capture/write.rs", "the tree that it writes"),
    ("command/file.rs", "the file of --output, which is written"),
];

/// A source file of the package.
struct Source {
    /// Relative to `src`.
    path: String,
    /// Module path: `fact/irq.rs` is `fact`, `irq`.
    module: Vec<String>,
    /// Its text without comments, strings and tests.
    code: String,
}

impl Source {
    /// The module of the crate's top that it belongs to.
    fn top(&self) -> &str {
        self.module.first().map_or("lib", String::as_str)
    }
}

fn sources() -> Vec<Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&src, &mut paths);
    let mut sources = Vec::new();
    for file in paths {
        let path = file.strip_prefix(&src).unwrap().to_str().unwrap().to_owned();
        // A module that is there for tests alone: `root/tests.rs`.
        if path.ends_with("/tests.rs") {
            continue;
        }
        let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
        let module = if stem == "lib" { Vec::new() } else { stem.split('/').map(str::to_owned).collect() };
        let code = without_tests(&without_comments_and_strings(&fs::read_to_string(&file).unwrap()));
        sources.push(Source { path, module, code });
    }
    assert!(sources.len() > 30, "only {} sources", sources.len());
    sources
}

fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// Rust without comments and without what stands in string and character literals. Lines stay lines.
fn without_comments_and_strings(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let mut code = String::new();
    let mut index = 0;
    while index < chars.len() {
        let end = match (at(index), at(index + 1)) {
            ('/', '/') => end_of(&chars, index, |rest| rest[0] == '\n'),
            ('/', '*') => end_of(&chars, index + 2, |rest| rest.starts_with(&['*', '/'])) + 2,
            ('"', _) => end_of_string(&chars, index + 1),
            ('r', '"' | '#') if !is_of_name(at(index.wrapping_sub(1))) => match raw_string(&chars, index) {
                Some(end) => end,
                None => index,
            },
            // A character, not a lifetime.
            ('\'', '\\') => end_of(&chars, index + 3, |rest| rest[0] == '\'') + 1,
            ('\'', _) if at(index + 2) == '\'' => index + 3,
            _ => index,
        };
        if end == index {
            code.push(at(index));
            index += 1;
        } else {
            let end = end.min(chars.len());
            code.extend(chars[index..end].iter().filter(|c| **c == '\n'));
            // Words on both sides stay apart.
            code.push(' ');
            index = end;
        }
    }
    code
}

fn end_of(chars: &[char], from: usize, is_end: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len()).find(|at| is_end(&chars[*at..])).unwrap_or(chars.len())
}

fn end_of_string(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// The end of a raw string that begins here, if one does: `r#"…"#`.
fn raw_string(chars: &[char], from: usize) -> Option<usize> {
    let hashes = chars[from + 1..].iter().take_while(|c| **c == '#').count();
    let quote = from + 1 + hashes;
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    Some(end_of(chars, quote + 1, |rest| rest.starts_with(&close)) + close.len())
}

/// Without modules and items marked `#[cfg(test)]`: to the brace that closes them, or the semicolon.
fn without_tests(code: &str) -> String {
    let mark = "#[cfg(test)]";
    let Some(start) = code.find(mark) else { return code.to_owned() };
    let (before, rest) = code.split_at(start);
    let mut depth = 0;
    let end = rest.char_indices().find(|(_, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (*c == '}' || *c == ';') && depth == 0
    });
    let rest = end.map_or("", |(at, _)| &rest[at + 1..]);
    format!("{before}{}", without_tests(rest))
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Names and signs, `::` being one sign.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = if is_of_name(first) {
            rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, tail) = rest.split_at(end);
        tokens.push(token);
        rest = tail.trim_start();
    }
    tokens
}

/// Every path of the crate that a source names, from the crate's top: `fact::Source`. Groups are taken apart.
fn paths(source: &Source) -> BTreeSet<String> {
    let tokens = tokens(&source.code);
    let mut found = BTreeSet::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_start = at == 0 || tokens[at - 1] != "::";
        let base = match tokens[at] {
            "crate" | "quietcore" if is_start => Some((Vec::new(), at + 1)),
            "super" if is_start => {
                let supers = tokens[at..].chunks(2).take_while(|pair| pair[0] == "super").count();
                let above = source.module.len().saturating_sub(supers);
                Some((source.module[..above].to_vec(), at + 2 * supers - 1))
            }
            _ => None,
        };
        match base {
            Some((base, next)) if tokens.get(next) == Some(&"::") => at = follow(&tokens, next + 1, &base, &mut found),
            _ => at += 1,
        }
    }
    found
}

/// Follows a path from behind a `::` and returns where it ends.
fn follow(tokens: &[&str], mut at: usize, base: &[String], found: &mut BTreeSet<String>) -> usize {
    if tokens.get(at) == Some(&"{") {
        at += 1;
        while at < tokens.len() && tokens[at] != "}" {
            at = if tokens[at] == "," { at + 1 } else { follow(tokens, at, base, found) };
        }
        return at + 1;
    }
    let mut path = base.to_vec();
    while let Some(token) = tokens.get(at) {
        if *token != "self" {
            path.push((*token).to_owned());
        }
        at += 1;
        if tokens.get(at) == Some(&"::") {
            at += 1;
            if tokens.get(at) == Some(&"{") {
                return follow(tokens, at, &path, found);
            }
            continue;
        }
        break;
    }
    if tokens.get(at) == Some(&"as") {
        at += 2;
    }
    found.insert(path.join("::"));
    at
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Which modules of the crate's top each of them uses.
fn uses() -> BTreeMap<String, BTreeSet<String>> {
    let sources = sources();
    let modules: BTreeSet<String> = sources.iter().map(|source| source.top().to_owned()).collect();
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in &sources {
        let used = all.entry(source.top().to_owned()).or_default();
        for path in paths(source) {
            let top = path.split("::").next().unwrap_or_default();
            if modules.contains(top) && top != source.top() {
                used.insert(top.to_owned());
            }
        }
    }
    all
}

fn is_below(path: &str, parents: &[&str]) -> bool {
    parents.iter().any(|parent| path == *parent || path.strip_prefix(parent).is_some_and(|rest| rest.starts_with("::")))
}

#[test]
fn every_module_has_a_layer() {
    let without: Vec<String> = uses().into_keys().filter(|module| module != "lib" && layer(module).is_none()).collect();
    assert_eq!(without, [""; 0], "give them a place in LAYERS");
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    for module in LAYERS.iter().copied().flatten().filter(|module| **module != "main") {
        assert!(lib.contains(&format!("mod {module};")), "there is no {module} any more");
    }
}

#[test]
fn no_module_uses_one_above_it() {
    let mut wrong = Vec::new();
    for (module, used) in uses() {
        for other in used {
            if layer(&module).zip(layer(&other)).is_some_and(|(own, others)| others > own) {
                wrong.push(format!("{module} uses {other}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn no_two_modules_use_each_other() {
    let uses = uses();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    // Takes away what uses nothing that is left; what remains goes round.
    while let Some(free) = uses.iter().find(|(module, used)| {
        !done.contains(module.as_str()) && used.iter().all(|other| done.contains(other.as_str()))
    }) {
        done.insert(free.0);
    }
    let round: Vec<&String> = uses.keys().filter(|module| !done.contains(module.as_str())).collect();
    assert!(round.is_empty(), "{round:?}");
}

#[test]
fn formats_see_the_report_and_nothing_else() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.top() == "output") {
        for path in paths(source).iter().filter(|path| !is_below(path, &["output"])) {
            if !is_below(path, SEEN_BY_OUTPUT) {
                wrong.push(format!("{} names {path}", source.path));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_rule_is_loaded_without_a_host() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.top() == "rule") {
        for path in paths(source).iter().filter(|path| is_below(path, HIDDEN_FROM_RULES)) {
            wrong.push(format!("{} names {path}", source.path));
        }
        for token in tokens(&source.code).iter().filter(|token| matches!(**token, "Host" | "Look" | "Root")) {
            wrong.push(format!("{} names {token}", source.path));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn root_alone_opens_files_of_a_host() {
    let mut wrong = Vec::new();
    for source in sources() {
        let may_open = OPENS_FILES.iter().any(|(path, _)| source.path == *path || source.path.starts_with(path));
        if may_open {
            continue;
        }
        let tokens = tokens(&source.code);
        for (at, token) in tokens.iter().enumerate() {
            let follows = |words: &[&str]| tokens[at..].starts_with(words);
            let opens = follows(&["std", "::", "fs"])
                || follows(&["rustix", "::", "fs"])
                || follows(&["fs", "::"])
                || follows(&["openat"])
                || matches!(
                    *token,
                    "File" | "OpenOptions" | "ReadDir" | "WalkDir" | "walkdir" | "read_dir" | "openat2"
                );
            if opens {
                wrong.push(format!("{} names {token}", source.path));
            }
        }
    }
    assert_eq!(wrong, [""; 0], "only these open files: {OPENS_FILES:?}");
}

/// What the gate needs of it is in a package of its own, `exec`.
#[test]
fn nothing_is_unsafe() {
    for source in sources() {
        assert!(!tokens(&source.code).contains(&"unsafe"), "{}", source.path);
        if matches!(source.path.as_str(), "lib.rs" | "main.rs") {
            assert!(source.code.contains("#![forbid(unsafe_code)]"), "{}", source.path);
        }
    }
}

#[test]
fn nothing_runs_a_program_or_talks_to_a_network() {
    // It becomes another program, which is all that it is for.
    let becomes = "command/exec.rs";
    for source in &sources() {
        let tokens = tokens(&source.code);
        for (at, token) in tokens.iter().enumerate() {
            let follows = |words: &[&str]| tokens[at..].starts_with(words);
            let is_bad = follows(&["process", "::", "Command"])
                || follows(&["std", "::", "net"])
                || follows(&["rustix", "::", "net"])
                || (*token == "quietcore_exec" && source.path != becomes)
                || matches!(*token, "TcpStream" | "UdpSocket" | "UnixStream");
            assert!(!is_bad, "{} names {token}", source.path);
        }
    }
}

#[test]
fn the_reader_of_sources_reads_them() {
    let text = "// crate::root\nuse crate::fact::{self, Host, kernel as k};\nlet a = \"crate::audit\"; /* crate::cli */\n\
                let b = r#\"crate::plan\"#; let c = '\"'; fn f<'a>(x: &'a super::host::Look) {}\n\
                use crate::rule::{expr::{Expr, SetOp}, set};\n#[cfg(test)]\nmod tests { use crate::command; }\nfn g() {}\n";
    let code = without_tests(&without_comments_and_strings(text));
    let source = Source { path: "fact/irq.rs".to_owned(), module: vec!["fact".to_owned(), "irq".to_owned()], code };
    let found: Vec<String> = paths(&source).into_iter().collect();
    let want = [
        "fact",
        "fact::Host",
        "fact::host::Look",
        "fact::kernel",
        "rule::expr::Expr",
        "rule::expr::SetOp",
        "rule::set",
    ];
    assert_eq!(found, want);
    assert!(source.code.contains("fn g()") && !source.code.contains("command"), "{}", source.code);
}
