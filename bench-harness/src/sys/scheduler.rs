//! The scheduling policy of the calling thread.

use rustix::io::Errno;

/// Puts the calling thread, and no other, under `SCHED_FIFO`. Threads that it starts from then on inherit that.
pub fn run_as_fifo(priority: i32) -> Result<(), Errno> {
    set(libc::SCHED_FIFO, priority)
}

/// Puts the calling thread, and no other, under `SCHED_OTHER`, whatever it inherited. Needs no permission.
pub fn run_as_other() -> Result<(), Errno> {
    set(libc::SCHED_OTHER, 0)
}

/// The system call itself: a C library may refuse to make it (musl does, since POSIX means processes).
fn set(policy: libc::c_int, priority: i32) -> Result<(), Errno> {
    const CALLER: libc::pid_t = 0;
    // The kernel's `sched_param`; that of a C library may be longer.
    let parameter: libc::c_int = priority;
    // SAFETY: the third argument points to the int that the kernel reads, which outlives the call; nothing is written.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, CALLER, policy, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(super::last_errno()),
    }
}
