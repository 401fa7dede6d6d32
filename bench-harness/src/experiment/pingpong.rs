//! One byte to and fro between two threads of this process: by pipes, by a futex, by a cache line that both look at.
//!
//! On one CPU a pipe costs two switches between threads; on two it costs the wake-up of a CPU that has nothing to do, twice.
//! The cache line costs neither, and shows how far the two CPUs are apart.

use std::io::{PipeReader, PipeWriter, pipe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;
use clap::ArgMatches;
use rustix::io::{Errno, read, write};
use rustix::thread::futex;
use rustix::time::Timespec;
use serde_json::{Map, Value};

use super::rounds::{Sampler, Schedule, Trial, sample_arms};
use super::{Claim, Experiment, Findings, Lab, Measurement, Roles, Row, Skip};
use crate::oneway::{self, PATIENCE};
use crate::samples::Samples;
use crate::trips::{self, End, Taken};

/// What a sample is.
const SAMPLE: &str = "full round trip of a byte";

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "pingpong",
    about: "Bounce a byte between two threads, on one CPU and on two",
    options: |command| command,
    build: |_: &ArgMatches| Ok(Box::new(PingPong)),
};

const REAL: Schedule = Schedule { rounds: 5, warmup: 200, n: 20_000, time: None };
const QUICK: Schedule = Schedule { rounds: 2, warmup: 50, n: 1_000, time: None };

const ROLES: [&str; 2] = ["client", "server"];

/// How many times more a wake-up costs than a look at a cache line, and more.
const MUCH: f64 = 3.0;

struct PingPong;

/// What goes between the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Pipe,
    Futex,
    Line,
}

/// Where the threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    OneCpu,
    TwoCpus,
}

const ARMS: [(&str, By, On); 6] = [
    ("pipe-same-cpu", By::Pipe, On::OneCpu),
    ("pipe-two-cpus", By::Pipe, On::TwoCpus),
    ("futex-same-cpu", By::Futex, On::OneCpu),
    ("futex-two-cpus", By::Futex, On::TwoCpus),
    ("line-same-cpu", By::Line, On::OneCpu),
    ("line-two-cpus", By::Line, On::TwoCpus),
];

impl Experiment for PingPong {
    fn roles(&self) -> Roles {
        Roles::Each(&ROLES)
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let &here = lab.cpus.last().context("no CPU to run on")?;
        let two = lab.two_cpus(ROLES);
        let mut arms = ARMS.map(|(name, by, on)| {
            let cpus = match (by, on) {
                (By::Line, On::OneCpu) => {
                    let why =
                        "a thread that spins does not let the other one run on its CPU until its time slice is over";
                    Err(Skip(why.to_owned()))
                }
                (_, On::OneCpu) => Ok([here, here]),
                (_, On::TwoCpus) => two.clone(),
            };
            Arm { name, by, cpus }
        });
        let mut samplers = arms.each_mut().map(|arm| arm as &mut dyn Sampler);
        let (rows, caveats) = sample_arms(&mut samplers, lab.effort.shared(REAL, QUICK), lab)?;
        let mut findings = findings(rows);
        findings.caveats.extend(caveats);
        Ok(findings)
    }
}

fn findings(arms: Vec<Row>) -> Findings {
    let mut findings = Findings { sample: Some(SAMPLE), arms, ..Findings::default() };
    let orders = [
        // The other CPU has nothing to do and has to be woken up.
        Claim::below(&findings, "pipe-same-cpu", "pipe-two-cpus", "p50", 1.0),
        Claim::below(&findings, "futex-same-cpu", "futex-two-cpus", "p50", 1.0),
        Claim::below(&findings, "futex-same-cpu", "pipe-same-cpu", "p50", 1.0),
        Claim::below(&findings, "line-two-cpus", "pipe-same-cpu", "p50", MUCH),
        Claim::below(&findings, "line-two-cpus", "pipe-two-cpus", "p50", MUCH),
    ];
    findings.claims = orders.into_iter().flatten().collect();
    findings.caveats = oneway::caveats(&findings.arms);
    findings
}

struct Arm {
    name: &'static str,
    by: By,
    cpus: Result<[u32; 2], Skip>,
}

impl Sampler for Arm {
    fn name(&self) -> &str {
        self.name
    }

    fn trial(&mut self, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<Map<String, Value>> {
        let cpus = self.cpus.clone()?;
        match self.by {
            By::Pipe => {
                let [there, back] = [pipe().context("cannot open a pipe")?, pipe().context("cannot open a pipe")?];
                let asking = Pipes { from: back.0, to: there.1 };
                trips::run(cpus, trial, samples, asking, Pipes { from: there.0, to: back.1 })
            }
            By::Futex => {
                let [asking, answering] = Word::pair().map(Futex);
                trips::run(cpus, trial, samples, asking, answering)
            }
            By::Line => {
                let [asking, answering] = Word::pair().map(Line);
                trips::run(cpus, trial, samples, asking, answering)
            }
        }
    }
}

/// A pipe in each direction.
struct Pipes {
    from: PipeReader,
    to: PipeWriter,
}

impl End for Pipes {
    #[inline]
    fn give(&mut self, number: u8) -> anyhow::Result<()> {
        loop {
            match write(&self.to, &[number]) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).context("cannot write into a pipe"),
            }
        }
    }

    /// The other end closes when its thread ends, and so does this read.
    #[inline]
    fn take(&mut self) -> anyhow::Result<Taken> {
        let mut byte = [0];
        match read(&self.from, &mut byte) {
            Ok(0) => Ok(Taken::End),
            Ok(_) => Ok(Taken::Message(byte[0])),
            Err(Errno::INTR) => Ok(Taken::Nothing),
            Err(errno) => Err(errno).context("cannot read from a pipe"),
        }
    }
}

/// A word in memory on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Word(AtomicU32);

/// One end: the word that this one writes, the other one's, and what was last seen there.
#[derive(Debug)]
struct Ends {
    own: Arc<Word>,
    others: Arc<Word>,
    seen: u32,
}

impl Word {
    /// Two ends of the same two words.
    fn pair() -> [Ends; 2] {
        let [a, b] = [Arc::<Word>::default(), Arc::default()];
        [Ends { own: Arc::clone(&a), others: Arc::clone(&b), seen: 0 }, Ends { own: b, others: a, seen: 0 }]
    }
}

impl Ends {
    /// Publishes a message: a count that makes each one differ from the last, and its number in the low byte.
    #[inline]
    fn put(&self, number: u8) {
        let last = self.own.0.load(Ordering::Relaxed);
        let next = (last & !0xff).wrapping_add(0x100) | u32::from(number);
        self.own.0.store(next, Ordering::Release);
    }

    /// The message that came since the last look.
    #[inline]
    fn look(&mut self) -> Option<u8> {
        let now = self.others.0.load(Ordering::Acquire);
        if now == self.seen {
            return None;
        }
        self.seen = now;
        Some(now.to_le_bytes()[0])
    }
}

/// Sleeps in the kernel until the word changes.
struct Futex(Ends);

/// How long a futex is waited on before the stop flag is looked at.
const A_WHILE: Timespec = {
    let nanoseconds = PATIENCE.as_nanos();
    assert!(nanoseconds < 1_000_000_000);
    #[expect(clippy::cast_possible_truncation, reason = "less than a second")]
    Timespec { tv_sec: 0, tv_nsec: nanoseconds as i64 }
};

impl End for Futex {
    #[inline]
    fn give(&mut self, number: u8) -> anyhow::Result<()> {
        self.0.put(number);
        futex::wake(&self.0.own.0, futex::Flags::PRIVATE, 1).context("cannot wake a futex")?;
        Ok(())
    }

    #[inline]
    fn take(&mut self) -> anyhow::Result<Taken> {
        if let Some(number) = self.0.look() {
            return Ok(Taken::Message(number));
        }
        match futex::wait(&self.0.others.0, futex::Flags::PRIVATE, self.0.seen, Some(&A_WHILE)) {
            // EAGAIN: it changed before the kernel looked.
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            Err(errno) => return Err(errno).context("cannot wait on a futex"),
        }
        Ok(self.0.look().map_or(Taken::Nothing, Taken::Message))
    }
}

/// Looks at the word until it changes.
struct Line(Ends);

/// Looks before the stop flag is looked at.
const LOOKS: u32 = 1_000;

impl End for Line {
    #[inline]
    fn give(&mut self, number: u8) -> anyhow::Result<()> {
        self.0.put(number);
        Ok(())
    }

    #[inline]
    fn take(&mut self) -> anyhow::Result<Taken> {
        for _ in 0..LOOKS {
            if let Some(number) = self.0.look() {
                return Ok(Taken::Message(number));
            }
            std::hint::spin_loop();
        }
        Ok(Taken::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Summary;

    #[test]
    fn the_orders() {
        let row =
            |name: &str, samples: &[u64]| Row { summary: Summary::of(samples), ..Row::figures(name.to_owned(), []) };
        let found = findings(vec![
            row("pipe-same-cpu", &[6_600]),
            row("pipe-two-cpus", &[30_000]),
            Row::skipped("futex-same-cpu", "no"),
            row("line-two-cpus", &[150]),
        ]);
        let claims: Vec<_> = found.claims.iter().map(|claim| (claim.claim.as_str(), claim.holds)).collect();
        let expected = [
            ("pipe-same-cpu p50 < pipe-two-cpus p50", true),
            ("line-two-cpus p50 ≪ pipe-same-cpu p50 (at least 3 times)", true),
            ("line-two-cpus p50 ≪ pipe-two-cpus p50 (at least 3 times)", true),
        ];
        assert_eq!(claims, expected);
    }

    /// Messages arrive once, in both directions, and equal numbers are two messages.
    fn is_an_end(mut a: impl End, mut b: impl End) {
        for number in [5, 5, 0, 255, 0] {
            a.give(number).unwrap();
            assert_eq!(b.take().unwrap(), Taken::Message(number));
            b.give(number).unwrap();
            assert_eq!(a.take().unwrap(), Taken::Message(number));
        }
    }

    #[test]
    fn ends() {
        let [there, back] = [pipe().unwrap(), pipe().unwrap()];
        is_an_end(Pipes { from: back.0, to: there.1 }, Pipes { from: there.0, to: back.1 });
        let [a, b] = Word::pair().map(Futex);
        is_an_end(a, b);
        let [a, b] = Word::pair().map(Line);
        is_an_end(a, b);
    }

    #[test]
    fn nothing_is_no_message() {
        let [mut a, _b] = Word::pair().map(Line);
        assert_eq!(a.take().unwrap(), Taken::Nothing);
        let (from, to) = pipe().unwrap();
        let (_, unused) = pipe().unwrap();
        drop(to);
        assert_eq!(Pipes { from, to: unused }.take().unwrap(), Taken::End);
    }
}
