//! Where the pages get their figures.

use session::{LatencySnapshot, StatWriter};

/// The server, as the pages see it. Its methods are called on the admin worker's thread. They must
/// not wait for a worker of the cache.
pub trait Source: Send + Sync + 'static {
    /// Writes the statistics of `stats` and `stats curtail`.
    fn write_stats(&self, out: &mut dyn StatWriter);

    /// Writes the settings of `stats settings`.
    fn write_settings(&self, out: &mut dyn StatWriter);

    /// How long requests were in the server; `None` if that is not recorded.
    fn latencies(&self) -> Option<LatencySnapshot>;

    /// Whether the server accepts connections and is not about to stop.
    fn is_ready(&self) -> bool;
}
