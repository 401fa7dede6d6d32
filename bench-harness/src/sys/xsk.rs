//! AF_XDP sockets that receive, in copy mode: the memory that frames land in, and the two rings that carry it to and fro.
//!
//! The kernel takes an empty chunk of that memory from the fill ring, copies a frame into it and puts it on the receive
//! ring; whoever has read the frame puts the chunk back on the fill ring. Each ring has one producer and one consumer,
//! each with an index that only it writes.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpRingFlags,
    XdpRingOffset, XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

/// Frames that may wait to be read, and chunks for them: the rings' size, a power of two. At a packet each 500 µs a
/// receiver may be away for a quarter of a second.
const CHUNKS: u32 = 512;

/// A chunk holds a frame. The kernel takes no smaller ones, and no frame of an Ethernet MTU is larger.
const CHUNK_BYTES: u32 = 2048;

const UMEM_BYTES: usize = CHUNKS as usize * CHUNK_BYTES as usize;

/// An AF_XDP socket that receives from one queue of a device.
#[derive(Debug)]
pub struct Xsk {
    received: Ring<XdpDesc>,
    fill: Ring<u64>,
    umem: Mapping,
    socket: OwnedFd,
}

impl Xsk {
    /// Binds to `queue` of the device `ifindex` in the calling thread's network namespace. Needs CAP_NET_RAW.
    ///
    /// `EBUSY`: another socket is bound there, or was until some milliseconds ago.
    pub fn bind(ifindex: u32, queue: u32) -> Result<Xsk, Errno> {
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let umem = Mapping::anonymous(UMEM_BYTES)?;
        sockopt::set_xdp_umem_reg(
            &socket,
            XdpUmemReg {
                addr: umem.start.as_ptr().expose_provenance() as u64,
                len: UMEM_BYTES as u64,
                chunk_size: CHUNK_BYTES,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            },
        )?;
        sockopt::set_xdp_umem_fill_ring_size(&socket, CHUNKS)?;
        // Nothing is sent, but without this ring there is no binding.
        sockopt::set_xdp_umem_completion_ring_size(&socket, 1)?;
        sockopt::set_xdp_rx_ring_size(&socket, CHUNKS)?;
        let offsets = sockopt::xdp_mmap_offsets(&socket)?;
        let received = Ring::map(&socket, XDP_PGOFF_RX_RING, offsets.rx)?;
        let mut fill = Ring::map(&socket, XDP_UMEM_PGOFF_FILL_RING, offsets.fr)?;
        (0..CHUNKS).for_each(|chunk| fill.push(u64::from(chunk * CHUNK_BYTES)));
        let flags = SocketAddrXdpFlags::XDP_COPY | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        bind(&socket, &SocketAddrXdp::new(flags, ifindex, queue))?;
        Ok(Xsk { received, fill, umem, socket })
    }

    /// Hands the frame that has waited longest to `read`, and its memory back to the kernel afterwards. `None` where no
    /// frame waits. No system call.
    #[inline]
    pub fn receive<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let descriptor = self.received.pop()?;
        let result = read(self.frame(descriptor));
        // The address is that of the frame, which may begin anywhere in its chunk.
        self.fill.push(descriptor.addr & !u64::from(CHUNK_BYTES - 1));
        if self.fill.needs_wakeup() {
            self.wake_up();
        }
        Some(result)
    }

    /// What the kernel counted at this socket since it was bound.
    pub fn statistics(&self) -> Result<XdpStatistics, Errno> {
        sockopt::xdp_statistics(&self.socket)
    }

    /// The bytes of a received frame; none where the descriptor points out of the memory, which no kernel's does.
    fn frame(&self, descriptor: XdpDesc) -> &[u8] {
        let within = |start: usize, len: usize| start.checked_add(len).is_some_and(|end| end <= UMEM_BYTES);
        match (usize::try_from(descriptor.addr), usize::try_from(descriptor.len)) {
            (Ok(start), Ok(len)) if within(start, len) => {
                // SAFETY: the range lies within the mapping, which is initialised (zeroed by the kernel) and lives as long
                // as `self`. The kernel writes to chunks that it took from the fill ring only, and this one is put there
                // after the slice is gone: `receive` holds `self` exclusively and `read` cannot keep it.
                unsafe { std::slice::from_raw_parts(self.umem.start.as_ptr().cast::<u8>().add(start), len) }
            }
            _ => &[],
        }
    }

    /// Tells a kernel that ran out of chunks that there are some again. Drivers that copy nothing ask for this; in copy
    /// mode the kernel looks by itself.
    #[cold]
    fn wake_up(&self) {
        // The result does not matter: whether a frame has come is seen at the ring.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&Timespec::default()));
    }
}

impl AsFd for Xsk {
    /// The socket, to be polled: readable when a frame waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// One of the two rings, of `CHUNKS` entries.
#[derive(Debug)]
struct Ring<T> {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    flags: Option<usize>,
    entries: usize,
    /// The index that is ours to write: it runs freely, and its low bits are the place in the ring.
    next: u32,
    kind: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn map(socket: &OwnedFd, page_offset: u64, offsets: XdpRingOffset) -> Result<Ring<T>, Errno> {
        let [producer, consumer, entries] = [offsets.producer, offsets.consumer, offsets.desc].map(usize::try_from);
        let flags = offsets.flags.map(usize::try_from).transpose();
        let (Ok(producer), Ok(consumer), Ok(entries), Ok(flags)) = (producer, consumer, entries, flags) else {
            return Err(Errno::OVERFLOW);
        };
        let bytes = CHUNKS as usize * size_of::<T>();
        let memory = Mapping::of_ring(socket, page_offset, entries.checked_add(bytes).ok_or(Errno::OVERFLOW)?)?;
        // What the accessors below rely on.
        let fits =
            |offset: usize| offset.is_multiple_of(align_of::<AtomicU32>()) && offset < entries && entries - offset >= 4;
        if !(fits(producer) && fits(consumer) && flags.is_none_or(fits) && entries.is_multiple_of(align_of::<T>())) {
            return Err(Errno::OVERFLOW);
        }
        Ok(Ring { memory, producer, consumer, flags, entries, next: 0, kind: PhantomData })
    }

    /// One of the words before the entries.
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `map` saw that the offset is aligned and that the word lies within the mapping, which lives as long as
        // `self`. The other side of the word is the kernel, which accesses it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.start.as_ptr().byte_add(offset).cast()) }
    }

    /// Where entry number `index` lies.
    fn entry(&self, index: u32) -> *mut T {
        let place = (index & (CHUNKS - 1)) as usize;
        // SAFETY: the mapping has room for `CHUNKS` entries after the offset, and the place is below that.
        unsafe { self.memory.start.as_ptr().byte_add(self.entries).cast::<T>().add(place) }
    }

    fn needs_wakeup(&self) -> bool {
        self.flags.is_some_and(|flags| {
            self.word(flags).load(Ordering::Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
        })
    }
}

impl Ring<XdpDesc> {
    /// Takes the next entry that the kernel produced.
    #[inline]
    fn pop(&mut self) -> Option<XdpDesc> {
        // Acquires the entry, and the frame that it describes.
        if self.word(self.producer).load(Ordering::Acquire) == self.next {
            return None;
        }
        // SAFETY: the pointer is good for a read (`entry`), aligned (`map`), and the kernel does not write to this entry
        // between its producing and our consuming it. Any bits are a descriptor.
        let descriptor = unsafe { ptr::read_volatile(self.entry(self.next)) };
        self.next = self.next.wrapping_add(1);
        self.word(self.consumer).store(self.next, Ordering::Release);
        Some(descriptor)
    }
}

impl Ring<u64> {
    /// Gives the kernel a chunk. There is room: the ring has an entry for each chunk, and each comes back once.
    #[inline]
    fn push(&mut self, chunk: u64) {
        // SAFETY: the pointer is good for a write (`entry`) and aligned (`map`); the kernel does not read this entry
        // before it is produced.
        unsafe { ptr::write_volatile(self.entry(self.next), chunk) };
        self.next = self.next.wrapping_add(1);
        // Releases the entry, and our reads of the frame that was in the chunk.
        self.word(self.producer).store(self.next, Ordering::Release);
    }
}

/// Pages that are ours until this is dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the pages belong to the process, not to a thread, and are reached through this value only.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Zeroed pages, all of them there already.
    fn anonymous(bytes: usize) -> Result<Mapping, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping at a place of the kernel's choosing takes nothing away from anybody.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        Mapping::new(start, bytes)
    }

    /// A ring of `socket`.
    fn of_ring(socket: &OwnedFd, offset: u64, bytes: usize) -> Result<Mapping, Errno> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: as above.
        let start = unsafe { mmap(ptr::null_mut(), bytes, access, flags, socket, offset) }?;
        Mapping::new(start, bytes)
    }

    fn new(start: *mut c_void, bytes: usize) -> Result<Mapping, Errno> {
        // Only a mapping that was asked for at 0 may be there.
        Ok(Mapping { start: NonNull::new(start).ok_or(Errno::NOMEM)?, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the pages were mapped by `Mapping` with this size, and whatever borrowed them has ended. The kernel does
        // not write to frames through this mapping but has the pages pinned, until the socket is closed.
        let unmapped = unsafe { munmap(self.start.as_ptr(), self.bytes) };
        debug_assert_eq!(unmapped, Ok(()), "a whole mapping");
    }
}
