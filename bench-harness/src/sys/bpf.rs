//! As much of bpf(2) as an XDP program needs that sends frames to an AF_XDP socket.
//!
//! The numbers and layouts are those of `linux/bpf.h`, which libc does not have.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use super::last_errno;

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;

const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;

/// What the program calls itself to the kernel's licence check. `bpf_redirect_map` is there for any licence.
const LICENSE: &CStr = c"MIT";

/// An instruction (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub code: u8,
    /// The destination in one half, the source in the other: [`Instruction::registers`].
    pub registers: u8,
    /// How far it jumps, or where in memory it reads.
    pub offset: i16,
    /// Its constant.
    pub immediate: i32,
}

impl Instruction {
    /// Both registers as the byte that this machine has them in: which half is which follows the byte order.
    pub const fn registers(destination: u8, source: u8) -> u8 {
        if cfg!(target_endian = "little") { source << 4 | destination } else { destination << 4 | source }
    }
}

/// A map from receive queues to AF_XDP sockets (`BPF_MAP_TYPE_XSKMAP`).
#[derive(Debug)]
pub struct SocketMap(OwnedFd);

impl SocketMap {
    /// An empty map for the queues below `queues`. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn new(queues: u32) -> Result<SocketMap, Errno> {
        #[repr(C)]
        struct Attributes {
            map_type: u32,
            key_size: u32,
            value_size: u32,
            max_entries: u32,
        }
        let attributes = Attributes { map_type: BPF_MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: queues };
        // SAFETY: `Attributes` is the start of the member of `union bpf_attr` for this command, without pointers; the
        // command returns a descriptor.
        unsafe { bpf_fd(BPF_MAP_CREATE, &attributes) }.map(SocketMap)
    }

    /// Puts `socket` at `queue`. The kernel takes it out when the socket is closed.
    pub fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        #[repr(C)]
        struct Attributes {
            map_fd: RawFd,
            padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let socket = socket.as_raw_fd();
        let attributes = Attributes {
            map_fd: self.0.as_raw_fd(),
            padding: 0,
            key: address(&raw const queue),
            value: address(&raw const socket),
            flags: 0,
        };
        // SAFETY: `Attributes` is the member of `union bpf_attr` for this command; key and value are of the sizes that
        // the map was made with, are only read, and outlive the call.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }
}

impl AsFd for SocketMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A program that the kernel verified. It holds on to the maps that it names.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Has an XDP program verified and loaded. Needs CAP_BPF and CAP_NET_ADMIN; `EACCES` or `EINVAL` is the verifier's no.
    pub fn load(instructions: &[Instruction]) -> Result<Program, Errno> {
        #[repr(C)]
        struct Attributes {
            prog_type: u32,
            insn_cnt: u32,
            insns: u64,
            license: u64,
        }
        let attributes = Attributes {
            prog_type: BPF_PROG_TYPE_XDP,
            insn_cnt: u32::try_from(instructions.len()).map_err(|_| Errno::TOOBIG)?,
            insns: address(instructions.as_ptr()),
            license: address(LICENSE.as_ptr()),
        };
        // SAFETY: `Attributes` is the start of the member of `union bpf_attr` for this command; `insns` points to
        // `insn_cnt` instructions in the kernel's layout and `license` to a C string, both only read, both outliving the
        // call; the command returns a descriptor.
        unsafe { bpf_fd(BPF_PROG_LOAD, &attributes) }.map(Program)
    }
}

/// Where in a device's receive path a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// In the network stack, on a packet that the kernel has already made of the frame (`XDP_FLAGS_SKB_MODE`): any device.
    Skb,
    /// In the driver (`XDP_FLAGS_DRV_MODE`).
    Driver,
}

/// A program at a device. Dropping this takes it off, and so does the end of the process, however it ends.
#[derive(Debug)]
pub struct Attachment {
    /// Never read: the kernel watches over its being open.
    _link: OwnedFd,
}

impl Attachment {
    /// Attaches `program` to the device `ifindex` of the calling thread's network namespace. Needs CAP_NET_ADMIN there and
    /// kernel 5.9.
    pub fn new(program: &Program, ifindex: u32, hook: Hook) -> Result<Attachment, Errno> {
        #[repr(C)]
        struct Attributes {
            prog_fd: RawFd,
            target_ifindex: u32,
            attach_type: u32,
            flags: u32,
        }
        let flags = match hook {
            Hook::Skb => 1 << 1,
            Hook::Driver => 1 << 2,
        };
        let attributes =
            Attributes { prog_fd: program.0.as_raw_fd(), target_ifindex: ifindex, attach_type: BPF_XDP, flags };
        // SAFETY: `Attributes` is the start of the member of `union bpf_attr` for this command, without pointers; the
        // command returns a descriptor.
        unsafe { bpf_fd(BPF_LINK_CREATE, &attributes) }.map(|link| Attachment { _link: link })
    }
}

/// A pointer as the kernel takes it, 64 bits on any machine.
fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

/// bpf(2), for the commands that return a descriptor.
///
/// # Safety
/// As for [`bpf`], and `command` must be such a command.
unsafe fn bpf_fd<T>(command: libc::c_int, attributes: &T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's promise is passed on.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just opened it (close-on-exec, as always with bpf) for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// bpf(2).
///
/// # Safety
/// `T` must be laid out as the first bytes of the member of `union bpf_attr` that `command` reads, without padding of its
/// own, and the pointers in it must be good for what the command does with them.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> Result<RawFd, Errno> {
    // SAFETY: the attributes are as many initialised bytes as their size says and outlive the call; the kernel takes what
    // lies beyond them as zero.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    // No command here returns more than a descriptor.
    RawFd::try_from(result).ok().filter(|&result| result >= 0).ok_or_else(last_errno)
}

#[cfg(test)]
impl Program {
    /// What the program says to do with `frame` (`BPF_PROG_TEST_RUN`): `XDP_PASS` is 2, `XDP_REDIRECT` is 4.
    pub(crate) fn verdict(&self, frame: &[u8]) -> Result<u32, Errno> {
        const BPF_PROG_TEST_RUN: libc::c_int = 10;
        #[repr(C)]
        struct Attributes {
            prog_fd: RawFd,
            retval: u32,
            data_size_in: u32,
            data_size_out: u32,
            data_in: u64,
            data_out: u64,
        }
        let mut attributes = Attributes {
            prog_fd: self.0.as_raw_fd(),
            retval: 0,
            data_size_in: u32::try_from(frame.len()).unwrap(),
            data_size_out: 0,
            data_in: address(frame.as_ptr()),
            data_out: 0,
        };
        let pointer = &raw mut attributes;
        // SAFETY: `Attributes` is the start of the member of `union bpf_attr` for this command, which the kernel may also
        // write to; `data_in` points to `data_size_in` bytes that are only read.
        let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, pointer, size_of::<Attributes>()) };
        if result == 0 { Ok(attributes.retval) } else { Err(last_errno()) }
    }
}
