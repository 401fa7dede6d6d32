//! The boot line: what to add, change and remove, and the whole line that comes of it.
//!
//! Sources: Documentation/admin-guide/kernel-parameters.txt, kernel/sched/isolation.c and kernel/rcu/tree_nocb.h of Linux
//! 4.15 to 6.18.

use super::{Situation, Text};
use crate::cpuset::CpuSet;
use crate::fact::Member;
use crate::fact::cmdline::Param;
use crate::output::one_line;
use crate::reading::Reading;

/// `isolcpus=` knows the flag `managed_irq` from this version on. Before it, an unknown flag voids the parameter.
const MANAGED_IRQ_SINCE: (u32, u32) = (5, 6);

/// From 4.15 to before this version `isolcpus=` and `nohz_full=` share one mask: with another list the second is refused.
const OWN_MASKS_SINCE: (u32, u32) = (5, 18);

/// `cpufreq.default_governor=` is there from this version on.
const DEFAULT_GOVERNOR_SINCE: (u32, u32) = (5, 9);

/// The boot CPU: the kernel takes it out of `nohz_full=` and puts it into `irqaffinity=`.
const BOOT_CPU: u32 = 0;

/// The longest line that every common architecture takes (`COMMAND_LINE_SIZE` less the NUL).
const MAX_LENGTH: usize = 2047;

/// What the boot line should say.
#[derive(Default)]
pub(super) struct Wanted {
    /// Parameters in the order in which they are added.
    set: Vec<Setting>,
    /// Names of parameters to be taken off the line, and for which rule.
    unset: Vec<(&'static str, &'static str)>,
    /// What a rule has to hear beside that.
    cautions: Vec<(&'static str, String)>,
}

struct Setting {
    name: &'static str,
    value: String,
    rules: Vec<&'static str>,
}

impl Wanted {
    fn set(&mut self, name: &'static str, value: impl Into<String>, rules: &[&'static str]) {
        self.set.push(Setting { name, value: value.into(), rules: rules.to_vec() });
    }

    fn caution(&mut self, rule: &'static str, text: impl Into<String>) {
        self.cautions.push((rule, text.into()));
    }

    fn setting(&self, param: &Param) -> Option<&Setting> {
        self.set.iter().find(|setting| param.is(setting.name))
    }

    fn is_unset(&self, param: &Param) -> bool {
        self.unset.iter().any(|(name, _)| param.is(name))
    }

    /// The rules that parameters answer.
    pub(super) fn answers(&self) -> Vec<&'static str> {
        let mut rules: Vec<&'static str> = Vec::new();
        for rule in self.set.iter().flat_map(|setting| &setting.rules) {
            if !rules.contains(rule) {
                rules.push(rule);
            }
        }
        rules
    }

    /// The parameters as they stand on a line.
    pub(super) fn parameters(&self) -> String {
        self.set.iter().map(Setting::to_string).collect::<Vec<_>>().join(" ")
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

/// What the failures want of the boot line.
pub(super) fn wanted(situation: &Situation<'_>) -> Wanted {
    let mut wanted = Wanted::default();
    isolation(situation, &mut wanted);
    if situation.need("rcu_nocbs").is_some() && !situation.hot.is_empty() {
        wanted.set("rcu_nocbs", situation.hot.to_string(), &["rcu_nocbs"]);
    }
    if situation.need("irq_affinity").is_some() {
        if situation.housekeeping.is_empty() {
            wanted.caution("irq_affinity", "no housekeeping CPU is known that irqaffinity= could name");
        } else {
            wanted.set("irqaffinity", situation.housekeeping.to_string(), &["irq_affinity"]);
            // Seen on 6.1: virtio_net spreads its lines over all CPUs whatever the default mask says.
            let spread = "drivers that place their lines themselves (virtio, many network cards) heed it not: --as runtime, at \
                          each boot by --as systemd";
            wanted.caution("irq_affinity", spread);
        }
        if situation.hot.contains(BOOT_CPU) {
            wanted.caution("irq_affinity", "CPU 0 is hot: the kernel adds it to irqaffinity= whatever it says");
        }
    }
    if situation.need("cstate").is_some() {
        wanted.set("intel_idle.max_cstate", "1", &["cstate"]);
        wanted.set("processor.max_cstate", "1", &["cstate"]);
        wanted.caution("cstate", "x86: the one caps intel_idle, the other acpi_idle, whichever driver comes");
    }
    if situation.need("thp").is_some() {
        match situation.word("thp.enabled").as_deref() {
            // It is how a fault makes a huge page that is wrong, and that has no parameter.
            Some("madvise") => wanted.caution("thp", "transparent_hugepage/defrag has no boot parameter: --as runtime"),
            _ => wanted.set("transparent_hugepage", "madvise", &["thp"]),
        }
    }
    if situation.need("governor").is_some() {
        if situation.version() >= DEFAULT_GOVERNOR_SINCE {
            wanted.set("cpufreq.default_governor", "performance", &["governor"]);
        } else {
            wanted.caution("governor", "this kernel has no boot parameter for it: --as runtime, --as tuned");
        }
    }
    wanted
}

/// `isolcpus=` and `nohz_full=`, which may depend on each other.
fn isolation(situation: &Situation<'_>, wanted: &mut Wanted) {
    let hot = &situation.hot;
    if hot.is_empty() {
        return;
    }
    let mut isolate: Vec<&'static str> = Vec::new();
    if situation.need("isolated").is_some() && !hot.is_subset(&situation.shown("cpu.isolated")) {
        isolate.push("isolated");
    }
    if situation.need("siblings").is_some() && !situation.idle.is_empty() {
        isolate.push("siblings");
        wanted.caution("siblings", "or nosmt, which takes the second thread of every core of the host");
    }
    if situation.need("irq_affinity").is_some() && has_managed_offender(situation) {
        isolate.push("irq_affinity");
    }
    let mask = situation.shown("cpu.nohz_full");
    let mut tickless: Vec<&'static str> = Vec::new();
    if situation.need("nohz_full").is_some() {
        if !hot.is_subset(&mask) {
            tickless.push("nohz_full");
        }
        if situation.word("cmdline.nohz").as_deref() == Some("off") {
            wanted.unset.push(("nohz", "nohz_full"));
        }
    }
    // An isolcpus= that is replaced takes with it the tick that its flag had stopped.
    let stops_tick = |param: &Param| param.value.as_deref().is_some_and(|v| v.split(',').any(|flag| flag == "nohz"));
    let old = |name| situation.boot_line().into_iter().flat_map(move |line| line.all(name));
    if !isolate.is_empty() && tickless.is_empty() && old("isolcpus").any(stops_tick) {
        tickless.push("nohz_full");
    }
    let share_a_mask = situation.version() < OWN_MASKS_SINCE && situation.version() >= (4, 15);
    if share_a_mask {
        let has = |name| old(name).next().is_some();
        if !tickless.is_empty() && isolate.is_empty() && has("isolcpus") {
            isolate.push("nohz_full");
        }
        if !isolate.is_empty() && tickless.is_empty() && has("nohz_full") {
            tickless.extend(isolate.first());
        }
    }

    let siblings = if situation.is_waived("siblings") { CpuSet::new() } else { situation.idle.clone() };
    let isolated = hot | &siblings;
    if !isolate.is_empty() {
        let flags = if situation.version() >= MANAGED_IRQ_SINCE { "managed_irq,domain," } else { "" };
        wanted.set("isolcpus", format!("{flags}{isolated}"), &isolate);
        if situation.possible.as_ref().is_some_and(|possible| possible.is_subset(&isolated)) {
            wanted.caution("isolated", "no CPU is left for housekeeping: the kernel refuses such a list");
        }
    }
    if !tickless.is_empty() {
        let cpus = if share_a_mask && !isolate.is_empty() { &isolated } else { hot };
        let cpus = cpus - &CpuSet::from_range(BOOT_CPU..=BOOT_CPU);
        if !cpus.is_empty() {
            wanted.set("nohz_full", cpus.to_string(), &tickless);
        }
        if hot.contains(BOOT_CPU) {
            wanted.caution("nohz_full", "CPU 0 is hot and boots: the kernel never stops its tick, plan another one");
        }
        if situation.observe("cpu.nohz_full").is_some_and(|mask| mask.reading == Reading::NotExposed) {
            let text = "this kernel shows no nohz_full file: it was built without CONFIG_NO_HZ_FULL and ignores the \
                        parameter; boot another kernel with it";
            wanted.caution("nohz_full", text);
        }
    }
}

/// Is a line that cannot be moved among those that fire on hot CPUs?
fn has_managed_offender(situation: &Situation<'_>) -> bool {
    let Some(need) = situation.need("irq_affinity") else { return false };
    let offending = &need.finding.evidence().offending.lines;
    let family = situation.host.lines();
    family.members.value().is_some_and(|members| {
        members.iter().any(
            |(member, _)| matches!(member, Member::Line { irq, can_be_moved: false, .. } if offending.contains(irq)),
        )
    })
}

/// What becomes of a parameter that is on the line, or is to be.
enum Edit {
    Add(String),
    Change(String, String),
    Remove(String),
    Keep(String),
}

impl Edit {
    fn text(&self) -> String {
        match self {
            Edit::Add(new) => format!("add {new}"),
            Edit::Change(old, new) => format!("change {old} to {new}"),
            Edit::Remove(old) => format!("remove {old}"),
            Edit::Keep(old) => {
                format!("{old} is on the running line already and not in force: the kernel's log says why")
            }
        }
    }
}

/// The running line with the wanted parameters in it, and what became of each. A parameter takes the place of its first
/// occurrence; further ones go, whether the kernel would take the first or the last.
fn merged(situation: &Situation<'_>, wanted: &Wanted) -> (String, Vec<(Vec<&'static str>, Edit)>) {
    let mut edits: Vec<(Vec<&'static str>, Edit)> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut placed: Vec<&'static str> = Vec::new();
    for param in situation.boot_line().map(crate::fact::cmdline::BootLine::params).unwrap_or_default() {
        let old = one_line(&param.written);
        let Some(setting) = wanted.setting(param) else {
            if wanted.is_unset(param) {
                let rules = wanted.unset.iter().filter(|(name, _)| param.is(name)).map(|(_, rule)| *rule).collect();
                edits.push((rules, Edit::Remove(old)));
            } else {
                words.push(old);
            }
            continue;
        };
        if placed.contains(&setting.name) {
            edits.push((setting.rules.clone(), Edit::Remove(old)));
            continue;
        }
        placed.push(setting.name);
        let is_same = param.value.as_deref() == Some(setting.value.as_str());
        let edit = if is_same { Edit::Keep(old) } else { Edit::Change(old, setting.to_string()) };
        edits.push((setting.rules.clone(), edit));
        words.push(setting.to_string());
    }
    for setting in wanted.set.iter().filter(|setting| !placed.contains(&setting.name)) {
        edits.push((setting.rules.clone(), Edit::Add(setting.to_string())));
        words.push(setting.to_string());
    }
    words.extend(situation.boot_line().and_then(|line| line.of_init()).map(one_line));
    (words.join(" "), edits)
}

/// Where else a failure is answered that no boot parameter answers.
fn elsewhere(rule: &str) -> &'static str {
    match rule {
        "irqbalance" => "a daemon, no boot parameter: --as runtime now, --as systemd or tuned to last",
        "memlock" => "a limit of the process, no boot parameter: --as systemd",
        "rt_throttle" => "no boot parameter that is settled early enough: --as runtime now, --as systemd at each boot",
        "siblings" => "no sibling is known to be online: name them in the plan (idle)",
        _ => "no boot parameter answers it",
    }
}

pub(super) fn print(situation: &Situation<'_>) -> String {
    let mut text = Text::default();
    situation.head(&mut text, "The boot line");
    if situation.needs().next().is_none() {
        return text.done();
    }
    text.comment("It lasts, and takes a reboot.");
    let wanted = wanted(situation);
    let (line, edits) = merged(situation, &wanted);
    for need in situation.answered() {
        let id = need.finding.rule.as_str();
        text.blank();
        text.comment(&need.headline());
        let mut is_answered = false;
        for (_, edit) in edits.iter().filter(|(rules, _)| rules.contains(&id)) {
            is_answered = true;
            text.below(&edit.text());
        }
        if is_answered && need.is_unknown() {
            text.below("whether it is needed could not be judged");
        }
        for (_, caution) in wanted.cautions.iter().filter(|(rule, _)| *rule == id) {
            is_answered = true;
            text.below(caution);
        }
        if !is_answered {
            text.below(elsewhere(id));
        }
    }
    situation.own_texts(&mut text, |remedy| &remedy.boot);
    if edits.is_empty() {
        return text.done();
    }
    whereto(&mut text, &wanted);
    text.blank();
    match situation.boot_line() {
        Some(running) => {
            text.comment("The whole line, as /proc/cmdline shall show it:");
            if running.may_be_cut() {
                text.below(
                    "the running line is as long as a kernel's buffer and may have been cut: more may stand on it",
                );
            }
        }
        None => text.comment("The running boot line cannot be read. Add to it:"),
    }
    if line.len() > MAX_LENGTH {
        text.below(&format!("{} bytes are more than x86 and arm64 take (2047): shorten it", line.len()));
    }
    text.line(&line);
    text.done()
}

/// How the parameters come onto the line.
fn whereto(text: &mut Text, wanted: &Wanted) {
    let parameters = wanted.parameters();
    let names: Vec<&str> =
        wanted.set.iter().map(|setting| setting.name).chain(wanted.unset.iter().map(|(name, _)| *name)).collect();
    text.blank();
    text.comment("Where to put it; BOOT_IMAGE= is the boot loader's own:");
    text.below("Debian, Ubuntu: GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub");
    text.line(&format!(
        "#   Fedora, RHEL:   grubby --update-kernel=ALL --remove-args=\"{}\"{}",
        names.join(" "),
        if parameters.is_empty() { "" } else { " \\" }
    ));
    if !parameters.is_empty() {
        text.line(&format!("#                   --args=\"{parameters}\""));
    }
    text.below(
        "systemd-boot:   /etc/kernel/cmdline, then kernel-install add \"$(uname -r)\" /boot/vmlinuz-\"$(uname -r)\"",
    );
    text.below("After the reboot: quietcore check shows what of it is in force.");
}
