//! What a conversation's fibre works with: the desk of the processor it is on.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use super::wake::FibreSocket;
use super::{ContextPool, Fibres, ProcessorContext};
use crate::acceptor::Exhausted;
use crate::connection_tasks::{Choice, Peer, TaskRuntime};
use crate::worker_context::WorkerContext;

impl ContextPool {
    /// A processor's. Nobody else has it for longer than a step of maintenance.
    pub(super) fn of(&self, processor: usize) -> MutexGuard<'_, ProcessorContext> {
        let slot = &self.all[processor];
        slot.lock().unwrap_or_else(|poisoned| {
            // Whoever had it panicked.
            slot.clear_poison();
            let mut entry = poisoned.into_inner();
            entry.context.reset();
            entry
        })
    }

    /// That of the processor this fibre is on.
    fn own(&self) -> MutexGuard<'_, ProcessorContext> {
        self.of(fibre::processor().unwrap_or(0))
    }
}

impl TaskRuntime for Fibres {
    type Task = fibre::JoinHandle<()>;
    type PeerSocket = FibreSocket;

    fn spawn(
        &self,
        serve_connection: impl FnOnce() + Send + 'static,
    ) -> Result<Self::Task, Exhausted> {
        self.start(serve_connection)
    }

    fn socket(&self, peer: &Arc<Peer>) -> io::Result<Self::PeerSocket> {
        FibreSocket::new(peer)
    }

    fn with_context<R: Send>(&self, work: impl FnOnce(&mut WorkerContext) -> R + Send) -> R {
        fibre::on_processor_stack(|| {
            let context = &mut self.contexts.own().context;
            let result = work(context);
            context.store.quiescent();
            result
        })
    }

    fn maintain(&self, choice: Choice, now_ns: u64) -> Option<bool> {
        if let Choice::MostRecent = choice {
            return Some(self.with_context(|context| context.maintain_store(now_ns)));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let entry = self.contexts.all[turn % self.contexts.all.len()].try_lock();
        // Whose processor is awake, that goes on with it, or sleeps soon.
        let mut entry = entry.ok().filter(|entry| entry.sleeps)?;
        let has_more = entry.context.maintain_store(now_ns);
        // The next who works at it wakes it.
        entry.context.store.offline();
        Some(has_more)
    }

    fn contexts(&self) -> usize {
        self.contexts.all.len()
    }

    fn stop(&self) {
        self.end();
    }
}
