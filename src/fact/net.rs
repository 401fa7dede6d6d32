//! Network queues: which CPUs the kernel steers packets to.
//!
//! Sources: Documentation/networking/scaling.rst, Documentation/admin-guide/sysctl/net.rst (rps_default_mask),
//! net/core/net-sysfs.c and net/core/dev.c of Linux 6.1 and 6.12.

use rustix::io::Errno;

use super::host::Look;
use super::{Doubt, Fact, Host, Kind, Observation, Read, Source, count, first_few};
use crate::cpuset::CpuSet;
use crate::reading::{Obstacle, Reading};
use crate::topology::NET;

const RPS: &str = "sys/class/net/*/queues/rx-*/rps_cpus";
const XPS: &str = "sys/class/net/*/queues/tx-*/xps_cpus";
const DEFAULT: &str = "proc/sys/net/core/rps_default_mask";

/// What the first network namespace alone shows: in a container with its own the interfaces are not the host's.
const OF_THE_HOST: [&str; 2] = ["proc/sys/net/core/rps_sock_flow_entries", "proc/sys/net/core/netdev_budget"];

/// More queues than any host has.
const MAX_QUEUES: usize = 20_000;

/// How many queues a note names before it counts the rest.
const NAMED_QUEUES: usize = 6;

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "net.rps_cpus",
        kind: Kind::Cpus,
        files: &[RPS, OF_THE_HOST[0], OF_THE_HOST[1]],
        about: "the CPUs that receive queues steer packets to (rps_cpus), of all interfaces that can be seen",
        read: Read::One(rps_cpus),
    },
    Fact {
        name: "net.rps_default_mask",
        kind: Kind::Cpus,
        files: &[DEFAULT],
        about: "the CPUs that the receive queues of an interface steer packets to when it is made next (6.2)",
        read: Read::One(rps_default_mask),
    },
    Fact {
        name: "net.xps_shared",
        kind: Kind::Cpus,
        files: &[XPS],
        about: "the hot CPUs that send through a transmit queue of the plan's NIC which serves others too (xps_cpus); not exposed where the plan names none, or where no queue has a map",
        read: Read::One(xps_shared),
    },
];

/// Which queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Receive,
    Transmit,
}

impl Direction {
    fn prefix(self) -> &'static str {
        match self {
            Self::Receive => "rx-",
            Self::Transmit => "tx-",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Receive => "rps_cpus",
            Self::Transmit => "xps_cpus",
        }
    }

    /// Is it an answer that a queue has no mask? An interface with one transmit queue answers ENOENT, and a queue in no
    /// traffic class EINVAL.
    fn may_lack(self, answer: &Reading<CpuSet>) -> bool {
        self == Self::Transmit
            && matches!(answer, Reading::NotExposed | Reading::Unreadable(Obstacle::Errno(Errno::INVAL)))
    }
}

/// The masks of the queues of some interfaces.
#[derive(Default)]
struct Queues {
    /// The names of queues and their masks.
    masks: Vec<(String, CpuSet)>,
    /// How many interfaces they are of.
    interfaces: usize,
}

impl Queues {
    /// Reads the masks of an interface's queues. What could not be read of them leaves a gap.
    fn of_interface(&mut self, look: &mut Look<'_, '_>, interface: &str, direction: Direction) {
        let folder = format!("{NET}/{interface}/queues");
        let listing = match look.host.root.list(&folder) {
            Reading::Value(listing) => listing,
            // An interface that went away while we looked, or a link that leads nowhere.
            Reading::NotExposed if look.host.root.exists(&format!("{NET}/{interface}")) == Reading::NotExposed => {
                return;
            }
            other => return look.gap(&folder, &other),
        };
        self.interfaces += 1;
        let hot = look.host.plan.hot_cpus();
        for number in listing.numbers(direction.prefix()) {
            let name = format!("{}{number}", direction.prefix());
            let path = format!("{folder}/{name}/{}", direction.file());
            if self.masks.len() == MAX_QUEUES {
                let why: Reading<()> = Reading::Unreadable(Obstacle::Other(format!("more than {MAX_QUEUES} queues")));
                return look.gap(NET, &why);
            }
            let text = look.host.text(&path);
            let mask = text.clone().parse(CpuSet::parse_mask).map(|mask| look.host.within_possible(mask));
            match mask {
                Reading::Value(mask) => {
                    if !mask.is_disjoint(&hot) {
                        look.source(Source::of(&path, &text));
                    }
                    self.masks.push((format!("{interface} {name}"), mask));
                }
                unread if direction.may_lack(&unread) => {}
                unread => {
                    look.source(Source::of(&path, &text));
                    look.gap(&path, &unread);
                }
            }
        }
    }

    fn source(&self, path: &str) -> Source {
        Source::summary(
            path,
            format!("{} of {}", count(self.masks.len(), "queue"), count(self.interfaces, "interface")),
        )
    }
}

fn rps_cpus(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let listing = look.list(NET);
    let reading = listing.and_then(|listing| {
        let mut queues = Queues::default();
        // `bonding_masters` is a file.
        for interface in listing.entries.iter().filter(|entry| entry.is_dir || entry.is_link) {
            queues.of_interface(&mut look, &interface.name, Direction::Receive);
        }
        look.gap(NET, &listing.whole());
        if queues.masks.is_empty() && !look.has_gap() {
            look.source(Source::unread::<()>(RPS, &Reading::NotExposed));
            return Reading::NotExposed;
        }
        look.source(queues.source(RPS));
        let hot = host.plan.hot_cpus();
        let steered = queues.masks.iter().fold(CpuSet::new(), |all, (_, mask)| &all | mask);
        let touching: Vec<&str> =
            queues.masks.iter().filter(|(_, mask)| !mask.is_disjoint(&hot)).map(|(name, _)| name.as_str()).collect();
        if !touching.is_empty() {
            look.note_failure(format!("rps_cpus of {}", first_few(&touching, NAMED_QUEUES)));
        }
        Reading::Value(steered)
    });
    if reading.value().is_some() {
        are_all_of_the_host(&mut look);
        follows_readers(&mut look);
    }
    look.cpus(reading)
}

/// Leaves a gap where the interfaces may be those of a container alone.
fn are_all_of_the_host(look: &mut Look<'_, '_>) {
    if OF_THE_HOST.iter().any(|path| look.host.root.exists(path).value().is_some()) {
        return;
    }
    if let Some(doubt) = Doubt::of::<()>(OF_THE_HOST[0], &Reading::NotExposed) {
        look.note_unknown("in a container with a network of its own the interfaces of the host are not visible");
        look.doubt(doubt, None);
    }
}

/// Receive flow steering sends packets to the CPU of the process that reads them, whatever `rps_cpus` says.
fn follows_readers(look: &mut Look<'_, '_>) {
    if let Reading::Value(entries @ 1..) = look.host.text(OF_THE_HOST[0]).parse(super::parse_integer) {
        look.note(format!(
            "rps_sock_flow_entries is {entries}: queues with rps_flow_cnt follow the reader, hot or not"
        ));
    }
}

fn rps_default_mask(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(DEFAULT).parse(CpuSet::parse_mask);
    look.cpus(reading.map(|mask| host.within_possible(mask)))
}

fn xps_shared(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let Some(nic) = &host.plan.nic else { return look.cpus(Reading::NotExposed) };
    let mut queues = Queues::default();
    queues.of_interface(&mut look, nic, Direction::Transmit);
    if queues.masks.is_empty() && !look.has_gap() {
        look.source(Source::unread::<()>(XPS, &Reading::NotExposed));
        return look.cpus(Reading::NotExposed);
    }
    look.source(queues.source(XPS));
    let hot = host.plan.hot_cpus();
    let online = host.cpus(super::cpu::ONLINE);
    let (mut shared, mut sharing) = (CpuSet::new(), Vec::new());
    for (name, mask) in &queues.masks {
        if is_shared(mask, &hot, online.value()) {
            shared = &shared | &(mask & &hot);
            sharing.push(name.as_str());
        }
    }
    if !sharing.is_empty() {
        look.note_failure(format!("xps_cpus of {}", first_few(&sharing, NAMED_QUEUES)));
    }
    look.cpus(Reading::Value(shared))
}

/// Does a transmit queue serve hot CPUs and others that are online?
fn is_shared(mask: &CpuSet, hot: &CpuSet, online: Option<&CpuSet>) -> bool {
    let others = mask - hot;
    let others = online.map_or_else(|| others.clone(), |online| &others & online);
    !mask.is_disjoint(hot) && !others.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_shared_with_others_that_are_online() {
        let set = |list: &str| CpuSet::parse_list(list).unwrap();
        let (hot, online) = (set("2-3"), set("0-3"));
        for (mask, expected) in
            [("", false), ("0-1", false), ("2", false), ("2-3", false), ("1-2", true), ("2,4", false)]
        {
            assert_eq!(is_shared(&set(mask), &hot, Some(&online)), expected, "{mask:?}");
        }
        assert!(is_shared(&set("2,4"), &hot, None));
    }

    #[test]
    fn a_note_names_a_few_queues() {
        assert_eq!(first_few(&["eth0 rx-0"], NAMED_QUEUES), "eth0 rx-0");
        assert!(first_few(&["eth0 rx-0"; 20], NAMED_QUEUES).ends_with("eth0 rx-0, and 14 more"));
    }

    #[test]
    fn a_transmit_queue_may_have_no_mask() {
        let busy = Reading::Unreadable(Obstacle::Errno(Errno::BUSY));
        let invalid = Reading::Unreadable(Obstacle::Errno(Errno::INVAL));
        assert!(Direction::Transmit.may_lack(&Reading::NotExposed) && Direction::Transmit.may_lack(&invalid));
        assert!(!Direction::Transmit.may_lack(&busy) && !Direction::Receive.may_lack(&Reading::NotExposed));
    }
}
