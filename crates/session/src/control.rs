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

/// Which restricted commands clients may use. A flag of memcached enables or disables each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions {
    /// `shutdown` (enabled by `-A`).
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
    /// Writes all statistics that `stats` and `stats curtail` divide between them. The caller's
    /// writer leaves out those that its command does not show.
    fn write_stats(&self, now: Now, out: &mut dyn StatWriter);

    /// Whether this statistic of memcached belongs to a part of memcached that is turned off
    /// ([`OptionalPart`](crate::OptionalPart)). As in memcached, `stats` does not show it then.
    fn is_turned_off(&self, statistic: &[u8]) -> bool {
        let _ = statistic;
        false
    }

    /// Writes the statistics of items by size class, for `stats items`. By default there are none.
    fn write_items(&self, now: Now, out: &mut dyn StatWriter) {
        let _ = (now, out);
    }

    /// Writes the statistics of commands by size class, for `stats slabs`. By default there are
    /// none.
    fn write_slabs(&self, out: &mut dyn StatWriter) {
        let _ = out;
    }

    /// Writes how long requests are in the server (from the wake-up of a worker to the replies),
    /// for `stats latency`. Returns false if this server does not record these times.
    fn write_latencies(&self, out: &mut dyn StatWriter) -> bool {
        let _ = out;
        false
    }

    /// Writes the settings of `stats settings`.
    fn write_settings(&self, out: &mut dyn StatWriter);

    /// Executes `stats reset`: most counts of events start again from zero.
    fn reset_stats(&self);

    /// Changes the limit of the memory that items and index take together to `bytes`. Returns false
    /// if the store rejects the new limit.
    fn set_memory_limit(&self, bytes: u64) -> bool;

    /// Wakes the server's main thread. This thread does that part of the store's maintenance which
    /// makes system calls.
    fn wake_maintenance(&self);

    /// Sets how much detail the server writes to standard error.
    fn set_verbosity(&self, level: u32);

    /// Whether `user` exists and has this password. How long the call takes must not depend on the
    /// users' passwords. By default there are no users.
    fn is_password(&self, user: &[u8], password: &[u8]) -> bool {
        let _ = (user, password);
        false
    }

    /// Which restricted commands the server's flags allow.
    fn permissions(&self) -> Permissions;

    /// Stops the server in the same way as the signal SIGTERM.
    fn stop(&self);

    /// Whether `stats sizes` counts the items of each size (`-o track_sizes`). If not, the
    /// command replies that it is disabled.
    fn tracks_sizes(&self) -> bool {
        false
    }

    /// Adds a client that receives the log lines of these streams. `descriptor` is the file
    /// descriptor of the client's connection.
    ///
    /// # Errors
    /// Why the client was not added.
    fn watch(&self, streams: Streams, descriptor: i32) -> Result<Watching, WatchRefused> {
        let _ = (streams, descriptor);
        Err(WatchRefused::Unsupported)
    }

    /// Records a setting that tunes memcached and has no other effect here than that `stats
    /// settings` shows it.
    fn tune(&self, tuning: Tuning) {
        let _ = tuning;
    }

    /// The maximum number of entries of the index that a `prefix` command visits in a second.
    /// `None`: this server does not have the command.
    fn prefix_rate(&self) -> Option<u32> {
        None
    }

    /// Completes `ticket`, for which a `prefix` command waits, after at most the time
    /// [`PREFIX_PAUSE`](crate::limits::PREFIX_PAUSE). The default does not wait, because a server
    /// without a [`prefix_rate`](Self::prefix_rate) has no such command.
    fn pause(&self, ticket: Ticket<TierRead>) {
        ticket.complete(None);
    }

    /// Changes the server's clock, and returns the time that the clock shows after the change.
    ///
    /// # Errors
    /// Why the clock was not changed.
    fn change_clock(&self, change: DebugTime) -> Result<Now, ClockRefused> {
        let _ = change;
        Err(ClockRefused::Unsupported)
    }

    /// Enables or disables `lru_crawler`. Returns false if the call changed nothing. The default
    /// changes nothing, because the command is always enabled.
    fn set_crawler_enabled(&self, is_enabled: bool) -> bool {
        let _ = is_enabled;
        false
    }

    /// Whether `lru_crawler` is enabled.
    fn is_crawler_enabled(&self) -> bool {
        true
    }

    /// Turns the counting of accesses by key prefix on or off (`stats detail`).
    fn set_prefix_counting(&self, is_on: bool);

    /// The counts of accesses of the first `max` key prefixes after `after`, for `stats detail
    /// dump`.
    fn prefixes(&self, after: Option<&[u8]>, max: usize) -> PrefixSums;
}
