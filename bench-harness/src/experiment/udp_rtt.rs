//! UDP over loopback, there and back between two threads: the kernel's path with a wake-up in it, and without.

use anyhow::Context;
use clap::{Args, FromArgMatches};
use rustix::io::Errno;
use serde_json::{Map, Value};

use super::rounds::{Sampler, Schedule, Trial, sample_arms};
use super::{Claim, Experiment, Findings, Lab, Measurement, Roles, Row, Skip};
use crate::oneway::{self, PATIENCE};
use crate::samples::Samples;
use crate::trips::{self, End, Taken};
use crate::wire::{Socket, Wire};

/// What a sample is.
const SAMPLE: &str = "full round trip of a datagram over UDP";

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "udp-rtt",
    about: "Time UDP round trips over loopback between two pinned threads",
    options: |command| Options::augment_args(command),
    build: |matches| Ok(Box::new(Options::from_arg_matches(matches)?)),
};

const REAL: Schedule = Schedule { rounds: 5, warmup: 500, n: 50_000, time: None };
const QUICK: Schedule = Schedule { rounds: 2, warmup: 50, n: 1_000, time: None };

const ROLES: [&str; 2] = ["client", "server"];

/// The largest datagram of UDP over IPv4.
const MOST_BYTES: u16 = 65_507;

/// What spinning saves is two wake-ups a round trip, which take longer than all the rest.
const WAKING_UP: f64 = 2.0;

#[derive(Clone, Debug, Args)]
struct Options {
    /// Bytes of a datagram
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_BYTES)))]
    size: u16,
}

/// How both ends wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Block,
    Spin,
}

impl Way {
    const ALL: [Way; 2] = [Way::Block, Way::Spin];

    fn name(self) -> &'static str {
        match self {
            Way::Block => "block",
            Way::Spin => "spin",
        }
    }
}

impl Experiment for Options {
    fn roles(&self) -> Roles {
        Roles::Each(&ROLES)
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let cpus = lab.two_cpus(ROLES);
        let mut arms = Way::ALL.map(|way| Arm { way, cpus: cpus.clone(), size: self.size });
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
        Claim::below(&findings, "spin", "block", "p50", WAKING_UP),
        Claim::below(&findings, "spin", "block", "p99.9", 1.0),
    ];
    findings.claims = orders.into_iter().flatten().collect();
    findings.caveats = oneway::caveats(&findings.arms);
    findings
}

struct Arm {
    way: Way,
    cpus: Result<[u32; 2], Skip>,
    size: u16,
}

impl Sampler for Arm {
    fn name(&self) -> &str {
        self.way.name()
    }

    fn trial(&mut self, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<Map<String, Value>> {
        let cpus = self.cpus.clone()?;
        let (client, server) = Socket::udp_pair().context("cannot open two sockets")?;
        for socket in [&client, &server] {
            match self.way {
                Way::Spin => socket.set_nonblocking().context("cannot make a socket non-blocking")?,
                Way::Block => socket.set_patience(PATIENCE).context("cannot limit how long a socket waits")?,
            }
        }
        let end =
            |socket| Datagrams { socket, out: vec![0; self.size.into()], room: vec![0; usize::from(self.size) + 1] };
        trips::run(cpus, trial, samples, end(client), end(server))
    }
}

/// A connected UDP socket: datagrams of one size, with the number in the first byte.
struct Datagrams {
    socket: Socket,
    out: Vec<u8>,
    /// A byte more than a datagram has, so that a longer one is not taken for one.
    room: Vec<u8>,
}

impl End for Datagrams {
    #[inline]
    fn give(&mut self, number: u8) -> anyhow::Result<()> {
        self.out[0] = number;
        loop {
            match self.socket.send(&self.out) {
                Err(Errno::INTR) => {}
                // A full queue loses the datagram, as the network would.
                Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(()),
                Err(errno) => return Err(errno).context("cannot send"),
            }
        }
    }

    #[inline]
    fn take(&mut self) -> anyhow::Result<Taken> {
        match self.socket.recv(&mut self.room) {
            Ok(count) if count == self.out.len() => Ok(Taken::Message(self.room[0])),
            // Another size is another sender's, and of no use. ECONNREFUSED: the other end has closed.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(Taken::Nothing),
            Err(Errno::CONNREFUSED) => Ok(Taken::End),
            Err(errno) => Err(errno).context("cannot receive"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Summary;

    #[test]
    fn the_orders_of_loopback() {
        let row = |way: Way, samples: &[u64]| Row { summary: Summary::of(samples), ..Row::figures(way.name(), []) };
        let found = findings(vec![row(Way::Block, &[120, 130, 900]), row(Way::Spin, &[8, 9, 60])]);
        let claims: Vec<_> = found.claims.iter().map(|claim| (claim.claim.as_str(), claim.holds)).collect();
        assert_eq!(claims, [("spin p50 ≪ block p50 (at least 2 times)", true), ("spin p99.9 < block p99.9", true)]);
    }

    #[test]
    fn datagrams_of_one_size() {
        let (a, b) = Socket::udp_pair().unwrap();
        b.set_nonblocking().unwrap();
        let end = |socket, size: usize| Datagrams { socket, out: vec![0; size], room: vec![0; size + 1] };
        let mut b = end(b, 64);
        assert_eq!(b.take().unwrap(), Taken::Nothing);
        let mut a = end(a, 64);
        a.give(7).unwrap();
        assert_eq!(b.take().unwrap(), Taken::Message(7));
        a.out.truncate(63);
        a.give(8).unwrap();
        assert_eq!(b.take().unwrap(), Taken::Nothing);
    }
}
