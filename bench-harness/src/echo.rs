//! The echo server: one thread, one connection at a time, 64 bytes in and the same 64 bytes out.
//!
//! One skeleton, [`serve`], and two disciplines that differ in what a tuned process does: [`fast`] and [`naive`]. The
//! two files are meant to be read side by side (`diff naive.rs fast.rs`).

pub mod fast;
pub mod naive;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use thiserror::Error;

use crate::frame::{FRAME_BYTES, Frame};
use crate::invocation::Name;
use crate::sys::signal;
use crate::text::strerror;
use crate::wire::{Socket, Wire, wait_readable};

/// How long a stop request may go unseen while nothing happens.
const PATIENCE: Duration = Duration::from_millis(200);

const BACKLOG: i32 = 16;

/// What sets one server apart from the other.
pub trait Discipline {
    /// The subcommand, as it stands in messages.
    const NAME: &'static str;

    /// Takes its place on the machine. Called before there is a socket.
    fn settle(&self) -> Result<(), Failure>;

    /// What the first message says beyond name and address; empty, or with a leading space.
    fn particulars(&self) -> String;

    /// Flags of an accepted connection beyond close-on-exec.
    fn accept_flags(&self) -> SocketFlags;

    /// Echoes until the peer leaves, misbehaves or `stop` is set.
    fn converse(&self, wire: &mut impl Wire, stop: &AtomicBool);
}

/// Why a server did not start or could not go on, in the words of the contract.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Failure {
    /// No such CPU is online.
    #[error("cpu {cpu} out of range (0..{last})")]
    CpuOutOfRange {
        /// The CPU that was asked for.
        cpu: u64,
        /// The highest one online.
        last: u32,
    },
    /// A system call was refused.
    #[error("{call}: {}", strerror(*errno))]
    Refused {
        /// The call, with what it was about.
        call: String,
        /// The answer.
        errno: Errno,
    },
}

impl Failure {
    fn of(call: impl Into<String>) -> impl FnOnce(Errno) -> Failure {
        let call = call.into();
        move |errno| Failure::Refused { call, errno }
    }
}

/// Runs a server on `port` until SIGINT or SIGTERM.
pub fn serve<D: Discipline>(name: &Name, port: u16, discipline: &D) -> Result<(), Failure> {
    discipline.settle()?;
    let listener = listen(port)?;
    let stop = signal::stop_flag().map_err(Failure::of("sigaction"))?;
    name.say(&format!("{} listening on 0.0.0.0:{port}{}", D::NAME, discipline.particulars()));
    accept_loop(&listener, discipline, stop)?;
    name.say(&format!("{} shutting down", D::NAME));
    Ok(())
}

/// Listens on every address. The listener does not block: between `poll` and `accept` a connection may vanish.
fn listen(port: u16) -> Result<OwnedFd, Failure> {
    let address = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener =
        net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).map_err(Failure::of("socket"))?;
    sockopt::set_socket_reuseaddr(&listener, true).map_err(Failure::of("setsockopt"))?;
    net::bind(&listener, &address).map_err(Failure::of(format!("bind {address}")))?;
    net::listen(&listener, BACKLOG).map_err(Failure::of("listen"))?;
    Ok(listener)
}

fn accept_loop<D: Discipline>(listener: &OwnedFd, discipline: &D, stop: &AtomicBool) -> Result<(), Failure> {
    while !stop.load(Ordering::Relaxed) {
        match wait_readable(listener, PATIENCE) {
            Ok(true) => {}
            Ok(false) | Err(Errno::INTR) => continue,
            Err(errno) => return Err(Failure::of("poll")(errno)),
        }
        let mut peer = match Socket::accept(listener, discipline.accept_flags()) {
            Ok(peer) => peer,
            Err(Errno::INTR | Errno::AGAIN | Errno::CONNABORTED) => continue,
            Err(errno) => return Err(Failure::of("accept")(errno)),
        };
        // A socket that refuses its options is a peer that is gone already.
        if peer.set_nodelay(true).and_then(|()| peer.set_patience(PATIENCE)).is_ok() {
            discipline.converse(&mut peer, stop);
        }
    }
    Ok(())
}

/// What came of moving one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// All 64 bytes went through.
    Done,
    /// The peer left or failed, or the server is to stop: either way this connection is over.
    Over,
}

/// Reads exactly one frame.
///
/// `EAGAIN` is the turn of the busy poll, or the end of a blocking call's patience; both look at `stop` and go round.
#[inline]
fn read_frame(wire: &mut impl Wire, frame: &mut Frame, stop: &AtomicBool) -> Turn {
    let mut have = 0;
    while have < FRAME_BYTES {
        if stop.load(Ordering::Relaxed) {
            return Turn::Over;
        }
        match wire.recv(&mut frame[have..]) {
            Ok(0) => return Turn::Over,
            Ok(count) => have += count,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Turn::Over,
        }
    }
    Turn::Done
}

/// Writes exactly one frame, under the same rules.
#[inline]
fn write_frame(wire: &mut impl Wire, frame: &Frame, stop: &AtomicBool) -> Turn {
    let mut sent = 0;
    while sent < FRAME_BYTES {
        match wire.send(&frame[sent..]) {
            Ok(count) => sent += count,
            Err(Errno::AGAIN | Errno::INTR) if !stop.load(Ordering::Relaxed) => {}
            Err(_) => return Turn::Over,
        }
    }
    Turn::Done
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::fast::Fast;
    use super::naive::Naive;
    use super::*;

    /// A peer that follows a script of answers and then closes.
    #[derive(Default)]
    struct Script {
        incoming: VecDeque<Result<Vec<u8>, Errno>>,
        /// The most that one `send` takes, or its error; all of it once the script is over.
        room: VecDeque<Result<usize, Errno>>,
        sent: Vec<u8>,
    }

    impl Wire for Script {
        fn recv(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
            match self.incoming.pop_front() {
                None => Ok(0),
                Some(Err(errno)) => Err(errno),
                Some(Ok(mut bytes)) => {
                    let count = bytes.len().min(buffer.len());
                    buffer[..count].copy_from_slice(&bytes[..count]);
                    if count < bytes.len() {
                        self.incoming.push_front(Ok(bytes.split_off(count)));
                    }
                    Ok(count)
                }
            }
        }

        fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
            let count = self.room.pop_front().unwrap_or(Ok(bytes.len()))?.min(bytes.len());
            self.sent.extend_from_slice(&bytes[..count]);
            Ok(count)
        }
    }

    fn both(script: impl Fn() -> Script, stop: bool) -> Vec<u8> {
        let run = |talk: &dyn Fn(&mut Script)| {
            let mut peer = script();
            talk(&mut peer);
            peer.sent
        };
        let stop = AtomicBool::new(stop);
        let naive = run(&|peer| Naive.converse(peer, &stop));
        for busy_poll in [false, true] {
            assert_eq!(run(&|peer| Fast { cpu: 0, busy_poll }.converse(peer, &stop)), naive);
        }
        naive
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..=255).cycle().take(count).collect()
    }

    #[test]
    fn echoes_whatever_the_pieces() {
        let stream = bytes(3 * FRAME_BYTES);
        for piece in [1, 7, 63, 64, 65, 192] {
            let sent = both(
                || Script { incoming: stream.chunks(piece).map(|c| Ok(c.to_vec())).collect(), ..Script::default() },
                false,
            );
            assert_eq!(sent, stream, "in pieces of {piece}");
        }
    }

    #[test]
    fn half_a_frame_is_not_echoed() {
        let stream = bytes(FRAME_BYTES + 30);
        let sent = both(|| Script { incoming: [Ok(stream.clone())].into(), ..Script::default() }, false);
        assert_eq!(sent, stream[..FRAME_BYTES]);
    }

    #[test]
    fn interruptions_and_empty_polls_go_round() {
        let frame = bytes(FRAME_BYTES);
        let sent = both(
            || Script {
                incoming: [Err(Errno::AGAIN), Ok(frame[..10].to_vec()), Err(Errno::INTR), Ok(frame[10..].to_vec())]
                    .into(),
                room: [Err(Errno::INTR), Ok(5), Err(Errno::AGAIN), Ok(58)].into(),
                sent: Vec::new(),
            },
            false,
        );
        assert_eq!(sent, frame);
    }

    #[test]
    fn errors_end_the_connection() {
        let frame = bytes(FRAME_BYTES);
        let reset = || Script { incoming: [Err(Errno::CONNRESET), Ok(frame.clone())].into(), ..Script::default() };
        assert!(both(reset, false).is_empty());
        let broken = || Script {
            incoming: [Ok(frame.clone()), Ok(frame.clone())].into(),
            room: [Err(Errno::PIPE)].into(),
            sent: Vec::new(),
        };
        assert!(both(broken, false).is_empty());
    }

    #[test]
    fn a_stop_ends_a_peer_that_never_pauses() {
        let stream = bytes(FRAME_BYTES);
        assert!(both(|| Script { incoming: [Ok(stream.clone())].into(), ..Script::default() }, true).is_empty());
    }

    #[test]
    fn a_stop_ends_a_peer_that_never_reads() {
        let mut peer = Script { room: [Err(Errno::AGAIN)].into(), ..Script::default() };
        let stop = AtomicBool::new(true);
        assert_eq!(write_frame(&mut peer, &[0; FRAME_BYTES], &stop), Turn::Over);
        assert_eq!(write_frame(&mut peer, &[0; FRAME_BYTES], &AtomicBool::new(false)), Turn::Done);
    }

    #[test]
    fn failures_in_the_words_of_the_contract() {
        assert_eq!(Failure::CpuOutOfRange { cpu: 52, last: 1 }.to_string(), "cpu 52 out of range (0..1)");
        assert_eq!(
            Failure::of("bind 0.0.0.0:80")(Errno::ADDRINUSE).to_string(),
            "bind 0.0.0.0:80: Address already in use"
        );
    }
}
