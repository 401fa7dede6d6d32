//! The only home of `unsafe` in this package.
//!
//! # Safety
//! Three rules hold for everything below. Each block says which system interface it calls and why the call's conditions
//! are met. Nothing unsafe is exported: what leaves this module cannot be misused from safe code. And what runs where
//! little is permitted (in a signal handler, between `fork` and `exec`) does nothing there but atomic stores and
//! async-signal-safe calls.
//!
//! Everything else that talks to the kernel goes through `rustix`, whose wrappers are safe.
#![expect(unsafe_code, reason = "this module exists to hold it")]

pub mod bpf;
pub mod child;
pub mod counter;
pub mod memory;
pub mod netns;
pub mod scheduler;
pub mod signal;
pub mod sockopt;
pub mod uring;
pub mod xsk;

use rustix::io::Errno;

/// Why the last call of the C library in this thread failed.
fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The result of a call that returns 0 or sets `errno`.
fn check(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}
