//! Why the store refuses to write.

use thiserror::Error;

/// Why a write was rejected.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// The item is longer than the store accepts.
    #[error("value longer than the store accepts")]
    TooLarge,
    /// No memory is free, and pins and uploads hold all memory that could be evicted.
    #[error("no memory left that may be evicted")]
    NoMemory,
    /// Pins and unfinished uploads hold as much memory as they may. The caller receives the value
    /// into the spool, or tries again after a pin or an upload has been dropped.
    #[error("too much memory held for slow peers")]
    HoldLimit,
    /// Try again soon. There are four reasons. Memory is not free before another worker is
    /// quiescent or a pin is dropped. Or another worker is rewriting an item of the same index
    /// shard. In both cases the operation has waited as long as it may. Or the operation changes an
    /// item or creates it ([vivify](crate::Write::vivify)), and other workers have created and
    /// deleted the item during each attempt. Or the operation depends on the present item, which is
    /// in the tier only and has to be [restored](crate::Worker::restore) first.
    ///
    /// The reason is not reported. So a server that frees memory for deferred operations, for
    /// example by closing connections that hold pins, does so for all of them.
    #[error("another worker or a pin is in the way for the moment")]
    Deferred,
}
