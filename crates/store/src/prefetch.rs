//! Asking for memory ahead of time.

/// Asks for the cache line at an address. A hint: any address will do.
#[inline]
pub(crate) fn line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The same for a line that is about to be written: other processors give it up meanwhile. A
/// processor that cannot does nothing.
#[inline]
pub(crate) fn line_to_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // The intrinsic is compiled to a prefetch for reading unless the target is known to have this.
    // SAFETY: a prefetch changes nothing that can be seen and faults on no address.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
