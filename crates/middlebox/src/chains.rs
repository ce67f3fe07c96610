//! What is known of chains.
//!
//! ```text
//! linked in memory │ on their way, in order (owned tails only)
//!   … ──▶ tail ────┼──▶ node ──▶ node ──▶ predicted
//! ```
//!
//! A tail is a hint: the last node that is known to be linked. An owned tail is certain: every
//! operation that could link a successor passes here.

use std::collections::{HashMap, VecDeque};

use chain::Link;
use rapidhash::fast::RandomState;

use crate::limits::EVICTION_STEPS;

/// A chain.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Its number.
    pub(crate) id: u64,
    /// The memory node that has it.
    pub(crate) node: u8,
    /// The last node that is known to be linked.
    pub(crate) tail: Option<Link>,
    /// The last node after all operations on their way.
    pub(crate) predicted: Option<Link>,
    /// Nothing can link a successor to the tail that does not pass here.
    pub(crate) is_owned: bool,
    /// One of the hottest.
    pub(crate) is_hot: bool,
    /// Compare-and-swap operations on their way.
    pub(crate) pending: u32,
    /// Those of them that were not steered.
    pub(crate) barriers: u32,
    /// Changes when operations on their way are given up.
    pub(crate) epoch: u32,
    /// The shared queue pair, with mapping.
    pub(crate) shared: Option<u32>,
    /// When `pending` last rose from zero.
    pub(crate) since_ns: u64,
    /// A timer is set that ends waiting.
    pub(crate) is_armed: bool,
    /// Connections whose oldest request waits for this chain.
    pub(crate) waiters: VecDeque<u32>,
    hits: u32,
}

// Decision 022 states the memory that a chain takes.
const _: () = assert!(size_of::<Chain>() <= 128);

impl Chain {
    fn new(node: u8, id: u64) -> Self {
        Self {
            id,
            node,
            tail: None,
            predicted: None,
            is_owned: false,
            is_hot: true,
            pending: 0,
            barriers: 0,
            epoch: 0,
            shared: None,
            since_ns: 0,
            is_armed: false,
            waiters: VecDeque::new(),
            hits: 0,
        }
    }

    /// Counts an operation.
    pub(crate) fn hit(&mut self) {
        self.hits = self.hits.saturating_add(1);
    }

    /// Whether another compare-and-swap has to wait.
    pub(crate) fn is_blocked(&self) -> bool {
        if self.is_owned {
            self.barriers > 0
        } else {
            self.pending > 0
        }
    }

    /// Forgets where the tail is; true if it was owned.
    pub(crate) fn forget_tail(&mut self) -> bool {
        self.tail = None;
        if self.pending == 0 {
            self.predicted = None;
        }
        std::mem::take(&mut self.is_owned)
    }

    /// Gives up all operations on their way; true if the tail was owned.
    pub(crate) fn give_up(&mut self) -> bool {
        self.pending = 0;
        self.barriers = 0;
        self.epoch = self.epoch.wrapping_add(1);
        self.forget_tail()
    }
}

/// The chains, at most as many as configured.
#[derive(Debug)]
pub(crate) struct Chains {
    chains: Vec<Chain>,
    indices: HashMap<(u8, u64), u32, RandomState>,
    capacity: usize,
    hand: usize,
}

/// What became of a look-up that inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// The chain was known.
    Known(u32),
    /// It is new.
    New(u32),
    /// It is new and has replaced another.
    Replaced(u32),
    /// None can be replaced.
    Refused,
}

impl Chains {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            chains: Vec::new(),
            indices: HashMap::default(),
            capacity,
            hand: 0,
        }
    }

    pub(crate) fn get(&mut self, index: u32) -> &mut Chain {
        &mut self.chains[index as usize]
    }

    /// The chain at this index, if it has this number.
    pub(crate) fn checked(&self, index: u32, id: u64) -> Option<&Chain> {
        self.chains
            .get(index as usize)
            .filter(|chain| chain.id == id)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Chain)> {
        (0..).zip(&mut self.chains)
    }

    pub(crate) fn len(&self) -> usize {
        self.chains.len()
    }

    /// Number of entries of connections that wait.
    pub(crate) fn waiters(&self) -> usize {
        self.chains.iter().map(|chain| chain.waiters.len()).sum()
    }

    /// The index of a chain, which is inserted if it is not known.
    ///
    /// A chain is not replaced while operations are on their way that began after `stale_ns`.
    pub(crate) fn enter(&mut self, node: u8, id: u64, stale_ns: u64) -> Entered {
        if let Some(index) = self.indices.get(&(node, id)) {
            return Entered::Known(*index);
        }
        if self.chains.len() < self.capacity {
            let index = self.chains.len() as u32;
            self.chains.push(Chain::new(node, id));
            self.indices.insert((node, id), index);
            return Entered::New(index);
        }
        for _ in 0..EVICTION_STEPS.min(self.chains.len()) {
            self.hand = (self.hand + 1) % self.chains.len();
            let victim = &mut self.chains[self.hand];
            let is_settled = victim.pending == 0 || victim.since_ns < stale_ns;
            let is_idle = is_settled && victim.waiters.is_empty();
            if !is_idle {
                continue;
            }
            if victim.hits > 0 {
                // Second chance (Corbató, 1968).
                victim.hits /= 2;
                continue;
            }
            let index = self.hand as u32;
            self.indices.remove(&(victim.node, victim.id));
            *victim = Chain {
                epoch: victim.epoch.wrapping_add(1),
                is_armed: victim.is_armed,
                ..Chain::new(node, id)
            };
            self.indices.insert((node, id), index);
            return Entered::Replaced(index);
        }
        Entered::Refused
    }

    /// Marks the `count` chains with most operations as hot, and halves all counts.
    pub(crate) fn mark_hottest(&mut self, count: usize, scratch: &mut Vec<u32>) {
        scratch.clear();
        scratch.extend(self.chains.iter().map(|chain| chain.hits));
        let least = match scratch.len().checked_sub(count) {
            Some(rank) if count > 0 && rank > 0 => *scratch.select_nth_unstable(rank).1,
            Some(_) if count == 0 => u32::MAX,
            _ => 0,
        };
        let mut left = count;
        let above = self
            .chains
            .iter()
            .filter(|chain| chain.hits > least)
            .count();
        let mut ties = count.saturating_sub(above);
        for chain in &mut self.chains {
            let is_tie = chain.hits == least && ties > 0;
            ties -= usize::from(is_tie);
            chain.is_hot = left > 0 && (chain.hits > least || is_tie);
            left -= usize::from(chain.is_hot);
            chain.hits /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_idle_chains_are_replaced() {
        let mut chains = Chains::new(2);
        assert_eq!(chains.enter(0, 10, 0), Entered::New(0));
        assert_eq!(chains.enter(0, 11, 0), Entered::New(1));
        assert_eq!(chains.enter(0, 10, 0), Entered::Known(0));
        chains.get(0).pending = 1;
        chains.get(1).waiters.push_back(0);
        assert_eq!(chains.enter(0, 12, 0), Entered::Refused);
        chains.get(1).waiters.clear();
        assert_eq!(chains.enter(0, 12, 0), Entered::Replaced(1));
        assert!(chains.checked(1, 11).is_none());
        assert_eq!(chains.get(1).epoch, 1);
    }

    #[test]
    fn the_hottest_are_those_with_most_operations() {
        let mut chains = Chains::new(8);
        for id in 0..6 {
            chains.enter(0, id, 0);
            for _ in 0..id {
                chains.get(id as u32).hit();
            }
        }
        let hot = |chains: &mut Chains, count| -> Vec<u32> {
            chains.mark_hottest(count, &mut Vec::new());
            chains
                .iter_mut()
                .filter(|(_, chain)| chain.is_hot)
                .map(|(index, _)| index)
                .collect()
        };
        assert_eq!(hot(&mut chains, 2), [4, 5]);
        assert_eq!(hot(&mut chains, 0), [] as [u32; 0]);
        assert_eq!(hot(&mut chains, 100).len(), 6);
    }
}
