//! Rule files: what is refused, each refusal in its own file of `bad-rules/`, and what is accepted and how it is judged.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: what cannot go on has failed")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use common::{CPU, ISOLATED, NOHZ_FULL, Tree, audit_dir, builtin, finding, gist, quietcore, scrub};
use quietcore::fact::{self, Kind, Per};
use quietcore::rule::{self, RuleSet};
use tempfile::TempDir;

const HEAD: &str = "schema = 1\ntitle = \"a rule of a test\"\nlevel = \"required\"\nwhy = \"a test says so\"\n";

/// Every verb of the language.
const VERBS: &[&str] = &["within", "avoids", "is", "is-not", "one-of", "includes", "excludes", "at-least", "at-most"];

/// A folder `rules` with these files, in a temporary one.
fn folder(files: &[(&str, String)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("rules")).unwrap();
    for (name, text) in files {
        let path = dir.path().join("rules").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn rule_of(entries: &str) -> String {
    format!("{HEAD}{entries}\n")
}

/// A rule that the tuned tree passes.
fn passing() -> String {
    rule_of("[[assert]]\nthat = \"plan.hot\"\nwithin = \"cpu.isolated\"")
}

/// A rule that it fails.
fn failing() -> String {
    rule_of("[[assert]]\nthat = \"plan.hot\"\navoids = \"cpu.isolated\"")
}

fn lint(dir: &TempDir) -> common::Run {
    quietcore(["rules", "lint", "rules"]).cwd(dir.path())
}

/// `check` of the tuned fixture with the folder's rules.
fn check(dir: &TempDir, more: &[&str]) -> common::Run {
    let top = Path::new(common::TOP);
    let (plan, root) = (top.join("fixtures/tuned/plan.toml"), top.join("fixtures/tuned/root"));
    quietcore(["check", "--rules", "rules", "--format", "json", "--plan"])
        .args([plan.as_os_str(), "--root".as_ref(), root.as_os_str()])
        .args(more)
        .cwd(dir.path())
}

fn verdict_of(report: &serde_json::Value, id: &str) -> String {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["rule"] == id).unwrap_or_else(|| panic!("no finding of {id}"));
    found["verdict"].as_str().unwrap().to_owned()
}

// ---- what is refused ---------------------------------------------------------------------------------------------

#[test]
fn refusals() {
    insta::glob!("bad-rules/*.toml", |path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(path).unwrap();
        let dir = folder(&[(name, text)]);
        let refusal = lint(&dir).done().refusal();
        let place = format!("rules/{name}:");
        assert!(refusal.contains(&place), "no {place} in\n{refusal}");
        assert!(refusal.lines().all(|line| line.chars().count() <= 80), "{refusal}");
        // The audit refuses it with the same words, before it looks at any host.
        assert_eq!(check(&dir, &[]).done().refusal(), refusal);
        let mut settings = insta::Settings::clone_current();
        settings.set_omit_expression(true);
        settings.set_input_file(path);
        settings.bind(|| insta::assert_snapshot!(scrub(&refusal, &[dir.path()])));
    });
}

/// Places at which a refusal points, as `LINE:COLUMN`, in the order of the text.
fn places(refusal: &str) -> Vec<&str> {
    refusal
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--> ")?.split_once(".toml:"))
        .map(|p| p.1)
        .collect()
}

#[test]
fn refusals_point_at_the_mistake() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("unknown_fact", &["8:11"], &["cpu.isolate", "cpu.isolated"]),
        ("unknown_facts_of_one_operand", &["8:11", "8:25"], &["cpu.isolated", "cpu.online"]),
        ("unknown_key_in_entry", &["9:1"], &["wihtin", "within"]),
        ("unknown_key_close", &["2:1"], &["title"]),
        ("no_verb", &["6:1"], &["within"]),
        ("two_verbs", &["9:10"], &["avoids"]),
        ("verb_against_word", &["7:10"], &["within", "thp.enabled", "is-not"]),
        ("set_against_word", &["8:10"], &["thp.enabled"]),
        ("placeholder", &["9:25"], &["offendin", "{offending}"]),
        ("empty_list", &["8:10"], &["empty"]),
        ("empty_set", &["8:10"], &["empty"]),
        ("single_any", &["6:1"], &["[[any]]"]),
        ("plan_only", &["7:10"], &["plan"]),
        ("id_differs_from_stem", &["1:10"], &["isolated"]),
        ("unsupported_schema", &["1:10"], &["schema 1"]),
    ];
    for (stem, want, words) in cases {
        let path = format!("tests/bad-rules/{stem}.toml");
        let problems = rule::parse("x.toml", stem, &fs::read_to_string(path).unwrap(), None).unwrap_err().to_string();
        let found: BTreeSet<&str> = places(&problems).into_iter().collect();
        assert!(want.iter().all(|place| found.contains(place)), "{stem}: {want:?} in\n{problems}");
        assert!(words.iter().all(|word| problems.contains(word)), "{stem}: {words:?} in\n{problems}");
    }
}

#[test]
fn mistakes_on_both_sides_of_an_entry_come_at_once() {
    let text = fs::read_to_string("tests/bad-rules/unknown_facts_on_both_sides.toml").unwrap();
    let problems = rule::parse("x.toml", "unknown_facts_on_both_sides", &text, None).unwrap_err().to_string();
    assert_eq!(places(&problems), ["7:11", "8:11"]);
}

#[test]
fn the_mark_on_what_is_no_set_ends_with_it() {
    let text = fs::read_to_string("tests/bad-rules/joined_family.toml").unwrap();
    let problems = rule::parse("x.toml", "joined_family", &text, None).unwrap_err().problems;
    assert_eq!(problems.iter().map(|problem| &text[problem.span.clone()]).collect::<Vec<_>>(), ["irq.affinity"]);
}

#[test]
fn all_mistakes_of_all_files_come_at_once() {
    let text = fs::read_to_string("tests/bad-rules/several_at_once.toml").unwrap();
    let problems = rule::parse("x.toml", "several_at_once", &text, None).unwrap_err().problems;
    assert!(problems.len() >= 11, "{problems:#?}");

    let refusal = quietcore(["rules", "lint", "tests/bad-rules"]).done().refusal();
    for entry in fs::read_dir("tests/bad-rules").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(refusal.contains(&format!("tests/bad-rules/{name}:")), "nothing on {name}");
    }
}

#[test]
fn a_refusal_comes_before_the_host_is_looked_at() {
    let dir = folder(&[("x.toml", rule_of("[[assert]]\nthat = \"plan.hot\"\nwithin = \"cpu.isolate\""))]);
    let on_nothing = quietcore(["check", "--rules", "rules", "--plan", "plan.toml", "--root", "root"]).cwd(dir.path());
    fs::write(dir.path().join("plan.toml"), common::PLAN).unwrap();
    fs::create_dir(dir.path().join("root")).unwrap();
    assert!(on_nothing.done().refusal().contains("cpu.isolated"));
}

#[test]
fn files_that_are_no_text_are_refused() {
    let dir = folder(&[("good.toml", passing())]);
    fs::write(dir.path().join("rules/latin.toml"), b"schema = 1 # \xe9\n").unwrap();
    fs::write(dir.path().join("rules/large.toml"), "#".repeat((1 << 20) + 1)).unwrap();
    let refusal = lint(&dir).done().refusal();
    assert!(refusal.contains("rules/latin.toml") && refusal.contains("rules/large.toml"), "{refusal}");
    assert_eq!(check(&dir, &[]).done().refusal(), refusal);
}

// ---- what is accepted --------------------------------------------------------------------------------------------

/// Rules of every verb and type, judged on [`host`]. The id says the verdict.
const ACCEPTED: &[(&str, &str)] = &[
    // CPU sets.
    ("pass_within", r#"that = "plan.hot"; within = "cpu.isolated""#),
    ("fail_within", r#"that = "plan.hot"; within = "cpu.offline""#),
    ("pass_avoids", r#"that = "plan.hot"; avoids = "cpu.offline""#),
    ("fail_avoids", r#"that = "cpu.nohz_full"; avoids = "plan.hot""#),
    ("pass_within_union", r#"that = "plan.hot"; within = "cpu.offline | cpu.isolated""#),
    ("pass_within_intersection", r#"that = "cpu.isolated & plan.hot"; within = "cpu.nohz_full""#),
    ("fail_within_difference", r#"that = "plan.hot"; within = "cpu.online - cpu.isolated""#),
    ("pass_within_parentheses", r#"that = "(cpu.online - plan.housekeeping) & cpu.isolated"; within = "plan.hot""#),
    ("pass_within_lines", r#"that = "irq.affinity"; within = "plan.housekeeping""#),
    ("fail_within_lines", r#"that = "irq.affinity"; within = "plan.hot""#),
    ("pass_avoids_lines", r#"that = "irq.affinity"; avoids = "plan.hot""#),
    ("fail_avoids_lines", r#"that = "irq.affinity"; avoids = "cpu.online - plan.hot""#),
    // Words.
    ("pass_is_word", r#"that = "thp.enabled"; is = "madvise""#),
    ("fail_is_word", r#"that = "thp.enabled"; is = "never""#),
    ("pass_is_not_word", r#"that = "thp.enabled"; is-not = "always""#),
    ("fail_is_not_word", r#"that = "thp.enabled"; is-not = "madvise""#),
    ("pass_one_of_words", r#"that = "thp.enabled"; one-of = ["never", "madvise"]"#),
    ("fail_one_of_words", r#"that = "thp.enabled"; one-of = ["never", "always"]"#),
    ("pass_is_word_per_cpu", r#"that = "cpu.governor[plan.hot]"; is = "performance""#),
    ("fail_is_word_per_cpu", r#"that = "cpu.governor[cpu.online]"; is = "performance""#),
    ("pass_is_not_word_per_cpu", r#"that = "cpu.governor[plan.hot]"; is-not = "powersave""#),
    ("fail_is_not_word_per_cpu", r#"that = "cpu.governor[cpu.online - plan.hot]"; is-not = "powersave""#),
    ("pass_one_of_words_per_cpu", r#"that = "cpu.governor[cpu.online]"; one-of = ["performance", "powersave"]"#),
    ("fail_one_of_words_per_cpu", r#"that = "cpu.governor[cpu.online]"; one-of = ["performance", "schedutil"]"#),
    // A parameter that is not on the boot line is an answer.
    ("pass_is_not_unset", r#"that = "cmdline.nohz"; is-not = "off""#),
    ("fail_is_unset", r#"that = "cmdline.nohz"; is = "on""#),
    ("fail_one_of_unset", r#"that = "cmdline.idle"; one-of = ["poll", "halt"]"#),
    // Sets of words.
    ("pass_includes", r#"that = "process.names"; includes = "sshd""#),
    ("fail_includes", r#"that = "process.names"; includes = "irqbalance""#),
    ("pass_excludes", r#"that = "process.names"; excludes = "irqbalance""#),
    ("fail_excludes", r#"that = "process.names"; excludes = "sshd""#),
    // Integers.
    ("pass_is_integer", r#"that = "cpuidle.max_cstate"; is = 1"#),
    ("fail_is_integer", r#"that = "cpuidle.max_cstate"; is = 0"#),
    ("pass_is_not_integer", r#"that = "cpuidle.max_cstate"; is-not = 9"#),
    ("fail_is_not_integer", r#"that = "cpuidle.max_cstate"; is-not = 1"#),
    ("pass_one_of_integers", r#"that = "cpuidle.max_cstate"; one-of = [0, 1]"#),
    ("fail_one_of_integers", r#"that = "cpuidle.max_cstate"; one-of = [2, 3]"#),
    ("pass_at_least_integer", r#"that = "topology.housekeeping_online"; at-least = 12"#),
    ("fail_at_least_integer", r#"that = "topology.housekeeping_online"; at-least = 13"#),
    ("pass_at_most_integer", r#"that = "cpuidle.max_cstate"; at-most = 1"#),
    ("fail_at_most_integer", r#"that = "topology.housekeeping_online"; at-most = 11"#),
    ("fail_at_least_fact", r#"that = "cpuidle.max_cstate"; at-least = "topology.housekeeping_online""#),
    ("pass_at_most_fact", r#"that = "cpuidle.max_cstate"; at-most = "topology.housekeeping_online""#),
    // Flags.
    ("pass_is_flag", r#"that = "cmdline.cpuidle_off"; is = false"#),
    ("fail_is_flag", r#"that = "cmdline.cpuidle_off"; is = true"#),
    ("pass_is_not_flag", r#"that = "cmdline.cpuidle_off"; is-not = true"#),
    ("fail_one_of_flags", r#"that = "cmdline.cpuidle_off"; one-of = [true]"#),
    // Bytes.
    ("pass_at_least_bytes", r#"that = "limits.memlock"; at-least = "64MiB""#),
    ("fail_at_least_bytes", r#"that = "limits.memlock"; at-least = "2GiB""#),
    ("pass_at_least_plain_bytes", r#"that = "limits.memlock"; at-least = 1073741824"#),
    ("fail_at_least_plain_bytes", r#"that = "limits.memlock"; at-least = 1073741825"#),
    ("pass_at_least_bytes_of_plan", r#"that = "limits.memlock"; at-least = "plan.locked_memory""#),
    ("pass_at_most_bytes", r#"that = "limits.memlock"; at-most = "1GiB""#),
    ("fail_at_most_bytes", r#"that = "limits.memlock"; at-most = "1 MiB""#),
    // Times per CPU.
    ("pass_at_most_time", r#"that = "cpuidle.latency[plan.hot]"; at-most = "1us""#),
    ("fail_at_most_time", r#"that = "cpuidle.latency[cpu.online]"; at-most = "100 us""#),
    ("pass_at_most_time_of_plan", r#"that = "cpuidle.latency[plan.hot_online]"; at-most = "plan.max_wakeup_latency""#),
    ("fail_at_least_time", r#"that = "cpuidle.latency[plan.hot]"; at-least = "1ms""#),
    ("pass_at_least_time", r#"that = "sched.rt_throttle[plan.hot]"; at-least = "50ms""#),
    // What is not exposed.
    ("unknown_absent", r#"that = "cpu.present"; within = "cpu.online""#),
    ("unknown_absent_said", r#"that = "cpu.present"; within = "cpu.online"; absent = "unknown""#),
    ("fail_absent", r#"that = "plan.hot"; within = "cpu.present"; absent = "fail""#),
    ("pass_absent", r#"that = "plan.hot"; within = "cpu.present"; absent = "pass""#),
    ("fail_empty_within", r#"that = "plan.hot"; within = "cpu.present"; absent = "empty""#),
    ("pass_empty_avoids", r#"that = "plan.hot"; avoids = "cpu.present"; absent = "empty""#),
    // A subject never is the empty set: nothing passes on nothing.
    ("unknown_empty_subject", r#"that = "cpu.present"; within = "cpu.online"; absent = "empty""#),
    ("unknown_absent_operand", r#"that = "plan.hot"; within = "cpu.online & cpu.present""#),
];

/// Tuned, with something to find: a hot CPU's neighbour on powersave with deep states, a limit of 1 GiB, no `present`.
fn host() -> Tree {
    Tree::tuned()
        .with(&format!("{CPU}/cpu9/cpufreq/scaling_governor"), "powersave\n")
        .state(9, 2, "C6", 133, "0")
        .limit("1073741824", "unlimited")
        .boot(&format!("isolcpus=2-5 nohz_full=2-5 cpuidle.off=0 {}", common::CAPPED))
        .without(common::PRESENT)
}

/// Judges a tree by the rules of a folder alone.
fn judged(dir: &TempDir, tree: &Tree) -> quietcore::report::Report {
    let mut rules = RuleSet::builtin().unwrap();
    rules.add_folder(&dir.path().join("rules")).unwrap_or_else(|errors| panic!("{errors}"));
    rules.retain(|rule| rule.origin.is_some());
    let laid = tree.lay();
    audit_dir(&laid.root, &tree.parsed_plan(), &rules)
}

#[test]
fn every_verb_and_type_is_accepted_and_judged() {
    let mut files = Vec::new();
    for (id, entry) in ACCEPTED {
        files.push((format!("{id}.toml"), rule_of(&format!("[[assert]]\n{}", entry.replace("; ", "\n")))));
    }
    let files: Vec<(&str, String)> = files.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    let dir = folder(&files);
    let out = lint(&dir).done().answer(0);
    assert!(ACCEPTED.iter().all(|(id, _)| out.contains(id)), "{out}");
    let report = judged(&dir, &host());
    assert_eq!(report.findings.len(), ACCEPTED.len());
    let wrong: Vec<String> = report
        .findings
        .iter()
        .filter(|finding| !finding.rule.starts_with(finding.verdict().name()))
        .map(|finding| format!("{} {}: {}", finding.rule, gist(finding), finding.evidence().message))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for verb in VERBS {
        for verdict in ["pass", "fail"] {
            let is_seen = ACCEPTED.iter().any(|(id, e)| id.starts_with(verdict) && e.contains(&format!("; {verb} = ")));
            assert!(is_seen, "no rule with `{verb}` that comes out as {verdict}");
        }
    }
}

#[test]
fn a_failure_speaks_the_rules_words_unless_all_of_it_is_that_nothing_shows() {
    let entry = "[[assert]]\nthat = \"cpu.governor[plan.hot]\"\nis = \"performance\"\nabsent = \"fail\"\nelse = \"slow: {offending}\"";
    let dir = folder(&[("x.toml", rule_of(entry))]);
    let governor = |cpu: u32| format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor");
    let message = |tree: &Tree| judged(&dir, tree).findings[0].evidence().message.clone();
    let some = host().without(&governor(2)).with(&governor(3), "powersave\n");
    assert_eq!(message(&some), "slow: not exposed on CPU 2; powersave on CPU 3");
    let some = host().with(&governor(2), "powersave\n").without(&governor(3));
    assert_eq!(message(&some), "slow: powersave on CPU 2; not exposed on CPU 3");
    let none = (2..6).fold(host(), |tree, cpu| tree.without(&governor(cpu)));
    assert!(message(&none).starts_with("cpu.governor: not exposed on CPUs 2-5"), "{}", message(&none));
}

#[test]
fn entries_are_joined_in_three_values() {
    let holds = "that = \"plan.hot\"\nwithin = \"cpu.isolated\"";
    let breaks = "that = \"plan.hot\"\navoids = \"cpu.isolated\"";
    let open = "that = \"plan.hot\"\nwithin = \"cpu.present\"";
    let entries = |kind: &str, list: &[&str]| {
        list.iter().fold(String::new(), |mut text, entry| {
            let _ = write!(text, "[[{kind}]]\n{entry}\n");
            text
        })
    };
    let all = |list: &[&str]| entries("assert", list);
    let any = |list: &[&str]| entries("any", list);
    let cases: Vec<(&str, String)> = vec![
        ("pass_all", all(&[holds, holds])),
        ("unknown_all", all(&[holds, open])),
        ("fail_all", all(&[open, holds, breaks])),
        ("pass_any", any(&[breaks, open, holds])),
        ("unknown_any", any(&[breaks, open])),
        ("fail_any", any(&[breaks, breaks])),
        ("pass_all_and_any", all(&[holds]) + &any(&[breaks, holds])),
        ("fail_all_and_any", all(&[breaks]) + &any(&[holds, holds])),
        ("fail_any_beside_all", all(&[holds]) + &any(&[breaks, breaks])),
        ("unknown_any_beside_all", all(&[holds]) + &any(&[breaks, open])),
        ("fail_all_beside_open_any", all(&[breaks]) + &any(&[breaks, open])),
    ];
    let names: Vec<String> = cases.iter().map(|(id, _)| format!("{id}.toml")).collect();
    let files: Vec<(&str, String)> =
        names.iter().zip(&cases).map(|(name, (_, entries))| (name.as_str(), rule_of(entries))).collect();
    let report = judged(&folder(&files), &host());
    for (id, _) in &cases {
        let found = finding(&report, id);
        assert!(id.starts_with(found.verdict().name()), "{id}: {}", gist(found));
    }
}

#[test]
fn a_condition_says_whom_a_rule_concerns() {
    let entry = "[[assert]]\nthat = \"plan.hot\"\navoids = \"cpu.isolated\"";
    let files = [
        ("realtime.toml", rule_of(&format!("when = \"plan.realtime\"\n{entry}"))),
        ("realtime_pass.toml", rule_of(&format!("when = \"plan.realtime\"\notherwise = \"pass\"\n{entry}"))),
        ("locking.toml", rule_of(&format!("when = \"plan.locked_memory\"\n{entry}"))),
    ];
    let dir = folder(&files);
    let gists = |plan: &str| {
        let report = judged(&dir, &host().plan(plan));
        ["realtime", "realtime_pass", "locking"].map(|id| finding(&report, id).verdict().name())
    };
    assert_eq!(gists("[hot]\nw = 2\n"), ["not-applicable", "pass", "not-applicable"]);
    assert_eq!(gists("realtime = true\nlocked-memory = 1\n[hot]\nw = 2\n"), ["fail", "fail", "fail"]);
}

#[test]
fn placeholders_are_filled_in() {
    let text = format!(
        "{HEAD}[fix]\nruntime = \"take {{plan.hot}} out\"\nboot = \"isolcpus={{plan.hot}} {{{{kept}}}}\"\n\
         [[assert]]\nthat = \"plan.hot\"\nwithin = \"cpu.nohz_full\"\nelse = \"{{offending}} of {{found}}, not {{wanted}}\"\n"
    );
    let report = judged(&folder(&[("mine.toml", text)]), &host().with(NOHZ_FULL, "2-3\n"));
    let found = finding(&report, "mine");
    assert_eq!(gist(found), "fail cpus 4-5");
    assert!(found.evidence().message.starts_with("4-5 of 2-5, not "), "{}", found.evidence().message);
    assert_eq!(found.remedy.runtime.as_deref(), Some("take 2-5 out"));
    assert_eq!(found.remedy.boot.as_deref(), Some("isolcpus=2-5 {kept}"));
}

/// The verbs that a kind of fact has.
fn verbs_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Cpus => &["within", "avoids"],
        Kind::Word | Kind::Flag => &["is", "is-not", "one-of"],
        Kind::Words => &["includes", "excludes"],
        Kind::Integer => &["is", "is-not", "one-of", "at-least", "at-most"],
        Kind::Bytes | Kind::Micros => &["at-least", "at-most"],
    }
}

#[test]
fn every_fact_takes_the_verbs_of_its_type_and_no_others() {
    let mut wrong = Vec::new();
    for fact in fact::facts() {
        let that = match fact.ty().per {
            Some(Per::Cpu) => format!("{}[plan.hot]", fact.name),
            Some(Per::Line) | None => fact.name.to_owned(),
        };
        for verb in VERBS {
            let literal = match fact.kind {
                Kind::Integer => "1",
                Kind::Flag => "true",
                Kind::Bytes => "\"1MiB\"",
                Kind::Micros => "\"1us\"",
                Kind::Cpus | Kind::Word | Kind::Words => "\"word\"",
            };
            let right = match *verb {
                "within" | "avoids" => "\"cpu.online\"".to_owned(),
                "one-of" => format!("[{literal}]"),
                _ => literal.to_owned(),
            };
            // The second entry keeps facts of the plan from standing alone.
            let text = rule_of(&format!("[[assert]]\nthat = \"{that}\"\n{verb} = {right}"));
            let problems = rule::parse("x.toml", "x", &text, None).err().map(|problems| problems.to_string());
            let is_plan_only = problems.as_ref().is_some_and(|text| text.contains("reads only the plan"));
            let fits = verbs_of(fact.kind).contains(verb);
            if (problems.is_none() || is_plan_only) != fits {
                wrong.push(format!("{that} {verb}: {}", problems.unwrap_or_else(|| "accepted".to_owned())));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rules_read_facts_that_the_table_has() {
    let named: BTreeMap<&str, usize> = fact::facts().map(|fact| (fact.name, 0)).collect();
    for rule in builtin().iter() {
        assert!(!rule.facts().is_empty(), "{}", rule.id);
        assert!(rule.facts().iter().all(|fact| named.contains_key(fact.name)), "{}", rule.id);
        assert!(rule.facts().iter().any(|fact| !fact.is_of_plan()), "{} reads no host", rule.id);
        assert!(!rule.source.is_empty(), "{} names no authority", rule.id);
        assert!(!rule.title.ends_with('.') && !rule.why.ends_with('.'), "{} ends a fragment with a stop", rule.id);
    }
}

// ---- folders -----------------------------------------------------------------------------------------------------

#[test]
fn a_rule_is_added_after_the_built_in_ones() {
    let dir = folder(&[("zebra.toml", passing()), ("aardvark.toml", failing()), ("sub/folder/mole.toml", passing())]);
    let out = check(&dir, &[]).done().answer(1);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let ids: Vec<&str> = report["findings"].as_array().unwrap().iter().map(|f| f["rule"].as_str().unwrap()).collect();
    assert_eq!(ids[ids.len() - 3..], ["aardvark", "mole", "zebra"]);
    assert_eq!(verdict_of(&report, "aardvark"), "fail");
    assert_eq!(verdict_of(&report, "zebra"), "pass");
}

#[test]
fn a_rule_shadows_the_built_in_one_of_its_id() {
    let dir = folder(&[("thp.toml", failing().replace("required", "advised"))]);
    let out = check(&dir, &[]).done().answer(0);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), builtin().iter().count());
    // In its place, with its level.
    let at = findings.iter().position(|finding| finding["rule"] == "thp").unwrap();
    assert_eq!(builtin().iter().position(|rule| rule.id == "thp"), Some(at));
    assert_eq!((&findings[at]["verdict"], &findings[at]["level"]), (&"fail".into(), &"advised".into()));

    let list = quietcore(["rules", "list", "--rules", "rules"]).cwd(dir.path()).done().answer(0);
    let row = list.lines().find(|line| line.starts_with("  thp ")).unwrap();
    assert!(row.contains("advised") && row.contains("rules/thp.toml"), "{row}");
    let shown = quietcore(["rules", "show", "thp", "--rules", "rules"]).cwd(dir.path()).done().answer(0);
    assert_eq!(shown, fs::read_to_string(dir.path().join("rules/thp.toml")).unwrap());
}

#[test]
fn of_two_folders_the_later_one_wins() {
    let dir = folder(&[("mine.toml", passing()), ("first.toml", passing())]);
    let more = dir.path().join("more");
    fs::create_dir(&more).unwrap();
    fs::write(more.join("mine.toml"), failing()).unwrap();
    fs::write(more.join("second.toml"), passing()).unwrap();
    let report: serde_json::Value = serde_json::from_str(&check(&dir, &["--rules", "more"]).done().answer(1)).unwrap();
    assert_eq!(verdict_of(&report, "mine"), "fail");
    assert_eq!([verdict_of(&report, "first"), verdict_of(&report, "second")], ["pass", "pass"]);
}

#[test]
fn both_folders_of_two_bad_ones_are_told() {
    let bad = rule_of("[[assert]]\nthat = \"plan.hot\"\nwithin = \"cpu.isolate\"");
    let dir = folder(&[("one.toml", bad.clone()), ("two.toml", bad)]);
    let refusal = check(&dir, &[]).done().refusal();
    assert!(refusal.contains("rules/one.toml:7:11") && refusal.contains("rules/two.toml:7:11"), "{refusal}");
}

#[test]
fn two_rules_of_one_id_are_refused() {
    let dir = folder(&[("a/mine.toml", passing()), ("b/mine.toml", passing())]);
    for run in [lint(&dir), check(&dir, &[])] {
        let refusal = run.done().refusal();
        assert!(refusal.contains("rules/a/mine.toml") && refusal.contains("rules/b/mine.toml"), "{refusal}");
    }
}

#[test]
fn folders_without_rules_are_refused() {
    let dir = folder(&[("README.md", "no rule\n".to_owned()), (".hidden.toml", "no rule\n".to_owned())]);
    fs::create_dir(dir.path().join("empty")).unwrap();
    for name in ["rules", "empty", "nowhere", "rules/README.md"] {
        let lint = quietcore(["rules", "lint", name]).cwd(dir.path()).done().refusal();
        assert!(lint.contains(name), "{lint}");
        let args = ["check", "--plan", "plan.toml", "--root", "empty", "--rules", name];
        fs::write(dir.path().join("plan.toml"), common::PLAN).unwrap();
        assert_eq!(quietcore(args).cwd(dir.path()).done().refusal(), lint, "{name}");
    }
}

#[test]
fn names_with_a_dot_before_them_are_no_entries() {
    // As a mounted configuration map has them: `..data` is a link to the folder of the moment.
    let dir = folder(&[("..2026/mine.toml", passing())]);
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, dir.path().join("rules").join(name)).unwrap();
    link("..2026", "..data");
    link("..data/mine.toml", "mine.toml");
    assert!(lint(&dir).done().answer(0).contains("mine"));
}

#[test]
fn a_loop_of_links_ends() {
    let dir = folder(&[("mine.toml", passing())]);
    std::os::unix::fs::symlink(".", dir.path().join("rules/again")).unwrap();
    assert!(lint(&dir).done().refusal().contains("rules/again"));
}

#[test]
fn the_built_in_rules_lint() {
    let ids: Vec<&str> = builtin().iter().map(|rule| rule.id.as_str()).collect();
    for args in [&["rules", "lint"][..], &["rules", "lint", "rules"]] {
        let out = quietcore(args.iter().copied()).done().answer(0);
        assert!(ids.iter().all(|id| out.contains(id)), "{out}");
    }
    // Every file beside them is built in, and its stem is its id.
    let mut stems: Vec<String> = fs::read_dir("rules")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    stems.sort();
    let mut ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
    ids.sort();
    assert_eq!(stems, ids);
}

#[test]
fn one_hot_cpu_is_judged_by_isolation_alone() {
    // A rule of a user stands on the same facts as the built-in ones do.
    let dir = folder(&[("mine.toml", passing())]);
    let report = judged(&dir, &host().with(ISOLATED, "2-4\n"));
    assert_eq!(gist(finding(&report, "mine")), "fail cpus 5");
}
