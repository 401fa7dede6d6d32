//! Round trips between two threads of this process: one asks, one answers, one message at a time.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};

use crate::clock::{Clock, Monotonic};
use crate::experiment::Interrupted;
use crate::experiment::rounds::Trial;
use crate::samples::Samples;
use crate::threads::{Peer, pair};

/// What one try to take a message gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A message, with its number.
    Message(u8),
    /// Nothing, for as long as this end cares to wait.
    Nothing,
    /// The other end will send no more.
    End,
}

/// One end of what goes to and fro.
pub trait End {
    /// Sends a message that carries `number`, which is the low byte of its place in the trial.
    fn give(&mut self, number: u8) -> anyhow::Result<()>;

    /// Takes the next message. Waits in its own way, and never longer than some tenths of a second.
    fn take(&mut self) -> anyhow::Result<Taken>;
}

/// How long an answer may take, in nanoseconds, before the message counts as lost: far more than any scheduler's slice.
const LOST_AFTER_NS: u64 = 1_000_000_000;

/// The asking end: samples of full round trips. Returns how many messages had no answer.
///
/// A message that is not answered is in no percentile, and the next one goes out all the same; an answer that comes late is
/// known by its number and passed over.
fn ask(end: &mut impl End, clock: &impl Clock, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<u64> {
    trial.run_with_losses(clock, samples, |i| {
        #[expect(clippy::cast_possible_truncation, reason = "the low byte")]
        let number = i as u8;
        let sent = clock.now_ns();
        end.give(number)?;
        loop {
            let taken = end.take()?;
            let waited = clock.now_ns().saturating_sub(sent);
            match taken {
                Taken::Message(answer) if answer == number => return Ok(Some(waited)),
                Taken::End => anyhow::bail!("the answering end is gone"),
                Taken::Message(_) | Taken::Nothing => {
                    trial.go_on()?;
                    if waited > LOST_AFTER_NS {
                        return Ok(None);
                    }
                }
            }
        }
    })
}

/// The answering end: sends back what comes until the other one ends.
fn answer(end: &mut impl End, peer: Peer<'_>, stop: &AtomicBool) -> anyhow::Result<()> {
    loop {
        match end.take()? {
            Taken::Message(number) => end.give(number)?,
            Taken::End => return Ok(()),
            Taken::Nothing if peer.is_gone() => return Ok(()),
            Taken::Nothing if stop.load(Ordering::Relaxed) => return Err(Interrupted.into()),
            Taken::Nothing => {}
        }
    }
}

/// Lets the ends play, each in a thread of its own: the asking one on the first of `cpus`. Returns what was counted.
pub fn run(
    cpus: [u32; 2],
    trial: &Trial<'_>,
    samples: &mut Samples,
    mut asking: impl End + Send,
    mut answering: impl End + Send,
) -> anyhow::Result<Map<String, Value>> {
    let asked = &mut *samples;
    let (lost, ()) = pair(
        cpus,
        move |_| ask(&mut asking, &Monotonic, trial, asked),
        move |peer| answer(&mut answering, peer, trial.stop),
    )?;
    let sent = samples.as_slice().len() as u64 + lost;
    Ok(Map::from_iter([("sent".to_owned(), sent.into()), ("lost".to_owned(), lost.into())]))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::*;

    /// A clock that the peer moves.
    #[derive(Default)]
    struct Hand(Cell<u64>);

    impl Clock for &Hand {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }
    }

    /// A peer that answers each message after as long as the script says; nothing is an answer that does not come.
    struct Scripted<'a> {
        clock: &'a Hand,
        script: VecDeque<Option<u64>>,
        pending: Option<(u8, u64)>,
        given: &'a RefCell<Vec<u8>>,
    }

    impl End for Scripted<'_> {
        fn give(&mut self, number: u8) -> anyhow::Result<()> {
            self.given.borrow_mut().push(number);
            self.pending = self.script.pop_front().flatten().map(|after| (number, after));
            Ok(())
        }

        fn take(&mut self) -> anyhow::Result<Taken> {
            let answer = self.pending.take();
            let passes = answer.map_or(LOST_AFTER_NS / 2 + 1, |(_, after)| after);
            self.clock.0.set(self.clock.0.get() + passes);
            Ok(answer.map_or(Taken::Nothing, |(number, _)| Taken::Message(number)))
        }
    }

    fn asked(script: &[Option<u64>], warmup: u64, n: u64, time: Option<Duration>) -> (Vec<u64>, u64, Vec<u8>) {
        let (clock, given, stop) = (Hand::default(), RefCell::default(), AtomicBool::new(false));
        let mut end =
            Scripted { clock: &clock, script: script.iter().copied().collect(), pending: None, given: &given };
        let mut samples = Samples::with_capacity(16).unwrap();
        let trial = Trial { warmup, n, time, stop: &stop };
        let lost = ask(&mut end, &&clock, &trial, &mut samples).unwrap();
        (samples.as_slice().to_vec(), lost, given.take())
    }

    #[test]
    fn warm_up_is_discarded_and_the_rest_counted_in_order() {
        let (samples, lost, given) = asked(&[Some(9), Some(8), Some(30), Some(10), Some(20)], 2, 3, None);
        assert_eq!((samples, lost, given), (vec![30, 10, 20], 0, vec![0, 1, 2, 3, 4]));
    }

    #[test]
    fn what_is_not_answered_is_lost_and_no_sample() {
        let (samples, lost, given) = asked(&[Some(5), None, Some(7)], 0, 3, None);
        assert_eq!((samples, lost, given), (vec![5, 7], 1, vec![0, 1, 2]));
    }

    #[test]
    fn a_time_ends_it_too() {
        let (samples, _, _) = asked(&[Some(900), Some(10), Some(10), Some(10)], 1, 3, Some(Duration::from_nanos(20)));
        assert_eq!(samples, [10, 10]);
    }

    /// A peer that never answers, and a user who loses patience meanwhile.
    struct Stops<'a>(&'a AtomicBool);

    impl End for Stops<'_> {
        fn give(&mut self, _number: u8) -> anyhow::Result<()> {
            Ok(())
        }

        fn take(&mut self) -> anyhow::Result<Taken> {
            self.0.store(true, Ordering::Relaxed);
            Ok(Taken::Nothing)
        }
    }

    #[test]
    fn the_user_ends_it_while_it_waits() {
        let (clock, stop) = (Hand::default(), AtomicBool::new(false));
        let trial = Trial { warmup: 0, n: 3, time: None, stop: &stop };
        let error = ask(&mut Stops(&stop), &&clock, &trial, &mut Samples::default()).unwrap_err();
        assert!(error.is::<Interrupted>());
    }
}
