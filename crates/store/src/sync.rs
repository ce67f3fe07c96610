//! What threads share, from the standard library; or, compiled with `--cfg shuttle`, from a
//! scheduler that tries the orders in which they may come (`cargo xtask models`).

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::thread::yield_now;

/// Lets other threads of this processor run: one of them may be the one that is waited for.
#[cfg(not(shuttle))]
pub(crate) use rustix::thread::sched_yield as yield_now;

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, atomic};
