//! `quietcore explain cpu N`: what may run, fire, tick or call back on a CPU, and which rule is about it.
//!
//! The facts are those of the rules. They are read for a plan in which this CPU alone is hot, so that their notes speak of
//! it: by which mechanism it is isolated, what the boot line asked for it in vain.

use std::io::{self, Write};

use super::super::page::{GLUE, Page};
use super::super::{Failure, load_failure, load_rules, open_root};
use crate::audit::audit;
use crate::cli::ExplainCpuArgs;
use crate::cpuset::CpuSet;
use crate::exit;
use crate::fact::cpuidle::{self, State};
use crate::fact::irq::{self, Reach};
use crate::fact::{self, Bearing, Host, Member, Observation, Value, kernel};
use crate::plan::{Plan, Role};
use crate::preflight::{PreflightError, heed};
use crate::reading::Reading;
use crate::report::{Report, Verdict};
use crate::root::Root;
use crate::rule::Level;
use crate::topology;

/// How wide the column of labels is.
const LABEL: usize = 13;

/// How many interrupt lines of a kind are named before the rest is counted.
const NAMED_LINES: usize = 12;

/// The rules that have a line of their own here.
const SHOWN: &[&str] = &[
    "isolated",
    "siblings",
    "nohz_full",
    "rcu_nocbs",
    "irq_affinity",
    "irqbalance",
    "governor",
    "cstate",
    "rt_throttle",
    "nic_node",
];

pub(super) fn run(args: &ExplainCpuArgs, out: &mut impl Write) -> Result<u8, Failure> {
    let root = open_root(&args.root)?;
    let plan = Plan::load(&args.plan).map_err(load_failure)?;
    let host = Host::new(&root, &plan);
    let narrow = alone(&host, args.cpu);
    // The notes of facts speak of idle CPUs too: here they are to speak of this one.
    let bare = Plan { idle: Some(CpuSet::new()), ..narrow.clone() };
    let alone = Host::new(&root, &bare);
    let is_hot = plan.hot_cpus().contains(args.cpu);
    // Rules are about hot CPUs: for any other one there is no verdict to show.
    let mut rules = load_rules(&args.rules)?;
    heed(&mut rules, &plan).map_err(PreflightError::from)?;
    // It is about the plan as a whole, which is not what is judged here.
    rules.retain(|rule| rule.id != "plan_topology");
    let report = is_hot.then(|| audit(&rules, &Host::new(&root, &narrow), false));
    let mut page = Page::new(out);
    Map { cpu: args.cpu, root: &root, plan: &plan, host: &host, alone: &alone, report, page: &mut page }.write()?;
    Ok(exit::PASSED)
}

/// The plan with this CPU as the only hot one, and everything else as the whole plan has it.
fn alone(host: &Host<'_>, cpu: u32) -> Plan {
    let plan = host.plan;
    let only = CpuSet::from_range(cpu..=cpu);
    let name = role_names(&plan.hot, cpu).into_iter().next().unwrap_or_else(|| "cpu".to_owned());
    let without = |name: &str| known_set(host, name).map(|set| &set - &only);
    Plan {
        hot: vec![Role { name, cpus: only.clone() }],
        idle: without("plan.idle"),
        housekeeping: without("plan.housekeeping"),
        ..plan.clone()
    }
}

/// The CPUs of a fact, if they are all known.
fn known_set(host: &Host<'_>, name: &str) -> Option<CpuSet> {
    let observation = fact::find(name)?.observe(host)?;
    match &observation.reading {
        Reading::Value(Value::Cpus(cpus)) if observation.gap.is_none() => Some(cpus.clone()),
        _ => None,
    }
}

fn role_names(roles: &[Role], cpu: u32) -> Vec<String> {
    roles.iter().filter(|role| role.cpus.contains(cpu)).map(|role| role.name.clone()).collect()
}

/// Is the CPU in the set of a fact? None: that cannot be told.
fn is_in(observation: &Observation, cpu: u32) -> Option<bool> {
    let may_be = observation.gap.as_ref().is_some_and(|gap| gap.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu)));
    match &observation.reading {
        Reading::Value(Value::Cpus(cpus)) if cpus.contains(cpu) => Some(true),
        Reading::Value(_) if may_be => None,
        Reading::Value(_) | Reading::Unset | Reading::NotExposed => Some(false),
        Reading::Unreadable(_) | Reading::Malformed(_) => None,
    }
}

struct Map<'m, 'o> {
    cpu: u32,
    root: &'m Root,
    plan: &'m Plan,
    /// The host under the whole plan.
    host: &'m Host<'m>,
    /// The host under the plan in which this CPU alone is hot.
    alone: &'m Host<'m>,
    /// The rules' verdicts on this CPU, if it is hot.
    report: Option<Report>,
    page: &'m mut Page<'o>,
}

impl Map<'_, '_> {
    fn write(mut self) -> io::Result<()> {
        let kernel = kernel::release_text(self.host).map_or_else(String::new, |kernel| format!(", kernel {kernel}"));
        self.page.heading(&format!("CPU {} of {}{kernel}", self.cpu, self.root.name()))?;
        self.role()?;
        if let Some(possible) = self.host.possible().filter(|possible| !possible.contains(self.cpu)) {
            return self.row("there", &format!("no: it is not possible on this host, possible are {possible}"), None);
        }
        if self.is_offline() {
            let text = "no: nothing runs, fires, ticks or calls back there until it is";
            return self.row("online", text, Some("isolated"));
        }
        self.row("online", if self.is_online_shown() { "yes" } else { "yes, as far as the host shows" }, None)?;
        self.core()?;
        self.node()?;
        self.scheduler()?;
        self.tick()?;
        self.callbacks()?;
        self.interrupts()?;
        self.default_mask()?;
        self.irqbalance()?;
        self.governor()?;
        self.idle_states()?;
        self.realtime()?;
        self.others()
    }

    /// A line of the map; with the rule that is about it, and what the rule says of this CPU where it is hot.
    fn row(&mut self, label: &str, text: &str, rule: Option<&str>) -> io::Result<()> {
        let text = match rule {
            None => text.to_owned(),
            Some(rule) => match self.verdict(rule) {
                Some(verdict) => format!("{text} [{rule}:{GLUE}{}]", verdict.name()),
                None => format!("{text} [{rule}]"),
            },
        };
        self.page.labelled(label, LABEL, &text)
    }

    fn verdict(&self, rule: &str) -> Option<Verdict> {
        let report = self.report.as_ref()?;
        report.findings.iter().find(|finding| finding.rule == rule).map(crate::report::Finding::verdict)
    }

    fn is_offline(&self) -> bool {
        self.alone.hot_online().is_empty()
    }

    fn is_online_shown(&self) -> bool {
        known_set(self.alone, "cpu.online").is_some()
    }

    fn role(&mut self) -> io::Result<()> {
        let cpu = self.cpu;
        let hot = role_names(&self.plan.hot, cpu);
        let cold = role_names(&self.plan.cold, cpu);
        let is_in = |name: &str| known_set(self.host, name).is_some_and(|set| set.contains(cpu));
        let text = if !hot.is_empty() {
            format!("hot: {}", hot.join(", "))
        } else if is_in("plan.idle") {
            match self.hot_beside() {
                Some(beside) => format!("idle: left free beside hot {beside}"),
                None => "idle: left free".to_owned(),
            }
        } else if !cold.is_empty() {
            format!("cold: {}", cold.join(", "))
        } else if is_in("plan.housekeeping") {
            "housekeeping: does everything else".to_owned()
        } else {
            "none in the plan".to_owned()
        };
        self.row("role", &text, None)
    }

    /// The hot CPUs on this CPU's core.
    fn hot_beside(&self) -> Option<CpuSet> {
        let threads = topology::threads(self.root, self.cpu);
        let hot = &self.plan.hot_cpus() & threads.value()?;
        (!hot.is_empty()).then_some(hot)
    }

    fn core(&mut self) -> io::Result<()> {
        let text = match topology::threads(self.root, self.cpu) {
            Reading::Value(threads) => {
                let others = &threads - &CpuSet::from_range(self.cpu..=self.cpu);
                if others.is_empty() {
                    "to itself: no sibling is online".to_owned()
                } else {
                    format!("shared with {others}, online")
                }
            }
            other => format!("unknown: {}", reason(&other)),
        };
        self.row("core", &text, Some("siblings"))
    }

    fn node(&mut self) -> io::Result<()> {
        let nodes = topology::online(self.root).and_then(|online| topology::nodes(self.root, &online));
        let mut text = match &nodes {
            Reading::Value(nodes) => match nodes.iter().find(|node| node.cpus.contains(self.cpu)) {
                Some(node) => format!("{} (CPUs {})", node.id, node.cpus),
                None => "in none that is shown".to_owned(),
            },
            other => format!("unknown: {}", reason(other)),
        };
        if let Some(nic) = &self.plan.nic {
            text = match topology::nic_node(self.root, nic) {
                Reading::Value(node) => format!("{text}; {nic} is on node {node}"),
                _ => format!("{text}; the node of {nic} is not known"),
            };
        }
        self.row("node", &text, self.plan.nic.as_ref().map(|_| "nic_node"))
    }

    fn scheduler(&mut self) -> io::Result<()> {
        let Some(observation) = observe(self.alone, "cpu.isolated") else { return Ok(()) };
        let text = match is_in(&observation, self.cpu) {
            Some(true) => with_notes("isolated, nothing is balanced to it", &observation, Bearing::Pass),
            Some(false) => with_notes("any task may be placed there", &observation, Bearing::Failure),
            None => format!("unknown: {}", doubt(&observation, "cpu.isolated")),
        };
        self.row("scheduler", &text, Some("isolated"))
    }

    fn tick(&mut self) -> io::Result<()> {
        let (Some(mask), Some(nohz)) = (observe(self.alone, "cpu.nohz_full"), observe(self.alone, "cmdline.nohz"))
        else {
            return Ok(());
        };
        let is_off = matches!(&nohz.reading, Reading::Value(Value::Word(word)) if word == "off");
        let text = match is_in(&mask, self.cpu) {
            Some(true) if is_off => "never stops: nohz=off on the boot line".to_owned(),
            Some(true) => "stops while one task runs (nohz_full)".to_owned(),
            Some(false) => with_notes("never stops", &mask, Bearing::Failure),
            None => format!("unknown: {}", doubt(&mask, "cpu.nohz_full")),
        };
        self.row("tick", &text, Some("nohz_full"))
    }

    fn callbacks(&mut self) -> io::Result<()> {
        let (Some(asked), Some(mask)) =
            (observe(self.alone, "cmdline.rcu_nocbs"), observe(self.alone, "cpu.nohz_full"))
        else {
            return Ok(());
        };
        let text = match (is_in(&asked, self.cpu), is_in(&mask, self.cpu)) {
            (Some(true), _) => "run elsewhere (rcu_nocbs)".to_owned(),
            (_, Some(true)) => "run elsewhere (implied by nohz_full)".to_owned(),
            (Some(false), Some(false)) => with_notes("run there, in softirq", &asked, Bearing::Failure),
            (None, _) => format!("unknown: {}", doubt(&asked, "cmdline.rcu_nocbs")),
            (_, None) => format!("unknown: {}", doubt(&mask, "cpu.nohz_full")),
        };
        self.row("RCU callbacks", &text, Some("rcu_nocbs"))
    }

    fn interrupts(&mut self) -> io::Result<()> {
        let lines = match irq::lines_at(self.alone, self.cpu) {
            Reading::Value(lines) => lines,
            other => {
                let text = format!("unknown: {}", reason(&other));
                return self.row("interrupts", &text, Some("irq_affinity"));
            }
        };
        let named = |wanted: Option<Reach>| {
            let lines = lines.iter().filter(|(_, reach)| reach.value().copied() == wanted);
            named(&lines.map(|(member, _)| member).collect::<Vec<_>>())
        };
        let kinds = [
            ("may fire there", Some(Reach::Asked)),
            ("delivered there until their next interrupt", Some(Reach::UntilNext)),
            ("managed, delivered there", Some(Reach::Delivered)),
            ("managed, fire there for I/O that it submits", Some(Reach::ForItsOwn)),
            ("cannot be judged", None),
        ];
        let parts: Vec<String> =
            kinds.iter().filter_map(|(what, reach)| Some(format!("{what}: {}", named(*reach)?))).collect();
        let text = if parts.is_empty() { "no line of a device fires there".to_owned() } else { parts.join("; ") };
        self.row("interrupts", &text, Some("irq_affinity"))
    }

    fn default_mask(&mut self) -> io::Result<()> {
        let Some(mask) = observe(self.alone, "irq.default_affinity") else { return Ok(()) };
        let text = match is_in(&mask, self.cpu) {
            _ if mask.reading == Reading::NotExposed => "unknown: not exposed".to_owned(),
            Some(true) => "lines that a driver sets up next may fire there".to_owned(),
            Some(false) => "lines that a driver sets up next keep off".to_owned(),
            None => format!("unknown: {}", doubt(&mask, "irq.default_affinity")),
        };
        self.row("default mask", &text, Some("irq_affinity"))
    }

    fn irqbalance(&mut self) -> io::Result<()> {
        let Some(names) = observe(self.alone, "process.names") else { return Ok(()) };
        let text = match &names.reading {
            Reading::Value(Value::Words(words)) if words.contains("irqbalance") => {
                match observe(self.alone, "irqbalance.banned") {
                    Some(banned) => {
                        let does = match is_in(&banned, self.cpu) {
                            Some(true) => "runs and keeps off",
                            Some(false) => "may move lines there",
                            None => "runs, and what it keeps off is not known",
                        };
                        with_notes(does, &banned, Bearing::Any)
                    }
                    None => "runs".to_owned(),
                }
            }
            Reading::Value(_) if names.gap.is_none() => "not running".to_owned(),
            _ => format!("unknown: {}", doubt(&names, "process.names")),
        };
        self.row("irqbalance", &text, Some("irqbalance"))
    }

    fn governor(&mut self) -> io::Result<()> {
        let governor = fact::find("cpu.governor").and_then(|fact| fact.observe_at(self.alone, self.cpu));
        let text = match governor.as_ref().map(|governor| &governor.reading) {
            Some(Reading::Value(governor)) => governor.to_string(),
            Some(other) => {
                let text = format!("unknown: {}", reason(other));
                governor.as_ref().map_or_else(|| text.clone(), |governor| with_notes(&text, governor, Bearing::Unknown))
            }
            None => return Ok(()),
        };
        self.row("governor", &text, Some("governor"))
    }

    fn idle_states(&mut self) -> io::Result<()> {
        let mut parts = Vec::new();
        if let Reading::Value(driver) = cpuidle::driver(self.alone) {
            parts.push(format!("driver {driver}"));
        }
        match cpuidle::states_of(self.alone, self.cpu) {
            Reading::Value(states) if !states.is_empty() => {
                parts.push(states.iter().map(shown_state).collect::<Vec<_>>().join(", "));
            }
            Reading::Value(_) | Reading::NotExposed => parts.push("no state is shown".to_owned()),
            other => parts.push(format!("states unknown: {}", reason(&other))),
        }
        for name in ["cmdline.idle", "cmdline.cpuidle_off", "cpuidle.max_cstate"] {
            let caps = observe(self.alone, name).filter(|cap| cap.reading.value().is_some());
            parts.extend(caps.iter().flat_map(|cap| cap.notes.iter().map(|note| note.text.clone())));
        }
        let deepest = fact::find("cpuidle.latency").and_then(|fact| fact.observe_at(self.alone, self.cpu));
        parts.extend(deepest.filter(|deepest| !deepest.notes.is_empty()).map(|deepest| {
            let notes: Vec<&str> = deepest.notes.iter().map(|note| note.text.as_str()).collect();
            format!("enters {}", notes.join("; "))
        }));
        self.row("idle states", &parts.join("; "), Some("cstate"))
    }

    fn realtime(&mut self) -> io::Result<()> {
        let throttle = fact::find("sched.rt_throttle").and_then(|fact| fact.observe_at(self.alone, self.cpu));
        let Some(throttle) = throttle else { return Ok(()) };
        let (taken, bearing) = match &throttle.reading {
            Reading::Value(Value::Micros(taken)) if throttle.gap.is_none() && taken.0 == 0 => {
                ("nothing is taken from a real-time thread that spins".to_owned(), Bearing::Pass)
            }
            Reading::Value(taken) if throttle.gap.is_none() => {
                (format!("{taken} of each second are taken from a real-time thread that spins"), Bearing::Failure)
            }
            _ => (format!("unknown: {}", doubt(&throttle, "sched.rt_throttle")), Bearing::Unknown),
        };
        let taken = if self.plan.realtime { taken } else { format!("{taken} (the plan has no such thread)") };
        let text = with_notes(&taken, &throttle, bearing);
        self.row("real time", &text, Some("rt_throttle"))
    }

    /// What other rules have against a hot CPU, those of the host as a whole among them.
    fn others(&mut self) -> io::Result<()> {
        let Some(report) = &self.report else { return Ok(()) };
        let wrong: Vec<(String, String)> = report
            .findings
            .iter()
            .filter(|finding| !SHOWN.contains(&finding.rule.as_str()))
            .filter(|finding| match finding.verdict() {
                Verdict::Fail => finding.level != Level::Info,
                Verdict::Unknown => finding.level == Level::Required,
                _ => false,
            })
            .map(|finding| {
                (finding.rule.clone(), format!("{}: {}", finding.verdict().name(), finding.evidence().message))
            })
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        self.page.heading("What else does not pass for it")?;
        let columns = wrong.iter().map(|(rule, _)| rule.len()).max().unwrap_or(0);
        wrong.iter().try_for_each(|(rule, text)| self.page.labelled(rule, columns, text))
    }
}

fn observe(host: &Host<'_>, name: &str) -> Option<Observation> {
    fact::find(name)?.observe(host).map(|observation| observation.as_ref().clone())
}

/// A text, and behind it the notes of an observation that bear on it.
fn with_notes(text: &str, observation: &Observation, bearing: Bearing) -> String {
    let notes: Vec<&str> = observation
        .notes
        .iter()
        .filter(|note| note.bearing == bearing || note.bearing == Bearing::Any)
        .map(|note| note.text.as_str())
        .collect();
    if notes.is_empty() { text.to_owned() } else { format!("{text}: {}", notes.join("; ")) }
}

/// Why a set or value is not known completely.
fn doubt(observation: &Observation, fact: &str) -> String {
    let doubt = observation.gap.as_ref().map(|gap| gap.doubt.clone()).or_else(|| observation.doubt(fact));
    doubt.map_or_else(|| "not known".to_owned(), |doubt| doubt.to_string())
}

fn reason<T>(reading: &Reading<T>) -> String {
    fact::Doubt::of("", reading).map_or_else(|| "not known".to_owned(), |doubt| doubt.reason)
}

/// `120 (eth0-TxRx-0), 121 (eth0-TxRx-1)`, cut after a few; none for no line.
fn named(lines: &[&Member]) -> Option<String> {
    let shown = |line: &&&Member| match line {
        Member::Line { irq, handlers, .. } if handlers.is_empty() => irq.to_string(),
        Member::Line { irq, handlers, .. } => format!("{irq} ({handlers})"),
        Member::Cpu(cpu) => cpu.to_string(),
    };
    let mut text = lines.iter().take(NAMED_LINES).map(|line| shown(&line)).collect::<Vec<_>>().join(", ");
    if lines.len() > NAMED_LINES {
        text = format!("{text} and {} more", lines.len() - NAMED_LINES);
    }
    (!lines.is_empty()).then_some(text)
}

fn shown_state(state: &State) -> String {
    let latency = match &state.latency {
        Reading::Value(latency) => format!("{latency} us"),
        other => reason(other),
    };
    let is_off = state.enabled == Reading::Value(false);
    format!("{} {latency}{}", state.name, if is_off { " (disabled)" } else { "" })
}
