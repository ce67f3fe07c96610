//! What a session cannot know by itself: the process's statistics and switches.

use crate::now::Now;

/// The process, as seen from a conversation. RemainingKeys rarely, so a trait object will do.
pub trait ServerControl: Sync {
    /// Writes the lines of `stats`, without the end.
    fn write_stats(&self, now: Now, out: &mut Vec<u8>);

    /// Writes the lines of `stats settings`, without the end.
    fn write_settings(&self, out: &mut Vec<u8>);

    /// Counts from zero again.
    fn reset_stats(&self);

    /// Changes the memory of items and index, in bytes; false: it cannot be that.
    fn set_memory_limit(&self, bytes: u64) -> bool;

    /// The store has work for a thread that answers nobody: see `store::Tender`.
    fn wake_maintenance(&self);

    /// Says more or less on standard error.
    fn set_verbosity(&self, level: u32);
}
