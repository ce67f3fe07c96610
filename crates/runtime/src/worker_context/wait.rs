//! The wait of a worker for events: the pause before it, and its timeout.

use service::Worker;

use super::WorkerContext;
use crate::limits::{DRAIN_CHECK_NS, MEMORY_RETRY_NS};

impl<S: Worker> WorkerContext<S> {
    /// Sets up the calling thread for precise pauses, if the worker is configured to pause. The
    /// worker's thread calls this once, before its loop.
    pub(crate) fn set_up_thread(&self) {
        if self.setup.wait_policy.min_wait_ns > 0 {
            sys::thread::sleep_precisely();
        }
    }

    /// Returns whether the worker has to pause before it waits again: `min_wait_ns` is set and no
    /// connection can continue now.
    pub(crate) fn must_pause(&self) -> bool {
        self.setup.wait_policy.min_wait_ns > 0 && !self.has_work()
    }

    /// Sleeps until `min_wait_ns` after the last burst. Returns immediately if that time has
    /// passed, so the first request after a longer idle time is answered without a pause.
    pub(crate) fn pause(&self) {
        sys::clock::sleep_until_ns(self.last_burst_ns + self.setup.wait_policy.min_wait_ns);
    }

    /// Returns whether the next round has work to do even if no event arrives.
    pub(crate) fn has_work(&self) -> bool {
        !self.runnable.is_empty() || !self.long_sends.is_empty()
    }

    /// Returns the timeout of the next wait, in nanoseconds. `None` means that the wait has no
    /// timeout.
    pub(crate) fn wait_timeout_ns(&self) -> Option<u64> {
        let is_polling =
            self.last_wake_ns < self.last_burst_ns + self.setup.wait_policy.busy_poll_ns;
        if self.has_work() || is_polling {
            Some(0)
        } else if !self.waiting_for_memory.is_empty() {
            Some(MEMORY_RETRY_NS)
        } else {
            let drain_ns = self.stop_deadline.as_ref().map(|_| DRAIN_CHECK_NS);
            drain_ns.into_iter().chain(self.sweep_timeout_ns()).min()
        }
    }
}
