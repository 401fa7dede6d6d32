//! What quietcore-bench asks of the kernel.
//!
//! Sources: Documentation/admin-guide/sysctl/kernel.rst (`io_uring_disabled`), Documentation/admin-guide/sysctl/net.rst
//! (`bpf_jit_enable`).

use super::host::Look;
use super::{Fact, Host, Kind, Observation, Read, Value, kernel, parse_integer};
use crate::reading::Reading;

const IO_URING_DISABLED: &str = "proc/sys/kernel/io_uring_disabled";
const BPF_JIT_ENABLE: &str = "proc/sys/net/core/bpf_jit_enable";

/// `io_uring` is there from this version on.
const IO_URING_SINCE: (u32, u32) = (5, 1);
/// From this version on it can be switched off.
const IO_URING_DISABLED_SINCE: (u32, u32) = (6, 6);

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "kernel.io_uring_disabled",
        kind: Kind::Integer,
        files: &[IO_URING_DISABLED, kernel::OSRELEASE],
        about: "who may use io_uring: all (0), a group and CAP_SYS_ADMIN (1), nobody (2); 0 before Linux 6.6, which has no such switch",
        read: Read::One(io_uring_disabled),
    },
    Fact {
        name: "net.bpf_jit_enable",
        kind: Kind::Integer,
        files: &[BPF_JIT_ENABLE],
        about: "whether BPF programs are compiled (1, or 2 with a trace) or interpreted (0)",
        read: Read::One(bpf_jit_enable),
    },
];

fn io_uring_disabled(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = match look.read(IO_URING_DISABLED).parse(parse_integer) {
        Reading::NotExposed => match host.release().map(kernel::Release::version) {
            Some(version) if (IO_URING_SINCE..IO_URING_DISABLED_SINCE).contains(&version) => {
                let _ = look.read(kernel::OSRELEASE);
                look.note_pass("nothing switches io_uring off before Linux 6.6");
                Reading::Value(0)
            }
            Some(version) if version < IO_URING_SINCE => {
                look.note_unknown("io_uring is there from Linux 5.1 on");
                Reading::NotExposed
            }
            _ => Reading::NotExposed,
        },
        reading => reading,
    };
    look.answer(reading.map(Value::Integer))
}

fn bpf_jit_enable(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(BPF_JIT_ENABLE).parse(parse_integer);
    look.answer(reading.map(Value::Integer))
}
