//! How a host's CPUs hang together: threads of a core, cores of a node, the node of a network interface.
//!
//! Everything here reads what the kernel shows now. It shows online CPUs only: a sibling that is offline has no topology
//! folder and has vanished from its partner's list, so that no sibling can be told from an offline one.

mod suggest;

use std::collections::BTreeMap;

pub use self::suggest::{Request, SuggestError, SuggestedPlan, suggest};
use crate::cpuset::{CpuSet, ListError};
use crate::plan::is_interface_name;
use crate::reading::{NotUnderstood, Reading};
use crate::root::Root;

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";
/// The network interfaces.
pub(crate) const NET: &str = "sys/class/net";

/// The files that a suggestion reads beside those of facts, as the patterns of facts are written.
pub(crate) const FILES: &[&str] = &[
    ROUTES,
    "sys/devices/cpu_core/cpus",
    "sys/devices/system/cpu/present",
    "sys/devices/system/cpu/cpu*/cpu_capacity",
    "sys/devices/system/node/node*/cpumap",
];

/// The IPv4 routes.
pub(crate) const ROUTES: &str = "proc/net/route";

/// Where the threads of a core are listed, the file with the widest reach first: `thread_siblings*` exist in every
/// kernel, `core_cpus*` from Linux 5.3; the masks are for trees that were captured without the lists.
type Parser = fn(&str) -> Result<CpuSet, ListError>;
const THREAD_FILES: &[(&str, Parser)] = &[
    ("thread_siblings_list", CpuSet::parse_list),
    ("core_cpus_list", CpuSet::parse_list),
    ("thread_siblings", CpuSet::parse_mask),
    ("core_cpus", CpuSet::parse_mask),
];

/// A NUMA node that has CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The number in `nodeN`.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// A physical core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its online threads, at least one.
    pub threads: CpuSet,
    /// How fast it is compared to the other cores of a hybrid host; the same for all on others. No unit.
    pub speed: u32,
}

/// The cores and nodes of a host, for a plan to be made of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The online CPUs.
    pub online: CpuSet,
    /// The cores by their lowest thread, ascending.
    pub cores: Vec<Core>,
    /// The nodes that have CPUs, ascending; at least one.
    pub nodes: Vec<Node>,
    /// Does the host show which CPUs share a core? If not, each CPU counts as a core.
    pub shows_cores: bool,
}

impl Topology {
    /// Reads the whole topology; whatever keeps the online CPUs or the nodes from being known is the answer.
    pub fn read(root: &Root) -> Reading<Self> {
        online(root).and_then(|online| {
            nodes(root, &online).map(|nodes| {
                let (cores, shows_cores) = cores(root, &online);
                Self { online, cores, nodes, shows_cores }
            })
        })
    }
}

/// The CPUs that are online. A host or tree without that file has those that are present, possible, or have a folder,
/// in this order, but for those whose own `online` file says 0.
pub fn online(root: &Root) -> Reading<CpuSet> {
    match root.read(&format!("{CPU}/online")).parse(CpuSet::parse_list) {
        Reading::NotExposed => {}
        answer => return answer,
    }
    known(root).map(|known| {
        let is_on =
            |cpu: &u32| root.read(&format!("{CPU}/cpu{cpu}/online")).value().is_none_or(|text| text.trim() != "0");
        known.iter().filter(is_on).collect()
    })
}

/// The CPUs that are there in any way, whether online or not.
fn known(root: &Root) -> Reading<CpuSet> {
    for file in ["present", "possible"] {
        match root.read(&format!("{CPU}/{file}")).parse(CpuSet::parse_list) {
            Reading::NotExposed => {}
            answer => return answer,
        }
    }
    match root.list(CPU).map(|listing| CpuSet::from_iter(listing.numbers("cpu"))) {
        Reading::Value(cpus) if cpus.is_empty() => Reading::NotExposed,
        answer => answer,
    }
}

/// The online threads of the core that holds this CPU, itself among them.
pub fn threads(root: &Root, cpu: u32) -> Reading<CpuSet> {
    let mut answer = Reading::NotExposed;
    for (file, parse) in THREAD_FILES {
        // A list without the CPU itself is about something else.
        let of_this_cpu = |text: &str| parse(text).ok().filter(|threads| threads.contains(cpu)).ok_or(NotUnderstood);
        let threads = root.read(&format!("{CPU}/cpu{cpu}/topology/{file}")).parse(of_this_cpu);
        match threads {
            Reading::Value(_) => return threads,
            // The first file that is there says what is wrong, unless another one has the answer.
            _ if answer == Reading::NotExposed => answer = threads,
            _ => {}
        }
    }
    answer
}

/// The cores of these CPUs, and whether the host shows them at all.
fn cores(root: &Root, online: &CpuSet) -> (Vec<Core>, bool) {
    let mut cores: BTreeMap<u32, CpuSet> = BTreeMap::new();
    let mut seen = CpuSet::new();
    let mut shows_cores = false;
    for cpu in online.iter() {
        if seen.contains(cpu) {
            continue;
        }
        let shown = threads(root, cpu);
        shows_cores |= shown.value().is_some();
        // What is left of the core when a list names offline CPUs, or CPUs that another core has already.
        let shown = shown.value().map(|threads| &(threads & online) - &seen);
        let threads = shown.unwrap_or_else(|| CpuSet::from_iter([cpu]));
        seen = &seen | &threads;
        cores.insert(cpu, threads);
    }
    let fast = root.read("sys/devices/cpu_core/cpus").parse(CpuSet::parse_list);
    let speed = |cpu: u32| {
        // Arm and RISC-V give a number up to 1024. x86 has a performance counter unit for each kind of core instead.
        let capacity = root.read(&format!("{CPU}/cpu{cpu}/cpu_capacity")).parse(|text| text.trim().parse());
        let is_fast = fast.value().is_some_and(|fast| fast.contains(cpu));
        capacity.value().copied().unwrap_or(u32::from(is_fast))
    };
    (cores.into_iter().map(|(first, threads)| Core { threads, speed: speed(first) }).collect(), shows_cores)
}

/// The nodes that have CPUs, ascending. Memory-only nodes are left out; a kernel without NUMA is one node, 0.
pub fn nodes(root: &Root, online: &CpuSet) -> Reading<Vec<Node>> {
    let node_of = |id: u32| node_cpus(root, id).map(|cpus| Node { id, cpus: &cpus & online });
    let ids = match root.list(NODE) {
        Reading::NotExposed => Vec::new(),
        Reading::Value(listing) => listing.numbers("node"),
        other => return other.map(|_| Vec::new()),
    };
    let mut nodes = Vec::new();
    for id in ids {
        match node_of(id) {
            Reading::Value(node) if node.cpus.is_empty() => {}
            Reading::Value(node) => nodes.push(node),
            Reading::NotExposed | Reading::Unset => {}
            other => return other.map(|_| Vec::new()),
        }
    }
    if nodes.is_empty() {
        nodes.push(Node { id: 0, cpus: online.clone() });
    }
    Reading::Value(nodes)
}

/// The CPUs of a node: its list, its mask, or the CPU entries in its folder (trees that were captured without either).
fn node_cpus(root: &Root, id: u32) -> Reading<CpuSet> {
    let folder = format!("{NODE}/node{id}");
    match root.read(&format!("{folder}/cpulist")).parse(CpuSet::parse_list) {
        Reading::NotExposed => {}
        answer => return answer,
    }
    match root.read(&format!("{folder}/cpumap")).parse(CpuSet::parse_mask) {
        Reading::NotExposed => {}
        answer => return answer,
    }
    root.list(&folder).map(|listing| CpuSet::from_iter(listing.numbers("cpu")))
}

/// The NUMA node of an interface's device. Unset: the firmware names none (`-1`, as in most virtual machines). Not
/// exposed: the interface has no device on a bus that has nodes.
pub fn nic_node(root: &Root, interface: &str) -> Reading<u32> {
    if !is_interface_name(interface) {
        return Reading::NotExposed;
    }
    // A virtio device is a child of its PCI device, and only the latter has a node. `..` is taken from where the link
    // `device` leads to, as the kernel does.
    for file in ["device/numa_node", "device/../numa_node"] {
        match root.read(&format!("{NET}/{interface}/{file}")).parse(|text| text.trim().parse::<i32>()) {
            Reading::NotExposed => {}
            answer => return answer.and_then(|node| u32::try_from(node).map_or(Reading::Unset, Reading::Value)),
        }
    }
    Reading::NotExposed
}

/// The interface of the IPv4 default route with the lowest metric.
pub fn default_route_interface(root: &Root) -> Reading<String> {
    root.read(ROUTES).and_then(|text| default_interface(&text).map_or(Reading::Unset, Reading::Value))
}

/// Picks the default route from `/proc/net/route`: interface, destination, gateway, flags, …, metric, mask, hex but for
/// the decimal metric.
fn default_interface(routes: &str) -> Option<String> {
    /// `RTF_UP`, and `RTF_REJECT` for a route that turns packets away (linux/route.h).
    const UP: u32 = 0x1;
    const REJECT: u32 = 0x200;
    let default_route = |line: &str| {
        let mut fields = line.split_whitespace();
        let interface = fields.next().filter(|name| is_interface_name(name))?;
        let (destination, flags) = (fields.next()?, fields.nth(1)?);
        let (metric, mask) = (fields.nth(2)?.parse::<u32>().ok()?, fields.next()?);
        let flags = u32::from_str_radix(flags, 16).ok()?;
        let is_default = destination == "00000000" && mask == "00000000" && flags & (UP | REJECT) == UP;
        is_default.then(|| (metric, interface.to_owned()))
    };
    // The header line has no numbers and so is no route. Of equal metrics the kernel takes the first.
    routes.lines().filter_map(default_route).min_by_key(|(metric, _)| *metric).map(|(_, interface)| interface)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::reading::quote;

    /// A tree on disk with these files.
    pub(crate) fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::open(dir.path()).unwrap();
        (dir, root)
    }

    fn set(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    #[test]
    fn threads_come_from_whatever_file_there_is() {
        let topology = "sys/devices/system/cpu/cpu2/topology";
        for (file, text, threads) in [
            ("thread_siblings_list", "2,10\n", Some("2,10")),
            ("thread_siblings_list", "2-3\r\n\0\0", Some("2-3")),
            ("core_cpus_list", "2\n", Some("2")),
            ("thread_siblings", "00000000,00000404\n", Some("2,10")),
            ("core_cpus", "404", Some("2,10")),
            ("thread_siblings_list", "3,10\n", None),
            ("thread_siblings_list", "\n", None),
            ("thread_siblings_list", "two", None),
        ] {
            let path = format!("{topology}/{file}");
            let (_dir, root) = tree(&[(&path, text)]);
            let expected = threads.map_or_else(|| Reading::Malformed(quote(text)), |list| Reading::Value(set(list)));
            assert_eq!(super::threads(&root, 2), expected, "{file} {text:?}");
        }
        let both = [("thread_siblings_list", "x"), ("core_cpus", "404")];
        let files = both.map(|(file, text)| (format!("{topology}/{file}"), text));
        let (_dir, root) = tree(&files.each_ref().map(|(path, text)| (path.as_str(), *text)));
        assert_eq!(super::threads(&root, 2), Reading::Value(set("2,10")));
        assert_eq!(super::threads(&root, 3), Reading::NotExposed);
    }

    #[test]
    fn online_cpus_are_told_by_the_best_file_there_is() {
        let cpu = "sys/devices/system/cpu";
        let path = |file: &str| format!("{cpu}/{file}");
        let cases = [
            (vec![("online", "0-3\n"), ("possible", "0-7\n")], Reading::Value(set("0-3"))),
            (vec![("online", "what\n"), ("possible", "0-7\n")], Reading::Malformed("what".into())),
            (vec![("present", "0-2\n"), ("possible", "0-7\n")], Reading::Value(set("0-2"))),
            (vec![("possible", "0-3\n"), ("cpu1/online", "0\n"), ("cpu2/online", "1\n")], Reading::Value(set("0,2-3"))),
            (
                vec![("cpu0/x", ""), ("cpu11/x", ""), ("cpu2/online", "0\n"), ("cpufreq/x", "")],
                Reading::Value(set("0,11")),
            ),
            (vec![("cpuidle/x", "")], Reading::NotExposed),
        ];
        for (files, expected) in cases {
            let files: Vec<(String, &str)> = files.iter().map(|(file, text)| (path(file), *text)).collect();
            let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            let (_dir, root) = tree(&files);
            assert_eq!(online(&root), expected, "{files:?}");
        }
    }

    #[test]
    fn nodes_without_cpus_are_left_out_and_no_numa_is_one_node() {
        let (_dir, root) = tree(&[
            ("sys/devices/system/node/node0/cpulist", "0-3\n"),
            ("sys/devices/system/node/node2/cpulist", "\n"),
            ("sys/devices/system/node/node10/cpumap", "000000f0\n"),
            ("sys/devices/system/node/node3/cpu8/x", ""),
            ("sys/devices/system/node/has_cpu", "0,3,10\n"),
        ]);
        let online = set("0-8");
        let nodes_of =
            |root| super::nodes(root, &online).map(|nodes| nodes.iter().map(|n| (n.id, n.cpus.to_string())).collect());
        let expected: Vec<(u32, String)> = vec![(0, "0-3".into()), (3, "8".into()), (10, "4-7".into())];
        assert_eq!(nodes_of(&root), Reading::Value(expected));
        let (_dir, root) = tree(&[]);
        assert_eq!(nodes_of(&root), Reading::Value(vec![(0, "0-8".to_owned())]));
        let (_dir, root) = tree(&[("sys/devices/system/node/node0/cpulist", "all")]);
        assert_eq!(nodes_of(&root), Reading::Malformed("all".into()));
    }

    #[test]
    fn the_node_of_a_nic_is_its_devices_or_its_parents() {
        let (dir, root) = tree(&[
            ("sys/class/net/ens1f0/device/numa_node", "1\n"),
            ("sys/class/net/vm0/device/numa_node", "-1\n"),
            ("sys/class/net/odd0/device/numa_node", "one\n"),
            ("sys/class/net/lo/operstate", "up\n"),
            ("sys/devices/pci0000:00/0000:00:03.0/numa_node", "2\n"),
            ("sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/operstate", "up\n"),
        ]);
        let net = "sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0";
        symlink("../../../virtio0", dir.path().join(net).join("device")).unwrap();
        symlink(format!("../../../{net}"), dir.path().join("sys/class/net/eth0")).unwrap();
        assert_eq!(nic_node(&root, "ens1f0"), Reading::Value(1));
        assert_eq!(nic_node(&root, "vm0"), Reading::Unset);
        assert_eq!(nic_node(&root, "odd0"), Reading::Malformed("one".into()));
        assert_eq!(nic_node(&root, "lo"), Reading::NotExposed);
        assert_eq!(nic_node(&root, "eth0"), Reading::Value(2));
        assert_eq!(nic_node(&root, "../net/ens1f0"), Reading::NotExposed);
    }

    #[test]
    fn the_default_route_has_the_lowest_metric() {
        let routes = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
*\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0
down0\t00000000\t0101A8C0\t0002\t0\t0\t1\t00000000\t0\t0\t0
eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth1\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
tun0\t00000000\t00000000\t0001\t0\t0\t50\t00000080\t0\t0\t0
eth2\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
garbage
";
        assert_eq!(default_interface(routes).as_deref(), Some("eth0"));
        assert_eq!(
            default_interface("tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n").as_deref(),
            Some("tun0")
        );
        assert_eq!(default_interface(""), None);
        let (_dir, root) = tree(&[("proc/net/route", "Iface\n")]);
        assert_eq!(default_route_interface(&root), Reading::Unset);
    }
}
