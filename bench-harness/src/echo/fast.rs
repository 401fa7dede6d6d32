//! What a tuned process does: it owns one CPU, never gives it up while a message may come, and asks nobody for memory.

use std::sync::atomic::AtomicBool;

use rustix::net::SocketFlags;

use super::{Discipline, Failure, Turn, read_frame, write_frame};
use crate::cpus;
use crate::frame::FRAME_BYTES;
use crate::wire::Wire;

/// The server that stays on one CPU.
#[derive(Clone, Copy, Debug)]
pub struct Fast {
    /// The CPU to run on.
    pub cpu: u64,
    /// Spin on the connection instead of sleeping on it.
    pub busy_poll: bool,
}

impl Discipline for Fast {
    const NAME: &'static str = "fastpath";

    /// Pins itself. The bound is what is online in the system and not the affinity mask, which pinning may widen;
    /// where the host does not say, and for a hole in its numbering, the kernel's refusal is the answer.
    fn settle(&self) -> Result<(), Failure> {
        if let Some(last) = cpus::online().and_then(|online| online.highest())
            && self.cpu > u64::from(last)
        {
            return Err(Failure::CpuOutOfRange { cpu: self.cpu, last });
        }
        cpus::pin(self.cpu).map_err(Failure::of(format!("sched_setaffinity({})", self.cpu)))
    }

    fn particulars(&self) -> String {
        format!(" pinned-cpu={} busy-poll={}", self.cpu, if self.busy_poll { "on" } else { "off" })
    }

    fn accept_flags(&self) -> SocketFlags {
        if self.busy_poll { SocketFlags::NONBLOCK } else { SocketFlags::empty() }
    }

    fn converse(&self, wire: &mut impl Wire, stop: &AtomicBool) {
        let mut frame = [0; FRAME_BYTES];
        loop {
            if read_frame(wire, &mut frame, stop) == Turn::Over || write_frame(wire, &frame, stop) == Turn::Over {
                return;
            }
        }
    }
}
