//! What this process may ask the kernel for. Each thing is asked for once, in the way a latency-critical process does, and
//! given back at once: nothing on the host is changed.

use std::thread;

use anyhow::anyhow;
use clap::ArgMatches;
use io_uring::IoUring;
use quietcore::units::Bytes;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde_json::json;

use super::{Experiment, Findings, Lab, Measurement, Roles, Row, Step};
use crate::latency;
use crate::locked::{self, Locked};
use crate::sys::memory::Mapping;
use crate::sys::scheduler::run_as_fifo;
use crate::sys::sockopt::set_busy_poll;
use crate::text::errno_name;

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "privileges",
    about: "Say what this process may ask the kernel for",
    options: |command| command,
    build: |_: &ArgMatches| Ok(Box::new(Privileges)),
};

/// The lowest one: a thread that may have it may have the policy, and for that moment it disturbs least.
const PRIORITY: i32 = 1;

/// The window that the measurement `receive` asks for, in microseconds.
const BUSY_POLL: u32 = 200;

/// What is locked where no plan says how much the process will lock: what `faults` maps.
const LOCKED: Bytes = Bytes(32 << 20);

struct Privileges;

/// Something to ask for.
struct Privilege {
    name: &'static str,
    /// What is asked for, and what grants it.
    tried: String,
    ask: fn(Bytes) -> Result<(), Errno>,
}

fn privileges(bytes: Bytes, is_planned: bool, limit: Bytes) -> Vec<Privilege> {
    let plan = if is_planned { "the plan's locked-memory" } else { "no plan says how much" };
    vec![
        Privilege {
            name: "SCHED_FIFO",
            tried: format!("sched_setscheduler, priority {PRIORITY}: CAP_SYS_NICE or RLIMIT_RTPRIO"),
            ask: |_| realtime(),
        },
        Privilege {
            name: "SO_BUSY_POLL",
            tried: format!("setsockopt, {BUSY_POLL} us: CAP_NET_ADMIN on some kernels"),
            ask: |_| set_busy_poll(socket_of(AddressFamily::INET, SocketType::DGRAM)?, BUSY_POLL),
        },
        Privilege {
            name: "mlockall",
            tried: format!("and {bytes} more, {plan}: CAP_IPC_LOCK or RLIMIT_MEMLOCK, which is {limit}"),
            ask: lock,
        },
        Privilege {
            name: "cpu_dma_latency",
            tried: format!("opening {} for writing: its owner", latency::DEVICE),
            // Nothing is written, and so nothing is requested.
            ask: |_| latency::open().map(drop).map_err(|error| errno_of(&error)),
        },
        Privilege {
            name: "io_uring",
            tried: "io_uring_setup: kernel.io_uring_disabled and seccomp permitting".to_owned(),
            ask: |_| IoUring::new(1).map(drop).map_err(|error| errno_of(&error)),
        },
        Privilege {
            name: "AF_XDP",
            tried: "a socket: CAP_NET_RAW".to_owned(),
            ask: |_| socket_of(AddressFamily::XDP, SocketType::RAW).map(drop),
        },
    ]
}

impl Experiment for Privileges {
    fn roles(&self) -> Roles {
        Roles::Each(&[])
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let bytes = lab.locked_memory.unwrap_or(LOCKED);
        let privileges = privileges(bytes, lab.locked_memory.is_some(), locked::limit());
        let of = u32::try_from(privileges.len())?;
        let mut findings = Findings::default();
        for (done, privilege) in (0..).zip(&privileges) {
            lab.go_on()?;
            (lab.progress)(Step { name: privilege.name, done, of });
            // A thread of its own: a policy that was granted ends with it.
            let answer = thread::scope(|scope| scope.spawn(|| (privilege.ask)(bytes)).join());
            let answer = answer.map_err(|_| anyhow!("{}: a thread panicked", privilege.name))?;
            findings.arms.push(row(privilege, answer));
        }
        Ok(findings)
    }
}

fn row(privilege: &Privilege, answer: Result<(), Errno>) -> Row {
    let result = answer.err().map_or("ok".to_owned(), errno_name);
    Row::figures(privilege.name, [("result", json!(result)), ("tried", json!(privilege.tried))])
}

fn realtime() -> Result<(), Errno> {
    run_as_fifo(PRIORITY)
}

fn socket_of(family: AddressFamily, kind: SocketType) -> Result<std::os::fd::OwnedFd, Errno> {
    socket_with(family, kind, SocketFlags::CLOEXEC, None)
}

/// Locks the process and maps that much more, as a process does that locks itself before it allocates. Locked on fault, and
/// the mapping is never touched: what is permitted is asked, not how much memory there is.
fn lock(bytes: Bytes) -> Result<(), Errno> {
    let len = usize::try_from(bytes.0).map_err(|_| Errno::NOMEM)?;
    let _locked = Locked::on_fault()?;
    Mapping::reserve(len.max(1)).map(drop)
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_ok_or_the_name_of_the_error() {
        let all = privileges(Bytes(1 << 30), true, Bytes(8 << 20));
        let text = |answer| serde_json::to_string(&row(&all[2], answer)).unwrap();
        let tried = "and 1 GiB more, the plan's locked-memory: CAP_IPC_LOCK or RLIMIT_MEMLOCK, which is 8 MiB";
        let expected =
            |result| format!(r#"{{"name":"mlockall","skipped":null,"result":"{result}","tried":"{tried}"}}"#);
        assert_eq!(text(Ok(())), expected("ok"));
        assert_eq!(text(Err(Errno::NOMEM)), expected("ENOMEM"));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = privileges(LOCKED, false, LOCKED).iter().map(|privilege| privilege.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 6);
    }
}
