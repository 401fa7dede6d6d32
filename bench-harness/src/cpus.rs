//! Sets of CPUs in the kernel's list notation (`0-3,8`), and the affinity of the calling thread.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use quietcore::cpuset::CpuSet as Set;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use thiserror::Error;

/// CPUs, in the order in which they were named and without repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(Vec<u32>);

/// The text is no CPU list.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("\"{0}\" is not a list of CPUs such as 0-3,8")]
pub struct NotACpuList(String);

impl CpuList {
    /// The CPUs, in the order in which they were named.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// The highest CPU of the list.
    pub fn highest(&self) -> Option<u32> {
        self.0.iter().copied().max()
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> CpuList {
        let mut seen = BTreeSet::new();
        CpuList(cpus.into_iter().filter(|&cpu| seen.insert(cpu)).collect())
    }
}

impl From<u32> for CpuList {
    fn from(cpu: u32) -> CpuList {
        CpuList(vec![cpu])
    }
}

impl FromStr for CpuList {
    type Err = NotACpuList;

    fn from_str(text: &str) -> Result<CpuList, NotACpuList> {
        // Part by part, since the order counts here.
        let parts: Result<Vec<Set>, _> = text.trim().split(',').map(Set::parse_list).collect();
        let parts = parts.map_err(|_| NotACpuList(text.trim().to_owned()))?;
        Ok(parts.iter().flat_map(Set::iter).collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut comma = "";
        while let Some(&first) = rest.first() {
            let run = (first..).zip(rest).take_while(|&(want, &cpu)| want == cpu).count();
            let last = rest[run - 1];
            match run {
                1 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
            rest = &rest[run..];
        }
        Ok(())
    }
}

/// The CPUs that are online in the whole system, which no affinity mask narrows; nothing where the host does not say.
pub fn online() -> Option<CpuList> {
    std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?.parse().ok()
}

/// Chooses a CPU for each of `roles`: of the `hot` ones where enough of them are to be had here, else the last ones of
/// `allowed`, which leaves CPU 0 alone when there is a choice. Fewer where there are no more.
pub fn choose(hot: &CpuList, allowed: &CpuList, roles: usize) -> Vec<u32> {
    // A plan made for another host is measured on this one's CPUs; what the audit says of it travels with the result.
    let hot: Vec<u32> = hot.0.iter().copied().filter(|cpu| allowed.0.contains(cpu)).collect();
    match hot.get(..roles) {
        Some(hot) => hot.to_vec(),
        None => allowed.0[allowed.0.len().saturating_sub(roles)..].to_vec(),
    }
}

/// Chooses as many of `hot` as are to be had here, else the last one of `allowed`.
pub fn choose_any(hot: &CpuList, allowed: &CpuList) -> Vec<u32> {
    let hot: Vec<u32> = hot.0.iter().copied().filter(|cpu| allowed.0.contains(cpu)).collect();
    if hot.is_empty() { choose(&CpuList::default(), allowed, 1) } else { hot }
}

/// Binds the calling thread to one CPU.
pub fn pin(cpu: u64) -> Result<(), Errno> {
    pin_to(&CpuList(vec![cpu.try_into().map_err(|_| Errno::INVAL)?]))
}

/// Binds the calling thread to `cpus`.
pub fn pin_to(cpus: &CpuList) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    for &cpu in &cpus.0 {
        let cpu = usize::try_from(cpu).ok().filter(|&cpu| cpu < CpuSet::MAX_CPU).ok_or(Errno::INVAL)?;
        set.set(cpu);
    }
    sched_setaffinity(None, &set)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(text: &str) -> Vec<u32> {
        text.parse::<CpuList>().unwrap().0
    }

    #[test]
    fn kernel_lists() {
        assert_eq!(list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(list("\n"), [0u32; 0]);
        assert_eq!(list("1,0"), [1, 0]);
        assert_eq!(list("3,3,2-4"), [3, 2, 4]);
    }

    #[test]
    fn what_is_no_list() {
        for text in ["3-1", "a", "-1", "+1", "1-", "0-99999999", "1 2", "4294967296"] {
            assert_eq!(text.parse::<CpuList>(), Err(NotACpuList(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn hot_cpus_are_preferred_and_cpu_0_is_avoided() {
        let chosen = |hot: &str, allowed: &str| choose(&hot.parse().unwrap(), &allowed.parse().unwrap(), 2);
        assert_eq!(chosen("", "0-7"), [6, 7]);
        assert_eq!(chosen("", "0-1"), [0, 1]);
        assert_eq!(chosen("", "0"), [0]);
        assert_eq!(chosen("3,2,4", "0-7"), [3, 2]);
        assert_eq!(chosen("21-23", "0-7"), [6, 7]);
        assert_eq!(chosen("7,99", "0-7"), [6, 7]);
        assert_eq!(chosen("3", "0-7"), [6, 7]);
    }

    #[test]
    fn an_impossible_cpu_is_refused() {
        assert_eq!(pin(u64::MAX), Err(Errno::INVAL));
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_the_same(cpus in prop::collection::vec(0u32..200, 0..40)) {
            let list: CpuList = cpus.into_iter().collect();
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }
    }
}
