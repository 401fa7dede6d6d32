//! What the echo loops cost in calls and in memory, counted and not timed. A program of its own, since the allocator is
//! the whole program's; the only `unsafe` outside `src/sys`, which no allocator can do without.
#![cfg(test)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use quietcore_bench::clock::Monotonic;
use quietcore_bench::echo::Discipline;
use quietcore_bench::echo::fast::Fast;
use quietcore_bench::echo::naive::Naive;
use quietcore_bench::experiment::rounds::Trial;
use quietcore_bench::frame::{FRAME_BYTES, Frame};
use quietcore_bench::measure::round_trip;
use quietcore_bench::samples::Samples;
use quietcore_bench::wire::{Socket, Wire, wait_readable};
use rustix::io::Errno;

/// Counts the allocations of each thread, and leaves them to the system's allocator.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn allocations() -> u64 {
    ALLOCATIONS.get()
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract; counting touches a
// thread-local without a destructor and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `alloc` above, hence from the system's allocator, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const MESSAGES: u64 = 2_000;

/// Calls that moved bytes, and allocations, over a whole conversation.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cost {
    receives: u64,
    sends: u64,
    allocations: u64,
}

/// A socket that counts the calls that moved something.
struct Counted {
    socket: Socket,
    cost: Cost,
}

impl Wire for Counted {
    fn recv(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let count = self.socket.recv(buffer)?;
        self.cost.receives += u64::from(count > 0);
        Ok(count)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let count = self.socket.send(bytes)?;
        self.cost.sends += 1;
        Ok(count)
    }
}

/// What the client does.
fn trips(wire: &mut impl Wire, warmup: u64, n: u64, samples: &mut Samples) {
    let stop = AtomicBool::new(false);
    let trial = Trial { warmup, n, time: None, stop: &stop };
    trial.run(&Monotonic, samples, |i| round_trip(wire, &Monotonic, i)).unwrap();
}

/// Serves one real client with `discipline` in this thread, the accept included, and counts.
fn cost<D: Discipline>(discipline: &D) -> Cost {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let listener = OwnedFd::from(listener);
    let client = thread::spawn(move || {
        let mut wire = Socket::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
        let mut samples = Samples::with_capacity(usize::try_from(MESSAGES).unwrap()).unwrap();
        let before = allocations();
        trips(&mut wire, 0, MESSAGES, &mut samples);
        assert_eq!(allocations(), before, "the client's loop allocates");
    });
    assert!(wait_readable(&listener, Duration::from_secs(30)).unwrap());
    let before = allocations();
    let socket = Socket::accept(&listener, discipline.accept_flags()).unwrap();
    socket.set_nodelay(true).unwrap();
    let mut wire = Counted { socket, cost: Cost::default() };
    discipline.converse(&mut wire, &AtomicBool::new(false));
    let allocations = allocations() - before;
    client.join().unwrap();
    Cost { allocations, ..wire.cost }
}

#[test]
fn the_fast_loops_allocate_nothing_and_make_two_calls_a_message() {
    for busy_poll in [false, true] {
        let cost = cost(&Fast { cpu: 0, busy_poll });
        assert_eq!(cost, Cost { receives: MESSAGES, sends: MESSAGES, allocations: 0 }, "busy poll: {busy_poll}");
    }
}

#[test]
fn the_naive_loop_allocates_once_a_message() {
    // And once for the message that never came.
    let allocations = MESSAGES + 1;
    assert_eq!(cost(&Naive), Cost { receives: MESSAGES, sends: MESSAGES, allocations });
}

/// A peer in memory: what is sent comes back.
struct Mirror(Frame);

impl Wire for Mirror {
    fn recv(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        buffer.copy_from_slice(&self.0);
        Ok(buffer.len())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        self.0.copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

#[test]
fn the_client_allocates_nothing_within_its_capacity() {
    let mut samples = Samples::with_capacity(100).unwrap();
    let before = allocations();
    trips(&mut Mirror([0; FRAME_BYTES]), 10, 100, &mut samples);
    assert_eq!(allocations(), before);
    assert_eq!(samples.as_slice().len(), 100);
}
