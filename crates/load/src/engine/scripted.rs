//! The requests of a script, as the engine takes them.

use workload::Request;

use super::{Engine, RequestSource};
use crate::carrier::Carrier;
use crate::limits::{SCRIPT_AHEAD, SCRIPT_POLL_NS};

impl<C: Carrier> Engine<C> {
    /// The next request that is due, with its intended time and the number of its connection. In
    /// closed loop, a request is due while the queues are short.
    #[cold]
    pub(super) fn next_scripted(&mut self, now_ns: u64) -> Option<(u64, u32, Request)> {
        let ahead_max = SCRIPT_AHEAD * self.slots.len() * self.options.depth;
        let RequestSource::Script(source) = &mut self.source else {
            return None;
        };
        let intended_ns = self.timeline.start_ns + source.next_ns()?;
        let is_due = match source.open {
            true => intended_ns <= now_ns,
            false => {
                let is_running = intended_ns <= now_ns && now_ns < self.timeline.end_ns;
                is_running && self.waiting.len() < ahead_max
            }
        };
        if !is_due {
            return None;
        }
        let scripted = source.pop()?;
        let items = self.batch.script_items()?;
        let request = items.insert(scripted.op, scripted.item);
        Some((intended_ns, scripted.connection, request))
    }

    /// Forgets what a request of a script was about.
    #[inline]
    pub(super) fn remove_script_item(&mut self, request: &Request) {
        if let Some(items) = self.batch.script_items() {
            items.remove(request);
        }
    }

    /// Whether the script has no further requests. True: there is no script.
    pub(super) fn is_script_exhausted(&self) -> bool {
        match &self.source {
            RequestSource::Script(source) => source.is_exhausted(),
            _ => true,
        }
    }

    /// Whether a script has ended and all its requests are over.
    pub(super) fn is_script_done(&self) -> bool {
        matches!(self.source, RequestSource::Script(_))
            && self.is_script_exhausted()
            && self.waiting.len() == 0
            && self.in_flight == 0
    }

    /// The longest sleep while a script may have further requests.
    pub(super) fn script_poll_ns(&self) -> u64 {
        if self.is_script_exhausted() {
            u64::MAX
        } else {
            SCRIPT_POLL_NS
        }
    }
}
