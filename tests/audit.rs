//! Hosts and what must be said of them: the fixtures, and for each rule the cases that real hosts set as traps.
//!
//! Ordinary tests assert verdicts, causes and what broke a rule; the words of reports are snapshots.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: what cannot go on has failed")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;

use common::{
    CAPPED, CMDLINE, CPU, DEFAULT_MASK, DRIVER, FAIR_SERVER, ISOLATED, LIMITS, NOHZ_FULL, ONLINE, OSRELEASE, POSSIBLE,
    PRESENT, REALTIME_PLAN, RT_PERIOD, RT_RUNTIME, THP, Tree, audit_dir, audit_fixture, audit_tree, builtin, finding,
    fixtures, gist, having, quietcore, verdicts, written,
};
use quietcore::output::Format;
use quietcore::plan::Plan;
use quietcore::report::Verdict;
use quietcore::rule::pack::BASE;
use quietcore::rule::{Level, builtin as files};

fn base() -> Vec<&'static str> {
    files::FILES.iter().take(files::BASE).map(|(id, ..)| *id).collect()
}

/// Names in one string, as the tables here have them.
fn names(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

// ---- fixtures ----------------------------------------------------------------------------------------------------

/// Of the base eleven those that fail and those that are unknown; the others pass.
const EXPECTED: &[(&str, &str, &str)] = &[
    ("tuned", "", ""),
    ("mistuned", "siblings nohz_full rcu_nocbs irq_affinity irqbalance governor cstate thp memlock", ""),
    ("laptop", "isolated siblings nohz_full rcu_nocbs irq_affinity cstate memlock", "governor"),
    ("bare", "isolated siblings nohz_full rcu_nocbs cstate", "irq_affinity irqbalance governor thp memlock"),
    // These two are about one rule, and cannot but break another.
    ("one/rcu_nocbs", "nohz_full rcu_nocbs", ""),
    ("unseen/rcu_nocbs", "nohz_full", "rcu_nocbs"),
];

/// What the table says, and for `one/RULE` and `unseen/RULE` what the name says.
fn expected(fixture: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    if let Some((_, fail, unknown)) = EXPECTED.iter().find(|(name, ..)| *name == fixture) {
        return (names(fail), names(unknown));
    }
    match fixture.split_once('/') {
        Some(("one", rule)) => (names(rule), names("")),
        Some(("unseen", rule)) => (names(""), names(rule)),
        _ => panic!("{fixture} has no row in EXPECTED"),
    }
}

#[test]
fn every_fixture_is_judged_as_its_row_says() {
    let mut wrong = Vec::new();
    for fixture in fixtures() {
        let report = audit_fixture(&fixture);
        let (fail, unknown) = expected(&fixture);
        for rule in base().into_iter().map(str::to_owned).chain(fail.iter().cloned()).chain(unknown.iter().cloned()) {
            let want = match () {
                () if fail.contains(&rule) => "fail",
                () if unknown.contains(&rule) => "unknown",
                () => "pass",
            };
            let found = finding(&report, &rule);
            if found.verdict().name() != want {
                wrong.push(format!("{fixture} {rule}: {}, not {want}: {}", gist(found), found.evidence().message));
            }
        }
        let is_required_broken = report.findings.iter().any(|f| f.level == Level::Required && fail.contains(&f.rule));
        if report.exit_code() != u8::from(is_required_broken) {
            wrong.push(format!("{fixture}: exit code {}", report.exit_code()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn failures_of_the_mistuned_host_name_what_broke() {
    let report = audit_fixture("mistuned");
    for (rule, want) in [
        ("siblings", "fail cpus 29-31"),
        ("nohz_full", "fail cpus 21-23"),
        ("rcu_nocbs", "fail cpus 21-23"),
        ("irq_affinity", "fail cpus 21-23 lines 120"),
        ("governor", "fail cpus 22"),
        ("cstate", "fail cpus 21-23"),
    ] {
        assert_eq!(gist(finding(&report, rule)), want, "{rule}");
    }
    for (rule, words) in [
        ("irqbalance", &["903"][..]),
        ("governor", &["powersave"]),
        ("thp", &["always"]),
        ("memlock", &["67108864"]),
        ("siblings", &["29-31"]),
    ] {
        let message = &finding(&report, rule).evidence().message;
        assert!(words.iter().all(|word| message.contains(word)), "{rule}: {message}");
    }
}

#[test]
fn the_tuned_host_fails_a_real_time_plan() {
    let report = audit_realtime();
    let failed = having(&report, Verdict::Fail);
    assert_eq!(base().into_iter().filter(|rule| failed.contains(*rule)).collect::<Vec<_>>(), ["rt_throttle"]);
    let evidence = finding(&report, "rt_throttle").evidence();
    assert!(evidence.message.contains("950000"), "{}", evidence.message);
    assert_eq!(report.exit_code(), 1);
}

fn audit_realtime() -> quietcore::report::Report {
    let text = std::fs::read_to_string("fixtures/tuned/plan.toml").unwrap();
    let text = text.replace("realtime = false", "realtime = true");
    let plan = Plan::parse("plan.toml", &text).unwrap();
    assert!(plan.realtime);
    audit_dir(std::path::Path::new("fixtures/tuned/root"), &plan, builtin())
}

#[test]
fn reports() {
    let settings = snapshot_settings();
    settings.bind(|| {
        let mut packs = String::new();
        for host in ["tuned", "mistuned", "laptop", "bare"] {
            let report = audit_fixture(host);
            insta::assert_snapshot!(format!("{host}_human"), written(&report, Format::Human));
            for finding in report.findings.iter().filter(|finding| finding.pack != Some(BASE)) {
                writeln!(packs, "{host:<8}  {:<20}  {}", finding.rule, gist(finding)).unwrap();
            }
            insta::assert_snapshot!(host, written(&of_the_base(report), Format::Json));
        }
        // What is said of them, word for word, stands in their cases (packs.rs): here a line each.
        insta::assert_snapshot!("packs", packs);
        insta::assert_snapshot!("tuned_realtime", written(&of_the_base(audit_realtime()), Format::Json));
    });
}

fn of_the_base(mut report: quietcore::report::Report) -> quietcore::report::Report {
    report.findings.retain(|finding| finding.pack == Some(BASE));
    report
}

fn snapshot_settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings
}

#[test]
fn a_report_reads_in_80_columns() {
    for fixture in fixtures() {
        let human = written(&audit_fixture(&fixture), Format::Human);
        // The summary is one line whatever its length, and a path is not broken.
        let body = human.lines().rev().skip(1);
        let long: Vec<&str> = body.filter(|line| line.chars().count() > 80 && line.split(' ').count() > 1).collect();
        // Before it stands its label, or symbol, verdict and rule.
        let is_path = |line: &&str| line.split_whitespace().count() <= if line.starts_with(' ') { 2 } else { 4 };
        assert!(long.iter().all(is_path), "{fixture}: {long:#?}");
    }
}

#[test]
fn the_base_comes_first_and_is_required() {
    let report = audit_fixture("tuned");
    let ids: Vec<&str> = report.findings.iter().take(files::BASE).map(|finding| finding.rule.as_str()).collect();
    assert_eq!(ids, base());
    assert_eq!(
        ids,
        [
            "isolated",
            "siblings",
            "nohz_full",
            "rcu_nocbs",
            "irq_affinity",
            "irqbalance",
            "governor",
            "cstate",
            "thp",
            "memlock",
            "rt_throttle"
        ]
    );
    for finding in &report.findings {
        let is_base = base().contains(&finding.rule.as_str());
        assert_eq!(finding.level == Level::Required, is_base, "{}", finding.rule);
    }
}

/// Those of the other packs have cases: `packs.rs`.
#[test]
fn every_base_rule_passes_and_fails_in_some_fixture() {
    let mut seen: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for fixture in fixtures() {
        for (rule, verdict) in verdicts(&audit_fixture(&fixture)) {
            seen.entry(rule).or_default().insert(verdict.name());
        }
    }
    let lacks = |verdict: &str| -> Vec<&str> {
        base().into_iter().filter(|id| !seen.get(*id).is_some_and(|verdicts| verdicts.contains(verdict))).collect()
    };
    assert_eq!((lacks("pass"), lacks("fail")), (vec![], vec![]), "rules without a fixture that passes; that fails");
}

#[test]
fn nothing_passes_on_nothing_read() {
    // Whatever the plan says, as far as it asks anything of the host.
    let plans = [
        common::PLAN,
        "idle = \"10-13\"\nhousekeeping = \"0-1\"\nlocked-memory = \"1MiB\"\nnic = \"eth0\"\n[hot]\nw = \"2-5\"\n",
        "max-wakeup-latency = \"1s\"\n[hot]\nw = 1\n",
    ];
    for plan in plans {
        let report = audit_tree(&Tree::empty().plan(plan));
        assert_eq!(report.findings.len(), builtin().iter().count());
        assert_eq!(having(&report, Verdict::Pass), names("rt_throttle"), "{plan}");
    }
    let report = audit_tree(&Tree::empty().plan(REALTIME_PLAN));
    assert_eq!(having(&report, Verdict::Pass), names(""));
}

#[test]
fn a_pass_and_a_failure_name_a_file() {
    for fixture in fixtures() {
        for finding in audit_fixture(&fixture).findings {
            let evidence = finding.evidence();
            let is_by_plan = evidence.sources.is_empty() && finding.rule == "rt_throttle";
            let needs_file = matches!(finding.verdict(), Verdict::Pass | Verdict::Fail) && !is_by_plan;
            assert!(!needs_file || !evidence.sources.is_empty(), "{fixture} {}", finding.rule);
            assert!(evidence.sources.iter().all(|source| !source.path.starts_with('/')), "{fixture} {}", finding.rule);
            assert!(!evidence.message.is_empty(), "{fixture} {}", finding.rule);
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for host in ["tuned", "mistuned", "laptop", "bare", "unseen/siblings"] {
        let [one, two] = [audit_fixture(host), audit_fixture(host)];
        for format in [Format::Human, Format::Json] {
            assert_eq!(written(&one, format), written(&two, format), "{host}");
        }
    }
}

#[test]
fn the_program_writes_what_the_library_does() {
    for (host, code) in [("tuned", 0), ("mistuned", 1), ("bare", 1)] {
        let (plan, root) = (format!("fixtures/{host}/plan.toml"), format!("fixtures/{host}/root"));
        let out = quietcore(["check", "--plan", &plan, "--root", &root, "--format", "json"]).done().answer(code);
        assert_eq!(out, written(&audit_fixture(host), Format::Json), "{host}");
    }
}

// ---- cases -------------------------------------------------------------------------------------------------------

/// Judges trees by one rule. A row is why, the tree, and the gist of the finding; `pass` and `fail` alone leave open what
/// broke it.
#[track_caller]
fn judge<const N: usize>(rule: &str, cases: [(&str, Tree, &str); N]) {
    let mut rules = builtin().clone();
    rules.retain(|other| other.id == rule);
    let mut wrong = Vec::new();
    let mut laid = Tree::empty().lay();
    for (why, tree, want) in cases {
        laid.lay(&tree);
        let report = audit_dir(&laid.root, &tree.parsed_plan(), &rules);
        let found = finding(&report, rule);
        let (gist, verdict) = (gist(found), found.verdict().name());
        let is_open = matches!(want, "pass" | "fail");
        if gist != want && !(is_open && verdict == want) {
            wrong.push(format!("{why}: {gist}, not {want}: {}", found.evidence().message));
        }
    }
    assert!(wrong.is_empty(), "{rule}\n{}", wrong.join("\n"));
}

fn tuned() -> Tree {
    Tree::tuned()
}

/// Tuned, but for the isolation at boot.
fn mixed() -> Tree {
    tuned().with(ISOLATED, "\n")
}

/// A partition of cgroup v2.
fn partition(tree: Tree, group: &str, kind: &str, effective: &str) -> Tree {
    tree.with("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
        .with(&format!("sys/fs/cgroup/{group}/cpuset.cpus.partition"), format!("{kind}\n"))
        .with(&format!("sys/fs/cgroup/{group}/cpuset.cpus.effective"), format!("{effective}\n"))
}

/// A cpuset of cgroup v1; the group of the hierarchy's root has no name.
fn cpuset_v1(tree: Tree, group: &str, balance: &str, cpus: &str) -> Tree {
    let folder = format!("sys/fs/cgroup/cpuset{group}");
    tree.with(&format!("{folder}/cpuset.sched_load_balance"), format!("{balance}\n"))
        .with(&format!("{folder}/cpuset.cpus"), format!("{cpus}\n"))
}

#[test]
fn isolated() {
    let v1 = |balance| cpuset_v1(mixed(), "", balance, "0-15");
    judge(
        "isolated",
        [
            ("by boot line", tuned(), "pass"),
            ("an empty list is an answer", mixed(), "fail cpus 2-5"),
            ("sets, not texts", tuned().with(ISOLATED, "2,3,4-5\n"), "pass"),
            ("a NUL after the newline", tuned().with(ISOLATED, "2-5\n\0"), "pass"),
            ("a list with a tail is no list", tuned().with(ISOLATED, "2-5,garbage\n"), "unknown malformed"),
            ("bytes that are no text", tuned().with(ISOLATED, b"\xff\xfe2-5\n"), "unknown malformed"),
            ("some of them", tuned().with(ISOLATED, "2-3\n"), "fail cpus 4-5"),
            ("asked for without domain", mixed().boot("isolcpus=managed_irq,2-5"), "fail cpus 2-5"),
            ("asked for in vain", mixed().boot("isolcpus=2-200"), "fail cpus 2-5"),
            ("no such file at all", tuned().without(ISOLATED), "fail cpus 2-5"),
            ("the file is denied", tuned().denied(&[ISOLATED]), "unknown denied"),
            (
                "the file is denied, and a partition is enough",
                partition(tuned(), "hot", "isolated", "2-5").denied(&[ISOLATED]),
                "pass",
            ),
            ("the root's list of partitions", mixed().with("sys/fs/cgroup/cpuset.cpus.isolated", "2-5\n"), "pass"),
            ("a valid partition without the root's list", partition(mixed(), "hot", "isolated", "2-5"), "pass"),
            ("a partition deep down", partition(mixed(), "a.slice/b.slice/c/d/e", "isolated", "2-5"), "pass"),
            ("a partition of some", partition(mixed(), "hot", "isolated", "2-4"), "fail cpus 5"),
            (
                "boot line and partition together",
                partition(tuned().with(ISOLATED, "2-3\n"), "hot", "isolated", "4-5"),
                "pass",
            ),
            (
                "an invalid partition with its reason",
                partition(mixed(), "hot", "isolated invalid (Cpu list in cpuset.cpus not exclusive)", "0-15"),
                "fail cpus 2-5",
            ),
            ("an invalid partition without one", partition(mixed(), "hot", "isolated invalid", "2-5"), "fail cpus 2-5"),
            ("a partition that balances load", partition(mixed(), "hot", "root", "2-5"), "fail cpus 2-5"),
            ("no partition", partition(mixed(), "hot", "member", "2-5"), "fail cpus 2-5"),
            ("an unheard-of partition", partition(mixed(), "hot", "insulated", "2-5"), "unknown malformed"),
            (
                "a valid partition whose CPUs do not show",
                partition(mixed(), "hot", "isolated", "2-5").without("sys/fs/cgroup/hot/cpuset.cpus.effective"),
                "unknown not-exposed",
            ),
            (
                "the same where nothing is missing",
                partition(tuned(), "hot", "isolated", "2-5").without("sys/fs/cgroup/hot/cpuset.cpus.effective"),
                "pass",
            ),
            (
                "a partition that may not be read",
                partition(mixed(), "hot", "isolated", "2-5").denied(&["sys/fs/cgroup/hot/cpuset.cpus.partition"]),
                "unknown denied",
            ),
            ("groups that may not be listed", mixed().denied(&["sys/fs/cgroup"]), "unknown denied"),
            ("the same where nothing is missing", tuned().denied(&["sys/fs/cgroup"]), "pass"),
            ("cgroup v1 unbalances all but a group", cpuset_v1(v1("0"), "/rest", "1", "0-1,6-15"), "pass"),
            ("cgroup v1 with a group that balances", cpuset_v1(v1("0"), "/all", "1", "0-15"), "fail cpus 2-5"),
            ("cgroup v1 whose root balances", cpuset_v1(v1("1"), "/hot", "0", "2-5"), "fail cpus 2-5"),
            (
                "cgroup v1 with a group in a group that balances",
                cpuset_v1(cpuset_v1(v1("0"), "/hot", "0", "2-5"), "/hot/in", "1", "3"),
                "fail cpus 3",
            ),
            (
                "cgroup v1 with a group that may not be read",
                cpuset_v1(v1("0"), "/x", "1", "0").denied(&["sys/fs/cgroup/cpuset/x/cpuset.cpus"]),
                "unknown denied",
            ),
            ("a hot CPU is offline, and still in the list", tuned().offline(&[4]), "fail cpus 4"),
            ("every hot CPU is offline", tuned().offline(&[2, 3, 4, 5]), "fail cpus 2-5"),
            ("a hot CPU that cannot be", tuned().plan("[hot]\na = 2\nb = 99\n"), "fail cpus 99"),
            ("online is not understood", tuned().with(ONLINE, "0-\n"), "unknown malformed"),
            ("online is denied", tuned().denied(&[ONLINE]), "unknown denied"),
            ("no online file", tuned().without(ONLINE), "pass"),
            ("a memory-only node", tuned().with("sys/devices/system/node/node1/cpulist", "\n"), "pass"),
        ],
    );
}

/// SMT, and a plan that names the siblings.
fn named_siblings(idle: &str) -> Tree {
    tuned().smt().plan(&format!("idle = \"{idle}\"\n[hot]\nw = \"2-5\"\n"))
}

#[test]
fn siblings() {
    let topology = |cpu: u32| format!("{CPU}/cpu{cpu}/topology");
    let mut no_topology = tuned();
    let mut masks = tuned().smt();
    for cpu in 0..common::CPUS {
        no_topology = no_topology.without(&topology(cpu));
        let mask = format!("{:08x}\n", 0x0101_u32 << (cpu % 8));
        masks = masks
            .without(&format!("{}/thread_siblings_list", topology(cpu)))
            .with(&format!("{}/thread_siblings", topology(cpu)), mask);
    }
    let all_topologies: Vec<String> = (0..common::CPUS).map(topology).collect();
    let all_topologies: Vec<&str> = all_topologies.iter().map(String::as_str).collect();
    let hot2 = format!("{}/thread_siblings_list", topology(2));
    judge(
        "siblings",
        [
            ("no SMT", tuned(), "pass"),
            ("online and not isolated", tuned().smt(), "fail cpus 10-13"),
            ("isolated", tuned().smt().with(ISOLATED, "2-5,10-13\n"), "pass"),
            ("some isolated", tuned().smt().with(ISOLATED, "2-5,10-11\n"), "fail cpus 12-13"),
            ("isolated by a partition", partition(tuned().smt(), "idle", "isolated", "10-13"), "pass"),
            ("offline, and so out of the topology", tuned().smt().offline(&[10, 11, 12, 13]), "pass"),
            ("one of them back online", tuned().smt().offline(&[10, 11, 13]), "fail cpus 12"),
            ("hot themselves", tuned().smt().plan("[hot]\na = \"2,10\"\n"), "pass"),
            ("topology in masks", masks, "fail cpus 10-13"),
            ("named and online", named_siblings("10-13"), "fail cpus 10-13"),
            ("named and offline", named_siblings("10-13").offline(&[10, 11, 12, 13]), "pass"),
            ("offline by their own files", named_siblings("10-13").offline(&[10, 11, 12, 13]).without(ONLINE), "pass"),
            (
                "no cpuN/online means online",
                named_siblings("10").without(ONLINE).without(&format!("{CPU}/cpu10/online")),
                "fail cpus 10",
            ),
            (
                "online is not understood: taken as online",
                named_siblings("10-13").with(ONLINE, "garbage\n"),
                "fail cpus 10-13",
            ),
            ("a named one that cannot be", named_siblings("10,99").offline(&[10]), "fail cpus 99"),
            ("an explicit none replaces the topology", named_siblings(""), "pass"),
            ("no topology", no_topology.clone(), "unknown not-exposed"),
            ("no topology, and an explicit none", no_topology.plan("idle = \"\"\n[hot]\nw = 2\n"), "pass"),
            ("the topology is denied", tuned().denied(&all_topologies), "unknown denied"),
            ("one core is not understood", tuned().with(&hot2, "two\n"), "unknown malformed"),
            ("a list that lacks its own CPU", tuned().with(&hot2, "7\n"), "unknown malformed"),
            ("one core is not understood, others break", tuned().smt().with(&hot2, "two\n"), "fail cpus 11-13"),
            ("what is isolated is denied", tuned().smt().denied(&[ISOLATED]), "unknown denied"),
            (
                "a cold core has siblings",
                tuned().with(&format!("{}/thread_siblings_list", topology(0)), "0,8\n"),
                "pass",
            ),
        ],
    );
}

#[test]
fn nohz_full() {
    let nohz = |words: &str| tuned().boot(&format!("nohz_full=2-5 {words} {CAPPED}"));
    judge(
        "nohz_full",
        [
            ("by boot line", tuned(), "pass"),
            ("a padded (null) is nobody", tuned().with(NOHZ_FULL, "          (null)\n"), "fail cpus 2-5"),
            ("a blank line is nobody", tuned().with(NOHZ_FULL, " \n"), "fail cpus 2-5"),
            ("an empty file is nobody", tuned().with(NOHZ_FULL, ""), "fail cpus 2-5"),
            ("sets, not texts", tuned().with(NOHZ_FULL, "5,4,2-3\n"), "pass"),
            ("a NUL after the newline", tuned().with(NOHZ_FULL, "2-5\n\0"), "pass"),
            ("some of them", tuned().with(NOHZ_FULL, "2-3\n"), "fail cpus 4-5"),
            ("no such file: not built in", tuned().without(NOHZ_FULL), "fail cpus 2-5"),
            ("words", tuned().with(NOHZ_FULL, "two to five\n"), "unknown malformed"),
            ("half a range", tuned().with(NOHZ_FULL, "2-\n"), "unknown malformed"),
            ("denied", tuned().denied(&[NOHZ_FULL]), "unknown denied"),
            (
                "the boot CPU is taken out",
                tuned().with(NOHZ_FULL, "1-5\n").plan("[hot]\na = 0\nb = 2\n"),
                "fail cpus 0",
            ),
            ("nohz=off", nohz("nohz=off"), "fail"),
            ("nohz=0", nohz("nohz=0"), "fail"),
            ("nohz=No, the kernel reads the first letter", nohz("nohz=No"), "fail"),
            ("nohz=oFF", nohz("nohz=oFF"), "fail"),
            ("nohz=on", nohz("nohz=on"), "pass"),
            ("off and then on", nohz("nohz=off nohz=on"), "pass"),
            ("on and then off", nohz("nohz=on nohz=off"), "fail"),
            ("off and then a value that is refused", nohz("nohz=off nohz=maybe"), "fail"),
            ("a value that is refused", nohz("nohz=maybe"), "pass"),
            ("nohz=off for init", nohz("-- nohz=off"), "pass"),
            ("a good list without a boot line", tuned().without(CMDLINE), "unknown not-exposed"),
            ("a good list, the boot line denied", tuned().denied(&[CMDLINE]), "unknown denied"),
            ("a bad list, the boot line denied", tuned().with(NOHZ_FULL, "2\n").denied(&[CMDLINE]), "fail cpus 3-5"),
            ("what is offline does not count", tuned().offline(&[5]).with(NOHZ_FULL, "2-4\n"), "pass"),
        ],
    );
}

/// A host whose boot line alone says whose callbacks are offloaded.
fn ticking(params: &str) -> Tree {
    tuned().with(NOHZ_FULL, "\n").boot(params)
}

/// A boot line of that many bytes.
fn boot_of(length: usize, params: &str) -> Tree {
    let line = format!("{params} {}", "x".repeat(length - params.len() - 1));
    assert_eq!(line.len(), length);
    tuned().deep().with(NOHZ_FULL, "\n").with(CMDLINE, format!("{line}\n"))
}

#[test]
fn rcu_nocbs() {
    let old = |release: &str, params: &str| ticking(params).with(OSRELEASE, format!("{release}\n"));
    judge(
        "rcu_nocbs",
        [
            ("by both", tuned(), "pass"),
            ("nohz_full implies it", tuned().boot("nohz_full=2-5"), "pass"),
            ("by its own list", ticking("rcu_nocbs=2-5"), "pass"),
            ("by half and half", tuned().with(NOHZ_FULL, "2-3\n").boot("rcu_nocbs=4-5"), "pass"),
            ("not asked for", ticking("quiet"), "fail cpus 2-5"),
            ("the last one counts", ticking("rcu_nocbs=2-5 rcu_nocbs=2-3"), "fail cpus 4-5"),
            ("the last one counts, a bare one too", ticking("rcu_nocbs=2-5 rcu_nocbs"), "fail cpus 2-5"),
            ("a bare one", ticking("rcu_nocbs"), "fail cpus 2-5"),
            ("all, in any case", ticking("rcu_nocbs=ALL"), "pass"),
            ("all before lists knew it", old("5.4.0", "rcu_nocbs=all"), "pass"),
            ("N is the last CPU", ticking("rcu_nocbs=2-N"), "pass"),
            ("N before there was one: a bad list", old("5.10.0", "rcu_nocbs=2-N"), "pass"),
            ("N before bad lists meant all", old("5.4.0", "rcu_nocbs=2-N"), "fail cpus 2-5"),
            ("a stride", ticking("rcu_nocbs=0-15:2/4"), "fail cpus 2-3"),
            ("a stride before there were any", old("4.9.0", "rcu_nocbs=0-15:4/4"), "fail cpus 2-5"),
            ("a bad list means all", ticking("rcu_nocbs=2-200"), "pass"),
            ("a bad list meant nothing", old("5.9.0", "rcu_nocbs=2-200"), "fail cpus 2-5"),
            ("a bad list on a kernel that does not say", ticking("rcu_nocbs=x").without(OSRELEASE), "pass"),
            ("no possible file: no bound", old("5.9.0", "rcu_nocbs=2-200").without(POSSIBLE), "pass"),
            ("dash and underscore", ticking("rcu-nocbs=2-5"), "pass"),
            ("names have a case", ticking("RCU_NOCBS=2-5"), "fail cpus 2-5"),
            ("another parameter with that beginning", ticking("rcu_nocbs_x=2-5 rcu_nocb_poll"), "fail cpus 2-5"),
            ("quotes around it", ticking("\"rcu_nocbs=2-5\""), "pass"),
            ("quotes around its value", ticking("rcu_nocbs=\"2-5\""), "pass"),
            ("in another's quotes", ticking("a=\"b rcu_nocbs=2-5\""), "fail cpus 2-5"),
            ("after -- it is init's", ticking("-- rcu_nocbs=2-5"), "fail cpus 2-5"),
            ("no boot line: nobody", tuned().with(NOHZ_FULL, "\n").without(CMDLINE), "fail cpus 2-5"),
            ("the boot line is denied", ticking("").denied(&[CMDLINE]), "unknown denied"),
            ("the boot line is denied, nohz_full is enough", tuned().denied(&[CMDLINE]), "pass"),
            ("nohz_full is not understood", tuned().with(NOHZ_FULL, "x\n").boot("rcu_nocbs=2-5"), "pass"),
            ("nohz_full is needed and not understood", tuned().with(NOHZ_FULL, "x\n").boot("ro"), "unknown malformed"),
            ("a line of 510 bytes", boot_of(510, "ro"), "fail cpus 2-5"),
            ("a line of 511 bytes may have been cut", boot_of(511, "ro"), "unknown unreadable"),
            ("a line of 512 bytes", boot_of(512, "ro"), "fail cpus 2-5"),
            ("a line of 2046 bytes", boot_of(2046, "ro"), "fail cpus 2-5"),
            ("a line of 2047 bytes may have been cut", boot_of(2047, "ro"), "unknown unreadable"),
            ("what stands on it counts", boot_of(511, "rcu_nocbs=2-5"), "pass"),
            ("what is offline does not count", ticking("rcu_nocbs=2-4").offline(&[5]), "pass"),
        ],
    );
}

#[test]
fn irq_affinity_default_mask() {
    let mask = |mask: &str| tuned().with(DEFAULT_MASK, mask);
    judge(
        "irq_affinity",
        [
            ("clean", tuned(), "pass"),
            ("a leading zero group", mask("00000000,0000ffc3\n"), "pass"),
            ("an empty group is skipped", mask(",ffc3\n"), "pass"),
            ("groups of fewer digits are 32 bits all the same", mask("3c,ffc3\n"), "pass"),
            ("all CPUs", mask("ffff\n"), "fail cpus 2-5"),
            ("wider than the host", mask("ff,ffffffff,ffffffff\n"), "fail cpus 2-5"),
            ("one hot CPU", mask("ffd3\n"), "fail cpus 4"),
            ("one hot CPU, which is offline", mask("ffd3\n").offline(&[4]), "pass"),
            ("nine digits are no group", mask("00000ffc3\n"), "unknown malformed"),
            ("no digits", mask("0xffc3\n"), "unknown malformed"),
            ("no such file", tuned().without(DEFAULT_MASK), "unknown not-exposed"),
            ("denied", tuned().denied(&[DEFAULT_MASK]), "unknown denied"),
            (
                "denied, and a line breaks",
                tuned().line(30, "eth1", "2", "2").denied(&[DEFAULT_MASK]),
                "fail cpus 2 lines 30",
            ),
            ("no line to be seen", tuned().without("proc/irq/24"), "unknown not-exposed"),
            ("no line to be seen, a bad mask", mask("ffff\n").without("proc/irq/24"), "fail cpus 2-5"),
            ("nothing at all", tuned().without("proc/irq").with("proc/irq/.keep", ""), "unknown not-exposed"),
            ("no folder", tuned().without("proc/irq"), "unknown not-exposed"),
        ],
    );
}

#[test]
fn irq_affinity_lines() {
    let list = "proc/irq/24/smp_affinity_list";
    let mode = |path: &str, mode: &str| format!("[modes]\n\"proc/irq/40/{path}\" = \"{mode}\"");
    let new = |handler: &str, affinity: &str, effective: &str| {
        tuned().with(OSRELEASE, "6.12.0\n").line(40, handler, affinity, effective)
    };
    let fixed =
        |affinity: &str, effective: &str| new("eth1", affinity, effective).capture(&mode("smp_affinity", "0444"));
    judge(
        "irq_affinity",
        [
            ("the default is not retroactive", tuned().line(30, "eth1", "0-15", "0"), "fail cpus 2-5 lines 30"),
            ("two lines", tuned().line(30, "a", "2", "2").line(31, "b", "5", "5"), "fail cpus 2,5 lines 30,31"),
            ("moved, pending until its next interrupt", tuned().line(30, "eth1", "0-1", "4"), "pass"),
            ("a line without a handler", tuned().dead_line(5, "0-15", ""), "pass"),
            (
                "no handler in the whole tree: every line lives",
                tuned().without("proc/irq/24/eth0").dead_line(5, "0-15", ""),
                "fail cpus 2-5 lines 5",
            ),
            (
                "a mask file alone",
                tuned().with("proc/irq/30/smp_affinity", "3f\n").with("proc/irq/30/x/.keep", ""),
                "fail cpus 2-5 lines 30",
            ),
            ("a line that may not be read", tuned().denied(&[list]), "unknown denied"),
            ("a line that is not understood", tuned().with(list, "0-x\n"), "unknown malformed"),
            ("a line whose folder may not be listed", tuned().denied(&["proc/irq/24"]), "unknown denied"),
            ("one denied, one broken", tuned().line(30, "x", "3", "3").denied(&[list]), "fail cpus 3 lines 30"),
            ("per CPU: arch_timer", tuned().line(11, "arch_timer", "0-15", "0-15"), "pass"),
            ("per CPU: a PMU", tuned().line(11, "arm-pmu", "0-15", "0-15"), "pass"),
            ("per CPU: an IPI", tuned().line(11, "IPI0", "0-15", "0-15"), "pass"),
            ("per CPU: Xen", tuned().line(11, "xen-percpu-virq", "0-15", "0-15"), "pass"),
            (
                "an NVMe queue delivered to a hot CPU for others",
                tuned().line(40, "nvme0q1", "0-5", "3"),
                "fail cpus 3 lines 40",
            ),
            ("an NVMe queue kept off", tuned().line(40, "nvme0q1", "0-5", "0"), "pass"),
            ("an NVMe queue of hot CPUs alone", tuned().line(40, "nvme0q1", "2-5", "3"), "pass"),
            (
                "an NVMe queue shared with an offline CPU",
                tuned().line(40, "nvme0q1", "3,10", "3").offline(&[10]),
                "pass",
            ),
            ("an NVMe queue that is not delivered", tuned().line(40, "nvme0q1", "0-5", ""), "pass"),
            ("the admin queue can be moved", tuned().line(40, "nvme0q0", "0-5", "0"), "fail cpus 2-5 lines 40"),
            ("a virtio queue", tuned().line(40, "virtio1-req.0", "0-5", "4"), "fail cpus 4 lines 40"),
            ("a virtio queue kept off", tuned().line(40, "virtio1-req.0", "0-5", "0"), "pass"),
            (
                "a virtio line that can be moved",
                tuned().line(40, "virtio0-input.0", "0-5", "0"),
                "fail cpus 2-5 lines 40",
            ),
            (
                "where it is delivered does not show",
                tuned().line(40, "nvme0q1", "0-5", "0").without("proc/irq/40/effective_affinity_list"),
                "unknown not-exposed",
            ),
            (
                "nor need it",
                tuned().line(40, "nvme0q1", "0-1", "0").without("proc/irq/40/effective_affinity_list"),
                "pass",
            ),
            ("6.12: the mode says that it stays", fixed("0-5", "3"), "fail cpus 3 lines 40"),
            ("6.12: it stays, kept off", fixed("0-5", "0"), "pass"),
            ("6.12: it stays, hot CPUs alone", fixed("2-5", "2"), "pass"),
            (
                "6.12: the mode of the list counts too",
                new("eth1", "0-5", "0").capture(&mode("smp_affinity_list", "0444")),
                "pass",
            ),
            (
                "6.12: the mode says that it moves",
                new("nvme0q1", "0-5", "0").capture(&mode("smp_affinity", "0644")),
                "fail cpus 2-5 lines 40",
            ),
            ("6.12: names do not tell", new("nvme0q1", "0-5", "0"), "fail cpus 2-5 lines 40"),
            (
                "6.1: modes do not tell",
                tuned().line(40, "eth1", "0-5", "0").capture(&mode("smp_affinity", "0444")),
                "fail cpus 2-5 lines 40",
            ),
            ("no release: names tell", tuned().line(40, "nvme0q1", "0-5", "0").without(OSRELEASE), "pass"),
            ("a hot CPU that is offline", tuned().line(30, "eth1", "0,4", "0").offline(&[4]), "pass"),
        ],
    );
}

/// irqbalance runs with this environment.
fn balanced(environ: &str) -> Tree {
    tuned().with("proc/903/comm", "irqbalance\n").with("proc/903/environ", environ)
}

#[test]
fn irqbalance() {
    let told_nothing = || balanced("PATH=/bin\0");
    judge(
        "irqbalance",
        [
            ("does not run", tuned(), "pass"),
            ("another one of that name", tuned().with("proc/903/comm", "irqbalance-ui\n"), "pass"),
            ("runs, no environment", tuned().with("proc/903/comm", "irqbalance\n"), "fail cpus 2-5 words irqbalance"),
            (
                "runs, the environment denied",
                balanced("").denied(&["proc/903/environ"]),
                "fail cpus 2-5 words irqbalance",
            ),
            ("its list", balanced("PATH=/bin\0IRQBALANCE_BANNED_CPULIST=2-5\0"), "pass"),
            ("its mask", balanced("IRQBALANCE_BANNED_CPUS=3c\0"), "pass"),
            ("its mask, one hot CPU", balanced("IRQBALANCE_BANNED_CPUS=10\0"), "fail cpus 2-3,5 words irqbalance"),
            (
                "its list replaces what it bans by itself",
                balanced("IRQBALANCE_BANNED_CPULIST=2-3\0"),
                "fail cpus 4-5 words irqbalance",
            ),
            (
                "both: the mask counts",
                balanced("IRQBALANCE_BANNED_CPULIST=2-5\0IRQBALANCE_BANNED_CPUS=4\0"),
                "fail cpus 3-5 words irqbalance",
            ),
            ("an empty one is unset", balanced("IRQBALANCE_BANNED_CPUS=\0IRQBALANCE_BANNED_CPULIST=2-5\0"), "pass"),
            (
                "one that is not understood",
                balanced("IRQBALANCE_BANNED_CPULIST=2-x\0"),
                "fail cpus 2-5 words irqbalance",
            ),
            ("another variable", balanced("XIRQBALANCE_BANNED_CPULIST=9\0"), "pass"),
            ("told nothing: isolated and tickless CPUs", told_nothing(), "pass"),
            ("told nothing: tickless ones", told_nothing().with(ISOLATED, "\n"), "pass"),
            ("told nothing: half and half", told_nothing().with(ISOLATED, "2-3\n").with(NOHZ_FULL, "4-5\n"), "pass"),
            (
                "told nothing: neither",
                told_nothing().with(ISOLATED, "\n").with(NOHZ_FULL, "\n"),
                "fail cpus 2-5 words irqbalance",
            ),
            (
                "told nothing: it reads no partitions",
                partition(told_nothing().with(ISOLATED, "\n").with(NOHZ_FULL, "\n"), "hot", "isolated", "2-5"),
                "fail cpus 2-5 words irqbalance",
            ),
            (
                "told nothing: a line shows that it does not keep off",
                told_nothing().line(30, "eth1", "0-15", "0"),
                "fail cpus 2-5 words irqbalance",
            ),
            ("told nothing: a line that it cannot move", told_nothing().line(40, "nvme0q1", "0-5", "0"), "pass"),
            (
                "told nothing: a line that does not show",
                told_nothing().denied(&["proc/irq/24/smp_affinity_list"]),
                "unknown denied",
            ),
            (
                "told nothing: isolated is not understood",
                told_nothing().with(ISOLATED, "x\n").with(NOHZ_FULL, "\n"),
                "unknown malformed",
            ),
            (
                "two of them, one of which keeps off",
                balanced("IRQBALANCE_BANNED_CPULIST=2-5\0")
                    .with("proc/904/comm", "irqbalance\n")
                    .with("proc/904/environ", "IRQBALANCE_BANNED_CPULIST=2-3\0"),
                "fail cpus 4-5 words irqbalance",
            ),
            ("no process to be seen", tuned().without("proc/1").without("proc/812"), "unknown not-exposed"),
            ("process 1 is hidden", tuned().without("proc/1"), "unknown not-exposed"),
            ("process 1 is denied", tuned().denied(&["proc/1"]), "unknown denied"),
            ("some process is denied", tuned().denied(&["proc/812/comm"]), "unknown denied"),
            (
                "some process is denied, and it runs",
                balanced("A=b\0").without(NOHZ_FULL).with(ISOLATED, "\n").denied(&["proc/812/comm"]),
                "fail cpus 2-5 words irqbalance",
            ),
            ("a name that is no text", tuned().with("proc/903/comm", b"\xff\xfe\n"), "pass"),
            ("in a container", tuned().with("run/systemd/container", "docker\n"), "unknown not-exposed"),
            (
                "a mark of a container, and kernel threads",
                tuned().with("run/systemd/container", "docker\n").with("proc/2/comm", "kthreadd\n"),
                "pass",
            ),
        ],
    );
}

#[test]
fn governor() {
    let file = |cpu: u32| format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor");
    let mut guest = tuned().with(&format!("{CPU}/cpufreq/.keep"), "");
    let mut slow = tuned();
    for cpu in 0..common::CPUS {
        guest = guest.without(&format!("{CPU}/cpu{cpu}/cpufreq"));
        slow = slow.with(&file(cpu), "schedutil\n");
    }
    let (hot, cold) = (file(4), file(9));
    judge(
        "governor",
        [
            ("performance", tuned(), "pass"),
            ("one hot CPU on powersave", tuned().with(&hot, "powersave\n"), "fail cpus 4"),
            ("a cold CPU on powersave", tuned().with(&cold, "powersave\n"), "pass"),
            ("all on schedutil", slow, "fail cpus 2-5"),
            ("no cpufreq at all", guest, "unknown not-exposed"),
            ("no cpufreq for one hot CPU", tuned().without(&format!("{CPU}/cpu4/cpufreq")), "unknown not-exposed"),
            ("one is denied", tuned().denied(&[&hot]), "unknown denied"),
            ("one is denied, another breaks", tuned().with(&file(3), "ondemand\n").denied(&[&hot]), "fail cpus 3"),
            ("two words", tuned().with(&hot, "performance powersave\n"), "unknown malformed"),
            ("no word", tuned().with(&hot, "\n"), "unknown malformed"),
            ("an offline hot CPU that is busy", tuned().offline(&[4]).errors(&[&hot], "EBUSY"), "unknown unreadable"),
            ("an offline hot CPU on powersave", tuned().offline(&[4]).with(&hot, "powersave\n"), "fail cpus 4"),
            (
                "an offline hot CPU without a folder",
                tuned().offline(&[4]).without(&format!("{CPU}/cpu4/cpufreq")),
                "pass",
            ),
        ],
    );
}

/// Deep states everywhere, and this on the boot line.
fn sleepy(params: &str) -> Tree {
    tuned().deep().boot(params)
}

#[test]
fn cstate_boot_line() {
    let acpi = |params: &str| sleepy(params).with(DRIVER, "acpi_idle\n");
    let none = |params: &str| tuned().without_states().with(DRIVER, "none\n").boot(params);
    judge(
        "cstate",
        [
            ("capped and shallow", tuned(), "pass"),
            ("capped, whatever sysfs lists", sleepy(CAPPED), "pass"),
            ("not capped", sleepy("quiet"), "fail cpus 2-5"),
            ("idle=poll", sleepy("idle=poll"), "pass"),
            ("idle=poll leaves no driver", tuned().without_states().boot("idle=poll"), "pass"),
            ("idle=halt", sleepy("idle=halt"), "pass"),
            ("idle=nomwait is no cap", sleepy("idle=nomwait"), "fail cpus 2-5"),
            ("cpuidle.off=1", sleepy("cpuidle.off=1"), "pass"),
            ("cpuidle.off=0", sleepy("cpuidle.off=0"), "fail cpus 2-5"),
            ("intel_idle alone, in use", sleepy("intel_idle.max_cstate=1"), "pass"),
            ("the same in hexadecimal", sleepy("intel_idle.max_cstate=0x1"), "pass"),
            ("the same with a dash", sleepy("intel-idle.max-cstate=1"), "pass"),
            (
                "a value that is refused leaves what was",
                sleepy("intel_idle.max_cstate=1 intel_idle.max_cstate=x"),
                "pass",
            ),
            ("a value that is refused", sleepy("intel_idle.max_cstate=one"), "fail cpus 2-5"),
            ("the last one counts", sleepy("intel_idle.max_cstate=1 intel_idle.max_cstate=9"), "fail cpus 2-5"),
            ("0 under intel_idle itself is no cap", sleepy("intel_idle.max_cstate=0"), "fail cpus 2-5"),
            ("two is no cap", sleepy("intel_idle.max_cstate=2"), "fail cpus 2-5"),
            ("processor does nothing under intel_idle", sleepy("processor.max_cstate=1"), "fail cpus 2-5"),
            ("intel_idle=0 alone hands over to acpi_idle", acpi("intel_idle.max_cstate=0"), "fail cpus 2-5"),
            ("processor=1 under acpi_idle", acpi("processor.max_cstate=1"), "pass"),
            ("processor=0 under acpi_idle", acpi("intel_idle.max_cstate=0 processor.max_cstate=0"), "pass"),
            ("intel_idle=1 under acpi_idle", acpi("intel_idle.max_cstate=1"), "fail cpus 2-5"),
            ("another driver", sleepy(CAPPED).with(DRIVER, "psci_idle\n"), "fail cpus 2-5"),
            ("no driver, both are capped", none(CAPPED), "pass"),
            ("no driver, both, one by 0", none("intel_idle.max_cstate=0 processor.max_cstate=1"), "pass"),
            ("no driver, one is capped", none("intel_idle.max_cstate=1"), "fail"),
            ("the driver is denied, both are capped", sleepy(CAPPED).denied(&[DRIVER]), "pass"),
            ("no driver file, both are capped", sleepy(CAPPED).without(DRIVER), "pass"),
            ("nothing said and nothing to read", tuned().without_states().boot("quiet"), "fail"),
            ("after -- it is init's", sleepy("-- idle=poll"), "fail cpus 2-5"),
            ("no boot line", sleepy("").without(CMDLINE), "fail cpus 2-5"),
            ("the boot line is denied", sleepy("").denied(&[CMDLINE]), "unknown denied"),
            ("the boot line is denied, the states are shallow", tuned().denied(&[CMDLINE]), "pass"),
            ("a line of 510 bytes", boot_of(510, "ro"), "fail cpus 2-5"),
            ("a line of 511 bytes may have been cut", boot_of(511, "ro"), "unknown unreadable"),
            ("a line of 4095 bytes may have been cut", boot_of(4095, "ro"), "unknown unreadable"),
            ("what stands on it counts", boot_of(511, "idle=poll"), "pass"),
        ],
    );
}

#[test]
fn cstate_states() {
    let mut disabled = sleepy("ro");
    for cpu in 2..=5 {
        disabled = disabled.state(cpu, 2, "C6", 133, "1");
    }
    let allowing = |latency: &str| format!("max-wakeup-latency = \"{latency}\"\n[hot]\nw = \"2-5\"\n");
    let file = |what: &str| format!("{CPU}/cpu4/cpuidle/state2/{what}");
    let shallow = || tuned().boot("ro");
    judge(
        "cstate",
        [
            ("shallow states alone", shallow(), "pass"),
            ("deep ones disabled on hot CPUs", disabled.clone(), "pass"),
            ("left enabled on one", disabled.clone().state(4, 2, "C6", 133, "0"), "fail"),
            ("the plan allows them", sleepy("ro").plan(&allowing("200us")), "pass"),
            ("the plan allows less", shallow().plan(&allowing("0us")), "fail cpus 2-5"),
            ("C1 of 2 us", shallow().state(4, 1, "C1", 2, "0"), "pass"),
            ("C1 of 3 us", shallow().state(4, 1, "C1", 3, "0"), "fail"),
            ("no disable file means enabled", disabled.clone().without(&file("disable")), "fail"),
            (
                "a latency that is not understood",
                sleepy("ro").plan(&allowing("200us")).with(&file("latency"), "deep\n"),
                "unknown malformed",
            ),
            ("the same of a disabled state", disabled.clone().with(&file("latency"), "deep\n"), "pass"),
            (
                "a latency that is denied",
                sleepy("ro").plan(&allowing("200us")).denied(&[&file("latency")]),
                "unknown denied",
            ),
            ("an offline hot CPU", disabled.clone().offline(&[4]), "pass"),
            ("haltpoll's states say nothing", shallow().with(DRIVER, "haltpoll\n"), "unknown unreadable"),
            ("haltpoll, and idle=poll", tuned().boot("idle=poll").with(DRIVER, "haltpoll\n"), "pass"),
        ],
    );
}

#[test]
fn cstate_requests() {
    let global = |micros: i64| format!("[binary]\n\"dev/cpu_dma_latency\" = {micros}");
    let own = |mut tree: Tree, cpus: std::ops::RangeInclusive<u32>, text: &str| {
        for cpu in cpus {
            tree = tree.with(&format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us"), text);
        }
        tree
    };
    judge(
        "cstate",
        [
            ("a request of 0", sleepy("ro").capture(&global(0)), "pass"),
            ("a request of 2 us", sleepy("ro").capture(&global(2)), "pass"),
            ("a request of 200 us", sleepy("ro").capture(&global(200)), "fail cpus 2-5"),
            ("a request that leaves only shallow states", sleepy("ro").capture(&global(100)), "pass"),
            ("nobody requests", sleepy("ro").capture(&global(2_000_000_000)), "fail cpus 2-5"),
            ("n/a tolerates no latency", own(sleepy("ro"), 2..=5, "n/a\n"), "pass"),
            ("0 is no constraint", own(sleepy("ro"), 2..=5, "0\n"), "fail cpus 2-5"),
            ("1 us each", own(sleepy("ro"), 2..=5, "1\n"), "pass"),
            ("1 us but for one", own(sleepy("ro"), 2..=4, "1\n"), "fail"),
            ("200 us each", own(sleepy("ro"), 2..=5, "200\n"), "fail cpus 2-5"),
            ("200 us for one, and nothing for the others", own(sleepy("ro"), 2..=2, "200\n"), "fail cpus 2-5"),
            (
                "a request for some, disabled states for the others",
                own(sleepy("ro"), 2..=4, "n/a\n").state(5, 2, "C6", 133, "1"),
                "pass",
            ),
            ("the stricter one counts", own(sleepy("ro"), 2..=5, "100\n").capture(&global(0)), "pass"),
            ("denied while states are deep", sleepy("ro").denied(&["dev/cpu_dma_latency"]), "unknown denied"),
            ("denied while they are not", tuned().boot("ro").denied(&["dev/cpu_dma_latency"]), "pass"),
            ("not understood while states are deep", own(sleepy("ro"), 2..=5, "soon\n"), "unknown malformed"),
            (
                "no driver heeds it",
                tuned().without_states().with(DRIVER, "none\n").boot("ro").capture(&global(0)),
                "fail",
            ),
        ],
    );
}

#[test]
fn thp() {
    let defrag = format!("{THP}/defrag");
    let always = "[always] defer defer+madvise madvise never\n";
    let never = || tuned().thp("always madvise [never]\n");
    let size = |tree: Tree, size: u32, choice: &str| tree.with(&format!("{THP}/hugepages-{size}kB/enabled"), choice);
    judge(
        "thp",
        [
            ("madvise", tuned(), "pass"),
            ("never", never(), "pass"),
            ("always", tuned().thp("[always] madvise never\n"), "fail"),
            ("a size switched on below never", size(never(), 2048, "[always] inherit madvise never\n"), "fail"),
            (
                "every size off below always",
                size(
                    size(tuned().thp("[always] madvise never\n"), 64, "always inherit madvise [never]\n"),
                    2048,
                    "always inherit madvise [never]\n",
                ),
                "pass",
            ),
            (
                "a size inherits always",
                size(tuned().thp("[always] madvise never\n"), 2048, "always [inherit] madvise never\n"),
                "fail",
            ),
            ("a size inherits madvise", size(tuned(), 2048, "always [inherit] madvise never\n"), "pass"),
            (
                "a size without that file",
                size(tuned(), 2048, "always [inherit] madvise never\n")
                    .with(&format!("{THP}/hugepages-8kB/stats/.keep"), ""),
                "pass",
            ),
            ("a size that is not understood", size(tuned(), 64, "on\n"), "unknown malformed"),
            ("one not understood, one always", size(size(tuned(), 64, "on\n"), 2048, "[always] never\n"), "fail"),
            ("defrag always stalls", tuned().with(&defrag, always), "fail"),
            ("defrag of what never comes", never().with(&defrag, always), "pass"),
            ("defer+madvise", tuned().with(&defrag, "always defer [defer+madvise] madvise never\n"), "pass"),
            ("defrag denied", tuned().denied(&[&defrag]), "unknown denied"),
            ("defrag denied, and irrelevant", never().denied(&[&defrag]), "pass"),
            ("no defrag", tuned().without(&defrag), "unknown not-exposed"),
            ("no word in brackets", tuned().thp("always madvise never\n"), "unknown malformed"),
            ("two words in brackets", tuned().thp("[always] [never]\n"), "unknown malformed"),
            ("an unheard-of word", tuned().thp("[sometimes] never\n"), "unknown malformed"),
            ("denied", tuned().denied(&[THP]), "unknown denied"),
            ("a kernel without them", tuned().without(THP).with("sys/kernel/mm/ksm/run", "0\n"), "pass"),
            ("no memory controls at all", tuned().without("sys/kernel/mm"), "unknown not-exposed"),
        ],
    );
}

#[test]
fn memlock() {
    const STATUS: &str = "proc/self/status";
    const UID_MAP: &str = "proc/self/uid_map";
    let small = || tuned().limit("8388608", "8388608");
    let holding = || small().with(STATUS, "Name:\tx\nCapEff:\t0000000000004000\n");
    let all = |map: &str| small().with(STATUS, "Name:\tx\nCapEff:\t000001ffffffffff\n").with(UID_MAP, map);
    let asking = |size: &str| format!("locked-memory = \"{size}\"\n[hot]\nw = \"2-5\"\n");
    judge(
        "memlock",
        [
            ("unlimited", tuned(), "pass"),
            ("exactly enough", tuned().limit("1073741824", "1073741824"), "pass"),
            ("one byte short", tuned().limit("1073741823", "unlimited"), "fail"),
            ("the hard limit does not help", tuned().limit("8388608", "unlimited"), "fail"),
            ("the plan wants less", small().plan(&asking("8MiB")), "pass"),
            ("the plan wants none", small().plan("[hot]\nw = 2\n"), "not-applicable"),
            (
                "the plan wants none, and nothing shows",
                tuned().without(LIMITS).plan("[hot]\nw = 2\n"),
                "not-applicable",
            ),
            ("a capability lifts it", holding().with(UID_MAP, "         0          0 4294967295\n"), "pass"),
            ("a capability in a namespace of its own", all("         0       1000          1\n"), "fail"),
            ("all of them in the initial one", all("0 0 4294967295\n"), "pass"),
            ("in which namespace does not show", holding(), "unknown not-exposed"),
            ("the namespace is not understood", all("zero\n"), "unknown malformed"),
            ("no such capability", small().with(STATUS, "CapEff:\t0000000000000000\n"), "fail"),
            ("the capabilities are not understood", small().with(STATUS, "Name:\tx\n"), "unknown malformed"),
            ("the capabilities are denied", small().denied(&[STATUS]), "unknown denied"),
            ("the capabilities are denied, and not needed", tuned().denied(&[STATUS]), "pass"),
            ("no status: the limit decides", small(), "fail"),
            ("no limits", tuned().without(LIMITS), "unknown not-exposed"),
            (
                "no limits, whatever the capabilities",
                holding().with(UID_MAP, "0 0 4294967295\n").without(LIMITS),
                "unknown not-exposed",
            ),
            ("limits denied", tuned().denied(&[LIMITS]), "unknown denied"),
            ("no such row", tuned().with(LIMITS, "Limit Soft Hard Units\n"), "unknown malformed"),
            ("a row that is no limit", tuned().limit("-1", "-1"), "unknown malformed"),
        ],
    );
}

#[test]
fn rt_throttle_to_6_11() {
    let spinning = |runtime: &str| tuned().plan(REALTIME_PLAN).with(RT_RUNTIME, format!("{runtime}\n"));
    judge(
        "rt_throttle",
        [
            ("not real-time", tuned(), "pass"),
            ("not real-time, and nothing shows", tuned().without(RT_RUNTIME), "pass"),
            ("the default", spinning("950000"), "fail cpus 2-5"),
            ("-1", spinning("-1"), "pass"),
            ("the whole period", spinning("1000000"), "pass"),
            ("more than the period", spinning("2000000"), "pass"),
            ("a sliver", spinning("999999"), "fail cpus 2-5"),
            ("-1 on 6.11", spinning("-1").with(OSRELEASE, "6.11.9\n"), "pass"),
            ("-1 needs no period", spinning("-1").without(RT_PERIOD), "pass"),
            ("a runtime without a period", spinning("950000").without(RT_PERIOD), "unknown not-exposed"),
            ("no runtime", spinning("-1").without(RT_RUNTIME), "unknown not-exposed"),
            ("denied", spinning("-1").denied(&[RT_RUNTIME]), "unknown denied"),
            ("not understood", spinning("most"), "unknown malformed"),
            ("no release: throttling is certain", spinning("950000").without(OSRELEASE), "fail cpus 2-5"),
            ("no release: its absence is not", spinning("-1").without(OSRELEASE), "unknown unreadable"),
            ("no release: nor with a whole period", spinning("1000000").without(OSRELEASE), "unknown unreadable"),
            ("a hot CPU is offline", spinning("950000").offline(&[3]), "fail cpus 2,4-5"),
        ],
    );
}

#[test]
fn rt_throttle_from_6_12() {
    let runtime = |cpu: u32| format!("{FAIR_SERVER}/cpu{cpu}/runtime");
    let served = |release: &str, sysctl: &str, nanoseconds: u32| {
        let mut tree = tuned().plan(REALTIME_PLAN).with(OSRELEASE, format!("{release}\n"));
        for cpu in 0..common::CPUS {
            tree = tree.with(&runtime(cpu), format!("{nanoseconds}\n"));
        }
        tree.with(RT_RUNTIME, format!("{sysctl}\n"))
    };
    let off = |sysctl: &str| served("6.12.0", sysctl, 0);
    let gzipped = |text: &str| {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).unwrap();
        gz.finish().unwrap()
    };
    let unset = "# CONFIG_RT_GROUP_SCHED is not set\n";
    judge(
        "rt_throttle",
        [
            ("the fair server takes its share at -1", served("6.12.0", "-1", 50_000_000), "fail cpus 2-5"),
            ("off on every CPU", off("-1"), "pass"),
            ("off on hot CPUs", off("-1").with(&runtime(9), "50000000\n"), "pass"),
            ("left on on one hot CPU", off("-1").with(&runtime(4), "50000000\n"), "fail cpus 4"),
            ("the smallest share", off("-1").with(&runtime(4), "1\n"), "fail cpus 4"),
            ("the sysctl throttles nothing", off("950000"), "pass"),
            (
                "but with real-time groups",
                off("950000").with("sys/fs/cgroup/cpu/cpu.rt_runtime_us", "950000\n"),
                "fail cpus 2-5",
            ),
            ("real-time groups and -1", off("-1").with("sys/fs/cgroup/cpu/cpu.rt_runtime_us", "-1\n"), "pass"),
            (
                "built with groups: config.gz",
                off("950000").with("proc/config.gz", gzipped("CONFIG_RT_GROUP_SCHED=y\n")),
                "fail cpus 2-5",
            ),
            ("built without: config.gz", off("950000").with("proc/config.gz", gzipped(unset)), "pass"),
            (
                "built with groups: boot",
                off("950000").with("boot/config-6.12.0", "CONFIG_RT_GROUP_SCHED=y\n"),
                "fail cpus 2-5",
            ),
            ("built without: boot", off("950000").with("boot/config-6.12.0", unset), "pass"),
            ("another kernel's file", off("950000").with("boot/config-6.1.0", "CONFIG_RT_GROUP_SCHED=y\n"), "pass"),
            ("does not show", off("-1").without(FAIR_SERVER), "unknown not-exposed"),
            ("does not show on 7.1", off("-1").with(OSRELEASE, "7.1.0\n").without(FAIR_SERVER), "unknown not-exposed"),
            ("does not show for one hot CPU", off("-1").without(&runtime(4)), "unknown not-exposed"),
            ("denied", off("-1").denied(&[FAIR_SERVER]), "unknown denied"),
            ("not understood", off("-1").with(&runtime(4), "none\n"), "unknown malformed"),
            ("backported: it is where it is", served("6.1.0", "-1", 50_000_000), "fail cpus 2-5"),
            ("no release, and it is off", off("-1").without(OSRELEASE), "pass"),
            ("no release, and it is on", served("6.12.0", "-1", 50_000_000).without(OSRELEASE), "fail cpus 2-5"),
        ],
    );
}

#[test]
fn plan_topology() {
    judge(
        "plan_topology",
        [
            ("fits", tuned(), "pass"),
            ("a CPU that the host lacks", tuned().plan("[hot]\na = 2\nb = 99\n"), "fail cpus 99"),
            ("a plan made for another host", tuned().plan("[hot]\na = \"98-99\"\n"), "fail cpus 98-99"),
            ("no hot CPU is online", tuned().offline(&[2, 3, 4, 5]), "unknown not-exposed"),
            ("two roles on one core", tuned().smt().plan("[hot]\na = 2\nb = 10\n"), "fail cpus 2,10"),
            ("no housekeeping CPU", tuned().plan("idle = \"0\"\n[hot]\na = \"1-15\"\n"), "fail"),
            ("CPU 0 is hot", tuned().plan("[hot]\na = 0\n"), "fail cpus 0"),
            (
                "a sibling is missing from idle",
                tuned().smt().plan("idle = \"10\"\n[hot]\na = 2\nb = 3\n"),
                "fail cpus 11",
            ),
            ("siblings are idle", tuned().smt().plan("idle = \"10-11\"\n[hot]\na = 2\nb = 3\n"), "pass"),
            ("what is present does not show", tuned().without(PRESENT), "unknown not-exposed"),
        ],
    );
}

#[test]
fn without_a_hot_cpu_online_nothing_is_judged() {
    let report = audit_tree(&tuned().offline(&[2, 3, 4, 5]));
    for rule in base() {
        let want = if rule == "isolated" { "fail cpus 2-5" } else { "unknown unreadable" };
        assert_eq!(gist(finding(&report, rule)), want, "{rule}");
    }
}

#[test]
fn a_list_of_online_cpus_that_is_not_understood_costs_one_rule() {
    let report = audit_tree(&tuned().with(ONLINE, "all of them\n"));
    for rule in base() {
        let want = if rule == "isolated" { "unknown malformed" } else { "pass" };
        assert_eq!(gist(finding(&report, rule)), want, "{rule}");
    }
}

#[test]
fn a_nic_without_a_node_leaves_nothing_to_be_off() {
    let plan = "nic = \"eth0\"\n[hot]\na = 2\n";
    let tree = tuned().with("sys/class/net/eth0/device/numa_node", "-1\n").plan(plan);
    judge("nic_node", [("firmware names no node", tree, "pass")]);
    assert_eq!(gist(finding(&audit_fixture("laptop"), "nic_node")), "pass");
}

#[test]
fn nic_node() {
    let nodes = || {
        tuned()
            .with("sys/devices/system/node/node0/cpulist", "0-7\n")
            .with("sys/devices/system/node/node1/cpulist", "8-15\n")
            .with("sys/class/net/eth0/device/numa_node", "1\n")
    };
    let nic = "nic = \"eth0\"\n";
    judge(
        "nic_node",
        [
            ("off the NIC's node", nodes().plan(&format!("{nic}[hot]\na = 2\n")), "fail cpus 2"),
            ("on the NIC's node", nodes().plan(&format!("{nic}[hot]\na = 9\n")), "pass"),
            ("a NIC that the host does not have", nodes().plan("nic = \"eth9\"\n[hot]\na = 2\n"), "unknown unreadable"),
            ("a plan without a NIC", nodes(), "not-applicable"),
        ],
    );
}

#[test]
fn cstate_names_the_cpus_that_sleep_deeply_and_no_others() {
    let tree = tuned().boot("ro").state(4, 2, "C6", 133, "0");
    judge("cstate", [("C6 on one hot CPU", tree, "fail cpus 4")]);
}

#[test]
fn a_hot_cpu_that_its_own_file_shows_offline_is_not_online() {
    let tree = tuned().without(ONLINE).with(&format!("{CPU}/cpu4/online"), "0\n");
    judge("isolated", [("cpu4/online is 0", tree, "fail cpus 4")]);
}

#[test]
fn a_cpuset_whose_flag_does_not_show_is_no_reason_to_pass() {
    let tree = cpuset_v1(cpuset_v1(mixed(), "", "0", "0-15"), "/all", "1", "0-15");
    let tree = tree.without("sys/fs/cgroup/cpuset/all/cpuset.sched_load_balance");
    judge("isolated", [("it has CPUs all the same", tree, "unknown not-exposed")]);
}

#[test]
fn the_cases_cover_every_base_rule() {
    // The test of a rule has its name; several have a word after it.
    let source = include_str!("audit.rs");
    for rule in base() {
        assert!(source.contains(&format!("judge(\n        \"{rule}\"")), "no cases for {rule}");
    }
}

/// A CPU that the host does not have is named once by a rule, and fails it; one that it has is named for all that it lacks.
#[test]
fn an_impossible_cpu_is_named_once() {
    let message = |rule: &str, plan: &str| {
        let report = audit_tree(&tuned().plan(plan));
        let finding = finding(&report, rule);
        assert_eq!(finding.verdict(), Verdict::Fail);
        finding.evidence().message.clone()
    };
    for (rule, plan, wanted) in [
        ("isolated", "[hot]\na = \"2,99\"\n", "hot CPUs not online: 99; possible on this host are 0-15"),
        (
            "isolated",
            "[hot]\na = \"2,7,99\"\n",
            "hot CPUs not online: 99; hot CPUs not isolated: 7; possible on this host are 0-15",
        ),
        ("siblings", "idle = \"99\"\n[hot]\na = 2\n", "idle CPUs that this host does not have: 99"),
        (
            "siblings",
            "idle = \"7,99\"\n[hot]\na = 2\n",
            "idle CPUs that this host does not have: 99; siblings online and not isolated: 7",
        ),
    ] {
        assert_eq!(message(rule, plan), wanted, "{plan}");
    }
    let offline = tuned().with(common::ONLINE, "0-6\n").plan("[hot]\na = \"2,7\"\n");
    let report = audit_tree(&offline);
    assert_eq!(finding(&report, "isolated").evidence().message, "hot CPUs not online: 7; hot CPUs not isolated: 7");
}
