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

/// The same for a line that is about to be written: no other processor keeps it.
#[inline]
pub(crate) fn line_to_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: as above; a processor that does not know it does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
