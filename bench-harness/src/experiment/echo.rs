//! The race between a naive server and a busy-polling one, with the kernel as the witness.
//!
//! Two phases, each with fresh servers on loopback. The *proof* starts both with no outer pinning and reads where the
//! kernel lets them run. The *race* puts both on the same CPU from outside, so that they differ in discipline and in
//! nothing else, and the client on another; the kernel counts how often each of them gave up its CPU.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, FromArgMatches, ValueEnum};
use serde_json::{Map, Value, json};

use super::rounds::{Sampler, Schedule, Trial, rows_of_trials, sample};
use super::{Claim, Experiment, Findings, Lab, Measurement, Roles, Row, Skip, Step};
use crate::caveat::Caveat;
use crate::clock::Monotonic;
use crate::measure::round_trip;
use crate::samples::Samples;
use crate::server::{Kind, Server, program};
use crate::summary::median;
use crate::threads::{join, pin};
use crate::wire::Socket;
use crate::witness::{self, Counters};

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "echo",
    about: "Race a naive echo server against a busy-polling one on one CPU",
    options: |command| Options::augment_args(command),
    build: |matches| Ok(Box::new(Options::from_arg_matches(matches)?)),
};

/// What a sample is.
const SAMPLE: &str = "full round trip of 64 bytes over TCP";

/// Trials of each side where nothing else is asked for; every trial is a row of the result.
const REAL: Schedule = Schedule { rounds: 5, warmup: 500, n: 20_000, time: None };
const QUICK: Schedule = Schedule { rounds: 3, warmup: 200, n: 2_000, time: None };

/// The busy poll keeps its CPU when it gives it up at most this often in [`PER_MESSAGES`].
const KEEPS: u64 = 3;
const PER_MESSAGES: u64 = 20_000;

/// How often the stop flag is looked at while a trial runs.
const TICK: Duration = Duration::from_millis(100);

/// A trial that takes longer than this for a round trip, on average, is stuck: a time slice of a rival is shorter.
const STUCK_PER_TRIP: Duration = Duration::from_millis(20);
const STUCK_AT_LEAST: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Args)]
struct Options {
    /// How the client waits for an answer
    #[arg(long, value_enum, default_value = "block")]
    client: Wait,

    /// Run one side alone: for a comparison with another program
    #[arg(long, value_enum, value_name = "SIDE", conflicts_with = "require_ratio")]
    only: Option<Side>,

    /// Fail unless naive's median p50 is at least X times fastpath's
    #[arg(long, value_name = "X", value_parser = ratio)]
    require_ratio: Option<f64>,
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio.is_finite() && ratio > 0.0 => Ok(ratio),
        _ => Err("not a positive number".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wait {
    /// Sleep in the kernel, as `quietcore-echo measure` does
    Block,
    /// Spin on a non-blocking socket
    Spin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Naive,
    Fastpath,
}

impl Side {
    const BOTH: [Side; 2] = [Side::Naive, Side::Fastpath];

    fn name(self) -> &'static str {
        match self {
            Side::Naive => "naive",
            Side::Fastpath => "fastpath",
        }
    }

    fn kind(self, cpu: u32) -> Kind {
        match self {
            Side::Naive => Kind::Naive,
            Side::Fastpath => Kind::Fastpath { cpu },
        }
    }
}

impl Options {
    fn sides(&self) -> Vec<Side> {
        Side::BOTH.into_iter().filter(|&side| self.only.is_none_or(|only| only == side)).collect()
    }
}

impl Experiment for Options {
    fn roles(&self) -> Roles {
        Roles::Each(&["client", "server"])
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let program = program()?;
        let &server = lab.cpus.last().context("no CPU to run on")?;
        (lab.progress)(Step { name: "proof", done: 0, of: 1 });
        let proof = prove(&program, server, lab.stop)?;
        let [client, server] = match lab.two_cpus(["client", "server"]) {
            Ok(cpus) => cpus,
            Err(Skip(why)) => {
                return Ok(Findings {
                    arms: self.sides().into_iter().map(|side| Row::skipped(side.name(), &why)).collect(),
                    claims: proof,
                    caveats: vec![Caveat::OneCpu],
                    ..Findings::default()
                });
            }
        };
        let mut racers = Vec::new();
        for side in self.sides() {
            let process = Server::start(&program, side.kind(server), Some(server), lab.stop)?;
            let total = Counters::default();
            racers.push(Racer { side, process, client, wait: self.client, stop: lab.stop, total });
        }
        let schedule = lab.effort.each(REAL, QUICK);
        let mut samplers: Vec<&mut dyn Sampler> = racers.iter_mut().map(|racer| racer as &mut dyn Sampler).collect();
        let arms = rows_of_trials(sample(&mut samplers, schedule, lab)?);
        let mut tallies = Vec::new();
        for racer in racers {
            tallies.push(Tally::of(&racer, &arms)?);
            racer.process.stop()?;
        }
        let (summary, claims) = judge(&tallies, self.require_ratio);
        Ok(Findings { sample: Some(SAMPLE), arms, summary, claims: [proof, claims].concat(), ..Findings::default() })
    }
}

/// Starts both servers with no outer pinning and asks the kernel where they may run.
fn prove(program: &Path, cpu: u32, stop: &AtomicBool) -> anyhow::Result<Vec<Claim>> {
    let starter = witness::allowed_cpus(std::process::id())?;
    let [naive, fastpath] = Side::BOTH.map(|side| Server::start(program, side.kind(cpu), None, stop));
    let (naive, fastpath) = (naive?, fastpath?);
    let (roams, stays) = (witness::allowed_cpus(naive.pid())?, witness::allowed_cpus(fastpath.pid())?);
    naive.stop()?;
    fastpath.stop()?;
    Ok(vec![
        Claim {
            claim: "naive keeps every CPU of its starter".to_owned(),
            holds: roams == starter,
            measured: format!("{roams} of {starter}"),
            required: true,
        },
        Claim {
            claim: "fastpath keeps exactly the CPU it was told".to_owned(),
            holds: stays.as_slice() == [cpu],
            measured: format!("{stays}, told {cpu}"),
            required: true,
        },
    ])
}

/// A server in the race, with what the kernel counted of it so far.
struct Racer<'a> {
    side: Side,
    process: Server,
    client: u32,
    wait: Wait,
    stop: &'a AtomicBool,
    total: Counters,
}

impl Sampler for Racer<'_> {
    fn name(&self) -> &str {
        self.side.name()
    }

    /// The client runs in a thread of its own, which it pins; this one only watches. Whatever ends a trial early
    /// (the user, a stuck server) ends the server, and the client sees its connection close.
    fn trial(&mut self, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<Map<String, Value>> {
        let (pid, target, cpu, wait) = (self.process.pid(), self.process.target(), self.client, self.wait);
        let trip_count = u32::try_from(trial.warmup.saturating_add(trial.n)).unwrap_or(u32::MAX);
        let limit = STUCK_AT_LEAST + trial.time.unwrap_or(STUCK_PER_TRIP.saturating_mul(trip_count));
        let deadline = Instant::now() + limit;
        let mut stuck = false;
        let counted = thread::scope(|scope| {
            let (over, watch) = channel::<()>();
            let client = scope.spawn(move || {
                // Dropped on every way out, a panic included: the watcher sees the channel close.
                let _over = over;
                run_client(target, cpu, wait, trial, samples, || Ok(witness::counters(pid)?))
            });
            while watch.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                stuck = Instant::now() > deadline;
                if stuck || self.stop.load(Ordering::Relaxed) {
                    self.process.kill();
                }
            }
            join(client)
        });
        let counted =
            if stuck { counted.with_context(|| format!("stuck for {} s", limit.as_secs())) } else { counted }?;
        self.total.voluntary_switches += counted.voluntary_switches;
        self.total.involuntary_switches += counted.involuntary_switches;
        self.total.page_faults += counted.page_faults;
        Ok(figures(counted))
    }
}

/// One connection: warm up, measure, and read the server's counters on both sides of the measured part, while the
/// connection is open and idle. A server that waits for connections wakes up now and then, and that is not counted.
fn run_client(
    target: std::net::SocketAddrV4,
    cpu: u32,
    wait: Wait,
    trial: &Trial<'_>,
    samples: &mut Samples,
    counters: impl Fn() -> anyhow::Result<Counters>,
) -> anyhow::Result<Counters> {
    pin(cpu)?;
    let mut wire = Socket::connect(target).context("cannot connect to the server")?;
    if wait == Wait::Spin {
        wire.set_nonblocking().context("cannot make the client's socket non-blocking")?;
    }
    for i in 0..trial.warmup {
        round_trip(&mut wire, &Monotonic, i)?;
    }
    let before = counters()?;
    let measured = Trial { warmup: 0, ..*trial };
    measured.run(&Monotonic, samples, |i| anyhow::Ok(round_trip(&mut wire, &Monotonic, trial.warmup + i)?))?;
    Ok(counters()?.since(before))
}

fn figures(counters: Counters) -> Map<String, Value> {
    Map::from_iter([
        ("voluntary_ctxt_switches".to_owned(), counters.voluntary_switches.into()),
        ("nonvoluntary_ctxt_switches".to_owned(), counters.involuntary_switches.into()),
        ("page_faults".to_owned(), counters.page_faults.into()),
    ])
}

/// One side over all its trials.
#[derive(Clone, Copy, Debug)]
struct Tally {
    side: Side,
    /// Median over trials of p50, in nanoseconds.
    p50: u64,
    /// Messages that were measured.
    messages: u64,
    /// What the kernel counted meanwhile.
    counters: Counters,
}

impl Tally {
    fn of(racer: &Racer<'_>, rows: &[Row]) -> anyhow::Result<Tally> {
        let own = |row: &&Row| row.arm() == racer.side.name();
        let summaries = || rows.iter().filter(own).filter_map(|row| row.summary.as_ref());
        let messages = summaries().map(|summary| summary.n).sum();
        let p50s: Vec<u64> = summaries().map(|summary| summary.p50).collect();
        let p50 = median(&p50s).context("a side without a trial")?;
        Ok(Tally { side: racer.side, p50, messages, counters: racer.total })
    }

    /// What the kernel has to say about this side.
    fn claims(&self) -> Vec<Claim> {
        let Tally { messages, counters, .. } = self;
        let switches = counters.voluntary_switches;
        let measured = format!("{switches} voluntary switches in {messages} messages");
        match self.side {
            Side::Naive => vec![Claim {
                claim: "naive gives up its CPU about once a message".to_owned(),
                holds: switches >= messages / 2 && switches <= messages * 2,
                measured,
                required: true,
            }],
            Side::Fastpath => vec![
                Claim {
                    claim: format!("fastpath gives up its CPU at most {KEEPS} times in {PER_MESSAGES} messages"),
                    holds: switches <= KEEPS * messages.div_ceil(PER_MESSAGES),
                    measured,
                    required: true,
                },
                // Memory pressure may evict a page of any program, which is no contradiction.
                Claim {
                    claim: "fastpath faults no page while it serves".to_owned(),
                    holds: counters.page_faults == 0,
                    measured: format!("{} faults in {messages} messages", counters.page_faults),
                    required: false,
                },
            ],
        }
    }
}

/// Compares the sides, where there are two, and says which claims hold.
fn judge(tallies: &[Tally], require_ratio: Option<f64>) -> (Map<String, Value>, Vec<Claim>) {
    let mut summary = Map::new();
    let mut claims = Vec::new();
    for tally in tallies {
        let mut figures = figures(tally.counters);
        figures.insert("p50_median".to_owned(), tally.p50.into());
        figures.insert("messages".to_owned(), tally.messages.into());
        summary.insert(tally.side.name().to_owned(), figures.into());
        claims.extend(tally.claims());
    }
    if let [naive, fastpath] = tallies {
        let ratio = quotient(naive.p50, fastpath.p50);
        summary.insert("ratio".to_owned(), json!((ratio * 1000.0).round() / 1000.0));
        let wanted = require_ratio.unwrap_or(1.0);
        let claim = match require_ratio {
            Some(wanted) => format!("naive's median p50 is at least {wanted} times fastpath's"),
            None => "fastpath's median p50 is below naive's".to_owned(),
        };
        let holds = if require_ratio.is_some() { ratio >= wanted } else { ratio > wanted };
        let measured = format!("{} against {} ns, ratio {ratio:.2}", naive.p50, fastpath.p50);
        claims.push(Claim { claim, holds, measured, required: require_ratio.is_some() });
    }
    (summary, claims)
}

#[expect(clippy::cast_precision_loss, reason = "round trips are far below 2^53 ns")]
fn quotient(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(side: Side, p50: u64, messages: u64, voluntary_switches: u64, page_faults: u64) -> Tally {
        let counters = Counters { voluntary_switches, involuntary_switches: 7, page_faults };
        Tally { side, p50, messages, counters }
    }

    fn failing(tallies: &[Tally], require_ratio: Option<f64>) -> Vec<String> {
        let (_, claims) = judge(tallies, require_ratio);
        claims.into_iter().filter(|claim| claim.required && !claim.holds).map(|claim| claim.claim).collect()
    }

    #[test]
    fn a_good_race() {
        let sides = [tally(Side::Naive, 110, 100_000, 100_003, 0), tally(Side::Fastpath, 30, 100_000, 15, 0)];
        let (summary, claims) = judge(&sides, None);
        assert_eq!(summary["ratio"], 3.667);
        assert_eq!(summary["naive"]["p50_median"], 110);
        assert_eq!(summary["fastpath"]["voluntary_ctxt_switches"], 15);
        assert!(claims.iter().all(|claim| claim.holds));
    }

    #[test]
    fn a_contradicted_witness_fails_the_run() {
        let naive = tally(Side::Naive, 110, 20_000, 20_000, 0);
        let fastpath = tally(Side::Fastpath, 30, 20_000, 3, 0);
        assert!(failing(&[naive, fastpath], None).is_empty());
        let sleepless = tally(Side::Naive, 110, 20_000, 40, 0);
        assert_eq!(failing(&[sleepless, fastpath], None), ["naive gives up its CPU about once a message"]);
        let sleepy = tally(Side::Fastpath, 30, 20_000, 4, 0);
        assert_eq!(failing(&[naive, sleepy], None).len(), 1);
        let evicted = tally(Side::Fastpath, 30, 20_000, 3, 1);
        assert!(failing(&[naive, evicted], None).is_empty());
    }

    #[test]
    fn the_ratio_fails_the_run_only_when_required() {
        let slower = [tally(Side::Naive, 90, 20_000, 20_000, 0), tally(Side::Fastpath, 100, 20_000, 0, 0)];
        assert!(failing(&slower, None).is_empty());
        assert!(!judge(&slower, None).1.iter().all(|claim| claim.holds));
        assert_eq!(failing(&slower, Some(0.95)).len(), 1);
        assert!(failing(&slower, Some(0.9)).is_empty());
    }

    #[test]
    fn one_side_has_no_ratio() {
        let (summary, claims) = judge(&[tally(Side::Fastpath, 30, 20_000, 0, 0)], None);
        assert!(!summary.contains_key("ratio"));
        assert_eq!(claims.len(), 2);
    }

    #[test]
    fn ratios() {
        assert_eq!(ratio("1.5"), Ok(1.5));
        for text in ["0", "-1", "NaN", "inf", "x", ""] {
            assert!(ratio(text).is_err(), "{text}");
        }
    }
}
