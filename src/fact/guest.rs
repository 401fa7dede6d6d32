//! Whether a hypervisor lies between the kernel and the CPUs, and what it took of them.
//!
//! Sources: arch/x86/include/asm/cpufeatures.h (hypervisor), Documentation/ABI/stable/sysfs-hypervisor-xen, proc(5) (stat),
//! and the names that systemd-detect-virt(1) knows.

use std::fmt;

use super::host::Look;
use super::{Fact, Host, Kind, Observation, Read, Source, Value};
use crate::reading::{NotUnderstood, Reading, quote};

/// The CPUs as the kernel describes them; on x86 with a row of flags.
pub(crate) const CPUINFO: &str = "proc/cpuinfo";
const STAT: &str = "proc/stat";
const XEN: &str = "sys/hypervisor/type";
const DEVICE_TREE: &str = "proc/device-tree/hypervisor/compatible";
const VENDOR: &str = "sys/class/dmi/id/sys_vendor";
const PRODUCT: &str = "sys/class/dmi/id/product_name";

/// How the names of clouds begin, which have machines of their own too: those say [`BARE_METAL`], or have CPUs that tell.
const CLOUDS: &[&str] = &["Alibaba Cloud", "Amazon EC2", "Google Compute Engine", "OpenStack"];

/// How vendors and products of virtual machines begin.
const VIRTUAL: &[&str] = &[
    "Apple Virtualization",
    "BHYVE",
    "Bochs",
    "HVM domU",
    "KVM",
    "KubeVirt",
    "Parallels",
    "QEMU",
    "VMW",
    "VMware",
    "Virtual Machine",
    "VirtualBox",
    "Xen",
    "innotek GmbH",
];

/// What a product of a cloud has in its name that is a machine of its own: `m7g.metal`.
const BARE_METAL: &str = ".metal";

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "guest.hypervisor",
        kind: Kind::Flag,
        files: &[CPUINFO, XEN, DEVICE_TREE, VENDOR, PRODUCT],
        about: "whether the kernel runs in a virtual machine: by what the firmware calls the machine, and by the CPU's flags on x86",
        read: Read::One(hypervisor),
    },
    Fact {
        name: "guest.steal",
        kind: Kind::Flag,
        files: &[STAT],
        about: "whether a CPU ever waited for the hypervisor since boot; not every hypervisor tells",
        read: Read::PerCpu(steal),
    },
];

fn hypervisor(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let named = [VENDOR, PRODUCT].map(|path| look.read_if_there(path).parse(super::parse_line));
    let named = named.each_ref().map(|name| name.value().map(|name| quote(name)));
    let machine = named.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ");
    if !machine.is_empty() {
        look.note(format!("the firmware says {machine}"));
    }
    if let Reading::Value(kind) = look.read_if_there(XEN).parse(super::parse_word) {
        look.note_failure(format!("{XEN} is {}", quote(&kind)));
        return look.answer(Reading::Value(Value::Flag(true)));
    }
    let begins = |known: &[&str]| named.iter().flatten().any(|name| known.iter().any(|known| name.starts_with(known)));
    // Not every hypervisor sets the flag.
    if begins(VIRTUAL) {
        return look.answer(Reading::Value(Value::Flag(true)));
    }
    // Not the whole of it: that is a megabyte on a large host.
    let cpuinfo = host.root.read_start(CPUINFO).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let flag = cpuinfo.as_ref().and_then(|text| has_hypervisor_flag(text).map_or(Reading::NotExposed, Reading::Value));
    match flag {
        Reading::Value(flag) => {
            let shown = if flag { "flags: ... hypervisor ..." } else { "flags without hypervisor" };
            look.source(Source::summary(CPUINFO, shown.to_owned()));
            return look.answer(Reading::Value(Value::Flag(flag)));
        }
        other => look.source(Source::unread(CPUINFO, &other)),
    }
    if host.root.exists(DEVICE_TREE).value().is_some() {
        let _ = look.read(DEVICE_TREE);
        return look.answer(Reading::Value(Value::Flag(true)));
    }
    let reading = if machine.is_empty() {
        Reading::NotExposed
    } else {
        Reading::Value(Value::Flag(begins(CLOUDS) && !machine.contains(BARE_METAL)))
    };
    look.answer(reading)
}

/// Whether the first CPU has the flag by which hypervisors make themselves known; none where there is no row of flags.
fn has_hypervisor_flag(cpuinfo: &str) -> Option<bool> {
    let row = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == "flags"))?;
    let (_, flags) = row.split_once(':')?;
    Some(flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

fn steal(host: &Host<'_>, cpu: u32) -> Observation {
    let mut look = Look::at(host);
    let stat = host.text(STAT);
    let reading = match stat.as_ref().map(|text| stolen(text, cpu)) {
        Reading::Value(Ok(Some(share))) => {
            look.source(Source::summary(STAT, format!("CPU {cpu}: {share}")));
            Reading::Value(share.ticks > 0)
        }
        Reading::Value(Ok(None)) => Reading::NotExposed,
        Reading::Value(Err(NotUnderstood)) => Reading::Malformed(format!("cpu{cpu}")),
        other => other.map(|_| false),
    };
    if reading.value().is_none() {
        look.source(Source::unread(STAT, &reading));
    }
    look.answer(reading.map(Value::Flag))
}

/// How much of a CPU's time the hypervisor took. In whole percent, so that two looks at a host see the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    ticks: u64,
    of: u64,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ticks, self.ticks.saturating_mul(100) / self.of.max(1)) {
            (0, _) => f.write_str("no steal time"),
            (_, 0) => f.write_str("less than 1 % steal time"),
            (_, percent) => write!(f, "{percent} % steal time"),
        }
    }
}

/// The steal time of a CPU in `/proc/stat`; none where the CPU has no row, as one that is offline.
///
/// # Errors
/// A row without that number (it is the eighth), or with what is none.
fn stolen(stat: &str, cpu: u32) -> Result<Option<Share>, NotUnderstood> {
    /// What follows are times of guests, which are in those of users already.
    const KINDS: usize = 8;
    let name = format!("cpu{cpu}");
    let mut rows = stat.lines().map(str::split_ascii_whitespace);
    let Some(row) = rows.find_map(|mut row| (row.next()? == name).then_some(row)) else { return Ok(None) };
    let times: Vec<u64> = row.take(KINDS).map(str::parse).collect::<Result<_, _>>().map_err(|_| NotUnderstood)?;
    match times.as_slice() {
        [.., ticks] if times.len() == KINDS => {
            Ok(Some(Share { ticks: *ticks, of: times.iter().fold(0, |sum, time| sum.saturating_add(*time)) }))
        }
        _ => Err(NotUnderstood),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_of_hypervisors() {
        let cpuinfo =
            |flags: &str| format!("processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: {flags}\nvmx flags\t: x\n");
        assert_eq!(has_hypervisor_flag(&cpuinfo("fpu rdrand hypervisor lahf_lm")), Some(true));
        assert_eq!(has_hypervisor_flag(&cpuinfo("fpu rdrand hypervisors")), Some(false));
        assert_eq!(has_hypervisor_flag("processor\t: 0\nFeatures\t: fp asimd\n"), None);
        assert_eq!(has_hypervisor_flag(""), None);
    }

    #[test]
    fn steal_time() {
        let stat = "cpu  1 2 3 4 5 6 7 90 0 0\ncpu0 1 2 3 4 5 6 7 12 0 0\ncpu10 1 2 3 4 5 6 7 0 0 0\ncpu11 9999 2 3 4 5 6 7 1 0 0\ncpu2 1 2\ncpu3 1 1 1 1 1 1 1 x\n";
        let shown = |cpu| stolen(stat, cpu).map(|share| share.map(|share| share.to_string()));
        assert_eq!(shown(0), Ok(Some("30 % steal time".to_owned())));
        assert_eq!(shown(10), Ok(Some("no steal time".to_owned())));
        assert_eq!(shown(11), Ok(Some("less than 1 % steal time".to_owned())));
        assert_eq!(shown(1), Ok(None));
        assert_eq!(shown(2), Err(NotUnderstood));
        assert_eq!(shown(3), Err(NotUnderstood));
    }
}
