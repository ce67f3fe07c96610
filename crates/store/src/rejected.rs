//! Why the store refuses to write.

use thiserror::Error;

/// Why a write was rejected.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// The item is longer than the store accepts.
    #[error("value longer than the store accepts")]
    TooLarge,
    /// Pins and uploads hold all memory that could be evicted.
    #[error("no memory left that may be evicted")]
    NoMemory,
    /// Pins and unfinished uploads hold as much memory as they may. Try again after a pin or an
    /// upload was dropped.
    #[error("too much memory held for slow peers")]
    HoldLimit,
    /// Memory will become free once another worker that may still use it becomes quiescent, or once
    /// a pin of it is dropped; or another worker is rewriting an item of the same index shard. The
    /// operation has waited for that as long as it may. Or the operation depends on the present
    /// item, which is in the tier only, and has to be [restored](crate::Worker::restore) first. Try
    /// again soon.
    #[error("another worker or a pin is in the way for the moment")]
    Deferred,
}
