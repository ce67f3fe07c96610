//! Chains of keys, and their anchors, which move on as nodes are linked.
//!
//! Clients say what they have linked, each for itself and in any order. From the first node after
//! the anchor, the links lead to the last node that is known; one compare-and-swap of the anchor's
//! `next` then takes all nodes before it out of reach. If a link is missing for long, or if a
//! middlebox has chosen where nodes were linked, the service reads the nodes instead.

use std::collections::BTreeMap;

use chain::limits::PREFIX_LEN;
use chain::{Kind, Link, Next, Node, Prefix, node_len};

use super::{Job, Metadata};
use crate::layout::{METADATA, slot_len};
use crate::limits::{CHAIN_EDGES_MAX, CHAINS_MAX, WAITERS_MAX};
use crate::message::{Answer, Edge};

/// How often links are missing before the chain is read.
const GAPS_MAX: u32 = 20;
/// Most nodes that are read or passed at once.
const PASSED_MAX: usize = 1024;

/// The chain of a key.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) key: Box<[u8]>,
    /// Nothing while it is not in memory.
    pub(super) anchor: Option<Link>,
    is_made: bool,
    /// What the anchor links to.
    pub(super) first: Option<Link>,
    /// The node that was linked last, as far as is known.
    tail: Option<Link>,
    /// Clients that wait for the anchor, or until it is known whether the chain has ended.
    pub(super) waiters: Vec<Waiter>,
    /// Links whose predecessors are not all known.
    edges: BTreeMap<Link, Link>,
    is_dirty: bool,
    /// The anchor is about to move, or nodes are read.
    pub(super) is_busy: bool,
    pub(super) must_be_read: bool,
    /// It may be closed, although this service has not closed it: it was found in memory and never
    /// read to its end, or a client has found it closed.
    is_unread: bool,
    /// Its end is about to be closed, or is.
    pub(super) is_closing: bool,
    /// The last node, if the key had no value in the last pass over all chains.
    pub(super) dead: Option<Link>,
    gaps: u32,
}

/// A request for the chain of a key that is not answered yet.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) client: u64,
    pub(super) sequence: u64,
    pub(super) create: bool,
}

impl Chain {
    fn new(key: &[u8]) -> Self {
        Self {
            key: key.into(),
            anchor: None,
            is_made: false,
            first: None,
            tail: None,
            waiters: Vec::new(),
            edges: BTreeMap::new(),
            is_dirty: false,
            is_busy: false,
            must_be_read: false,
            is_unread: false,
            is_closing: false,
            dead: None,
            gaps: 0,
        }
    }

    /// A chain whose anchor is in memory.
    pub(super) fn found(key: &[u8], anchor: Link, first: Option<Link>) -> Self {
        Self {
            anchor: Some(anchor),
            is_made: true,
            first,
            is_unread: first.is_some(),
            ..Self::new(key)
        }
    }

    /// The anchor, if it is in memory.
    pub(super) fn anchor(&self) -> Option<Link> {
        self.anchor.filter(|_| self.is_made)
    }

    /// The first node after the anchor, or the anchor itself, if nothing is in progress that may
    /// change it.
    pub(super) fn settled_first(&self) -> Option<Link> {
        let is_settled = !self.is_busy && !self.must_be_read && self.edges.is_empty();
        let anchor = self.anchor().filter(|_| is_settled)?;
        Some(self.first.unwrap_or(anchor))
    }

    fn answer(&self, chain: u64) -> Option<Answer> {
        if self.is_unread || self.is_closing {
            return None;
        }
        let anchor = self.anchor()?;
        Some(Answer::Chain {
            chain,
            anchor,
            tail: self.tail.or(self.first).unwrap_or(anchor),
        })
    }
}

impl Metadata {
    /// A client has found this chain closed. If it is that of the key, its end is read before a
    /// reply names it again.
    pub(super) fn doubt_chain(&mut self, now_ns: u64, key: &[u8], closed: Option<u64>) {
        let Some(number) = closed.filter(|number| self.by_key.get(key) == Some(number)) else {
            return;
        };
        if let Some(chain) = self.chains.get_mut(&number)
            && !chain.is_closing
        {
            chain.is_unread = true;
            if chain.is_busy {
                self.read_later(now_ns, number);
            }
        }
    }

    /// Answers where the chain of a key is, once it has one.
    pub(super) fn look_up(&mut self, client: u64, sequence: u64, key: &[u8], create: bool) {
        let known = self.by_key.get(key).copied();
        if let Some(number) = known
            && let Some(chain) = self.chains.get_mut(&number)
        {
            match chain.answer(number) {
                Some(answer) => self.answer(client, sequence, answer),
                None if chain.waiters.len() < WAITERS_MAX => {
                    chain.waiters.push(Waiter {
                        client,
                        sequence,
                        create,
                    });
                    if chain.is_unread && !chain.is_busy {
                        self.read_chain(number);
                    }
                }
                None => self.postpone(client, sequence),
            }
            return;
        }
        if !create {
            self.answer(client, sequence, Answer::Absent);
            return;
        }
        if self.chains.len() >= CHAINS_MAX || self.numbers_left().chain == 0 {
            self.answer(client, sequence, Answer::Full);
            return;
        }
        let number = self.superblock.next_chain;
        self.superblock.next_chain += 1;
        self.counters.chains += 1;
        let mut chain = Chain::new(key);
        chain.waiters.push(Waiter {
            client,
            sequence,
            create,
        });
        self.chains.insert(number, chain);
        self.by_key.insert(key.to_vec(), number);
        self.slotless.push_back(number);
        self.make_slotless();
    }

    /// Writes anchors for which there are slots, and gets slabs for the others.
    pub(super) fn make_slotless(&mut self) {
        while let Some(number) = self.slotless.front().copied() {
            let Some(chain) = self.chains.get_mut(&number) else {
                self.slotless.pop_front();
                continue;
            };
            let slab_len = self.superblock.layout.slab_len;
            // A key is shorter than any slab.
            let slot_len = slot_len(node_len(chain.key.len(), 0), slab_len).unwrap_or(slab_len);
            let Some(own) = self.slots.take(slot_len) else {
                self.get_own_slab(slot_len);
                return;
            };
            self.slotless.pop_front();
            chain.anchor = Some(own);
            let node = Node {
                next: own.empty(),
                own,
                chain: number,
                kind: Kind::Anchor,
                client_flags: 0,
                expiry_s: 0,
                key: &chain.key,
                value: &[],
            };
            let mut bytes = Vec::new();
            if node.emit(&mut bytes) {
                self.write(own.address(), bytes, Job::Anchor { chain: number });
            }
        }
    }

    /// Gets a slab for anchors, unless one is coming. Without one, those that wait are refused.
    fn get_own_slab(&mut self, slot_len: u32) {
        let is_coming = |job: &Job| match job {
            Job::Own { slab, .. } => {
                let entry = self.slabs[*slab as usize];
                entry.owner == METADATA && entry.slot_len == slot_len
            }
            _ => false,
        };
        let mut jobs = self.queue.iter().chain(self.posted.values());
        if jobs.any(|(_, job)| is_coming(job)) {
            return;
        }
        if let Some((slab, is_fresh)) = self.take_slab(METADATA, slot_len) {
            self.write_owner(slab, is_fresh, None);
            return;
        }
        self.counters.full += 1;
        self.sweep.was_full = true;
        for number in std::mem::take(&mut self.slotless) {
            if let Some(chain) = self.remove(number) {
                for waiter in chain.waiters {
                    self.answer(waiter.client, waiter.sequence, Answer::Full);
                }
            }
        }
    }

    /// Removes a chain from the tables. Its key has none from now on.
    pub(super) fn remove(&mut self, number: u64) -> Option<Chain> {
        let chain = self.chains.remove(&number)?;
        self.by_key.remove(&*chain.key);
        Some(chain)
    }

    /// The anchor of a chain is in memory.
    pub(super) fn made(&mut self, number: u64) {
        let Some(chain) = self.chains.get_mut(&number) else {
            return;
        };
        chain.is_made = true;
        self.answer_waiters(number);
    }

    /// Answers the requests that have waited for a chain, if it can be used now.
    pub(super) fn answer_waiters(&mut self, number: u64) {
        let Some(chain) = self.chains.get_mut(&number) else {
            return;
        };
        if let Some(answer) = chain.answer(number) {
            for waiter in std::mem::take(&mut chain.waiters) {
                self.answer(waiter.client, waiter.sequence, answer.clone());
            }
        }
    }

    /// A client has linked a node.
    pub(super) fn linked(&mut self, now_ns: u64, edge: &Edge) {
        let Some(chain) = self.chains.get_mut(&edge.chain) else {
            return;
        };
        chain.tail = Some(edge.new);
        match edge.old {
            Some(old) if chain.edges.len() < CHAIN_EDGES_MAX => {
                chain.edges.insert(old, edge.new);
            }
            _ => chain.must_be_read = true,
        }
        self.make_dirty(now_ns, edge.chain);
    }

    pub(super) fn make_dirty(&mut self, now_ns: u64, number: u64) {
        if let Some(chain) = self.chains.get_mut(&number)
            && !std::mem::replace(&mut chain.is_dirty, true)
        {
            let due_ns = now_ns.saturating_add(self.config.advance_ns);
            self.dirty.push_back((due_ns, number));
        }
    }

    /// Moves anchors on that are due.
    pub(super) fn advance_dirty(&mut self, now_ns: u64) {
        while let Some((due_ns, number)) = self.dirty.front().copied()
            && due_ns <= now_ns
        {
            self.dirty.pop_front();
            self.advance(now_ns, number);
        }
    }

    fn advance(&mut self, now_ns: u64, number: u64) {
        let Some(chain) = self.chains.get_mut(&number) else {
            return;
        };
        chain.is_dirty = false;
        let Some(anchor) = chain.anchor() else {
            return;
        };
        if chain.is_busy {
            self.make_dirty(now_ns, number);
            return;
        }
        if chain.must_be_read || chain.is_unread {
            self.read_chain(number);
            return;
        }
        if chain.first.is_none() {
            // A client has linked the first node to the anchor.
            chain.first = chain.edges.remove(&anchor);
        }
        let mut passed = Vec::new();
        let mut last = chain.first;
        while let Some(at) = last
            && passed.len() < PASSED_MAX
            && let Some(next) = chain.edges.remove(&at)
        {
            passed.push(at);
            last = Some(next);
        }
        chain.gaps = if passed.is_empty() { chain.gaps + 1 } else { 0 };
        if !chain.edges.is_empty() {
            chain.must_be_read = chain.gaps >= GAPS_MAX;
            self.make_dirty(now_ns, number);
        }
        if let Some(new) = last {
            self.move_anchor(number, new, passed);
        }
    }

    /// Links the anchor to `new` instead of the first of the nodes passed, which takes these out of
    /// reach. If none was passed, it stays.
    fn move_anchor(&mut self, number: u64, new: Link, passed: Vec<Link>) {
        let (Some(chain), Some(old)) = (self.chains.get_mut(&number), passed.first()) else {
            return;
        };
        let Some(anchor) = chain.anchor() else {
            return;
        };
        chain.is_busy = true;
        let from = Next::Node(*old);
        let chain = number;
        let job = Job::Advance { chain, new, passed };
        self.swap(anchor, from, Next::Node(new), job);
    }

    /// An anchor was to be moved from the first of the nodes passed to another; `word` is what it
    /// had.
    pub(super) fn advanced(
        &mut self,
        now_ns: u64,
        number: u64,
        new: Link,
        passed: &[Link],
        word: u64,
    ) {
        let Some(chain) = self.chains.get_mut(&number) else {
            return;
        };
        chain.is_busy = false;
        // After a lost connection, it may have been moved before.
        let had = Next::from_word(word).and_then(Next::node);
        if had == Some(new) || had == passed.first().copied() {
            chain.first = Some(new);
            self.retire(passed.iter().copied());
        } else {
            self.begins_elsewhere(now_ns, number, had);
        }
    }

    /// The anchor of a chain links to another node than was known.
    pub(super) fn begins_elsewhere(&mut self, now_ns: u64, number: u64, first: Option<Link>) {
        if let Some(chain) = self.chains.get_mut(&number) {
            chain.first = first;
            self.read_later(now_ns, number);
        }
    }

    /// Reads a chain when its anchor may move next.
    pub(super) fn read_later(&mut self, now_ns: u64, number: u64) {
        if let Some(chain) = self.chains.get_mut(&number) {
            chain.must_be_read = true;
            self.make_dirty(now_ns, number);
        }
    }

    /// Reads a chain from its first node to its end.
    fn read_chain(&mut self, number: u64) {
        let Some(chain) = self.chains.get_mut(&number) else {
            return;
        };
        let Some(anchor) = chain.anchor() else {
            return;
        };
        chain.must_be_read = false;
        chain.is_busy = true;
        chain.edges.clear();
        chain.gaps = 0;
        let at = chain.first.unwrap_or(anchor);
        self.read_node(number, at, Vec::new());
    }

    fn read_node(&mut self, number: u64, at: Link, passed: Vec<Link>) {
        let chain = number;
        let job = Job::Walk { chain, at, passed };
        self.read(at.address(), PREFIX_LEN as u32, job);
    }

    /// A node was read on the way to the end of its chain.
    pub(super) fn walked(
        &mut self,
        now_ns: u64,
        number: u64,
        at: Link,
        mut passed: Vec<Link>,
        bytes: &[u8],
    ) {
        self.counters.walked += 1;
        let Some(chain) = self.chains.get_mut(&number) else {
            return;
        };
        let is_anchor = chain.anchor == Some(at);
        let prefix = Prefix::parse(bytes).filter(|it| it.own == at && it.chain == number);
        if let Some(Prefix {
            next: Next::Node(next),
            ..
        }) = prefix
        {
            if is_anchor {
                chain.first = Some(next);
            } else {
                passed.push(at);
            }
            if passed.len() < PASSED_MAX {
                self.read_node(number, next, passed);
                return;
            }
            self.move_anchor(number, next, passed);
            self.read_later(now_ns, number);
            return;
        }
        chain.is_busy = false;
        chain.is_unread = false;
        let is_closed = prefix.is_some_and(|prefix| prefix.next == Next::Closed);
        if is_closed && is_anchor {
            self.remove_closed(number, []);
        } else if is_closed {
            passed.push(at);
            self.close_anchor(number, passed);
        } else if prefix.is_some() && !is_anchor {
            chain.tail = Some(at);
            self.move_anchor(number, at, passed);
        }
        // Otherwise the chain is not what it was said to be, and its anchor stays.
        self.answer_waiters(number);
    }
}
