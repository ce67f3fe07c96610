//! What a READ found: the value of the last node, a successor, or another node than expected.

use chain::limits::HEADER_LEN;
use chain::{Kind, Link, Next, Node, NodeError, Prefix};

use super::Client;
use super::cache::Entry;
use super::progress::{Draft, Purpose, Step};
use crate::limits::WALK_MAX;
use crate::operation::{Action, Decision, Item, NewItem, OperationError, Outcome};

impl Client {
    /// A node was read, or its beginning.
    pub(super) fn was_read(&mut self, index: usize, bytes: &[u8]) {
        let active = &self.active[index];
        let (
            Step::Read {
                target, purpose, ..
            },
            Some(entry),
        ) = (active.step, active.entry)
        else {
            return;
        };
        let prefix = Prefix::parse(bytes).filter(|prefix| {
            let is_at_address = prefix.own.address() == target.address();
            let may_be_elsewhere = matches!(purpose, Purpose::Value | Purpose::Link);
            let is_it = prefix.own == target || (may_be_elsewhere && !is_at_address);
            is_it && prefix.chain == entry.chain
        });
        let Some(prefix) = prefix else {
            self.was_not_found(index, target, purpose);
            return;
        };
        match (purpose, prefix.next) {
            (Purpose::Resolve, _) => self.resolve(index, prefix),
            (Purpose::Own, next) => self.resolve_own(index, next),
            (_, Next::Closed) => self.leave_chain(index),
            (Purpose::Anchor, Next::Node(link)) => {
                let purpose = self.active[index].purpose();
                self.active[index].read(link, purpose);
            }
            (_, Next::Node(link)) => self.follow(index, link),
            (Purpose::Link | Purpose::Anchor, Next::Empty { .. }) => {
                self.is_at_end(index, prefix.own);
            }
            (Purpose::Value, Next::Empty { .. }) => self.evaluate(index, bytes),
        }
    }

    /// Goes on to a successor.
    pub(super) fn follow(&mut self, index: usize, link: Link) {
        self.counters.stale += 1;
        let active = &mut self.active[index];
        active.walked += 1;
        if active.walked > WALK_MAX && !active.has_seen_anchor {
            self.restart(index);
        } else {
            let purpose = active.purpose();
            active.read(link, purpose);
        }
    }

    /// The last node was found by its prefix.
    fn is_at_end(&mut self, index: usize, tail: Link) {
        let active = &mut self.active[index];
        match active.purpose() {
            Purpose::Link => {
                active.target = Some(tail);
                self.want_slot(index);
            }
            // Only anchors are read so, and they have no value.
            _ => self.decide(index, tail, None),
        }
    }

    /// The last node was read for its value.
    fn evaluate(&mut self, index: usize, bytes: &[u8]) {
        let active = &mut self.active[index];
        let node = match Node::parse(bytes) {
            Ok(node) if node.key == active.operation.key => node,
            Err(NodeError::Truncated { len }) if len <= self.slab_len as usize => {
                if let Step::Read { len: read_len, .. } = &mut active.step {
                    *read_len = len as u32;
                }
                return;
            }
            // A READ of several packets may meet a WRITE; its next one does not.
            _ => {
                self.restart(index);
                return;
            }
        };
        if let Some(entry) = active.entry {
            let len = node.len().max(HEADER_LEN) as u32;
            let key = &active.operation.key;
            self.cache.set_tail(key, entry.chain, node.own, len);
            active.entry = Some(Entry { len, ..entry });
        }
        let has_value = node.kind == Kind::Value && !self.is_expired(node.expiry_s);
        let item = has_value.then(|| Item {
            content: NewItem {
                value: node.value.to_vec(),
                client_flags: node.client_flags,
                expiry_s: node.expiry_s,
            },
            unique: node.own.word(),
        });
        self.decide(index, node.own, item);
    }

    /// What the key has is known: it is that of `tail`.
    fn decide(&mut self, index: usize, tail: Link, item: Option<Item>) {
        let active = &mut self.active[index];
        let Action::Change(change) = &active.operation.action else {
            let outcome = item.map_or(Outcome::Missing, Outcome::Found);
            self.finish(index, Ok(outcome));
            return;
        };
        let (kind, item) = match change.decide(item.as_ref()) {
            Decision::Store(item) => (Kind::Value, item),
            Decision::Delete => (Kind::Tombstone, NewItem::default()),
            Decision::Missing => {
                self.release_own(index);
                self.finish(index, Ok(Outcome::Missing));
                return;
            }
            Decision::Refuse(refusal) => {
                self.release_own(index);
                self.finish(index, Ok(Outcome::Refused(refusal)));
                return;
            }
        };
        active.draft = Some(Draft { kind, item });
        active.target = Some(tail);
        // What was written before has another content.
        self.release_own(index);
        self.want_slot(index);
    }

    /// The node that was to be read is not there any more.
    fn was_not_found(&mut self, index: usize, target: Link, purpose: Purpose) {
        let active = &mut self.active[index];
        let anchor = active.entry.map(|entry| entry.anchor);
        match purpose {
            // The anchor is where it was for as long as its chain exists.
            Purpose::Anchor => self.leave_chain(index),
            Purpose::Value | Purpose::Link => self.restart(index),
            Purpose::Resolve if anchor == Some(target) => {
                active.target = None;
                self.read_own(index);
            }
            Purpose::Resolve => {
                if self.count_attempt(index)
                    && let Some(anchor) = anchor
                {
                    self.active[index].read(anchor, Purpose::Resolve);
                }
            }
            Purpose::Own => self.finish(index, Err(OperationError::Unknown)),
        }
    }

    /// Looks for the operation's node, up to the end of the chain.
    fn resolve(&mut self, index: usize, prefix: Prefix) {
        let active = &mut self.active[index];
        let own = active.own.map(|own| own.link);
        active.target = match prefix.next {
            Next::Node(link) if Some(link) == own => {
                self.was_linked(index, None);
                return;
            }
            Next::Node(link) => {
                active.read(link, Purpose::Resolve);
                return;
            }
            Next::Closed => None,
            Next::Empty { .. } => Some(prefix.own),
        };
        self.read_own(index);
    }

    /// The operation's node was not met on the way to the end of the chain, which is the target.
    fn read_own(&mut self, index: usize) {
        let active = &mut self.active[index];
        if let Some(own) = active.own {
            active.read(own.link, Purpose::Own);
        }
    }

    /// The operation's node was not at the end of the chain. `next` is what follows it.
    fn resolve_own(&mut self, index: usize, next: Next) {
        let active = &mut self.active[index];
        match (next, active.target) {
            (Next::Node(_) | Next::Closed, _) => self.was_linked(index, None),
            (Next::Empty { .. }, None) => self.leave_chain(index),
            (Next::Empty { .. }, Some(tail)) if active.is_exact() => {
                active.read(tail, Purpose::Value);
            }
            (Next::Empty { .. }, Some(_)) => active.step = Step::Swap,
        }
    }

    /// Whether the expiry of a value is over. The client's clock is not at hand where nodes are
    /// read, so it is that of the last call.
    fn is_expired(&self, expiry_s: u32) -> bool {
        expiry_s != 0 && u64::from(expiry_s) <= self.unix_s
    }
}
