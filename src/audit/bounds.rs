//! Sets that are known in part.
//!
//! A set that was read in part is known to hold at least what was read, and may hold any other CPU; one that could not be
//! read at all may hold anything. What is asked of it holds when it holds for every set within the bounds, fails when it
//! fails for every one, and is open otherwise. So a file that cannot be read costs a verdict only where the verdict
//! depends on it.

use std::fmt;

use crate::cpuset::CpuSet;
use crate::fact::{Observation, Value};
use crate::reading::Reading;
use crate::rule::SetOp;

/// What is known of a set.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// The CPUs that it holds for certain.
    pub(super) least: CpuSet,
    /// The CPUs that it may hold; none: any.
    pub(super) most: Option<CpuSet>,
}

/// Whether a comparison of sets holds, and where not the CPUs that break it for certain.
pub(super) enum Compared {
    Holds,
    Breaks(CpuSet),
    Open,
}

impl Bounds {
    pub(super) fn exactly(set: CpuSet) -> Self {
        Self { most: Some(set.clone()), least: set }
    }

    pub(super) fn nothing_known() -> Self {
        Self { least: CpuSet::new(), most: None }
    }

    pub(super) fn of(observation: &Observation) -> Self {
        match &observation.reading {
            Reading::Value(Value::Cpus(set)) => {
                let most = match &observation.gap {
                    None => Some(set.clone()),
                    Some(gap) => gap.cpus.as_ref().map(|more| set | more),
                };
                Self { least: set.clone(), most }
            }
            Reading::Unset => Self::exactly(CpuSet::new()),
            _ => Self::nothing_known(),
        }
    }

    pub(super) fn join(op: SetOp, left: &Self, right: &Self) -> Self {
        let (least, most) = match op {
            SetOp::Or => {
                let most = left.most.as_ref().zip(right.most.as_ref()).map(|(left, right)| left | right);
                (&left.least | &right.least, most)
            }
            SetOp::And => {
                let most = match (&left.most, &right.most) {
                    (Some(left), Some(right)) => Some(left & right),
                    (Some(one), None) | (None, Some(one)) => Some(one.clone()),
                    (None, None) => None,
                };
                (&left.least & &right.least, most)
            }
            SetOp::Minus => {
                let least = right.most.as_ref().map_or_else(CpuSet::new, |right| &left.least - right);
                (least, left.most.as_ref().map(|left| left - &right.least))
            }
        };
        Self { least, most }
    }

    pub(super) fn within(&self, right: &Self) -> Compared {
        if self.most.as_ref().is_some_and(|most| most.is_subset(&right.least)) {
            return Compared::Holds;
        }
        let outside = right.most.as_ref().map_or_else(CpuSet::new, |right| &self.least - right);
        if outside.is_empty() { Compared::Open } else { Compared::Breaks(outside) }
    }

    pub(super) fn avoids(&self, right: &Self) -> Compared {
        let touched = &self.least & &right.least;
        if !touched.is_empty() {
            return Compared::Breaks(touched);
        }
        let can_touch = match (&self.most, &right.most) {
            (Some(left), Some(right)) => !left.is_disjoint(right),
            (Some(one), None) | (None, Some(one)) => !one.is_empty(),
            (None, None) => true,
        };
        if can_touch { Compared::Open } else { Compared::Holds }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = Value::Cpus(self.least.clone());
        match &self.most {
            Some(most) if *most == self.least => write!(f, "{least}"),
            _ if self.least.is_empty() => f.write_str("not known"),
            _ => write!(f, "{least} at least"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    fn exactly(list: &str) -> Bounds {
        Bounds::exactly(set(list))
    }

    fn at_least(list: &str) -> Bounds {
        Bounds { least: set(list), most: None }
    }

    fn shown(compared: Compared) -> String {
        match compared {
            Compared::Holds => "holds".to_owned(),
            Compared::Breaks(cpus) => format!("breaks {cpus}"),
            Compared::Open => "open".to_owned(),
        }
    }

    #[test]
    fn within() {
        assert_eq!(shown(exactly("2-3").within(&exactly("0-5"))), "holds");
        assert_eq!(shown(exactly("2-6").within(&exactly("0-5"))), "breaks 6");
        assert_eq!(shown(exactly("").within(&exactly(""))), "holds");
        // What is there suffices, whatever else may be.
        assert_eq!(shown(exactly("2-3").within(&at_least("0-5"))), "holds");
        assert_eq!(shown(exactly("2-6").within(&at_least("0-5"))), "open");
        assert_eq!(shown(at_least("2").within(&exactly("0-5"))), "open");
        assert_eq!(shown(at_least("6").within(&exactly("0-5"))), "breaks 6");
        assert_eq!(shown(Bounds::nothing_known().within(&Bounds::nothing_known())), "open");
    }

    #[test]
    fn avoids() {
        assert_eq!(shown(exactly("2-3").avoids(&exactly("4-5"))), "holds");
        assert_eq!(shown(exactly("2-4").avoids(&exactly("4-5"))), "breaks 4");
        assert_eq!(shown(at_least("4").avoids(&exactly("4-5"))), "breaks 4");
        assert_eq!(shown(at_least("2").avoids(&exactly("4-5"))), "open");
        assert_eq!(shown(at_least("2").avoids(&exactly(""))), "holds");
        assert_eq!(shown(exactly("").avoids(&at_least("2"))), "holds");
    }

    #[test]
    fn operators() {
        let shown = |op, left: &Bounds, right: &Bounds| {
            let joined = Bounds::join(op, left, right);
            format!("{}..{}", joined.least, joined.most.map_or("any".to_owned(), |most| most.to_string()))
        };
        assert_eq!(shown(SetOp::Or, &exactly("2"), &at_least("3")), "2-3..any");
        assert_eq!(shown(SetOp::And, &exactly("2-3"), &at_least("3")), "3..2-3");
        assert_eq!(shown(SetOp::And, &at_least("2-3"), &at_least("3")), "3..any");
        assert_eq!(shown(SetOp::Minus, &exactly("2-5"), &at_least("3")), "..2,4-5");
        assert_eq!(shown(SetOp::Minus, &at_least("2-5"), &exactly("3")), "2,4-5..any");
    }
}
