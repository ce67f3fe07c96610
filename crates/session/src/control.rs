//! The interface through which a session reads and changes statistics and settings of the server
//! process.

use protocol::{DebugTime, Streams, Tuning};
use service::Ticket;

use crate::now::{ClockRefused, Now};
use crate::prefixes::PrefixSums;
use crate::tier_reads::TierRead;
use crate::watching::{WatchRefused, Watching};

/// Writes statistics in the format of one protocol.
pub trait StatWriter {
    /// Writes a statistic that is a number.
    fn number(&mut self, name: &[u8], value: u64);

    /// Writes a statistic that is a text.
    fn text(&mut self, name: &[u8], value: &[u8]);
}

/// The commands that clients may use. Flags of the server enable or disable them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions {
    /// `shutdown` (`-A`).
    pub shutdown: bool,
    /// `flush_all` and `prefix delete` (disabled by `-F`).
    pub flush: bool,
    /// `stats cachedump`, `stats detail`, `prefix list`, and the dumps of `lru_crawler` (disabled
    /// by `-X`).
    pub dump: bool,
    /// `watch` (disabled by `-W`).
    pub watch: bool,
}

impl Permissions {
    /// The permissions of a server without the flags `-A`, `-F`, `-X` and `-W`.
    pub const DEFAULT: Self = Self {
        shutdown: false,
        flush: true,
        dump: true,
        watch: true,
    };
}

/// The statistics and settings of the server process. Only rare commands use them (`stats`,
/// `verbosity`, `shutdown` and others), so the cost of dynamic dispatch does not matter.
pub trait ServerControl: Sync {
    /// Writes the statistics of `stats` and of `stats curtail`.
    fn write_stats(&self, now: Now, out: &mut dyn StatWriter);

    /// Whether `stats` leaves out this statistic of memcached, because it belongs to a part that is
    /// turned off ([`OptionalPart`](crate::OptionalPart)).
    fn is_optional(&self, statistic: &[u8]) -> bool {
        let _ = statistic;
        false
    }

    /// Writes the statistics of items by size class, for `stats items`.
    fn write_items(&self, now: Now, out: &mut dyn StatWriter) {
        let _ = (now, out);
    }

    /// Writes the statistics of commands by size class, for `stats slabs`.
    fn write_slabs(&self, out: &mut dyn StatWriter) {
        let _ = out;
    }

    /// Writes how long requests are in the server, for `stats latency`. Returns false if this
    /// server does not record these times.
    fn write_latencies(&self, out: &mut dyn StatWriter) -> bool {
        let _ = out;
        false
    }

    /// Writes the settings of `stats settings`.
    fn write_settings(&self, out: &mut dyn StatWriter);

    /// Resets the counts of `stats` to zero.
    fn reset_stats(&self);

    /// Changes the memory limit of items and index, in bytes. Returns false if the store rejects
    /// the new limit.
    fn set_memory_limit(&self, bytes: u64) -> bool;

    /// Wakes the server's main thread, which does the store's maintenance that makes system calls.
    fn wake_maintenance(&self);

    /// Sets the level of detail on standard error.
    fn set_verbosity(&self, level: u32);

    /// Whether `user` has this password. The time that this takes must not depend on the passwords.
    /// A server without passwords has no users.
    fn is_password(&self, user: &[u8], password: &[u8]) -> bool {
        let _ = (user, password);
        false
    }

    /// The commands that the server's flags enable.
    fn permissions(&self) -> Permissions;

    /// Stops the server as SIGTERM does.
    fn stop(&self);

    /// Whether `stats sizes` counts items (`-o track_sizes`).
    fn tracks_sizes(&self) -> bool {
        false
    }

    /// Adds a client that receives log lines of these streams. `descriptor` is the file descriptor
    /// of its connection.
    ///
    /// # Errors
    /// The reason, if that is not possible.
    fn watch(&self, streams: Streams, descriptor: i32) -> Result<Watching, WatchRefused> {
        let _ = (streams, descriptor);
        Err(WatchRefused::Unsupported)
    }

    /// Changes a setting that `stats settings` shows and that has no effect.
    fn tune(&self, tuning: Tuning) {
        let _ = tuning;
    }

    /// How many entries of the index a `prefix` command visits in a second. `None`: this server
    /// does not have the command.
    fn prefix_rate(&self) -> Option<u32> {
        None
    }

    /// Completes `ticket` after [`PREFIX_PAUSE`](crate::limits::PREFIX_PAUSE).
    fn pause(&self, ticket: Ticket<TierRead>) {
        ticket.complete(None);
    }

    /// Changes the server's clock, and returns the time that it shows then.
    ///
    /// # Errors
    /// The reason, if the clock does not change.
    fn change_clock(&self, change: DebugTime) -> Result<Now, ClockRefused> {
        let _ = change;
        Err(ClockRefused::Unsupported)
    }

    /// Enables or disables `lru_crawler`. Returns false if it was enabled or disabled already.
    fn set_crawler_enabled(&self, is_enabled: bool) -> bool {
        !is_enabled
    }

    /// Whether `lru_crawler` is enabled.
    fn is_crawler_enabled(&self) -> bool {
        true
    }

    /// Turns counting by key prefix on or off.
    fn set_prefix_counting(&self, is_on: bool);

    /// The counts by key prefix, for `stats detail dump`.
    fn prefixes(&self) -> PrefixSums;
}
