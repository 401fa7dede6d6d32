//! What two knobs are worth: how late a message comes to a sleeping receiver as the host is, with its idle states capped,
//! under load, and under the same load fenced off the receiver's CPU.
//!
//! Each turn makes its condition and ends it. What comes out is reported and not required: on a guest most of the time is
//! the waking of an idle virtual CPU, which a load may even shorten.

use std::process;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, FromArgMatches, ValueEnum};
use rustix::io::Errno;
use serde_json::{Map, Value};

use super::rounds::{Sampler, Schedule, Trial, sample_arms};
use super::{Claim, Experiment, Findings, Lab, Measurement, Roles, Row, Skip};
use crate::caveat::Caveat;
use crate::cpus::CpuList;
use crate::lab::orders::Unit;
use crate::latency::{self, Request};
use crate::load::{Kind, Load};
use crate::oneway::{self, Course, PATIENCE, interval};
use crate::samples::Samples;
use crate::text::strerror;
use crate::wire::Socket;
use crate::witness;

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "tuning",
    about: "Say what capped idle states and a fence against load are worth to a receiver",
    options: |command| Options::augment_args(command),
    build: |matches| Ok(Box::new(Options::from_arg_matches(matches)?)),
};

const REAL: Schedule = Schedule { rounds: 5, warmup: 100, n: 10_000, time: None };
const QUICK: Schedule = Schedule { rounds: 2, warmup: 20, n: 200, time: None };

const ROLES: [&str; 2] = ["sender", "receiver"];

/// How long a condition holds before anything is measured: a load has to begin, and a CPU to leave the state it is in.
const SETTLE: Duration = Duration::from_millis(200);

/// The fence is as good as a quiet host when the tail behind it is at most so many times that of the host as it is.
const AS_GOOD: f64 = 2.0;

#[derive(Clone, Debug, Args)]
struct Options {
    /// The time from one message to the next
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = interval)]
    interval: Duration,

    /// What makes the load
    #[arg(long, value_enum, default_value = "spin")]
    load: Kind,

    /// Measure these arms only, commas between
    #[arg(long, value_enum, value_name = "ARM", value_delimiter = ',')]
    only: Vec<Condition>,
}

/// What the host is like while messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Condition {
    /// As the host is
    Stock,
    /// /dev/cpu_dma_latency is held at 0
    Capped,
    /// A busy thread for each CPU, anywhere
    Loaded,
    /// The same on all CPUs but the receiver's
    Fenced,
}

impl Condition {
    const ALL: [Condition; 4] = [Condition::Stock, Condition::Capped, Condition::Loaded, Condition::Fenced];

    fn name(self) -> &'static str {
        match self {
            Condition::Stock => "stock",
            Condition::Capped => "capped",
            Condition::Loaded => "loaded",
            Condition::Fenced => "fenced",
        }
    }

    /// In a sentence.
    fn words(self) -> &'static str {
        match self {
            Condition::Stock => "as the host is",
            Condition::Capped => "with idle states capped",
            Condition::Loaded => "under load",
            Condition::Fenced => "under load that is fenced off the receiver's CPU",
        }
    }
}

impl Experiment for Options {
    fn roles(&self) -> Roles {
        Roles::Each(&ROLES)
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let conditions = Condition::ALL.into_iter().filter(|it| self.only.is_empty() || self.only.contains(it));
        let cpus = match lab.two_cpus(ROLES) {
            Ok(cpus) => cpus,
            Err(Skip(why)) => {
                return Ok(self.findings(conditions.map(|it| Row::skipped(it.name(), &why)).collect(), Vec::new()));
            }
        };
        let allowed = witness::allowed_cpus(process::id())?;
        let course = Course { cpus, interval: self.interval };
        let load = self.load;
        let mut arms: Vec<Arm> =
            conditions.map(|condition| Arm { condition, course, load, allowed: &allowed, before_us: None }).collect();
        let mut samplers: Vec<&mut dyn Sampler> = arms.iter_mut().map(|arm| arm as &mut dyn Sampler).collect();
        let (rows, caveats) = sample_arms(&mut samplers, course.fit(lab.effort.shared(REAL, QUICK)), lab)?;
        let before_us = arms.iter().find_map(|arm| arm.before_us);
        let mut findings = self.findings(rows, cap_caveats(before_us, latency::idle_driver().as_deref()));
        findings.caveats.extend(caveats);
        Ok(findings)
    }
}

/// A condition, and a receiver that sleeps under it.
struct Arm<'a> {
    condition: Condition,
    course: Course,
    load: Kind,
    allowed: &'a CpuList,
    /// What was requested of idle states before this arm did: the least that was found.
    before_us: Option<i32>,
}

/// A condition while it holds: it ends when this is dropped.
#[derive(Default)]
struct Held {
    request: Option<Request>,
    load: Option<Load>,
}

impl Arm<'_> {
    fn hold(&self) -> anyhow::Result<Held> {
        let load = |cpus: &CpuList| Load::start(self.load, self.allowed.as_slice().len(), cpus).map(Some);
        Ok(match self.condition {
            Condition::Stock => Held::default(),
            Condition::Capped => Held { request: Some(Request::hold(0).map_err(|error| no_cap(&error))?), load: None },
            Condition::Loaded => Held { request: None, load: load(self.allowed)? },
            Condition::Fenced => Held { request: None, load: load(&self.outside()?)? },
        })
    }

    /// Every CPU but the receiver's.
    fn outside(&self) -> Result<CpuList, Skip> {
        let [_, receiver] = self.course.cpus;
        let outside: CpuList = self.allowed.as_slice().iter().copied().filter(|&cpu| cpu != receiver).collect();
        if outside.as_slice().is_empty() {
            return Err(Skip(format!("this process may only run on the receiver's CPU {receiver}")));
        }
        Ok(outside)
    }
}

/// Why idle states cannot be capped: no device, or no permission.
fn no_cap(error: &std::io::Error) -> Skip {
    if error.kind() == std::io::ErrorKind::NotFound {
        return Skip(format!("not exposed here ({})", latency::DEVICE));
    }
    let why = Errno::from_io_error(error).map_or_else(|| error.to_string(), strerror);
    Skip(format!("{}: {why}", latency::DEVICE))
}

impl Sampler for Arm<'_> {
    fn name(&self) -> &str {
        self.condition.name()
    }

    fn trial(&mut self, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<Map<String, Value>> {
        let (mut sender, mut receiver) = Socket::udp_pair().context("cannot open two sockets")?;
        receiver.set_patience(PATIENCE).context("cannot limit how long a socket waits")?;
        let mut held = self.hold()?;
        thread::sleep(SETTLE);
        let tally = self.course.run(trial, samples, &mut sender, || Ok(&mut receiver))?;
        held.load.as_mut().map_or(Ok(()), Load::is_there)?;
        if let Some(request) = held.request {
            self.before_us = self.before_us.into_iter().chain([request.before_us]).min();
        }
        Ok(tally.figures())
    }
}

/// What has to be said of a request that was held, of what was requested `before_us` and of what idles the CPUs.
fn cap_caveats(before_us: Option<i32>, driver: Option<&str>) -> Vec<Caveat> {
    let Some(before_us) = before_us else { return Vec::new() };
    let mut inert = Vec::new();
    if before_us <= 0 {
        inert.push("somebody else holds it at 0 already".to_owned());
    }
    match driver {
        None => inert.push("the kernel shows no cpuidle driver that would heed it".to_owned()),
        Some("none") => inert.push("the CPUs idle without a cpuidle driver, which alone heeds it".to_owned()),
        Some(_) => {}
    }
    let mut caveats = vec![Caveat::HostChanged(Condition::Capped.name())];
    caveats.extend((!inert.is_empty()).then_some(Caveat::CapInert(inert)));
    caveats
}

impl Options {
    fn findings(&self, arms: Vec<Row>, caveats: Vec<Caveat>) -> Findings {
        let mut findings = Findings { sample: Some(oneway::SAMPLE), arms, caveats, ..Findings::default() };
        findings.caveats.extend(oneway::caveats(&findings.arms));
        let title = format!("one message each {:?} to a receiver that sleeps", self.interval);
        findings.tables.extend(oneway::table(&title, &findings.arms));
        findings.summary.extend(dividend(&findings).map(|sentence| ("dividend".to_owned(), sentence.into())));
        let claims = [
            Claim::below(&findings, "capped", "stock", "p50", 1.0),
            Claim::below(&findings, "capped", "stock", "p99.9", 1.0),
            Claim::below(&findings, "fenced", "loaded", "p99.9", 1.0),
            fence(&findings),
        ];
        findings.claims = claims.into_iter().flatten().collect();
        findings
    }
}

/// Is the receiver behind the fence as well off as without the load?
fn fence(findings: &Findings) -> Option<Claim> {
    let of = |condition: Condition| findings.arm(condition.name())?.figure("p99.9");
    let ratio = of(Condition::Fenced)? / of(Condition::Stock)?;
    Some(Claim {
        claim: format!("fenced p99.9 is at most {AS_GOOD} times stock p99.9"),
        holds: ratio <= AS_GOOD,
        measured: format!("ratio {ratio:.2}"),
        required: false,
    })
}

/// The sentence: three numbers, and of each why there is none. Nothing where nothing at all was measured.
fn dividend(findings: &Findings) -> Option<String> {
    findings.arms.iter().find(|row| row.skipped.is_none())?;
    let part = |condition: Condition| {
        let row = findings.arms.iter().find(|row| row.name == condition.name());
        let value = match row {
            Some(Row { skipped: Some(why), .. }) => why.clone(),
            Some(row) => row.figure("p99.9").map_or_else(|| "unknown".to_owned(), |ns| Unit::Time.written(ns)),
            None => "not measured".to_owned(),
        };
        format!("{}: {value}", condition.words())
    };
    Some(format!("p99.9 {}", [Condition::Stock, Condition::Capped, Condition::Fenced].map(part).join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oneway::Tally;
    use crate::summary::Summary;

    fn options(line: &[&str]) -> Options {
        let command = Options::augment_args(clap::Command::new("tuning").no_binary_name(true));
        Options::from_arg_matches(&command.try_get_matches_from(line).unwrap()).unwrap()
    }

    /// An arm with this median and this tail, in microseconds.
    fn row(condition: Condition, p50: u64, tail: u64) -> Row {
        let samples = [vec![p50 * 1_000; 9], vec![tail * 1_000]].concat();
        let figures = Tally { sent: 10, ..Tally::default() }.figures();
        Row { name: condition.name().to_owned(), summary: Summary::of(&samples), figures, ..Row::default() }
    }

    fn found(capped: Row) -> Findings {
        let arms = vec![
            row(Condition::Stock, 60, 1_300),
            capped,
            row(Condition::Loaded, 20, 4_000),
            row(Condition::Fenced, 22, 310),
        ];
        options(&[]).findings(arms, Vec::new())
    }

    fn holds(findings: &Findings) -> Vec<(&str, bool)> {
        findings.claims.iter().map(|claim| (claim.claim.as_str(), claim.holds)).collect()
    }

    #[test]
    fn one_sentence_with_three_numbers() {
        let found = found(row(Condition::Capped, 10, 400));
        let sentence = "p99.9 as the host is: 1.3 ms; with idle states capped: 400 us; \
                        under load that is fenced off the receiver's CPU: 310 us";
        assert_eq!(found.summary["dividend"], sentence);
        let expected = [
            ("capped p50 < stock p50", true),
            ("capped p99.9 < stock p99.9", true),
            ("fenced p99.9 < loaded p99.9", true),
            ("fenced p99.9 is at most 2 times stock p99.9", true),
        ];
        assert_eq!(holds(&found), expected);
        assert!(found.claims.iter().all(|claim| !claim.required));
    }

    #[test]
    fn a_knob_that_is_missing_is_said_to_be() {
        let missing = no_cap(&std::io::ErrorKind::NotFound.into()).0;
        assert_eq!(missing, "not exposed here (/dev/cpu_dma_latency)");
        let found = found(Row::skipped("capped", missing));
        let sentence = found.summary["dividend"].as_str().unwrap();
        assert!(sentence.contains("with idle states capped: not exposed here (/dev/cpu_dma_latency);"), "{sentence}");
        assert_eq!(found.claims.len(), 2);
        let none = options(&[]).findings(Vec::new(), Vec::new());
        assert!(none.claims.is_empty() && none.tables.is_empty() && none.summary.is_empty());
    }

    #[test]
    fn a_request_that_was_held_is_owned_up_to() {
        let codes = |before, driver| -> Vec<_> {
            cap_caveats(before, driver).iter().map(|caveat| (caveat.code(), caveat.text())).collect()
        };
        assert!(codes(None, Some("intel_idle")).is_empty());
        let free = codes(Some(2_000_000_000), Some("intel_idle"));
        assert_eq!((free.len(), free[0].0), (1, "host-changed"));
        assert!(free[0].1.starts_with("capped: /dev/cpu_dma_latency was held at 0"), "{free:?}");
        let inert = codes(Some(0), Some("none"));
        assert_eq!(inert[1].0, "cap-inert");
        assert!(inert[1].1.contains("already; and the CPUs idle without"), "{inert:?}");
        assert_eq!(codes(Some(100), None).len(), 2);
    }

    #[test]
    fn the_fence_is_around_the_receiver() {
        let arm = |allowed: &str, receiver| {
            let allowed = allowed.parse().unwrap();
            let course = Course { cpus: [0, receiver], interval: Duration::from_millis(1) };
            let arm =
                Arm { condition: Condition::Fenced, course, load: Kind::Spin, allowed: &allowed, before_us: None };
            arm.outside().map(|cpus| cpus.to_string())
        };
        assert_eq!(arm("0-7", 6), Ok("0-5,7".to_owned()));
        assert_eq!(arm("0-1", 1), Ok("0".to_owned()));
        assert!(arm("3", 3).is_err());
    }

    #[test]
    fn command_lines() {
        let asked = options(&["--only", "capped,stock", "--load", "stress-ng"]);
        assert_eq!((asked.only.as_slice(), asked.load), (&[Condition::Capped, Condition::Stock][..], Kind::StressNg));
    }
}
