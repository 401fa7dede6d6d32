//! How long a datagram takes one way: a sender that says when it sent, on its CPU, and an idle receiver on another one.
//!
//! Both are in this process and read the same clock, so that a difference of two readings is a time that passed.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{TryRecvError, channel};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::Timespec;

use crate::clock::{Clock, Monotonic};
use crate::cpus;
use crate::frame::{FRAME_BYTES, Frame, Stamp};
use crate::packet::udp_payload;
use crate::sys::xsk::Xsk;
use crate::text::strerror;
use crate::wire::wait_readable;

/// How often the stop flag is looked at while nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// How long the last datagrams may be on their way before they count as lost.
const GRACE: Duration = Duration::from_millis(200);

/// The sender sleeps until this long before its time and spins from there: waking up takes long, and not always as long.
const SPIN_NS: u64 = 150_000;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// How many datagrams.
    pub count: u64,
    /// The time from one to the next.
    pub gap: Duration,
}

/// What became of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Datagrams that were sent and did not arrive, or not in their order.
    pub lost: u64,
    /// What arrived and was none of the stream.
    pub foreign: u64,
}

/// What an inbox gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Nothing, for as long as this inbox cares to wait.
    Nothing,
    /// Something that carries no stamp.
    Foreign,
    /// A datagram, all of it in reach.
    Stamped(Stamp),
}

impl From<Option<Stamp>> for Received {
    fn from(stamp: Option<Stamp>) -> Received {
        stamp.map_or(Received::Foreign, Received::Stamped)
    }
}

/// Where datagrams arrive.
pub trait Inbox {
    /// What comes next. Waits in its own way, and never longer than some tenths of a second.
    fn next(&mut self) -> Result<Received, Errno>;
}

/// A kernel socket. Whether `next` waits or spins is up to the socket: one that blocks needs a timeout.
#[derive(Debug)]
pub struct KernelInbox(pub OwnedFd);

impl Inbox for KernelInbox {
    #[inline]
    fn next(&mut self) -> Result<Received, Errno> {
        // One byte more than a frame, so that a longer datagram is not taken for one.
        let mut buffer = [0; FRAME_BYTES + 1];
        match rustix::net::recv(&self.0, &mut buffer, RecvFlags::empty()) {
            Ok((count, _)) => Ok(Stamp::of(&buffer[..count]).into()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
            Err(errno) => Err(errno),
        }
    }
}

/// An AF_XDP socket, and how its owner waits.
#[derive(Debug)]
pub struct XskInbox<'a> {
    /// The socket.
    pub socket: &'a mut Xsk,
    /// The UDP port that is listened to.
    pub port: u16,
    /// Sleep in poll(2) when the ring is empty, instead of looking again.
    pub polls: bool,
}

impl Inbox for XskInbox<'_> {
    #[inline]
    fn next(&mut self) -> Result<Received, Errno> {
        let port = self.port;
        let mut look = || self.socket.receive(|frame| udp_payload(frame, port).ok().and_then(Stamp::of));
        if let Some(stamp) = look() {
            return Ok(stamp.into());
        }
        if !self.polls {
            return Ok(Received::Nothing);
        }
        match wait_readable(&*self.socket, TICK) {
            Ok(_) | Err(Errno::INTR) => Ok(Received::Nothing),
            Err(errno) => Err(errno),
        }
    }
}

/// Sends `stream` from the first of `cpus` through the connected socket `outlet` to `inbox`, whose owner runs on the second
/// one. Each datagram that arrives in its order is handed to `sample` with the nanoseconds that it took.
///
/// When `stop` is set the stream ends early, and the tally means nothing.
pub fn run(
    outlet: &OwnedFd,
    inbox: &mut (impl Inbox + Send),
    cpus: [u32; 2],
    stream: Stream,
    stop: &AtomicBool,
    sample: impl FnMut(Stamp, u64) + Send,
) -> anyhow::Result<Tally> {
    let over = AtomicBool::new(false);
    let over = &over;
    let [sender_cpu, receiver_cpu] = cpus;
    let (ready, start) = channel::<()>();
    let (arrived, all_arrived) = channel::<()>();
    let (sent, received) = thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            // Dropped on every way out, a panic included: the sender sees the channel close.
            let _arrived = arrived;
            pin(receiver_cpu)?;
            // A sender that is not there any more says itself why.
            let _ = ready.send(());
            receive(inbox, &Monotonic, stream.count, over, sample).map_err(|errno| failed("receive", errno))
        });
        let sender = scope.spawn(move || {
            let _over = SetWhenDropped(over);
            pin(sender_cpu)?;
            if start.recv().is_err() {
                return Ok(());
            }
            let go_on = || !stop.load(Ordering::Relaxed) && all_arrived.try_recv() != Err(TryRecvError::Disconnected);
            let put = |frame: &Frame| rustix::net::send(outlet, frame, SendFlags::empty()).map(drop);
            send(put, &Monotonic, sleep_until, stream, go_on).map_err(|errno| failed("send", errno))?;
            if !stop.load(Ordering::Relaxed) {
                // Ends with the receiver, or after the time: either is fine.
                let _ = all_arrived.recv_timeout(GRACE);
            }
            Ok(())
        });
        (sender.join(), receiver.join())
    });
    sent.unwrap_or_else(|_| Err(anyhow!("the sender panicked")))?;
    received.unwrap_or_else(|_| Err(anyhow!("the receiver panicked")))
}

struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn pin(cpu: u32) -> anyhow::Result<()> {
    cpus::pin(u64::from(cpu)).map_err(|errno| anyhow!("cannot run on CPU {cpu}: {}", strerror(errno)))
}

fn failed(what: &str, errno: Errno) -> anyhow::Error {
    anyhow!("cannot {what} a datagram: {}", strerror(errno))
}

/// Sends the datagrams of `stream` as long as it may `go_on`, each at its time, and each with the time at which it was sent.
fn send(
    mut put: impl FnMut(&Frame) -> Result<(), Errno>,
    clock: &impl Clock,
    sleep_until: impl Fn(u64),
    stream: Stream,
    go_on: impl Fn() -> bool,
) -> Result<(), Errno> {
    let gap = u64::try_from(stream.gap.as_nanos()).unwrap_or(u64::MAX);
    let tick = u64::try_from(TICK.as_nanos()).unwrap_or(u64::MAX);
    let mut due = clock.now_ns();
    for seq in 0..stream.count {
        let send_ns = loop {
            if !go_on() {
                return Ok(());
            }
            let now = clock.now_ns();
            match due.saturating_sub(now) {
                0 => break now,
                1..=SPIN_NS => std::hint::spin_loop(),
                left => sleep_until(now + (left - SPIN_NS).min(tick)),
            }
        };
        let frame = Stamp { seq, send_ns }.frame();
        while let Err(errno) = put(&frame) {
            if errno != Errno::INTR {
                return Err(errno);
            }
        }
        due = next_due(due, send_ns, gap);
    }
    Ok(())
}

/// When the next datagram is due, after one that was due and sent at these times. The schedule is fixed, so that the sender's
/// own delays do not add up; but one that is late by half a gap or more moves it: the receiver is to be idle each time, and
/// never gets what was missed in a burst.
fn next_due(due: u64, sent: u64, gap: u64) -> u64 {
    let next = due.saturating_add(gap);
    if next.saturating_sub(sent) > gap / 2 { next } else { sent.saturating_add(gap) }
}

fn sleep_until(ns: u64) {
    let time = Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0),
    };
    // A signal ends it early, and the caller looks at the clock anyway.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
}

/// Receives until datagram number `count - 1` is there or it is `over`.
fn receive(
    inbox: &mut impl Inbox,
    clock: &impl Clock,
    count: u64,
    over: &AtomicBool,
    mut sample: impl FnMut(Stamp, u64),
) -> Result<Tally, Errno> {
    let mut tally = Tally::default();
    let mut next = 0;
    while next < count && !over.load(Ordering::Relaxed) {
        match inbox.next()? {
            Received::Nothing => {}
            Received::Foreign => tally.foreign += 1,
            Received::Stamped(stamp) => {
                let now = clock.now_ns();
                if (next..count).contains(&stamp.seq) {
                    sample(stamp, now.saturating_sub(stamp.send_ns));
                    tally.lost += stamp.seq - next;
                    next = stamp.seq + 1;
                } else {
                    tally.foreign += 1;
                }
            }
        }
    }
    tally.lost += count - next;
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;

    use super::*;

    /// A clock that moves on by a microsecond whenever somebody looks at it.
    #[derive(Default)]
    struct Hand(Cell<u64>);

    impl Clock for Hand {
        fn now_ns(&self) -> u64 {
            self.0.set(self.0.get() + 1_000);
            self.0.get()
        }
    }

    const GAP: u64 = 500_000;
    const STREAM: Stream = Stream { count: 4, gap: Duration::from_nanos(GAP) };

    /// Sends `STREAM`, where `put` may let time pass, and returns what was sent when; the sleeps too.
    fn sent(oversleep: u64, put: impl Fn(u64, &Hand) -> Result<(), Errno>) -> (Vec<Stamp>, usize) {
        let clock = Hand::default();
        let (mut stamps, sleeps) = (Vec::new(), Cell::new(0));
        let sleep = |ns| {
            sleeps.set(sleeps.get() + 1);
            assert!(ns > clock.0.get(), "a sleep into the past");
            clock.0.set(ns + oversleep);
        };
        let record = |frame: &Frame| {
            let stamp = Stamp::of(frame).unwrap();
            put(stamp.seq, &clock)?;
            stamps.push(stamp);
            Ok(())
        };
        send(record, &clock, sleep, STREAM, || true).unwrap();
        (stamps, sleeps.get())
    }

    /// The times between datagrams.
    fn gaps(stamps: &[Stamp]) -> Vec<u64> {
        assert!(stamps.iter().map(|stamp| stamp.seq).eq(0..stamps.len() as u64));
        stamps.windows(2).map(|pair| pair[1].send_ns - pair[0].send_ns).collect()
    }

    #[test]
    fn datagrams_are_sent_when_they_are_due() {
        // By the hand: the first reading sets the schedule, the next one finds that the first datagram is due.
        let (stamps, sleeps) = sent(0, |_, _| Ok(()));
        assert_eq!(gaps(&stamps), [GAP - 1_000, GAP, GAP]);
        assert_eq!(sleeps, 3);
    }

    #[test]
    fn a_short_delay_does_not_add_up() {
        let (stamps, _) = sent(0, |seq, clock| {
            clock.0.set(clock.0.get() + if seq == 1 { GAP + GAP / 4 } else { 0 });
            Ok(())
        });
        // The second one took long, so that the third one was late by a quarter of a gap, and the fourth one in time.
        assert_eq!(stamps[3].send_ns - stamps[0].send_ns, 3 * GAP - 1_000);
    }

    #[test]
    fn what_was_missed_is_not_made_up_for_in_a_burst() {
        let (stamps, _) = sent(7 * GAP, |_, _| Ok(()));
        assert!(gaps(&stamps).iter().all(|&gap| gap > GAP / 2), "{stamps:?}");
    }

    #[test]
    fn an_interrupted_call_is_made_again_and_another_error_is_the_end() {
        let attempts = Cell::new(0);
        let (stamps, _) = sent(0, |_, _| {
            attempts.set(attempts.get() + 1);
            if attempts.get() == 1 { Err(Errno::INTR) } else { Ok(()) }
        });
        assert_eq!((stamps.len(), attempts.get()), (4, 5));
        let refuse = |_: &Frame| Err(Errno::NOBUFS);
        assert_eq!(send(refuse, &Hand::default(), |_| (), STREAM, || true), Err(Errno::NOBUFS));
    }

    #[test]
    fn a_long_gap_is_slept_through_in_pieces_and_can_be_ended() {
        let clock = Hand::default();
        let sleeps = RefCell::new(Vec::new());
        let stream = Stream { count: 2, gap: Duration::from_secs(3600) };
        let go_on = || sleeps.borrow().len() < 5;
        let sleep = |ns| {
            sleeps.borrow_mut().push(ns - clock.0.get());
            clock.0.set(ns);
        };
        let mut count = 0;
        let put = |_: &Frame| {
            count += 1;
            Ok(())
        };
        send(put, &clock, sleep, stream, go_on).unwrap();
        assert_eq!(*sleeps.borrow(), [100_000_000; 5]);
        assert_eq!(count, 1);
    }

    /// An inbox with these contents, and with nothing after them but the end.
    struct Letters<'a>(VecDeque<Received>, &'a AtomicBool);

    impl Inbox for Letters<'_> {
        fn next(&mut self) -> Result<Received, Errno> {
            Ok(self.0.pop_front().unwrap_or_else(|| {
                self.1.store(true, Ordering::Relaxed);
                Received::Nothing
            }))
        }
    }

    fn taken(count: u64, letters: &[Received]) -> (Vec<(u64, u64)>, Tally) {
        let over = AtomicBool::new(false);
        let mut inbox = Letters(letters.iter().copied().collect(), &over);
        let mut samples = Vec::new();
        let tally = receive(&mut inbox, &Hand::default(), count, &over, |stamp, ns| samples.push((stamp.seq, ns)));
        (samples, tally.unwrap())
    }

    fn number(seq: u64) -> Received {
        Received::Stamped(Stamp { seq, send_ns: 400 })
    }

    #[test]
    fn a_whole_stream() {
        let letters = [number(0), Received::Nothing, number(1), number(2), Received::Foreign];
        // What comes after the last datagram is not looked at.
        assert_eq!(taken(3, &letters), (vec![(0, 600), (1, 1_600), (2, 2_600)], Tally { lost: 0, foreign: 0 }));
    }

    #[test]
    fn what_is_lost_and_what_is_foreign() {
        let letters = [number(1), Received::Foreign, number(0), number(7), number(1), number(3)];
        // Number 0 came too late, 1 came twice, and 7 was never sent.
        assert_eq!(taken(5, &letters), (vec![(1, 600), (3, 4_600)], Tally { lost: 3, foreign: 4 }));
    }

    #[test]
    fn nothing_arrives() {
        assert_eq!(taken(5, &[]), (vec![], Tally { lost: 5, foreign: 0 }));
    }
}
