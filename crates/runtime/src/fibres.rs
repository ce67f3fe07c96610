//! Fibres: one for each connection, on as many kernel threads as there are workers.
//!
//! ```text
//! acceptor ──▶ a fibre: exchange → at the processor's desk: prepare, answer → exchange → …
//! ```
//!
//! Each processor has a desk of its own, and since a fibre lets nobody else run while it answers,
//! the desk is that fibre's for the length of a burst: its lock is met by nobody but the attendant,
//! who goes on with maintenance while a processor sleeps, and then is only tried. A burst is
//! answered on the processor's stack, which is near and large; a fibre's own holds no more than its
//! conversation, a page or little more of it.
//!
//! Each fibre answers alone, and would wait for its bucket and then for its item. So the processor
//! is shown what has come over its ring before it runs those it is for, asks for the bucket of each
//! first request, and for the items when it has seen them all: memory comes for all at once, as in
//! a burst of the event loop. By readiness a fibre receives for itself: there is nothing to see.
//!
//! An idle connection costs that page, its receive buffer and its output, both of
//! [`IDLE_BUFFER_LEN`](crate::limits::RESTING_LEN) at most, and a few hundred bytes of state.

mod accept;
mod stop;
mod wake;
mod worker;

use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use fibre::{Builder, Runtime};
use store::KeyHash;

use crate::connection_tasks::ConnectionTasks;
use crate::limits::{OTHER_MAPPINGS, PREFETCH_CONNECTIONS_MAX};
use crate::running::Running;
use crate::setup::Setup;
use crate::worker_context::WorkerContext;
use wake::ProcessorHooks;

/// A stack and its guard.
const MAPPINGS_PER_FIBRE: usize = 2;

/// A fibre for each conversation, and the desks of their processors.
pub(crate) struct Fibres {
    /// None: the last conversation is over.
    runtime: Mutex<Option<Runtime>>,
    contexts: Arc<ContextPool>,
    /// Times the attendant has looked for a desk to do so at.
    turn: AtomicUsize,
}

/// A desk for each processor, whose fibres have it by turns.
pub(crate) struct ContextPool {
    all: Box<[Mutex<ProcessorContext>]>,
}

/// A processor's desk.
struct ProcessorContext {
    context: WorkerContext,
    /// Its processor sleeps: another may maintain the store here.
    sleeps: bool,
    /// Keys whose buckets have been asked for, of connections that are about to be answered.
    ahead: Vec<KeyHash>,
}

/// Starts the processors and the attendant; what it returns gives each connection its fibre.
///
/// # Errors
/// No descriptor or thread left.
pub(crate) fn start(
    running: &mut Running,
    setup: &Arc<Setup>,
    scheduler: fibre::Scheduler,
) -> io::Result<Arc<ConnectionTasks<Fibres>>> {
    let contexts = (0..setup.workers).map(|_| {
        Mutex::new(ProcessorContext {
            context: WorkerContext::new(setup, running, 0),
            sleeps: false,
            ahead: Vec::with_capacity(PREFETCH_CONNECTIONS_MAX),
        })
    });
    let contexts = Arc::new(ContextPool {
        all: contexts.collect(),
    });
    let runtime = Builder::new()
        .processors(setup.workers)
        .scheduler(scheduler)
        .name("worker")
        .watch(ProcessorHooks::new(&contexts))
        .start()
        .map_err(io::Error::other)?;
    let fibres = Fibres {
        runtime: Mutex::new(Some(runtime)),
        contexts,
        turn: AtomicUsize::new(0),
    };
    let most = fibre_connections_max(sys::limits::memory_areas(), fibre::guards_are_light());
    ConnectionTasks::open(running, setup, fibres, most.unwrap_or(usize::MAX))
}

/// How many conversations with a fibre each so many areas of memory are enough for
/// ([`sys::limits::memory_areas`]); none: any number, since stacks are guarded without one
/// ([`fibre::guards_are_light`]).
#[must_use]
pub fn fibre_connections_max(mappings: u64, guards_are_light: bool) -> Option<usize> {
    if guards_are_light {
        return None;
    }
    let mappings = usize::try_from(mappings).unwrap_or(usize::MAX);
    Some((mappings.saturating_sub(OTHER_MAPPINGS) / MAPPINGS_PER_FIBRE).max(1))
}

/// How many areas of memory so many conversations want, where each stack takes some.
#[must_use]
pub fn fibre_mappings_needed(connections: usize) -> u64 {
    (connections.saturating_mul(MAPPINGS_PER_FIBRE)).saturating_add(OTHER_MAPPINGS) as u64
}
