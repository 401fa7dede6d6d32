//! What the first touch of a page costs, and that locked memory pays it in advance.
//!
//! A pass maps fresh memory and writes a byte to each page. With the process locked into memory (`mlockall`) the kernel
//! populates the pages when they are mapped, and the touch meets no fault. Transparent huge pages are ruled out for the
//! mapping: of 8 192 faults they would leave 16.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ArgMatches;
use quietcore::units::Bytes;
use rustix::io::Errno;
use rustix::param::page_size;
use serde_json::json;

use super::rounds::{Arm, Effort, Schedule, interleave};
use super::{Claim, Experiment, Findings, Interrupted, Lab, Measurement, Roles, Row, Skip, go_on};
use crate::clock::{Clock, Monotonic};
use crate::counter::precise;
use crate::locked::{self, Locked};
use crate::summary::Summary;
use crate::sys::memory::{Mapping, faults_of_thread};
use crate::table::Table;
use crate::text::strerror;
use crate::threads::run_on;

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "faults",
    about: "Touch fresh pages, with the process locked into memory and without",
    options: |command| command,
    build: |_: &ArgMatches| Ok(Box::new(Faults)),
};

/// What a pass maps, in bytes; `-n` gives pages.
const REAL: usize = 32 << 20;
const QUICK: usize = 2 << 20;

/// What is made accessible, or touched, without a look at the stop flag: some tens of milliseconds at most.
const UNWATCHED: usize = 32 << 20;

/// How many times cheaper a touch without a fault has to be to be called much cheaper.
const MUCH: f64 = 10.0;

struct Faults;

impl Experiment for Faults {
    fn roles(&self) -> Roles {
        Roles::Each(&["toucher"])
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let &cpu = lab.cpus.last().context("no CPU to run on")?;
        let (schedule, span) = schedule(&lab.effort);
        let toucher = |is_locked| Toucher { is_locked, cpu, schedule, span, stop: lab.stop, passes: Vec::new() };
        let mut arms = [toucher(false), toucher(true)];
        let [unlocked, locked] = &mut arms;
        let skipped = interleave(&mut [unlocked, locked], schedule.rounds, lab)?;
        let rows = arms.iter().zip(skipped).map(|(arm, skipped)| row(arm.name(), &arm.passes, schedule.n, skipped));
        Ok(findings(rows.collect()))
    }
}

/// Pages of a pass and passes before each turn that are forgotten; and how long a turn repeats itself where a time is asked
/// for.
fn schedule(effort: &Effort) -> (Schedule, Option<Duration>) {
    let default = |rounds, bytes| Schedule { rounds, warmup: 1, n: (bytes / page_size()) as u64, time: None };
    let schedule = Effort { time: None, ..*effort }.each(default(5, REAL), default(2, QUICK));
    (schedule, effort.time.map(|time| time / schedule.rounds))
}

/// An arm.
struct Toucher<'a> {
    is_locked: bool,
    cpu: u32,
    schedule: Schedule,
    span: Option<Duration>,
    stop: &'a AtomicBool,
    passes: Vec<Pass>,
}

/// What a pass took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pass {
    /// Faults of the touch.
    faults: u64,
    /// Nanoseconds to map.
    map_ns: u64,
    /// Nanoseconds to touch.
    touch_ns: u64,
}

impl Arm for Toucher<'_> {
    fn name(&self) -> &str {
        if self.is_locked { "locked" } else { "unlocked" }
    }

    /// The process is locked for the length of the turn alone: every other thread is locked with it.
    fn turn(&mut self) -> anyhow::Result<()> {
        let (is_locked, stop, span, warmup) = (self.is_locked, self.stop, self.span, self.schedule.warmup);
        let len = usize::try_from(self.schedule.n).ok().and_then(|pages| pages.checked_mul(page_size()));
        let len = len.context("more pages than addresses")?;
        let there_is = available().unwrap_or(Bytes::UNLIMITED);
        if len as u64 > there_is.0 / 2 {
            return Err(Skip(format!("{} would be touched, and {there_is} are available", Bytes(len as u64))).into());
        }
        let passes = &mut self.passes;
        run_on(self.cpu, || {
            let lock = || Locked::populated().map_err(|errno| Skip(locked::refusal("mlockall", errno)));
            let _locked = is_locked.then(lock).transpose()?;
            for _ in 0..warmup {
                pass(len, stop)?;
            }
            let begin = Instant::now();
            loop {
                passes.push(pass(len, stop)?);
                if span.is_none_or(|span| begin.elapsed() >= span) {
                    return Ok(());
                }
            }
        })
    }
}

fn pass(len: usize, stop: &AtomicBool) -> anyhow::Result<Pass> {
    let unmapped = |errno| match errno {
        // How the kernel answers a locked process that maps more than it may lock.
        Errno::AGAIN => Skip(locked::refusal("mmap", errno)),
        _ => Skip(format!("cannot map {}: {}", Bytes(len as u64), strerror(errno))),
    };
    let begin = Monotonic.now_ns();
    let mut mapping = Mapping::reserve(len).map_err(unmapped)?;
    for _ in (0..len).step_by(UNWATCHED) {
        go_on(stop)?;
        mapping.open(UNWATCHED).map_err(unmapped)?;
    }
    let mapped = Monotonic.now_ns();
    let before = faults_of_thread();
    let begin_touch = Monotonic.now_ns();
    touch(mapping.as_mut_slice(), stop)?;
    let end = Monotonic.now_ns();
    let faults = faults_of_thread() - before;
    Ok(Pass { faults, map_ns: mapped - begin, touch_ns: end - begin_touch })
}

/// Writes a byte to each page.
fn touch(memory: &mut [u8], stop: &AtomicBool) -> Result<(), Interrupted> {
    for chunk in memory.chunks_mut(UNWATCHED) {
        go_on(stop)?;
        for byte in chunk.iter_mut().step_by(page_size()) {
            *black_box(byte) = 1;
        }
    }
    Ok(())
}

/// What can be had without swapping.
fn available() -> Option<Bytes> {
    mem_available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn mem_available(meminfo: &str) -> Option<Bytes> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024).map(Bytes)
}

/// Medians over the passes, and how far they lie apart.
fn row(name: &str, passes: &[Pass], pages: u64, skipped: Option<String>) -> Row {
    let of = |figure: fn(&Pass) -> u64| Summary::of(&passes.iter().map(figure).collect::<Vec<_>>());
    let summaries = (of(|pass| pass.faults), of(|pass| pass.map_ns), of(|pass| pass.touch_ns));
    let (faults, map, touch) = match (skipped, summaries) {
        (Some(why), _) => return Row::skipped(name, why),
        (None, (Some(faults), Some(map), Some(touch))) => (faults, map, touch),
        (None, _) => return Row::skipped(name, "nothing was touched"),
    };
    let a_page = |ns: u64| json!((precise(ns) / precise(pages) * 10.0).round() / 10.0);
    Row::figures(
        name,
        [
            ("pages", json!(pages)),
            ("page_bytes", json!(page_size())),
            ("passes", json!(passes.len())),
            ("faults", json!(faults.p50)),
            ("min_faults", json!(faults.min)),
            ("max_faults", json!(faults.max)),
            ("map_ns_per_page", a_page(map.p50)),
            ("touch_ns_per_page", a_page(touch.p50)),
            ("min_touch_ns_per_page", a_page(touch.min)),
            ("max_touch_ns_per_page", a_page(touch.max)),
        ],
    )
}

fn findings(arms: Vec<Row>) -> Findings {
    let mut findings = Findings { arms, ..Findings::default() };
    let mut claims = Vec::new();
    for (arm, claim, share) in [("unlocked", "each page is one fault", 1.0), ("locked", "no page is a fault", 0.0)] {
        let of = |figure| findings.arm(arm)?.figure(figure);
        let figures = of("faults").zip(of("pages")).zip(of("min_faults").zip(of("max_faults")));
        // Of the median pass, and not required: a page that is migrated, or that NUMA balancing looks at, faults once more.
        claims.extend(figures.map(|((faults, pages), (fewest, most))| Claim {
            claim: format!("{arm}: {claim}"),
            holds: (faults - share * pages).abs() < 0.5,
            measured: format!("{faults:.0} faults of {pages:.0} pages, in single passes {fewest:.0} to {most:.0}"),
            required: false,
        }));
    }
    claims.extend(Claim::below(&findings, "locked", "unlocked", "touch_ns_per_page", MUCH));
    findings.claims = claims;
    findings.tables.push(table(&findings.arms));
    findings
}

fn table(rows: &[Row]) -> Table {
    let columns = ["", "faults", "pages", "map\nns a page", "touch\nns a page", "touch,\nquickest", "touch,\nslowest"];
    let mut table = Table::new("medians of passes over fresh pages; no huge pages", &columns);
    for row in rows.iter().filter(|row| row.skipped.is_none()) {
        let cells = [
            ("faults", 0),
            ("pages", 0),
            ("map_ns_per_page", 1),
            ("touch_ns_per_page", 1),
            ("min_touch_ns_per_page", 1),
            ("max_touch_ns_per_page", 1),
        ];
        table.push(row, &cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(faults: [u64; 3], touch_ns: [u64; 3]) -> Vec<Pass> {
        faults.into_iter().zip(touch_ns).map(|(faults, touch_ns)| Pass { faults, map_ns: 1_000, touch_ns }).collect()
    }

    fn found(unlocked: [u64; 3], locked: [u64; 3]) -> Findings {
        let unlocked = row("unlocked", &passes(unlocked, [900_000, 100_000, 110_000]), 100, None);
        let locked = row("locked", &passes(locked, [2_000, 2_000, 2_100]), 100, None);
        findings(vec![unlocked, locked])
    }

    fn holds(findings: &Findings) -> Vec<bool> {
        findings.claims.iter().map(|claim| claim.holds).collect()
    }

    #[test]
    fn medians_a_page() {
        let found = found([100; 3], [0; 3]);
        let [unlocked, locked] = &found.arms[..] else { panic!() };
        let figure = |row: &Row, name| row.figure(name).unwrap();
        assert!((figure(unlocked, "touch_ns_per_page") - 1_100.0).abs() < 1e-9);
        assert!((figure(unlocked, "max_touch_ns_per_page") - 9_000.0).abs() < 1e-9);
        assert!((figure(locked, "touch_ns_per_page") - 20.0).abs() < 1e-9);
        assert!((figure(locked, "map_ns_per_page") - 10.0).abs() < 1e-9);
        assert_eq!((&unlocked.figures["faults"], &locked.figures["faults"]), (&json!(100), &json!(0)));
        assert_eq!(holds(&found), [true; 3]);
        assert!(found.tables[0].to_string().lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn faults_of_the_median_pass_are_judged() {
        let migrated = found([100, 101, 100], [0, 0, 1]);
        assert_eq!(holds(&migrated), [true; 3]);
        assert_eq!(migrated.claims[1].measured, "0 faults of 100 pages, in single passes 0 to 1");
        // Huge pages in spite of everything; memory that is not locked in spite of everything.
        assert_eq!(holds(&found([1, 1, 1], [0, 100, 100])), [false, false, true]);
    }

    #[test]
    fn a_process_that_may_not_lock_has_one_arm() {
        let unlocked = row("unlocked", &passes([100; 3], [1_000; 3]), 100, None);
        let found = findings(vec![unlocked, row("locked", &[], 100, Some("not permitted".to_owned()))]);
        assert_eq!(holds(&found), [true]);
        assert_eq!(found.arms[1].skipped.as_deref(), Some("not permitted"));
    }

    #[test]
    fn a_touch_ends_when_the_user_wants_it() {
        let stop = AtomicBool::new(true);
        assert!(pass(page_size(), &stop).unwrap_err().is::<Interrupted>());
        stop.store(false, std::sync::atomic::Ordering::Relaxed);
        assert!(pass(4 * page_size(), &stop).unwrap().faults >= 4);
    }

    #[test]
    fn schedules() {
        let none = Effort::default();
        let (real, span) = schedule(&none);
        assert_eq!((real.n, span), ((REAL / page_size()) as u64, None));
        let (timed, span) = schedule(&Effort { time: Some(Duration::from_secs(1)), quick: true, ..none });
        assert_eq!((timed.n, span), ((QUICK / page_size()) as u64, Some(Duration::from_millis(500))));
        assert_eq!(schedule(&Effort { n: Some(7), ..none }).0.n, 7);
    }

    #[test]
    fn meminfo() {
        assert_eq!(mem_available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(Bytes(2 << 20)));
        for text in ["", "MemAvailable: x kB\n", "MemAvailable: 5\n", "MemTotal: 9 kB\n"] {
            assert_eq!(mem_available(text), None, "{text}");
        }
    }
}
