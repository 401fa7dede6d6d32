//! The client: one frame in flight, a clock read on either side of it.

use std::fmt;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::AtomicBool;

use rustix::io::Errno;
use thiserror::Error;

use crate::clock::{Clock, Monotonic};
use crate::experiment::Interrupted;
use crate::experiment::rounds::Trial;
use crate::frame::{self, FRAME_BYTES, Frame};
use crate::invocation::{Measure, Name};
use crate::samples::Samples;
use crate::summary::Summary;
use crate::text::{strerror, unless_reader_left};
use crate::wire::{Socket, Wire};

/// Why a run of round trips ended early. Iterations are counted from the first warm-up trip, from 0.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Broken {
    /// The peer closed or reset the connection.
    #[error("connection closed at iteration {0}")]
    Closed(u64),
    /// What came back is not what was sent.
    #[error("malformed/mismatched echo at iteration {0}")]
    Mismatch(u64),
    /// The socket failed otherwise.
    #[error("{} at iteration {iteration}", strerror(*errno))]
    Io {
        /// Where.
        iteration: u64,
        /// Why.
        errno: Errno,
    },
    /// The user asked for the end.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// Makes round trip number `iteration` and returns its duration in nanoseconds.
///
/// Whether it waits or spins for the answer is up to the socket: `EAGAIN` goes round.
#[inline]
pub fn round_trip(wire: &mut impl Wire, clock: &impl Clock, iteration: u64) -> Result<u64, Broken> {
    let request = frame::request(iteration);
    let mut answer = [0; FRAME_BYTES];
    let sent = clock.now_ns();
    send_all(wire, &request, iteration)?;
    receive_all(wire, &mut answer, iteration)?;
    let received = clock.now_ns();
    if frame::is_echo_of(&answer, iteration) {
        Ok(received.saturating_sub(sent))
    } else {
        Err(Broken::Mismatch(iteration))
    }
}

#[inline]
fn send_all(wire: &mut impl Wire, frame: &Frame, iteration: u64) -> Result<(), Broken> {
    let mut sent = 0;
    while sent < FRAME_BYTES {
        match wire.send(&frame[sent..]) {
            Ok(count) => sent += count,
            Err(errno) => go_round(errno, iteration)?,
        }
    }
    Ok(())
}

#[inline]
fn receive_all(wire: &mut impl Wire, frame: &mut Frame, iteration: u64) -> Result<(), Broken> {
    let mut have = 0;
    while have < FRAME_BYTES {
        match wire.recv(&mut frame[have..]) {
            Ok(0) => return Err(Broken::Closed(iteration)),
            Ok(count) => have += count,
            Err(errno) => go_round(errno, iteration)?,
        }
    }
    Ok(())
}

#[inline]
fn go_round(errno: Errno, iteration: u64) -> Result<(), Broken> {
    match errno {
        Errno::AGAIN | Errno::INTR => Ok(()),
        Errno::CONNRESET | Errno::PIPE => Err(Broken::Closed(iteration)),
        errno => Err(Broken::Io { iteration, errno }),
    }
}

/// Why `measure` gave no result, in the words of the contract.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// The host is a name, or nothing.
    #[error("{0}: not an IPv4 address")]
    NotAnAddress(String),
    /// Nobody answers there.
    #[error("connect {target}: {}", strerror(*errno))]
    Connect {
        /// Where.
        target: SocketAddrV4,
        /// Why.
        errno: Errno,
    },
    /// More samples than there is memory for.
    #[error("measure: no memory for {0} samples")]
    TooMany(u64),
    /// The run broke off.
    #[error("measure: {0}")]
    Broken(#[from] Broken),
    /// The result could not be written.
    #[error("stdout: {0}")]
    Output(String),
}

/// Runs `measure` and writes its result to `out`.
pub fn run(name: &Name, ask: &Measure, out: &mut impl Write) -> Result<(), MeasureError> {
    let host = ask.host.to_string_lossy();
    let ip: Ipv4Addr = host.parse().map_err(|_| MeasureError::NotAnAddress(host.clone().into_owned()))?;
    let target = SocketAddrV4::new(ip, ask.port);
    // A signal ends this program by itself.
    let stop = AtomicBool::new(false);
    let trial = Trial { warmup: ask.warmup, n: ask.n, time: None, stop: &stop };
    let mut samples =
        usize::try_from(ask.n).ok().and_then(|n| Samples::with_capacity(n).ok()).ok_or(MeasureError::TooMany(ask.n))?;
    let mut wire = Socket::connect(target).map_err(|errno| MeasureError::Connect { target, errno })?;
    let head = format!(": measure target={target} n={} warmup={}\n", ask.n, ask.warmup);
    put(out, &[name.as_bytes(), head.as_bytes()])?;
    trial.run(&Monotonic, &mut samples, |i| round_trip(&mut wire, &Monotonic, i))?;
    // There is at least one sample: `n` is not 0, and every trip that counted left one.
    let Some(summary) = Summary::of(samples.as_slice()) else { return Ok(()) };
    let tag = ask.tag.as_deref().map_or(b"-".as_slice(), std::os::unix::ffi::OsStrExt::as_bytes);
    let line = Line(&summary).to_string();
    let table = Table(&summary).to_string();
    put(
        out,
        &[
            name.as_bytes(),
            b": percentiles_ns tag=",
            tag,
            line.as_bytes(),
            name.as_bytes(),
            b": table\n",
            table.as_bytes(),
        ],
    )
}

fn put(out: &mut impl Write, parts: &[&[u8]]) -> Result<(), MeasureError> {
    unless_reader_left(out.write_all(&parts.concat()).and_then(|()| out.flush()))
        .map_err(|error| MeasureError::Output(Errno::from_io_error(&error).map_or_else(|| error.to_string(), strerror)))
}

/// The figures on one line.
struct Line<'a>(&'a Summary);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { n, p50, p90, p99, p99_9, min, max, mean, .. } = self.0;
        writeln!(f, " p50={p50} p90={p90} p99={p99} p99.9={p99_9} min={min} max={max} mean={mean:.2} n={n}")
    }
}

/// The same, one a line, values at column 10.
struct Table<'a>(&'a Summary);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.0;
        let rows = [("p50", s.p50), ("p90", s.p90), ("p99", s.p99), ("p99.9", s.p99_9), ("min", s.min), ("max", s.max)];
        for (label, ns) in rows {
            writeln!(f, "  {label:<6} {ns} ns")?;
        }
        writeln!(f, "  {:<6} {:.2} ns", "mean", s.mean)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// A clock that stands still until the peer moves it.
    #[derive(Clone, Default)]
    struct Hand(Rc<Cell<u64>>);

    impl Clock for Hand {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }
    }

    /// A peer that echoes, and takes longer each time: answer `i` comes after `10 * (i + 1)` ns.
    struct Slower {
        clock: Hand,
        pending: Vec<u8>,
        answers: u64,
        calls: String,
        spoil: Option<u64>,
        close: Option<u64>,
    }

    impl Slower {
        fn new() -> Slower {
            Slower {
                clock: Hand::default(),
                pending: Vec::new(),
                answers: 0,
                calls: String::new(),
                spoil: None,
                close: None,
            }
        }
    }

    impl Wire for Slower {
        fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
            self.calls.push('s');
            self.pending.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn recv(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
            self.calls.push('r');
            assert_eq!(self.pending.len(), FRAME_BYTES, "one frame in flight");
            if self.close == Some(self.answers) {
                return Ok(0);
            }
            if self.spoil == Some(self.answers) {
                self.pending[11] ^= 1;
            }
            self.answers += 1;
            self.clock.0.set(self.clock.0.get() + 10 * self.answers);
            buffer.copy_from_slice(&self.pending);
            self.pending.clear();
            Ok(FRAME_BYTES)
        }
    }

    /// Two trips to warm up, and three that count.
    fn trips(peer: &mut Slower, clock: &Hand, samples: &mut Samples) -> Result<(), Broken> {
        let stop = AtomicBool::new(false);
        let trial = Trial { warmup: 2, n: 3, time: None, stop: &stop };
        trial.run(clock, samples, |i| round_trip(peer, clock, i))
    }

    #[test]
    fn warm_up_is_discarded_and_the_rest_counted_in_order() {
        let mut peer = Slower::new();
        let clock = peer.clock.clone();
        let mut samples = Samples::with_capacity(3).unwrap();
        trips(&mut peer, &clock, &mut samples).unwrap();
        assert_eq!(samples.as_slice(), [30, 40, 50]);
        assert_eq!(peer.calls, "srsrsrsrsr");
    }

    #[test]
    fn iterations_are_counted_from_the_warm_up() {
        let broken = |peer: &mut Slower| {
            let clock = peer.clock.clone();
            let mut samples = Samples::default();
            trips(peer, &clock, &mut samples).unwrap_err()
        };
        assert_eq!(broken(&mut Slower { spoil: Some(0), ..Slower::new() }), Broken::Mismatch(0));
        assert_eq!(broken(&mut Slower { close: Some(3), ..Slower::new() }), Broken::Closed(3));
    }

    #[test]
    fn values_stand_at_column_ten() {
        let summary = Summary::of(&[1, 2]).unwrap();
        let table = Table(&summary).to_string();
        assert_eq!(table.lines().next(), Some("  p50    1 ns"));
        assert_eq!(table.lines().last(), Some("  mean   1.50 ns"));
        assert!(table.lines().all(|line| line.as_bytes()[8] == b' ' && line.as_bytes()[9] != b' '));
        assert_eq!(Line(&summary).to_string(), " p50=1 p90=2 p99=2 p99.9=2 min=1 max=2 mean=1.50 n=2\n");
    }
}
