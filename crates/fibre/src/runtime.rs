//! A runtime: starts its processors, spawns fibres, and stops the processors.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::fibre::{Fibre, Ready, Record};
use crate::idle::IdleProcessors;
use crate::io::{self as input_output, IoBackend, IoChoice};
use crate::join::{JoinHandle, packet};
use crate::limits::{PROCESSORS_MAX, STACK_LEN};
use crate::local::Local;
use crate::processor::run;
use crate::scheduler::{AnyRunQueues, Scheduler};
use crate::shared::{Anchor, Shared, Watch};
use crate::slot::ProcessorSlot;
use crate::stack::Stacks;
use crate::switch::{Body, local};
use crate::sync::atomic::Ordering;

/// The timeout of the stop when a runtime is dropped: how long the drop waits for fibres to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long [`Runtime::stop`] waits for the processors to end, if it has abandoned fibres. It does
/// not wait longer, because a processor does not end while it runs a fibre that never yields.
const GRACE_PERIOD: Duration = Duration::from_millis(500);
/// While [`Runtime::stop`] waits for fibres to end, it cancels at this interval the fibres that
/// have been spawned since.
const STOP_POLL: Duration = Duration::from_millis(20);

/// The configuration of a runtime.
#[must_use]
pub struct Builder {
    processors: usize,
    scheduler: Scheduler,
    stack_len: usize,
    io_backend: IoChoice,
    name: String,
    watch: Option<Box<dyn Watch>>,
}

/// A running runtime. Dropping it [stops](Runtime::stop) it with a timeout of five seconds.
pub struct Runtime {
    /// The [`Anchor`] of each processor: its reference to the state that all processors share.
    anchors: Box<[Arc<Anchor>]>,
    /// The thread of each processor; empty once the runtime has stopped.
    threads: Vec<thread::JoinHandle<()>>,
}

/// Why a runtime could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The number of processors is 0 or too large.
    #[error("a runtime has 1 to {PROCESSORS_MAX} processors, not {0}")]
    Processors(usize),
    /// The kernel lacks the I/O backend, or does not let this process use it.
    #[error("failed to set up {0}: {1}")]
    Io(&'static str, io::Error),
    /// The process can get no further file descriptor, thread or memory.
    #[error("failed to start a processor: {0}")]
    Processor(io::Error),
}

/// The error of [`Runtime::stop`] if some fibres had not ended when the timeout expired. These
/// fibres are abandoned: no processor resumes them, and their stacks are not freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{count} fibres did not end in time and were abandoned")]
pub struct FibresLeft {
    /// The number of abandoned fibres.
    pub count: usize,
}

/// The counters of a runtime, summed over its processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The number of runs of fibres. A run begins when a processor resumes a fibre, and ends when
    /// the fibre waits, yields or ends.
    pub runs: u64,
    /// The number of times that a processor slept.
    pub sleeps: u64,
    /// The number of live fibres.
    pub fibres: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Creates the default configuration: one processor for each CPU that this process may use, the
    /// fair scheduler, stacks of 256 KiB.
    pub fn new() -> Self {
        Self {
            processors: thread::available_parallelism().map_or(1, usize::from),
            scheduler: Scheduler::Fair,
            stack_len: STACK_LEN,
            io_backend: IoChoice::Auto,
            name: "processor".to_owned(),
            watch: None,
        }
    }

    /// Sets the number of processors.
    pub fn processors(mut self, processors: usize) -> Self {
        self.processors = processors;
        self
    }

    /// Sets the scheduler.
    pub fn scheduler(mut self, scheduler: Scheduler) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// Sets the size of a fibre's stack in bytes, rounded up to pages; at least 8 KiB.
    pub fn stack_len(mut self, stack_len: usize) -> Self {
        self.stack_len = stack_len;
        self
    }

    /// Sets the I/O backend: io_uring or epoll.
    pub fn io_backend(mut self, io_backend: IoChoice) -> Self {
        self.io_backend = io_backend;
        self
    }

    /// Sets the prefix of thread names: `PREFIX-N` for processor N.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets an observer that is told when processors sleep, wake and poll.
    pub fn watch(mut self, watch: impl Watch) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Starts the processors.
    ///
    /// # Errors
    /// The number of processors is invalid, the kernel lacks a feature, or the process can get no
    /// further file descriptor, thread or memory. After an error, no thread of the runtime is left
    /// running.
    ///
    /// # Safety
    /// A fibre may continue on another thread after a wait, with all that is on its stack, and the
    /// compiler does not check what that is. So no fibre of the runtime holds, during a wait, a
    /// reference into a `thread_local!`, or a value that is not [`Send`] and whose other owners are
    /// reached by another way than this fibre's stack, such as a clone of an `Rc` that a
    /// `thread_local!` contains.
    pub unsafe fn start(self) -> Result<Runtime, StartError> {
        let processors = self.processors;
        if processors == 0 || processors > PROCESSORS_MAX {
            return Err(StartError::Processors(processors));
        }
        let idle = IdleProcessors::new(processors).map_err(StartError::Processor)?;
        let io_backend = input_output::choose(self.io_backend, self.scheduler)
            .map_err(|error| StartError::Io("io_uring", error))?;
        let slot = |number| ProcessorSlot::new(io_backend, processors, idle.event(number));
        let slots = (0..processors).map(slot).collect::<io::Result<_>>();
        let slots = slots.map_err(|error| StartError::Io(io_backend.name(), error))?;
        let mut shared = Shared::new(self.scheduler, processors, idle, io_backend, slots);
        shared.stacks = Stacks::new(self.stack_len);
        shared.watch = self.watch;
        let shared = Arc::new(shared);
        let anchor = |number| {
            Arc::new(Anchor {
                shared: Arc::clone(&shared),
                number,
            })
        };
        let mut runtime = Runtime {
            anchors: (0..processors).map(anchor).collect(),
            threads: Vec::with_capacity(processors),
        };
        for number in 0..processors {
            let anchor = Arc::clone(&runtime.anchors[number]);
            let builder = thread::Builder::new().name(format!("{}-{number}", self.name));
            *shared.live_processors() += 1;
            let thread = builder.spawn(move || begin(anchor, number));
            // An error drops `runtime`, which stops the processors that were already started.
            runtime.threads.push(thread.map_err(|error| {
                *shared.live_processors() -= 1;
                StartError::Processor(error)
            })?);
        }
        Ok(runtime)
    }
}

/// The main function of a processor's thread.
fn begin(anchor: Arc<Anchor>, number: usize) {
    let shared = Arc::clone(&anchor.shared);
    match &shared.scheduler {
        AnyRunQueues::Fair(fair) => run(fair, anchor, number),
        AnyRunQueues::Steal(steal) => run(steal, anchor, number),
        AnyRunQueues::Global(global) => run(&**global, anchor, number),
    }
    *shared.live_processors() -= 1;
    shared.end_condition.notify_all();
}

impl Runtime {
    /// Spawns a fibre, from any thread; see [`spawn`](crate::spawn).
    ///
    /// # Errors
    /// There is no memory for the stack.
    pub fn try_spawn<T: Send + 'static>(
        &self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let anchor = self.anchor();
        anchor.spawn(run)
    }

    /// As [`Runtime::try_spawn`], but panics instead of returning an error.
    ///
    /// # Panics
    /// There is no memory for the stack.
    pub fn spawn<T: Send + 'static>(
        &self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.try_spawn(run)
            .unwrap_or_else(|error| panic!("no stack for another fibre: {error}"))
    }

    /// Runs a fibre and waits for its result.
    ///
    /// # Panics
    /// The fibre panics, and its panic resumes in the caller. Or there is no memory for its stack.
    pub fn run<T: Send + 'static>(&self, run: impl FnOnce() -> T + Send + 'static) -> T {
        match self.spawn(run).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// The runtime's counters.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let shared = self.shared();
        let mut sum = Statistics {
            fibres: shared.registry.len(),
            ..Statistics::default()
        };
        for slot in &shared.slots {
            sum.runs += slot.counters.runs();
            sum.sleeps += slot.counters.sleeps();
        }
        sum
    }

    /// The I/O backend of this runtime.
    #[must_use]
    pub fn io_backend(&self) -> IoBackend {
        self.shared().io_backend
    }

    /// Cancels every fibre ([`Fibre::cancel`](crate::Fibre::cancel)), waits until all fibres have
    /// ended or `timeout` has passed, and stops the processors. A fibre of this runtime must not
    /// call this, because it would wait for its own end.
    ///
    /// # Errors
    /// Some fibres did not end. They are abandoned, and a `join` of such a fibre waits for ever. A
    /// processor that is running such a fibre continues to run it.
    pub fn stop(mut self, timeout: Duration) -> Result<(), FibresLeft> {
        self.shut_down(timeout)
    }

    /// Does the work of [`Runtime::stop`]. Also called when the runtime is dropped.
    fn shut_down(&mut self, timeout: Duration) -> Result<(), FibresLeft> {
        let shared = self.shared();
        shared.is_stopping.store(true, Ordering::Relaxed);
        // `None` if the timeout is so long that an `Instant` cannot represent the deadline. Then
        // this function waits for the fibres without a deadline.
        let deadline = Instant::now().checked_add(timeout);
        let remaining = || {
            deadline.map_or(STOP_POLL, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            })
        };
        let count = loop {
            // Each round cancels anew, because fibres may have been spawned since the last round.
            for shard in 0..self.anchors.len() {
                let fibres = shared.registry.fibres(shard);
                let uncancelled = fibres.iter().filter(|fibre| !fibre.is_cancelled());
                uncancelled.for_each(Fibre::cancel);
            }
            // The lock is held from the count until the wait begins. A fibre that ends in the
            // meantime locks it before it notifies, so its notification is not missed.
            let guard = shared.live_processors();
            let count = shared.registry.len();
            let remaining = remaining();
            if count == 0 || remaining.is_zero() {
                // Release: pairs with `ProcessorDriver::must_stop`.
                shared.must_stop.store(true, Ordering::Release);
                break count;
            }
            let waited = shared
                .end_condition
                .wait_timeout(guard, remaining.min(STOP_POLL));
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        };
        // A processor that sleeps must wake in order to see `must_stop`.
        for number in 0..self.anchors.len() {
            shared.idle.wake(number);
        }
        // If no fibre is left, every processor is about to end, and each thread can be joined.
        let mut can_join_all = count == 0;
        if !can_join_all {
            shared.stacks.abandon();
            let any_is_live = |live_processors: &mut usize| *live_processors > 0;
            let guard = shared.live_processors();
            let waited = shared
                .end_condition
                .wait_timeout_while(guard, GRACE_PERIOD, any_is_live);
            can_join_all = *waited.unwrap_or_else(PoisonError::into_inner).0 == 0;
        }
        for thread in self.threads.drain(..) {
            if can_join_all || thread.is_finished() {
                // The result is no error, because the thread has not panicked: panics of fibres are
                // caught, and any other panic aborts the program.
                let _ = thread.join();
            }
            // A thread that is not joined is detached. It runs an abandoned fibre, and keeps the
            // shared state alive.
        }
        match count {
            0 => Ok(()),
            count => Err(FibresLeft { count }),
        }
    }

    fn shared(&self) -> &Shared {
        &self.anchors[0].shared
    }

    /// The anchor of the calling processor. If the caller is not a processor of this runtime, the
    /// anchor of any processor; successive calls choose the processors in turn.
    fn anchor(&self) -> Arc<Anchor> {
        let own_anchor = |local: Option<&Local>| {
            let local = local?;
            Arc::ptr_eq(&local.anchor.shared, &self.anchors[0].shared)
                .then(|| Arc::clone(&local.anchor))
        };
        local(own_anchor).unwrap_or_else(|| {
            let next = self.shared().slots[0].counters.take_number() as usize;
            Arc::clone(&self.anchors[next % self.anchors.len()])
        })
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            let _ = self.shut_down(STOP_TIMEOUT);
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("processors", &self.anchors.len())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

impl Anchor {
    /// Spawns a fibre. The fibre's record refers to this anchor, and the registry lists the fibre
    /// in the shard of this anchor's processor.
    pub(crate) fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let shared = &self.shared;
        local(|local| {
            // The calling processor, if this is its anchor: only it may use its free stacks.
            let local = local.filter(|local| Arc::ptr_eq(&local.anchor, self));
            let stack = shared.stacks.take(local.map(|local| &local.stacks))?;
            // The fibre stores its result through `writer`, and `join` takes it through `reader`.
            let (writer, reader) = packet();
            let body = Body::new(stack, move || writer.fill(run));
            let record = Arc::new(Record::new(Arc::clone(self), Some(body)));
            record
                .processor
                .store(self.number as u32, Ordering::Relaxed);
            shared.registry.insert(self.number, &record);
            let handle = JoinHandle::new(reader, Arc::clone(&record));
            shared.schedule(Ready::new(record));
            Ok(handle)
        })
    }
}
