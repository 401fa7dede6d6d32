//! An exec that leaves a program what the caller had set, whatever Rust's runtime has made of it since.
//!
//! Before `main` the runtime ignores SIGPIPE and opens `/dev/null` where standard input, output or error is closed. An exec
//! by std then gives SIGPIPE its default action and leaves those descriptors open, so that a unit with `IgnoreSIGPIPE=yes`,
//! which is systemd's default, would start another program behind a gate than without one. What the caller had can only be
//! looked at before the runtime does all that: by a function in `.init_array`, which the C library (glibc and musl, linked
//! dynamically or statically) runs before it calls `main`. Everything else that survives an exec, the signal mask among it,
//! is the caller's as long as nothing here changes it.
//!
//! # Safety
//! This package exists to hold what the gate needs of `unsafe`, and quietcore itself has none. Three rules hold. Each block
//! says which system interface it calls and why the call's conditions are met. What runs before `main` makes two kinds of
//! system calls and stores a number; it allocates nothing and touches nothing of std that its runtime sets up. And nothing
//! unsafe is exported: [`exec`] cannot be misused from safe code.
#![expect(unsafe_code, reason = "this package exists to hold it")]

use std::ffi::{CString, OsStr};
use std::io;
use std::iter;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use libc::{F_GETFD, F_SETFD, FD_CLOEXEC, SIG_DFL, SIG_IGN, SIGPIPE, c_int};

/// Standard input, output and error.
const STANDARD: [c_int; 3] = [0, 1, 2];

/// A bit of [`INHERITED`]: the caller ignored SIGPIPE.
const IGNORES_PIPE: u8 = 1 << 3;

/// What the caller had set, as far as the runtime changes it: a bit for each standard descriptor that was closed, and
/// [`IGNORES_PIPE`]. Without any bits an exec does what std's does.
static INHERITED: AtomicU8 = AtomicU8::new(0);

// SAFETY: the section is an array of addresses of C functions. The C library calls each once on the only thread there is,
// musl without arguments and glibc with those of `main`, which a function that declares none does not see in any calling
// convention of C on Linux.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

/// Looks at what the caller had set.
extern "C" fn look() {
    let mut inherited = 0;
    for fd in STANDARD {
        // SAFETY: F_GETFD takes no argument and only reads; a descriptor that is not open gives an error.
        if unsafe { libc::fcntl(fd, F_GETFD) } == -1 {
            inherited |= 1 << fd;
        }
    }
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action nothing is changed, and `action` has room for the one that is asked for.
    let is_known = unsafe { libc::sigaction(SIGPIPE, ptr::null(), action.as_mut_ptr()) } == 0;
    // SAFETY: the call has succeeded, and so it has filled `action` in.
    if is_known && unsafe { action.assume_init() }.sa_sigaction == SIG_IGN {
        inherited |= IGNORES_PIPE;
    }
    INHERITED.store(inherited, Ordering::Relaxed);
}

/// Becomes the program in the file at `path`, with these arguments (the first is by custom its name) and this process's
/// environment. SIGPIPE, the signal mask and the standard descriptors are as the caller of this process had them; other
/// descriptors survive unless they are to be closed at an exec, as all are that Rust opens.
///
/// Nothing is searched for, and a file that is no program is not handed to a shell. Returns only when the program cannot be
/// run, with the operating system's answer; the process then goes on as it was.
pub fn exec<S: AsRef<OsStr>>(path: &Path, arguments: impl IntoIterator<Item = S>) -> io::Error {
    let c_string = |text: &OsStr| CString::new(text.as_bytes());
    let (path, arguments) = match (
        c_string(path.as_os_str()),
        arguments.into_iter().map(|argument| c_string(argument.as_ref())).collect::<Result<Vec<_>, _>>(),
    ) {
        (Ok(path), Ok(arguments)) => (path, arguments),
        (Err(error), _) | (_, Err(error)) => return error.into(),
    };
    let argv: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).chain(iter::once(ptr::null())).collect();
    let inherited = INHERITED.load(Ordering::Relaxed);
    // They are closed by the exec and not before it: an error still has to be told.
    for fd in STANDARD.into_iter().filter(|fd| inherited & (1 << fd) != 0) {
        // SAFETY: F_SETFD takes an int of flags; a descriptor that is not open gives an error, and then there is nothing to close.
        unsafe { libc::fcntl(fd, F_SETFD, FD_CLOEXEC) };
    }
    let action = if inherited & IGNORES_PIPE == 0 { SIG_DFL } else { SIG_IGN };
    // SAFETY: neither action is a function, so that nothing can run in a handler; SIGPIPE is a signal that may be set.
    let before = unsafe { libc::signal(SIGPIPE, action) };
    // SAFETY: `path` and what `argv` points to are C strings, `argv` ends in a null pointer, and all of them live until the
    // call returns, if it does. It reads the environment; who changes that by std's `set_var` has promised, for it is unsafe,
    // that no other thread reads it.
    unsafe { libc::execv(path.as_ptr(), argv.as_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: as above; the action that is put back is one that this process had.
    unsafe { libc::signal(SIGPIPE, before) };
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_cannot_be_run_changes_nothing() {
        let status = || std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let signals = |status: &str| -> Vec<String> {
            status.lines().filter(|line| line.starts_with("Sig")).map(str::to_owned).collect()
        };
        let before = signals(&status());
        let error = exec(Path::new("/no/such/program"), ["program"]);
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        assert_eq!(signals(&status()), before);
        assert_eq!(exec(Path::new("/"), ["/"]).raw_os_error(), Some(libc::EACCES));
        assert_eq!(exec(Path::new("/bin/true"), ["a\0b"]).kind(), io::ErrorKind::InvalidInput);
    }
}
