//! Threads: one for each connection. It sleeps in the kernel until its peer says something.
//!
//! ```text
//! acceptor ──▶ a thread: receive → borrow a desk → prepare, answer → put it back → send → …
//! ```
//!
//! Taking a desk and putting it back are two short locks, which all conversations share, and a
//! fence, for the desk sleeps meanwhile. Who finds none sleeps until one is put back, and whoever
//! comes by at that moment may be faster: not fair, but no desk lies idle while a sleeper wakes up.
//!
//! An idle connection costs what it has touched of its stack (four pages of
//! [`TASK_STACK_LEN`](crate::limits::CONVERSATION_STACK_LEN)), its receive buffer and its
//! output, both of [`IDLE_BUFFER_LEN`](crate::limits::RESTING_LEN) at most, and a few hundred bytes of
//! state (`cargo xtask bench floor -- idle`). The kernel has a stack of its own for it. An answer
//! longer than that takes memory from the allocator at each burst, and gives it back.
//!
//! The kernel sees four areas of memory in each thread, and allows a process so many
//! (`vm.max_map_count`). A thread whose first two were had and the others not would take the
//! process with it, so there are never more threads than that allows: some fifteen thousand,
//! unless it is raised. One more, or one that cannot be had, is turned away, and accepting rests.

mod accept;
mod context_pool;
mod stop;
mod wake;
mod worker;

use std::io;
use std::sync::Arc;

use crate::connection_tasks::ConnectionTasks;
use crate::limits::{MAPPINGS_PER_THREAD, OTHER_MAPPINGS};
use crate::running::Running;
use crate::setup::Setup;
use crate::worker_context::WorkerContext;
use context_pool::ContextPool;

/// A thread for each conversation, and the desks they share.
pub(crate) struct Threads {
    contexts: ContextPool,
}

/// Starts the attendant; what it returns gives each connection its thread.
///
/// # Errors
/// No descriptor or thread left.
pub(crate) fn start(
    running: &mut Running,
    setup: &Arc<Setup>,
) -> io::Result<Arc<ConnectionTasks<Threads>>> {
    let contexts = (0..setup.workers).map(|_| WorkerContext::new(setup, running, 0));
    let threads = Threads {
        contexts: ContextPool::new(contexts),
    };
    let most = thread_connections_max(sys::limits::memory_areas());
    ConnectionTasks::open(running, setup, threads, most)
}

/// How many conversations with a thread each so many areas of memory are enough for
/// ([`sys::limits::memory_areas`]).
#[must_use]
pub fn thread_connections_max(mappings: u64) -> usize {
    let mappings = usize::try_from(mappings).unwrap_or(usize::MAX);
    (mappings.saturating_sub(OTHER_MAPPINGS) / MAPPINGS_PER_THREAD).max(1)
}

/// How many areas of memory so many conversations want.
#[must_use]
pub fn thread_mappings_needed(connections: usize) -> u64 {
    (connections.saturating_mul(MAPPINGS_PER_THREAD)).saturating_add(OTHER_MAPPINGS) as u64
}

#[cfg(test)]
mod tests;
