//! Children that start where they are told to, and do not outlive the program that started them.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use crate::cpus::{self, CpuList};

/// Starts `command`, on `cpus` only where any are given, and lets the kernel kill it when the calling thread ends.
///
/// The affinity is set in the child before `exec`, so that the program itself never runs anywhere else. Must be called
/// from a thread that lives as long as the child is wanted: the kernel's "parent" is that thread.
pub fn spawn(command: &mut Command, cpus: Option<CpuList>) -> io::Result<Child> {
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the request above; its signal would never come.
        if getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
        match &cpus {
            Some(cpus) => Ok(cpus::pin_to(cpus)?),
            None => Ok(()),
        }
    };
    // SAFETY: between fork and exec the closure makes three system calls (prctl, getppid, sched_setaffinity) on values
    // that it owns; it takes no lock and allocates nothing, errors being plain numbers.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}
