//! What the boot line asks for and the kernel does not do, and why.
//!
//! What a file shows decides, since kernels are patched; the rules by which the kernel reads its line explain. Sources:
//! kernel/params.c, init/main.c (what is not known goes to init), kernel/sched/isolation.c, kernel/rcu/tree_nocb.h,
//! kernel/irq/irqdesc.c, drivers/idle/intel_idle.c, mm/hugetlb.c and Documentation/admin-guide/kernel-parameters.txt of
//! Linux 4.19 to 7.3.

use std::collections::BTreeSet;

use super::housekeeping::{self, Asked, Feature, Taken};
use super::{BOOT_CPU, BootLine, Param, Refusal, cut_obstacle, kernel_bool, kernel_integer, look};
use crate::cpuset::{BootGrammar, CpuSet};
use crate::fact::host::{Look, quoted};
use crate::fact::kernel::{self, BuildOption};
use crate::fact::{
    Cause, Doubt, Host, Observation, Source, Value, cgroup, clocksource, cpu, cpuidle, irq, memory, parse_word, process,
};
use crate::reading::{Reading, quote};

mod huge;

/// The environment that the kernel gave to its first process.
const INIT_ENVIRON: &str = "proc/1/environ";

const SMT_CONTROL: &str = "sys/devices/system/cpu/smt/control";
const NUMA_BALANCING: &str = "proc/sys/kernel/numa_balancing";
const INTEL_PSTATE: &str = "sys/devices/system/cpu/intel_pstate/status";

pub(super) const FILES: &[&str] = &[
    super::PATH,
    kernel::OSRELEASE,
    cpu::POSSIBLE,
    cgroup::ISOLATED,
    cpu::NOHZ_FULL,
    irq::DEFAULT,
    INIT_ENVIRON,
    "proc/*/comm",
    "run/systemd/container",
    "run/.containerenv",
    ".dockerenv",
    kernel::CONFIG_GZ,
    "boot/config-*",
    cpuidle::DRIVER,
    memory::THP_ENABLED,
    huge::COUNTS,
    SMT_CONTROL,
    NUMA_BALANCING,
    INTEL_PSTATE,
    clocksource::CURRENT,
];

/// From this version on `mitigations=` takes vectors of attack after a comma.
const ATTACK_VECTORS_SINCE: (u32, u32) = (6, 17);

/// From this version on `rcu_nocbs` may stand without a list.
const BARE_NOCBS_SINCE: (u32, u32) = (5, 17);

/// What became of a parameter.
#[derive(Clone, Debug)]
enum Fate {
    /// A file shows that it is in force.
    Shown,
    /// The kernel takes it, and nothing shows more.
    Taken,
    /// It is not in force, or not as it was meant: a lowercase fragment says why.
    Ignored(String),
    /// Whether it is in force cannot be told.
    Open(Doubt),
    /// Nothing is known of it.
    Unjudged,
}

impl Fate {
    fn ignored(why: impl Into<String>) -> Self {
        Self::Ignored(why.into())
    }

    fn open<T>(what: &str, reading: &Reading<T>) -> Self {
        Doubt::of(what, reading).map_or(Self::Taken, Self::Open)
    }
}

type Judge = fn(&mut Boot<'_, '_>, usize) -> Fate;

/// The parameters that are judged.
const JUDGES: &[(&str, Judge)] = &[
    ("isolcpus", isolation),
    ("nohz_full", isolation),
    ("rcu_nocbs", rcu_nocbs),
    ("irqaffinity", irqaffinity),
    ("nohz", nohz),
    ("idle", idle),
    ("cpuidle.off", cpuidle_off),
    (INTEL_MAX_CSTATE, max_cstate),
    (ACPI_MAX_CSTATE, max_cstate),
    ("transparent_hugepage", transparent_hugepage),
    ("default_hugepagesz", huge_pages),
    ("hugepagesz", huge_pages),
    ("hugepages", huge_pages),
    ("nosmt", nosmt),
    ("mitigations", mitigations),
    ("numa_balancing", numa_balancing),
    ("intel_pstate", intel_pstate),
    ("clocksource", clock_source),
];

const INTEL_MAX_CSTATE: &str = "intel_idle.max_cstate";
const ACPI_MAX_CSTATE: &str = "processor.max_cstate";

/// Other parameters about latency, of which it can only be told that the kernel does not know them.
const OTHERS: &[&str] = &[
    "amd_pstate",
    "audit",
    "kthread_cpus",
    "mce",
    "nmi_watchdog",
    "nosoftlockup",
    "nowatchdog",
    "preempt",
    "psi",
    "rcu_nocb_poll",
    "skew_tick",
    "threadirqs",
    "tsc",
];

/// Shorter names are near too many others to be taken for misspelt.
const SHORTEST_MISSPELT: usize = 7;
/// As many letters may be wrong, missing or too many.
const MISSPELT_BY: usize = 2;

pub(super) fn ignored(host: &Host<'_>) -> Observation {
    let (look, line) = look(host);
    let line = match line {
        Reading::Value(line) => line,
        other => return look.answer(other.map(|_| Value::Words(BTreeSet::new()))),
    };
    let mut boot = Boot::new(look, line);
    // With why, in the order of the line.
    let mut found: Vec<(String, String)> = Vec::new();
    let mut in_force = Vec::new();
    for (at, param) in line.params().iter().enumerate() {
        match boot.fate(at) {
            Fate::Ignored(why) => found.push((param.to_string(), why)),
            Fate::Open(doubt) => boot.look.doubt(doubt, None),
            Fate::Shown | Fate::Taken => in_force.push(quote(&param.to_string())),
            Fate::Unjudged => {}
        }
    }
    found.extend(out_of_reach(line));
    let mut look = boot.look;
    for (params, why) in by_reason(&found) {
        look.note_failure(format!("{}: {why}", params.join(", ")));
    }
    if line.may_be_cut() {
        if let Some(last) = line.params().last() {
            look.note_unknown(format!("the line ends with {}", quoted(&last.written)));
        }
        look.gap::<()>(super::PATH, &Reading::Unreadable(cut_obstacle(line)));
    }
    if in_force.is_empty() {
        look.note_pass("it has no parameter of which that shows");
    } else {
        look.note_pass(format!("in force: {}", in_force.join(", ")));
    }
    look.answer(Reading::Value(Value::Words(found.iter().map(|(param, _)| quote(param)).collect())))
}

/// Parameters that are ignored for the same reason stand together.
pub(super) fn by_reason(found: &[(String, String)]) -> Vec<(Vec<String>, &str)> {
    let mut groups: Vec<(Vec<String>, &str)> = Vec::new();
    for (param, why) in found {
        let param = quoted(param);
        match groups.iter_mut().find(|(_, reason)| reason == why) {
            Some((params, _)) if params.contains(&param) => {}
            Some((params, _)) => params.push(param),
            None => groups.push((vec![param], why)),
        }
    }
    groups
}

/// Parameters that the kernel does not see as such: behind ` -- `, and inside of quotes that nothing closes.
fn out_of_reach(line: &BootLine) -> Vec<(String, String)> {
    let is_known = |param: &Param| known_names().any(|name| param.is(name));
    let words_of = |text: &str| BootLine::parse(text).map_or_else(|_| Vec::new(), |line| line.params().to_vec());
    let mut found = Vec::new();
    if let Some(of_init) = line.of_init().and_then(|text| text.strip_prefix("--")) {
        let why = "what follows ` -- ` is an argument of init";
        found.extend(words_of(of_init).iter().filter(|p| is_known(p)).map(|p| (p.to_string(), why.to_owned())));
    }
    for param in line.params().iter().filter(|param| has_open_quote(param)) {
        let why = format!("it stands in the value of `{}=`, in quotes that nothing closes", quote(&param.name));
        let value = param.value.as_deref().unwrap_or_default();
        let swallowed = words_of(value.trim_start_matches(|c: char| !c.is_ascii_whitespace()));
        found.extend(swallowed.iter().filter(|p| is_known(p)).map(|p| (p.to_string(), why.clone())));
    }
    found
}

fn known_names() -> impl Iterator<Item = &'static str> {
    JUDGES.iter().map(|(name, _)| *name).chain(OTHERS.iter().copied())
}

fn has_open_quote(param: &Param) -> bool {
    param.written.bytes().filter(|&byte| byte == b'"').count() % 2 == 1
}

/// The parameter that a name was meant for, where the kernel has none of that name.
fn meant(param: &Param) -> Option<&'static str> {
    let name = param.name.replace('-', "_");
    if name.len() < SHORTEST_MISSPELT || known_names().any(|known| param.is(known)) {
        return None;
    }
    let distance = |known: &str| strsim::damerau_levenshtein(&name.to_lowercase(), known);
    known_names()
        .filter(|known| known.len() >= SHORTEST_MISSPELT)
        .map(|known| (distance(known), known))
        .filter(|(distance, _)| *distance <= MISSPELT_BY)
        .min()
        .map(|(_, known)| known)
}

/// The boot line of a host, and what the host shows of it.
struct Boot<'h, 'a> {
    look: Look<'h, 'a>,
    line: &'h BootLine,
    grammar: BootGrammar,
    version: Option<(u32, u32)>,
    taken: Vec<(usize, Taken)>,
    huge_pages: Option<Vec<(usize, Fate)>>,
    /// The parameters that process 1 has in its environment; none where that cannot be seen.
    handed: Option<BTreeSet<String>>,
}

impl<'h, 'a> Boot<'h, 'a> {
    fn new(mut look: Look<'h, 'a>, line: &'h BootLine) -> Self {
        let grammar = super::grammar(look.host);
        let version = look.host.release().map(kernel::Release::version);
        let handed = handed_to_init(&mut look, line);
        Self {
            taken: housekeeping::replay(line, grammar, version),
            huge_pages: None,
            look,
            line,
            grammar,
            version,
            handed,
        }
    }

    fn param(&self, at: usize) -> &'h Param {
        &self.line.params()[at]
    }

    fn fate(&mut self, at: usize) -> Fate {
        let param = self.param(at);
        let judge = JUDGES.iter().find(|(name, _)| param.is(name)).map(|(_, judge)| judge);
        let fate = judge.map_or(Fate::Unjudged, |judge| judge(self, at));
        let is_handed = self.handed.as_ref().is_some_and(|handed| handed.contains(&param.to_string()));
        let is_known = judge.is_some() || OTHERS.iter().any(|name| param.is(name));
        match (fate, meant(param)) {
            (Fate::Ignored(why), _) if is_handed => {
                Fate::Ignored(format!("{why}, and so init has it in its environment"))
            }
            (Fate::Taken | Fate::Open(_) | Fate::Unjudged, _) if is_handed && is_known => Fate::ignored(
                "init has it in its environment: so the kernel knows no such parameter, or refuses its value",
            ),
            (Fate::Unjudged, Some(meant)) if param.name.to_lowercase().replace('-', "_") == meant => {
                Fate::Ignored(format!("names are in lower case: {meant}"))
            }
            (Fate::Unjudged, Some(meant)) => {
                Fate::Ignored(format!("the kernel has no parameter of that name ({meant}?)"))
            }
            (fate, _) => fate,
        }
    }

    /// The value of an occurrence as `accept` takes it, if no later one counts instead. What it is not is said as `wanted`.
    fn value<T: PartialEq>(&self, at: usize, wanted: &str, accept: impl Fn(&str) -> Option<T>) -> Result<T, Fate> {
        let param = self.param(at);
        let refused = |text: &str| Fate::Ignored(format!("the kernel refuses {text}: it takes {wanted}"));
        let Some(text) = param.value.as_deref() else { return Err(refused("it without a value")) };
        let Some(value) = accept(text) else { return Err(refused(&format!("the value{}", hint(param)))) };
        let later = self.line.params().iter().skip(at + 1).filter(|later| later.is(&param.name));
        let counts = later.filter_map(|later| Some((later, accept(later.value.as_deref()?)?))).last();
        match counts {
            Some((later, other)) if other != value => Err(overridden(later)),
            _ => Ok(value),
        }
    }

    /// Does what an occurrence asks for show in the files?
    fn effect(&mut self, asked: &Asked) -> Effect {
        let mut effect = Effect::default();
        for feature in &asked.features {
            let path = match feature {
                Feature::Domain => cgroup::ISOLATED,
                Feature::Tick => cpu::NOHZ_FULL,
                Feature::ManagedIrq => continue,
            };
            match self.look.read(path).parse(CpuSet::parse_list) {
                Reading::Value(shown) => {
                    effect.is_exact &= shown == asked.cpus;
                    effect.is_any_shown = true;
                    let missing = &asked.cpus - &shown;
                    if !missing.is_empty() {
                        effect.missing.get_or_insert(Missing { path, shown, missing });
                    }
                }
                Reading::NotExposed if path == cpu::NOHZ_FULL && self.look.host.possible().is_some() => {
                    effect.is_not_built = true;
                }
                other => effect.doubt = effect.doubt.take().or_else(|| Doubt::of(path, &other)),
            }
        }
        effect
    }
}

/// A parameter of which a later occurrence counts.
fn overridden(later: &Param) -> Fate {
    Fate::Ignored(format!("the last one counts, {}", quoted(&later.to_string())))
}

/// What the files show of what was asked for.
#[derive(Debug)]
struct Effect {
    /// Each file shows the list that was asked for, and no other CPU.
    is_exact: bool,
    is_any_shown: bool,
    /// The kernel was built without the feature.
    is_not_built: bool,
    missing: Option<Missing>,
    doubt: Option<Doubt>,
}

#[derive(Debug)]
struct Missing {
    path: &'static str,
    shown: CpuSet,
    missing: CpuSet,
}

impl Default for Effect {
    fn default() -> Self {
        Self { is_exact: true, is_any_shown: false, is_not_built: false, missing: None, doubt: None }
    }
}

impl Effect {
    /// All that shows is as it was asked for.
    fn is_full(&self) -> bool {
        self.is_any_shown && !self.is_not_built && self.missing.is_none() && self.doubt.is_none()
    }
}

/// What `init` got of the boot line: an environment variable for each parameter with a value that the kernel did not take.
///
/// A container's process 1 is another.
fn handed_to_init(look: &mut Look<'_, '_>, line: &BootLine) -> Option<BTreeSet<String>> {
    if process::is_in_container(look.host.root) {
        return None;
    }
    let environ = look.host.root.read_bytes(INIT_ENVIRON);
    let Reading::Value(environ) = environ else {
        look.source(Source::unread(INIT_ENVIRON, &environ));
        return None;
    };
    let environ = String::from_utf8_lossy(&environ);
    let handed: BTreeSet<String> = line.handed_to_init(&environ).map(str::to_owned).collect();
    let shown = if handed.is_empty() {
        "nothing of the boot line".to_owned()
    } else {
        handed.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    look.source(Source::summary(INIT_ENVIRON, quote(&shown)));
    Some(handed)
}

/// What is odd about a value that was refused: in parentheses with a blank before it, or nothing.
fn hint(param: &Param) -> &'static str {
    let value = param.value.as_deref().unwrap_or_default();
    if has_open_quote(param) {
        " (nothing closes its quote, so that the rest of the line is a part of it)"
    } else if value.contains(['\'', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}']) {
        " (of quotes the kernel knows only \")"
    } else if value.starts_with("0x") {
        " (a mask is no list)"
    } else {
        ""
    }
}

/// Why a list is refused, with what is odd about it. `newest` says whether newer kernels take it.
fn list_refused(param: &Param, refusal: &Refusal, is_good_elsewhere: bool) -> String {
    let hint = match hint(param) {
        "" if matches!(refusal, Refusal::List(_)) && is_good_elsewhere => {
            " (newer kernels read it: strides from 4.11 on, N from 5.13, all from 5.14)"
        }
        hint => hint,
    };
    match refusal {
        Refusal::List(error) => format!("{error}{hint}, and one bad part voids the whole list"),
        other => format!("{other}{hint}"),
    }
}

fn isolation(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let param = boot.param(at);
    if param.value.is_none() {
        return Fate::ignored("without a list it is no parameter, and the kernel hands the word to init");
    }
    let newest = BootGrammar::newest(boot.grammar.last);
    let asked = Asked::of(param, newest, None).and_then(Result::ok);
    let effect = asked.as_ref().map(|asked| boot.effect(asked));
    let is_full = effect.as_ref().is_some_and(Effect::is_full);
    let place = |at: usize| quoted(&boot.param(at).to_string());
    let taken = boot.taken.iter().find(|(place, _)| *place == at).map(|(_, taken)| taken.clone());
    match taken {
        None => Fate::Unjudged,
        // Distributions carry grammars back to older kernels: the list that shows was taken.
        Some(Taken::Refused(_) | Taken::Shared(_)) if is_full => Fate::Shown,
        Some(Taken::Occupied(_)) if is_full && effect.as_ref().is_some_and(|effect| effect.is_exact) => Fate::Shown,
        Some(Taken::Refused(refusal)) => Fate::Ignored(list_refused(param, &refusal, asked.is_some())),
        Some(Taken::Occupied(first)) => {
            Fate::Ignored(format!("{} came first, and the kernel refuses a second list for what has one", place(first)))
        }
        Some(Taken::Shared(first)) => Fate::Ignored(format!(
            "{} came first, and up to Linux 5.17 isolcpus= and nohz_full= share one list",
            place(first)
        )),
        Some(Taken::Overridden(last)) => overridden(boot.param(last)),
        Some(Taken::Accepted(asked)) => accepted(boot, &asked, effect.unwrap_or_default()),
    }
}

fn accepted(boot: &Boot<'_, '_>, asked: &Asked, effect: Effect) -> Fate {
    if asked.features.contains(&Feature::Tick) {
        if effect.is_not_built {
            return Fate::ignored(
                "this kernel was built without adaptive ticks (no nohz_full file: CONFIG_NO_HZ_FULL)",
            );
        }
        if let Some((nohz, false)) = boot.line.last_accepted("nohz", kernel_bool) {
            return Fate::Ignored(format!("{} keeps the tick on every CPU", quoted(&nohz.to_string())));
        }
    }
    if let Some(Missing { path, shown, missing }) = effect.missing {
        let shown = Value::Cpus(shown);
        if missing == CpuSet::from_range(BOOT_CPU..=BOOT_CPU) {
            return Fate::Ignored(format!("the kernel takes out CPU {BOOT_CPU}, which boots, and leaves {shown}"));
        }
        return Fate::Ignored(format!("{path} has {shown}, and nothing on the line says why"));
    }
    if let Some(doubt) = effect.doubt {
        return Fate::Open(doubt);
    }
    if let Some(flag) = asked.skipped.first() {
        let meant = crate::problem::did_you_mean(flag, ["domain", "managed_irq", "nohz"]);
        let meant = meant.map_or_else(String::new, |meant| format!(" ({meant}?)"));
        return Fate::Ignored(format!("the kernel knows no flag `{}` and skips it{meant}", quote(flag)));
    }
    if effect.is_any_shown { Fate::Shown } else { Fate::Taken }
}

fn rcu_nocbs(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let param = boot.param(at);
    if let Some(last) = boot.line.all("rcu_nocbs").last().filter(|last| last.value != param.value) {
        return overridden(last);
    }
    let is_before = |version| boot.version.is_some_and(|ours| ours < version);
    let Some(value) = &param.value else {
        return Fate::ignored(if is_before(BARE_NOCBS_SINCE) {
            "without a list it is no parameter before Linux 5.17, and the kernel hands the word to init"
        } else {
            "without a list it readies the kernel to offload callbacks later, and offloads no CPU"
        });
    };
    match super::parse_nocbs(value, boot.grammar) {
        Ok(cpus) if cpus.is_empty() => Fate::ignored("the list is empty, and no CPU is offloaded"),
        Ok(_) => is_offloading_known(boot, param),
        Err(error) if is_before(super::BAD_NOCBS_MEAN_ALL_SINCE) => Fate::Ignored(format!(
            "{error}{}, and what stands before that is all that counts, if anything",
            hint(param)
        )),
        Err(error) => Fate::Ignored(format!("{error}{}, and of a bad list the kernel makes all CPUs", hint(param))),
    }
}

/// No file shows which CPUs are offloaded. That the kernel can do it at all shows in its threads, in how it was built, or in
/// what it did not hand to init.
fn is_offloading_known(boot: &mut Boot<'_, '_>, param: &Param) -> Fate {
    let not_built = "this kernel was built without offloading of RCU callbacks (CONFIG_RCU_NOCB_CPU)";
    let processes = boot.look.host.processes();
    if let Reading::Value(processes) = processes
        && processes.has_named(|name| name.starts_with("rcuo"))
    {
        boot.look.source(Source::summary("proc/*/comm", "threads named rcuo".to_owned()));
        return Fate::Shown;
    }
    match kernel::config(&mut boot.look, BuildOption::RcuNocbCpu) {
        Reading::Value(true) => return Fate::Taken,
        Reading::Value(false) => return Fate::ignored(not_built),
        _ => {}
    }
    // Where something of the line was handed over, this would have been too.
    if let Some(handed) = boot.handed.as_ref().filter(|handed| !handed.is_empty()) {
        return if handed.contains(&param.to_string()) { Fate::ignored(not_built) } else { Fate::Taken };
    }
    if let Reading::Value(processes) = processes
        && processes.has_named(|name| matches!(name, "rcu_sched" | "rcu_preempt" | "rcu_gp"))
    {
        boot.look.source(Source::summary("proc/*/comm", "no thread named rcuo".to_owned()));
        return Fate::Ignored(format!("no thread named rcuo runs, so {not_built}"));
    }
    let reason = "neither a thread named rcuo nor the kernel's configuration shows that it is in force".to_owned();
    Fate::Open(Doubt { cause: Cause::NotExposed, what: quote(&param.to_string()), reason })
}

fn irqaffinity(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let param = boot.param(at);
    let Some(value) = &param.value else {
        return Fate::ignored("without a list it is no parameter, and the kernel hands the word to init");
    };
    if let Some(last) = boot.line.all("irqaffinity").last().filter(|last| last.value != param.value) {
        return overridden(last);
    }
    let mut asked = match CpuSet::parse_boot_list(value, boot.grammar) {
        Ok(asked) => asked,
        Err(error) => {
            let hint = hint(param);
            return Fate::Ignored(format!(
                "{error}{hint}, and what stands before that and the boot CPU are all that counts"
            ));
        }
    };
    asked.insert(BOOT_CPU);
    let mask = boot.look.read(irq::DEFAULT).parse(CpuSet::parse_mask);
    let Reading::Value(mask) = mask.map(|mask| boot.look.host.within_possible(mask)) else {
        return Fate::open(irq::DEFAULT, &boot.look.host.text(irq::DEFAULT).parse(CpuSet::parse_mask));
    };
    let added = &mask - &asked;
    if added.is_empty() {
        return Fate::Shown;
    }
    Fate::Ignored(format!("{} has CPUs {added} too: it was changed since", irq::DEFAULT))
}

fn nohz(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    boot.value(at, "on or off", kernel_bool).map_or_else(|fate| fate, |_| Fate::Taken)
}

fn idle(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    // Words of other architectures are not judged.
    let known =
        |text: &str| matches!(text, "poll" | "halt" | "nomwait" | "wfi" | "yield" | "nop").then(|| text.to_owned());
    // Polling sticks: what comes later does not end it.
    let polls = |param: &Param| param.value.as_deref() == Some("poll");
    let word = match boot.value(at, "poll, halt or nomwait", known) {
        _ if polls(boot.param(at)) => "poll".to_owned(),
        Ok(_) if boot.line.all("idle").any(polls) => {
            return Fate::ignored("idle=poll stands on the line too, and sticks");
        }
        Ok(word) => word,
        Err(fate) => return fate,
    };
    let driver = boot.look.read_if_there(cpuidle::DRIVER).parse(parse_word);
    match (word.as_str(), driver.value().map(String::as_str)) {
        ("poll" | "halt", Some(driver)) if driver != "none" => {
            Fate::Ignored(format!("the idle driver is {} all the same", quote(driver)))
        }
        ("nomwait", Some("intel_idle")) => Fate::ignored("the idle driver is intel_idle all the same"),
        ("poll" | "halt", Some(_)) => Fate::Shown,
        _ => Fate::Taken,
    }
}

fn cpuidle_off(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    match boot.value(at, "a number", kernel_integer) {
        Err(fate) => fate,
        Ok(0) => Fate::Taken,
        Ok(_) if boot.look.read_if_there(cpuidle::DRIVER) == Reading::NotExposed => Fate::Shown,
        Ok(_) => Fate::Ignored(format!("{} is there, so that idle states are in use", cpuidle::DRIVER)),
    }
}

fn max_cstate(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let n = match boot.value(at, "a number", kernel_integer) {
        Ok(n) => n,
        Err(fate) => return fate,
    };
    let is_intel = boot.param(at).is(INTEL_MAX_CSTATE);
    let driver = match boot.look.read_if_there(cpuidle::DRIVER).parse(parse_word) {
        Reading::Value(driver) => driver,
        // No driver, and nothing to cap.
        Reading::NotExposed => return Fate::Taken,
        other => return Fate::open(cpuidle::DRIVER, &other),
    };
    let other = if is_intel { ACPI_MAX_CSTATE } else { INTEL_MAX_CSTATE };
    let caps_other = boot.line.integer(other).is_some_and(|(_, n)| is_intel || n > 0);
    match (driver.as_str(), is_intel) {
        ("intel_idle", true) if n == 0 => Fate::ignored("the idle driver is intel_idle all the same"),
        ("intel_idle", true) | ("acpi_idle", false) => Fate::Shown,
        (_, true) if n == 0 => Fate::Shown,
        // A line that names both is meant for whichever driver comes.
        ("none" | "haltpoll", _) => Fate::Taken,
        ("intel_idle" | "acpi_idle", _) if caps_other => Fate::Taken,
        ("intel_idle" | "acpi_idle", _) => Fate::Ignored(format!("the idle driver is {driver}, which heeds {other}")),
        (driver, _) => Fate::Ignored(format!("the idle driver is {}, which does not heed it", quote(driver))),
    }
}

fn transparent_hugepage(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let known = |text: &str| matches!(text, "always" | "madvise" | "never").then(|| text.to_owned());
    let word = match boot.value(at, "always, madvise or never", known) {
        Ok(word) => word,
        Err(fate) => return fate,
    };
    match boot.look.read(memory::THP_ENABLED).parse(memory::parse_choice) {
        Reading::Value(shown) => changed(&word, &shown, memory::THP_ENABLED),
        Reading::NotExposed if word == "never" => Fate::Taken,
        Reading::NotExposed if boot.look.host.root.exists(memory::MM).value().is_some() => {
            Fate::ignored("this kernel was built without transparent huge pages, or is a real-time one")
        }
        other => Fate::open(memory::THP_ENABLED, &other),
    }
}

/// What was asked for against what is shown now.
fn changed(asked: &str, shown: &str, path: &str) -> Fate {
    if asked == shown {
        Fate::Shown
    } else {
        Fate::Ignored(format!("{path} is {}: it was changed since", quote(shown)))
    }
}

fn huge_pages(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    if boot.huge_pages.is_none() {
        boot.huge_pages = Some(huge::replay(&mut boot.look, boot.line));
    }
    let fates = boot.huge_pages.iter().flatten();
    fates.filter(|(place, _)| *place == at).map(|(_, fate)| fate.clone()).next().unwrap_or(Fate::Unjudged)
}

fn nosmt(boot: &mut Boot<'_, '_>, _at: usize) -> Fate {
    match boot.look.read(SMT_CONTROL).parse(parse_word) {
        Reading::Value(control) => match control.as_str() {
            "off" | "forceoff" => Fate::Shown,
            "notsupported" | "notimplemented" => Fate::Taken,
            control => Fate::Ignored(format!("{SMT_CONTROL} is {}: SMT was switched on since", quote(control))),
        },
        other => Fate::open(SMT_CONTROL, &other),
    }
}

fn mitigations(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let knows_vectors = boot.version.is_none_or(|version| version >= ATTACK_VECTORS_SINCE);
    let known = |text: &str| is_mitigations(text, knows_vectors).then(|| text.to_owned());
    let wanted = if knows_vectors {
        "off, auto, or auto,nosmt, and then vectors of attack such as no_user_user"
    } else {
        "off, auto, or auto,nosmt (vectors of attack from Linux 6.17 on)"
    };
    boot.value(at, wanted, known).map_or_else(|fate| fate, |_| Fate::Taken)
}

fn is_mitigations(text: &str, knows_vectors: bool) -> bool {
    const VECTORS: [&str; 5] = ["no_cross_thread", "no_guest_guest", "no_guest_host", "no_user_kernel", "no_user_user"];
    let rest = ["auto,nosmt", "auto", "off"].into_iter().find_map(|word| text.strip_prefix(word));
    let vectors = match rest {
        Some("") => return true,
        Some(rest) => rest.strip_prefix(','),
        None => None,
    };
    knows_vectors && vectors.is_some_and(|vectors| vectors.split(',').all(|vector| VECTORS.contains(&vector)))
}

fn numa_balancing(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let known = |text: &str| [("enable", true), ("disable", false)].into_iter().find(|(word, _)| *word == text);
    let on = match boot.value(at, "enable or disable", known) {
        Ok((_, on)) => on,
        Err(fate) => return fate,
    };
    match boot.look.read(NUMA_BALANCING).parse(crate::fact::parse_integer) {
        Reading::Value(mode) if (mode != 0) == on => Fate::Shown,
        Reading::Value(mode) => Fate::Ignored(format!("{NUMA_BALANCING} is {mode}: it was changed since")),
        Reading::NotExposed if !on => Fate::Taken,
        other => Fate::open(NUMA_BALANCING, &other),
    }
}

fn intel_pstate(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    const WORDS: &[&str] = &[
        "active",
        "passive",
        "disable",
        "force",
        "hwp_only",
        "no_cas",
        "no_hwp",
        "per_cpu_perf_limits",
        "support_acpi_ppc",
    ];
    let text = boot.param(at).value.as_deref().unwrap_or_default();
    if !WORDS.contains(&text) {
        return Fate::Ignored(format!(
            "the kernel passes over a value that it does not know: it takes {}",
            WORDS.join(", ")
        ));
    }
    // Each word switches something of its own; only the mode shows.
    let mode = match text {
        "active" | "passive" => text,
        "disable" => "off",
        _ => return Fate::Taken,
    };
    match boot.look.read_if_there(INTEL_PSTATE).parse(parse_word) {
        Reading::Value(status) => changed(mode, &status, INTEL_PSTATE),
        Reading::NotExposed if mode == "off" => Fate::Shown,
        Reading::NotExposed => Fate::Unjudged,
        other => Fate::open(INTEL_PSTATE, &other),
    }
}

fn clock_source(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let name = match boot.value(at, "a name", |text| (!text.is_empty()).then(|| text.to_owned())) {
        Ok(name) => name,
        Err(fate) => return fate,
    };
    match boot.look.read(clocksource::CURRENT).parse(parse_word) {
        Reading::Value(current) if current == name => Fate::Shown,
        Reading::Value(current) => {
            let current = quote(&current);
            Fate::Ignored(format!(
                "the clock source is {current}: the kernel has none of that name, or found it unstable"
            ))
        }
        other => Fate::open(clocksource::CURRENT, &other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant_by(name: &str) -> Option<&'static str> {
        meant(BootLine::parse(name).unwrap().params().first().unwrap())
    }

    #[test]
    fn misspelt_names() {
        assert_eq!(meant_by("isolcpu=2-3"), Some("isolcpus"));
        assert_eq!(meant_by("ISOLCPUS=2-3"), Some("isolcpus"));
        assert_eq!(meant_by("nohzfull=2"), Some("nohz_full"));
        assert_eq!(meant_by("rcu-nocb=2"), Some("rcu_nocbs"));
        assert_eq!(meant_by("intel_idle.max_cstates=1"), Some("intel_idle.max_cstate"));
        for fine in
            ["isolcpus", "nohz-full", "nosmep", "nosmap", "ide", "quiet", "hugepages", "transparent_hugepage_shmem"]
        {
            assert_eq!(meant_by(fine), None, "{fine}");
        }
    }

    #[test]
    fn values_of_mitigations() {
        for (text, old, new) in [
            ("off", true, true),
            ("auto,nosmt", true, true),
            ("auto,no_user_user,no_guest_host", false, true),
            ("auto,nosmt,no_cross_thread", false, true),
            ("auto,no_nothing", false, false),
            ("autox", false, false),
            ("none", false, false),
        ] {
            assert_eq!((is_mitigations(text, false), is_mitigations(text, true)), (old, new), "{text}");
        }
    }

    #[test]
    fn what_the_kernel_does_not_see_as_a_parameter() {
        let out = |line: &str| {
            let line = BootLine::parse(line).unwrap();
            out_of_reach(&line).into_iter().map(|(word, _)| word).collect::<Vec<_>>()
        };
        assert_eq!(out("ro -- isolcpus=2-3 -s nohz_full=2"), ["isolcpus=2-3", "nohz_full=2"]);
        assert_eq!(out("dyndbg=\"file a.c +p isolcpus=2-3 quiet"), ["isolcpus=2-3"]);
        assert_eq!(out("isolcpus=\"2-3 nohz_full=2-3"), ["nohz_full=2-3"]);
        assert_eq!(out("dyndbg=\"file a.c isolcpus=2\" quiet"), [""; 0]);
    }
}
