//! SIGINT and SIGTERM as a flag.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{SIG_UNBLOCK, SIGINT, SIGTERM, c_int};
use rustix::io::Errno;

use super::check;

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_stop(_signal: c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Turns SIGINT and SIGTERM into a flag that stays set, and returns it.
///
/// The handlers are installed without `SA_RESTART`, so that a sleeping system call returns `EINTR` and its caller
/// looks at the flag. Both signals are unblocked: a mask is inherited, and a program that was started with SIGTERM
/// blocked would never hear it.
pub fn stop_flag() -> Result<&'static AtomicBool, Errno> {
    let handler: extern "C" fn(c_int) = on_stop;
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set that it is given, and cannot fail on a valid pointer.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for signal in [SIGINT, SIGTERM] {
        // SAFETY: `sigaction` is a C struct of integers and an optional pointer, for which zero is a valid value.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_mask = set;
        // SAFETY: the handler has the signature that goes with flags without SA_SIGINFO and only stores an atomic,
        // which is async-signal-safe; `action` is initialised and outlives the call; the old action is not asked for.
        check(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })?;
    }
    for signal in [SIGINT, SIGTERM] {
        // SAFETY: `set` is initialised and `signal` a valid signal.
        check(unsafe { libc::sigaddset(&raw mut set, signal) })?;
    }
    // SAFETY: `set` is initialised and outlives the call; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(SIG_UNBLOCK, &raw const set, ptr::null_mut()) } {
        0 => Ok(&STOP),
        // Unlike the others this one returns its error.
        code => Err(Errno::from_raw_os_error(code)),
    }
}

/// Lets children be waited for. A parent that ignores SIGCHLD hands that on, and the kernel then reaps children by itself.
pub fn keep_children() -> Result<(), Errno> {
    // SAFETY: see `stop_flag`; zero is `SIG_DFL` with no flags and an empty mask.
    let action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: `action` is initialised and outlives the call; the old action is not asked for.
    check(unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, ptr::null_mut()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_sets_the_flag() {
        let stop = stop_flag().unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
        // A signal to oneself is delivered to some thread of the process before long, not before the call returns.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !stop.load(Ordering::Relaxed) && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert!(stop.load(Ordering::Relaxed));
    }
}
