//! A socket received from through io_uring(7), in one of three modes.
//!
//! The kernel writes into memory of this process whenever it pleases as long as a receive is outstanding. That memory is
//! owned here, handed out only for as long as the kernel has no business with it, and given back only when no receive is
//! outstanding any more.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd};
use std::slice;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::types::{BufRingEntry, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use rustix::param::page_size;

use super::memory::Mapping;
use crate::text::Refused;

/// How messages are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A receive for each message, submitted and waited for in one system call.
    Single,
    /// One receive for all messages, into buffers that were provided before; each message is waited for.
    Multishot,
    /// A receive for each message, submitted by a thread of the kernel on this CPU and looked for without a system call.
    SqPoll {
        /// Where the thread runs.
        cpu: u32,
    },
}

/// The longest message that arrives whole; of a longer one this much.
pub const MOST_BYTES: usize = MOST as usize;
const MOST: u32 = 128;

/// Provided buffers. A power of two: the ring's indices wrap.
const BUFFERS: u16 = 64;

/// The group of the provided buffers; there is one.
const GROUP: u16 = 0;

/// Submissions that the ring holds: a receive and its cancellation.
const ENTRIES: u32 = 4;

/// How long the kernel's thread goes on polling when nothing is submitted, in milliseconds.
const IDLE_MS: u32 = 2_000;

/// What a completion is of.
const RECEIVE: u64 = 1;
const CANCEL: u64 = 2;

/// How often, and how long each time, a cancelled receive is waited for.
const CANCEL_LOOKS: u32 = 10;
const CANCEL_PATIENCE: Duration = Duration::from_millis(100);

/// A ring that receives from one socket.
pub struct Receiver<S: AsFd> {
    ring: IoUring,
    socket: S,
    mode: Mode,
    /// The ring of provided buffers on the first pages, the buffers behind it.
    memory: ManuallyDrop<Mapping>,
    /// Where the buffers begin.
    buffers: usize,
    /// Buffers provided so far, modulo 2^16.
    tail: u16,
    /// A receive is outstanding.
    is_armed: bool,
}

impl<S: AsFd> Receiver<S> {
    /// Sets up a ring for `socket`, which must be one that blocks: else a receive that finds nothing ends at once. What the kernel cannot do, or does not permit, it says here or at the first receive.
    pub fn new(socket: S, mode: Mode) -> Result<Receiver<S>, Refused> {
        let mut builder = IoUring::builder();
        if let Mode::SqPoll { cpu } = mode {
            builder.setup_sqpoll(IDLE_MS).setup_sqpoll_cpu(cpu);
        }
        let ring =
            builder.build(ENTRIES).map_err(|error| Refused { what: "set up an io_uring", errno: errno(&error) })?;
        let lacks = |what| Err(Refused { what, errno: Errno::NOSYS });
        if !ring.params().is_feature_ext_arg() {
            return lacks("wait for a message with a timeout");
        }
        if mode != Mode::Single && mode != Mode::Multishot && !ring.params().is_feature_sqpoll_nonfixed() {
            return lacks("submit for a file that is not registered");
        }
        let buffers = (usize::from(BUFFERS) * size_of::<BufRingEntry>()).next_multiple_of(page_size());
        let len = (buffers + usize::from(BUFFERS) * MOST_BYTES).next_multiple_of(page_size());
        let map = || {
            let mut memory = Mapping::reserve(len)?;
            memory.open(len)?;
            Ok(memory)
        };
        let memory = ManuallyDrop::new(map().map_err(Refused::to("map buffers"))?);
        let mut receiver = Receiver { ring, socket, mode, memory, buffers, tail: 0, is_armed: false };
        if mode == Mode::Multishot {
            receiver.provide_all().map_err(Refused::to("register provided buffers"))?;
        }
        Ok(receiver)
    }

    /// Waits for a message, not longer than `patience`, and looks at it; in the mode without system calls it does not wait.
    pub fn receive<T>(&mut self, patience: Duration, look: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, Errno> {
        if let Some(done) = self.done() {
            return self.take(&done, look);
        }
        if !self.is_armed {
            self.arm()?;
            if matches!(self.mode, Mode::SqPoll { .. }) {
                // Wakes the kernel's thread where it has gone to sleep, and is no system call elsewhere.
                self.ring.submit().map_err(|error| errno(&error))?;
            }
        }
        if !matches!(self.mode, Mode::SqPoll { .. }) {
            self.wait(patience)?;
        }
        match self.done() {
            Some(done) => self.take(&done, look),
            None => Ok(None),
        }
    }

    /// The next completion, if there is one.
    fn done(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// Submits what there is, and waits for a completion.
    fn wait(&self, patience: Duration) -> Result<(), Errno> {
        let patience = Timespec::from(patience);
        match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&patience)) {
            Ok(_) => Ok(()),
            Err(error) => match errno(&error) {
                // The time is over, or a signal came: the caller looks around.
                Errno::TIME | Errno::INTR => Ok(()),
                other => Err(other),
            },
        }
    }

    fn arm(&mut self) -> Result<(), Errno> {
        let socket = Fd(self.socket.as_fd().as_raw_fd());
        let entry = match self.mode {
            Mode::Multishot => opcode::RecvMulti::new(socket, GROUP).build(),
            Mode::Single | Mode::SqPoll { .. } => opcode::Recv::new(socket, self.buffer(0), MOST).build(),
        };
        // SAFETY: the socket is owned by this value, and so is the memory that the kernel will write to: buffer 0, or those
        // provided in the ring. It is not read before a completion says that a buffer was filled, and not unmapped as
        // long as `is_armed`.
        unsafe { self.push(&entry.user_data(RECEIVE)) }?;
        self.is_armed = true;
        Ok(())
    }

    /// # Safety
    /// Whatever the entry points to must stay valid until its completion.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> Result<(), Errno> {
        // SAFETY: the caller's promise. A full queue cannot be: one receive and one cancellation are outstanding at most.
        unsafe { self.ring.submission().push(entry) }.map_err(|_| Errno::BUSY)
    }

    /// Looks at what a completion brought.
    fn take<T>(&mut self, done: &cqueue::Entry, look: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, Errno> {
        if done.user_data() != RECEIVE {
            return Ok(None);
        }
        if !cqueue::more(done.flags()) {
            self.is_armed = false;
        }
        let count = match usize::try_from(done.result()) {
            Ok(count) => count.min(MOST_BYTES),
            Err(_) => match Errno::from_raw_os_error(-done.result()) {
                // A receive of many messages ends when there is no buffer left; there is one again by now.
                Errno::NOBUFS | Errno::INTR | Errno::AGAIN => return Ok(None),
                other => return Err(other),
            },
        };
        let number = match self.mode {
            Mode::Multishot => cqueue::buffer_select(done.flags()).filter(|&n| n < BUFFERS).ok_or(Errno::IO)?,
            Mode::Single | Mode::SqPoll { .. } => 0,
        };
        // SAFETY: buffer `number` is mapped, has MOST_BYTES initialised bytes, and the kernel has done with it: the only
        // receive into it is complete, or the provided buffer was taken from the ring and is not provided again yet.
        let message = unsafe { slice::from_raw_parts(self.buffer(number), count) };
        let seen = look(message);
        if self.mode == Mode::Multishot {
            self.provide(number);
        }
        Ok(Some(seen))
    }

    /// The start of buffer `number`, which must be one of the [`BUFFERS`].
    fn buffer(&mut self, number: u16) -> *mut u8 {
        let offset = self.buffers + usize::from(number) * MOST_BYTES;
        // SAFETY: the mapping is as long as ring and buffers together, and open to its end.
        unsafe { self.memory.as_mut_ptr().add(offset) }
    }

    fn provide_all(&mut self) -> Result<(), Errno> {
        let address = self.memory.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: the address is that of a page with room for so many entries, all zero. It stays mapped as long as the
        // ring exists: this value drops the ring first, or leaks the memory.
        unsafe { self.ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0) }
            .map_err(|error| errno(&error))?;
        (0..BUFFERS).for_each(|number| self.provide(number));
        Ok(())
    }

    /// Gives buffer `number` to the kernel, which must not have it.
    fn provide(&mut self, number: u16) {
        let buffer = self.buffer(number).expose_provenance() as u64;
        let first: *mut BufRingEntry = self.memory.as_mut_ptr().cast();
        // SAFETY: the index is below BUFFERS, for which the first pages of the mapping have room; the mapping is aligned to
        // a page and its bytes are an entry whatever they are. The kernel reads an entry only after the tail has passed
        // it, and this one is at the tail.
        let entry = unsafe { &mut *first.add(usize::from(self.tail % BUFFERS)) };
        entry.set_addr(buffer);
        entry.set_len(MOST);
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `first` is the ring's base. The tail lies in an unused field of the first entry, aligned for a u16, is
        // never written by the kernel, and is shared with it as an atomic from here on.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(first).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// Ends the outstanding receive and waits for the kernel's word that it has ended.
    fn disarm(&mut self) -> Result<(), Errno> {
        // SAFETY: a cancellation points to nothing.
        unsafe { self.push(&opcode::AsyncCancel::new(RECEIVE).build().user_data(CANCEL)) }?;
        for _ in 0..CANCEL_LOOKS {
            self.wait(CANCEL_PATIENCE)?;
            while let Some(done) = self.done() {
                if done.user_data() == RECEIVE && !cqueue::more(done.flags()) {
                    self.is_armed = false;
                }
            }
            if !self.is_armed {
                return Ok(());
            }
        }
        Err(Errno::TIMEDOUT)
    }
}

impl<S: AsFd> Drop for Receiver<S> {
    fn drop(&mut self) {
        if !self.is_armed || self.disarm().is_ok() {
            // SAFETY: dropped once, here, and not used afterwards. Nothing is outstanding that would write to it; the pages of
            // the registered ring are held by the kernel itself.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
        // Else the memory is the kernel's until this process ends: some pages are a small price.
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn modes() -> [Mode; 3] {
        let cpu = crate::witness::allowed_cpus(std::process::id()).unwrap().highest().unwrap();
        [Mode::Single, Mode::Multishot, Mode::SqPoll { cpu }]
    }

    /// A ring and who sends to it; `None` where the host has none, which is said.
    fn ring(mode: Mode) -> Option<(UdpSocket, Receiver<UdpSocket>)> {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        match Receiver::new(receiver, mode) {
            Ok(ring) => Some((sender, ring)),
            Err(refused) => {
                println!("skipped: {mode:?}: {refused}");
                None
            }
        }
    }

    /// The next message; `None` where this mode is not known to the kernel, which is said.
    fn next(ring: &mut Receiver<UdpSocket>) -> Option<Vec<u8>> {
        let deadline = std::time::Instant::now() + LONG;
        while std::time::Instant::now() < deadline {
            match ring.receive(LONG, <[u8]>::to_vec) {
                Ok(Some(message)) => return Some(message),
                Ok(None) => std::thread::yield_now(),
                Err(errno) => {
                    println!("skipped: {:?}: {errno}", ring.mode);
                    return None;
                }
            }
        }
        panic!("no message came by {:?}", ring.mode);
    }

    #[test]
    fn messages_arrive_in_their_order_and_buffers_go_round() {
        for mode in modes() {
            let Some((sender, mut ring)) = ring(mode) else { continue };
            for round in 0..5_u8 {
                (0..50).for_each(|number| assert_eq!(sender.send(&[round, number, 7]).unwrap(), 3));
                for number in 0..50 {
                    match next(&mut ring) {
                        Some(message) => assert_eq!(message, [round, number, 7], "{mode:?}"),
                        None => return,
                    }
                }
            }
        }
    }

    #[test]
    fn more_messages_than_buffers() {
        let Some((sender, mut ring)) = ring(Mode::Multishot) else { return };
        // Armed first, so that the kernel fills buffers behind our back until none is left.
        let Ok(None) = ring.receive(Duration::ZERO, |_| ()) else { return };
        (0..100).for_each(|number: u8| assert_eq!(sender.send(&[number]).unwrap(), 1));
        for number in 0..100 {
            assert_eq!(next(&mut ring), Some(vec![number]));
        }
    }

    #[test]
    fn a_long_message_is_cut() {
        for mode in modes() {
            let Some((sender, mut ring)) = ring(mode) else { continue };
            sender.send(&[1; 4 * MOST_BYTES]).unwrap();
            sender.send(&[2; 3]).unwrap();
            let Some(message) = next(&mut ring) else { continue };
            assert_eq!(message, [1; MOST_BYTES], "{mode:?}");
            assert_eq!(next(&mut ring), Some(vec![2; 3]), "{mode:?}");
        }
    }

    #[test]
    fn nothing_comes_and_what_is_outstanding_is_called_back() {
        for mode in modes() {
            let Some((sender, mut ring)) = ring(mode) else { continue };
            let Ok(None) = ring.receive(Duration::from_millis(1), |_| ()) else { continue };
            assert!(ring.is_armed);
            ring.disarm().unwrap();
            assert!(!ring.is_armed);
            // And once more, which the drop calls back.
            assert_eq!(ring.receive(Duration::from_millis(1), |_| ()), Ok(None));
            sender.send(&[1]).unwrap();
        }
    }

    #[test]
    fn what_is_no_socket_is_an_error() {
        let (pipe, _writer) = io::pipe().unwrap();
        match Receiver::new(pipe, Mode::Single) {
            Ok(mut ring) => assert_eq!(ring.receive(LONG, |_| ()), Err(Errno::NOTSOCK)),
            Err(refused) => println!("skipped: {refused}"),
        }
    }
}
