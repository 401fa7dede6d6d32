//! What of a host is nobody's business but its own.
//!
//! A tree is made to be passed on: into a repository, to a colleague, with a report of a fault. So of each file only what
//! a fact reads is kept where the rest tells about people, networks or other processes; and in what is kept, the node's
//! name and MAC addresses are replaced by as many `x`. As many, because the audit looks at how long a boot line is.

use std::collections::BTreeMap;

use crate::fact::cmdline::BootLine;
use crate::fact::task;

/// Names that every second host has tell nothing, and short ones are parts of kernel words.
const NO_NAMES: [&str; 3] = ["(none)", "localhost", "localhost.localdomain"];
const LONGEST_NO_NAME: usize = 3;

/// Parameters of the boot line that hold addresses, places of data or secrets, in lower case; `*` at the end: any that
/// begins so. They are copied, for the boot line is evidence, and pointed out.
const PRIVATE_PARAMETERS: &[&str] = &[
    "bootif",
    "ifname",
    "ip",
    "iscsi_*",
    "netroot",
    "nfsaddrs",
    "nfsroot",
    "rd.iscsi.*",
    "rd.luks*",
    "systemd.hostname",
    "systemd.set_credential*",
    "systemd.setenv",
];

/// How much of a file is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// All of it.
    Whole,
    /// That it is there.
    Presence,
    /// The lines that begin so.
    Lines(&'static [&'static str]),
    /// The first line that begins so, if it stands in the first 4 KiB: the file has the same lines for every CPU.
    FirstLine(&'static str),
    /// Of the environment of irqbalance the two variables that say which CPUs it keeps off; of another process nothing.
    BannedCpus,
    /// Whether a task is a kernel thread, and whether it cannot be moved.
    TaskFlags,
    /// Of the environment of the first process what stands on the boot line too, and so is told already: what the kernel did
    /// not take. The rest may be secrets of whoever started the host, or of a container.
    OfBootLine,
    /// The default routes, without their gateways.
    DefaultRoutes,
    /// Swap areas without their paths.
    Swaps,
    /// Of a kernel configuration the options that facts read.
    Config,
    /// The same, compressed.
    CompressedConfig,
    /// Not even that it is there.
    Nothing,
}

impl Keep {
    /// How much of this file is kept. What a process shows is kept by name only: a fact that reads more of it has to come
    /// here and say how much.
    pub(super) fn of(path: &str) -> Self {
        let components: Vec<&str> = path.split('/').collect();
        match components.as_slice() {
            ["proc", "self", "cgroup" | "limits" | "uid_map"] => Self::Whole,
            ["proc", "self", "status"] => Self::Lines(&["CapEff:", task::ALLOWED]),
            ["proc", "self" | "thread-self", ..] => Self::Nothing,
            ["proc", "1", "environ"] => Self::OfBootLine,
            ["proc", pid, rest @ ..] if pid.bytes().all(|b| b.is_ascii_digit()) => match rest {
                ["comm"] => Self::Whole,
                ["environ"] => Self::BannedCpus,
                ["status"] | ["task", _, "status"] => Self::Lines(&[task::ALLOWED]),
                ["stat"] => Self::TaskFlags,
                _ => Self::Nothing,
            },
            // More would tell the machine's serial number on some of them.
            ["proc", "cpuinfo"] => Self::FirstLine("flags"),
            // No interrupts, and not when the host was started.
            ["proc", "stat"] => Self::Lines(&["cpu"]),
            ["proc", "net", "route"] => Self::DefaultRoutes,
            ["proc", "net", ..] => Self::Nothing,
            ["proc", "swaps"] => Self::Swaps,
            ["proc", "config.gz"] => Self::CompressedConfig,
            ["boot", ..] => Self::Config,
            // What stands in them names the container, its image and who runs it.
            ["run", ..] | [".dockerenv"] => Self::Presence,
            [.., name] if *name == "address" || name.contains("serial") || name.contains("uuid") => Self::Nothing,
            _ => Self::Whole,
        }
    }
}

/// The lines that begin with one of these names.
pub(super) fn lines_of(text: &[u8], names: &[&str]) -> Vec<u8> {
    let is_kept = |line: &&[u8]| names.iter().any(|name| line.starts_with(name.as_bytes()));
    text.split_inclusive(|&b| b == b'\n').filter(is_kept).flatten().copied().collect()
}

/// The variables of these names in an environment (`NAME=value`, each with a NUL behind it).
pub(super) fn variables_of(environ: &[u8], names: &[&str]) -> Vec<u8> {
    let is_kept = |entry: &&[u8]| {
        names.iter().any(|name| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
    };
    environ.split(|&b| b == 0).filter(is_kept).flat_map(|entry| entry.iter().copied().chain([0])).collect()
}

/// The variables of an environment that stand on a boot line.
pub(super) fn variables_on(boot_line: Option<&str>, environ: &[u8]) -> Vec<u8> {
    let environ = String::from_utf8_lossy(environ);
    let line = boot_line.and_then(|line| BootLine::parse(line).ok());
    let kept = line.iter().flat_map(|line| line.handed_to_init(&environ));
    kept.flat_map(|entry| [entry, "\0"]).collect::<String>().into_bytes()
}

/// A `/proc/PID/stat` with the flags of a task that are read, and nothing else of it.
pub(super) fn task_flags_of(stat: &[u8]) -> Vec<u8> {
    let flags = task::parse_flags(&String::from_utf8_lossy(stat)).map(|flags| flags & task::FLAGS);
    flags.map_or_else(|_| Vec::new(), |flags| format!("0 () S 0 0 0 0 0 {flags}\n").into_bytes())
}

/// The heading and the default routes of `/proc/net/route`: interface, flags, metric and mask; the gateway, the counters
/// and other networks are left out.
pub(super) fn default_routes_of(routes: &[u8]) -> Vec<u8> {
    const HEADING: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
    let default_route = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [interface, "00000000", _, flags, _, _, metric, "00000000", ..] => {
            Some(format!("{interface}\t00000000\t00000000\t{flags}\t0\t0\t{metric}\t00000000\t0\t0\t0\n"))
        }
        _ => None,
    };
    let routes = std::str::from_utf8(routes).unwrap_or_default().lines().filter_map(default_route);
    std::iter::once(HEADING.to_owned()).chain(routes).collect::<String>().into_bytes()
}

/// What was replaced, and where: paths of the tree with the number of times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// The node's name.
    pub node: Option<String>,
    /// Files that the node's name stood in, and paths that it was a part of.
    pub names: BTreeMap<String, usize>,
    /// Files that MAC addresses stood in.
    pub addresses: BTreeMap<String, usize>,
}

/// Replaces what is private in texts and paths.
#[derive(Debug)]
pub(super) struct Privacy {
    /// The node's name as it is and without its domain, the longer one first.
    names: Vec<String>,
    pub(super) replaced: Replaced,
}

impl Privacy {
    /// With the text of `/proc/sys/kernel/hostname`; without one names stay.
    pub(super) fn of_node(hostname: Option<&str>) -> Self {
        let node = hostname.map(str::trim).unwrap_or_default();
        let mut names = vec![node];
        names.extend(node.split_once('.').map(|(label, _)| label));
        names.retain(|name| name.len() > LONGEST_NO_NAME && !NO_NAMES.contains(name));
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let replaced = Replaced { node: names.first().cloned(), ..Replaced::default() };
        Self { names, replaced }
    }

    /// The text of a file, fit to be passed on.
    pub(super) fn text(&mut self, at: &str, mut text: Vec<u8>) -> Vec<u8> {
        let names = self.names.iter().map(|name| blot_word(&mut text, name.as_bytes())).sum();
        let addresses = blot_addresses(&mut text);
        for (places, count) in [(&mut self.replaced.names, names), (&mut self.replaced.addresses, addresses)] {
            if count > 0 {
                places.insert(at.to_owned(), count);
            }
        }
        text
    }

    /// A path, fit to be passed on.
    pub(super) fn path(&mut self, path: &str) -> String {
        let mut bytes = path.as_bytes().to_vec();
        let count: usize = self.names.iter().map(|name| blot_word(&mut bytes, name.as_bytes())).sum();
        if count == 0 {
            return path.to_owned();
        }
        // Whole words of text were replaced by letters.
        let replaced = String::from_utf8_lossy(&bytes).into_owned();
        // What lies below the last component that has the name in it is named by it.
        let last = path.split('/').zip(replaced.split('/')).enumerate().filter(|(_, (old, new))| old != new).last();
        let components = last.map_or(usize::MAX, |(at, _)| at + 1);
        let place = replaced.split('/').take(components).collect::<Vec<_>>().join("/");
        self.replaced.names.entry(place).or_insert(count);
        replaced
    }
}

/// Replaces a word by as many `x`, in any case of its letters, where it is no part of a longer word. How often?
fn blot_word(text: &mut [u8], word: &[u8]) -> usize {
    let mut count = 0;
    let mut at = 0;
    while let Some(found) = text.get(at..at + word.len()) {
        let end = at + word.len();
        let is_whole =
            (at == 0 || !text[at - 1].is_ascii_alphanumeric()) && !text.get(end).is_some_and(u8::is_ascii_alphanumeric);
        if is_whole && found.eq_ignore_ascii_case(word) {
            text[at..end].fill(b'x');
            count += 1;
            at = end;
        } else {
            at += 1;
        }
    }
    count
}

/// Replaces the digits of MAC addresses (six or more pairs of hexadecimal digits, joined by colons or dashes). How many?
fn blot_addresses(text: &mut [u8]) -> usize {
    let mut count = 0;
    let mut at = 0;
    while at < text.len() {
        let is_start = at == 0 || !text[at - 1].is_ascii_alphanumeric();
        let length = if is_start { address_length(&text[at..]) } else { 0 };
        for byte in text[at..at + length].iter_mut().filter(|byte| byte.is_ascii_hexdigit()) {
            *byte = b'x';
        }
        count += usize::from(length > 0);
        at += length.max(1);
    }
    count
}

/// How long the MAC address is that a text begins with; 0 for none.
fn address_length(text: &[u8]) -> usize {
    /// Those of Ethernet; InfiniBand has twenty, PXE puts the type of the hardware before them.
    const FEWEST_PAIRS: usize = 6;
    let is_pair = |at: usize| text.get(at..at + 2).is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit));
    let Some(&join) = text.get(2).filter(|&&byte| matches!(byte, b':' | b'-')) else { return 0 };
    let mut end = 0;
    let mut pairs = 0;
    while is_pair(end) {
        end += 2;
        pairs += 1;
        if text.get(end) != Some(&join) || !is_pair(end + 1) {
            break;
        }
        end += 1;
    }
    let is_whole = !text.get(end).is_some_and(u8::is_ascii_alphanumeric);
    if pairs >= FEWEST_PAIRS && is_whole { end } else { 0 }
}

/// What on a boot line should be looked at before it is passed on.
pub(super) fn look_through(boot_line: &str) -> Vec<String> {
    let Ok(line) = BootLine::parse(boot_line) else { return Vec::new() };
    let is_private = |name: &str| {
        let name = name.to_ascii_lowercase();
        PRIVATE_PARAMETERS.iter().any(|private| match private.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == *private,
        })
    };
    let mut names: Vec<String> = line.names().filter(|name| is_private(name)).map(|name| format!("{name}=")).collect();
    names.dedup();
    if boot_line.contains(" -- ") {
        names.push("what follows --".to_owned());
    }
    if names.is_empty() { names } else { vec![format!("proc/cmdline is copied with {}", names.join(", "))] }
}

/// Is it the name of an interface that was made of its MAC address (`enx001122334455`)? Plans may name it, so it is kept.
pub(super) fn is_named_by_address(interface: &str) -> bool {
    let digits = interface.get(2..).and_then(|rest| rest.strip_prefix('x'));
    digits.is_some_and(|digits| digits.len() == 12 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fact, topology};

    #[test]
    fn every_pattern_of_a_process_says_how_much_of_it_is_kept() {
        let patterns = fact::facts().flat_map(|fact| fact.files).chain(topology::FILES);
        for pattern in patterns {
            assert_ne!(
                Keep::of(&pattern.replace('*', "1")),
                Keep::Nothing,
                "{pattern} is read and would not be captured"
            );
        }
    }

    #[test]
    fn of_other_processes_little_is_kept() {
        for path in ["proc/1/cmdline", "proc/1/maps", "proc/self/environ", "proc/1/task/1/comm", "proc/net/arp"] {
            assert_eq!(Keep::of(path), Keep::Nothing, "{path}");
        }
        for path in ["sys/class/dmi/id/product_serial", "sys/class/dmi/id/product_uuid", "sys/class/net/eth0/address"] {
            assert_eq!(Keep::of(path), Keep::Nothing, "{path}");
        }
        assert_eq!(Keep::of("run/.containerenv"), Keep::Presence);
        assert_eq!(Keep::of("proc/1/comm"), Keep::Whole);
    }

    #[test]
    fn of_a_stat_two_flags_are_kept() {
        assert_eq!(Keep::of("proc/15/stat"), Keep::TaskFlags);
        let kept = |stat: &[u8]| String::from_utf8(task_flags_of(stat)).unwrap();
        assert_eq!(kept(b"15 (rcu_preempt) I 2 0 0 0 -1 2129984 0 0 7 0\n"), "0 () S 0 0 0 0 0 2097152\n");
        assert_eq!(kept(b"812 (sshd) S 1 812 812 0 -1 4194560 1 2\n"), "0 () S 0 0 0 0 0 0\n");
        assert_eq!(kept(b"812 (sshd)\n"), "");
    }

    #[test]
    fn of_an_environment_two_variables_are_kept() {
        let names = crate::fact::process::BANNED_VARIABLES;
        let environ =
            b"SECRET=1\0IRQBALANCE_BANNED_CPUS=f0\0IRQBALANCE_BANNED_CPUSX=1\0\xff=\xff\0IRQBALANCE_BANNED_CPULIST=4-7";
        assert_eq!(variables_of(environ, &names), b"IRQBALANCE_BANNED_CPUS=f0\0IRQBALANCE_BANNED_CPULIST=4-7\0");
        assert_eq!(variables_of(b"SECRET=1\0", &names), b"");
    }

    #[test]
    fn of_the_first_environment_what_stands_on_the_boot_line_is_kept() {
        let environ = b"HOME=/\0SECRET=1\0nohz_full=7-4\0BOOT_IMAGE=/v\0\xff=\xff\0";
        let boot_line = "BOOT_IMAGE=/v ro nohz_full=\"7-4\" SECRET=2\n";
        assert_eq!(variables_on(Some(boot_line), environ), b"nohz_full=7-4\0BOOT_IMAGE=/v\0");
        assert_eq!(variables_on(None, environ), b"");
        assert_eq!(Keep::of("proc/1/environ"), Keep::OfBootLine);
        assert_eq!(Keep::of("proc/17/environ"), Keep::BannedCpus);
    }

    #[test]
    fn of_routes_the_default_ones_are_kept_without_gateways() {
        let routes = b"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0101A8C0\t0003\t0\t7\t100\t00000000\t0\t0\t0\n\
            eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n";
        let kept = String::from_utf8(default_routes_of(routes)).unwrap();
        assert_eq!(
            kept.lines().skip(1).collect::<Vec<_>>(),
            ["eth0\t00000000\t00000000\t0003\t0\t0\t100\t00000000\t0\t0\t0"]
        );
        assert!(!kept.contains("A8C0"));
        assert_eq!(String::from_utf8(default_routes_of(b"\xff")).unwrap().lines().count(), 1);
    }

    #[test]
    fn of_a_status_one_line_is_kept() {
        assert_eq!(lines_of(b"Name:\tx\nCapEff:\t01\nCapEffX:\t02\n", &["CapEff:"]), b"CapEff:\t01\n");
    }

    fn passed_on(hostname: &str, text: &str) -> String {
        let mut privacy = Privacy::of_node(Some(hostname));
        String::from_utf8(privacy.text("proc/cmdline", text.as_bytes().to_vec())).unwrap()
    }

    #[test]
    fn the_nodes_name_is_blotted_where_it_is_a_word() {
        for (hostname, text, expected) in [
            (
                "trade1\n",
                "ip=::::trade1:eth0 nfsroot=10.0.0.1:/srv/TRADE1/root",
                "ip=::::xxxxxx:eth0 nfsroot=10.0.0.1:/srv/xxxxxx/root",
            ),
            ("trade1", "trade12 mytrade1 trade1", "trade12 mytrade1 xxxxxx"),
            ("trade1.example.org", "trade1 trade1.example.org", "xxxxxx xxxxxxxxxxxxxxxxxx"),
            ("vm", "vm isolcpus=2", "vm isolcpus=2"),
            ("localhost", "localhost", "localhost"),
            ("(none)", "root=(none)", "root=(none)"),
            ("", "quiet", "quiet"),
        ] {
            assert_eq!(passed_on(hostname, text), expected, "{hostname}");
        }
        let mut privacy = Privacy::of_node(Some("trade1"));
        assert_eq!(privacy.path("sys/fs/cgroup/trade1.slice"), "sys/fs/cgroup/xxxxxx.slice");
        assert_eq!(
            privacy.path("sys/fs/cgroup/trade1.slice/b/cpuset.cpus"),
            "sys/fs/cgroup/xxxxxx.slice/b/cpuset.cpus"
        );
        assert_eq!(privacy.path("sys/fs/cgroup"), "sys/fs/cgroup");
        let _ = privacy.text("proc/cmdline", b"trade1 trade1".to_vec());
        let places = [("proc/cmdline".to_owned(), 2), ("sys/fs/cgroup/xxxxxx.slice".to_owned(), 1)];
        assert_eq!(privacy.replaced.names, BTreeMap::from(places));
        assert!(Privacy::of_node(None).names.is_empty());
    }

    #[test]
    fn mac_addresses_are_blotted_and_other_numbers_are_not() {
        for (text, expected) in [
            ("BOOTIF=01-aa-bb-cc-00-11-22 ro", "BOOTIF=xx-xx-xx-xx-xx-xx-xx ro"),
            ("ifname=eth0:AA:bb:cc:dd:ee:ff", "ifname=eth0:xx:xx:xx:xx:xx:xx"),
            ("isolcpus=02-03,04-05 0000:81:00.0 12:34:56", "isolcpus=02-03,04-05 0000:81:00.0 12:34:56"),
            ("aa:bb:cc:dd:ee:fff", "aa:bb:cc:dd:ee:fff"),
            ("aa:bb:cc:dd:ee", "aa:bb:cc:dd:ee"),
        ] {
            assert_eq!(passed_on("", text), expected);
        }
    }

    #[test]
    fn interfaces_that_are_named_by_their_address() {
        assert!(is_named_by_address("enx001122aabbcc") && is_named_by_address("wlx001122aabbcc"));
        assert!(!is_named_by_address("enp1s0") && !is_named_by_address("enx0011") && !is_named_by_address("é"));
    }

    #[test]
    fn private_parameters_are_pointed_out() {
        assert_eq!(
            look_through("ro ip=dhcp BOOTIF=x rd.luks.uuid=1 quiet -- --auth\n"),
            ["proc/cmdline is copied with ip=, BOOTIF=, rd.luks.uuid=, what follows --"]
        );
        assert!(look_through("ro quiet isolcpus=2-3\n").is_empty());
    }
}
