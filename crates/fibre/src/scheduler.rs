//! The schedulers. A scheduler determines which ready fibre runs next, and on which processor.
//! Three types implement [`RunQueues`]. A runtime uses one of them, which is chosen when the
//! runtime starts. The loop of a processor is generic over the scheduler, so it calls the scheduler
//! without dynamic dispatch.

pub(crate) mod fair;
pub(crate) mod global;
pub(crate) mod steal;

use std::cell::Cell;

use crate::fibre::Ready;
use crate::idle::IdleProcessors;
use fair::Fair;
use global::Global;
use steal::Steal;

/// The kinds of scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// Two *lanes* (FIFO queues of ready fibres) per processor. Fibres are put in the two lanes in
    /// turn. The processor compares the first fibres of its two lanes, and runs the one that has
    /// waited longer. If the first fibre of a lane has waited much longer than is usual, any other
    /// processor may run it, even one that has fibres in its own lanes. So no fibre starves.
    Fair,
    /// One lane per processor. A processor without ready fibres steals from other processors, which
    /// it tries in the order of their numbers. A processor that has ready fibres never checks the
    /// lanes of others, so a fibre may starve.
    Steal,
    /// One lane for all processors.
    Global,
}

impl Scheduler {
    /// All schedulers.
    pub const ALL: [Self; 3] = [Self::Fair, Self::Steal, Self::Global];

    /// The name of the scheduler in the options and reports of programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Steal => "steal",
            Self::Global => "global",
        }
    }
}

/// The state that a processor keeps for the scheduler between two dequeues ([`RunQueues::take`],
/// [`RunQueues::exchange`]).
#[derive(Debug)]
pub(crate) struct TakeState<'a> {
    /// The number of the processor.
    pub(crate) processor: usize,
    /// The state of the random-number generator; never 0.
    random: u64,
    /// The number of dequeues until this processor next checks a lane of another processor. Only
    /// the fair scheduler makes such checks.
    pub(crate) dequeues_until_check: u32,
    /// The number of dequeues from the last such check to the next.
    pub(crate) check_period: u32,
    /// The last reading of the clock, in [`ticks`](crate::sync::ticks). When this processor
    /// enqueues a fibre, this time counts as the beginning of the fibre's wait.
    pub(crate) clock: &'a Cell<u64>,
}

/// The thread that makes a fibre ready. For a processor of this runtime: the number of the
/// processor, and its last reading of the clock ([`TakeState::clock`]). For any other thread:
/// `None`.
pub(crate) type Origin = Option<(usize, u64)>;

impl<'a> TakeState<'a> {
    pub(crate) fn new(processor: usize, clock: &'a Cell<u64>) -> Self {
        Self {
            processor,
            // The seed differs between processors, and is not 0 (from 0, xorshift yields only 0).
            // The factor is 2⁶⁴ divided by the golden ratio.
            random: (processor as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            dequeues_until_check: 1,
            check_period: 1,
            clock,
        }
    }

    /// A random number below `bound`, by Marsaglia's xorshift.
    pub(crate) fn random(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (((self.random >> 32) * bound as u64) >> 32) as usize
    }
}

/// The run queues of a scheduler.
pub(crate) trait RunQueues: Send + Sync + 'static {
    /// A processor without ready fibres looks for work in this number of rounds before it announces
    /// itself as idle. In each round, it checks whether waits of fibres are over, such as waits for
    /// I/O, and tries to steal fibres from other processors.
    const ROUNDS_BEFORE_IDLE: u32;

    /// Whether the runtime has only one processor.
    fn has_one_processor(&self) -> bool;

    /// Enqueues a fibre that has become ready, and wakes an idle processor, if there is one, to run
    /// the fibre.
    fn put(&self, origin: Origin, ready: Ready, idle: &IdleProcessors);

    /// Enqueues `ready`, a fibre that yields, and dequeues the fibre to run next. This may be the
    /// same fibre. Wakes no idle processor: the caller wakes one if [`RunQueues::has_more`] returns
    /// true.
    fn exchange(&self, state: &mut TakeState<'_>, ready: Ready) -> Ready;

    /// Whether a processor's own queues contain fibres. Takes no lock, so the answer may be
    /// outdated.
    fn has_more(&self, processor: usize) -> bool;

    /// Dequeues the fibre to run next from the processor's own queues. The fair scheduler may
    /// instead take a fibre that has waited too long in a queue of another processor.
    fn take(&self, state: &mut TakeState<'_>) -> Option<Ready>;

    /// Tries to take a fibre from one of the other processors' queues, without waiting for a lock.
    /// (The fair scheduler picks any queue at random, which may be the processor's own.)
    fn steal(&self, state: &mut TakeState<'_>) -> Option<Ready>;

    /// Searches all queues for a fibre, one queue after the other, and takes the first fibre that
    /// it finds. Called by a processor that has just announced itself as idle. Locks each queue
    /// that it searches, even an empty one (`idle.rs` says why). A handoff slot is swapped instead.
    ///
    /// `None` means that each queue was empty when this call searched it. Since then, a thread may
    /// have enqueued a fibre in a queue that this call had already searched. The calling processor
    /// may sleep all the same: the thread that enqueued the fibre then wakes an idle processor, or
    /// is itself the processor that takes from this queue next.
    fn search(&self, state: &mut TakeState<'_>) -> Option<Ready>;
}

/// The run queues of whichever scheduler the runtime uses, for callers that are not generic over
/// the scheduler.
#[derive(Debug)]
pub(crate) enum AnyRunQueues {
    Fair(Fair),
    Steal(Steal),
    Global(Box<Global>),
}

impl AnyRunQueues {
    pub(crate) fn new(kind: Scheduler, processors: usize) -> Self {
        match kind {
            Scheduler::Fair => Self::Fair(Fair::new(processors)),
            Scheduler::Steal => Self::Steal(Steal::new(processors)),
            Scheduler::Global => Self::Global(Box::new(Global::new(processors))),
        }
    }

    pub(crate) fn put(&self, origin: Origin, ready: Ready, idle: &IdleProcessors) {
        match self {
            Self::Fair(fair) => fair.put(origin, ready, idle),
            Self::Steal(steal) => steal.put(origin, ready, idle),
            Self::Global(global) => global.put(origin, ready, idle),
        }
    }
}
