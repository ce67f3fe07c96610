//! Synchronisation primitives from the standard library, or with `--cfg shuttle` from a model
//! checker that explores interleavings (`cargo xtask models`). All interleavings are sequentially
//! consistent, so missing fences are not detected.

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{Mutex, MutexGuard, atomic},
    thread, thread_local,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Mutex, MutexGuard, atomic},
    thread, thread_local,
};

use std::sync::PoisonError;

/// Locks a mutex whose data stays consistent even if its holder panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pauses between two attempts at a lock that is held for a few instructions. Every
/// [`SPINS`](crate::limits::SPINS) rounds it yields to other threads, because the kernel may have
/// preempted the holder.
pub(crate) fn pause(round: u32) {
    #[cfg(not(shuttle))]
    if round % crate::limits::SPINS < crate::limits::SPINS - 1 {
        std::hint::spin_loop();
    } else {
        rustix::thread::sched_yield();
    }
    #[cfg(shuttle)]
    {
        let _ = round;
        thread::yield_now();
    }
}

/// Prefetches two cache lines at `address`, which may be any address.
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = address.cast::<i8>();
        // SAFETY: the instruction is a hint that never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(64)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A point in time, in ticks of the CPU's counter where available, otherwise in nanoseconds.
/// Meaningful only in comparison with other ticks.
#[cfg(not(shuttle))]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 CPU has this instruction.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    crate::time::monotonic_ns()
}

/// The point in time in models, where time does not advance.
#[cfg(shuttle)]
pub(crate) fn ticks() -> u64 {
    1
}
