//! The state that all processors of a runtime share, and [`Watch`], an observer of the processors.

use std::fmt;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};

use crate::fibre::Ready;
use crate::idle::IdleProcessors;
use crate::io::IoBackend;
use crate::limits::STACK_LEN;
use crate::registry::Registry;
use crate::scheduler::{AnyRunQueues, Scheduler};
use crate::slot::ProcessorSlot;
use crate::stack::{ProcessorStacks, Stacks};
use crate::switch::local;
use crate::sync::atomic::{AtomicBool, Ordering};

/// The state that all processors of a runtime share.
pub(crate) struct Shared {
    pub(crate) scheduler: AnyRunQueues,
    pub(crate) idle: IdleProcessors,
    /// For each processor, the parts that other processors may use.
    pub(crate) slots: Box<[ProcessorSlot]>,
    pub(crate) stacks: Stacks,
    pub(crate) registry: Registry,
    pub(crate) io_backend: IoBackend,
    pub(crate) watch: Option<Box<dyn Watch>>,
    /// `Runtime::stop` has begun. From then on, `end_condition` is notified whenever a fibre ends.
    pub(crate) is_stopping: AtomicBool,
    /// The processors must end. `Runtime::stop` sets this after it has waited for the fibres.
    pub(crate) must_stop: AtomicBool,
    /// The number of processors whose threads were started and have not ended.
    live_processors: std::sync::Mutex<usize>,
    /// Notified when a processor ends and, while the runtime stops, when a fibre ends. Its mutex is
    /// `live_processors`.
    pub(crate) end_condition: Condvar,
}

/// A processor's own reference to the shared state. The record of a fibre refers to the anchor of
/// the processor that spawned the fibre, and not to the shared state directly. So these references
/// are counted in one count for each processor, and the processors do not contend for a single
/// reference count.
pub(crate) struct Anchor {
    pub(crate) shared: Arc<Shared>,
    /// The number of the processor.
    pub(crate) number: usize,
}

/// An observer of the processors. A method runs on the thread of the processor that it is about,
/// between the runs of fibres, so it delays all fibres of that processor. The methods must not
/// panic (the program would abort) and must not spawn or wake fibres.
pub trait Watch: Send + Sync + 'static {
    /// The processor is about to sleep, or to end.
    fn sleeps(&self, processor: usize) {
        let _ = processor;
    }

    /// The processor starts, or has woken up.
    fn wakes(&self, processor: usize) {
        let _ = processor;
    }

    /// Bytes have been received for a fibre. The observer can prefetch the memory that the fibre
    /// will use. This processor runs the fibre after the next call of [`polled`](Self::polled),
    /// unless another processor runs it before. With [rings](crate::IoBackend::Rings), this is
    /// called for most receives, with epoll for none. The processor's ring is locked during the
    /// call, so the call must not wait.
    fn received(&self, processor: usize, bytes: &[u8]) {
        let _ = (processor, bytes);
    }

    /// The processor has polled its reactor and its timers, which has made `fibres` fibres ready.
    fn polled(&self, processor: usize, fibres: usize) {
        let _ = (processor, fibres);
    }
}

impl fmt::Debug for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anchor").finish_non_exhaustive()
    }
}

#[cfg(all(test, shuttle))]
impl Anchor {
    /// Creates an anchor for the model checker. Its shared state has no threads and no kernel
    /// objects.
    pub(crate) fn model(scheduler: Scheduler, processors: usize) -> Arc<Self> {
        let idle = IdleProcessors::new(processors).unwrap();
        let slots = Box::default();
        let shared = Shared::new(scheduler, processors, idle, IoBackend::Readiness, slots);
        Arc::new(Self {
            shared: Arc::new(shared),
            number: 0,
        })
    }
}

impl Shared {
    /// Creates the shared state, with stacks of the default size and without a `Watch`.
    pub(crate) fn new(
        scheduler: Scheduler,
        processors: usize,
        idle: IdleProcessors,
        io_backend: IoBackend,
        slots: Box<[ProcessorSlot]>,
    ) -> Self {
        Self {
            scheduler: AnyRunQueues::new(scheduler, processors),
            idle,
            slots,
            stacks: Stacks::new(STACK_LEN),
            registry: Registry::new(processors),
            io_backend,
            watch: None,
            is_stopping: AtomicBool::new(false),
            must_stop: AtomicBool::new(false),
            live_processors: std::sync::Mutex::new(0),
            end_condition: Condvar::new(),
        }
    }

    /// Locks the number of live processors.
    pub(crate) fn live_processors(&self) -> MutexGuard<'_, usize> {
        self.live_processors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues a fibre that is new or was woken, and wakes an idle processor for it.
    pub(crate) fn schedule(&self, ready: Ready) {
        // If the caller is a processor of this runtime, its number and its last reading of the
        // clock.
        let origin = local(|local| {
            let local = local.filter(|local| std::ptr::eq(local.shared(), self))?;
            Some((local.number, local.clock.get()))
        });
        self.scheduler.put(origin, ready, &self.idle);
    }

    /// Releases the stack of a fibre that has ended, and removes it from the registry.
    pub(crate) fn reclaim(&self, ready: Ready, stacks: &ProcessorStacks) {
        let record = ready.record();
        // SAFETY: `ready` is the right to run the fibre, so no other thread uses the body.
        let body = unsafe { (*record.body.get()).take() };
        if let Some(body) = body {
            self.stacks.release(body.into_stack(), Some(stacks));
        }
        self.registry.remove(record);
        drop(ready);
        if self.is_stopping.load(Ordering::Relaxed) {
            // `Runtime::stop` holds this lock from when it counts the fibres until it waits, so
            // it cannot miss the notification.
            let _guard = self.live_processors();
            self.end_condition.notify_all();
        }
    }

    /// Records the last-level cache of the CPU on which `processor`, the caller, now runs. Only the
    /// fair scheduler uses it.
    pub(crate) fn record_cache(&self, processor: usize) {
        if let AnyRunQueues::Fair(fair) = &self.scheduler
            && self.slots.len() > 1
        {
            fair.record_cache(processor, crate::topology::last_level_cache());
        }
    }

    /// Records that `processor`, the caller, has polled. Then picks another processor; successive
    /// calls of the same caller pick all others in turn. If the picked processor has not polled for
    /// a long time, the caller handles its completions and its timers that are due, and so makes
    /// ready the fibres that wait for them.
    pub(crate) fn poll_overdue_processor(&self, processor: usize) {
        let count = self.slots.len();
        let slot = &self.slots[processor];
        let interval = slot.record_poll();
        if count == 1 {
            return;
        }
        let other = &self.slots
            [(processor + 1 + slot.counters.take_number() as usize % (count - 1)) % count];
        if other.is_overdue(interval) {
            other.reactor.reap_for_other();
            other.timers.expire();
        }
    }
}
