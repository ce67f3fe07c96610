//! Where operations on chains go, and what their answers say of the tail.

use chain::{Link, Next, Prefix};
use roce::wire::{AtomicEth, Reth};

use crate::addresses::{Inserted, Known};
use crate::chains::Entered;
use crate::config::ReadLookup;
use crate::flows::Swap;
use crate::limits::HOT_PERIOD;
use crate::middlebox::Middlebox;

/// What is to be done with a compare-and-swap.
pub(crate) enum Steered {
    /// It waits for another of this chain.
    Held(u32),
    /// It goes there.
    Sent(Swap),
}

impl Middlebox {
    /// The chain that an address belongs to, if that is known.
    fn chain_of(&self, known: &Known) -> Option<u32> {
        self.chains.checked(known.chain, known.chain_id)?;
        Some(known.chain)
    }

    /// The chain of a compare-and-swap: that of its target, or of the node that it links. A client
    /// whose slot was used anew expects another generation: the node there is not its target.
    pub(crate) fn chain_of_swap(&mut self, node: u8, atomic: &AtomicEth) -> Option<u32> {
        let target = self.addresses.get(node, atomic.address);
        let target = target.filter(|known| {
            let expected = Next::from_word(atomic.compare);
            !matches!(expected, Some(Next::Empty { .. })) || expected == Some(known.link.empty())
        });
        if let Some(chain) = target.and_then(|known| self.chain_of(&known)) {
            return Some(chain);
        }
        let link = Link::from_word(atomic.swap_or_add)?;
        let known = self.addresses.get(node, link.address())?;
        (known.link == link).then(|| self.chain_of(&known))?
    }

    /// Decides where a compare-and-swap goes, and counts it in its chain, which
    /// [`Middlebox::chain_of_swap`] has found.
    pub(crate) fn steer_swap(
        &mut self,
        now_ns: u64,
        node: u8,
        chain: Option<u32>,
        atomic: &AtomicEth,
    ) -> Steered {
        let AtomicEth {
            address, compare, ..
        } = *atomic;
        let mut swap = Swap {
            compare,
            expected: compare,
            target: address,
            word: atomic.swap_or_add,
            chain: None,
            epoch: None,
            is_barrier: false,
            is_converted: false,
            is_hot: false,
        };
        let Some(index) = chain else {
            self.counters.swaps_passed += 1;
            return Steered::Sent(swap);
        };
        self.count_hit(index);
        let append = self.append(node, index, atomic);
        let (switches, faults) = (self.config.switches, self.config.faults);
        let is_converting = switches.conversion;
        // Without mapping, only with the fault that allows it.
        let is_ordered = switches.mapping || is_converting;
        let chain = self.chains.get(index);
        swap.chain = Some((index, chain.id));
        let last = if is_ordered {
            chain.predicted
        } else {
            chain.tail
        };
        // A node that is linked twice would end its chain in a cycle.
        let append = append.filter(|(_, new)| chain.is_hot && last != Some(*new));
        if let Some((target, new)) = append {
            let is_exact_ignored = faults.ignores_exact && chain.is_owned;
            if chain.is_blocked() && !is_exact_ignored {
                return Steered::Held(index);
            }
            let to = last.unwrap_or(target);
            swap.is_hot = true;
            swap.is_converted = chain.is_owned && is_converting;
            swap.target = to.address();
            swap.expected = to.empty().word();
            chain.predicted = Some(new);
            self.counters.swaps_converted += u64::from(swap.is_converted);
            if swap.target == address {
                self.counters.swaps_kept += 1;
            } else {
                self.counters.swaps_steered += 1;
            }
        } else {
            self.counters.swaps_passed += 1;
            if !is_ordered {
                return Steered::Sent(swap);
            }
            if faults.ignores_closing && atomic.swap_or_add == Next::Closed.word() {
                swap.chain = None;
                return Steered::Sent(swap);
            }
            swap.is_barrier = true;
            chain.barriers += 1;
        }
        if chain.pending == 0 {
            chain.since_ns = now_ns;
        }
        chain.pending += 1;
        swap.epoch = Some(chain.epoch);
        Steered::Sent(swap)
    }

    /// The tail that a client expects and the node that it appends, if this is an unconditional
    /// append to this chain.
    fn append(&mut self, node: u8, chain: u32, atomic: &AtomicEth) -> Option<(Link, Link)> {
        let config = &self.config;
        let is_steerable = atomic.key == config.keys.steerable || config.faults.steers_exact;
        if !is_steerable || !config.switches.write_steering {
            return None;
        }
        let new = Link::from_word(atomic.swap_or_add)?;
        if !self.is_in_memory(new.address(), 8) {
            return None;
        }
        let target = self.addresses.get(node, atomic.address)?;
        let known = self.addresses.get(node, new.address())?;
        // A client whose slot was reused expects another generation.
        let is_current = target.link.empty().word() == atomic.compare;
        let is_new = known.link == new && !known.is_linked && known.chain_id == target.chain_id;
        let is_of_chain = self.chain_of(&target) == Some(chain);
        (is_current && is_new && is_of_chain).then_some((target.link, new))
    }

    /// Notes the answer to a compare-and-swap. Returns the original value that the client sees, and
    /// the chain whose waiting connections may continue.
    pub(crate) fn finish_swap(
        &mut self,
        node: u8,
        swap: &Swap,
        original: u64,
    ) -> (u64, Option<u32>) {
        let faults = self.config.faults;
        let is_empty = matches!(Next::from_word(original), Some(Next::Empty { .. }));
        let is_success = original == swap.expected || (faults.ignores_generation && is_empty);
        let chain = swap
            .chain
            .filter(|(index, id)| self.chains.checked(*index, *id).is_some());
        let chain = chain.map(|(index, _)| index);
        if let Some(link) = Link::from_word(swap.word).filter(|_| is_success) {
            self.addresses.set_linked(node, link);
        }
        if let Some(index) = chain {
            let was_owned = self.chains.get(index).is_owned;
            if is_success {
                self.note_success(node, index, swap);
            } else {
                self.note_failure(node, index, swap, original);
            }
            let chain = self.chains.get(index);
            // Also after one that moved the anchor: the tail may have changed before it.
            if chain.pending == 0 {
                chain.predicted = chain.tail;
            }
            self.counters.tails_owned += u64::from(!was_owned && chain.is_owned);
            self.counters.tails_disowned += u64::from(was_owned && !chain.is_owned);
        }
        if is_success || faults.always_succeeded {
            self.counters.swaps_succeeded += 1;
            return (swap.compare, chain);
        }
        self.counters.swaps_failed += 1;
        if original != swap.compare {
            return (original, chain);
        }
        // The target was used anew, for a node whose generation happens to be the one that the
        // client expects of another node.
        self.counters.originals_replaced += 1;
        let generation = match Next::from_word(original) {
            Some(Next::Empty { generation }) => generation ^ 1,
            _ => 0,
        };
        (Next::Empty { generation }.word(), chain)
    }

    /// Whether the chain counted this operation as on its way; not any more.
    fn settle(&mut self, index: u32, swap: &Swap) -> bool {
        let chain = self.chains.get(index);
        let is_counted = swap.epoch == Some(chain.epoch);
        if is_counted {
            chain.pending -= 1;
            chain.barriers -= u32::from(swap.is_barrier);
        }
        is_counted
    }

    fn note_success(&mut self, node: u8, index: u32, swap: &Swap) {
        let is_counted = self.settle(index, swap);
        if !swap.is_at_tail() {
            return;
        }
        let link = Link::from_word(swap.word).filter(|link| self.is_of(node, index, *link));
        let switches = self.config.switches;
        let is_ordered = switches.mapping || switches.conversion;
        let chain = self.chains.get(index);
        match link {
            Some(link) => {
                chain.tail = Some(link);
                let is_alone = is_counted && chain.pending == 0;
                chain.is_owned = if chain.is_owned {
                    is_counted
                } else {
                    // A WRITE says nothing of what was there before.
                    is_ordered && is_alone && swap.is_hot && !swap.is_converted
                };
            }
            // The chain has ended, or goes on at a node that is not known, or at another memory
            // node.
            None => {
                chain.forget_tail();
            }
        }
    }

    fn note_failure(&mut self, node: u8, index: u32, swap: &Swap, original: u64) {
        self.settle(index, swap);
        if !swap.is_at_tail() {
            return;
        }
        // The target may be in another chain, if its slot was used anew.
        let successor = Link::from_word(original).filter(|link| self.is_of(node, index, *link));
        if let Some(link) = successor {
            self.addresses.set_linked(node, link);
        }
        let chain = self.chains.get(index);
        let is_tail =
            |tail: Link| tail.address() == swap.target && tail.empty().word() == swap.expected;
        let was_tail = chain.tail.is_none_or(is_tail);
        let is_bypassed = chain.is_owned && (swap.is_hot || was_tail);
        if is_bypassed {
            self.counters.tails_bypassed += 1;
            chain.is_owned = false;
        }
        if is_bypassed || (!chain.is_owned && was_tail) {
            // The successor is further along the chain than the target, and linked.
            chain.tail = successor;
        }
    }

    /// Whether a link leads to a node that is known to be of this chain.
    fn is_of(&mut self, node: u8, index: u32, link: Link) -> bool {
        let known = self.addresses.get(node, link.address());
        known.is_some_and(|known| known.link == link && self.chain_of(&known) == Some(index))
            && self.is_in_memory(link.address(), 8)
    }

    /// Where a READ goes, and the chain that it belongs to.
    pub(crate) fn steer_read(&mut self, node: u8, reth: &Reth) -> (Option<u32>, u64) {
        if reth.key != self.config.keys.steerable || self.config.reads == ReadLookup::Off {
            return (None, reth.address);
        }
        self.counters.reads += 1;
        let known = self.addresses.get(node, reth.address);
        let Some(index) = known.and_then(|known| self.chain_of(&known)) else {
            self.counters.reads_unknown += 1;
            return (None, reth.address);
        };
        self.count_hit(index);
        let is_ordered = self.config.switches.mapping;
        let chain = self.chains.get(index);
        let is_predicting = (chain.is_owned && is_ordered) || self.config.faults.reads_unlinked;
        let to = if is_predicting {
            chain.predicted
        } else {
            chain.tail
        };
        let is_steered = chain.is_hot
            && self.config.switches.read_steering
            && self.config.reads == ReadLookup::Steer;
        let to = to.map(Link::address).filter(|address| {
            is_steered && *address != reth.address && self.is_in_memory(*address, reth.len.into())
        });
        self.counters.reads_steered += u64::from(to.is_some());
        (Some(index), to.unwrap_or(reth.address))
    }

    /// Learns from a WRITE that a slot was used anew, and, if it is that of a new node, which chain
    /// it belongs to.
    pub(crate) fn learn_node(&mut self, node: u8, reth: &Reth, payload: &[u8]) -> Option<u32> {
        let Prefix { next, own, chain } = Prefix::parse(payload)?;
        if own.address() != reth.address {
            return None;
        }
        let before = self.newest(node, own);
        let is_steerable = reth.key == self.config.keys.steerable;
        if !is_steerable || next != own.empty() || !self.config.shard.has(chain) {
            return None;
        }
        self.counters.nodes_written += 1;
        if let Some(before) = before {
            let is_same = before.link == own && before.chain_id == chain;
            return is_same.then(|| self.chain_of(&before))?;
        }
        let index = self.enter_chain(node, chain)?;
        let known = Known {
            link: own,
            chain_id: chain,
            chain: index,
            is_linked: false,
        };
        self.remember_address(node, known).then_some(index)
    }

    /// Learns from the response to a READ of a node of a chain. A node that has no successor may be
    /// one that a client has written and not linked: it is no tail for that.
    pub(crate) fn learn_read(&mut self, node: u8, payload: &[u8]) {
        let Some(Prefix { next, own, chain }) = Prefix::parse(payload) else {
            return;
        };
        let known = self.addresses.get(node, own.address());
        let known = known.filter(|known| known.link == own);
        // Other bytes could look like the beginning of a node.
        if known.is_none()
            && (chain::Node::parse(payload).is_err() || !self.config.shard.has(chain))
        {
            return;
        }
        let (index, successor) = match (known, next) {
            (Some(known), _) if known.chain_id != chain => return,
            (_, Next::Node(link)) => {
                let Some(index) = self.learn_linked(node, own, chain) else {
                    return;
                };
                (
                    Some(index),
                    self.learn_linked(node, link, chain).map(|_| link),
                )
            }
            (Some(known), Next::Empty { .. }) if known.is_linked => {
                (self.chain_of(&known), Some(own))
            }
            (Some(known), Next::Closed) => (self.chain_of(&known), None),
            _ => return,
        };
        let Some(index) = index else {
            return;
        };
        let chain = self.chains.get(index);
        // A hint that has a successor must be corrected at once, even while an operation is on its
        // way that may never be answered: clients that walk along the chain are steered to it.
        let is_hint_old = chain.tail.is_none() || chain.tail == Some(own);
        if !chain.is_owned && is_hint_old {
            chain.tail = successor;
            if chain.pending == 0 {
                chain.predicted = successor;
            }
        }
    }

    /// Learns that a node of this chain is linked, or is its beginning. Nothing if a newer node, or
    /// one of another chain, is known there.
    fn learn_linked(&mut self, node: u8, link: Link, chain: u64) -> Option<u32> {
        if !self.is_in_memory(link.address(), 8) {
            return None;
        }
        if let Some(known) = self.newest(node, link) {
            if known.link != link || known.chain_id != chain {
                return None;
            }
            self.addresses.set_linked(node, link);
            if let Some(index) = self.chain_of(&known) {
                return Some(index);
            }
        }
        let index = self.enter_chain(node, chain)?;
        let known = Known {
            link,
            chain_id: chain,
            chain: index,
            is_linked: true,
        };
        self.remember_address(node, known).then_some(index)
    }

    /// What is known of the slot of a node that was there, if that is no older one. An older one is
    /// forgotten.
    fn newest(&mut self, node: u8, link: Link) -> Option<Known> {
        let known = self.addresses.get(node, link.address())?;
        if known.link.generation() >= link.generation() {
            return Some(known);
        }
        self.addresses.remove(node, link.address());
        self.forget_address(&known);
        None
    }

    /// Counts an operation of a chain, and determines the hottest ones from time to time.
    pub(crate) fn count_hit(&mut self, index: u32) {
        self.chains.get(index).hit();
        if let Some(count) = self.config.hottest {
            self.until_hottest = self.until_hottest.wrapping_sub(1);
            if self.until_hottest == u32::MAX || self.until_hottest == 0 {
                self.until_hottest = HOT_PERIOD;
                self.chains.mark_hottest(count, &mut self.hits);
            }
        }
    }

    pub(crate) fn is_in_memory(&self, address: u64, len: u64) -> bool {
        let memory = &self.config.memory;
        let end = address.checked_add(len);
        address >= memory.start && end.is_some_and(|end| end <= memory.end)
    }

    fn enter_chain(&mut self, node: u8, id: u64) -> Option<u32> {
        // With mapping, each operation will be answered; without, its client may have died.
        let stale_ns = if self.config.switches.mapping {
            0
        } else {
            self.now_ns.saturating_sub(self.config.hold_max_ns)
        };
        let entered = self.chains.enter(node, id, stale_ns);
        match entered {
            Entered::Known(index) => Some(index),
            Entered::New(index) | Entered::Replaced(index) => {
                let is_eviction = matches!(entered, Entered::Replaced(_));
                self.counters.chains_learned += 1;
                self.counters.chains_evicted += u64::from(is_eviction);
                // With a limit, chains have to show that they are hot.
                self.chains.get(index).is_hot = self.config.hottest.is_none();
                Some(index)
            }
            Entered::Refused => {
                self.counters.chains_refused += 1;
                None
            }
        }
    }

    /// The node at this address is no longer there.
    fn forget_address(&mut self, known: &Known) {
        let Some(index) = self.chain_of(known) else {
            return;
        };
        let chain = self.chains.get(index);
        if chain.tail == Some(known.link) {
            let was_owned = chain.forget_tail();
            self.counters.tails_disowned += u64::from(was_owned);
        }
    }

    /// Remembers an address; false if there is no space. A tail that operations are on their way to
    /// is kept, as are the nodes that they may link. A tail that is no longer found is not owned.
    fn remember_address(&mut self, node: u8, known: Known) -> bool {
        let chains = &self.chains;
        let is_pinned = |known: &Known| {
            chains
                .checked(known.chain, known.chain_id)
                .is_some_and(|chain| {
                    let is_tail = chain.tail == Some(known.link);
                    chain.pending > 0 && (is_tail || !known.is_linked)
                })
        };
        match self.addresses.insert(node, known, is_pinned) {
            Inserted::Done => true,
            Inserted::Evicted(evicted) => {
                self.counters.addresses_evicted += 1;
                self.forget_address(&evicted);
                true
            }
            Inserted::Refused => {
                self.counters.addresses_refused += 1;
                false
            }
        }
    }
}
