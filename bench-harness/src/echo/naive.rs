//! What an untuned process does: it runs wherever the scheduler puts it, sleeps until a message wakes it, and asks the
//! allocator for a fresh buffer each time.

use std::sync::atomic::AtomicBool;

use rustix::net::SocketFlags;

use super::{Discipline, Failure, Turn, read_frame, write_frame};
use crate::frame::FRAME_BYTES;
use crate::wire::Wire;

/// The server with no discipline.
#[derive(Clone, Copy, Debug)]
pub struct Naive;

impl Discipline for Naive {
    const NAME: &'static str = "naive";

    /// Stays where it is: the affinity mask is left alone.
    fn settle(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn particulars(&self) -> String {
        String::new()
    }

    fn accept_flags(&self) -> SocketFlags {
        SocketFlags::empty()
    }

    fn converse(&self, wire: &mut impl Wire, stop: &AtomicBool) {
        loop {
            let mut frame = Box::new([0; FRAME_BYTES]);
            if read_frame(wire, &mut frame, stop) == Turn::Over || write_frame(wire, &frame, stop) == Turn::Over {
                return;
            }
        }
    }
}
