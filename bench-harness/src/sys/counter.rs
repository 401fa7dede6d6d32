//! The CPU's own counter, read without a system call, and what the CPU says about it.

#[cfg(target_arch = "x86_64")]
mod arch {
    use core::arch::x86_64::{__cpuid, _rdtsc};

    /// The time-stamp counter. Not serialising: a reader that only compares it with itself needs no fence.
    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: `rdtsc` exists on every x86-64 CPU and writes registers only. Where the kernel forbids it to programs
        // (`PR_SET_TSC`), the instruction ends the process with SIGSEGV, which is loud and no undefined behaviour.
        unsafe { _rdtsc() }
    }

    /// Bit 8 of EDX of leaf 8000_0007: the counter runs at one rate in every power state.
    pub(super) fn why_not() -> Option<&'static str> {
        const LEAF: u32 = 0x8000_0007;
        if __cpuid(0x8000_0000).eax < LEAF || __cpuid(LEAF).edx & (1 << 8) == 0 {
            Some("the time-stamp counter is not invariant")
        } else {
            None
        }
    }

    pub(super) fn frequency() -> Option<u64> {
        None
    }

    pub(super) const NAME: &str = "tsc";
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use core::arch::asm;

    /// `CNTVCT_EL0`, after an `isb`: without it the read may be done ahead of what precedes it.
    #[inline]
    pub(super) fn read() -> u64 {
        let count;
        // SAFETY: reads one register; Linux lets programs do so (CNTKCTL_EL1.EL0VCTEN). Touches neither memory nor flags.
        unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
        count
    }

    pub(super) fn why_not() -> Option<&'static str> {
        None
    }

    /// `CNTFRQ_EL0`, in Hz, as the firmware has set it.
    pub(super) fn frequency() -> Option<u64> {
        let hertz: u64;
        // SAFETY: as above.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags)) };
        Some(hertz).filter(|&hertz| hertz > 0)
    }

    pub(super) const NAME: &str = "cntvct_el0";
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn why_not() -> Option<&'static str> {
        Some("no counter is known for this architecture")
    }

    pub(super) fn frequency() -> Option<u64> {
        None
    }

    pub(super) const NAME: &str = "none";
}

/// What the counter is called.
pub const NAME: &str = arch::NAME;

/// Reads the counter. Means something only where [`why_not`] gives no reason.
#[inline]
pub fn read() -> u64 {
    arch::read()
}

/// Why the CPU's counter is no clock here, as far as the CPU itself says.
pub fn why_not() -> Option<&'static str> {
    arch::why_not()
}

/// Its rate in Hz where the architecture tells it; elsewhere it has to be measured.
pub fn frequency() -> Option<u64> {
    arch::frequency()
}
