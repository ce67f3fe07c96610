//! The state of a processor that no other thread uses.

use std::cell::Cell;
use std::sync::Arc;

use crate::shared::{Anchor, Shared};
use crate::stack::ProcessorStacks;

/// The state of a processor that only its own thread uses. The state that other threads also use is
/// the [`ProcessorSlot`](crate::slot::ProcessorSlot).
pub(crate) struct Local {
    /// The number of the processor.
    pub(crate) number: usize,
    /// This processor's reference to the state that all processors of the runtime share.
    pub(crate) anchor: Arc<Anchor>,
    /// The free stacks of this processor: those of fibres that ended on it.
    pub(crate) stacks: ProcessorStacks,
    /// The number of times that this processor has run a fibre.
    pub(crate) runs: Cell<u64>,
    /// The last reading of the clock, in [`ticks`](crate::sync::ticks). The scheduler shares it
    /// ([`TakeState::clock`](crate::scheduler::TakeState::clock)).
    pub(crate) clock: Cell<u64>,
}

impl Local {
    pub(crate) fn shared(&self) -> &Shared {
        &self.anchor.shared
    }
}
