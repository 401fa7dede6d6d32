//! Memory as the kernel manages it behind a process's back: what moves, merges and takes away pages, the work that comes
//! at intervals, and huge pages that are kept ready.
//!
//! Sources: Documentation/admin-guide/sysctl/vm.rst, sysctl/kernel.rst (numa_balancing), mm/ksm.rst, mm/transhuge.rst,
//! mm/hugetlbpage.rst, mm/vmstat.c and include/linux/sched/isolation.h of Linux 6.12.

use super::cpu::{NOHZ_FULL, ONLINE};
use super::host::Look;
use super::kernel::{self, BuildOption};
use super::{Fact, Host, Kind, Observation, Read, Source, Value, count};
use crate::cpuset::CpuSet;
use crate::reading::{NotUnderstood, Reading};
use crate::topology;
use crate::units::Bytes;

const MM: &str = "sys/kernel/mm";
const NUMA_BALANCING: &str = "proc/sys/kernel/numa_balancing";
const NODES: &str = "sys/devices/system/node";
const NODES_ONLINE: &str = "sys/devices/system/node/online";
const KSM_RUN: &str = "sys/kernel/mm/ksm/run";
const KSM_SHARED: &str = "sys/kernel/mm/ksm/pages_shared";
/// The areas that pages are swapped to.
pub(crate) const SWAPS: &str = "proc/swaps";
const SWAPPINESS: &str = "proc/sys/vm/swappiness";
const KHUGEPAGED_DEFRAG: &str = "sys/kernel/mm/transparent_hugepage/khugepaged/defrag";
const PROACTIVENESS: &str = "proc/sys/vm/compaction_proactiveness";
/// There on every kernel that compacts memory at all.
const EXTFRAG_THRESHOLD: &str = "proc/sys/vm/extfrag_threshold";
const COMPACT_UNEVICTABLE: &str = "proc/sys/vm/compact_unevictable_allowed";
const ZONE_RECLAIM: &str = "proc/sys/vm/zone_reclaim_mode";
const STAT_INTERVAL: &str = "proc/sys/vm/stat_interval";
const ISOLATED: &str = "sys/devices/system/cpu/isolated";
const CGROUP_ISOLATED: &str = "sys/fs/cgroup/cpuset.cpus.isolated";

/// From this version on the counters of isolated CPUs are left alone (be5e015d107d).
const STAT_SKIPS_ISOLATED: (u32, u32) = (6, 4);
/// From this version on those of isolated partitions too.
const STAT_SKIPS_PARTITIONS: (u32, u32) = (6, 8);

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "vm.numa_balancing",
        kind: Kind::Integer,
        files: &[
            NUMA_BALANCING,
            NODES_ONLINE,
            kernel::REALTIME,
            kernel::VERSION,
            kernel::CONFIG_GZ,
            "boot/config-*",
            kernel::OSRELEASE,
        ],
        about: "whether the kernel unmaps pages to see which node uses them: 1, for memory tiers 2; 0 where it has one node, is a real-time one or was built without",
        read: Read::One(numa_balancing),
    },
    Fact {
        name: "ksm.run",
        kind: Kind::Integer,
        files: &[KSM_RUN, KSM_SHARED, "sys/kernel/mm/"],
        about: "whether ksmd merges equal pages: 1; 0 stops it, 2 takes the merged ones apart too; 0 where the kernel has none",
        read: Read::One(ksm_run),
    },
    Fact {
        name: "vm.swap",
        kind: Kind::Bytes,
        files: &[SWAPS],
        about: "the size of all swap areas in use, those of compressed memory (zram) too",
        read: Read::One(swap),
    },
    Fact {
        name: "vm.swappiness",
        kind: Kind::Integer,
        files: &[SWAPPINESS],
        about: "how soon pages of processes are swapped out rather than those of files dropped: 0 to 200",
        read: Read::One(|host| number(host, SWAPPINESS)),
    },
    Fact {
        name: "khugepaged.defrag",
        kind: Kind::Integer,
        files: &[KHUGEPAGED_DEFRAG],
        about: "whether khugepaged compacts memory where it finds no huge page free: 1",
        read: Read::One(|host| number(host, KHUGEPAGED_DEFRAG)),
    },
    Fact {
        name: "vm.compaction_proactiveness",
        kind: Kind::Integer,
        files: &[PROACTIVENESS, EXTFRAG_THRESHOLD, COMPACT_UNEVICTABLE],
        about: "how eagerly memory is compacted without anybody asking: 0 to 100; 0 on kernels that compact only when asked",
        read: Read::One(compaction_proactiveness),
    },
    Fact {
        name: "vm.zone_reclaim_mode",
        kind: Kind::Integer,
        files: &[ZONE_RECLAIM, NODES_ONLINE],
        about: "whether pages of a full node are reclaimed before another node is used; 0 where there is one node",
        read: Read::One(zone_reclaim_mode),
    },
    Fact {
        name: "vm.stat_interval",
        kind: Kind::Integer,
        files: &[STAT_INTERVAL],
        about: "the seconds between two rounds in which the counters of each CPU are gathered",
        read: Read::One(|host| number(host, STAT_INTERVAL)),
    },
    Fact {
        name: "vm.stat_skipped",
        kind: Kind::Cpus,
        files: &[kernel::OSRELEASE, ISOLATED, NOHZ_FULL, CGROUP_ISOLATED],
        about: "the CPUs whose counters are left alone: isolated and tickless ones from Linux 6.4 on, those of isolated partitions from 6.8; none before",
        read: Read::One(stat_skipped),
    },
    Fact {
        name: "hugepages.elsewhere",
        kind: Kind::Cpus,
        files: &[
            "sys/devices/system/node/node*/hugepages/hugepages-*/nr_hugepages",
            "sys/devices/system/node/node*/hugepages/hugepages-*/free_hugepages",
            "sys/devices/system/node/node*/cpulist",
            ONLINE,
        ],
        about: "the CPUs of nodes without reserved huge pages, where another node has some",
        read: Read::One(hugepages_elsewhere),
    },
];

fn number(host: &Host<'_>, path: &str) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(path).parse(parse_number);
    look.answer(reading.map(Value::Integer))
}

/// A sysctl whose absence may be an answer too: a pass says that it was read.
fn sysctl(look: &mut Look<'_, '_>, path: &str) -> Reading<i64> {
    let reading = look.read(path).parse(parse_number);
    if let (Reading::Value(number), Some((_, name))) = (&reading, path.rsplit_once('/')) {
        look.note_pass(format!("{name} is {number}"));
    }
    reading
}

/// # Errors
/// No number, or a negative one: none of these files has one.
fn parse_number(text: &str) -> Result<i64, NotUnderstood> {
    match super::parse_integer(text) {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(NotUnderstood),
    }
}

// ---- nodes ---------------------------------------------------------------------------------------------------------

/// Does the host have one node, memory without CPUs included? Nothing where it does not say.
fn has_one_node(look: &mut Look<'_, '_>) -> Option<bool> {
    let nodes = look.read_if_there(NODES_ONLINE).parse(CpuSet::parse_list);
    nodes.value().filter(|nodes| !nodes.is_empty()).map(|nodes| nodes.len() == 1)
}

/// The file is absent where the kernel was built without; what was built how is not shown, but for a configuration.
fn numa_balancing(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let mut reading = sysctl(&mut look, NUMA_BALANCING);
    if reading == Reading::NotExposed {
        let why = if has_one_node(&mut look) == Some(true) {
            Some("the host has one node")
        } else if kernel::preempt_rt(host).reading == Reading::Value(Value::Flag(true)) {
            Some("a real-time kernel has no NUMA balancing")
        } else if kernel::config(&mut look, BuildOption::NumaBalancing) == Reading::Value(false) {
            Some("this kernel has no NUMA balancing")
        } else {
            None
        };
        if let Some(why) = why {
            look.note(why);
            reading = Reading::Value(0);
        }
    }
    look.answer(reading.map(Value::Integer))
}

fn zone_reclaim_mode(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let mut reading = sysctl(&mut look, ZONE_RECLAIM);
    if reading == Reading::NotExposed && has_one_node(&mut look) == Some(true) {
        look.note("the host has one node");
        reading = Reading::Value(0);
    }
    look.answer(reading.map(Value::Integer))
}

fn hugepages_elsewhere(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let online = host.cpus(ONLINE);
    // Nodes of memory alone have pages too: all folders are looked at.
    let folders = look.list(NODES).map(|listing| listing.numbers("node"));
    let pools = folders.and_then(|ids| {
        let mut pools = Vec::new();
        for id in ids {
            match Pool::of_node(&mut look, id) {
                Reading::Value(pool) => pools.push((id, pool)),
                Reading::NotExposed | Reading::Unset => {}
                other => return other.map(|_| Vec::new()),
            }
        }
        if pools.is_empty() { Reading::NotExposed } else { Reading::Value(pools) }
    });
    let reading = pools.and_then(|pools| {
        if !pools.iter().any(|(_, pool)| pool.reserved > 0) {
            look.note_pass("no huge pages are reserved on any node: there is nothing to be near to");
            return Reading::Value(CpuSet::new());
        }
        if pools.len() == 1 {
            look.note_pass("the host has one node");
        }
        let nodes = online.and_then(|online| topology::nodes(host.root, &online));
        nodes.map(|nodes| {
            let hot = host.hot_online();
            let mut without = CpuSet::new();
            for node in nodes {
                let pool = pools.iter().find(|(id, _)| *id == node.id).map(|(_, pool)| *pool).unwrap_or_default();
                if pool.reserved == 0 {
                    without = &without | &node.cpus;
                } else if !node.cpus.is_disjoint(&hot) {
                    let taken = if pool.free == 0 { ": they are taken, by this process or by another" } else { "" };
                    look.note_pass(format!("node {}: {} reserved, {} free{taken}", node.id, pool.reserved, pool.free));
                }
            }
            for (id, pool) in pools.iter().filter(|(_, pool)| pool.reserved > 0) {
                look.note_failure(format!("reserved on node {id}: {}", count(pool.reserved, "huge page")));
            }
            without
        })
    });
    look.cpus(reading)
}

/// The huge pages of a node, of any size.
#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    reserved: usize,
    free: usize,
}

impl Pool {
    fn of_node(look: &mut Look<'_, '_>, id: u32) -> Reading<Self> {
        let folder = format!("{NODES}/node{id}/hugepages");
        let sizes = look.list(&folder);
        sizes.and_then(|listing| {
            let mut pool: Reading<Self> = Reading::NotExposed;
            let names = listing.entries.iter().map(|entry| entry.name.as_str());
            for size in names.filter(|name| name.starts_with("hugepages-")) {
                let mut pages = |file: &str| look.read(&format!("{folder}/{size}/{file}")).parse(parse_pages);
                let own = pages("nr_hugepages").and_then(|reserved| {
                    // How many are free decides nothing.
                    let free = pages("free_hugepages").value().copied().unwrap_or(reserved);
                    Reading::Value(Self { reserved, free })
                });
                pool = match (pool, own) {
                    (Reading::Value(sum), Reading::Value(own)) => {
                        Reading::Value(Self { reserved: sum.reserved + own.reserved, free: sum.free + own.free })
                    }
                    (Reading::NotExposed, own) => own,
                    (pool, Reading::NotExposed | Reading::Unset | Reading::Value(_)) => pool,
                    (_, own) => own,
                };
            }
            pool
        })
    }
}

/// # Errors
/// No decimal number.
fn parse_pages(text: &str) -> Result<usize, NotUnderstood> {
    super::trim(text).parse::<u32>().map_err(|_| NotUnderstood).and_then(|n| n.try_into().map_err(|_| NotUnderstood))
}

// ---- pages ---------------------------------------------------------------------------------------------------------

fn ksm_run(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = match look.read(KSM_RUN) {
        Reading::NotExposed => host.root.exists(MM).map(|()| {
            look.note("this kernel merges no pages");
            0
        }),
        text => text.parse(parse_number).map(|run| {
            look.note_pass(format!("ksm/run is {run}"));
            run
        }),
    };
    if reading == Reading::Value(0)
        && let Reading::Value(shared) = host.text(KSM_SHARED).parse(parse_number)
        && shared > 0
    {
        let _ = look.read(KSM_SHARED);
        look.note_pass(format!("{shared} merged pages stay shared until 2 is written"));
    }
    look.answer(reading.map(Value::Integer))
}

/// Of the areas their number, types and sizes are shown, not where they are.
fn swap(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let text = host.text(SWAPS);
    let areas = text.clone().parse(parse_swaps);
    match &areas {
        Reading::Value(areas) => {
            let mut shown = vec![count(areas.len(), "area")];
            shown.extend(areas.iter().map(|area| format!("{} of {}", area.kind, area.size)));
            let shown = shown.join(", ");
            look.source(Source::summary(SWAPS, shown.clone()));
            if !areas.is_empty() {
                look.note(shown);
            }
        }
        Reading::Malformed(_) => look.source(Source::summary(SWAPS, "no list of swap areas".to_owned())),
        _ => look.source(Source::of(SWAPS, &text)),
    }
    let total = areas.map(|areas| Bytes(areas.iter().fold(0, |sum, area| area.size.0.saturating_add(sum))));
    look.answer(total.map(Value::Bytes))
}

/// A row of `/proc/swaps`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SwapArea {
    /// `partition` or `file`; a device of compressed memory is a partition.
    kind: String,
    size: Bytes,
}

/// The heading, and a row an area: its path (blanks in it are `\040`), type, size and use in KiB, priority.
///
/// # Errors
/// No heading, or a row that is none.
fn parse_swaps(text: &str) -> Result<Vec<SwapArea>, NotUnderstood> {
    let mut lines = text.lines();
    if !lines.next().is_some_and(|heading| heading.starts_with("Filename")) {
        return Err(NotUnderstood);
    }
    let row = |line: &str| match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        [.., kind @ ("partition" | "file"), size, _, _] => {
            let kib: u64 = size.parse().map_err(|_| NotUnderstood)?;
            Ok(SwapArea { kind: kind.to_owned(), size: Bytes(kib.saturating_mul(1024)) })
        }
        _ => Err(NotUnderstood),
    };
    lines.filter(|line| !line.trim().is_empty()).map(row).collect()
}

/// The areas without their paths, which may be anybody's.
pub(crate) fn reduce_swaps(text: &str) -> String {
    let mut lines = text.lines();
    let heading = lines.next().filter(|heading| heading.starts_with("Filename")).unwrap_or("no list of swap areas");
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let from = columns.len().saturating_sub(4);
        format!("area\t{}\n", columns[from..].join("\t"))
    };
    let rows = lines.filter(|line| !line.trim().is_empty()).map(row);
    std::iter::once(format!("{heading}\n")).chain(rows).collect()
}

fn compaction_proactiveness(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let mut reading = sysctl(&mut look, PROACTIVENESS);
    // A kernel that compacts, and has no such file, is older than it (5.9).
    if reading == Reading::NotExposed && host.text(EXTFRAG_THRESHOLD).value().is_some() {
        let _ = look.read(EXTFRAG_THRESHOLD);
        look.note("this kernel compacts only when asked");
        reading = Reading::Value(0);
    }
    if look.read_if_there(COMPACT_UNEVICTABLE).parse(parse_number) == Reading::Value(1) {
        look.note("compact_unevictable_allowed is 1: what compacts memory moves locked pages too");
    }
    look.answer(reading.map(Value::Integer))
}

/// By `cpu_is_isolated()`, which the worker asks for each CPU.
fn stat_skipped(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let release = look.read(kernel::OSRELEASE).parse(kernel::Release::parse).map(kernel::Release::version);
    let reading = release.and_then(|version| {
        if version < STAT_SKIPS_ISOLATED {
            look.note_failure("the counters of isolated CPUs are gathered too before Linux 6.4");
            return Reading::Value(CpuSet::new());
        }
        let mut files = vec![ISOLATED, NOHZ_FULL];
        if version >= STAT_SKIPS_PARTITIONS {
            files.push(CGROUP_ISOLATED);
        }
        let mut skipped = CpuSet::new();
        let mut is_any_there = false;
        for path in files {
            match look.read_if_there(path).parse(CpuSet::parse_list) {
                Reading::Value(cpus) => {
                    is_any_there = true;
                    skipped = &skipped | &cpus;
                }
                Reading::NotExposed | Reading::Unset => {}
                other => {
                    is_any_there = true;
                    look.gap(path, &other);
                }
            }
        }
        if is_any_there { Reading::Value(skipped) } else { Reading::NotExposed }
    });
    look.cpus(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    #[test]
    fn swap_areas() {
        let sizes = |rows: &str| {
            let areas = parse_swaps(&format!("{HEADING}{rows}"))?;
            Ok(areas.into_iter().map(|area| (area.kind, area.size.0 / 1024)).collect::<Vec<_>>())
        };
        assert_eq!(sizes(""), Ok(vec![]));
        assert_eq!(
            sizes("/dev/dm-1                               partition\t8388604\t\t0\t\t-2\n"),
            Ok(vec![("partition".to_owned(), 8_388_604)])
        );
        let two = "/my\\040swap\\040(deleted)               file\t1024\t0\t-2\n/dev/zram0 partition\t2048\t0\t100\n";
        assert_eq!(sizes(two), Ok(vec![("file".to_owned(), 1024), ("partition".to_owned(), 2048)]));
        for rows in ["/dev/dm-1\n", "/dev/dm-1 partition many 0 -2\n", "/dev/dm-1 tape 1 0 -2\n"] {
            assert_eq!(sizes(rows), Err(NotUnderstood), "{rows:?}");
        }
        assert_eq!(parse_swaps(""), Err(NotUnderstood));
        let reduced = reduce_swaps(&format!("{HEADING}{two}"));
        assert_eq!(reduced, format!("{HEADING}area\tfile\t1024\t0\t-2\narea\tpartition\t2048\t0\t100\n"));
        assert_eq!(parse_swaps(&reduced), parse_swaps(&format!("{HEADING}{two}")));
        assert_eq!(parse_swaps(&reduce_swaps("root:x:0:0\n")), Err(NotUnderstood));
    }

    #[test]
    fn numbers_of_sysctls() {
        assert_eq!(parse_number("120\n"), Ok(120));
        for text in ["-1\n", "", "1 2\n", "on\n"] {
            assert_eq!(parse_number(text), Err(NotUnderstood), "{text:?}");
        }
        assert_eq!(parse_pages("512\n"), Ok(512));
        assert_eq!(parse_pages("-512\n"), Err(NotUnderstood));
    }
}
