//! How long a message takes one way: a sender that writes into each message when it left, on its CPU, and a receiver that
//! is idle when it comes, on another one.
//!
//! The two differ in nothing but the [`Inbox`] from one arm to the other. Both read the same clock, so that the difference
//! of two readings is a time that passed; what the kernel's clock cannot give (a message that arrives before it left) is
//! counted and is no sample.
//!
//! The sender keeps to a fixed schedule, and its own delays do not add up. A slot that is more than half an interval past is
//! given up and counted: what was missed is never made up for in a burst, since the receiver is to be idle each time, and
//! two messages are never closer than half an interval.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;
use serde_json::{Map, Value};

use crate::caveat::Caveat;
use crate::clock::{Alarm, Clock, Monotonic, in_ns};
use crate::experiment::rounds::{Schedule, Trial};
use crate::experiment::{Interrupted, Row};
use crate::frame::{FRAME_BYTES, Stamp};
use crate::samples::Samples;
use crate::table::Table;
use crate::text::{self, strerror};
use crate::threads::{Peer, pair};
use crate::wire::{Socket, Wire};

/// What a sample is, for [`crate::experiment::Findings`].
pub const SAMPLE: &str = "one way: from just before the send until the receiver has the message";

/// The longest that anybody here sleeps without a look at the stop flag; an [`Inbox`] that waits keeps to it too.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// How long after the sender's end what is still missing may come, before it counts as lost.
const GRACE_NS: u64 = 100_000_000;

/// The sender sleeps until this long before a slot, in nanoseconds, and spins from there: on a guest, waking up takes some
/// 60 µs and sometimes twice that.
const SPIN_NS: u64 = 150_000;

/// What an inbox gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Nothing, for as long as this inbox cares to wait.
    Nothing,
    /// Something that carries no stamp.
    Foreign,
    /// A message, all of it in reach.
    Stamped(Stamp),
}

impl From<Option<Stamp>> for Received {
    fn from(stamp: Option<Stamp>) -> Received {
        stamp.map_or(Received::Foreign, Received::Stamped)
    }
}

/// Where messages arrive, one after the other: the one thing in which arms differ.
pub trait Inbox {
    /// What comes next. Waits in its own way, or looks once, and never takes longer than about [`PATIENCE`].
    fn next(&mut self) -> Result<Received, Errno>;
}

impl<I: Inbox + ?Sized> Inbox for &mut I {
    #[inline]
    fn next(&mut self) -> Result<Received, Errno> {
        (**self).next()
    }
}

/// A socket of the kernel. Whether it waits or spins is up to the socket: one that blocks needs its patience set.
impl Inbox for Socket {
    #[inline]
    fn next(&mut self) -> Result<Received, Errno> {
        // One byte more than a frame, so that a longer datagram is not taken for one.
        let mut buffer = [0; FRAME_BYTES + 1];
        match self.recv(&mut buffer) {
            Ok(count) => Ok(Stamp::of(&buffer[..count]).into()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
            Err(errno) => Err(errno),
        }
    }
}

/// Who sends to whom, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// The CPUs of sender and receiver, which must be two.
    pub cpus: [u32; 2],
    /// The time from one message to the next.
    pub interval: Duration,
}

impl Course {
    /// A schedule for messages at this interval: a time is a number of them, and no more memory is taken than they need.
    #[must_use]
    pub fn fit(&self, schedule: Schedule) -> Schedule {
        let most = |time: Duration| time.as_nanos().div_ceil(self.interval.as_nanos().max(1));
        // One more than can come: a store that is full means that the time was not over.
        let most = schedule.time.map(|time| u64::try_from(most(time)).unwrap_or(u64::MAX).saturating_add(1));
        Schedule { n: most.map_or(schedule.n, |most| most.min(schedule.n)), ..schedule }
    }

    /// Sends the messages of `trial` through `outlet` to the inbox that `open` makes in the receiver's thread, and records
    /// how long each of those took that count, in the order in which they came.
    pub fn run<I: Inbox>(
        &self,
        trial: &Trial<'_>,
        samples: &mut Samples,
        outlet: &mut (impl Wire + Send),
        open: impl FnOnce() -> anyhow::Result<I> + Send,
    ) -> anyhow::Result<Tally> {
        let mut ledger = Ledger::new(trial).context("no memory for the numbers of the messages")?;
        let ledger = &mut ledger;
        let flow = Flow::default();
        let flow = &flow;
        let interval = in_ns(self.interval).max(1);
        let (ready, start) = channel::<()>();
        let send = move |receiver: Peer<'_>| {
            // The sender wakes up in time or not at all: what the kernel adds by default is a third of the spin.
            set_current_timer_slack(std::num::NonZeroU64::new(1)).context("cannot set the timer slack")?;
            // Whoever does not get ready says itself why.
            match start.recv() {
                Ok(()) => send(outlet, &Monotonic, trial, interval, flow, receiver),
                Err(_) => Ok(0),
            }
        };
        let receive = move |sender: Peer<'_>| {
            let mut inbox = open()?;
            let _ = ready.send(());
            receive(&mut inbox, &Monotonic, trial, flow, sender, ledger, samples)
        };
        let (missed_slots, tally) = pair(self.cpus, send, receive)?;
        Ok(Tally { missed_slots, ..tally })
    }
}

/// How many messages there are, the warm-up included. Known before the last one leaves.
#[derive(Debug)]
struct Flow(AtomicU64);

impl Default for Flow {
    fn default() -> Flow {
        Flow(AtomicU64::new(u64::MAX))
    }
}

impl Flow {
    fn end(&self, count: u64) {
        self.0.store(count, Ordering::Release);
    }

    /// `u64::MAX` as long as nobody knows.
    fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What became of the messages that count, those after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those that left.
    pub sent: u64,
    /// Those that never came.
    pub lost: u64,
    /// Those that came after one that had left later; samples all the same.
    pub out_of_order: u64,
    /// Those that had come before; no samples.
    pub duplicates: u64,
    /// What came and was none of them.
    pub foreign: u64,
    /// Those that came before they left, by the clocks of the two CPUs; no samples.
    pub backwards: u64,
    /// Slots of the schedule that were given up because the sender was not there in time.
    pub missed_slots: u64,
}

impl Tally {
    /// The figures by their names in the JSON.
    pub fn figures(&self) -> Map<String, Value> {
        let figures = [
            ("sent", self.sent),
            ("lost", self.lost),
            ("out_of_order", self.out_of_order),
            ("duplicates", self.duplicates),
            ("foreign", self.foreign),
            ("backwards", self.backwards),
            ("missed_slots", self.missed_slots),
        ];
        figures.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect()
    }
}

/// What has to be said of arms whose messages were lost, or whose clocks differ.
pub fn caveats(arms: &[Row]) -> Vec<Caveat> {
    let count = |row: &Row, name: &str| row.figures.get(name).and_then(Value::as_u64).filter(|&count| count > 0);
    let of = |row: &Row| {
        let arm = || row.name.clone();
        let sent = count(row, "sent")?;
        let lost = count(row, "lost").map(|lost| Caveat::Lost { arm: arm(), lost, sent });
        let backwards = count(row, "backwards").map(|count| Caveat::ClocksDiffer { arm: arm(), count });
        Some(lost.into_iter().chain(backwards))
    };
    arms.iter().filter_map(of).flatten().collect()
}

/// What was counted beside the times, an arm a line; nothing where nothing was measured.
pub fn table(title: &str, arms: &[Row]) -> Option<Table> {
    let figures = ["sent", "lost", "out_of_order", "duplicates", "missed_slots"].map(|figure| (figure, 0));
    let mut table = Table::new(title, &["", "sent", "lost", "out of\norder", "dupli-\ncates", "missed\nslots"]);
    arms.iter().filter(|row| row.skipped.is_none()).for_each(|row| table.push(row, &figures));
    (!table.rows.is_empty()).then_some(table)
}

/// A time from one message to the next, on the command line.
pub fn interval(text: &str) -> Result<Duration, String> {
    /// A shorter interval is none that a sender can keep to.
    const SHORTEST: Duration = Duration::from_micros(1);
    let time = text::time(text)?;
    if time >= SHORTEST { Ok(time) } else { Err(format!("shorter than {SHORTEST:?}")) }
}

/// The slots of the sender's schedule.
struct Slots {
    next: u64,
    interval: u64,
    missed: u64,
}

impl Slots {
    /// When the next slot is, which is at most half an interval ago: what is more past is given up.
    fn due(&mut self, now: u64) -> u64 {
        let too_late = now.saturating_sub(self.next).saturating_sub(self.interval / 2);
        let missed = too_late.div_ceil(self.interval);
        self.missed += missed;
        self.next = self.next.saturating_add(missed.saturating_mul(self.interval));
        self.next
    }

    fn take(&mut self) {
        self.next = self.next.saturating_add(self.interval);
    }

    /// Waits for the next slot and takes it; says what the clock shows then.
    fn wait(&mut self, clock: &impl Alarm, go_on: impl Fn() -> Result<(), Interrupted>) -> Result<u64, Interrupted> {
        let patience = in_ns(PATIENCE);
        loop {
            go_on()?;
            let now = clock.now_ns();
            match self.due(now).saturating_sub(now) {
                0 => {
                    self.take();
                    return Ok(now);
                }
                1..=SPIN_NS => std::hint::spin_loop(),
                left => clock.sleep_until(now.saturating_add((left - SPIN_NS).min(patience))),
            }
        }
    }
}

/// Sends what `trial` asks for, each message in its slot, and says how many slots were missed since the first that counts.
fn send(
    outlet: &mut impl Wire,
    clock: &impl Alarm,
    trial: &Trial<'_>,
    interval: u64,
    flow: &Flow,
    receiver: Peer<'_>,
) -> anyhow::Result<u64> {
    let mut slots = Slots { next: clock.now_ns(), interval, missed: 0 };
    let whole = trial.warmup.saturating_add(trial.n);
    let mut end = u64::MAX;
    let go_on = || if receiver.is_gone() { Err(Interrupted) } else { trial.go_on() };
    for seq in 0..whole {
        if seq == trial.warmup {
            slots.missed = 0;
            let time = trial.time.map(in_ns);
            end = time.map_or(u64::MAX, |time| slots.next.saturating_add(time));
        }
        let Ok(send_ns) = slots.wait(clock, go_on) else { break };
        // Before it leaves, so that the receiver knows it for the last one when it comes.
        let is_last = seq + 1 == whole || (seq >= trial.warmup && slots.next >= end);
        if is_last {
            flow.end(seq + 1);
        }
        let frame = Stamp { seq, send_ns }.frame();
        while let Err(errno) = outlet.send(&frame) {
            if errno != Errno::INTR {
                return Err(anyhow!("cannot send a message: {}", strerror(errno)));
            }
        }
        if is_last {
            break;
        }
    }
    Ok(slots.missed)
}

/// Which numbers have come.
struct Ledger {
    /// A bit a number.
    came: Vec<u64>,
    /// How many numbers there are.
    size: u64,
    /// How many came, each counted once.
    distinct: u64,
    /// The number after the highest one that came.
    next: u64,
}

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// The highest so far.
    New,
    /// Came after a higher one.
    Late,
    /// Came before.
    Again,
    /// None that is sent.
    Foreign,
}

impl Ledger {
    /// A ledger for the numbers of `trial`, all of it in memory.
    fn new(trial: &Trial<'_>) -> Option<Ledger> {
        let size = trial.warmup.checked_add(trial.n)?;
        let words = usize::try_from(size.div_ceil(64)).ok()?;
        let mut came = Vec::new();
        came.try_reserve_exact(words).ok()?;
        // Not zero at first, or the pages may be left to be faulted in later.
        came.resize(words, u64::MAX);
        came.fill(0);
        Some(Ledger { came, size, distinct: 0, next: 0 })
    }

    #[inline]
    fn enter(&mut self, seq: u64) -> Number {
        let bit = 1 << (seq % 64);
        let word = usize::try_from(seq / 64).ok().filter(|_| seq < self.size).and_then(|at| self.came.get_mut(at));
        let Some(word) = word else { return Number::Foreign };
        if *word & bit != 0 {
            return Number::Again;
        }
        *word |= bit;
        self.distinct += 1;
        if seq < self.next {
            Number::Late
        } else {
            self.next = seq + 1;
            Number::New
        }
    }
}

/// Receives until every message is there, or the sender is gone and nothing more comes.
fn receive(
    inbox: &mut impl Inbox,
    clock: &impl Clock,
    trial: &Trial<'_>,
    flow: &Flow,
    sender: Peer<'_>,
    ledger: &mut Ledger,
    samples: &mut Samples,
) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let mut arrived = 0;
    let mut alone_since = None;
    while ledger.distinct < flow.count() {
        match inbox.next().map_err(|errno| anyhow!("cannot receive a message: {}", strerror(errno)))? {
            Received::Stamped(stamp) => {
                let now = clock.now_ns();
                alone_since = None;
                match ledger.enter(stamp.seq) {
                    Number::Foreign => tally.foreign += 1,
                    _ if stamp.seq < trial.warmup => {}
                    Number::Again => tally.duplicates += 1,
                    number @ (Number::New | Number::Late) => {
                        arrived += 1;
                        tally.out_of_order += u64::from(number == Number::Late);
                        match now.checked_sub(stamp.send_ns) {
                            Some(ns) => samples.record(ns),
                            None => tally.backwards += 1,
                        }
                    }
                }
            }
            Received::Foreign => tally.foreign += 1,
            Received::Nothing => {}
        }
        trial.go_on()?;
        if sender.is_gone() {
            let now = clock.now_ns();
            if now.saturating_sub(*alone_since.get_or_insert(now)) >= GRACE_NS {
                break;
            }
        }
    }
    // A sender that gave no end has failed, and says so itself.
    let whole = if flow.count() == u64::MAX { ledger.next } else { flow.count() };
    tally.sent = whole.saturating_sub(trial.warmup);
    tally.lost = tally.sent.saturating_sub(arrived);
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicBool;

    use super::*;

    const US: u64 = 1_000;
    const INTERVAL: u64 = 500 * US;

    /// A clock that moves on by a microsecond whenever somebody looks at it, and oversleeps.
    #[derive(Default)]
    struct Hand {
        now: Cell<u64>,
        oversleeps: u64,
        sleeps: RefCell<Vec<u64>>,
    }

    impl Clock for Hand {
        fn now_ns(&self) -> u64 {
            self.now.set(self.now.get() + US);
            self.now.get()
        }
    }

    impl Alarm for Hand {
        fn sleep_until(&self, ns: u64) {
            assert!(ns > self.now.get(), "a sleep into the past");
            self.sleeps.borrow_mut().push(ns - self.now.get());
            self.now.set(ns + self.oversleeps);
        }
    }

    /// An outlet that notes what leaves, and lets time pass or fails as it is told.
    struct Outlet<'a> {
        clock: &'a Hand,
        left: Vec<Stamp>,
        /// How many messages were announced when each left.
        announced: Vec<u64>,
        flow: &'a Flow,
        send: &'a dyn Fn(u64, &Hand) -> Result<(), Errno>,
    }

    impl Wire for Outlet<'_> {
        fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
            let stamp = Stamp::of(bytes).unwrap();
            (self.send)(stamp.seq, self.clock)?;
            self.left.push(stamp);
            self.announced.push(self.flow.count());
            Ok(bytes.len())
        }

        fn recv(&mut self, _: &mut [u8]) -> Result<usize, Errno> {
            panic!("an outlet receives nothing")
        }
    }

    struct Sent {
        left: Vec<Stamp>,
        announced: Vec<u64>,
        missed: anyhow::Result<u64>,
    }

    impl Sent {
        /// The times between messages.
        fn gaps(&self) -> Vec<u64> {
            assert!(self.left.iter().map(|stamp| stamp.seq).eq(0..self.left.len() as u64));
            self.left.windows(2).map(|pair| pair[1].send_ns - pair[0].send_ns).collect()
        }
    }

    fn sends(
        clock: &Hand,
        (warmup, n, time): (u64, u64, Option<Duration>),
        interval: u64,
        send_one: &dyn Fn(u64, &Hand) -> Result<(), Errno>,
    ) -> Sent {
        let (stop, gone, flow) = (AtomicBool::new(false), AtomicBool::new(false), Flow::default());
        let mut outlet = Outlet { clock, left: Vec::new(), announced: Vec::new(), flow: &flow, send: send_one };
        let trial = Trial { warmup, n, time, stop: &stop };
        let missed = send(&mut outlet, clock, &trial, interval, &flow, Peer(&gone));
        Sent { left: outlet.left, announced: outlet.announced, missed }
    }

    #[test]
    fn messages_leave_in_their_slots_and_the_last_one_is_announced() {
        let clock = Hand::default();
        let sent = sends(&clock, (1, 3, None), INTERVAL, &|_, _| Ok(()));
        // The first reading makes the schedule, and the second one finds its first slot due.
        assert_eq!(sent.gaps(), [INTERVAL - US, INTERVAL, INTERVAL]);
        assert_eq!(sent.announced, [u64::MAX, u64::MAX, u64::MAX, 4]);
        assert_eq!(sent.missed.unwrap(), 0);
        assert_eq!(clock.sleeps.borrow().len(), 3);
    }

    #[test]
    fn a_short_delay_does_not_add_up() {
        let late = |seq, clock: &Hand| {
            clock.now.set(clock.now.get() + if seq == 1 { INTERVAL + INTERVAL / 4 } else { 0 });
            Ok(())
        };
        let sent = sends(&Hand::default(), (0, 4, None), INTERVAL, &late);
        assert_eq!(sent.left[3].send_ns - sent.left[0].send_ns, 3 * INTERVAL - US);
        assert_eq!(sent.missed.unwrap(), 0);
    }

    #[test]
    fn what_was_missed_is_given_up_and_counted_and_never_a_burst() {
        // Each message takes 2.6 intervals to leave: two slots are over by more than half an interval, the third one is not.
        let slow = |_, clock: &Hand| {
            clock.now.set(clock.now.get() + 26 * INTERVAL / 10);
            Ok(())
        };
        let sent = sends(&Hand::default(), (2, 4, None), INTERVAL, &slow);
        assert_eq!(sent.left.len(), 6);
        assert!(sent.gaps().iter().all(|&gap| gap >= INTERVAL / 2), "{:?}", sent.gaps());
        // Two before each message that counts, and none of the warm-up's.
        assert_eq!(sent.missed.unwrap(), 8);
        for oversleeps in [INTERVAL / 3, INTERVAL, 7 * INTERVAL] {
            let sent = sends(&Hand { oversleeps, ..Hand::default() }, (0, 20, None), INTERVAL, &|_, _| Ok(()));
            assert!(sent.gaps().iter().all(|&gap| gap >= INTERVAL / 2), "{:?}", sent.gaps());
        }
    }

    #[test]
    fn slots() {
        let mut slots = Slots { next: 100, interval: 10, missed: 0 };
        for (now, due, missed) in [(90, 100, 0), (105, 100, 0), (106, 110, 1), (116, 120, 2), (160, 160, 6)] {
            assert_eq!((slots.due(now), slots.missed), (due, missed), "{now}");
        }
        slots.take();
        assert_eq!(slots.due(160), 170);
    }

    #[test]
    fn a_time_ends_it_too_and_begins_with_what_counts() {
        let time = Duration::from_nanos(3 * INTERVAL);
        let sent = sends(&Hand::default(), (2, 100, Some(time)), INTERVAL, &|_, _| Ok(()));
        assert_eq!(sent.left.len(), 5);
        assert_eq!(sent.announced[3..], [u64::MAX, 5]);
    }

    #[test]
    fn a_long_interval_is_slept_through_in_pieces_and_can_be_ended() {
        let (stop, gone) = (AtomicBool::new(false), AtomicBool::new(false));
        for flag in [&stop, &gone] {
            let (clock, flow) = (Hand::default(), Flow::default());
            let raise = |_, _: &Hand| {
                flag.store(true, Ordering::Relaxed);
                Ok(())
            };
            let mut outlet =
                Outlet { clock: &clock, left: Vec::new(), announced: Vec::new(), flow: &flow, send: &raise };
            let trial = Trial { warmup: 0, n: 2, time: None, stop: &stop };
            send(&mut outlet, &clock, &trial, 3_600_000_000_000, &flow, Peer(&gone)).unwrap();
            assert_eq!((outlet.left.len(), flow.count()), (1, u64::MAX));
            flag.store(false, Ordering::Relaxed);
        }
        let clock = Hand::default();
        sends(&clock, (0, 2, None), 1_000_000_000, &|_, _| Ok(()));
        assert!(clock.sleeps.borrow().iter().all(|&ns| ns <= 100_000_000) && clock.sleeps.borrow().len() >= 10);
    }

    #[test]
    fn an_interrupted_call_is_made_again_and_another_error_is_the_end() {
        let attempts = Cell::new(0);
        let interrupted = |_, _: &Hand| {
            attempts.set(attempts.get() + 1);
            if attempts.get() == 1 { Err(Errno::INTR) } else { Ok(()) }
        };
        let sent = sends(&Hand::default(), (0, 2, None), INTERVAL, &interrupted);
        assert_eq!((sent.left.len(), attempts.get()), (2, 3));
        let sent = sends(&Hand::default(), (0, 2, None), INTERVAL, &|_, _| Err(Errno::NOBUFS));
        assert_eq!(sent.missed.unwrap_err().to_string(), "cannot send a message: No buffer space available");
    }

    /// An inbox with these contents, and nothing after them; the sender is gone when they are read.
    struct Letters<'a> {
        letters: VecDeque<Received>,
        gone: &'a AtomicBool,
    }

    impl Inbox for Letters<'_> {
        fn next(&mut self) -> Result<Received, Errno> {
            Ok(self.letters.pop_front().unwrap_or_else(|| {
                self.gone.store(true, Ordering::Relaxed);
                Received::Nothing
            }))
        }
    }

    /// Receives `letters`, of which `count` were announced, and none left to be read.
    fn receives(warmup: u64, n: u64, count: u64, letters: &[Received]) -> (Vec<u64>, Tally, usize) {
        let (stop, gone, flow) = (AtomicBool::new(false), AtomicBool::new(false), Flow::default());
        flow.end(count);
        let trial = Trial { warmup, n, time: None, stop: &stop };
        let mut inbox = Letters { letters: letters.iter().copied().collect(), gone: &gone };
        let mut ledger = Ledger::new(&trial).unwrap();
        let mut samples = Samples::default();
        let clock = Hand::default();
        let tally = receive(&mut inbox, &clock, &trial, &flow, Peer(&gone), &mut ledger, &mut samples).unwrap();
        (samples.as_slice().to_vec(), tally, inbox.letters.len())
    }

    fn number(seq: u64) -> Received {
        Received::Stamped(Stamp { seq, send_ns: 400 })
    }

    #[test]
    fn a_whole_trial() {
        let letters = [number(0), Received::Nothing, number(1), number(2), number(3), Received::Foreign];
        // The clock is read once a message; what comes after the last one is not looked at.
        let (samples, tally, left) = receives(1, 3, 4, &letters);
        assert_eq!(samples, [1_600, 2_600, 3_600]);
        assert_eq!(tally, Tally { sent: 3, ..Tally::default() });
        assert_eq!(left, 1);
    }

    #[test]
    fn lost_late_doubled_and_foreign() {
        let letters = [number(2), number(1), number(2), Received::Foreign, number(9), number(5), number(0)];
        let (samples, tally, _) = receives(1, 6, 7, &letters);
        assert_eq!(samples, [600, 1_600, 4_600]);
        let expected =
            Tally { sent: 6, lost: 3, out_of_order: 1, duplicates: 1, foreign: 2, backwards: 0, missed_slots: 0 };
        assert_eq!(tally, expected);
    }

    #[test]
    fn nothing_arrives_and_that_ends() {
        let (samples, tally, _) = receives(2, 5, 7, &[]);
        assert_eq!((samples.len(), tally), (0, Tally { sent: 5, lost: 5, ..Tally::default() }));
    }

    #[test]
    fn a_message_from_the_future_is_no_sample() {
        let ahead = Received::Stamped(Stamp { seq: 0, send_ns: 1_001 });
        let (samples, tally, _) = receives(0, 2, 2, &[ahead, number(1)]);
        assert_eq!((samples, tally.backwards), (vec![1_600], 1));
    }

    #[test]
    fn a_warm_up_that_is_lost_is_no_loss() {
        let (samples, tally, _) = receives(2, 2, 4, &[number(2), number(3)]);
        assert_eq!((samples.len(), tally), (2, Tally { sent: 2, ..Tally::default() }));
    }

    #[test]
    fn a_schedule_by_time_is_as_many_messages_as_it_has_slots() {
        let course = Course { cpus: [0, 1], interval: Duration::from_micros(500) };
        let schedule = Schedule { rounds: 2, warmup: 5, n: 1_000_000, time: Some(Duration::from_millis(3)) };
        assert_eq!(course.fit(schedule).n, 7);
        assert_eq!(course.fit(Schedule { n: 3, ..schedule }).n, 3);
        assert_eq!(course.fit(Schedule { time: None, ..schedule }).n, 1_000_000);
    }

    #[test]
    fn arms_with_losses_or_clocks_that_differ() {
        let row = |name: &str, tally: Tally| Row { name: name.to_owned(), figures: tally.figures(), ..Row::default() };
        let arms = [
            row("good", Tally { sent: 5, ..Tally::default() }),
            row("bad", Tally { sent: 5, lost: 2, backwards: 1, ..Tally::default() }),
            Row::skipped("none", "no"),
        ];
        let bad = || "bad".to_owned();
        assert_eq!(
            caveats(&arms),
            [Caveat::Lost { arm: bad(), lost: 2, sent: 5 }, Caveat::ClocksDiffer { arm: bad(), count: 1 }]
        );
    }
}
