//! The engine's side of a script: which request is due next, and when the script is done.

use workload::Request;

use super::{Engine, RequestSource};
use crate::carrier::Carrier;
use crate::limits::{SCRIPT_AHEAD, SCRIPT_POLL_NS};

impl<C: Carrier> Engine<C> {
    /// Returns the script's next request if it is due, with its intended time and the number of its
    /// connection.
    #[cold]
    pub(super) fn next_scripted(&mut self, now_ns: u64) -> Option<(u64, u32, Request)> {
        let intended_ns = self.script_due_ns(now_ns).filter(|&ns| ns <= now_ns)?;
        let RequestSource::Script(source) = &mut self.source else {
            return None;
        };
        let scripted = source.pop()?;
        let items = self.batch.script_items()?;
        let request = items.insert(scripted.op, scripted.item);
        Some((intended_ns, scripted.connection, request))
    }

    /// Returns the time at which the script's next request is due. None: the script's reader has
    /// sent no further request yet. In a closed loop (not `open`), also None if the measured
    /// interval is over, or if the queues hold [`SCRIPT_AHEAD`] × the maximum number outstanding.
    fn script_due_ns(&mut self, now_ns: u64) -> Option<u64> {
        let ahead_max = SCRIPT_AHEAD * self.slots.len() * self.options.depth;
        let RequestSource::Script(source) = &mut self.source else {
            return None;
        };
        let intended_ns = self.timeline.start_ns + source.next_ns()?;
        let takes_more =
            source.open || (now_ns < self.timeline.end_ns && self.waiting.len() < ahead_max);
        takes_more.then_some(intended_ns)
    }

    /// Removes the keys and the value length of a script's request that was answered, failed or
    /// given up. Does nothing without a script: the batch then keeps no keys of single requests.
    #[inline]
    pub(super) fn remove_script_item(&mut self, request: &Request) {
        if let Some(items) = self.batch.script_items() {
            items.remove(request);
        }
    }

    /// Whether no further requests will come from a script. Also true if there is no script.
    pub(super) fn is_script_exhausted(&self) -> bool {
        match &self.source {
            RequestSource::Script(source) => source.is_exhausted(),
            _ => true,
        }
    }

    /// Whether there is a script, and all its requests are answered or failed.
    pub(super) fn is_script_done(&self) -> bool {
        matches!(self.source, RequestSource::Script(_))
            && self.is_script_exhausted()
            && self.waiting.len() == 0
            && self.in_flight == 0
    }

    /// Returns the time until which the thread may sleep before it looks at the script again. This
    /// is the time at which the next request is due or, if it is unknown, a short time from now.
    pub(super) fn script_wake_up_ns(&mut self, now_ns: u64) -> u64 {
        match self.script_due_ns(now_ns) {
            Some(due_ns) => due_ns,
            None if self.is_script_exhausted() => u64::MAX,
            None => now_ns.saturating_add(SCRIPT_POLL_NS),
        }
    }
}
