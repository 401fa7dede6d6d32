//! Fresh memory, and what the kernel counts while it is touched.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

/// A private anonymous mapping in pages of the base size, of which a growing part, from the front, may be accessed.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<c_void>,
    reserved: usize,
    opened: usize,
}

impl Mapping {
    /// Reserves `len` bytes of addresses, none of which may be accessed yet: huge pages can be ruled out only for what is
    /// mapped, and what is mapped and accessible is populated by then where the process is locked into memory.
    ///
    /// Fails with `EAGAIN` where the process is locked and may not lock that much.
    pub fn reserve(len: usize) -> Result<Mapping, Errno> {
        // SAFETY: no address is asked for, so that the kernel chooses one where nothing is mapped.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE) }?;
        let mapping = Mapping { start: NonNull::new(start).ok_or(Errno::NOMEM)?, reserved: len, opened: 0 };
        // SAFETY: the range is the mapping just made; the advice changes no contents.
        match unsafe { madvise(start, len, Advice::LinuxNoHugepage) } {
            // A kernel that was built without transparent huge pages does not know the advice, and needs none.
            Ok(()) | Err(Errno::INVAL) => Ok(mapping),
            Err(errno) => Err(errno),
        }
    }

    /// Makes the next `len` bytes accessible, or as many as there are left. The kernel populates them now where the
    /// process is locked into memory, and when they are touched elsewhere. `len` is a multiple of the page size, or
    /// the call fails with `EINVAL`.
    pub fn open(&mut self, len: usize) -> Result<(), Errno> {
        let len = len.min(self.reserved - self.opened);
        // SAFETY: `opened` is at most `reserved`, so that the sum stays within the mapping or at its end.
        let from = unsafe { self.start.as_ptr().byte_add(self.opened) };
        // SAFETY: the range lies within the mapping, is no part of any slice handed out, and only gains permissions.
        unsafe { mprotect(from, len, MprotectFlags::READ | MprotectFlags::WRITE) }?;
        self.opened += len;
        Ok(())
    }

    /// The first byte; as many bytes as are open may be accessed through it.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr().cast()
    }

    /// What may be accessed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the first `opened` bytes are mapped readable and writable, hold zeroes or what was written through here,
        // and belong to nobody else; the slice borrows the mapping, so that it is neither unmapped nor aliased meanwhile.
        unsafe { slice::from_raw_parts_mut(self.as_mut_ptr(), self.opened) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no slice of it outlives the value. It cannot fail for a range that
        // is mapped.
        let _ = unsafe { munmap(self.start.as_ptr(), self.reserved) };
    }
}

/// Page faults of the calling thread since its start, minor and major.
pub fn faults_of_thread() -> u64 {
    // SAFETY: `rusage` is a C struct of integers, for which zero is a valid value.
    let mut usage: libc::rusage = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: `usage` is writable and of the type that the call fills. It cannot fail for RUSAGE_THREAD and a valid pointer.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    u64::try_from(usage.ru_minflt + usage.ru_majflt).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_opens_from_the_front() {
        let page = rustix::param::page_size();
        let mut mapping = Mapping::reserve(3 * page).unwrap();
        assert!(mapping.as_mut_slice().is_empty());
        mapping.open(2 * page).unwrap();
        mapping.as_mut_slice()[page] = 7;
        mapping.open(usize::MAX / page * page).unwrap();
        let bytes = mapping.as_mut_slice();
        assert_eq!((bytes.len(), bytes[page], bytes[3 * page - 1]), (3 * page, 7, 0));
    }

    #[test]
    fn each_page_is_a_fault() {
        const PAGES: usize = 64;
        let page = rustix::param::page_size();
        let mut mapping = Mapping::reserve(PAGES * page).unwrap();
        mapping.open(PAGES * page).unwrap();
        let before = faults_of_thread();
        mapping.as_mut_slice().iter_mut().step_by(page).for_each(|byte| *byte = 1);
        assert!(faults_of_thread() - before >= PAGES as u64);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(Mapping::reserve(usize::MAX / 2).is_err());
        assert!(Mapping::reserve(0).is_err());
    }
}
