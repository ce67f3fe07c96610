//! Synchronisation primitives. They come from the standard library or, with `--cfg shuttle`, from
//! the Shuttle model checker, which explores interleavings of threads (`cargo xtask models`).
//! Shuttle explores only sequentially consistent interleavings, so it detects neither a missing
//! fence nor a memory ordering that is too weak.

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

/// Locks a mutex, and ignores poisoning. Use this only for data that is consistent even after a
/// panic of a thread that held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pauses between two attempts to take a lock that threads hold for a few instructions only.
/// `round` is the number of the attempt. In one of every [`SPINS`](crate::limits::SPINS) rounds,
/// the thread yields to other kernel threads, because the kernel may have preempted the thread that
/// holds the lock.
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

/// Prefetches two cache lines at `address`, which need not be valid. Does nothing on CPUs other
/// than x86-64.
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = address.cast::<i8>();
        // SAFETY: the instruction is a hint that never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
        // SAFETY: the instruction is a hint that never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(64)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The present time in ticks. On x86-64 a tick is one count of the CPU's time-stamp counter, on
/// other CPUs a nanosecond. A time in ticks can only be compared with other times in ticks.
#[cfg(not(shuttle))]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 CPU has this instruction.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    crate::clock::monotonic_ns()
}

/// The time under the model checker, where it does not advance.
#[cfg(shuttle)]
pub(crate) fn ticks() -> u64 {
    1
}
