//! How long a datagram takes to a receiver that is idle when it comes, by the way in which the receiver waits.

use std::time::Duration;

use anyhow::Context;
use clap::{Args, FromArgMatches, ValueEnum};
use rustix::io::Errno;
use serde_json::{Map, Value};

use super::rounds::{Sampler, Schedule, Trial, sample_arms};
use super::{Claim, Experiment, Findings, Lab, Measurement, Roles, Row, Skip};
use crate::caveat::Caveat;
use crate::oneway::{self, Course, PATIENCE, interval};
use crate::samples::Samples;
use crate::sys::sockopt;
use crate::text::{self, strerror};
use crate::wire::Socket;

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "receive",
    about: "Say how long a message takes one way to an idle receiver that sleeps or spins",
    options: |command| Options::augment_args(command),
    build: |matches| Ok(Box::new(Options::from_arg_matches(matches)?)),
};

/// Messages to each arm where nothing else is asked for: 5 s an arm at the interval that is the default.
const REAL: Schedule = Schedule { rounds: 5, warmup: 100, n: 10_000, time: None };
const QUICK: Schedule = Schedule { rounds: 2, warmup: 20, n: 200, time: None };

/// What spinning saves is the wake-up, which takes longer than all the rest.
const WAKING_UP: f64 = 2.0;

/// Two medians that are the same but for what else happens on the host.
const ABOUT: f64 = 1.5;

const ROLES: [&str; 2] = ["sender", "receiver"];

#[derive(Clone, Debug, Args)]
struct Options {
    /// The time from one message to the next
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = interval)]
    interval: Duration,

    /// How long a socket that may busy-poll does so: SO_BUSY_POLL
    #[arg(long, value_name = "US", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    busy_poll_us: u32,

    /// Measure these arms only, commas between
    #[arg(long, value_enum, value_name = "ARM", value_delimiter = ',')]
    only: Vec<Way>,

    /// Exit with 1 when a message took longer than this or was lost
    #[arg(long, value_name = "TIME", value_parser = text::time)]
    fail_above: Option<Duration>,
}

/// How the receiver waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// Sleeps in the kernel
    Block,
    /// Sleeps when the device's queue was polled in vain
    Busypoll,
    /// Spins on a non-blocking socket
    Spin,
    /// Spins, and polls the device's queue each time
    #[value(name = "spin+busypoll")]
    SpinBusypoll,
}

impl Way {
    const ALL: [Way; 4] = [Way::Block, Way::Busypoll, Way::Spin, Way::SpinBusypoll];

    fn name(self) -> &'static str {
        match self {
            Way::Block => "block",
            Way::Busypoll => "busypoll",
            Way::Spin => "spin",
            Way::SpinBusypoll => "spin+busypoll",
        }
    }

    fn spins(self) -> bool {
        matches!(self, Way::Spin | Way::SpinBusypoll)
    }

    fn polls(self) -> bool {
        matches!(self, Way::Busypoll | Way::SpinBusypoll)
    }
}

impl Experiment for Options {
    fn roles(&self) -> Roles {
        Roles::Each(&ROLES)
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let ways = Way::ALL.into_iter().filter(|way| self.only.is_empty() || self.only.contains(way));
        let cpus = match lab.two_cpus(ROLES) {
            Ok(cpus) => cpus,
            Err(Skip(why)) => return Ok(self.findings(ways.map(|way| Row::skipped(way.name(), &why)).collect(), &[])),
        };
        let course = Course { cpus, interval: self.interval };
        let busy_poll_us = self.busy_poll_us;
        let mut arms: Vec<Arm> = ways.map(|way| Arm { way, course, busy_poll_us, napi_id: None }).collect();
        let mut samplers: Vec<&mut dyn Sampler> = arms.iter_mut().map(|arm| arm as &mut dyn Sampler).collect();
        let schedule = course.fit(lab.effort.shared(REAL, QUICK));
        let (rows, caveats) = sample_arms(&mut samplers, schedule, lab)?;
        let mut findings = self.findings(rows, &arms);
        findings.caveats.extend(caveats);
        Ok(findings)
    }
}

/// A way to wait, with what its socket said.
struct Arm {
    way: Way,
    course: Course,
    busy_poll_us: u32,
    /// The NAPI instance that the last message came from, as far as the kernel says.
    napi_id: Option<u32>,
}

impl Arm {
    /// The sockets of sender and receiver.
    fn sockets(&self) -> anyhow::Result<(Socket, Socket)> {
        let (sender, receiver) = Socket::udp_pair().context("cannot open two sockets")?;
        if self.way.spins() {
            receiver.set_nonblocking().context("cannot make a socket non-blocking")?;
        } else {
            receiver.set_patience(PATIENCE).context("cannot limit how long a socket waits")?;
        }
        if self.way.polls() {
            sockopt::set_busy_poll(&receiver, self.busy_poll_us).map_err(refused)?;
        }
        Ok((sender, receiver))
    }
}

/// Why a socket may not poll: what the host lacks, or an error.
fn refused(errno: Errno) -> anyhow::Error {
    let why = match errno {
        Errno::PERM => "it takes CAP_NET_ADMIN to raise it",
        Errno::NOPROTOOPT => "the kernel was built without CONFIG_NET_RX_BUSY_POLL",
        errno => return anyhow::Error::new(errno).context("cannot set SO_BUSY_POLL"),
    };
    Skip(format!("SO_BUSY_POLL: {}: {why}", strerror(errno))).into()
}

impl Sampler for Arm {
    fn name(&self) -> &str {
        self.way.name()
    }

    fn trial(&mut self, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<Map<String, Value>> {
        let (mut sender, mut receiver) = self.sockets()?;
        let tally = self.course.run(trial, samples, &mut sender, || Ok(&mut receiver))?;
        self.napi_id = sockopt::incoming_napi_id(&receiver).ok();
        Ok(tally.figures())
    }
}

/// Why busy polling does nothing on such a socket; no reason where it does something.
fn why_inert(napi_id: Option<u32>, window: Duration, interval: Duration) -> Vec<String> {
    let mut why = Vec::new();
    match napi_id {
        None => why.push("the kernel does not say which NAPI instance the messages come from".to_owned()),
        Some(0) => why.push("the messages come from no NAPI instance (id 0, as always on loopback)".to_owned()),
        Some(_) => {}
    }
    if window <= interval {
        why.push(format!("a poll of {window:?} is over before the next message, {interval:?} after the last"));
    }
    why
}

impl Options {
    /// What the measured or skipped `rows` of `arms` come to.
    fn findings(&self, mut rows: Vec<Row>, arms: &[Arm]) -> Findings {
        let window = Duration::from_micros(self.busy_poll_us.into());
        let mut inert = Vec::new();
        let title = format!("one message each {:?} to a receiver that is idle", self.interval);
        let mut table = oneway::table(&title, &rows);
        if let Some(table) = &mut table {
            table.columns.extend(["NAPI\nid", "busy\npoll"].map(str::to_owned));
        }
        let measured = rows.iter_mut().zip(arms).filter(|(row, _)| row.skipped.is_none());
        for ((row, arm), line) in measured.zip(table.iter_mut().flat_map(|table| &mut table.rows)) {
            row.figures.insert("napi_id".to_owned(), arm.napi_id.into());
            let mut poll = "-";
            if arm.way.polls() {
                let why = why_inert(arm.napi_id, window, self.interval);
                poll = if why.is_empty() { "on" } else { "inert" };
                row.figures.insert("busy_poll_us".to_owned(), self.busy_poll_us.into());
                row.figures.insert("busy_poll_inert".to_owned(), (!why.is_empty()).into());
                inert = why;
            }
            line.extend([arm.napi_id.map_or_else(|| "-".to_owned(), |id| id.to_string()), poll.to_owned()]);
        }
        let mut findings = Findings { sample: Some(oneway::SAMPLE), arms: rows, ..Findings::default() };
        findings.tables.extend(table);
        findings.claims = self.claims(&findings, !inert.is_empty());
        findings.caveats = oneway::caveats(&findings.arms);
        if !inert.is_empty() {
            findings.caveats.push(Caveat::BusyPollInert(inert));
        }
        findings
    }

    fn claims(&self, findings: &Findings, inert: bool) -> Vec<Claim> {
        let polled = |low, high| {
            if inert {
                Claim::near(findings, low, high, "p50", ABOUT)
            } else {
                Claim::below(findings, low, high, "p50", 1.0)
            }
        };
        let orders = [
            Claim::below(findings, "spin", "block", "p50", WAKING_UP),
            Claim::below(findings, "spin", "block", "p99.9", 1.0),
            polled("busypoll", "block"),
            inert.then(|| Claim::near(findings, "spin+busypoll", "spin", "p50", ABOUT)).flatten(),
        ];
        orders.into_iter().flatten().chain(self.limits(findings)).collect()
    }

    /// What `--fail-above` asks for: of every arm that was measured, and of one at least.
    fn limits(&self, findings: &Findings) -> Vec<Claim> {
        let Some(limit) = self.fail_above else { return Vec::new() };
        let arm = |row: &Row| {
            let lost = row.figures.get("lost").and_then(Value::as_u64)?;
            let longest = Duration::from_nanos(row.summary.as_ref()?.max);
            Some(Claim {
                claim: format!("{}: no message takes longer than {limit:?}", row.name),
                holds: longest <= limit && lost == 0,
                measured: format!("the longest took {longest:?}, {lost} were lost"),
                required: true,
            })
        };
        let mut claims: Vec<Claim> = findings.arms.iter().filter_map(arm).collect();
        if claims.is_empty() {
            claims.push(Claim {
                claim: format!("a message takes no longer than {limit:?}"),
                holds: false,
                measured: "every arm was skipped".to_owned(),
                required: true,
            });
        }
        claims
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oneway::Tally;
    use crate::summary::Summary;

    fn options(line: &[&str]) -> Options {
        let command = Options::augment_args(clap::Command::new("receive").no_binary_name(true));
        Options::from_arg_matches(&command.try_get_matches_from(line).unwrap()).unwrap()
    }

    fn arm(way: Way, napi_id: Option<u32>) -> Arm {
        let course = Course { cpus: [0, 1], interval: Duration::from_micros(500) };
        Arm { way, course, busy_poll_us: 200, napi_id }
    }

    fn row(way: Way, samples: &[u64], tally: Tally) -> Row {
        let figures = tally.figures();
        Row { name: way.name().to_owned(), summary: Summary::of(samples), figures, ..Row::default() }
    }

    /// What is found when all four arms were measured on a socket with this NAPI id.
    fn found(options: &Options, napi_id: Option<u32>, samples: [&[u64]; 4]) -> Findings {
        let arms = Way::ALL.map(|way| arm(way, napi_id));
        let tally = |samples: &[u64]| Tally { sent: samples.len() as u64, ..Tally::default() };
        let rows = Way::ALL.into_iter().zip(samples).map(|(way, samples)| row(way, samples, tally(samples)));
        options.findings(rows.collect(), &arms)
    }

    fn words(findings: &Findings) -> Vec<(&str, bool)> {
        findings.claims.iter().map(|claim| (claim.claim.as_str(), claim.holds)).collect()
    }

    #[test]
    fn the_orders_of_loopback() {
        let found = found(&options(&[]), Some(0), [&[70, 90], &[75, 80], &[13, 20], &[14, 21]]);
        let expected = [
            ("spin p50 ≪ block p50 (at least 2 times)", true),
            ("spin p99.9 < block p99.9", true),
            ("busypoll p50 ≈ block p50 (within 1.5 times)", true),
            ("spin+busypoll p50 ≈ spin p50 (within 1.5 times)", true),
        ];
        assert_eq!(words(&found), expected);
        assert!(found.claims.iter().all(|claim| !claim.required));
        assert_eq!(
            (&found.arms[1].figures["napi_id"], &found.arms[1].figures["busy_poll_inert"]),
            (&0.into(), &true.into())
        );
        assert!(!found.arms[0].figures.contains_key("busy_poll_inert"));
        assert_eq!(found.caveats.len(), 1);
        let text = found.caveats[0].text();
        assert!(text.contains("id 0") && text.contains("200µs") && text.contains("500µs"), "{text}");
        let table = found.tables[0].to_string();
        assert!(table.contains("inert") && table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }

    #[test]
    fn a_device_that_can_be_polled_is_expected_to_help() {
        let found = found(&options(&["--busy-poll-us", "2000"]), Some(275), [&[70], &[14], &[13], &[12]]);
        assert!(words(&found).contains(&("busypoll p50 < block p50", true)));
        assert_eq!(found.arms[3].figures["busy_poll_inert"], false);
        assert!(found.caveats.is_empty());
    }

    #[test]
    fn a_poll_that_does_nothing_has_its_reasons() {
        let us = Duration::from_micros;
        assert_eq!(why_inert(Some(0), us(200), us(500)).len(), 2);
        assert_eq!(why_inert(Some(0), us(600), us(500)).len(), 1);
        assert_eq!(why_inert(Some(9), us(500), us(500)).len(), 1);
        assert_eq!(why_inert(None, us(600), us(500)).len(), 1);
        assert!(why_inert(Some(9), us(501), us(500)).is_empty());
    }

    #[test]
    fn what_may_not_poll_is_skipped_and_anything_else_an_error() {
        let why = refused(Errno::PERM).downcast::<Skip>().unwrap().0;
        assert_eq!(why, "SO_BUSY_POLL: Operation not permitted: it takes CAP_NET_ADMIN to raise it");
        assert!(refused(Errno::NOPROTOOPT).is::<Skip>());
        assert!(!refused(Errno::BADF).is::<Skip>());
    }

    #[test]
    fn a_limit_is_for_every_message_of_every_arm_that_was_measured() {
        let options = options(&["--fail-above", "80ns"]);
        let samples: [&[u64]; 4] = [&[70, 81], &[75, 80], &[13, 20], &[14, 21]];
        let failing = |found: &Findings| -> Vec<String> {
            let failing = found.claims.iter().filter(|claim| claim.required && !claim.holds);
            failing.map(|claim| claim.claim.clone()).collect()
        };
        assert_eq!(failing(&found(&options, Some(0), samples)), ["block: no message takes longer than 80ns"]);
        let lossy = row(Way::Spin, &[13], Tally { sent: 2, lost: 1, ..Tally::default() });
        let lossy = options.findings(vec![lossy], &[arm(Way::Spin, None)]);
        assert_eq!(failing(&lossy), ["spin: no message takes longer than 80ns"]);
        // Nothing was measured, and that is no success.
        let none = options.findings(vec![Row::skipped("spin", "one CPU")], &[arm(Way::Spin, None)]);
        assert_eq!(failing(&none), ["a message takes no longer than 80ns"]);
        assert!(none.tables.is_empty());
    }

    #[test]
    fn command_lines() {
        let parsed = options(&["--only", "spin+busypoll,block", "--interval", "1ms"]);
        assert_eq!(parsed.only, [Way::SpinBusypoll, Way::Block]);
        assert_eq!(parsed.interval, Duration::from_millis(1));
    }
}
