//! Prefetch instructions. On other architectures than x86-64 these functions do nothing.

/// Prefetches the cache line at an address. Any address is allowed, even an invalid one.
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

/// Prefetches the cache line at an address for a write that follows soon. The line is fetched in an
/// exclusive state, so other cores lose their copies of it. Does nothing on processors without the
/// instruction.
#[inline]
pub(crate) fn line_to_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // Inline assembly is needed because the compiler's intrinsic becomes a prefetch for reading
    // unless the build target is declared to have `prefetchw`.
    // SAFETY: a prefetch has no visible effect and never faults.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
