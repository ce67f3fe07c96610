//! Prefetching.

/// Prefetches the cache line at an address. A hint: any address is allowed.
#[inline]
pub(crate) fn line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no visible effect and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// As [`line()`], for a line that is about to be written: other cores lose their copies of it. Does
/// nothing on processors without the instruction.
#[inline]
pub(crate) fn line_to_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // The intrinsic compiles to a read prefetch unless the target is known to have this
    // instruction.
    // SAFETY: a prefetch has no visible effect and never faults.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
