//! Process-wide statistics and settings that a session can read and change.

use crate::now::Now;

/// The server process, as `stats`, `verbosity` and `cache_memlimit` see it. These commands are
/// rare, so dynamic dispatch is cheap enough.
pub trait ServerControl: Sync {
    /// Writes the `STAT` lines of `stats`, without the final `END`.
    fn write_stats(&self, now: Now, out: &mut Vec<u8>);

    /// Writes the `STAT` lines of `stats settings`, without the final `END`.
    fn write_settings(&self, out: &mut Vec<u8>);

    /// Restarts the counts at zero.
    fn reset_stats(&self);

    /// Changes the memory limit of items and index, in bytes. Returns false if the store rejects
    /// the new limit.
    fn set_memory_limit(&self, bytes: u64) -> bool;

    /// Wakes the main thread, because the store has maintenance that needs system calls.
    fn wake_maintenance(&self);

    /// Sets the level of detail on standard error.
    fn set_verbosity(&self, level: u32);
}
