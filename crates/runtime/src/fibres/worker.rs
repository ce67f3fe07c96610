//! The interface of `fibres` to the code that it shares with `threads`. A fibre runs each turn with
//! the worker context of its processor (the kernel thread that runs the fibre).

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use service::Worker;

use super::wake::FibreSocket;
use super::{ContextPool, Fibres, ProcessorContext};
use crate::acceptor::Exhausted;
use crate::connection_tasks::{ContextChoice, Peer, TaskRuntime};
use crate::worker_context::{Maintained, WorkerContext};

impl<S: Worker> ContextPool<S> {
    /// Locks the context of a processor. Other threads hold the lock for at most a step of
    /// maintenance.
    pub(super) fn lock(&self, processor: usize) -> MutexGuard<'_, ProcessorContext<S>> {
        let slot = &self.all[processor];
        slot.lock().unwrap_or_else(|poisoned| {
            // The last thread that used this context panicked and left it inconsistent.
            slot.clear_poison();
            let mut entry = poisoned.into_inner();
            entry.context.reset();
            if !entry.is_sleeping {
                // A service that was reset may be offline, but the processor continues to use it.
                entry.context.service.online();
            }
            entry
        })
    }

    /// Locks the context of the current processor.
    fn lock_own(&self) -> MutexGuard<'_, ProcessorContext<S>> {
        // The caller is a fibre, so it runs on a processor. The default of 0 is not used.
        self.lock(fibre::processor().unwrap_or(0))
    }
}

impl<S: Worker> TaskRuntime for Fibres<S> {
    type Service = S;
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

    fn with_context<R: Send>(&self, work: impl FnOnce(&mut WorkerContext<S>) -> R + Send) -> R {
        fibre::on_processor_stack(|| work(&mut self.contexts.lock_own().context))
    }

    fn maintain(&self, choice: ContextChoice, now_ns: u64) -> Option<Maintained> {
        if let ContextChoice::MostRecent = choice {
            // For a fibre, that is the context of its own processor.
            return Some(self.with_context(|context| {
                let maintained = context.maintain_now(now_ns);
                // Announce that the context refers to no memory of the service any more. (`None`: a
                // step of maintenance is not recorded as the latency of a burst.)
                context.service.end_burst(None);
                maintained
            }));
        }
        let selection = self.selections.fetch_add(1, Ordering::Relaxed);
        let entry = self.contexts.all[selection % self.contexts.all.len()].try_lock();
        // Skip a context whose processor is awake. Either the fibres of this processor run
        // maintenance, or the processor will soon sleep.
        let mut entry = entry.ok().filter(|entry| entry.is_sleeping)?;
        // The context of a sleeping processor is offline, and may be used only while it is online.
        // After the step the processor still sleeps, so take the context offline again.
        // `ProcessorHooks::wakes` brings it online.
        entry.context.service.online();
        let maintained = entry.context.maintain_now(now_ns);
        entry.context.service.offline();
        Some(maintained)
    }

    fn contexts(&self) -> usize {
        self.contexts.all.len()
    }

    fn stop(&self) {
        self.end();
    }
}
