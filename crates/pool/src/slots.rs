//! The slots in which new nodes are written: those of a client, or of the metadata service.

use std::collections::{BTreeMap, VecDeque};

use chain::Link;

/// Slabs of one owner, and what is free in them.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// By address.
    slabs: BTreeMap<u64, Slab>,
    /// Links of the next nodes in free slots, by the length of the slot. The one that has been free
    /// for longest is first.
    free: BTreeMap<u32, VecDeque<Link>>,
}

#[derive(Debug)]
struct Slab {
    slot_len: u32,
    /// The present generation of each slot that was used, by index.
    generations: Vec<u32>,
    /// Of each slot: whether its node, of that generation, is in use.
    is_used: Vec<bool>,
    /// How many slots it has. Those that are not in the lists above were never used.
    slots: u32,
}

impl Slots {
    /// Adds a slab. The slots of one that is not fresh are added by [`Slots::free`].
    pub(crate) fn add(&mut self, address: u64, slab_len: u32, slot_len: u32, is_fresh: bool) {
        let slots = slab_len / slot_len.max(1);
        let used = if is_fresh { 0 } else { slots as usize };
        self.slabs.entry(address).or_insert_with(|| Slab {
            slot_len,
            generations: vec![0; used],
            is_used: vec![true; used],
            slots,
        });
    }

    /// Takes a slot of this length: the link of its next node.
    pub(crate) fn take(&mut self, slot_len: u32) -> Option<Link> {
        let queued = self.free.get_mut(&slot_len).and_then(VecDeque::pop_front);
        let link = queued.or_else(|| self.carve(slot_len))?;
        self.set(link, true);
        Some(link)
    }

    /// A slot that was never used.
    fn carve(&mut self, slot_len: u32) -> Option<Link> {
        self.slabs.iter_mut().find_map(|(address, slab)| {
            let next = slab.generations.len();
            let has_slot = slab.slot_len == slot_len && next < slab.slots as usize;
            if !has_slot {
                return None;
            }
            slab.generations.push(1);
            slab.is_used.push(true);
            Link::new(address + next as u64 * u64::from(slot_len), 1)
        })
    }

    /// How many slots of this length are free.
    #[cfg(test)]
    fn count(&self, slot_len: u32) -> usize {
        let queued = self.free.get(&slot_len).map_or(0, VecDeque::len);
        let of_length = self.slabs.values().filter(|slab| slab.slot_len == slot_len);
        let fresh: usize = of_length
            .map(|slab| slab.slots as usize - slab.generations.len())
            .sum();
        queued + fresh
    }

    /// The node with this link is not used any more. Ignored if its slot is free already or has a
    /// newer node. A slot that is worn out stays unused.
    pub(crate) fn free(&mut self, link: Link) {
        let Some((index, slab)) = self.find(link.address()) else {
            return;
        };
        let known = slab.generations[index];
        // The generations of a slab that another client had are learnt from what is freed.
        let is_known = known == link.generation() || known == 0;
        if !is_known || !slab.is_used[index] {
            return;
        }
        let slot_len = slab.slot_len;
        slab.is_used[index] = false;
        if let Some(next) = link.successor() {
            slab.generations[index] = next.generation();
            self.free.entry(slot_len).or_default().push_back(next);
        }
    }

    fn set(&mut self, link: Link, is_used: bool) {
        if let Some((index, slab)) = self.find(link.address()) {
            slab.generations[index] = link.generation();
            slab.is_used[index] = is_used;
        }
    }

    /// The slab and the index of a slot that was used before.
    fn find(&mut self, address: u64) -> Option<(usize, &mut Slab)> {
        let (start, slab) = self.slabs.range_mut(..=address).next_back()?;
        let offset = address - start;
        let slot_len = u64::from(slab.slot_len);
        let index = usize::try_from(offset / slot_len).ok()?;
        let is_slot = offset.is_multiple_of(slot_len) && index < slab.generations.len();
        is_slot.then_some((index, slab))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::limits::GENERATION_MAX;

    #[test]
    fn a_slot_is_reused_with_the_next_generation_and_last() {
        let mut slots = Slots::default();
        slots.add(4096, 4096, 2048, true);
        let first = slots.take(2048).unwrap();
        assert_eq!((first.address(), first.generation()), (4096, 1));
        slots.free(first);
        assert_eq!(slots.count(2048), 2);
        assert_eq!(slots.take(2048), first.successor());
        let second = slots.take(2048).unwrap();
        assert_eq!((second.address(), second.generation()), (6144, 1));
        assert_eq!(slots.take(2048), None);
        assert_eq!(slots.take(64), None);
    }

    #[test]
    fn only_the_present_node_of_a_slot_can_be_freed_and_once() {
        let mut slots = Slots::default();
        slots.add(4096, 4096, 4096, true);
        let first = slots.take(4096).unwrap();
        slots.free(first);
        slots.free(first);
        assert_eq!(slots.count(4096), 1, "freed twice");
        let second = slots.take(4096).unwrap();
        slots.free(first);
        assert_eq!(slots.count(4096), 0, "an old node");
        slots.free(Link::new(4096 + 64, 2).unwrap());
        slots.free(Link::new(64, 2).unwrap());
        assert_eq!(slots.count(4096), 0, "not slots of the client");
        slots.free(second);
        assert_eq!(slots.count(4096), 1);
    }

    #[test]
    fn slots_of_an_adopted_slab_are_used_once_they_are_freed() {
        let mut slots = Slots::default();
        slots.add(4096, 4096, 2048, false);
        assert_eq!(slots.take(2048), None);
        slots.free(Link::new(6144, 41).unwrap());
        assert_eq!(slots.take(2048), Link::new(6144, 42));
        let last = Link::new(4096, GENERATION_MAX).unwrap();
        slots.free(last);
        assert_eq!(slots.take(2048), None, "it is worn out");
    }
}
