//! What `TCP_NODELAY` is for: a request in two writes, answered when all of it is there.
//!
//! Without it the second write waits for the acknowledgement of the first (Nagle's algorithm, RFC 896), and the server, which
//! has nothing to answer yet, delays that by 40 ms (RFC 1122, 4.2.3.2).

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;

use anyhow::Context;
use clap::ArgMatches;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use serde_json::{Map, Value};

use super::rounds::{Sampler, Schedule, Trial, sample_arms};
use super::{Claim, Experiment, Findings, Lab, Measurement, Roles, Row, Skip};
use crate::oneway::{self, PATIENCE};
use crate::samples::Samples;
use crate::trips::{self, End, Taken};
use crate::wire::{Socket, Wire};

/// What a sample is.
const SAMPLE: &str = "from before the first write until the answer is there";

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "nodelay",
    about: "Send a request in two writes, with TCP_NODELAY and without",
    options: |command| command,
    build: |_: &ArgMatches| Ok(Box::new(NoDelay)),
};

/// Few, since one without `TCP_NODELAY` takes about 40 ms. A fresh connection acknowledges at once for a while, which is
/// what the warm-up gets past.
const REAL: Schedule = Schedule { rounds: 2, warmup: 20, n: 100, time: None };
const QUICK: Schedule = Schedule { rounds: 1, warmup: 8, n: 12, time: None };

const ROLES: [&str; 2] = ["client", "server"];

/// The request's two writes.
const FIRST: usize = 40;
const SECOND: usize = 60;
const REQUEST: usize = FIRST + SECOND;

/// How many times 40 ms is more than a round trip, and more.
const CATASTROPHE: f64 = 10.0;

struct NoDelay;

const ARMS: [(&str, bool); 2] = [("nodelay-on", true), ("nodelay-off", false)];

impl Experiment for NoDelay {
    fn roles(&self) -> Roles {
        Roles::Each(&ROLES)
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let cpus = lab.two_cpus(ROLES);
        let mut arms = ARMS.map(|(name, nodelay)| Arm { name, nodelay, cpus: cpus.clone() });
        let mut samplers = arms.each_mut().map(|arm| arm as &mut dyn Sampler);
        let (rows, caveats) = sample_arms(&mut samplers, lab.effort.shared(REAL, QUICK), lab)?;
        let mut findings = findings(rows);
        findings.caveats.extend(caveats);
        Ok(findings)
    }
}

fn findings(arms: Vec<Row>) -> Findings {
    let mut findings = Findings { sample: Some(SAMPLE), arms, ..Findings::default() };
    findings.claims = Claim::below(&findings, "nodelay-on", "nodelay-off", "p50", CATASTROPHE).into_iter().collect();
    findings.caveats = oneway::caveats(&findings.arms);
    findings
}

struct Arm {
    name: &'static str,
    nodelay: bool,
    cpus: Result<[u32; 2], Skip>,
}

impl Sampler for Arm {
    fn name(&self) -> &str {
        self.name
    }

    fn trial(&mut self, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<Map<String, Value>> {
        let cpus = self.cpus.clone()?;
        let (client, server) = connection().context("cannot connect over loopback")?;
        for socket in [&client, &server] {
            socket.set_patience(PATIENCE).context("cannot limit how long a socket waits")?;
        }
        client.set_nodelay(self.nodelay).context("cannot set TCP_NODELAY")?;
        trips::run(cpus, trial, samples, Client(client), Server { socket: server, request: [0; REQUEST], have: 0 })
    }
}

/// Both ends of a connection.
fn connection() -> Result<(Socket, Socket), anyhow::Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let client = Socket::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    let server = Socket::accept(&OwnedFd::from(listener), SocketFlags::empty())?;
    Ok((client, server))
}

/// Sends requests in two writes, and takes answers of one byte.
struct Client(Socket);

impl End for Client {
    fn give(&mut self, number: u8) -> anyhow::Result<()> {
        let mut request = [0; REQUEST];
        request[REQUEST - 1] = number;
        send_all(&mut self.0, &request[..FIRST])?;
        send_all(&mut self.0, &request[FIRST..])
    }

    fn take(&mut self) -> anyhow::Result<Taken> {
        let mut answer = [0];
        match receive(&mut self.0, &mut answer)? {
            Some(0) => Ok(Taken::End),
            Some(_) => Ok(Taken::Message(answer[0])),
            None => Ok(Taken::Nothing),
        }
    }
}

/// Takes whole requests, and answers with the byte that stands at their end.
struct Server {
    socket: Socket,
    request: [u8; REQUEST],
    /// Bytes of the next request that are there.
    have: usize,
}

impl End for Server {
    fn give(&mut self, number: u8) -> anyhow::Result<()> {
        send_all(&mut self.socket, &[number])
    }

    fn take(&mut self) -> anyhow::Result<Taken> {
        match receive(&mut self.socket, &mut self.request[self.have..])? {
            Some(0) => return Ok(Taken::End),
            Some(count) => self.have += count,
            None => return Ok(Taken::Nothing),
        }
        if self.have < REQUEST {
            return Ok(Taken::Nothing);
        }
        self.have = 0;
        Ok(Taken::Message(self.request[REQUEST - 1]))
    }
}

/// Bytes that came, 0 at the end of the connection; `None` where nothing came in a while.
fn receive(socket: &mut Socket, room: &mut [u8]) -> anyhow::Result<Option<usize>> {
    match socket.recv(room) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(Errno::CONNRESET) => Ok(Some(0)),
        Err(errno) => Err(errno).context("cannot receive"),
    }
}

fn send_all(socket: &mut Socket, bytes: &[u8]) -> anyhow::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.send(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno).context("cannot send"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Summary;

    #[test]
    fn the_order() {
        let row =
            |name: &str, samples: &[u64]| Row { summary: Summary::of(samples), ..Row::figures(name.to_owned(), []) };
        let found = findings(vec![row("nodelay-on", &[30_000]), row("nodelay-off", &[44_000_000])]);
        assert_eq!(found.claims.len(), 1);
        assert_eq!(found.claims[0].claim, "nodelay-on p50 ≪ nodelay-off p50 (at least 10 times)");
        assert!(found.claims[0].holds && !found.claims[0].required);
    }

    #[test]
    fn a_request_is_answered_when_all_of_it_is_there() {
        let (client, server) = connection().unwrap();
        let mut server = Server { socket: server, request: [0; REQUEST], have: 0 };
        let mut client = Client(client);
        send_all(&mut client.0, &[0; FIRST]).unwrap();
        assert_eq!(server.take().unwrap(), Taken::Nothing);
        let mut rest = [0; SECOND];
        rest[SECOND - 1] = 9;
        send_all(&mut client.0, &rest).unwrap();
        assert_eq!(server.take().unwrap(), Taken::Message(9));
        server.give(9).unwrap();
        assert_eq!(client.take().unwrap(), Taken::Message(9));
        drop(client);
        assert_eq!(server.take().unwrap(), Taken::End);
    }
}
