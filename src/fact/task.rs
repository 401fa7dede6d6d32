//! Tasks: which CPUs they are allowed on.
//!
//! Sources: proc(5) (`/proc/PID/status`, `/proc/PID/stat`), kernel/kthread.c, include/linux/sched.h (`PF_KTHREAD`,
//! `PF_NO_SETAFFINITY`) and kernel/rcu/tree_nocb.h of Linux 6.1 and 6.12.

use super::host::Look;
use super::process::{KTHREADD, MARKS, PROC, Processes};
use super::{Fact, Host, Kind, Observation, Read, Source, Value, count, first_few};
use crate::cpuset::CpuSet;
use crate::reading::{NotUnderstood, Obstacle, Reading, quote};

/// The line of `/proc/PID/status` that is read.
pub(crate) const ALLOWED: &str = "Cpus_allowed_list:";

/// Flags of a task in `/proc/PID/stat` (include/linux/sched.h): a kernel thread, and one that may not be moved.
const PF_KTHREAD: u64 = 0x0020_0000;
const PF_NO_SETAFFINITY: u64 = 0x0400_0000;
/// The flags that are read.
pub(crate) const FLAGS: u64 = PF_KTHREAD | PF_NO_SETAFFINITY;

/// More tasks than are looked at; each takes some ten microseconds.
const MAX_TASKS: usize = 100_000;

/// How many tasks a note names before it counts the rest.
const NAMED_TASKS: usize = 8;

/// How the names of the program and its parts begin.
const ITSELF: &str = "quietcore";

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "rcu.offload_affinity",
        kind: Kind::Cpus,
        files: &["proc/*/comm", "proc/*/status", MARKS[0], MARKS[1], MARKS[2]],
        about: "the CPUs that the threads which run offloaded RCU callbacks (rcuo*) are allowed on; none where there is no such thread",
        read: Read::One(offload_affinity),
    },
    Fact {
        name: "process.strangers",
        kind: Kind::Cpus,
        files: &["proc/*/comm", "proc/*/status", "proc/*/stat", "proc/*/task/*/status", MARKS[0], MARKS[1], MARKS[2]],
        about: "the CPUs that tasks are allowed on which are neither bound to hot CPUs alone nor kernel threads that cannot be moved",
        read: Read::One(strangers),
    },
];

/// The CPUs that a status allows.
///
/// # Errors
/// No such line, or a list that is not understood.
pub(super) fn parse_allowed(status: &str) -> Result<CpuSet, NotUnderstood> {
    let list = status.lines().find_map(|line| line.strip_prefix(ALLOWED)).ok_or(NotUnderstood)?;
    CpuSet::parse_list(list.trim_start()).map_err(|_| NotUnderstood)
}

/// The flags of a task: the seventh number behind its name, which may hold anything.
pub(crate) fn parse_flags(stat: &str) -> Result<u64, NotUnderstood> {
    let (_, fields) = stat.rsplit_once(')').ok_or(NotUnderstood)?;
    fields.split_ascii_whitespace().nth(6).and_then(|flags| flags.parse().ok()).ok_or(NotUnderstood)
}

/// Its `status` need not be UTF-8: it holds the name.
fn allowed(host: &Host<'_>, folder: &str) -> Reading<CpuSet> {
    let bytes = host.root.read_bytes(&format!("{folder}/status"));
    let allowed = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).parse(parse_allowed);
    allowed.map(|cpus| host.within_possible(cpus))
}

/// Did the folder of a task go away while we looked?
fn is_gone(host: &Host<'_>, folder: &str, answer: &Reading<CpuSet>) -> bool {
    *answer == Reading::NotExposed && host.root.exists(folder) == Reading::NotExposed
}

/// Is it the name of a kernel thread that each CPU has for itself, and the task allowed on that CPU alone? `ksoftirqd/3`,
/// `kworker/3:1H-kblockd`.
fn is_per_cpu_thread(name: &str, allowed: &CpuSet) -> bool {
    let Some((_, rest)) = name.split_once('/').filter(|_| !is_offload_thread(name)) else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(digits);
    let is_end = rest.is_empty() || rest.starts_with(':');
    let cpu = number.parse().ok().filter(|_| is_end);
    cpu.is_some_and(|cpu| *allowed == CpuSet::from_range(cpu..=cpu))
}

/// `rcuop/3`, `rcuos/3`, `rcuob/3`, `rcuog/0`.
fn is_offload_thread(name: &str) -> bool {
    let letter = name.strip_prefix("rcuo").and_then(|rest| rest.split_once('/'));
    letter.is_some_and(|(letter, cpu)| letter.len() == 1 && cpu.parse::<u32>().is_ok())
}

/// `sshd:812`, and how many of its threads are meant where it has others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    name: String,
    pid: u32,
    /// How many of its tasks are meant.
    tasks: usize,
    /// Is the task with the process's own number among them?
    has_leader: bool,
    is_kernel: bool,
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", quote(&self.name), self.pid)?;
        match (self.tasks, self.has_leader) {
            (1, true) => Ok(()),
            (n, true) => write!(f, " ({})", count(n, "thread")),
            (n, false) => write!(f, " ({} beside the first)", count(n, "thread")),
        }
    }
}

impl Named {
    fn kernel_thread(name: &str, pid: u32) -> Self {
        Self { name: name.to_owned(), pid, tasks: 1, has_leader: true, is_kernel: true }
    }
}

/// The first few, user tasks before kernel threads.
fn named(tasks: &[Named]) -> String {
    let mut order: Vec<&Named> = tasks.iter().collect();
    order.sort_by_key(|task| (task.is_kernel, task.pid));
    first_few(&order, NAMED_TASKS)
}

/// The processes, if kernel threads are among them.
fn with_kernel_threads<'h>(look: &mut Look<'h, '_>) -> Reading<&'h Processes> {
    let processes = look.host.processes();
    match processes {
        Reading::Value(processes) => {
            look.source(processes.source());
            if let Some(doubt) = processes.gap() {
                look.doubt(doubt.clone(), None);
            }
        }
        other => {
            look.source(Source::unread("proc/1/comm", other));
            look.note_unknown("the processes of the host are not visible");
        }
    }
    processes.as_ref().and_then(|processes| {
        if processes.all().any(|(_, name)| name == KTHREADD) {
            return Reading::Value(processes);
        }
        look.note_unknown("no kernel thread is visible");
        Reading::NotExposed
    })
}

fn offload_affinity(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let hot = host.plan.hot_cpus();
    let reading = with_kernel_threads(&mut look).map(|processes| {
        let (mut all, mut touching) = (CpuSet::new(), Vec::new());
        let mut threads = 0;
        for (pid, name) in processes.all().filter(|(_, name)| is_offload_thread(name)) {
            threads += 1;
            let folder = format!("{PROC}/{pid}");
            match allowed(host, &folder) {
                Reading::Value(cpus) => {
                    if !cpus.is_disjoint(&hot) {
                        touching.push(Named::kernel_thread(name, pid));
                    }
                    all = &all | &cpus;
                }
                other => {
                    let path = format!("{folder}/status");
                    if !look.has_gap() {
                        look.source(Source::unread(&path, &other));
                    }
                    look.gap(&path, &other);
                }
            }
        }
        look.source(Source::summary("proc/*/status", count(threads, "offload thread")));
        if threads == 0 {
            look.note_pass("no such thread runs: nothing is offloaded");
        } else {
            look.note_pass(format!("{} on {}", count(threads, "thread"), Value::Cpus(all.clone())));
        }
        if !touching.is_empty() {
            look.note_failure(named(&touching));
        }
        all
    });
    look.cpus(reading)
}

/// What a process is, for the question whether it belongs on a hot CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    /// A kernel thread that stays where it is: each CPU's own, workers of workqueues and their rescuers.
    Immovable,
    /// Another kernel thread.
    Kernel,
    User,
}

impl Nature {
    /// By its flags; where the kernel does not show them, by its name. Flags that cannot be read make it a user's: that is
    /// advised against, where a name alone would excuse it.
    fn of(host: &Host<'_>, folder: &str, name: &str, leader: &CpuSet) -> Self {
        let stat = host.root.read_bytes(&format!("{folder}/stat"));
        match stat.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).parse(parse_flags) {
            Reading::Value(flags) => Self::of_flags(flags),
            Reading::NotExposed | Reading::Unset => Self::of_name(name, leader),
            Reading::Unreadable(_) | Reading::Malformed(_) => Self::User,
        }
    }

    fn of_flags(flags: u64) -> Self {
        match (flags & PF_KTHREAD != 0, flags & PF_NO_SETAFFINITY != 0) {
            (true, true) => Self::Immovable,
            (true, false) => Self::Kernel,
            (false, _) => Self::User,
        }
    }

    fn of_name(name: &str, leader: &CpuSet) -> Self {
        if name.starts_with("kworker/") || is_per_cpu_thread(name, leader) {
            Self::Immovable
        } else if name.contains('/') {
            Self::Kernel
        } else {
            Self::User
        }
    }
}

/// A task of a process: what it is allowed on, and whether it is the one with the process's own number.
struct Task {
    allowed: CpuSet,
    is_leader: bool,
}

/// The tasks of a host, by whether they belong on hot CPUs.
struct Sorted<'h, 'a> {
    look: Look<'h, 'a>,
    hot: CpuSet,
    /// Where those may run that are neither bound to hot CPUs alone nor kernel threads that stay.
    others: CpuSet,
    /// Those of them that may run on hot CPUs.
    strangers: Vec<Named>,
    /// Those that are bound to hot CPUs alone.
    bound: Vec<Named>,
    /// How many kernel threads on hot CPUs cannot be moved.
    immovable: usize,
    /// How many were looked at.
    tasks: usize,
}

impl Sorted<'_, '_> {
    /// The tasks of a process. What could not be read of them leaves a gap; what ended while we looked does not.
    fn tasks_of(&mut self, pid: u32) -> Vec<Task> {
        let host = self.look.host;
        let folder = format!("{PROC}/{pid}");
        let mut tasks = Vec::new();
        match allowed(host, &folder) {
            Reading::Value(allowed) => tasks.push(Task { allowed, is_leader: true }),
            other if is_gone(host, &folder, &other) => return tasks,
            other => self.unread(&format!("{folder}/status"), &other),
        }
        let path = format!("{folder}/task");
        let numbers = match host.root.list(&path) {
            Reading::Value(listing) if !listing.cut => listing.numbers(""),
            Reading::Value(listing) => {
                self.unread(&path, &listing.whole());
                Vec::new()
            }
            // A tree that was taken without them.
            Reading::NotExposed => Vec::new(),
            other => {
                self.unread(&path, &other);
                Vec::new()
            }
        };
        for number in numbers.into_iter().filter(|number| *number != pid) {
            let folder = format!("{folder}/task/{number}");
            match allowed(host, &folder) {
                Reading::Value(allowed) => tasks.push(Task { allowed, is_leader: false }),
                other if is_gone(host, &folder, &other) => {}
                other => self.unread(&format!("{folder}/status"), &other),
            }
        }
        tasks
    }

    /// The first of them is shown.
    fn unread<T>(&mut self, path: &str, reading: &Reading<T>) {
        if !self.look.has_gap() {
            self.look.source(Source::unread(path, reading));
        }
        self.look.gap(path, reading);
    }

    fn process(&mut self, pid: u32, name: &str) {
        let tasks = self.tasks_of(pid);
        self.tasks += tasks.len();
        let (on_hot, elsewhere): (Vec<Task>, Vec<Task>) =
            tasks.into_iter().partition(|task| !task.allowed.is_disjoint(&self.hot));
        self.others = elsewhere.iter().fold(self.others.clone(), |others, task| &others | &task.allowed);
        let Some(first) = on_hot.first() else { return };
        let nature = Nature::of(self.look.host, &format!("{PROC}/{pid}"), name, &first.allowed);
        if nature == Nature::Immovable {
            self.immovable += 1;
            return;
        }
        let is_bound = |task: &Task| nature == Nature::User && task.allowed.is_subset(&self.hot);
        let (bound, strangers): (Vec<Task>, Vec<Task>) = on_hot.into_iter().partition(is_bound);
        if let Some(task) = strangers.first().filter(|_| self.strangers.len() < NAMED_TASKS) {
            let path =
                if task.is_leader { format!("{PROC}/{pid}/status") } else { format!("{PROC}/{pid}/task/*/status") };
            self.look.source(Source::summary(&path, format!("{ALLOWED} {}", task.allowed)));
        }
        self.others = strangers.iter().fold(self.others.clone(), |others, task| &others | &task.allowed);
        for (tasks, names) in [(strangers, &mut self.strangers), (bound, &mut self.bound)] {
            if !tasks.is_empty() {
                names.push(Named {
                    name: name.to_owned(),
                    pid,
                    tasks: tasks.len(),
                    has_leader: tasks.iter().any(|task| task.is_leader),
                    is_kernel: nature == Nature::Kernel,
                });
            }
        }
    }
}

fn strangers(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let processes = match with_kernel_threads(&mut look) {
        Reading::Value(processes) => processes,
        other => return look.cpus(other.map(|_| CpuSet::new())),
    };
    let mut sorted = Sorted {
        look,
        hot: host.within_possible(host.plan.hot_cpus()),
        others: CpuSet::new(),
        strangers: Vec::new(),
        bound: Vec::new(),
        immovable: 0,
        tasks: 0,
    };
    for (pid, name) in processes.all().filter(|(pid, name)| !is_this_program(host, *pid, name)) {
        if sorted.tasks > MAX_TASKS {
            let why: Reading<()> = Reading::Unreadable(Obstacle::Other(format!("more than {MAX_TASKS} tasks")));
            sorted.look.gap(PROC, &why);
            break;
        }
        sorted.process(pid, name);
    }
    let Sorted { mut look, others, strangers, bound, immovable, tasks, .. } = sorted;
    look.source(Source::summary("proc/*/status", count(tasks, "task")));
    if !strangers.is_empty() {
        look.note_failure(named(&strangers));
    }
    if !bound.is_empty() {
        look.note(format!("bound to hot CPUs alone and taken for the plan's own: {}", named(&bound)));
    }
    if immovable > 0 {
        look.note_pass(format!("{} there cannot be moved", count(immovable, "kernel thread")));
    }
    look.cpus(Reading::Value(others))
}

/// The audit ends, and a gate becomes the process that it was asked to start.
fn is_this_program(host: &Host<'_>, pid: u32, name: &str) -> bool {
    name.starts_with(ITSELF) || (host.root.is_live() && pid == std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    #[test]
    fn what_a_status_allows() {
        let status = "Name:\tsshd\nCpus_allowed:\t1f\nCpus_allowed_list:\t0-4\nMems_allowed_list:\t0-1\n";
        assert_eq!(parse_allowed(status), Ok(set("0-4")));
        assert_eq!(parse_allowed("Cpus_allowed_list:\t\n"), Ok(CpuSet::new()));
        for bad in ["", "Cpus_allowed:\tff\n", "Cpus_allowed_list:\tall\n", "Cpus_allowed_list:\t0-\n"] {
            assert_eq!(parse_allowed(bad), Err(NotUnderstood), "{bad:?}");
        }
    }

    #[test]
    fn flags_stand_behind_a_name_that_may_hold_anything() {
        let nature = |stat: &str| parse_flags(stat).map(Nature::of_flags);
        assert_eq!(nature("18 (migration/0) S 2 0 0 0 -1 69238848 0 0 0\n"), Ok(Nature::Immovable));
        assert_eq!(nature("13 (kworker/R-mm_pe) I 2 0 0 0 -1 69238880 0 0\n"), Ok(Nature::Immovable));
        assert_eq!(nature("15 (rcu_preempt) I 2 0 0 0 -1 2129984 0 0\n"), Ok(Nature::Kernel));
        assert_eq!(nature("812 (a) 1 (b c) S 1 812 812 0 -1 4194560 1 2\n"), Ok(Nature::User));
        for bad in ["", "812 sshd S 1 2 3 4 -1 5\n", "812 (sshd) S 1 2 3 4\n", "812 (sshd) S 1 2 3 4 -1 x 7\n"] {
            assert_eq!(parse_flags(bad), Err(NotUnderstood), "{bad:?}");
        }
    }

    #[test]
    fn names_of_threads_that_each_cpu_has_for_itself() {
        for (name, allowed, expected) in [
            ("migration/21", "21", true),
            ("kworker/21:1H-kblockd", "21", true),
            ("kworker/21:1H-kblockd", "20-21", false),
            ("ksoftirqd/21", "22", false),
            ("irq/21-eth0", "21", false),
            ("rcuop/21", "21", false),
            ("rcu_preempt", "21", false),
            ("kworker/u64:3", "3", false),
        ] {
            assert_eq!(is_per_cpu_thread(name, &set(allowed)), expected, "{name} on {allowed}");
        }
    }

    #[test]
    fn names_of_offload_threads() {
        for name in ["rcuop/3", "rcuos/12", "rcuob/0", "rcuog/4"] {
            assert!(is_offload_thread(name), "{name}");
        }
        for name in ["rcuc/3", "rcuo/3", "rcuop/", "rcuop/x", "rcuop/3x", "xrcuop/3", "rcuop"] {
            assert!(!is_offload_thread(name), "{name}");
        }
    }

    #[test]
    fn without_flags_names_decide() {
        let nature = |name: &str, allowed: &str| Nature::of_name(name, &set(allowed));
        assert_eq!(nature("migration/3", "3"), Nature::Immovable);
        assert_eq!(nature("kworker/u8:0-events_unbound", "0-7"), Nature::Immovable);
        assert_eq!(nature("irq/24-eth0", "3"), Nature::Kernel);
        assert_eq!(nature("sshd", "3"), Nature::User);
    }

    #[test]
    fn a_note_names_a_few_user_tasks_first() {
        let task = |name: &str, pid, tasks, has_leader, is_kernel| Named {
            name: name.to_owned(),
            pid,
            tasks,
            has_leader,
            is_kernel,
        };
        let tasks =
            [task("kswapd0", 90, 1, true, true), task("java", 812, 33, true, false), task("a\nb", 7, 2, false, false)];
        assert_eq!(named(&tasks), "a\\nb:7 (2 threads beside the first), java:812 (33 threads), kswapd0:90");
        let many: Vec<Named> = (0..20).map(|pid| task("x", pid, 1, true, false)).collect();
        assert!(named(&many).ends_with("x:7, and 12 more"));
    }
}
