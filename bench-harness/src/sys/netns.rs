//! Network namespaces without a name: nothing outside of this process sees them or can be left with them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::thread;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// A network namespace of our own. It has no name, and no thread stays in it: it lives as long as this descriptor and
/// the sockets that were opened in it, none of which outlive the process, however that ends. Devices go with it.
#[derive(Debug)]
pub struct Namespace(OwnedFd);

impl Namespace {
    /// Makes one, with a loopback device that is down. Needs CAP_SYS_ADMIN.
    pub fn new() -> Result<Namespace, Errno> {
        on_a_thread(|| {
            // SAFETY: what makes `unshare` unsafe is a file table of its own, which is not asked for.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            rustix::fs::open("/proc/thread-self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        })
        .map(Namespace)
    }

    /// Does `work` in a thread that is in this namespace. What it opens stays in it, wherever it is used.
    pub fn run<T: Send, E: From<Errno> + Send>(&self, work: impl FnOnce() -> Result<T, E> + Send) -> Result<T, E> {
        on_a_thread(|| {
            move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Runs `work` on a thread that ends with it: a thread that changed its namespace is of no further use.
fn on_a_thread<T: Send, E: From<Errno> + Send>(work: impl FnOnce() -> Result<T, E> + Send) -> Result<T, E> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work);
        let thread = thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_namespace_is_another_one_and_leaves_this_thread_where_it_is() {
        let here = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let before = here();
        let namespace = match Namespace::new() {
            Ok(namespace) => namespace,
            Err(errno) => return println!("skipped: no network namespace: {errno}"),
        };
        let devices = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
        assert!(devices.contains("lo:"), "{devices}");
        let there = namespace.run(|| Ok::<_, io::Error>(here())).unwrap();
        assert_ne!(there, before);
        assert_eq!(here(), before);
    }
}
