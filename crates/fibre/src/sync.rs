//! What processors share, from the standard library; or, compiled with `--cfg shuttle`, from a
//! scheduler that tries the orders in which they may come (`cargo xtask models`): sequentially
//! consistent ones, in which no fence is missed.

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

/// Locks what is only changed in ways that cannot panic half way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits a moment for a lock that is held for a few instructions; in the `round`-th round, lets
/// other threads of this processor run, of which one may hold it.
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

/// Asks for two lines of memory at `address`, which may be anything.
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = address.cast::<i8>();
        // SAFETY: a hint: nothing is read, and no address faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(64)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A point in time, in the processor's own ticks where it has them, else in nanoseconds: only to
/// be compared with others.
#[cfg(not(shuttle))]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 has it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    crate::time::monotonic_ns()
}

/// The same where time stands still: nothing is ever old.
#[cfg(shuttle)]
pub(crate) fn ticks() -> u64 {
    1
}
