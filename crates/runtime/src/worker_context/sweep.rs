//! Finding the connections that have been waiting for their peers for too long.
//!
//! There is no timer for each connection or request. Instead, the worker checks all its connections
//! once a second, in steps of at most [`SWEEP_CONNECTIONS`]. While it has no connections, it does
//! not wake up for this check. There is no check if neither the service nor the setup limits how
//! long a connection may wait for its peer.

use service::{Session, Worker};

use super::WorkerContext;
use crate::connection::Overdue;
use crate::connection_table::{ConnectionTable, Slot};
use crate::limits::{CHECK_LATE_NS, SWEEP_CONNECTIONS, SWEEP_INTERVAL_NS, SWEEP_STEP_NS};
use crate::setup::Shared;

/// Returns whether the service or the setup limits how long a connection may wait for its peer.
pub(crate) fn has_limits<S: Worker>(setup: &Shared) -> bool {
    setup.idle_s.is_some() || <S::Session as Session>::HAS_INPUT_DEADLINE
}

impl<S: Worker> WorkerContext<S> {
    /// Starts the periodic check of the connections, unless the check is running already or there
    /// is no limit. Called when a connection is opened.
    pub(super) fn begin_sweeps(&mut self) {
        if self.sweep_at_ns == u64::MAX && has_limits::<S>(&self.setup) {
            self.sweep_at_ns = self.last_wake_ns + SWEEP_INTERVAL_NS;
        }
    }

    /// Returns whether connections have to be checked now.
    #[inline]
    pub(crate) fn must_sweep(&self, now_ns: u64) -> bool {
        now_ns >= self.sweep_at_ns
    }

    /// Returns the number of nanoseconds from the last wake-up to the next check. `None` if there
    /// is nothing to check.
    pub(super) fn sweep_timeout_ns(&self) -> Option<u64> {
        let timeout_ns = self.sweep_at_ns.saturating_sub(self.last_wake_ns);
        (self.sweep_at_ns != u64::MAX).then_some(timeout_ns)
    }

    /// Runs one step of the check. Checks the next connections, and returns those that are overdue,
    /// each with the reason.
    pub(crate) fn overdue<I>(
        &mut self,
        table: &ConnectionTable<S, I>,
        now_ns: u64,
    ) -> Vec<(Slot, Overdue)> {
        let is_late = now_ns.saturating_sub(self.sweep_at_ns) > CHECK_LATE_NS;
        self.has_postponed_sweep = is_late && !self.has_postponed_sweep;
        if self.has_postponed_sweep {
            self.sweep_at_ns = now_ns + SWEEP_INTERVAL_NS;
            return Vec::new();
        }
        let slots = table.slots();
        let start = self.sweep_start.min(slots.end);
        let end = start.saturating_add(SWEEP_CONNECTIONS).min(slots.end);
        let overdue = |slot| Some((slot, table.get(slot)?.overdue(self.setup.idle_s, now_ns)?));
        let found = (start..end).filter_map(overdue).collect();
        (self.sweep_start, self.sweep_at_ns) = if end < slots.end {
            (end, now_ns + SWEEP_STEP_NS)
        } else if table.is_empty() {
            (0, u64::MAX)
        } else {
            (0, now_ns + SWEEP_INTERVAL_NS)
        };
        found
    }
}
