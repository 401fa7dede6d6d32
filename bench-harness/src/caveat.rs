//! What a reader must know before quoting a number. Typed, so that each says the same thing everywhere, with its remedy.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::gate::{Audit, SUGGESTED, Verdict};

/// A reservation about a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caveat {
    /// `--quick`.
    Quick,
    /// There was no audit. Holds the reason.
    NotAudited(String),
    /// The audit was for a plan that was made of the host's topology.
    SuggestedPlan,
    /// The audit could not judge the host.
    AuditUnknown,
    /// The host failed its audit, and was measured anyway. Holds the failed rules.
    AuditFailed(Vec<String>),
    /// There is only one CPU.
    OneCpu,
    /// The measurement occupies every CPU that there is. Holds their number.
    FewCpus(usize),
    /// The two CPUs share one core.
    Siblings(u32, u32),
    /// The hypervisor took time away. Milliseconds, over the CPUs used.
    Steal(u64),
    /// A time was asked for, and the store was full before it was over.
    StoreFull {
        /// The arms that ended early.
        arms: Vec<String>,
        /// The samples of a round that were kept.
        n: u64,
    },
    /// Datagrams were sent and did not arrive.
    Lost {
        /// Where.
        arm: String,
        /// How many of them.
        lost: u64,
        /// How many there were.
        sent: u64,
    },
    /// Messages arrived before they left, by the clocks of two CPUs.
    ClocksDiffer {
        /// Where.
        arm: String,
        /// How many.
        count: u64,
    },
    /// A socket was told to poll, and there is nothing to poll. Holds the reasons.
    BusyPollInert(Vec<String>),
    /// The latency request was held, and changed the whole host meanwhile. Holds the arm.
    HostChanged(&'static str),
    /// The latency request made no difference that it could make. Holds the reasons.
    CapInert(Vec<String>),
    /// More gaps came than are kept each by itself. Their number, over all meters.
    GapsBinned(u64),
    /// The CPU's counter cannot be trusted. Holds the reason.
    SlowCounter(&'static str),
    /// The counter ran backwards so many times.
    Backwards(u64),
}

impl Caveat {
    /// What an audit's outcome asks to be said.
    pub fn of_audit(audit: &Audit) -> Vec<Caveat> {
        let suggested = (audit.plan.as_deref() == Some(SUGGESTED)).then_some(Caveat::SuggestedPlan);
        let outcome = match (&audit.missing, audit.verdict) {
            (Some(why), _) => Some(Caveat::NotAudited(why.clone())),
            (None, Verdict::Pass) => None,
            (None, Verdict::Unknown) => Some(Caveat::AuditUnknown),
            (None, Verdict::Fail) => Some(Caveat::AuditFailed(audit.failed.clone())),
        };
        outcome.into_iter().chain(suggested).collect()
    }

    /// The stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Caveat::Quick => "quick",
            Caveat::NotAudited(_) => "not-audited",
            Caveat::SuggestedPlan => "suggested-plan",
            Caveat::AuditUnknown => "audit-unknown",
            Caveat::AuditFailed(_) => "audit-failed",
            Caveat::OneCpu => "one-cpu",
            Caveat::FewCpus(_) => "few-cpus",
            Caveat::Siblings(..) => "siblings",
            Caveat::Steal(_) => "steal",
            Caveat::StoreFull { .. } => "store-full",
            Caveat::Lost { .. } => "lost",
            Caveat::ClocksDiffer { .. } => "clocks-differ",
            Caveat::BusyPollInert(_) => "busy-poll-inert",
            Caveat::HostChanged(_) => "host-changed",
            Caveat::CapInert(_) => "cap-inert",
            Caveat::GapsBinned(_) => "gaps-binned",
            Caveat::SlowCounter(_) => "slow-counter",
            Caveat::Backwards(_) => "counter-backwards",
        }
    }

    /// What it means and what to do about it.
    pub fn text(&self) -> String {
        match self {
            Caveat::Quick => "a smoke test: too few samples to quote; run without --quick".to_owned(),
            Caveat::NotAudited(why) => format!("nobody audited this host: {why}"),
            Caveat::SuggestedPlan => {
                "the audit is for a plan made of this host's topology; give the one that it is to run by with --plan"
                    .to_owned()
            }
            Caveat::AuditUnknown => "the audit could not judge every required rule on this host".to_owned(),
            Caveat::AuditFailed(failed) => {
                format!("the host fails its audit ({}); mend it and measure again", failed.join(", "))
            }
            Caveat::OneCpu => {
                "client and server would take turns on one CPU, and a race between them means nothing".to_owned()
            }
            Caveat::FewCpus(count) => {
                format!("all {count} CPUs take part, so that whatever else runs disturbs them; leave one to the rest")
            }
            Caveat::Siblings(a, b) => {
                format!("CPUs {a} and {b} are threads of one core and slow each other down; choose others with --cpus")
            }
            Caveat::Steal(ms) => {
                format!(
                    "the hypervisor took {ms} ms from these CPUs meanwhile; tails are its doing as much as the host's"
                )
            }
            Caveat::StoreFull { arms, n } => {
                format!(
                    "{}: a round ended early, after the {n} samples that are kept; ask for less time",
                    arms.join(", ")
                )
            }
            Caveat::Lost { arm, lost, sent } => {
                format!("{arm}: {lost} of {sent} datagrams did not arrive, and are in no percentile")
            }
            Caveat::ClocksDiffer { arm, count } => {
                format!(
                    "{arm}: {count} messages arrived before they left: the CPUs' clocks differ, and no one-way time is to be trusted"
                )
            }
            Caveat::HostChanged(arm) => {
                format!(
                    "{arm}: /dev/cpu_dma_latency was held at 0 during its turns, which kept every CPU of the host from its deeper idle states; it is released"
                )
            }
            Caveat::CapInert(why) => {
                format!("a held /dev/cpu_dma_latency changes nothing here: {}", why.join("; and "))
            }
            Caveat::BusyPollInert(why) => {
                format!("busy polling does nothing here: {}", why.join("; and "))
            }
            Caveat::GapsBinned(count) => {
                format!(
                    "{count} gaps came when the store was full: counted, their lengths known to three digits; raise --threshold"
                )
            }
            Caveat::SlowCounter(why) => {
                format!("{why}: CLOCK_MONOTONIC_RAW was read instead, which takes longer and hides the shortest gaps")
            }
            Caveat::Backwards(times) => {
                format!(
                    "the counter ran backwards {times} times: it is not to be trusted on this host, and neither is the result"
                )
            }
        }
    }
}

impl Serialize for Caveat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Caveat", 2)?;
        out.serialize_field("code", self.code())?;
        out.serialize_field("text", &self.text())?;
        out.end()
    }
}
