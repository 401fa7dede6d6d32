//! `isolcpus=` and `nohz_full=` as the kernel takes them, one after the other.
//!
//! Sources: `housekeeping_setup` in kernel/sched/isolation.c of Linux 4.19, 5.10, 6.1 and 7.3; `isolated_cpu_setup` and
//! `tick_nohz_full_setup` of Linux 3.10 to 4.14.

use super::{BootLine, IsolCpus, Param, Refusal};
use crate::cpuset::{BootGrammar, CpuSet};

/// From this version on a second, different list is refused; before it, the last occurrence counts.
const FIRST_COUNTS_SINCE: (u32, u32) = (4, 15);

/// From this version on each feature has a list of its own; before it, both parameters share one.
const OWN_LISTS_SINCE: (u32, u32) = (5, 18);

/// What a parameter may ask of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    /// No load balancing: `isolcpus=domain,…`, or without flags.
    Domain,
    /// No managed interrupts: `isolcpus=managed_irq,…`.
    ManagedIrq,
    /// No tick: `nohz_full=`, `isolcpus=nohz,…`.
    Tick,
}

/// What an occurrence asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) features: Vec<Feature>,
    /// Flags that are skipped.
    pub(super) skipped: Vec<String>,
    pub(super) cpus: CpuSet,
}

impl Asked {
    /// Reads an occurrence of either parameter; none for another one. Without a version, as the newest kernel reads it.
    pub(super) fn of(
        param: &Param,
        grammar: BootGrammar,
        version: Option<(u32, u32)>,
    ) -> Option<Result<Self, Refusal>> {
        let value = param.value.as_deref()?;
        if param.is("isolcpus") {
            let asked = match version {
                Some(version) => IsolCpus::parse_as(value, grammar, version),
                None => IsolCpus::parse(value, grammar),
            };
            return Some(asked.map(|asked| {
                let given = [
                    (asked.domain, Feature::Domain),
                    (asked.managed_irq, Feature::ManagedIrq),
                    (asked.nohz, Feature::Tick),
                ];
                let features = given.into_iter().filter_map(|(is_given, feature)| is_given.then_some(feature));
                Self { features: features.collect(), skipped: asked.skipped, cpus: asked.cpus }
            }));
        }
        param.is("nohz_full").then(|| {
            let cpus = CpuSet::parse_boot_list(value, grammar)?;
            if cpus.is_empty() {
                return Err(Refusal::Empty);
            }
            Ok(Self { features: vec![Feature::Tick], skipped: Vec::new(), cpus })
        })
    }
}

/// What becomes of an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The kernel takes it.
    Accepted(Asked),
    /// Its value is refused.
    Refused(Refusal),
    /// The occurrence at that place set another list for the same feature first.
    Occupied(usize),
    /// The occurrence at that place set another list first, which on this kernel is that of both parameters.
    Shared(usize),
    /// The occurrence at that place counts instead.
    Overridden(usize),
}

/// What becomes of every occurrence of either parameter, by its place among the parameters of the line.
pub(super) fn replay(line: &BootLine, grammar: BootGrammar, version: Option<(u32, u32)>) -> Vec<(usize, Taken)> {
    let mut taken: Vec<(usize, Taken)> = Vec::new();
    for (at, param) in line.params().iter().enumerate() {
        let outcome = match Asked::of(param, grammar, version) {
            None => continue,
            Some(Err(refusal)) => Taken::Refused(refusal),
            Some(Ok(asked)) if version.is_some_and(|version| version < FIRST_COUNTS_SINCE) => {
                override_earlier(&mut taken, at, &asked);
                Taken::Accepted(asked)
            }
            Some(Ok(asked)) => {
                let is_shared = version.is_some_and(|version| version < OWN_LISTS_SINCE);
                occupied(&taken, &asked, is_shared).unwrap_or(Taken::Accepted(asked))
            }
        };
        taken.push((at, outcome));
    }
    taken
}

fn override_earlier(taken: &mut [(usize, Taken)], at: usize, asked: &Asked) {
    for (_, earlier) in taken {
        if let Taken::Accepted(other) = earlier
            && other.features == asked.features
            && other.cpus != asked.cpus
        {
            *earlier = Taken::Overridden(at);
        }
    }
}

fn occupied(taken: &[(usize, Taken)], asked: &Asked, is_shared: bool) -> Option<Taken> {
    let others = taken.iter().filter_map(|(at, earlier)| match earlier {
        Taken::Accepted(other) if other.cpus != asked.cpus => Some((*at, other)),
        _ => None,
    });
    let mut shared = None;
    for (at, other) in others {
        if other.features.iter().any(|feature| asked.features.contains(feature)) {
            return Some(Taken::Occupied(at));
        }
        shared = shared.or_else(|| is_shared.then_some(Taken::Shared(at)));
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(line: &str, version: (u32, u32)) -> Vec<String> {
        let line = BootLine::parse(line).unwrap();
        let taken = replay(&line, BootGrammar::newest(Some(7)), Some(version));
        let shown = |taken: &Taken| match taken {
            Taken::Accepted(asked) => format!("{:?} {}", asked.features, asked.cpus),
            Taken::Refused(refusal) => format!("refused: {refusal}"),
            other => format!("{other:?}"),
        };
        taken.iter().map(|(at, taken)| format!("{at} {}", shown(taken))).collect()
    }

    #[test]
    fn the_first_list_of_a_feature_stands() {
        assert_eq!(outcome("isolcpus=2-3 quiet isolcpus=4-5", (6, 18)), ["0 [Domain] 2-3", "2 Occupied(0)"]);
        assert_eq!(outcome("isolcpus=2-3 isolcpus=nohz,2-3", (6, 18)), ["0 [Domain] 2-3", "1 [Tick] 2-3"]);
        assert_eq!(outcome("isolcpus=2 nohz_full=3", (6, 18)), ["0 [Domain] 2", "1 [Tick] 3"]);
        assert_eq!(outcome("nohz_full=2-3 isolcpus=nohz,domain,3", (6, 18)), ["0 [Tick] 2-3", "1 Occupied(0)"]);
    }

    #[test]
    fn up_to_5_17_both_parameters_share_a_list() {
        assert_eq!(outcome("isolcpus=2 nohz_full=3", (5, 17)), ["0 [Domain] 2", "1 Shared(0)"]);
        assert_eq!(outcome("isolcpus=2 nohz_full=2", (5, 10)), ["0 [Domain] 2", "1 [Tick] 2"]);
    }

    #[test]
    fn up_to_4_14_the_last_one_counts() {
        assert_eq!(
            outcome("isolcpus=2-3 isolcpus=4-5 nohz_full=2", (3, 10)),
            ["0 Overridden(1)", "1 [Domain] 4-5", "2 [Tick] 2"]
        );
    }

    #[test]
    fn what_is_refused_occupies_nothing() {
        assert_eq!(
            outcome("nohz_full=2-9 nohz_full=2-3 isolcpus", (6, 1)),
            ["0 refused: CPU 9 is beyond the last one, 7", "1 [Tick] 2-3"]
        );
        assert_eq!(outcome("nohz_full=", (6, 1)), ["0 refused: the list is empty"]);
    }
}
