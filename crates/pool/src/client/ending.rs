//! How operations end that have no result: the lease ends, time runs out, there is no memory.

use super::Client;
use super::progress::{Active, Step};
use crate::limits::WAITING_DRAFTS_LEN_MAX;
use crate::operation::OperationError;
use crate::slots::Slots;

impl Client {
    /// The lease has ended. What was not begun to be linked is done again with the next one.
    pub(super) fn expire(&mut self) {
        self.counters.expired += u64::from(self.session.client != 0);
        self.session.expire();
        self.channel = None;
        self.slots = Slots::default();
        for active in std::mem::take(&mut self.active).into_iter().rev() {
            if active.may_be_linked() {
                self.complete(active.id, Err(OperationError::Unknown));
            } else {
                let Active {
                    id,
                    deadline_ns,
                    operation,
                    ..
                } = active;
                self.waiting.push_front((id, deadline_ns, operation));
            }
        }
    }

    /// Gives operations this much more time, in which the process stood still.
    pub(crate) fn postpone(&mut self, by_ns: u64) {
        let waiting = self
            .waiting
            .iter_mut()
            .map(|(_, deadline_ns, _)| deadline_ns);
        let active = self.active.iter_mut().map(|active| &mut active.deadline_ns);
        for deadline_ns in waiting.chain(active) {
            *deadline_ns = deadline_ns.saturating_add(by_ns);
        }
    }

    /// Ends operations that take too long.
    pub(super) fn time_out(&mut self, now_ns: u64) {
        while let Some((id, deadline_ns, _)) = self.waiting.front()
            && *deadline_ns <= now_ns
        {
            let id = *id;
            self.waiting.pop_front();
            self.complete(id, Err(OperationError::Unavailable));
        }
        for index in (0..self.active.len()).rev() {
            let active = &self.active[index];
            if active.deadline_ns > now_ns {
                continue;
            }
            let error = if active.may_be_linked() {
                OperationError::Unknown
            } else if active.was_refused_memory() {
                OperationError::Full
            } else {
                OperationError::Unavailable
            };
            // A WRITE on its way would be to a slot with another node.
            if error != OperationError::Unknown && active.token.is_none() {
                self.release_own(index);
            }
            self.finish(index, Err(error));
        }
    }

    /// There was no slab: operations that have waited for one too often fail, and changes too, if
    /// others that wait have long values.
    pub(super) fn no_slab(&mut self) {
        let mut drafts_len = 0;
        for index in (0..self.active.len()).rev() {
            let active = &mut self.active[index];
            if !matches!(active.step, Step::Slot { .. }) {
                continue;
            }
            // Nothing of it is on its way, and what it knows of its chain is checked when it goes
            // on, as what any operation finds in the cache. So what is retired until now may be
            // freed: it may be that for which it waits.
            active.epoch = self.session.epoch;
            active.refusals += 1;
            let is_too_much = drafts_len + active.draft_len() > WAITING_DRAFTS_LEN_MAX;
            self.counters.changes_refused += u64::from(is_too_much);
            if is_too_much || active.refusals > self.config.refusals_max {
                self.finish(index, Err(OperationError::Full));
            } else {
                drafts_len += active.draft_len();
            }
        }
    }
}
