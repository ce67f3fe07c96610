//! The schedulers: they choose which ready fibre runs next, and on which processor. Three types
//! implement [`RunQueues`], and a runtime uses one of them, chosen at its start. The loop of a
//! processor is generic over the scheduler, so it calls the scheduler without dynamic dispatch.

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
    /// waited longer. If the first fibre of a lane has waited long, any other processor may run it,
    /// even one that has fibres in its own lanes. So no fibre starves.
    Fair,
    /// One lane per processor. A processor without work steals from the others in ring order. A
    /// processor with work never checks the lanes of others, so a fibre may starve.
    Steal,
    /// One lane for all processors.
    Global,
}

impl Scheduler {
    /// All schedulers.
    pub const ALL: [Self; 3] = [Self::Fair, Self::Steal, Self::Global];

    /// The name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Steal => "steal",
            Self::Global => "global",
        }
    }
}

/// The state that a processor keeps between two calls of [`RunQueues::take`].
#[derive(Debug)]
pub(crate) struct TakeState<'a> {
    /// The number of the processor.
    pub(crate) processor: usize,
    /// The state of the random-number generator; never 0.
    random: u64,
    /// The number of dequeues (calls of `take` or `exchange`) until this processor next checks a
    /// lane of another processor. Only the fair scheduler makes such checks.
    pub(crate) dequeues_until_check: u32,
    /// The number of dequeues between two checks.
    pub(crate) check_period: u32,
    /// The last reading of the clock, in ticks. The processor stamps the fibres that it enqueues
    /// with this time.
    pub(crate) clock: &'a Cell<u64>,
}

/// The thread that made a fibre ready. A processor of this runtime is given by its number, together
/// with its last clock reading (the value in [`TakeState::clock`]). `None` stands for any other
/// thread.
pub(crate) type Origin = Option<(usize, u64)>;

impl<'a> TakeState<'a> {
    pub(crate) fn new(processor: usize, clock: &'a Cell<u64>) -> Self {
        Self {
            processor,
            // Differs between processors, and is not 0. The factor is 2⁶⁴ divided by the golden
            // ratio.
            random: (processor as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            dequeues_until_check: 1,
            check_period: 1,
            clock,
        }
    }

    /// A number below `bound`, by Marsaglia's xorshift.
    pub(crate) fn random(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (((self.random >> 32) * bound as u64) >> 32) as usize
    }
}

/// The run queues of a scheduler.
pub(crate) trait RunQueues: Send + Sync + 'static {
    /// The number of rounds that a processor without work makes before it announces itself as idle.
    /// In each round, the processor checks whether waits of fibres are over, such as waits for I/O.
    /// It also tries to steal fibres from other processors.
    const ROUNDS_BEFORE_IDLE: u32;

    /// Whether the runtime has only one processor.
    fn has_one_processor(&self) -> bool;

    /// Enqueues a fibre that has become ready, and wakes an idle processor if there is one that can
    /// run the fibre.
    fn put(&self, origin: Origin, ready: Ready, idle: &IdleProcessors);

    /// Enqueues `ready`, a fibre that yields. Returns the fibre to run next, which may be the same
    /// one. Wakes no idle processor: the caller wakes one if [`RunQueues::has_more`] returns true.
    fn exchange(&self, state: &mut TakeState<'_>, ready: Ready) -> Ready;

    /// Whether a processor's own queues contain fibres. Takes no lock, so the answer may be
    /// outdated.
    fn has_more(&self, processor: usize) -> bool;

    /// Takes the next fibre from the processor's own queues, or from another processor's queue in
    /// which a fibre has waited too long.
    fn take(&self, state: &mut TakeState<'_>) -> Option<Ready>;

    /// Tries to take a fibre from one of the other processors' queues, without waiting for a lock.
    /// (The fair scheduler picks any queue at random, which may be the processor's own.)
    fn steal(&self, state: &mut TakeState<'_>) -> Option<Ready>;

    /// Takes a fibre from any queue, and locks each queue that it searches. `None` means that every
    /// fibre that was in a queue when the call began has left that queue since. Either a
    /// processor took the fibre, or the fibre was moved to another queue. A moved fibre is still
    /// ready, and this call may have missed it. It is not forgotten: the thread that moved it then
    /// wakes a processor, or is itself the processor that owns the new queue.
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
