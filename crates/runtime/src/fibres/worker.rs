//! The interface of `fibres` to the code that it shares with `threads`. A fibre runs each turn with
//! the worker context of its processor (the kernel thread that runs the fibre).

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

use service::Worker;

use super::wake::FibreSocket;
use super::{ContextPool, Fibres, ProcessorContext};
use crate::acceptor::Exhausted;
use crate::connection_tasks::{ContextChoice, Peer, TaskRuntime};
use crate::worker_context::{Maintained, WorkerContext};

/// The locked context of a sleeping processor, while another thread uses it. Dropping this value
/// takes the context offline again, also when the thread panics. If the context stayed online, the
/// service could reclaim no memory until the processor wakes.
struct BorrowedContext<'a, S: Worker>(MutexGuard<'a, ProcessorContext<S>>);

impl<S: Worker> ContextPool<S> {
    /// Locks the context of a processor. Other threads hold the lock for at most a step of
    /// maintenance, or a reset after a panic.
    pub(super) fn lock(&self, processor: usize) -> MutexGuard<'_, ProcessorContext<S>> {
        let locked = self.all[processor].lock();
        locked.unwrap_or_else(|poisoned| self.reset(processor, poisoned))
    }

    /// Locks the context of a processor. Returns `None` if another thread holds the lock.
    fn try_lock(&self, processor: usize) -> Option<MutexGuard<'_, ProcessorContext<S>>> {
        match self.all[processor].try_lock() {
            Ok(entry) => Some(entry),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.reset(processor, poisoned)),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Resets the context of a processor. The last thread that used it panicked and left it
    /// inconsistent.
    #[cold]
    fn reset<'a>(
        &'a self,
        processor: usize,
        poisoned: PoisonError<MutexGuard<'a, ProcessorContext<S>>>,
    ) -> MutexGuard<'a, ProcessorContext<S>> {
        self.all[processor].clear_poison();
        let mut entry = poisoned.into_inner();
        entry.context.reset();
        if !entry.is_sleeping {
            // A service that was reset may be offline, but the processor continues to use it.
            entry.context.service.online();
        }
        entry
    }

    /// Locks the context of the current processor.
    fn lock_own(&self) -> MutexGuard<'_, ProcessorContext<S>> {
        // The caller is a fibre, so it runs on a processor. The default of 0 is not used.
        self.lock(fibre::processor().unwrap_or(0))
    }
}

impl<'a, S: Worker> BorrowedContext<'a, S> {
    /// Brings the context online. It is offline while its processor sleeps.
    fn new(mut entry: MutexGuard<'a, ProcessorContext<S>>) -> Self {
        entry.context.service.online();
        Self(entry)
    }
}

impl<S: Worker> Drop for BorrowedContext<'_, S> {
    fn drop(&mut self) {
        // The processor still sleeps. `ProcessorHooks::wakes` brings its context online.
        self.0.context.service.offline();
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
        let entry = self.contexts.try_lock(selection % self.contexts.all.len());
        // Skip a context whose processor is awake. Either the fibres of this processor run
        // maintenance, or the processor will soon sleep.
        let entry = entry.filter(|entry| entry.is_sleeping)?;
        Some(BorrowedContext::new(entry).0.context.maintain_now(now_ns))
    }

    fn contexts(&self) -> usize {
        self.contexts.all.len()
    }

    fn stop(&self) {
        self.end();
    }
}
