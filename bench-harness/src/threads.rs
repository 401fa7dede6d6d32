//! Threads of a measurement: bound to their CPU before they do anything, and waited for whatever they did.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, ScopedJoinHandle};

use anyhow::anyhow;

use crate::cpus;
use crate::text::strerror;

/// Binds the calling thread to `cpu`.
pub fn pin(cpu: u32) -> anyhow::Result<()> {
    cpus::pin(u64::from(cpu)).map_err(|errno| anyhow!("cannot run on CPU {cpu}: {}", strerror(errno)))
}

/// Waits for a thread. Its panic is an error like any other.
pub fn join<T>(thread: ScopedJoinHandle<'_, anyhow::Result<T>>) -> anyhow::Result<T> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked")))
}

/// Runs `work` in a thread of its own on `cpu` and sleeps until it is done. What it does to itself (affinity, policy) ends
/// with it, and the next measurement finds the main thread as it was.
pub fn run_on<T: Send>(cpu: u32, work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    thread::scope(|scope| {
        join(scope.spawn(move || {
            pin(cpu)?;
            work()
        }))
    })
}

/// The other one of two threads that depend on each other.
#[derive(Clone, Copy, Debug)]
pub struct Peer<'a>(pub(crate) &'a AtomicBool);

impl Peer<'_> {
    /// Has it ended, in whatever way? Then nothing more will come of it.
    #[inline]
    pub fn is_gone(self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Runs two pieces of work at the same time, each in a thread of its own on its CPU, and sleeps until both are done. Neither
/// must wait for the other without a look at [`Peer::is_gone`], unless what it waits on ends with the other. Where both fail
/// the error is that of the first one: it is the reason of the second.
pub fn pair<A: Send, B: Send>(
    cpus: [u32; 2],
    first: impl FnOnce(Peer<'_>) -> anyhow::Result<A> + Send,
    second: impl FnOnce(Peer<'_>) -> anyhow::Result<B> + Send,
) -> anyhow::Result<(A, B)> {
    let [first_gone, second_gone] = [const { AtomicBool::new(false) }; 2];
    let (errors, told) = channel();
    let results = thread::scope(|scope| {
        let told_too = errors.clone();
        let second = {
            let (own, peer) = (&second_gone, Peer(&first_gone));
            scope.spawn(move || Ok(one_of_a_pair(cpus[1], own, &told_too, || second(peer))))
        };
        let (own, peer) = (&first_gone, Peer(&second_gone));
        let first = scope.spawn(move || Ok(one_of_a_pair(cpus[0], own, &errors, || first(peer))));
        (join(first), join(second))
    });
    match (results.0?, results.1?) {
        (Some(a), Some(b)) => Ok((a, b)),
        _ => Err(told.try_recv().unwrap_or_else(|_| anyhow!("a thread ended without a reason"))),
    }
}

/// `None` is an error that was told.
fn one_of_a_pair<T>(
    cpu: u32,
    gone: &AtomicBool,
    errors: &Sender<anyhow::Error>,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> Option<T> {
    // Set on every way out, a panic included, and after the error is told.
    let _gone = SetWhenDropped(gone);
    match pin(cpu).and_then(|()| work()) {
        Ok(result) => Some(result),
        Err(error) => {
            // Heard in any case: the receiver outlives both threads.
            let _ = errors.send(error);
            None
        }
    }
}

struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness;

    #[test]
    fn work_is_done_where_it_was_said_and_nothing_is_left_of_it() {
        let allowed = witness::allowed_cpus(std::process::id()).unwrap();
        let cpu = allowed.highest().unwrap();
        let there = run_on(cpu, || Ok(rustix::thread::sched_getcpu())).unwrap();
        assert_eq!(there, usize::try_from(cpu).unwrap());
        assert_eq!(witness::allowed_cpus(std::process::id()).unwrap(), allowed);
    }

    #[test]
    fn what_goes_wrong_there_is_told_here() {
        let cpu = witness::allowed_cpus(std::process::id()).unwrap().highest().unwrap();
        let error = run_on::<()>(cpu, || panic!("on purpose")).unwrap_err();
        assert_eq!(error.to_string(), "a thread panicked");
        let error = run_on(u32::MAX, || Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "cannot run on CPU 4294967295: Invalid argument");
    }
    /// Where this test may run, twice where there is one CPU.
    fn two_cpus() -> [u32; 2] {
        let allowed = witness::allowed_cpus(std::process::id()).unwrap();
        [allowed.as_slice()[0], allowed.highest().unwrap()]
    }

    fn wait_for(peer: Peer<'_>) {
        while !peer.is_gone() {
            thread::yield_now();
        }
    }

    #[test]
    fn two_work_at_the_same_time_and_each_sees_the_other_end() {
        let cpus = two_cpus();
        let here = || rustix::thread::sched_getcpu();
        let places = pair(
            cpus,
            |_| Ok(here()),
            |peer| {
                wait_for(peer);
                Ok(here())
            },
        );
        let [a, b] = cpus.map(|cpu| usize::try_from(cpu).unwrap());
        assert_eq!(places.unwrap(), (a, b));
    }

    #[test]
    fn the_first_error_is_the_reason() {
        let late = |peer: Peer<'_>| {
            wait_for(peer);
            Err::<(), _>(anyhow!("left alone"))
        };
        let error = pair(two_cpus(), late, |_| Err::<(), _>(anyhow!("broken"))).unwrap_err();
        assert_eq!(error.to_string(), "broken");
        let error = pair([u32::MAX, two_cpus()[1]], |_| Ok(()), late).unwrap_err();
        assert_eq!(error.to_string(), "cannot run on CPU 4294967295: Invalid argument");
        let error = pair(two_cpus(), |_| -> anyhow::Result<()> { panic!("on purpose") }, late).unwrap_err();
        assert_eq!(error.to_string(), "a thread panicked");
    }
}
