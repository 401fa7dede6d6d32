//! Interrupt lines: where they may fire, and on whose behalf.
//!
//! Sources: Documentation/core-api/irq/irq-affinity.rst, kernel/irq/proc.c and kernel/irq/manage.c of Linux 6.12.

use std::rc::Rc;

use super::cmdline::{self, IsolCpus};
use super::host::Look;
use super::{
    Bearing, Cause, Doubt, Fact, Family, Host, Kind, Member, Note, Observation, Read, Source, Value, first_few,
};
use crate::cpuset::CpuSet;
use crate::reading::Reading;

const IRQ: &str = "proc/irq";
/// The mask that new lines get.
pub(super) const DEFAULT: &str = "proc/irq/default_smp_affinity";

/// From this version on the mode of `smp_affinity` says whether a line can be moved.
const MODE_TELLS: (u32, u32) = (6, 12);

/// How many lines a note names before it counts the rest.
const NAMED_LINES: usize = 8;

/// What tells where a line fires, and whether it can be moved.
const LINE_FILES: &[&str] = &[
    "proc/irq/*/smp_affinity_list",
    "proc/irq/*/smp_affinity",
    "proc/irq/*/effective_affinity_list",
    "proc/irq/*/effective_affinity",
    "proc/irq/*/*/",
    super::kernel::OSRELEASE,
];

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "irq.default_affinity",
        kind: Kind::Cpus,
        files: &[DEFAULT],
        about: "the CPUs that an interrupt line may fire on when a driver sets it up next",
        read: Read::One(default_affinity),
    },
    Fact {
        name: "irq.affinity",
        kind: Kind::Cpus,
        files: LINE_FILES,
        about: "the CPUs that a live line may fire on for others: its smp_affinity; of a line that cannot be moved its effective affinity, and none if only hot CPUs' own I/O makes it fire",
        read: Read::PerLine(lines),
    },
    Fact {
        name: "irq.effective_affinity",
        kind: Kind::Cpus,
        files: LINE_FILES,
        about: "the CPUs that a live line is delivered to now: its effective affinity, and none if only hot CPUs' own I/O makes it fire",
        read: Read::PerLine(|host| Rc::new(effective(host))),
    },
    Fact {
        name: "irq.managed_affinity",
        kind: Kind::Cpus,
        files: &[
            LINE_FILES[0],
            LINE_FILES[1],
            LINE_FILES[2],
            LINE_FILES[3],
            LINE_FILES[4],
            LINE_FILES[5],
            cmdline::PATH,
        ],
        about: "what irq.affinity is of a live line that cannot be moved; of any other line none",
        read: Read::PerLine(|host| Rc::new(managed(host))),
    },
];

fn lines(host: &Host<'_>) -> Rc<Family> {
    host.lines()
}

fn default_affinity(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(DEFAULT).parse(CpuSet::parse_mask);
    look.cpus(reading.map(|mask| host.within_possible(mask)))
}

/// Reads all live lines. A line is live when it has a handler, which shows as a folder in its own; a tree that lost all
/// of these folders is judged as if every line were live.
pub(super) fn read_lines(host: &Host<'_>) -> Family {
    let listing = match host.root.list(IRQ) {
        Reading::Value(listing) => listing,
        other => {
            let source = Source::unread(IRQ, &other);
            return Family { members: other.map(|_| Vec::new()), sources: vec![source], notes: Vec::new() };
        }
    };
    if listing.cut {
        let members = listing.whole().map(|()| Vec::new());
        return Family { members, sources: Vec::new(), notes: Vec::new() };
    }
    let mut judged = Judged::of(host);
    let mut is_any_handler_shown = false;
    let mut without: Vec<Line> = Vec::new();
    for line in listing.numbers("").into_iter().filter_map(|irq| Line::list(host, irq)) {
        is_any_handler_shown |= !line.handlers.is_empty();
        // Now, while the root has the line's folder at hand.
        if line.is_unlistable || !line.handlers.is_empty() { judged.line(&line) } else { without.push(line) }
    }
    if !is_any_handler_shown {
        without.drain(..).for_each(|line| judged.line(&line));
        // Those that could not be listed came first.
        judged.members.sort_by_key(|(member, _)| match member {
            Member::Line { irq, .. } => *irq,
            Member::Cpu(cpu) => *cpu,
        });
    }
    let dead = without.len();
    let text = format!("{}, {dead} without a handler", super::count(judged.members.len(), "live line"));
    let sources = vec![Source::summary("proc/irq/*/smp_affinity_list", text)];
    let members = if judged.members.is_empty() { Reading::NotExposed } else { Reading::Value(judged.members) };
    let mut family = Family { members, sources, notes: Vec::new() };
    family.note(&judged.pending, Bearing::Any, "still delivered to hot CPUs until their next interrupt");
    family.note(&judged.own, Bearing::Any, OWN);
    family
}

/// The live lines with what `of_line` makes of each, told what it is of `irq.affinity`; `path` stands for the files of all
/// of them. Where there is no line to judge, the family is what it is.
fn of_live_lines(
    host: &Host<'_>,
    path: &str,
    mut of_line: impl FnMut(&Judged<'_, '_>, &Member, &Rc<Observation>) -> Rc<Observation>,
) -> Family {
    let lines = host.lines();
    let Reading::Value(members) = &lines.members else { return lines.as_ref().clone() };
    let judged = Judged::of(host);
    let members: Vec<_> =
        members.iter().map(|(member, asked)| (member.clone(), of_line(&judged, member, asked))).collect();
    let text = super::count(members.len(), "live line");
    Family { members: Reading::Value(members), sources: vec![Source::summary(path, text)], notes: Vec::new() }
}

fn effective(host: &Host<'_>) -> Family {
    let (mut pending, mut allowed, mut own) = (Vec::new(), Vec::new(), Vec::new());
    let mut family = of_live_lines(host, "proc/irq/*/effective_affinity_list", |judged, member, asked| {
        let Member::Line { irq, can_be_moved, .. } = member else { return Rc::clone(asked) };
        if !can_be_moved {
            own.extend(judged.fires_for_its_own(*irq).then_some(*irq));
            return Rc::clone(asked);
        }
        let mut look = Look::at(host);
        let reading = judged.delivered(&mut look, *irq);
        let delivered = Rc::new(look.cpus(reading));
        match (judged.touches_hot(asked), judged.touches_hot(&delivered)) {
            (false, true) if asked.reading.value().is_some() => pending.push(*irq),
            (true, false) if delivered.reading.value().is_some() => allowed.push(*irq),
            _ => {}
        }
        delivered
    });
    family.note(&pending, Bearing::Any, "moved away already, and delivered to hot CPUs until their next interrupt");
    family.note(&allowed, Bearing::Any, "allowed on hot CPUs and delivered elsewhere now (see irq_affinity)");
    family.note(&own, Bearing::Any, OWN);
    family
}

fn managed(host: &Host<'_>) -> Family {
    let mut own = Vec::new();
    let (mut stuck, mut untold) = (0, 0);
    let is_told_by_mode = mode_tells(host);
    let mut family = of_live_lines(host, "proc/irq/*/smp_affinity", |judged, member, asked| {
        let Member::Line { irq, handlers, can_be_moved } = member else { return Rc::clone(asked) };
        if !can_be_moved {
            stuck += 1;
            own.extend(judged.fires_for_its_own(*irq).then_some(*irq));
            return Rc::clone(asked);
        }
        let mut look = Look::at(host);
        if handlers.is_empty() && !is_told_by_mode {
            untold += 1;
            judged.may_be_stuck(&mut look, *irq);
        }
        Rc::new(look.cpus(Reading::Value(CpuSet::new())))
    });
    let version = host.release().map_or((u32::MAX, 0), super::kernel::Release::version);
    let wants = |param: &cmdline::Param, grammar| {
        let value = param.value.as_deref().filter(|_| param.is("isolcpus"));
        value.is_some_and(|value| IsolCpus::parse_as(value, grammar, version).is_ok_and(|asked| asked.managed_irq))
    };
    let mut note = |text, bearing| family.notes.push(Note { text, bearing });
    if let Some(asked) = cmdline::asked(host, wants) {
        note(format!("{asked} keeps a line off only where its mask has another CPU to go to"), Bearing::Failure);
    }
    let how_many = match (stuck, untold) {
        (0, 0) => "every line can be moved".to_owned(),
        (stuck, 0) => format!("{stuck} cannot be moved"),
        (_, untold) => format!("of {} it does not show whether they can be moved", super::count(untold, "line")),
    };
    note(how_many, Bearing::Pass);
    family.note(&own, Bearing::Any, OWN);
    family
}

/// What is said of lines that cannot be moved and whose masks hold hot CPUs alone.
const OWN: &str = "cannot be moved, fire only for I/O that hot CPUs submit";

impl Family {
    /// A note on some lines, unless there are none.
    fn note(&mut self, lines: &[u32], bearing: Bearing, what: &str) {
        if !lines.is_empty() {
            self.notes.push(Note { text: format!("{what}: {}", named(lines)), bearing });
        }
    }
}

/// `lines 26,28`, cut after a few.
fn named(lines: &[u32]) -> String {
    format!("{} {}", if lines.len() == 1 { "line" } else { "lines" }, first_few(lines, NAMED_LINES))
}

/// A line and its handlers.
struct Line {
    irq: u32,
    handlers: Vec<String>,
    is_unlistable: bool,
}

impl Line {
    /// None for a line that went away while we looked.
    fn list(host: &Host<'_>, irq: u32) -> Option<Self> {
        match host.root.list(&format!("{IRQ}/{irq}")) {
            Reading::NotExposed | Reading::Unset => None,
            Reading::Value(listing) => {
                let handlers =
                    listing.entries.iter().filter(|entry| entry.is_dir).map(|entry| entry.name.clone()).collect();
                Some(Self { irq, handlers, is_unlistable: false })
            }
            Reading::Unreadable(_) | Reading::Malformed(_) => {
                Some(Self { irq, handlers: Vec::new(), is_unlistable: true })
            }
        }
    }

    /// A line of which every CPU has its own: it fires where its CPU makes it fire.
    fn is_per_cpu(&self) -> bool {
        self.handlers.iter().any(|name| {
            name == "arch_timer" || name.contains("pmu") || name.starts_with("IPI") || name.contains("percpu")
        })
    }

    /// Before Linux 6.12 only the names of handlers tell that a line is managed by its driver and cannot be moved.
    fn has_managed_name(&self) -> bool {
        self.handlers.iter().any(|name| is_nvme_queue(name) || is_virtio_queue(name))
    }

    fn can_be_moved(&self, host: &Host<'_>) -> bool {
        if mode_tells(host) {
            host.root.writable(&format!("{IRQ}/{}/smp_affinity", self.irq)) != Some(false)
        } else {
            !self.has_managed_name()
        }
    }
}

/// Does the mode of `smp_affinity` say on this kernel whether a line can be moved?
fn mode_tells(host: &Host<'_>) -> bool {
    host.release().is_some_and(|release| release.version() >= MODE_TELLS)
}

/// `nvme0q3`: the I/O queues of an NVMe disk; queue 0 is its admin queue and can be moved.
fn is_nvme_queue(name: &str) -> bool {
    let Some((disk, queue)) = name.strip_prefix("nvme").and_then(|rest| rest.split_once('q')) else { return false };
    is_decimal(disk) && is_decimal(queue) && queue.bytes().any(|b| b != b'0')
}

/// `virtio1-req.0`: the request queues of a virtio block device.
fn is_virtio_queue(name: &str) -> bool {
    let Some((device, queue)) = name.strip_prefix("virtio").and_then(|rest| rest.split_once("-req.")) else {
        return false;
    };
    is_decimal(device) && is_decimal(queue)
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

struct Judged<'h, 'a> {
    host: &'h Host<'a>,
    hot: CpuSet,
    pending: Vec<u32>,
    own: Vec<u32>,
    members: Vec<(Member, Rc<Observation>)>,
}

impl<'h, 'a> Judged<'h, 'a> {
    fn of(host: &'h Host<'a>) -> Self {
        Self { host, hot: host.plan.hot_cpus(), pending: Vec::new(), own: Vec::new(), members: Vec::new() }
    }
}

impl Judged<'_, '_> {
    fn line(&mut self, line: &Line) {
        if line.is_per_cpu() {
            return;
        }
        let mut look = Look::at(self.host);
        let can_be_moved = line.can_be_moved(self.host);
        let reading =
            if can_be_moved { self.movable(&mut look, line.irq) } else { self.immovable(&mut look, line.irq) };
        let member = Member::Line { irq: line.irq, handlers: line.handlers.join(" "), can_be_moved };
        self.members.push((member, Rc::new(look.answer(reading.map(Value::Cpus)))));
    }

    /// It may go wherever its mask allows, at any time; where it goes now matters only as a note.
    fn movable(&mut self, look: &mut Look<'_, '_>, irq: u32) -> Reading<CpuSet> {
        let mask = self.affinity(look, irq, "smp_affinity");
        if mask.value().is_some_and(|mask| mask.is_disjoint(&self.hot)) {
            let effective = self.affinity(&mut Look::at(self.host), irq, "effective_affinity");
            if effective.value().is_some_and(|effective| !effective.is_disjoint(&self.hot)) {
                self.pending.push(irq);
            }
        }
        mask
    }

    /// A line that its driver manages. A mask within the hot CPUs fires only for I/O that those submit; a mixed mask
    /// fires on a hot CPU for the I/O of others when that is where it is delivered.
    fn immovable(&mut self, look: &mut Look<'_, '_>, irq: u32) -> Reading<CpuSet> {
        let mask = match self.affinity(look, irq, "smp_affinity") {
            Reading::Value(mask) => mask,
            other => return other,
        };
        if self.leaves_no_other(&mask) {
            if !mask.is_disjoint(&self.hot) {
                self.own.push(irq);
            }
            return Reading::Value(CpuSet::new());
        }
        match self.affinity(look, irq, "effective_affinity") {
            Reading::NotExposed if mask.is_disjoint(&self.hot) => Reading::Value(mask),
            reading => reading,
        }
    }

    /// Does an answer hold a hot CPU?
    fn touches_hot(&self, observation: &Observation) -> bool {
        matches!(&observation.reading, Reading::Value(Value::Cpus(cpus)) if !cpus.is_disjoint(&self.hot))
    }

    /// Where a line that can be moved is delivered. Where nothing says so (before 4.13, and on some architectures since) it
    /// is somewhere within its mask.
    fn delivered(&self, look: &mut Look<'_, '_>, irq: u32) -> Reading<CpuSet> {
        match self.affinity(look, irq, "effective_affinity") {
            Reading::NotExposed => match self.affinity(look, irq, "smp_affinity") {
                Reading::Value(mask) if !mask.is_disjoint(&self.hot) => Reading::NotExposed,
                mask => mask,
            },
            effective => effective,
        }
    }

    /// Does a mask leave a line no online CPU but hot ones?
    fn leaves_no_other(&self, mask: &CpuSet) -> bool {
        let online = self.host.cpus(super::cpu::ONLINE);
        let alive = online.value().map_or_else(|| mask.clone(), |online| mask & online);
        (&alive - &self.hot).is_empty()
    }

    /// Does a line that cannot be moved fire only for I/O that hot CPUs submit?
    fn fires_for_its_own(&self, irq: u32) -> bool {
        let mask = self.affinity(&mut Look::at(self.host), irq, "smp_affinity");
        mask.value().is_some_and(|mask| self.leaves_no_other(mask) && !mask.is_disjoint(&self.hot))
    }

    /// A line of which neither a mode nor the name of a handler tells whether it can be moved: what it would add if not.
    fn may_be_stuck(&self, look: &mut Look<'_, '_>, irq: u32) {
        let unheard = &mut Look::at(self.host);
        let mask = self.affinity(unheard, irq, "smp_affinity");
        if mask.value().is_some_and(|mask| self.leaves_no_other(mask)) {
            return;
        }
        let cpus = match self.affinity(unheard, irq, "effective_affinity") {
            Reading::Value(effective) => Some(effective),
            _ => mask.value().cloned(),
        };
        let what = format!("{IRQ}/{irq}");
        let reason = "no handler shows that could tell whether it can be moved".to_owned();
        look.doubt(Doubt { cause: Cause::NotExposed, what, reason }, cpus);
    }

    /// The list file, or the mask file where a tree holds only that.
    fn affinity(&self, look: &mut Look<'_, '_>, irq: u32, name: &str) -> Reading<CpuSet> {
        let list = look.read_if_there(&format!("{IRQ}/{irq}/{name}_list")).parse(CpuSet::parse_list);
        let reading = match list {
            Reading::NotExposed => look.read(&format!("{IRQ}/{irq}/{name}")).parse(CpuSet::parse_mask),
            list => list,
        };
        reading.map(|set| self.host.within_possible(set))
    }
}

/// How an interrupt line comes to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Its mask holds the CPU, and it can be moved: it may fire there at any time.
    Asked,
    /// Its mask does not, but it is delivered there until its next interrupt.
    UntilNext,
    /// It cannot be moved and is delivered there, for the I/O of other CPUs too.
    Delivered,
    /// It cannot be moved and fires there for I/O which that CPU submits.
    ForItsOwn,
}

/// The live lines that come to a CPU, in their order, and those that cannot be judged.
pub fn lines_at(host: &Host<'_>, cpu: u32) -> Reading<Vec<(Member, Reading<Reach>)>> {
    let judged = Judged::of(host);
    let affinity = |irq, name| judged.affinity(&mut Look::at(host), irq, name);
    let alone = CpuSet::from_range(cpu..=cpu);
    let family = host.lines();
    family.members.as_ref().map(|members| {
        let mut coming = Vec::new();
        for member in members.iter().map(|(member, _)| member) {
            let Member::Line { irq, can_be_moved, .. } = member else { continue };
            let mask = match affinity(*irq, "smp_affinity") {
                Reading::Value(mask) => mask,
                other => {
                    coming.push((member.clone(), other.map(|_| Reach::Asked)));
                    continue;
                }
            };
            let effective = affinity(*irq, "effective_affinity");
            let is_here = effective.value().is_some_and(|effective| effective.contains(cpu));
            let reach = match (can_be_moved, mask.contains(cpu)) {
                (true, true) => Reach::Asked,
                (true, false) if is_here => Reach::UntilNext,
                (false, _) if is_here && mask != alone => Reach::Delivered,
                (false, true) if mask == alone || effective.value().is_none() => Reach::ForItsOwn,
                _ => continue,
            };
            coming.push((member.clone(), Reading::Value(reach)));
        }
        coming
    })
}

/// The lines that can be moved and touch a hot CPU. For irqbalance, which would have moved them.
///
/// # Errors
/// The doubt that is left when no line is known to and one cannot be judged.
pub(super) fn lines_touching_hot(host: &Host<'_>) -> Result<Vec<u32>, Doubt> {
    let family = host.lines();
    let hot = host.plan.hot_cpus();
    let members = match &family.members {
        Reading::Value(members) => members,
        other => return Doubt::of(IRQ, other).map_or(Ok(Vec::new()), Err),
    };
    let mut touching = Vec::new();
    let mut doubt = None;
    for (member, observation) in members {
        let Member::Line { irq, can_be_moved: true, .. } = member else { continue };
        match &observation.reading {
            Reading::Value(Value::Cpus(cpus)) if !cpus.is_disjoint(&hot) => touching.push(*irq),
            reading => doubt = doubt.or_else(|| Doubt::of(&member.to_string(), reading)),
        }
    }
    match doubt {
        Some(doubt) if touching.is_empty() => Err(doubt),
        _ => Ok(touching),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_managed_queues() {
        for name in ["nvme0q1", "nvme12q31", "nvme0q10"] {
            assert!(is_nvme_queue(name), "{name}");
        }
        for name in ["nvme0q0", "nvme0q", "nvmeq1", "nvme0q1x", "nvme0", "xnvme0q1"] {
            assert!(!is_nvme_queue(name), "{name}");
        }
        assert!(is_virtio_queue("virtio1-req.0") && is_virtio_queue("virtio10-req.12"));
        for name in ["virtio0-input.0", "virtio1-req.", "virtio-req.1", "virtio1-request.0"] {
            assert!(!is_virtio_queue(name), "{name}");
        }
    }

    #[test]
    fn handlers_of_per_cpu_lines() {
        let line = |name: &str| Line { irq: 1, handlers: vec![name.to_owned()], is_unlistable: false };
        for name in ["arch_timer", "arm-pmu", "IPI0", "xen-percpu-virq"] {
            assert!(line(name).is_per_cpu(), "{name}");
        }
        for name in ["eth0", "timer", "acpi"] {
            assert!(!line(name).is_per_cpu(), "{name}");
        }
    }

    #[test]
    fn a_note_names_a_few_lines() {
        assert_eq!(named(&[26]), "line 26");
        assert_eq!(named(&[26, 28]), "lines 26, 28");
        assert!(named(&(0..20).collect::<Vec<_>>()).ends_with("and 12 more"));
    }
}
