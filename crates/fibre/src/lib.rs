//! Fair M:N user-level threads: many fibres on a few kernel threads, their *processors*.
//!
//! ```
//! let runtime = fibre::Builder::new().processors(2).start()?;
//! let sum = runtime.run(|| {
//!     let parts: Vec<_> = (0..4_u64).map(|part| fibre::spawn(move || part * part)).collect();
//!     parts.into_iter().map(|part| part.join().unwrap()).sum::<u64>()
//! });
//! assert_eq!(sum, 14);
//! # Ok::<(), fibre::StartError>(())
//! ```
//!
//! ```text
//! spawn, unpark ──► scheduler: fair │ steal │ global ──► processor ──► fibre, on its own stack
//!       ▲                                                   │  ▲            │
//!       └──── completions (io_uring) or readiness (epoll) ◄─┘  └── parked ◄─┘
//! ```
//!
//! A fibre runs until it waits, yields or ends; nothing interrupts it. What waits, blocks the fibre
//! only: [`park`], [`JoinHandle::join`], [`Semaphore`], [`Mutex`], [`Condition`], [`channel`],
//! [`sleep`], [`Socket`], [`File`]. What the standard library offers for waiting blocks a
//! processor.
//!
//! Invariants: a fibre is in one place at a time, a processor or a lane, or parked (`permit.rs`),
//! and is woken by whoever is told so first; no wake is lost (`idle.rs`); a fibre never leaves its
//! stack while it unwinds, nor before the kernel is done with what the fibre lent it
//! (`io/rings.rs`); a panic is its fibre's. What may lie on a stack across a wait: [`spawn`].

mod cancel;
mod channel;
mod fibre;
mod file;
mod idle;
mod io;
mod join;
mod lane;
pub mod limits;
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
mod slot;
mod socket;
mod stack;
mod switch;
mod sync;
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
pub use runtime::{Builder, FibresLeft, Runtime, StartError, Statistics, Watch};
pub use scheduler::Scheduler;
pub use semaphore::Semaphore;
pub use socket::Socket;
pub use stack::guards_are_light;
pub use switch::{
    current, on_processor_stack, park, processor, try_current, yield_now, yield_to_all,
};
pub use time::sleep;
