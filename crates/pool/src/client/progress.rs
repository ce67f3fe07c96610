//! How an operation goes on: one step after the other, each with at most one operation on memory.
//!
//! ```text
//! Get      read the tail ─▶ follow successors ─▶ result
//! Set      take a slot ─▶ WRITE ─▶ swap at the tail ─▶ result
//!                                    └ lost: follow what was found, and swap there
//! Change   read the tail ─▶ follow ─▶ decide ─▶ take a slot ─▶ WRITE ─▶ swap there ─▶ result
//!             ▲                                                           └ lost
//!             └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! A node that was read counts only if its chain is right and it is the one that was addressed, or
//! lies elsewhere: then a middlebox has redirected the READ. If it lies at the address, but with
//! another generation, the link was old.
//!
//! A swap that got no answer, because the connection was lost, may have been executed. Its
//! queue pair is gone when the next connection is accepted, so then it is certain. The client goes
//! to the end of the chain, and then reads its own node. If that has no successor and is not the
//! one at the end, it was not linked before the end was read. The order matters: nodes that the
//! anchor has passed are not met on the way, and are known by their successors only.

use chain::limits::PREFIX_LEN;
use chain::{Kind, Link, Next, Node, node_len};
use roce::endpoint::{Completion, Outcome as Done, Request};
use roce::wire::AtomicEth;

use super::Client;
use super::cache::Entry;
use crate::layout::{EXACT, STEERABLE, slot_len};
use crate::limits::ATTEMPTS_MAX;
use crate::message::Edge;
use crate::operation::{Action, Item, NewItem, Operation, OperationError, Outcome, Refusal};

/// The content of a tombstone.
static NOTHING: NewItem = NewItem {
    value: Vec::new(),
    client_flags: 0,
    expiry_s: 0,
};

/// Bytes that are read of a node whose length is unknown.
const GUESSED_LEN: u32 = 512;

/// An operation in progress.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) id: u64,
    pub(super) deadline_ns: u64,
    pub(super) operation: Operation,
    /// The epoch of which the client knew when the operation began.
    pub(super) epoch: u64,
    pub(super) step: Step,
    /// The operation on memory that is not complete.
    pub(super) token: Option<u64>,
    pub(super) entry: Option<Entry>,
    /// What is written, if that depends on what was there.
    pub(super) draft: Option<Draft>,
    pub(super) own: Option<Own>,
    /// The node at which the operation's is to be linked.
    pub(super) target: Option<Link>,
    /// Nodes followed since the last beginning.
    pub(super) walked: u32,
    pub(super) attempts: u32,
    pub(super) has_seen_anchor: bool,
    /// The chain of the key that was found closed last.
    pub(super) closed: Option<u64>,
    pub(super) refusals: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) kind: Kind,
    pub(super) item: NewItem,
}

/// The node that the operation writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) link: Link,
    /// Length of the node in bytes.
    len: u32,
}

/// What an operation does next, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The chain of the key, from the metadata service.
    Lookup {
        create: bool,
        /// The request was made after the operation had come to this step.
        is_requested: bool,
    },
    Read {
        target: Link,
        len: u32,
        purpose: Purpose,
    },
    /// A slot of this length.
    Slot {
        slot_len: u32,
    },
    Write,
    Swap,
}

/// Why a node is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// For its value.
    Value,
    /// To link another after it.
    Link,
    /// For what follows: it is the anchor.
    Anchor,
    /// To find the end of the chain, as the operation's node may be linked.
    Resolve,
    /// To find out whether the operation's node, which is not at the end, has a successor.
    Own,
}

impl Active {
    /// Whether the node may have been linked without the client knowing.
    pub(super) fn may_be_linked(&self) -> bool {
        match self.step {
            Step::Swap => self.token.is_some(),
            Step::Read { purpose, .. } => matches!(purpose, Purpose::Resolve | Purpose::Own),
            _ => false,
        }
    }

    /// Whether the operation waits for memory that was refused before.
    pub(super) fn was_refused_memory(&self) -> bool {
        self.refusals > 0 && matches!(self.step, Step::Slot { .. })
    }

    /// What the operation writes, once it is known.
    fn content(&self) -> Option<(Kind, &NewItem)> {
        match &self.operation.action {
            Action::Get => None,
            Action::Set(item) => Some((Kind::Value, item)),
            Action::Delete => Some((Kind::Tombstone, &NOTHING)),
            Action::Change(_) => self.draft.as_ref().map(|draft| (draft.kind, &draft.item)),
        }
    }

    /// Length of the node that the operation writes, in bytes.
    fn own_len(&self) -> usize {
        let value_len = self.content().map_or(0, |(_, item)| item.value.len());
        node_len(self.operation.key.len(), value_len)
    }

    /// Length of the value in bytes that the operation has made of what was there.
    pub(super) fn draft_len(&self) -> usize {
        let draft = self.draft.as_ref();
        draft.map_or(0, |draft| draft.item.value.len())
    }

    pub(super) fn is_exact(&self) -> bool {
        matches!(self.operation.action, Action::Change(_))
    }

    /// Why nodes of the chain are read on the way to its end.
    pub(super) fn purpose(&self) -> Purpose {
        match self.operation.action {
            Action::Get | Action::Change(_) => Purpose::Value,
            Action::Set(_) | Action::Delete => Purpose::Link,
        }
    }

    pub(super) fn read(&mut self, target: Link, purpose: Purpose) {
        let len = match purpose {
            Purpose::Value => match self.entry {
                Some(entry) if entry.len > 0 => entry.len,
                _ => GUESSED_LEN,
            },
            _ => PREFIX_LEN as u32,
        };
        self.step = Step::Read {
            target,
            len,
            purpose,
        };
    }
}

impl Client {
    pub(super) fn begin(&mut self, id: u64, deadline_ns: u64, operation: Operation) {
        let entry = self.cache.get(&operation.key);
        self.active.push(Active {
            id,
            deadline_ns,
            operation,
            epoch: self.session.epoch,
            step: Step::Lookup {
                create: false,
                is_requested: false,
            },
            token: None,
            entry: None,
            draft: None,
            own: None,
            target: None,
            walked: 0,
            attempts: 0,
            has_seen_anchor: false,
            closed: None,
            refusals: 0,
        });
        self.enter(self.active.len() - 1, entry);
    }

    /// Begins, or begins again, with what is known of the chain.
    fn enter(&mut self, index: usize, entry: Option<Entry>) {
        let active = &mut self.active[index];
        active.entry = entry;
        active.walked = 0;
        active.has_seen_anchor = false;
        let Some(entry) = entry else {
            let create = match &active.operation.action {
                Action::Set(_) => true,
                Action::Change(change) => change.creates(),
                Action::Get | Action::Delete => false,
            };
            active.step = Step::Lookup {
                create,
                is_requested: false,
            };
            return;
        };
        match active.purpose() {
            Purpose::Link => {
                active.target = Some(entry.tail);
                self.want_slot(index);
            }
            purpose => active.read(entry.tail, purpose),
        }
    }

    /// The chain of a key is requested from the metadata service now.
    pub(super) fn mark_requested(&mut self, key: &[u8]) {
        for active in &mut self.active {
            if let Step::Lookup { is_requested, .. } = &mut active.step
                && active.operation.key == key
            {
                *is_requested = true;
            }
        }
    }

    /// A reply has come: where the chain of a key is, or that it had none. The latter may have
    /// changed before operations came that have begun since the request.
    pub(super) fn looked_up(&mut self, key: &[u8], entry: Option<Entry>) {
        for index in (0..self.active.len()).rev() {
            let active = &self.active[index];
            let Step::Lookup {
                create,
                is_requested,
            } = active.step
            else {
                continue;
            };
            if active.operation.key != key {
                continue;
            }
            if entry.is_some() {
                self.enter(index, entry);
            } else if is_requested && !create {
                self.release_own(index);
                self.finish(index, Ok(Outcome::Missing));
            }
        }
    }

    /// The metadata service makes no more chains.
    pub(super) fn chains_are_full(&mut self, key: &[u8]) {
        for index in (0..self.active.len()).rev() {
            let active = &self.active[index];
            let is_creating = matches!(active.step, Step::Lookup { create: true, .. });
            if is_creating && active.operation.key == key {
                self.release_own(index);
                self.finish(index, Err(OperationError::Full));
            }
        }
    }

    /// Gives free slots to the operations that wait for some.
    pub(super) fn take_slots(&mut self) {
        for index in (0..self.active.len()).rev() {
            if let Step::Slot { slot_len } = self.active[index].step {
                self.take_slot(index, slot_len);
            }
        }
    }

    /// Starts what every operation can start now.
    pub(super) fn advance(&mut self) {
        self.take_slots();
        for index in 0..self.active.len() {
            if self.active[index].token.is_none() {
                self.post(index);
            }
        }
    }

    /// Posts the operation on memory that the step needs, if there is a connection.
    fn post(&mut self, index: usize) {
        let active = &self.active[index];
        let key = if active.is_exact() { EXACT } else { STEERABLE };
        let request = match active.step {
            Step::Lookup { .. } | Step::Slot { .. } => return,
            Step::Read {
                target,
                len,
                purpose,
            } => Request::Read {
                address: target.address(),
                key: match purpose {
                    Purpose::Anchor | Purpose::Resolve | Purpose::Own => EXACT,
                    Purpose::Value | Purpose::Link => key,
                },
                len,
            },
            Step::Write => {
                let Some(bytes) = self.node_bytes(index) else {
                    return;
                };
                let own = self.active[index].own;
                Request::Write {
                    address: own.map_or(0, |own| own.link.address()),
                    key: STEERABLE,
                    bytes,
                    immediate: None,
                }
            }
            Step::Swap => {
                let (Some(target), Some(own)) = (active.target, active.own) else {
                    return;
                };
                Request::CompareSwap(AtomicEth {
                    address: target.address(),
                    key,
                    compare: target.empty().word(),
                    swap_or_add: own.link.word(),
                })
            }
        };
        let count = match &request {
            Request::Read { .. } => &mut self.counters.reads,
            Request::Write { .. } => &mut self.counters.writes,
            _ => &mut self.counters.swaps,
        };
        let token = self.next_token;
        if let Some(channel) = &mut self.channel
            && channel.post(token, request)
        {
            *count += 1;
            self.next_token += 1;
            self.active[index].token = Some(token);
        }
    }

    /// The node of an operation as it is written.
    fn node_bytes(&self, index: usize) -> Option<Vec<u8>> {
        let active = &self.active[index];
        let (own, entry) = (active.own?, active.entry?);
        let (kind, item) = active.content()?;
        let node = Node {
            next: own.link.empty(),
            own: own.link,
            chain: entry.chain,
            kind,
            client_flags: item.client_flags,
            expiry_s: item.expiry_s,
            key: &active.operation.key,
            value: &item.value,
        };
        let mut bytes = Vec::with_capacity(node.len());
        node.emit(&mut bytes).then_some(bytes)
    }

    /// An operation on memory is complete.
    pub(super) fn completed(&mut self, completion: Completion) {
        let is_it = |active: &Active| active.token == Some(completion.id);
        let Some(index) = self.active.iter().position(is_it) else {
            return;
        };
        let active = &mut self.active[index];
        active.token = None;
        match (active.step, completion.result) {
            (Step::Read { .. }, Ok(Done::Read(bytes))) => self.was_read(index, &bytes),
            (Step::Write, Ok(Done::Done)) => active.step = Step::Swap,
            (Step::Swap, Ok(Done::Original(word))) => self.was_swapped(index, word),
            (Step::Swap, _) => {
                // It may have been executed.
                if let Some(entry) = active.entry {
                    active.read(entry.anchor, Purpose::Resolve);
                }
            }
            // Everything else is done again on the next connection.
            _ => {
                self.count_attempt(index);
            }
        }
    }

    /// Counts a failed attempt. Returns false if there were too many, and the operation has failed.
    pub(super) fn count_attempt(&mut self, index: usize) -> bool {
        let active = &mut self.active[index];
        active.attempts += 1;
        if active.attempts <= ATTEMPTS_MAX {
            return true;
        }
        let error = if active.may_be_linked() {
            OperationError::Unknown
        } else {
            self.release_own(index);
            OperationError::Contended
        };
        self.finish(index, Err(error));
        false
    }

    /// Begins again at the anchor: what is known of the chain is old.
    pub(super) fn restart(&mut self, index: usize) {
        self.counters.restarts += 1;
        let active = &mut self.active[index];
        let Some(entry) = active.entry else {
            return;
        };
        active.walked = 0;
        active.has_seen_anchor = true;
        // Nothing from before counts any more.
        active.epoch = self.session.epoch;
        active.read(entry.anchor, Purpose::Anchor);
        self.count_attempt(index);
    }

    /// The chain has ended: the key has another one, or none.
    pub(super) fn leave_chain(&mut self, index: usize) {
        let active = &mut self.active[index];
        if let Some(entry) = active.entry {
            active.closed = Some(entry.chain);
            self.cache.remove(&active.operation.key, entry.chain);
        }
        // The node has the number of the old chain.
        self.release_own(index);
        self.enter(index, None);
        self.count_attempt(index);
    }

    /// The next step is to write the operation's node, or to link it if it is written.
    pub(super) fn want_slot(&mut self, index: usize) {
        let active = &mut self.active[index];
        if active.own.is_some() {
            active.step = Step::Swap;
            return;
        }
        match slot_len(active.own_len(), self.slab_len) {
            Some(slot_len) => active.step = Step::Slot { slot_len },
            None => self.finish(index, Ok(Outcome::Refused(Refusal::TooLong))),
        }
    }

    fn take_slot(&mut self, index: usize, slot_len: u32) {
        let active = &mut self.active[index];
        if let Some(link) = self.slots.take(slot_len) {
            let len = active.own_len() as u32;
            debug_assert!(len <= slot_len);
            active.own = Some(Own { link, len });
            active.step = Step::Write;
        }
    }

    /// Gives the slot of a node back that was certainly not linked.
    pub(super) fn release_own(&mut self, index: usize) {
        if let Some(own) = self.active[index].own.take() {
            self.slots.free(own.link);
        }
    }

    fn was_swapped(&mut self, index: usize, word: u64) {
        let Some(target) = self.active[index].target else {
            return;
        };
        match Next::from_word(word) {
            Some(next) if next == target.empty() => self.was_linked(index, Some(target)),
            Some(Next::Node(link)) => {
                if self.count_attempt(index) {
                    self.follow(index, link);
                }
            }
            Some(Next::Closed) => self.leave_chain(index),
            // The slot of the target has another node by now.
            _ => self.restart(index),
        }
    }

    /// The operation's node is in the chain.
    pub(super) fn was_linked(&mut self, index: usize, target: Option<Link>) {
        let active = &mut self.active[index];
        let (Some(own), Some(entry)) = (active.own, active.entry) else {
            return;
        };
        self.counters.swaps_won += 1;
        self.session.link(Edge {
            chain: entry.chain,
            old: target.filter(|_| active.is_exact() || !self.config.is_steered),
            new: own.link,
        });
        let key = &active.operation.key;
        self.cache.set_tail(key, entry.chain, own.link, own.len);
        let content = active.draft.take().map(|draft| draft.item);
        let content = content.unwrap_or_default();
        let unique = own.link.word();
        self.finish(index, Ok(Outcome::Stored(Item { content, unique })));
    }
}
