//! Fair M:N user-level threads. Many *fibres* run on a few kernel threads, called *processors*.
//!
//! ```
//! // SAFETY: the fibres use no `thread_local!`.
//! let runtime = unsafe { fibre::Builder::new().processors(2).start() }?;
//! let sum = runtime.run(|| {
//!     let parts: Vec<_> = (0..4_u64).map(|part| fibre::spawn(move || part * part)).collect();
//!     parts.into_iter().map(|part| part.join().unwrap()).sum::<u64>()
//! });
//! assert_eq!(sum, 14);
//! # Ok::<(), fibre::StartError>(())
//! ```
//!
//! ```text
//! spawn, unpark ──► scheduler (fair, steal or global) ──► processor ──► fibre, on its own stack
//!       ▲                                                   │  ▲            │
//!       └──── completions (io_uring) or readiness (epoll) ◄─┘  └── parked ◄─┘
//! ```
//!
//! A fibre runs until it waits, yields or ends; it is not preempted. A wait in one of the following
//! blocks only the fibre, and its processor runs other fibres meanwhile: [`park`],
//! [`JoinHandle::join`], [`Semaphore`], [`Mutex`], [`Condition`], [`channel()`], [`sleep`],
//! [`Socket`], [`File`]. A blocking call of the standard library blocks the processor, which runs
//! no other fibre meanwhile.
//!
//! Invariants:
//!
//! - A fibre that has not ended is in exactly one of three states: a processor runs it; it is
//!   ready, and is in a *lane* (a queue of ready fibres); or it is *parked*, that is, it waits
//!   until it is woken. If several threads wake a parked fibre, exactly one of them puts it in a
//!   lane (`permit.rs`). The stealing scheduler sometimes uses a *handoff slot* for one fibre
//!   instead of a lane (`scheduler/steal.rs`).
//! - No wake-up is lost (`idle.rs`).
//! - A fibre never suspends while it unwinds from a panic.
//! - While the kernel may still use a buffer of a fibre, the wait of this fibre does not return,
//!   even if it is cancelled (`io/rings.rs`).
//! - A panic of a fibre ends only that fibre.
//!
//! [`Builder::start`] says which values a fibre must not hold on its stack across a wait.

mod cancel;
mod channel;
mod clock;
mod fibre;
mod file;
mod idle;
mod io;
mod join;
mod lane;
pub mod limits;
mod local;
#[cfg(all(test, shuttle))]
mod models;
mod mutex;
mod offload;
mod permit;
mod processor;
mod registry;
mod runtime;
mod scheduler;
mod semaphore;
mod shared;
mod slot;
mod socket;
mod stack;
mod switch;
mod sync;
// Two conditions, since clippy looks for `cfg(test)`.
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
mod time;
mod topology;
mod wait;

pub use cancel::{Cancelled, is_cancelled};
pub use channel::{ReceiveError, Receiver, SendError, Sender, channel};
pub use fibre::Fibre;
pub use file::File;
pub use io::{IoBackend, IoChoice};
pub use join::{JoinHandle, Panic, spawn};
pub use mutex::{Condition, Mutex, MutexGuard};
pub use offload::offload;
pub use runtime::{Builder, FibresLeft, Runtime, StartError, Statistics};
pub use scheduler::Scheduler;
pub use semaphore::Semaphore;
pub use shared::Watch;
pub use socket::Socket;
pub use stack::has_lightweight_guard_pages;
pub use switch::{
    current, on_processor_stack, park, processor, try_current, yield_after_long_run, yield_now,
    yield_to_all,
};
pub use time::sleep;
