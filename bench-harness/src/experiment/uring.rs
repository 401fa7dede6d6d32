//! The same message one way to an idle receiver, through io_uring: does the interface change how long a single message takes?
//!
//! It is made to save system calls when there is much to do at once. Here there is one message at a time and nothing to
//! batch, so that a receiver that sleeps in io_uring_enter(2) is expected to be as late as one that sleeps in recv(2). Only
//! a thread of the kernel that submits (`sqpoll`) is another thing: its receiver makes no system call and looks for
//! messages all the time.

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, FromArgMatches};
use rustix::io::Errno;
use serde_json::{Map, Value};

use super::rounds::{Sampler, Schedule, Trial, sample_arms};
use super::{Claim, Experiment, Findings, Lab, Measurement, Roles, Row, Skip};
use crate::cpus::CpuList;
use crate::frame::Stamp;
use crate::oneway::{self, Course, Inbox, PATIENCE, Received, interval};
use crate::samples::Samples;
use crate::sys::uring::{Mode, Receiver};
use crate::text::{Refused, strerror};
use crate::wire::{Socket, Wire};
use crate::witness;

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "uring",
    about: "Say how long a message takes one way to a receiver that uses io_uring",
    options: |command| Options::augment_args(command),
    build: |matches| Ok(Box::new(Options::from_arg_matches(matches)?)),
};

const REAL: Schedule = Schedule { rounds: 5, warmup: 100, n: 10_000, time: None };
const QUICK: Schedule = Schedule { rounds: 2, warmup: 20, n: 200, time: None };

const ROLES: [&str; 2] = ["sender", "receiver"];

/// Two medians that are the same but for what else happens on the host.
const ABOUT: f64 = 1.5;

/// How long the message may take that shows whether a mode works: a loaded host is no reason to skip.
const PROBE_PATIENCE: Duration = Duration::from_millis(900);

#[derive(Clone, Debug, Args)]
struct Options {
    /// The time from one message to the next
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = interval)]
    interval: Duration,
}

/// How the receiver waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// recv(2), for comparison.
    Block,
    Single,
    Multishot,
    Sqpoll,
}

impl Way {
    const ALL: [Way; 4] = [Way::Block, Way::Single, Way::Multishot, Way::Sqpoll];

    fn name(self) -> &'static str {
        match self {
            Way::Block => "block",
            Way::Single => "single",
            Way::Multishot => "multishot",
            Way::Sqpoll => "sqpoll",
        }
    }
}

impl Experiment for Options {
    fn roles(&self) -> Roles {
        Roles::Each(&ROLES)
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let cpus = match lab.two_cpus(ROLES) {
            Ok(cpus) => cpus,
            Err(Skip(why)) => return Ok(self.findings(Way::ALL.map(|way| Row::skipped(way.name(), &why)).into())),
        };
        let allowed = witness::allowed_cpus(std::process::id())?;
        let course = Course { cpus, interval: self.interval };
        let third = third_cpu(cpus, &allowed);
        let mut arms = Way::ALL.map(|way| Arm { way, course, third, is_probed: false });
        let mut samplers = arms.each_mut().map(|arm| arm as &mut dyn Sampler);
        let (rows, caveats) = sample_arms(&mut samplers, course.fit(lab.effort.shared(REAL, QUICK)), lab)?;
        let mut findings = self.findings(rows);
        findings.caveats.extend(caveats);
        Ok(findings)
    }
}

/// Where the kernel's thread submits: beside neither of the two, since it spins as they do.
fn third_cpu(cpus: [u32; 2], allowed: &CpuList) -> Option<u32> {
    allowed.as_slice().iter().rev().copied().find(|cpu| !cpus.contains(cpu))
}

/// A way to wait.
struct Arm {
    way: Way,
    course: Course,
    third: Option<u32>,
    /// The host has shown that it can.
    is_probed: bool,
}

impl Arm {
    /// How io_uring is used, where it is.
    fn mode(&self) -> Result<Option<Mode>, Skip> {
        let lacking = || Skip("needs 3 CPUs, one for the kernel's submission thread".to_owned());
        Ok(match self.way {
            Way::Block => None,
            Way::Single => Some(Mode::Single),
            Way::Multishot => Some(Mode::Multishot),
            Way::Sqpoll => Some(Mode::SqPoll { cpu: self.third.ok_or_else(lacking)? }),
        })
    }
}

impl Sampler for Arm {
    fn name(&self) -> &str {
        self.way.name()
    }

    fn trial(&mut self, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<Map<String, Value>> {
        let mode = self.mode()?;
        let (mut sender, mut receiver) = Socket::udp_pair().context("cannot open two sockets")?;
        let Some(mode) = mode else {
            receiver.set_patience(PATIENCE).context("cannot limit how long a socket waits")?;
            return Ok(self.course.run(trial, samples, &mut sender, || Ok(&mut receiver))?.figures());
        };
        if !self.is_probed {
            probe(mode)?;
            self.is_probed = true;
        }
        // Set up by the thread that uses it: the kernel does part of the work in the thread that submitted it.
        let open = || Ok(Receiver::new(&receiver, mode).map_err(|refused| skip(&refused))?);
        let mut figures = self.course.run(trial, samples, &mut sender, open)?.figures();
        if let Mode::SqPoll { cpu } = mode {
            figures.insert("submission_cpu".to_owned(), cpu.into());
        }
        Ok(figures)
    }
}

impl Inbox for Receiver<&Socket> {
    #[inline]
    fn next(&mut self) -> Result<Received, Errno> {
        Ok(self.receive(PATIENCE, Stamp::of)?.map_or(Received::Nothing, Received::from))
    }
}

/// Receives one message in this mode. Kernels of the last years differ in what they can do, and what they cannot some of
/// them say only when it is to be done.
fn probe(mode: Mode) -> Result<(), Skip> {
    let failed = |what, errno| skip(&Refused { what, errno });
    let (mut sender, receiver) = Socket::udp_pair().map_err(|errno| failed("open two sockets", errno))?;
    let mut receiver = Receiver::new(&receiver, mode).map_err(|refused| skip(&refused))?;
    let stamp = Stamp { seq: 0, send_ns: 0 };
    sender.send(&stamp.frame()).map_err(|errno| failed("send a message", errno))?;
    let begin = Instant::now();
    while begin.elapsed() < PROBE_PATIENCE {
        match receiver.next() {
            Ok(Received::Stamped(came)) if came == stamp => return Ok(()),
            Ok(_) => {}
            Err(errno) => return Err(failed("receive through a ring in this way", errno)),
        }
    }
    Err(Skip(format!("a message did not come within {PROBE_PATIENCE:?}")))
}

/// Why io_uring cannot be used, with what that usually means.
fn skip(refused: &Refused) -> Skip {
    let meaning = match refused.errno {
        Errno::NOSYS => "the kernel is too old, or was built without it",
        Errno::PERM | Errno::ACCESS => "kernel.io_uring_disabled, or a seccomp filter as containers have it",
        Errno::INVAL => "the kernel is too old for it",
        Errno::NOMEM => "RLIMIT_MEMLOCK, on old kernels",
        _ => return Skip(refused.to_string()),
    };
    Skip(format!("cannot {}: {}: {meaning}", refused.what, strerror(refused.errno)))
}

impl Options {
    fn findings(&self, arms: Vec<Row>) -> Findings {
        let mut findings = Findings { sample: Some(oneway::SAMPLE), arms, ..Findings::default() };
        let title = format!("one message each {:?}: what io_uring gains by batching is not to be had", self.interval);
        findings.tables.extend(oneway::table(&title, &findings.arms));
        findings.caveats = oneway::caveats(&findings.arms);
        let claims = [
            Claim::near(&findings, "single", "block", "p50", ABOUT),
            Claim::near(&findings, "multishot", "block", "p50", ABOUT),
            Claim::below(&findings, "sqpoll", "block", "p50", 1.0),
        ];
        findings.claims = claims.into_iter().flatten().collect();
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oneway::Tally;
    use crate::summary::Summary;

    fn options() -> Options {
        Options { interval: Duration::from_micros(500) }
    }

    fn row(name: &str, samples: &[u64]) -> Row {
        let figures = Tally { sent: samples.len() as u64, ..Tally::default() }.figures();
        Row { name: name.to_owned(), summary: Summary::of(samples), figures, ..Row::default() }
    }

    #[test]
    fn orders_are_claimed_of_what_was_measured() {
        let arms = vec![
            row("block", &[100, 110, 120]),
            row("single", &[120, 130, 140]),
            row("multishot", &[200, 210, 220]),
            Row::skipped("sqpoll", "two CPUs"),
        ];
        let found = options().findings(arms);
        let claims: Vec<_> = found.claims.iter().map(|claim| (claim.claim.as_str(), claim.holds)).collect();
        let expected = [
            ("single p50 ≈ block p50 (within 1.5 times)", true),
            ("multishot p50 ≈ block p50 (within 1.5 times)", false),
        ];
        assert_eq!(claims, expected);
        assert!(found.claims.iter().all(|claim| !claim.required));
        let table = found.tables[0].to_string();
        assert!(table.lines().all(|line| line.chars().count() <= 80) && !table.contains("sqpoll"), "{table}");
    }

    #[test]
    fn the_kernels_thread_has_a_cpu_of_its_own_or_there_is_none() {
        let third = |cpus, allowed: &str| third_cpu(cpus, &allowed.parse().unwrap());
        assert_eq!(third([6, 7], "0-7"), Some(5));
        assert_eq!(third([0, 1], "0-7"), Some(7));
        assert_eq!(third([0, 1], "0-1"), None);
        let course = Course { cpus: [0, 1], interval: Duration::from_millis(1) };
        let arm = |way, third| Arm { way, course, third, is_probed: false }.mode();
        assert_eq!(arm(Way::Sqpoll, None).unwrap_err().0, "needs 3 CPUs, one for the kernel's submission thread");
        assert_eq!(arm(Way::Sqpoll, Some(5)), Ok(Some(Mode::SqPoll { cpu: 5 })));
        assert_eq!(arm(Way::Block, None), Ok(None));
    }

    #[test]
    fn a_refusal_says_what_it_usually_means() {
        let why = |errno| skip(&Refused { what: "set up an io_uring", errno }).0;
        assert_eq!(
            why(Errno::PERM),
            "cannot set up an io_uring: Operation not permitted: kernel.io_uring_disabled, or a seccomp filter as containers have it"
        );
        assert!(why(Errno::NOSYS).ends_with("too old, or was built without it"));
        assert_eq!(why(Errno::MFILE), "cannot set up an io_uring: Too many open files");
    }

    #[test]
    fn a_probe_comes_to_an_end() {
        for mode in [Mode::Single, Mode::Multishot] {
            if let Err(Skip(why)) = probe(mode) {
                println!("skipped: {mode:?}: {why}");
            }
        }
    }
}
