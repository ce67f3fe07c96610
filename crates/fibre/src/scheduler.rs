//! Which fibre runs next, and where. Three ways, of one shape; chosen at start, and the loop of a
//! processor is compiled for each.

pub(crate) mod fair;
pub(crate) mod global;
pub(crate) mod steal;

use std::cell::Cell;

use crate::fibre::Ready;
use crate::idle::IdleProcessors;
use fair::Fair;
use global::Global;
use steal::Steal;

/// Which scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// Two lanes a processor, first in, first out; processors help lanes whose first has waited
    /// long, though they have work of their own. Nobody starves.
    Fair,
    /// A lane a processor; who has nothing to do steals, in a ring. Who always has something to do
    /// never looks at others.
    Steal,
    /// One lane for all.
    Global,
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fair, Self::Steal, Self::Global];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Steal => "steal",
            Self::Global => "global",
        }
    }
}

/// What a processor knows of its own choosing.
#[derive(Debug)]
pub(crate) struct TakeState<'a> {
    pub(crate) processor: usize,
    random: u64,
    /// Takings until others are looked at, and how many there were to be since the last look.
    pub(crate) left: u32,
    pub(crate) period: u32,
    /// When the last was taken: what is put until the next has that for its time.
    pub(crate) clock: &'a Cell<u64>,
}

/// Who makes a fibre ready: a processor, and when it last took one; none: another thread.
pub(crate) type Origin = Option<(usize, u64)>;

impl<'a> TakeState<'a> {
    pub(crate) fn new(processor: usize, clock: &'a Cell<u64>) -> Self {
        Self {
            processor,
            random: (processor as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            left: 1,
            period: 1,
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

/// A way of choosing.
pub(crate) trait RunQueues: Send + Sync + 'static {
    /// Rounds of looking before a processor without work blocks.
    const SPINS: u32;

    /// Whether there is one processor only.
    fn is_alone(&self) -> bool;

    /// Takes in a fibre that has become ready, and calls a processor that rests, if one does.
    fn put(&self, by: Origin, ready: Ready, idle: &IdleProcessors);

    /// Takes back a fibre that lets others go first, and gives the next, which may be the same.
    /// Nobody is called: the processor goes on with as many as before, and calls somebody if it has
    /// more ([`RunQueues::has_more`]).
    fn exchange(&self, state: &mut TakeState<'_>, ready: Ready) -> Ready;

    /// Whether more wait where a processor put fibres back, as far as can be seen without a lock.
    fn has_more(&self, processor: usize) -> bool;

    /// The next of a processor's own, or of one that is to be helped.
    fn take(&self, state: &mut TakeState<'_>) -> Option<Ready>;

    /// One of another's, if it is found at once.
    fn steal(&self, state: &mut TakeState<'_>) -> Option<Ready>;

    /// Anybody, wherever they wait: nobody means that nobody waited when the call began and still
    /// waits.
    fn search(&self, state: &mut TakeState<'_>) -> Option<Ready>;
}

/// A scheduler of any kind, for those who are not its processors.
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

    pub(crate) fn put(&self, by: Origin, ready: Ready, idle: &IdleProcessors) {
        match self {
            Self::Fair(fair) => fair.put(by, ready, idle),
            Self::Steal(steal) => steal.put(by, ready, idle),
            Self::Global(global) => global.put(by, ready, idle),
        }
    }
}
