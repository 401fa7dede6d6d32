//! The plan that a host's topology suggests.
//!
//! One physical core per hot role on the node of the interface, the highest-numbered cores first, because kernels and
//! services crowd on the low ones; never the core of CPU 0, which cannot be freed of interrupts and timekeeping. The
//! first thread of each is hot and the others stay idle; every other CPU is housekeeping, and its highest one takes the
//! cold roles.

use std::fmt;

use thiserror::Error;

use super::{Core, NET, Node, Topology, default_route_interface, nic_node};
use crate::cpuset::CpuSet;
use crate::plan::{self, Plan, Role};
use crate::problem::{FileProblems, did_you_mean};
use crate::reading::{Reading, is_obeyed, printable};
use crate::root::Root;

/// The hot roles of a plan that nobody asked for.
const DEFAULT_HOT: [&str; 2] = ["hot0", "hot1"];

/// What a plan is wanted for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The interface that the hot path serves.
    pub nic: Option<String>,
    /// The names of the hot roles, one core for each; none: as many as there are spare cores, at most two.
    pub hot: Vec<String>,
    /// The names of the cold roles.
    pub cold: Vec<String>,
}

/// A plan as the topology suggests it. `Display` writes it as the text of a plan file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedPlan {
    /// The interface that the hot path serves.
    pub nic: Option<String>,
    /// The node that the hot cores are on.
    pub node: u32,
    /// The hot roles, one CPU each.
    pub hot: Vec<Role>,
    /// The cold roles, all on one CPU.
    pub cold: Vec<Role>,
    /// The other threads of the hot cores.
    pub idle: CpuSet,
    /// Every other online CPU.
    pub housekeeping: CpuSet,
    /// What the reader should know about it, as sentences without a full stop.
    pub notes: Vec<String>,
}

/// Why no plan can be suggested. The texts are lowercase fragments.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SuggestError {
    /// The host does not say which CPUs are online, or which node they are on.
    #[error("the topology of the host cannot be read: {0}")]
    Topology(String),
    /// There is no interface of that name.
    #[error("there is no interface `{nic}`{}", hint.as_ref().map(|name| format!(": did you mean `{name}`?")).unwrap_or_default())]
    NoInterface {
        /// The name asked for.
        nic: String,
        /// A name that is close to it.
        hint: Option<String>,
    },
    /// A role that no plan can have.
    #[error("`{0}` cannot be the name of a role")]
    RoleName(String),
    /// A role that is asked for twice.
    #[error("role `{0}` is given twice")]
    RoleTwice(String),
    /// More hot roles than cores.
    #[error("hot roles need a physical core each: {wanted} wanted, and node {node} has {spare} to spare")]
    TooFewCores {
        /// How many hot roles are wanted.
        wanted: usize,
        /// The node that they are wanted on.
        node: u32,
        /// How many of its cores do not hold CPU 0.
        spare: usize,
    },
    /// Nobody asked for a number, and there is not one.
    #[error("nothing to spare: {} on node {node}, kept for the kernel and everything else", cores_of(*cpus))]
    NothingToSpare {
        /// The node that was looked at.
        node: u32,
        /// How many online CPUs it has.
        cpus: usize,
    },
}

fn cores_of(cpus: usize) -> String {
    if cpus == 1 { "there is one CPU".to_owned() } else { format!("there is one core with {cpus} CPUs") }
}

/// Suggests a plan for these roles. When nobody says for what: one hot role per spare core of the node, at most two, on the
/// node of the default route's interface.
pub fn suggest(root: &Root, request: &Request) -> Result<SuggestedPlan, SuggestError> {
    check_names(request)?;
    let topology = read(root)?;
    if let Some(nic) = &request.nic {
        check_interface(root, nic)?;
    }
    let is_open = request.hot.is_empty();
    let near_default_route = || default_route_interface(root).value().cloned().filter(|_| is_open);
    let nic = request.nic.clone().or_else(near_default_route);
    let mut notes = Vec::new();
    let node = node_for(root, &topology, nic.as_deref(), &mut notes);
    let spare = spare_cores(&topology, node);
    let hot = if is_open {
        DEFAULT_HOT.iter().take(spare.len()).map(|name| (*name).to_owned()).collect()
    } else {
        request.hot.clone()
    };
    if hot.is_empty() {
        return Err(SuggestError::NothingToSpare { node: node.id, cpus: node.cpus.len() });
    }
    if spare.len() < hot.len() {
        return Err(SuggestError::TooFewCores { wanted: hot.len(), node: node.id, spare: spare.len() });
    }
    let request = Request { nic, hot, cold: request.cold.clone() };
    Ok(assign(&topology, node.id, &spare, &request, notes))
}

fn read(root: &Root) -> Result<Topology, SuggestError> {
    let why = match Topology::read(root) {
        Reading::Value(topology) if !topology.online.is_empty() => return Ok(topology),
        Reading::Value(_) => "no CPU is online".to_owned(),
        Reading::NotExposed | Reading::Unset => "it shows no CPUs".to_owned(),
        Reading::Unreadable(obstacle) => obstacle.to_string(),
        Reading::Malformed(text) => format!("`{text}` is not a list of CPUs"),
    };
    Err(SuggestError::Topology(why))
}

fn check_names(request: &Request) -> Result<(), SuggestError> {
    let names: Vec<&String> = request.hot.iter().chain(&request.cold).collect();
    for (index, name) in names.iter().enumerate() {
        if !plan::is_role_name(name) {
            return Err(SuggestError::RoleName((*name).clone()));
        }
        if names[..index].contains(name) {
            return Err(SuggestError::RoleTwice((*name).clone()));
        }
    }
    Ok(())
}

/// Refuses a misspelt interface, where the host or tree shows interfaces at all.
fn check_interface(root: &Root, nic: &str) -> Result<(), SuggestError> {
    let listing = root.list(NET);
    let names: Vec<&str> = listing.value().map_or(&[][..], |l| &l.entries).iter().map(|e| e.name.as_str()).collect();
    if plan::is_interface_name(nic) && (names.contains(&nic) || names.is_empty()) {
        return Ok(());
    }
    Err(SuggestError::NoInterface { nic: nic.to_owned(), hint: did_you_mean(nic, names).map(str::to_owned) })
}

/// The node of the interface, or the lowest one with CPUs.
fn node_for<'a>(root: &Root, topology: &'a Topology, nic: Option<&str>, notes: &mut Vec<String>) -> &'a Node {
    let lowest = &topology.nodes[0];
    let Some(nic) = nic else { return lowest };
    let answer = nic_node(root, nic);
    let found = answer.value().and_then(|id| topology.nodes.iter().find(|node| node.id == *id));
    if let Some(node) = found {
        return node;
    }
    let lowest_id = lowest.id;
    match answer {
        Reading::Value(id) => {
            notes.push(format!("{nic} is on node {id}, which has no CPU online: this is node {lowest_id}"));
        }
        _ if topology.nodes.len() > 1 => {
            notes.push(format!("the host does not say which node {nic} is on: this is node {lowest_id}"));
        }
        _ => {}
    }
    lowest
}

/// The cores of a node that may be hot: all but the one that holds CPU 0 or, where that is offline, the lowest CPU.
fn spare_cores<'a>(topology: &'a Topology, node: &Node) -> Vec<&'a Core> {
    let boot = topology.online.first().unwrap_or(0);
    let is_spare = |core: &&Core| {
        let first = core.threads.first();
        !core.threads.contains(boot) && first.is_some_and(|first| node.cpus.contains(first))
    };
    topology.cores.iter().filter(is_spare).collect()
}

/// Gives each hot role a core. There are enough of them.
fn assign(topology: &Topology, node: u32, spare: &[&Core], request: &Request, mut notes: Vec<String>) -> SuggestedPlan {
    let first = |core: &Core| core.threads.first().unwrap_or(0);
    let mut chosen = spare.to_vec();
    // On a hybrid host the highest numbers are the slow cores, so that speed comes first.
    chosen.sort_by_key(|core| std::cmp::Reverse((core.speed, first(core))));
    chosen.truncate(request.hot.len());
    chosen.sort_by_key(|core| first(core));
    let fastest = topology.cores.iter().map(|core| core.speed).max();
    let slow: CpuSet = chosen.iter().filter(|core| Some(core.speed) != fastest).map(|core| first(core)).collect();
    if !slow.is_empty() {
        notes.push(format!("CPUs {slow} are on slower cores: there are not enough fast ones"));
    }
    if !topology.shows_cores {
        notes.push("the host does not show which CPUs share a core: each is taken for one".to_owned());
    }
    let role = |(name, cpu): (&String, u32)| Role { name: name.clone(), cpus: CpuSet::from_iter([cpu]) };
    let hot: Vec<Role> = request.hot.iter().zip(chosen.iter().map(|core| first(core))).map(role).collect();
    let hot_cpus: CpuSet = chosen.iter().map(|core| first(core)).collect();
    let taken = chosen.iter().fold(CpuSet::new(), |all, core| &all | &core.threads);
    let housekeeping = &topology.online - &taken;
    // The core of the lowest CPU is never taken, so that there is a highest housekeeping CPU.
    let highest = housekeeping.last().unwrap_or(0);
    let cold = request.cold.iter().map(|name| role((name, highest))).collect();
    SuggestedPlan { nic: request.nic.clone(), node, hot, cold, idle: &taken - &hot_cpus, housekeeping, notes }
}

impl SuggestedPlan {
    /// The same plan, read back from its own text.
    pub fn plan(&self) -> Result<Plan, FileProblems> {
        Plan::parse("suggested plan", &self.to_string())
    }
}

impl fmt::Display for SuggestedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "# {}", printable(note))?;
        }
        if let Some(nic) = &self.nic {
            writeln!(f, "nic = {}", quoted(nic))?;
        }
        // Left out when there are none: siblings that come online later are then still looked for.
        if !self.idle.is_empty() {
            writeln!(f, "idle = \"{}\"", self.idle)?;
        }
        writeln!(f, "housekeeping = \"{}\"", self.housekeeping)?;
        f.write_str(OPEN_KEYS)?;
        for (header, roles) in [("[hot]", &self.hot), ("[cold]", &self.cold)] {
            if !roles.is_empty() {
                writeln!(f, "\n{header}")?;
            }
            for role in roles {
                writeln!(f, "{} = {}", key(&role.name), role.cpus)?;
            }
        }
        Ok(())
    }
}

/// What a topology cannot tell.
const OPEN_KEYS: &str = "\
# realtime = true             # if hot threads run under a real-time policy
# locked-memory = \"1GiB\"      # what the process will lock
# max-wakeup-latency = \"1us\"  # the deepest idle state allowed on hot CPUs
";

/// A name as a TOML key.
fn key(name: &str) -> String {
    let is_bare = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if is_bare && !name.is_empty() { name.to_owned() } else { quoted(name) }
}

/// A text as a TOML basic string.
fn quoted(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if is_obeyed(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::tree;
    use super::*;

    /// A host of sockets × cores × threads as Linux usually numbers it: the first threads of a socket, then the second
    /// ones, socket after socket. One node a socket.
    fn host(sockets: u32, cores: u32, threads: u32) -> Vec<(String, String)> {
        let all = sockets * cores * threads;
        let mut files = vec![("sys/devices/system/cpu/online".to_owned(), format!("0-{}\n", all - 1))];
        for socket in 0..sockets {
            let base = socket * cores * threads;
            let node = format!("sys/devices/system/node/node{socket}/cpulist");
            files.push((node, format!("{base}-{}\n", base + cores * threads - 1)));
            for core in 0..cores {
                let list: CpuSet = (0..threads).map(|thread| base + core + thread * cores).collect();
                for cpu in list.iter() {
                    let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
                    files.push((path, format!("{list}\n")));
                }
            }
        }
        files
    }

    fn lay(files: &[(String, String)]) -> (tempfile::TempDir, Root) {
        tree(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
    }

    fn with(mut files: Vec<(String, String)>, more: &[(&str, &str)]) -> Vec<(String, String)> {
        files.extend(more.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
        files
    }

    fn request(nic: Option<&str>, hot: &str, cold: &str) -> Request {
        let names = |list: &str| list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Request { nic: nic.map(str::to_owned), hot: names(hot), cold: names(cold) }
    }

    fn ask(
        files: &[(String, String)],
        nic: Option<&str>,
        hot: &str,
        cold: &str,
    ) -> Result<SuggestedPlan, SuggestError> {
        let (_dir, root) = lay(files);
        suggest(&root, &request(nic, hot, cold))
    }

    const NIC: &[(&str, &str)] = &[("sys/class/net/ens1f0/device/numa_node", "1\n")];
    const VM_NIC: &[(&str, &str)] = &[("sys/class/net/ens1f0/device/numa_node", "-1\n")];

    #[test]
    fn the_worked_case() {
        let plan = ask(&with(host(2, 8, 2), NIC), Some("ens1f0"), "feed,strategy,gateway", "logger").unwrap();
        assert_eq!(
            plan.to_string(),
            "\
nic = \"ens1f0\"
idle = \"29-31\"
housekeeping = \"0-20,24-28\"
# realtime = true             # if hot threads run under a real-time policy
# locked-memory = \"1GiB\"      # what the process will lock
# max-wakeup-latency = \"1us\"  # the deepest idle state allowed on hot CPUs

[hot]
feed = 21
strategy = 22
gateway = 23

[cold]
logger = 28
"
        );
    }

    #[test]
    fn too_few_cores_are_counted() {
        let nine = "a,b,c,d,e,f,g,h,i";
        let error = ask(&with(host(2, 8, 2), NIC), Some("ens1f0"), nine, "").unwrap_err();
        assert_eq!(error.to_string(), "hot roles need a physical core each: 9 wanted, and node 1 has 8 to spare");
        // On the node of CPU 0 there is one less.
        let error = ask(&host(2, 8, 2), None, "a,b,c,d,e,f,g,h", "").unwrap_err();
        assert_eq!(error, SuggestError::TooFewCores { wanted: 8, node: 0, spare: 7 });
    }

    #[test]
    fn a_nic_without_a_node_gives_the_lowest_one_and_says_so() {
        let plan = ask(&with(host(2, 4, 1), VM_NIC), Some("ens1f0"), "a", "").unwrap();
        assert_eq!((plan.node, plan.hot[0].cpus.to_string().as_str()), (0, "3"));
        assert!(plan.to_string().starts_with("# the host does not say which node ens1f0 is on: this is node 0\n"));
        // With one node there is nothing to say, unless it is another one.
        assert_eq!(ask(&with(host(1, 4, 1), VM_NIC), Some("ens1f0"), "a", "").unwrap().notes, [""; 0]);
        let memory_alone = [("sys/devices/system/node/node1/cpulist", "\n")];
        for sockets in [1, 2] {
            let mut files = with(host(sockets, 4, 1), NIC);
            files.retain(|(path, _)| !path.ends_with("node1/cpulist"));
            let plan = ask(&with(files, &memory_alone), Some("ens1f0"), "a", "").unwrap();
            assert_eq!(plan.notes, ["ens1f0 is on node 1, which has no CPU online: this is node 0"], "{sockets}");
            assert!(plan.to_string().starts_with("# ens1f0 is on node 1, ") && plan.plan().is_ok());
        }
    }

    #[test]
    fn without_smt_nothing_is_idle() {
        let plan = ask(&host(1, 4, 1), None, "a,b", "log").unwrap();
        assert!(plan.idle.is_empty() && !plan.to_string().contains("idle ="));
        assert_eq!((plan.housekeeping.to_string().as_str(), plan.cold[0].cpus.to_string().as_str()), ("0-1", "1"));
    }

    #[test]
    fn offline_cpus_are_nowhere_in_the_plan() {
        let mut files = host(1, 4, 2);
        files[0].1 = "0-5\n".to_owned();
        let plan = ask(&files, None, "a,b", "").unwrap();
        assert_eq!(plan.plan().unwrap().hot_cpus().to_string(), "2-3");
        assert_eq!((plan.idle.to_string().as_str(), plan.housekeeping.to_string().as_str()), ("", "0-1,4-5"));
        // Without CPU 0 the lowest core is kept instead.
        let mut files = host(1, 4, 1);
        files[0].1 = "1-3\n".to_owned();
        let plan = ask(&files, None, "a,b", "").unwrap();
        assert_eq!(
            (plan.plan().unwrap().hot_cpus().to_string().as_str(), plan.housekeeping.to_string().as_str()),
            ("2-3", "1")
        );
    }

    #[test]
    fn fast_cores_come_before_slow_ones_with_higher_numbers() {
        let hybrid = with(host(1, 6, 1), &[("sys/devices/cpu_core/cpus", "0-2\n")]);
        let plan = ask(&hybrid, None, "a,b", "").unwrap();
        assert_eq!((plan.plan().unwrap().hot_cpus().to_string().as_str(), plan.notes.len()), ("1-2", 0));
        let plan = ask(&hybrid, None, "a,b,c", "").unwrap();
        assert_eq!(plan.plan().unwrap().hot_cpus().to_string(), "1-2,5");
        assert!(plan.notes[0].starts_with("CPUs 5 are on slower cores"));
        let arm = [
            ("sys/devices/system/cpu/cpu1/cpu_capacity", "1024\n"),
            ("sys/devices/system/cpu/cpu3/cpu_capacity", "446\n"),
        ];
        assert_eq!(ask(&with(host(1, 4, 1), &arm), None, "a", "").unwrap().hot[0].cpus.to_string(), "1");
    }

    #[test]
    fn a_host_that_shows_no_cores_is_told_so() {
        let files = with(Vec::new(), &[("sys/devices/system/cpu/online", "0-3\n")]);
        let plan = ask(&files, None, "a", "").unwrap();
        assert_eq!(plan.hot[0].cpus.to_string(), "3");
        assert!(plan.notes[0].contains("does not show which CPUs share a core"));
        let error = ask(&[], None, "a", "").unwrap_err();
        assert_eq!(error.to_string(), "the topology of the host cannot be read: it shows no CPUs");
    }

    #[test]
    fn names_that_no_plan_can_have_are_refused() {
        let files = with(host(1, 4, 1), NIC);
        assert_eq!(ask(&files, None, "a,b", "a").unwrap_err(), SuggestError::RoleTwice("a".into()));
        assert_eq!(ask(&files, None, "idle", "").unwrap_err(), SuggestError::RoleName("idle".into()));
        let error = ask(&files, Some("ens1fo"), "a", "").unwrap_err();
        assert_eq!(error.to_string(), "there is no interface `ens1fo`: did you mean `ens1f0`?");
        assert!(ask(&files, Some("../x"), "a", "").is_err());
        // A tree that was captured without interfaces cannot tell.
        assert!(ask(&host(1, 4, 1), Some("ens1f0"), "a", "").is_ok());
    }

    #[test]
    fn without_a_request_there_are_at_most_two_hot_cpus_near_the_default_route() {
        let route = ("proc/net/route", "ens1f0 00000000 0101A8C0 0003 0 0 100 00000000 0 0 0\n");
        let (_dir, root) = lay(&with(with(host(2, 8, 2), NIC), &[route]));
        let plan = suggest(&root, &Request::default()).unwrap();
        assert_eq!(
            (plan.nic.as_deref(), plan.plan().unwrap().hot_cpus().to_string().as_str()),
            (Some("ens1f0"), "22-23")
        );
        let (_dir, root) = lay(&host(1, 2, 2));
        let plan = suggest(&root, &Request::default()).unwrap();
        assert_eq!((plan.hot.len(), plan.idle.to_string().as_str(), plan.nic), (1, "3", None));
    }

    #[test]
    fn one_core_has_nothing_to_spare() {
        let (_dir, root) = lay(&host(1, 1, 1));
        let error = suggest(&root, &Request::default()).unwrap_err().to_string();
        assert_eq!(error, "nothing to spare: there is one CPU on node 0, kept for the kernel and everything else");
        let (_dir, root) = lay(&host(1, 1, 2));
        assert!(
            suggest(&root, &Request::default()).unwrap_err().to_string().contains("one core with 2 CPUs on node 0")
        );
        assert_eq!(
            ask(&host(1, 1, 2), None, "a", "").unwrap_err(),
            SuggestError::TooFewCores { wanted: 1, node: 0, spare: 0 }
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn a_suggestion_reads_back_as_it_was_meant(
            (sockets, cores, threads) in (1u32..3, 1u32..6, 1u32..4),
            hot in proptest::collection::btree_set("[a-z]{1,3}|[ -~é]{1,4}", 1..5),
            cold in proptest::collection::btree_set("[A-Z]{1,3}", 0..3),
        ) {
            let (_dir, root) = lay(&host(sockets, cores, threads));
            let request = Request { nic: None, hot: hot.into_iter().collect(), cold: cold.into_iter().collect() };
            match suggest(&root, &request) {
                Ok(suggested) => {
                    let plan = suggested.plan().map_err(|problems| TestCaseError::fail(problems.to_string()))?;
                    prop_assert_eq!(&plan.hot, &suggested.hot);
                    prop_assert_eq!(&plan.cold, &suggested.cold);
                    prop_assert_eq!(plan.idle.clone().unwrap_or_default(), suggested.idle.clone());
                    let taken = &plan.hot_cpus() | &suggested.idle;
                    prop_assert_eq!(taken.len(), request.hot.len() * threads as usize);
                    prop_assert!(!taken.contains(0));
                    let all = &taken | &suggested.housekeeping;
                    prop_assert_eq!(all.len(), (sockets * cores * threads) as usize);
                }
                Err(SuggestError::TooFewCores { wanted, spare, .. }) => prop_assert!(wanted > spare),
                Err(other) => prop_assert!(matches!(other, SuggestError::RoleName(_) | SuggestError::RoleTwice(_)), "{other}"),
            }
        }
    }
}
