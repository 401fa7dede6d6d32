//! What holds of every input: sets of CPUs against a model, parsers on any text, and verdicts when a file goes bad.

mod common;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use common::{CMDLINE, CPU, DEFAULT_MASK, FAIR_SERVER, ISOLATED, Laid, NOHZ_FULL, OSRELEASE, RT_RUNTIME, Tree};
use common::{audit_dir, builtin, finding, gist};
use proptest::prelude::*;
use proptest::sample::Index;
use quietcore::cpuset::{BootGrammar, CpuSet};
use quietcore::fact::cmdline::{BootLine, IsolCpus};
use quietcore::fact::kernel::Release;
use quietcore::plan::Plan;
use quietcore::report::{Report, Verdict};
use quietcore::rule::{self, Rule};
use quietcore::units::{Bytes, Micros};

type Model = BTreeSet<u32>;

/// CPUs that lie together and apart, at the edges of words too.
fn cpus() -> impl Strategy<Value = Model> {
    let cpu = prop_oneof![4 => 0u32..40, 2 => 60u32..70, 1 => 1000u32..1100, 1 => Just(65535)];
    prop::collection::btree_set(cpu, 0..24)
}

fn set(model: &Model) -> CpuSet {
    model.iter().copied().collect()
}

fn model(set: &CpuSet) -> Model {
    set.iter().collect()
}

// ---- sets --------------------------------------------------------------------------------------------------------

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_set_is_read_back_as_it_is_printed(cpus in cpus()) {
        let cpus = set(&cpus);
        let text = cpus.to_string();
        prop_assert_eq!(CpuSet::parse_list(&text), Ok(cpus.clone()));
        prop_assert_eq!(CpuSet::parse_list(&format!("{text}\n")), Ok(cpus.clone()));
        prop_assert_eq!(CpuSet::parse_boot_list(&text, BootGrammar::newest(None)), Ok(cpus.clone()));
        // Canonical: ascending, merged, without blanks.
        let ends: Vec<u32> = text.split([',', '-']).filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect();
        prop_assert!(ends.windows(2).all(|pair| pair[0] < pair[1]), "{}", text);
        let starts: Vec<u32> = text.split(',').skip(1).map(|item| item.split('-').next().unwrap().parse().unwrap()).collect();
        prop_assert!(starts.iter().all(|start| !cpus.contains(start - 1)), "{}", text);
    }

    #[test]
    fn operators_are_those_of_sets(a in cpus(), b in cpus()) {
        let (x, y) = (set(&a), set(&b));
        prop_assert_eq!(model(&(&x | &y)), &a | &b);
        prop_assert_eq!(model(&(&x & &y)), &a & &b);
        prop_assert_eq!(model(&(&x - &y)), &a - &b);
        // Equal sets are equal, however they came about.
        prop_assert_eq!(&(&x | &y) - &y, set(&(&a - &b)));
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert_eq!(x.is_disjoint(&y), a.is_disjoint(&b));
        prop_assert_eq!(x == y, a == b);
        prop_assert_eq!((x.len(), x.is_empty()), (a.len(), a.is_empty()));
        prop_assert_eq!((x.first(), x.last()), (a.first().copied(), a.last().copied()));
        prop_assert!((0..2000).all(|cpu| x.contains(cpu) == a.contains(&cpu)));
    }

    #[test]
    fn a_printed_list_may_be_unmerged_and_padded(
        items in prop::collection::vec((0u32..200, 0u32..9, any::<bool>()), 0..12),
        commas in 1usize..3,
        before in "[ \t]{0,2}",
        after in "[ \r\n\0]{0,3}",
        leading in any::<bool>(),
    ) {
        let mut want = Model::new();
        let mut texts = Vec::new();
        for (start, more, is_range) in items {
            let end = if is_range { start + more } else { start };
            want.extend(start..=end);
            texts.push(if is_range { format!("{start}-{end}") } else { start.to_string() });
        }
        let comma = if leading && !texts.is_empty() { "," } else { "" };
        let text = format!("{before}{comma}{}{after}", texts.join(&",".repeat(commas)));
        prop_assert_eq!(CpuSet::parse_list(&text).map(|set| model(&set)), Ok(want), "{:?}", text);
    }

    #[test]
    fn a_list_with_a_foreign_item_is_refused(cpus in cpus(), item in "[a-z]{1,5}|-|[0-9]-|-[0-9]|0x[0-9]|[0-9]{1,2}-[a-z]|[0-9] [0-9]") {
        let text = format!("{},{item}\n", set(&cpus));
        prop_assert!(CpuSet::parse_list(&text).is_err(), "{:?}", text);
    }

    #[test]
    fn a_mask_of_any_width_is_read_back(cpus in cpus(), wider in 0usize..5, is_padded in any::<bool>(), blank in any::<bool>()) {
        let groups = cpus.last().map_or(0, |last| last / 32 + 1) as usize + wider;
        let mut texts = Vec::new();
        for group in (0..groups).rev() {
            let bits = cpus.iter().filter(|cpu| **cpu as usize / 32 == group).fold(0u32, |bits, cpu| bits | 1 << (cpu % 32));
            texts.push(if is_padded { format!("{bits:08x}") } else { format!("{bits:x}") });
        }
        let text = format!("{}\n", texts.join(if blank { ", " } else { "," }));
        prop_assert_eq!(CpuSet::parse_mask(&text).map(|set| model(&set)), Ok(cpus), "{}", text);
    }

    #[test]
    fn a_mask_with_a_foreign_group_is_refused(group in "[0-9a-f]{9}|[g-z]{1,3}|0x[0-9a-f]{1,4}|-1|\\+f") {
        for text in [format!("{group}\n"), format!("{group},00000000\n"), format!("ff,{group}\n")] {
            prop_assert!(CpuSet::parse_mask(&text).is_err(), "{:?}", text);
        }
    }
}

// ---- lists of boot parameters ------------------------------------------------------------------------------------

/// A number as written: `N` is the last CPU.
#[derive(Clone, Copy, Debug)]
enum Number {
    Digits(u32),
    Last,
}

#[derive(Clone, Debug)]
enum Region {
    One(Number),
    Range(Number, Number, Option<(u32, u32)>),
    All(&'static str, Option<(u32, u32)>),
}

impl Number {
    fn value(self, last: u32) -> u32 {
        match self {
            Number::Digits(n) => n,
            Number::Last => last,
        }
    }

    fn text(self) -> String {
        match self {
            Number::Digits(n) => n.to_string(),
            Number::Last => "N".to_owned(),
        }
    }
}

impl Region {
    fn text(&self) -> String {
        let stride = |stride: Option<(u32, u32)>| stride.map_or_else(String::new, |(used, of)| format!(":{used}/{of}"));
        match self {
            Region::One(cpu) => cpu.text(),
            Region::Range(start, end, by) => format!("{}-{}{}", start.text(), end.text(), stride(*by)),
            Region::All(word, by) => format!("{word}{}", stride(*by)),
        }
    }

    /// Every CPU of it, one by one; none when the kernel refuses the list.
    fn cpus(&self, last: u32) -> Option<Model> {
        let (start, end, by) = match self {
            Region::One(cpu) => (cpu.value(last), cpu.value(last), None),
            Region::Range(start, end, by) => (start.value(last), end.value(last), *by),
            Region::All(_, by) => (0, last, *by),
        };
        let (used, of) = by.unwrap_or((1, 1));
        let is_refused = start > end || end > last || of == 0 || used > of;
        (!is_refused).then(|| (start..=end).filter(|cpu| (cpu - start) % of < used).collect())
    }

    fn has_stride(&self) -> bool {
        matches!(self, Region::Range(_, _, Some(_)) | Region::All(_, Some(_)))
    }
}

fn region() -> impl Strategy<Value = Region> {
    let number = || prop_oneof![6 => (0u32..36).prop_map(Number::Digits), 1 => Just(Number::Last)];
    let stride = || prop::option::weighted(0.3, (0u32..5, 0u32..6));
    // Mostly ranges that run forwards, for one bad region spoils the list.
    let forwards = (0u32..24, 0u32..8, stride())
        .prop_map(|(start, more, by)| Region::Range(Number::Digits(start), Number::Digits(start + more), by));
    let all = prop_oneof![Just("all"), Just("ALL"), Just("All")];
    prop_oneof![
        4 => number().prop_map(Region::One),
        4 => forwards,
        1 => (number(), number(), stride()).prop_map(|(start, end, by)| Region::Range(start, end, by)),
        1 => (all, stride()).prop_map(|(word, by)| Region::All(word, by)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_boot_list_is_read_as_the_model_reads_it(
        regions in prop::collection::vec((region(), "[,]|[, \t]{1,3}"), 0..5),
        leading in "[, ]{0,2}",
        last in prop_oneof![Just(31u32), Just(35), 0u32..40],
        tail in "|\n|\n.{0,8}",
    ) {
        let mut text = leading;
        let mut want = Some(Model::new());
        for (index, (region, separator)) in regions.iter().enumerate() {
            if index > 0 {
                text.push_str(separator);
            }
            text.push_str(&region.text());
            want = want.zip(region.cpus(last)).map(|(all, more)| &all | &more);
        }
        // What follows a newline is not read, unless a stride stands before it.
        if regions.last().is_some_and(|(region, _)| !region.has_stride()) {
            text.push_str(&tail);
        }
        let read = CpuSet::parse_boot_list(&text, BootGrammar::newest(Some(last)));
        prop_assert_eq!(read.as_ref().ok().map(model), want, "{:?} up to {}: {:?}", text, last, read);
    }

    #[test]
    fn words_are_refused_by_kernels_that_do_not_know_them(region in region(), last in 36u32..64) {
        let read = |minor| CpuSet::parse_boot_list(&region.text(), BootGrammar::of_version((5, minor), Some(last)));
        let text = region.text();
        let model = region.cpus(last);
        prop_assert_eq!(read(14).ok().map(|set| set.iter().collect()), model.clone(), "{}", text);
        // `all` came with 5.14 and N with 5.13; strides were there.
        let is_known = |minor: u32| (minor >= 14 || !text.to_lowercase().contains("all")) && (minor >= 13 || !text.contains('N'));
        for minor in [13, 12] {
            let want = model.clone().filter(|_| is_known(minor));
            prop_assert_eq!(read(minor).ok().map(|set| set.iter().collect()), want, "{} on 5.{}", text, minor);
        }
    }
}

// ---- any text ----------------------------------------------------------------------------------------------------

/// Any text, and text that looks like what is wanted.
fn text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just("0-"),
        Just("31"),
        Just(","),
        Just(":1/0"),
        Just("N"),
        Just("all"),
        Just("(null)"),
        Just("99999999999999999999"),
        Just(" "),
        Just("\n"),
        Just("\0"),
        Just("\""),
        Just("="),
        Just("isolcpus="),
        Just("domain,"),
        Just("--"),
        Just("ff"),
        Just("GiB"),
        Just("us"),
        Just("µs"),
        Just("."),
        Just("é"),
    ];
    prop_oneof![
        ".{0,60}",
        any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        prop::collection::vec(pieces, 0..16).prop_map(|pieces| pieces.concat()),
    ]
}

/// Lines of a plan or rule in any order, some of them broken.
fn toml() -> impl Strategy<Value = String> {
    let lines = prop_oneof![
        Just("schema = 1"),
        Just("title = \"t\""),
        Just("level = \"required\""),
        Just("why = \"w\""),
        Just("source = [\"s\"]"),
        Just("when = \"plan.realtime\""),
        Just("[fix]"),
        Just("boot = \"{plan.hot\""),
        Just("boot = \"{é}\""),
        Just("[[assert]]"),
        Just("[[any]]"),
        Just("that = \"plan.hot\""),
        Just("that = \"cpu.governor[plan.hot - (cpu.online)]\""),
        Just("that = \"((\""),
        Just("within = \"cpu.isolated | é\""),
        Just("is = \"x\""),
        Just("is = 99999999999999999999"),
        Just("one-of = [1, \"é\", []]"),
        Just("at-least = \"1 GiB\""),
        Just("at-most = 1.5"),
        Just("absent = \"empty\""),
        Just("else = \"{{}} {offending} }\""),
        Just("[hot]"),
        Just("[cold]"),
        Just("a = 1"),
        Just("b = \"2-5,é\""),
        Just("b = \"\\u0000\""),
        Just("idle = \"3-1\""),
        Just("housekeeping = \"0-65536\""),
        Just("locked-memory = \"1é\""),
        Just("max-wakeup-latency = \"1µs\""),
        Just("nic = \"\""),
        Just("require = [\"x\"]"),
        Just("realtime = 1979-05-27"),
        Just("= ["),
        Just("\"\"\""),
        Just("\r"),
    ];
    prop_oneof![
        2 => prop::collection::vec(lines, 0..20).prop_map(|lines| lines.join("\n")),
        1 => text(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_text_breaks_a_parser(text in text(), last in prop::option::of(0u32..70_000)) {
        let _ = CpuSet::parse_list(&text);
        let _ = CpuSet::parse_mask(&text);
        for version in [(3, 10), (5, 4), (5, 13), (6, 12)] {
            let grammar = BootGrammar::of_version(version, last);
            if let Ok(set) = CpuSet::parse_boot_list(&text, grammar) {
                let beyond = set.last().zip(last).is_some_and(|(cpu, last)| cpu > last);
                prop_assert!(!beyond, "{:?} up to {:?} is {}", text, last, set);
            }
            let _ = IsolCpus::parse(&text, grammar);
        }
        let _ = (text.parse::<Bytes>(), text.parse::<Micros>());
        let _ = Release::parse(&text);
        if let Ok(line) = BootLine::parse(&text) {
            let _ = (line.all("isolcpus").count(), line.integer("cpuidle.off").is_some(), line.may_be_cut());
        }
    }

    #[test]
    fn no_text_breaks_a_plan(text in toml()) {
        if let Err(problems) = Plan::parse("plan.toml", &text) {
            prop_assert!(!problems.problems.is_empty());
            prop_assert!(problems.render(false).contains("plan.toml:"));
            let _ = problems.render(true);
        }
    }

    #[test]
    fn no_text_breaks_a_rule(text in toml()) {
        match rule::parse("r.toml", "r", &text, None) {
            Ok(rule) => prop_assert!(!rule.assert.is_empty() || rule.any.len() > 1),
            Err(problems) => {
                prop_assert!(!problems.problems.is_empty());
                prop_assert!(problems.render(false).contains("r.toml:"));
                let _ = problems.render(true);
            }
        }
    }

    #[test]
    fn the_last_parameter_on_a_boot_line_counts(
        values in prop::collection::vec("[0-9]{1,2}", 1..4),
        noise in prop::collection::vec("[a-z]{1,6}(=[a-z0-9]{0,4})?|a=\"b rcu_nocbs=1\"", 0..4),
        has_dash in any::<bool>(),
    ) {
        let name = if has_dash { "rcu-nocbs" } else { "rcu_nocbs" };
        let mut words = noise.clone();
        for value in &values {
            words.push(format!("{name}={value}"));
            words.extend(noise.first().cloned());
        }
        let line = BootLine::parse(&format!("{} -- {name}=99\n", words.join("  "))).unwrap();
        let found: Vec<&str> = line.all("rcu_nocbs").map(|param| param.value.as_deref().unwrap()).collect();
        prop_assert_eq!(found, values);
    }
}

// ---- verdicts when a file goes bad -------------------------------------------------------------------------------

/// What befalls a file.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Denied,
    Garbage,
    Removed,
}

const FATES: &[Fate] = &[Fate::Denied, Fate::Garbage, Fate::Removed];

impl Fate {
    fn befall(self, tree: &Tree, path: &str) -> Tree {
        match self {
            Fate::Denied => tree.clone().denied(&[path]),
            Fate::Garbage => tree.clone().with(path, "garbage? no: 2-5 of it\n"),
            Fate::Removed => tree.clone().without(path),
        }
    }
}

/// Hosts that pass, fail and leave open one thing or another.
fn hosts() -> Vec<Tree> {
    let realtime = || Tree::tuned().plan(common::REALTIME_PLAN).with(RT_RUNTIME, "-1\n");
    let governor = format!("{CPU}/cpu4/cpufreq/scaling_governor");
    let mut served = realtime().with(OSRELEASE, "6.12.0\n");
    for cpu in 0..common::CPUS {
        served = served.with(&format!("{FAIR_SERVER}/cpu{cpu}/runtime"), if cpu == 3 { "50000000\n" } else { "0\n" });
    }
    let group = "sys/fs/cgroup/system.slice/feed.service";
    // The files that rules of packs read, of a service whose slice has this quota.
    let in_a_unit = |tree: Tree, quota: &str| {
        let row = |name: &str| format!("{name:<26}unlimited            unlimited\n");
        let limits = row("Max locked memory") + &row("Max realtime priority") + &row("Max realtime timeout");
        tree.with("proc/self/cgroup", "0::/system.slice/feed.service\n")
            .with("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n")
            .with("sys/fs/cgroup/system.slice/cgroup.controllers", "cpuset cpu memory\n")
            .with("sys/fs/cgroup/system.slice/cpu.max", quota)
            .with("sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-15\n")
            .with(&format!("{group}/cgroup.controllers"), "cpuset cpu memory\n")
            .with(&format!("{group}/cpu.max"), "max 100000\n")
            .with(&format!("{group}/cpuset.cpus.effective"), "0-15\n")
            .with("boot/config-6.1.0", "CONFIG_SMP=y\n")
            .with("proc/sys/kernel/version", "#1 SMP PREEMPT_RT\n")
            .with("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
            .with("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet \n")
            .with(&format!("{CPU}/smt/active"), "0\n")
            .with(&format!("{CPU}/smt/control"), "off\n")
            .with(common::LIMITS, limits)
    };
    vec![
        Tree::tuned(),
        realtime(),
        in_a_unit(realtime(), "max 100000\n"),
        in_a_unit(realtime(), "50000 100000\n")
            .with(&format!("{group}/cpuset.cpus.effective"), "0-3\n")
            .with("boot/config-6.1.0", "CONFIG_RT_GROUP_SCHED=y\n")
            .with(RT_RUNTIME, "950000\n")
            .with("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n")
            .with("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")
            .smt()
            .with(&format!("{CPU}/smt/active"), "1\n")
            .limit("unlimited", "unlimited"),
        served,
        Tree::tuned().smt().limit("8388608", "unlimited").with("proc/self/status", "CapEff:\t0000000000000000\n"),
        Tree::tuned()
            .smt()
            .deep()
            .boot("isolcpus=2-3 quiet")
            .with(ISOLATED, "2-3\n")
            .with(NOHZ_FULL, " (null)\n")
            .with(DEFAULT_MASK, "ffff\n")
            .with(RT_RUNTIME, "950000\n")
            .plan(common::REALTIME_PLAN)
            .line(30, "eth1", "0-15", "0")
            .line(40, "nvme0q1", "0-5", "3")
            .with("proc/903/comm", "irqbalance\n")
            .with("proc/903/environ", "IRQBALANCE_BANNED_CPULIST=2-3\0")
            .with(&governor, "powersave\n")
            .thp("[always] madvise never\n")
            .limit("8388608", "8388608"),
        Tree::tuned()
            .with(ISOLATED, "\n")
            .with("sys/fs/cgroup/hot/cpuset.cpus.partition", "isolated invalid (Parent is not a partition root)\n")
            .with("sys/fs/cgroup/hot/cpuset.cpus.effective", "2-5\n")
            .with("sys/fs/cgroup/warm/cpuset.cpus.partition", "isolated\n")
            .with("sys/fs/cgroup/warm/cpuset.cpus.effective", "2\n")
            .with("sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", "[always] never\n")
            .with("sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "always [inherit] never\n"),
        Tree::tuned()
            .with(ISOLATED, "\n")
            .with("sys/fs/cgroup/cpuset/cpuset.sched_load_balance", "0\n")
            .with("sys/fs/cgroup/cpuset/cpuset.cpus", "0-15\n")
            .with("sys/fs/cgroup/cpuset/all/cpuset.sched_load_balance", "1\n")
            .with("sys/fs/cgroup/cpuset/all/cpuset.cpus", "0-15\n")
            .with("proc/903/comm", "irqbalance\n")
            .with("proc/903/environ", "PATH=/bin\0")
            .with(NOHZ_FULL, "2-3\n")
            .without("proc/irq/24/eth0")
            .without(&format!("{CPU}/cpu4/cpufreq")),
        Tree::tuned()
            .offline(&[4])
            .with(DEFAULT_MASK, "ffff\n")
            .plan("idle = \"12\"\nnic = \"eth0\"\n[hot]\nw = \"2-5\"\n"),
    ]
}

/// A host on disk, with what is said of it and which of its files may go bad.
struct Subject {
    tree: Tree,
    laid: Laid,
    report: Report,
    files: Vec<String>,
}

impl Subject {
    fn new(tree: Tree) -> Self {
        let laid = tree.lay();
        let report = audit_dir(&laid.root, &tree.parsed_plan(), builtin());
        // A handler's folder is no file, and what befalls a cold CPU concerns nobody.
        let cold = |path: &String| {
            let of_cpu = path.strip_prefix(CPU).and_then(|rest| rest.strip_prefix("/cpu")).unwrap_or_default();
            let cpu = of_cpu.split('/').next().and_then(|cpu| cpu.parse::<u32>().ok());
            cpu.is_some_and(|cpu| ![0, 2, 3, 4, 5, 12].contains(&cpu))
        };
        let files = tree.files.keys().filter(|path| !path.ends_with("/.keep") && !cold(path)).cloned().collect();
        Self { tree, laid, report, files }
    }

    fn after(&mut self, path: &str, fate: Fate) -> Report {
        let spoiled = fate.befall(&self.tree, path);
        self.laid.lay(&spoiled);
        let report = audit_dir(&self.laid.root, &spoiled.parsed_plan(), builtin());
        self.laid.lay(&self.tree);
        report
    }
}

thread_local! {
    static SUBJECTS: RefCell<Vec<Subject>> = RefCell::new(hosts().into_iter().map(Subject::new).collect());
}

/// The files that a rule's verdict may depend on, `*` for a part that varies.
fn patterns(rule: &Rule) -> Vec<&'static str> {
    let mut facts = rule.facts();
    facts.extend(rule.when.as_ref().map(|when| when.fact));
    facts.iter().flat_map(|fact| fact.files).copied().collect()
}

fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((before, after)) => path.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(after, &rest[at..]))
        }),
    }
}

#[test]
fn the_row_of_housekeeping_online_names_what_it_reads() {
    let files = quietcore::fact::find("topology.housekeeping_online").unwrap().files;
    assert!(files.iter().any(|file| matches(file, common::POSSIBLE)), "{files:?}");
    let siblings = format!("{CPU}/cpu2/topology/thread_siblings_list");
    assert!(files.iter().any(|file| matches(file, &siblings)), "{files:?}");
}

/// What must not follow from a file that went bad.
fn wrongs(before: &Report, after: &Report, path: &str, fate: Fate) -> Vec<String> {
    let mut wrongs = Vec::new();
    // A process that ended or has another name, and a size that anonymous memory cannot have, are another host.
    let is_comm = path.starts_with("proc/") && path.ends_with("/comm");
    let is_size = path.contains("/hugepages-");
    let is_another_host = match fate {
        Fate::Denied => false,
        Fate::Garbage => is_comm,
        Fate::Removed => is_comm || is_size,
    };
    for rule in builtin().iter() {
        let (was, is) = (finding(before, &rule.id), finding(after, &rule.id));
        let mut wrong = |what: &str| {
            let message = &is.evidence().message;
            wrongs.push(format!("{path} {fate:?}: {} {what}: {} to {}: {message}", rule.id, gist(was), gist(is)));
        };
        // Any text is a boot line, and one that asks for nothing asks for nothing in vain.
        let is_another_line = path == CMDLINE && matches!(fate, Fate::Garbage) && rule.pack == Some("boot");
        if was.verdict() != Verdict::Pass && is.verdict() == Verdict::Pass && !is_another_host && !is_another_line {
            wrong("turned into a pass");
        }
        let read: BTreeMap<&str, &str> = was
            .evidence()
            .sources
            .iter()
            .filter_map(|source| source.text.as_deref().map(|text| (source.path.as_str(), text)))
            .collect();
        let is_sole = read.len() == 1 && read.contains_key(path);
        if is_sole && is.verdict() == Verdict::Pass {
            wrong("passes without its only evidence");
        }
        // Which CPUs are online decides what every rule judges.
        let is_online = path.ends_with("/online");
        if !is_online && gist(was) != gist(is) && !patterns(rule).iter().any(|pattern| matches(pattern, path)) {
            wrong("depends on a file that none of its facts names");
        }
    }
    if before.findings.len() != after.findings.len() {
        wrongs.push(format!("{path} {fate:?}: findings went missing"));
    }
    wrongs
}

/// Files that alone carry a rule's verdict on the tuned host, with a plan that makes all rules apply.
fn sole_evidence() -> Vec<(&'static str, String)> {
    let mut sole: Vec<(&str, String)> = vec![
        ("isolated", ISOLATED.to_owned()),
        ("nohz_full", NOHZ_FULL.to_owned()),
        ("nohz_full", CMDLINE.to_owned()),
        ("irq_affinity", DEFAULT_MASK.to_owned()),
        ("irq_affinity", "proc/irq/24/smp_affinity_list".to_owned()),
        ("thp", format!("{}/enabled", common::THP)),
        ("thp", format!("{}/defrag", common::THP)),
        ("memlock", common::LIMITS.to_owned()),
        ("rt_throttle", RT_RUNTIME.to_owned()),
        ("plan_topology", common::PRESENT.to_owned()),
    ];
    for cpu in 2..=5 {
        sole.push(("governor", format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor")));
        sole.push(("siblings", format!("{CPU}/cpu{cpu}/topology/thread_siblings_list")));
    }
    sole
}

#[test]
fn no_rule_passes_without_its_evidence() {
    let mut subject = Subject::new(Tree::tuned().plan(common::REALTIME_PLAN).with(RT_RUNTIME, "-1\n"));
    let mut wrong = Vec::new();
    for (rule, path) in sole_evidence() {
        assert_eq!(gist(finding(&subject.report, rule)), "pass", "{rule}");
        for fate in FATES {
            let report = subject.after(&path, *fate);
            // Any text is a boot line.
            let is_line = path == CMDLINE && matches!(fate, Fate::Garbage);
            if !is_line && finding(&report, rule).verdict() == Verdict::Pass {
                wrong.push(format!("{rule} passes with {path} {fate:?}"));
            }
        }
    }
    for fate in [Fate::Denied, Fate::Removed] {
        let report = subject.after("proc/1/comm", fate);
        assert_eq!(finding(&report, "irqbalance").verdict(), Verdict::Unknown);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn a_file_that_goes_bad_makes_nothing_better(host in any::<Index>(), file in any::<Index>(), fate in prop::sample::select(FATES)) {
        SUBJECTS.with_borrow_mut(|subjects| {
            let subject = host.get_mut(subjects);
            let path = file.get(&subject.files).clone();
            let after = subject.after(&path, fate);
            let wrongs = wrongs(&subject.report, &after, &path, fate);
            prop_assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
            Ok(())
        })?;
    }
}

#[test]
#[ignore = "every file of every host, of which the property takes a sample: for changes of readers"]
fn no_file_that_goes_bad_makes_anything_better() {
    let mut all = Vec::new();
    for mut subject in hosts().into_iter().map(Subject::new) {
        for path in subject.files.clone() {
            for fate in FATES {
                let after = subject.after(&path, *fate);
                all.extend(wrongs(&subject.report, &after, &path, *fate));
            }
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
