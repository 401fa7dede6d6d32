//! What it costs to ask: the kernel for a number, the vDSO for the time, the CPU for its counter.
//!
//! A call is too short to be timed by itself, so that batches are, and of batches the median: one that was interrupted
//! is longer and says nothing about the call.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use clap::ArgMatches;
use rustix::process::getpid;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

use super::rounds::{Sampler, Schedule, Trial, sample_arms};
use super::{Claim, Effort, Experiment, Findings, Interrupted, Lab, Measurement, Raw, Roles, Row, Skip};
use crate::clock::Monotonic;
use crate::counter::{self, Counter, Cpu, Source, Ticks, precise};
use crate::samples::Samples;
use crate::summary::Summary;
use crate::table::Table;
use crate::threads::run_on;

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "syscalls",
    about: "Time a system call, a clock read through the vDSO, and the counter",
    options: |command| command,
    build: |_: &ArgMatches| Ok(Box::new(Syscalls)),
};

/// Calls that are timed together: long enough that the two reads around them are nothing (a thousandth of what they
/// enclose), short enough that most batches see no interrupt.
const BATCH: u64 = 1_000;

/// Calls of each arm.
const REAL: u64 = 2_000_000;
const QUICK: u64 = 100_000;

/// How many times the vDSO has to be cheaper to be called much cheaper: kernel entries of 100 to 250 ns against reads of
/// 15 to 30 ns.
const MUCH: f64 = 3.0;

struct Syscalls;

impl Experiment for Syscalls {
    fn roles(&self) -> Roles {
        Roles::Each(&["caller"])
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let counter = Counter::choose();
        let &cpu = lab.cpus.last().context("no CPU to run on")?;
        let mut arms = Call::ALL.map(|call| Timed { call, cpu, counter });
        let mut samplers: Vec<&mut dyn Sampler> = arms.iter_mut().map(|arm| arm as &mut dyn Sampler).collect();
        let (rows, caveats) = sample_arms(&mut samplers, schedule(&lab.effort), lab)?;
        let rows = rows.into_iter().map(|row| per_call(row, counter)).collect();
        Ok(Findings { caveats, ..findings(rows, counter) })
    }
}

/// A schedule that counts batches.
fn schedule(effort: &Effort) -> Schedule {
    let default = |rounds, warmup, calls: u64| Schedule { rounds, warmup, n: calls / BATCH, time: None };
    let batches = |calls: Option<u64>| calls.map(|calls| calls.div_ceil(BATCH));
    let effort = Effort { n: batches(effort.n), warmup: batches(effort.warmup), ..*effort };
    effort.shared(default(5, 20, REAL), default(2, 2, QUICK))
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Counter,
    Vdso,
    Instant,
    Getpid,
}

impl Call {
    /// From the cheapest to the dearest, as expected.
    const ALL: [Call; 4] = [Call::Counter, Call::Vdso, Call::Instant, Call::Getpid];

    fn name(self) -> &'static str {
        match self {
            Call::Counter => "counter",
            Call::Vdso => "vdso",
            Call::Instant => "instant",
            Call::Getpid => "getpid",
        }
    }
}

/// An arm: its samples are the times of batches.
struct Timed {
    call: Call,
    cpu: u32,
    counter: Counter,
}

impl Sampler for Timed {
    fn name(&self) -> &str {
        self.call.name()
    }

    fn trial(&mut self, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<Map<String, Value>> {
        let (call, counter) = (self.call, self.counter);
        run_on(self.cpu, || match counter.source {
            Source::Cpu => Ok(time(call, &Cpu, counter, trial, samples)?),
            Source::Raw(why) if call == Call::Counter => Err(Skip(why.to_owned()).into()),
            Source::Raw(_) => Ok(time(call, &counter::Raw, counter, trial, samples)?),
        })?;
        Ok(Map::new())
    }
}

/// One loop for each kind of call, so that none of them pays for the choice.
fn time(
    call: Call,
    ticks: &impl Ticks,
    counter: Counter,
    trial: &Trial<'_>,
    samples: &mut Samples,
) -> Result<(), Interrupted> {
    match call {
        Call::Counter => batches(ticks, counter, trial, samples, || Cpu.read()),
        // Both go past the C library: a number that it remembered would be no system call, and its clock none of ours.
        Call::Vdso => batches(ticks, counter, trial, samples, || clock_gettime(ClockId::Monotonic)),
        Call::Getpid => batches(ticks, counter, trial, samples, getpid),
        Call::Instant => batches(ticks, counter, trial, samples, Instant::now),
    }
}

fn batches<T>(
    ticks: &impl Ticks,
    counter: Counter,
    trial: &Trial<'_>,
    samples: &mut Samples,
    call: impl Fn() -> T,
) -> Result<(), Interrupted> {
    trial.run(&Monotonic, samples, |_| {
        let begin = ticks.read();
        for _ in 0..BATCH {
            black_box(call());
        }
        Ok(counter.ns(ticks.read().saturating_sub(begin)))
    })
}

/// An arm's batches as the figures of one call.
fn per_call(row: Row, counter: Counter) -> Row {
    // The row's own percentiles are those of batches, and its CSV would be, too: a reader would take them for calls.
    let Raw::Samples(rounds) = &row.raw else { return row };
    let of_one = |ns: u64| precise(ns) / precise(BATCH);
    let Some(all) = Summary::of(&row.raw.durations()).filter(|_| row.skipped.is_none()) else { return row };
    let medians: Vec<f64> =
        rounds.iter().filter_map(|round| Summary::of(round.as_slice())).map(|round| of_one(round.p50)).collect();
    let cycles = match counter.source {
        Source::Cpu => json!(rounded(of_one(all.p50) / counter.ns_per_tick)),
        Source::Raw(_) => Value::Null,
    };
    Row::figures(
        row.name,
        [
            ("calls", json!(all.n * BATCH)),
            ("calls_per_batch", json!(BATCH)),
            ("ns_per_call", json!(of_one(all.p50))),
            ("cycles_per_call", cycles),
            ("min_ns_per_call", json!(of_one(all.min))),
            ("p99_ns_per_call", json!(of_one(all.p99))),
            ("ns_per_call_by_round", json!(medians)),
        ],
    )
}

/// Two decimals.
fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

fn findings(arms: Vec<Row>, counter: Counter) -> Findings {
    let mut findings = Findings { arms, ..Findings::default() };
    let orders = [("counter", "vdso", 1.0), ("vdso", "getpid", MUCH), ("instant", "getpid", MUCH)];
    findings.claims = orders
        .into_iter()
        .filter_map(|(low, high, times)| Claim::below(&findings, low, high, "ns_per_call", times))
        .collect();
    let title = match counter.source {
        Source::Cpu => {
            let mhz = rounded(1e3 / counter.ns_per_tick);
            // A core's own clock rises and falls; the counter's does not, and only that one is read here.
            let kind = "reference cycles, not those of the core";
            let cycles = json!({"counter": counter.name(), "mhz": mhz, "kind": kind});
            findings.summary.insert("cycles".to_owned(), cycles);
            format!("medians of batches of {BATCH} calls; a cycle is a tick of the {} at {mhz} MHz", counter.name())
        }
        Source::Raw(why) => format!("medians of batches of {BATCH} calls; no cycles: {why}"),
    };
    let columns = ["", "ns\na call", "cycles\na call", "ns, best\nbatch", "ns, p99 of\nbatches", "calls"];
    let mut table = Table::new(&title, &columns);
    for row in findings.arms.iter().filter(|row| row.skipped.is_none()) {
        let cells =
            [("ns_per_call", 1), ("cycles_per_call", 1), ("min_ns_per_call", 1), ("p99_ns_per_call", 1), ("calls", 0)];
        table.push(row, &cells);
    }
    findings.tables.push(table);
    findings
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;

    const COUNTER: Counter = Counter { source: Source::Cpu, ns_per_tick: 0.5, resolution_ns: 0.5 };
    const RAW: Counter = Counter { source: Source::Raw("unstable"), ns_per_tick: 1.0, resolution_ns: 1.0 };

    /// A counter that stands still, but for what calls add to it.
    struct Hand(Cell<u64>);

    impl Ticks for Hand {
        fn read(&self) -> u64 {
            self.0.get()
        }
    }

    /// A row as `sample_arms` makes it, of batches of these lengths.
    fn row(name: &str, rounds: &[&[u64]]) -> Row {
        let rounds = rounds.iter().map(|batches| {
            let mut samples = Samples::default();
            batches.iter().for_each(|&ns| samples.record(ns));
            samples
        });
        let raw = Raw::Samples(rounds.collect());
        Row { name: name.to_owned(), unit: Some("ns"), summary: Summary::of(&raw.durations()), raw, ..Row::default() }
    }

    #[test]
    fn a_batch_is_timed_as_a_whole() {
        let (hand, stop, calls) = (Hand(Cell::new(7)), AtomicBool::new(false), Cell::new(0));
        let mut samples = Samples::with_capacity(3).unwrap();
        let trial = Trial { warmup: 2, n: 3, time: None, stop: &stop };
        batches(&hand, COUNTER, &trial, &mut samples, || {
            calls.set(calls.get() + 1);
            // The first call of the second batch that counts is interrupted.
            hand.0.set(hand.0.get() + if calls.get() == 3 * BATCH + 1 { 10_040 } else { 40 });
        })
        .unwrap();
        assert_eq!(samples.as_slice(), [20_000, 25_000, 20_000]);
        assert_eq!(calls.get(), 5 * BATCH);
    }

    #[test]
    fn an_interrupted_batch_does_not_move_the_figure() {
        let row = per_call(row("getpid", &[&[100_000, 900_000, 100_000], &[102_000, 104_000, 101_000]]), COUNTER);
        let figure = |name| row.figure(name).unwrap();
        assert!((figure("ns_per_call") - 101.0).abs() < 1e-9);
        assert!((figure("cycles_per_call") - 202.0).abs() < 1e-9);
        assert!((figure("min_ns_per_call") - 100.0).abs() < 1e-9);
        assert!((figure("p99_ns_per_call") - 900.0).abs() < 1e-9);
        assert!((figure("calls") - 6_000.0).abs() < 1e-9);
        assert_eq!(row.figures["ns_per_call_by_round"], json!([100.0, 102.0]));
        assert!(row.summary.is_none() && row.unit.is_none() && row.raw.durations().is_empty());
    }

    #[test]
    fn without_a_counter_there_are_no_cycles() {
        let arms = vec![Row::skipped("counter", "unstable"), per_call(row("vdso", &[&[20_000]]), RAW)];
        let found = findings(arms, RAW);
        assert_eq!(found.arms[1].figures["cycles_per_call"], Value::Null);
        assert!(found.claims.is_empty() && found.summary.is_empty());
        let text = found.tables[0].to_string();
        assert!(text.contains("no cycles: unstable") && !text.contains("counter"), "{text}");
    }

    #[test]
    fn orders_are_claimed() {
        let of = |name, ns| per_call(row(name, &[&[ns]]), COUNTER);
        let arms = vec![of("counter", 10_000), of("vdso", 25_000), of("instant", 50_000), of("getpid", 100_000)];
        let found = findings(arms, COUNTER);
        let claims: Vec<_> = found.claims.iter().map(|claim| (claim.claim.as_str(), claim.holds)).collect();
        let expected = [
            ("counter ns_per_call < vdso ns_per_call", true),
            ("vdso ns_per_call ≪ getpid ns_per_call (at least 3 times)", true),
            ("instant ns_per_call ≪ getpid ns_per_call (at least 3 times)", false),
        ];
        assert_eq!(claims, expected);
        assert_eq!(found.summary["cycles"]["mhz"], 2000.0);
        assert!(found.tables[0].to_string().lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn schedules_count_batches() {
        let none = Effort::default();
        assert_eq!(schedule(&none), Schedule { rounds: 5, warmup: 20, n: 400, time: None });
        assert_eq!(schedule(&Effort { n: Some(1), warmup: Some(1_001), ..none }).n, 1);
        let timed = schedule(&Effort { time: Some(Duration::from_secs(1)), rounds: Some(2), ..none });
        assert_eq!(timed.time, Some(Duration::from_millis(500)));
    }
}
