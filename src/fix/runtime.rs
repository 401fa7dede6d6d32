//! A shell script of what can be done now, in the order in which it has to be done.
//!
//! CPUs go on and off line first: that makes drivers such as virtio set up their interrupt lines again, and lines whose
//! last CPU goes are moved by the kernel. irqbalance stops before lines are moved, so that it moves none back. The
//! throttle is lifted before the fair server is switched off: the kernel answers EBUSY in the other order.
//!
//! Sources: Documentation/core-api/cpu_hotplug.rst, core-api/irq/irq-affinity.rst, admin-guide/pm/cpuidle.rst,
//! admin-guide/cgroup-v2.rst (cpuset partitions), kernel/sched/debug.c of Linux 6.12.

use super::{Need, Situation, Text};
use crate::cpuset::CpuSet;
use crate::fact::{Member, Source, Value, cpuidle};
use crate::output::one_line;
use crate::reading::Reading;
use crate::topology::{self, Node};
use crate::units::Micros;

/// The rules that are answered here, in the order of the script.
const STEPS: &[(&str, Step)] = &[
    ("siblings", siblings),
    ("irqbalance", irqbalance),
    ("irq_affinity", irq_affinity),
    ("governor", governor),
    ("cstate", cstate),
    ("thp", thp),
    ("rt_throttle", rt_throttle),
    ("isolated", isolated),
    ("nohz_full", |_, _, text| text.below("not at run time: the tick is decided at boot, --as cmdline")),
    ("rcu_nocbs", |_, _, text| text.below("not at run time: callbacks are offloaded at boot, --as cmdline")),
    ("memlock", memlock),
];

type Step = fn(&Situation<'_>, Need<'_>, &mut Text);

const HELPER: &str = r#"set -eu
[ "$(id -u)" -eq 0 ] || { echo "needs root" >&2; exit 1; }
failed=0
# Writes a value to a file; one that the kernel refuses is told, and the script goes on.
put() {
  printf '%s\n' "$1" > "$2" || { echo "failed: $1 > $2" >&2; failed=1; }
}"#;

const CPU: &str = "/sys/devices/system/cpu";

/// From this version on the fair server takes the time that the sysctl took before.
const FAIR_SERVER_SINCE: (u32, u32) = (6, 12);

/// cgroup v2 knows partitions of type `isolated` from this version on.
const PARTITION_SINCE: (u32, u32) = (6, 1);

pub(super) fn print(situation: &Situation<'_>) -> String {
    let mut text = Text::default();
    text.line("#!/bin/sh");
    situation.head(&mut text, "What can be done now,");
    text.comment("It lasts until the next reboot, unless a line says less.");
    text.line(HELPER);
    wake_hot(situation, &mut text);
    for (id, step) in STEPS {
        if let Some(need) = situation.need(id) {
            text.blank();
            text.comment(&need.headline());
            step(situation, need, &mut text);
        }
    }
    situation.own_texts(&mut text, |remedy| &remedy.runtime);
    text.blank();
    text.line("exit \"$failed\"");
    text.done()
}

/// Are there commands in the script that would have to run again after a reboot?
pub(super) fn is_of_use_at_boot(situation: &Situation<'_>) -> bool {
    let lasting = ["siblings", "irq_affinity", "governor", "cstate", "thp", "rt_throttle", "isolated"];
    lasting.iter().any(|id| situation.need(id).is_some())
}

fn put(text: &mut Text, value: &str, path: &str, remark: &str) {
    let remark = if remark.is_empty() { String::new() } else { format!("  # {}", one_line(remark)) };
    text.line(&format!("put {value} {path}{remark}"));
}

/// A hot CPU that is offline cannot be isolated, nor anything else.
fn wake_hot(situation: &Situation<'_>, text: &mut Text) {
    let asleep = asleep(situation);
    if asleep.is_empty() {
        return;
    }
    text.blank();
    text.comment(&format!("isolated: the hot CPUs {asleep} are offline"));
    for cpu in asleep.iter() {
        put(text, "1", &format!("{CPU}/cpu{cpu}/online"), "");
    }
}

fn asleep(situation: &Situation<'_>) -> CpuSet {
    match (&situation.online, situation.need("isolated")) {
        (Some(online), Some(_)) => &situation.hot - online,
        _ => CpuSet::new(),
    }
}

fn siblings(situation: &Situation<'_>, need: Need<'_>, text: &mut Text) {
    let mut cpus = if need.is_unknown() { situation.idle.clone() } else { need.offending() & &situation.idle };
    if cpus.contains(0) {
        text.below("CPU 0 cannot be taken offline on most hosts: isolate it, or plan another core");
        cpus = &cpus - &CpuSet::from_range(0..=0);
    }
    if cpus.is_empty() {
        text.below("no sibling that could go offline is known: name them in the plan (idle)");
    }
    for cpu in cpus.iter() {
        put(text, "0", &format!("{CPU}/cpu{cpu}/online"), "");
    }
}

fn irqbalance(situation: &Situation<'_>, need: Need<'_>, text: &mut Text) {
    text.below("lasts: systemctl disable irqbalance, or a ban (--as systemd, --as tuned)");
    text.line("if command -v systemctl > /dev/null && systemctl is-active --quiet irqbalance; then");
    text.line("  systemctl stop irqbalance || failed=1");
    // Where it could not be seen it need not be there.
    if !need.is_unknown() {
        text.line("else");
        text.line(&format!("  echo \"stop irqbalance, or ban CPUs {} from it\" >&2", situation.hot));
        text.line("  failed=1");
    }
    text.line("fi");
}

fn irq_affinity(situation: &Situation<'_>, need: Need<'_>, text: &mut Text) {
    let home = match &situation.online {
        Some(online) => &situation.housekeeping & online,
        None => situation.housekeeping.clone(),
    };
    if home.is_empty() {
        text.below("no housekeeping CPU is known that could take the lines");
        return;
    }
    text.below(
        "until a driver sets its lines up again: its interface goes down and up, a virtio device sees a CPU come or go",
    );
    let last = situation.possible.as_ref().and_then(CpuSet::last).unwrap_or_default();
    let mask = situation.housekeeping.to_mask(last);
    let list = situation.housekeeping.to_string();
    put(text, &mask, "/proc/irq/default_smp_affinity", &format!("CPUs {list}, for lines that are set up next"));
    let nodes = topology::online(situation.host.root).and_then(|online| topology::nodes(situation.host.root, &online));
    let nodes = nodes.value().map(Vec::as_slice).unwrap_or_default();
    // Where CPUs come and go above, drivers may reset lines that are right now.
    let is_reset = situation.need("siblings").is_some() && !situation.idle.is_empty() || !asleep(situation).is_empty();
    let family = situation.host.lines();
    let mut stuck = Vec::new();
    for (member, observation) in family.members.value().map(Vec::as_slice).unwrap_or_default() {
        let Member::Line { irq, handlers, can_be_moved } = member else { continue };
        let mask = match &observation.reading {
            Reading::Value(Value::Cpus(mask)) => mask.clone(),
            _ => CpuSet::new(),
        };
        let is_wrong = !mask.is_disjoint(&situation.hot) || observation.reading.value().is_none();
        if !can_be_moved {
            if is_wrong {
                stuck.push(member.to_string());
            }
        } else if is_wrong || is_reset {
            let target = target(&mask, &home, nodes);
            let remark = if target == mask { format!("{handlers}: as it is, once more") } else { handlers.clone() };
            put(text, &target.to_string(), &format!("/proc/irq/{irq}/smp_affinity_list"), &remark);
        }
    }
    if !stuck.is_empty() {
        let stuck = stuck.join(", ");
        text.below(&format!("not at run time: {stuck} cannot be moved; isolcpus=managed_irq,domain (--as cmdline)"));
    }
    if need.finding.evidence().offending.lines.is_empty() && family.members.value().is_none() {
        text.below("the lines cannot be seen: look at /proc/irq");
    }
}

/// Where a line goes: what it has of housekeeping CPUs, else those of its nodes, else all of them.
fn target(mask: &CpuSet, home: &CpuSet, nodes: &[Node]) -> CpuSet {
    let kept = mask & home;
    if !kept.is_empty() {
        return kept;
    }
    let near = nodes.iter().filter(|node| !node.cpus.is_disjoint(mask));
    let near = near.fold(CpuSet::new(), |near, node| &near | &(&node.cpus & home));
    if near.is_empty() { home.clone() } else { near }
}

/// The hot CPUs that a rule is about: those that broke it, or all of them where that is not known.
fn concerned(situation: &Situation<'_>, need: Need<'_>) -> CpuSet {
    let broken = need.offending() & &situation.hot;
    if broken.is_empty() { situation.hot.clone() } else { broken }
}

fn governor(situation: &Situation<'_>, need: Need<'_>, text: &mut Text) {
    let is_there = |cpu: &u32| {
        let governor = crate::fact::find("cpu.governor").and_then(|fact| fact.observe_at(situation.host, *cpu));
        governor.is_some_and(|governor| governor.reading != Reading::NotExposed)
    };
    let concerned = concerned(situation, need);
    let cpus: Vec<u32> = concerned.iter().filter(is_there).collect();
    if cpus.is_empty() {
        text.below("not here: no governor is shown (a virtual machine has its host's)");
    }
    for cpu in cpus {
        put(text, "performance", &format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"), "");
    }
}

fn cstate(situation: &Situation<'_>, _: Need<'_>, text: &mut Text) {
    let limit = match situation.observe("plan.max_wakeup_latency").map(|limit| limit.reading.clone()) {
        Some(Reading::Value(Value::Micros(limit))) => limit,
        _ => Micros(0),
    };
    let mut is_any_shown = false;
    for cpu in situation.hot.iter() {
        let states = cpuidle::states_of(situation.host, cpu);
        for state in states.value().map(Vec::as_slice).unwrap_or_default() {
            is_any_shown = true;
            // What cannot be told is switched off: that does no harm.
            let is_too_deep = state.latency.value().is_none_or(|latency| *latency > limit.0);
            if is_too_deep && state.enabled != Reading::Value(false) {
                let latency = state.latency.value().map_or_else(|| "unknown".to_owned(), |us| Micros(*us).to_string());
                let path = format!("/{}/disable", state.folder);
                put(text, "1", &path, &format!("{} {latency}, beyond {limit}", state.name));
            }
        }
    }
    if is_any_shown {
        text.below("or, as long as a process holds it open: /dev/cpu_dma_latency with the 32-bit 0 written to it");
    } else {
        text.below(
            "no idle state is shown that could be disabled, and without a driver no request is heeded: --as cmdline",
        );
    }
}

fn thp(situation: &Situation<'_>, _: Need<'_>, text: &mut Text) {
    let folder = "sys/kernel/mm/transparent_hugepage";
    let is_right = |word: Option<String>| word.is_some_and(|word| matches!(word.as_str(), "madvise" | "never"));
    if !is_right(situation.word("thp.enabled")) {
        let observation = situation.observe("thp.enabled");
        let sources = observation.as_ref().map(|enabled| enabled.sources.as_slice()).unwrap_or_default();
        put(text, "madvise", &format!("/{folder}/enabled"), "");
        // A size that says always does so whatever the top level says.
        for size in sources.iter().filter_map(size_that_is_always) {
            put(text, "inherit", &format!("/{folder}/{size}/enabled"), "");
        }
    }
    if situation.word("thp.defrag").is_none_or(|defrag| defrag == "always") {
        put(text, "madvise", &format!("/{folder}/defrag"), "");
    }
    text.below("lasts: --as cmdline or --as tuned for enabled, --as tuned or systemd for defrag");
}

/// The folder of a size whose own switch is `always`: a name of the kernel's, or nothing.
fn size_that_is_always(source: &Source) -> Option<&str> {
    let size = source.path.strip_prefix("sys/kernel/mm/transparent_hugepage/")?.strip_suffix("/enabled")?;
    let kilobytes = size.strip_prefix("hugepages-")?.strip_suffix("kB")?;
    let is_always = source.text.as_ref().is_some_and(|text| text.contains("[always]"));
    (is_always && kilobytes.bytes().all(|b| b.is_ascii_digit())).then_some(size)
}

fn rt_throttle(situation: &Situation<'_>, _: Need<'_>, text: &mut Text) {
    text.below("in this order; a hot thread that spins then starves all else on its CPU");
    put(text, "-1", "/proc/sys/kernel/sched_rt_runtime_us", "");
    if situation.version() < FAIR_SERVER_SINCE {
        return;
    }
    text.below("from 6.12 on the fair server takes the time (debugfs)");
    text.line("if [ -d /sys/kernel/debug/sched/fair_server ]; then");
    for cpu in situation.hot.iter() {
        text.line(&format!("  put 0 /sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"));
    }
    text.line("fi");
}

fn isolated(situation: &Situation<'_>, _: Need<'_>, text: &mut Text) {
    if situation.hot.is_empty() {
        text.below("no hot CPU of the plan is here");
        return;
    }
    if situation.version() < PARTITION_SINCE {
        text.below("not at run time: this kernel has no isolated partitions (6.1), --as cmdline");
        return;
    }
    if situation.hot.is_subset(&situation.shown("cpu.isolated")) {
        text.below("they are isolated once they are online: see above");
        return;
    }
    let hot = &situation.hot;
    text.below("a cgroup v2 partition; another group that claims one of its CPUs makes it invalid");
    text.below("start the process in it: echo PID > /sys/fs/cgroup/quietcore/cgroup.procs");
    text.line("group=/sys/fs/cgroup/quietcore");
    text.line("if [ -e /sys/fs/cgroup/cgroup.subtree_control ]; then");
    text.line("  put +cpuset /sys/fs/cgroup/cgroup.subtree_control");
    text.line("  mkdir -p \"$group\"");
    text.line(&format!("  put {hot} \"$group/cpuset.cpus\""));
    text.line("  put isolated \"$group/cpuset.cpus.partition\"");
    text.line("  kind=$(cat \"$group/cpuset.cpus.partition\")");
    text.line("  [ \"$kind\" = isolated ] || { echo \"failed: the partition is $kind\" >&2; failed=1; }");
    text.line("else");
    text.line("  echo \"no cgroup v2 at /sys/fs/cgroup: isolate at boot\" >&2");
    text.line("  failed=1");
    text.line("fi");
}

fn memlock(situation: &Situation<'_>, _: Need<'_>, text: &mut Text) {
    let limit = situation.plan().locked_memory.map_or_else(String::new, |bytes| format!(" --memlock={}", bytes.0));
    text.below("not of the host: the limit is the process's own. In the shell that starts it: ulimit -l unlimited");
    text.below(&format!("of one that runs: prlimit --pid PID{limit}; lasting: --as systemd"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    #[test]
    fn a_line_stays_near_where_it_was() {
        let nodes = [Node { id: 0, cpus: set("0-3") }, Node { id: 1, cpus: set("4-7") }];
        let target = |mask: &str| super::target(&set(mask), &set("0-1,4-5"), &nodes).to_string();
        assert_eq!(target("0-7"), "0-1,4-5");
        assert_eq!(target("5-6"), "5");
        assert_eq!(target("6"), "4-5");
        assert_eq!(target("2"), "0-1");
        assert_eq!(target(""), "0-1,4-5");
    }

    #[test]
    fn sizes_of_huge_pages_are_names_of_the_kernel() {
        let size = |path: &str, text: &str| {
            let source = Source::summary(&format!("sys/kernel/mm/transparent_hugepage/{path}"), text.to_owned());
            size_that_is_always(&source).map(str::to_owned)
        };
        assert_eq!(
            size("hugepages-2048kB/enabled", "[always] inherit madvise never").as_deref(),
            Some("hugepages-2048kB")
        );
        assert_eq!(size("hugepages-2048kB/enabled", "always [inherit] madvise never"), None);
        assert_eq!(size("enabled", "[always] madvise never"), None);
        assert_eq!(size("hugepages-$(reboot)kB/enabled", "[always]"), None);
    }
}
