//! Threads of a measurement: bound to their CPU before they do anything, and waited for whatever they did.

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
}
