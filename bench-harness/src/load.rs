//! Something that keeps CPUs busy while something else is measured.

use std::hint::black_box;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::cpus::{self, CpuList};
use crate::experiment::Skip;
use crate::sys::child;
use crate::sys::scheduler::run_as_other;
use crate::text::strerror;

/// What makes the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Threads of this program that count
    Spin,
    /// stress-ng --cpu, where it is installed
    StressNg,
}

/// Busy threads. Dropped: gone, all of them.
#[derive(Debug)]
pub enum Load {
    /// Threads of this process.
    Spinners {
        /// Tells them to end.
        over: Arc<AtomicBool>,
        /// Waited for.
        threads: Vec<JoinHandle<()>>,
    },
    /// A process with children of its own, in a process group of their own.
    Process(Child),
}

/// The program, found on `PATH`.
const STRESS_NG: &str = "stress-ng";

impl Load {
    /// Keeps `threads` threads busy on `cpus`. Must be called from a thread that outlives the load. A program that is not
    /// there is a [`Skip`].
    pub fn start(kind: Kind, threads: usize, cpus: &CpuList) -> anyhow::Result<Load> {
        match kind {
            Kind::Spin => Load::spinners(threads, cpus),
            Kind::StressNg => Load::process(STRESS_NG, threads, cpus),
        }
    }

    fn spinners(threads: usize, cpus: &CpuList) -> anyhow::Result<Load> {
        let over = Arc::new(AtomicBool::new(false));
        let (placed, places) = channel();
        let spinner = |_| {
            let (over, cpus, placed) = (Arc::clone(&over), cpus.clone(), placed.clone());
            thread::Builder::new().name("load".to_owned()).spawn(move || {
                // Never in real time, as this program may run: it would take the CPUs from everybody else.
                let place = run_as_other().and_then(|()| cpus::pin_to(&cpus));
                // The receiver is there until every thread has said so.
                let _ = placed.send(place);
                while place.is_ok() && !over.load(Ordering::Relaxed) {
                    // Arithmetic and no pause instruction: that one would tell a hypervisor that nothing is done here.
                    (0..10_000).for_each(|i: u32| _ = black_box(i));
                }
            })
        };
        let started: io::Result<Vec<_>> = (0..threads).map(spinner).collect();
        // From here on every way out ends them.
        let load = |threads| Load::Spinners { over: Arc::clone(&over), threads };
        let load = match started {
            Ok(started) => load(started),
            Err(error) => {
                drop(load(Vec::new()));
                return Err(error).context("cannot start a load thread");
            }
        };
        for place in places.iter().take(threads) {
            place.map_err(|errno| anyhow!("cannot put load on CPUs {cpus}: {}", strerror(errno)))?;
        }
        Ok(load)
    }

    fn process(program: &str, threads: usize, cpus: &CpuList) -> anyhow::Result<Load> {
        let mut command = Command::new(program);
        command.args(["--cpu", &threads.to_string(), "--sched", "other", "--quiet"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        match child::spawn(&mut command, Some(cpus.clone())) {
            Ok(child) => Ok(Load::Process(child)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Skip(format!("{program} is not installed")).into())
            }
            Err(error) => Err(error).with_context(|| format!("cannot start {program} on CPUs {cpus}")),
        }
    }

    /// An error where the load has ended by itself: what was measured meanwhile was measured without it.
    pub fn is_there(&mut self) -> anyhow::Result<()> {
        match self {
            Load::Spinners { threads, .. } if threads.iter().any(JoinHandle::is_finished) => {
                bail!("a load thread ended by itself")
            }
            Load::Spinners { .. } => Ok(()),
            Load::Process(child) => match child.try_wait().context("cannot watch the load")? {
                Some(status) => bail!("the load ended by itself: {status}"),
                None => Ok(()),
            },
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        match self {
            Load::Spinners { over, threads } => {
                over.store(true, Ordering::Relaxed);
                // A panic of theirs is nobody's concern any more.
                threads.drain(..).for_each(|thread| drop(thread.join()));
            }
            Load::Process(child) => {
                // The whole group: its workers are children of the child. They are gone before it is waited for, or its
                // number might be another group's by then.
                let _: Result<(), Errno> = kill_process_group(Pid::from_child(child), Signal::KILL);
                let _ = child.wait();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness;

    fn allowed() -> CpuList {
        witness::allowed_cpus(std::process::id()).unwrap()
    }

    #[test]
    fn spinners_spin_until_they_are_dropped() {
        let mut load = Load::start(Kind::Spin, 2, &allowed()).unwrap();
        load.is_there().unwrap();
        let Load::Spinners { over, .. } = &load else { panic!() };
        let over = Arc::clone(over);
        drop(load);
        // The only one left: the threads are gone.
        assert_eq!(Arc::strong_count(&over), 1);
    }

    #[test]
    fn what_cannot_be_placed_is_an_error() {
        let error = Load::start(Kind::Spin, 1, &CpuList::from(4_000_000_000)).unwrap_err();
        assert_eq!(error.to_string(), "cannot put load on CPUs 4000000000: Invalid argument");
    }

    #[test]
    fn a_program_that_is_not_there_is_no_load() {
        let error = Load::process("/nonexistent/stress-ng", 1, &allowed()).unwrap_err();
        assert_eq!(error.downcast::<Skip>().unwrap().0, "/nonexistent/stress-ng is not installed");
    }

    #[test]
    fn a_load_that_ends_by_itself_was_none() {
        // Takes the arguments of stress-ng for its own and does nothing.
        let mut load = Load::process("true", 1, &allowed()).unwrap();
        let Load::Process(child) = &mut load else { panic!() };
        child.wait().unwrap();
        let error = load.is_there().unwrap_err().to_string();
        assert!(error.starts_with("the load ended by itself: exit status: 0"), "{error}");
    }

    #[test]
    fn a_process_is_killed_with_its_children() {
        let script = tempfile::tempdir().unwrap();
        let (path, pids) = (script.path().join("stress"), script.path().join("pids"));
        let text = format!("#!/bin/sh\nsleep 1000 &\necho $$ $! >{0}.new\nmv {0}.new {0}\nwait\n", pids.display());
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let load = Load::process(path.to_str().unwrap(), 1, &allowed()).unwrap();
        let said = loop {
            match std::fs::read_to_string(&pids) {
                Ok(text) => break text,
                Err(_) => thread::yield_now(),
            }
        };
        drop(load);
        let is_alive =
            |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        for pid in said.split_whitespace() {
            while is_alive(pid) {
                thread::yield_now();
            }
        }
    }
}
