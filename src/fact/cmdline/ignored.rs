//! What the boot line asks for and the kernel does not do, and why.
//!
//! What a file shows decides, since kernels are patched; the rules by which the kernel reads its line explain. Sources:
//! kernel/params.c, init/main.c (what is not known goes to init), kernel/sched/isolation.c, kernel/rcu/tree_nocb.h,
//! kernel/irq/irqdesc.c, drivers/idle/intel_idle.c, mm/hugetlb.c and Documentation/admin-guide/kernel-parameters.txt of
//! Linux 4.19 to 7.3.

use std::collections::BTreeSet;

use super::housekeeping::{self, Taken};
use super::{BootLine, Param, cut_obstacle, look};
use crate::cpuset::BootGrammar;
use crate::fact::host::{Look, quoted};
use crate::fact::{
    Doubt, Host, Observation, Source, Value, cgroup, clocksource, cpu, cpuidle, irq, kernel, memory, process,
};
use crate::reading::{Reading, quote};

mod huge;
mod lists;
mod words;

/// The environment that the kernel gave to its first process.
const INIT_ENVIRON: &str = "proc/1/environ";

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
    words::SMT_CONTROL,
    words::NUMA_BALANCING,
    words::INTEL_PSTATE,
    clocksource::CURRENT,
];

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
    ("isolcpus", lists::isolation),
    ("nohz_full", lists::isolation),
    ("rcu_nocbs", lists::rcu_nocbs),
    ("irqaffinity", lists::irqaffinity),
    ("nohz", words::nohz),
    ("idle", words::idle),
    ("cpuidle.off", words::cpuidle_off),
    (words::INTEL_MAX_CSTATE, words::max_cstate),
    (words::ACPI_MAX_CSTATE, words::max_cstate),
    ("transparent_hugepage", words::transparent_hugepage),
    ("default_hugepagesz", words::huge_pages),
    ("hugepagesz", words::huge_pages),
    ("hugepages", words::huge_pages),
    ("nosmt", words::nosmt),
    ("mitigations", words::mitigations),
    ("numa_balancing", words::numa_balancing),
    ("intel_pstate", words::intel_pstate),
    ("clocksource", words::clock_source),
];

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

/// How many parameters, and how many reasons, a text names.
const NAMED: usize = 16;
/// Shorter names are near too many others to be taken for misspelt.
const SHORTEST_MISSPELT: usize = 7;
/// No name is longer by as much as may be wrong.
const LONGEST_MISSPELT: usize = 32;
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
        look.note_failure(format!("{params}: {why}"));
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
        look.note_pass(format!("in force: {}", named(&in_force)));
    }
    look.answer(Reading::Value(Value::Words(found.iter().map(|(param, _)| quote(param)).collect())))
}

/// Parameters with the same told of them stand together. A line that is all faults is told in part.
pub(super) fn by_reason(found: &[(String, String)]) -> Vec<(String, &str)> {
    let mut groups: Vec<(Vec<String>, &str)> = Vec::new();
    for (param, why) in found {
        let param = quoted(param);
        if let Some((params, _)) = groups.iter_mut().find(|(_, reason)| reason == why) {
            if !params.contains(&param) {
                params.push(param);
            }
        } else if groups.len() < NAMED {
            groups.push((vec![param], why));
        }
    }
    groups.into_iter().map(|(params, why)| (named(&params), why)).collect()
}

fn named(params: &[String]) -> String {
    let named = params.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match params.len().saturating_sub(NAMED) {
        0 => named,
        rest => format!("{named} and {rest} more"),
    }
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
    if !(SHORTEST_MISSPELT..=LONGEST_MISSPELT).contains(&name.len()) || known_names().any(|known| param.is(known)) {
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
}

/// A parameter of which a later occurrence counts.
fn overridden(later: &Param) -> Fate {
    Fate::Ignored(format!("the last one counts, {}", quoted(&later.to_string())))
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
