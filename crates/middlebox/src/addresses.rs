//! Which chain the node at an address belongs to.
//!
//! A cache with sets of eight: the hash of an address decides the set, and the entry that was not
//! used for the longest time makes room for a new one.

use chain::Link;

/// Entries of a set.
const WAYS: usize = 8;

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The node.
    pub(crate) link: Link,
    /// The number of its chain.
    pub(crate) chain_id: u64,
    /// The index of its chain, if that is still in the table of chains under this number.
    pub(crate) chain: u32,
    /// Whether a link to the node is known to be in memory.
    pub(crate) is_linked: bool,
}

/// What decides which entry of a set is used, in one line of the cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Head {
    /// Bits of the hashes of the entries; 0 for free ones.
    tags: [u32; WAYS],
    /// When each was used.
    stamps: [u32; WAYS],
}

const _: () = assert!(size_of::<Head>() == 64);
const _: () = assert!(size_of::<Option<(u8, Known)>>() == 32);

/// The addresses of nodes.
#[derive(Debug)]
pub(crate) struct Addresses {
    heads: Vec<Head>,
    /// Memory node and content, [`WAYS`] for each head.
    entries: Vec<Option<(u8, Known)>>,
    clock: u32,
}

/// What became of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// There was space, or the same address.
    Done,
    /// This one made room.
    Evicted(Known),
    /// All entries of the set are pinned.
    Refused,
}

/// Where an address would be.
#[derive(Clone, Copy)]
struct Location {
    set: usize,
    tag: u32,
}

impl Addresses {
    pub(crate) fn new(entries: usize) -> Self {
        let sets = entries.div_ceil(WAYS).next_power_of_two();
        Self {
            heads: vec![Head::default(); sets],
            entries: vec![None; sets * WAYS],
            clock: 0,
        }
    }

    fn locate(&self, node: u8, address: u64) -> Location {
        let hash = (address ^ (u64::from(node) << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Location {
            set: (hash >> 32) as usize & (self.heads.len() - 1),
            // Bits that do not choose the set, and never 0.
            tag: (hash >> 8) as u32 | 1,
        }
    }

    /// The entry of an address, as its number within the set.
    fn find(&self, location: Location, node: u8, address: u64) -> Option<usize> {
        let tags = &self.heads[location.set].tags;
        (0..WAYS).find(|way| {
            tags[*way] == location.tag
                && self.entries[location.set * WAYS + way]
                    .is_some_and(|(of, known)| of == node && known.link.address() == address)
        })
    }

    fn tick(&mut self) -> u32 {
        self.clock = self.clock.wrapping_add(1);
        self.clock
    }

    /// What is known of the node at an address, which counts as used.
    pub(crate) fn get(&mut self, node: u8, address: u64) -> Option<Known> {
        let location = self.locate(node, address);
        let way = self.find(location, node, address)?;
        let now = self.tick();
        self.heads[location.set].stamps[way] = now;
        self.entries[location.set * WAYS + way].map(|(_, known)| known)
    }

    /// Notes that a link to a node is in memory. Nothing if another node is known there.
    pub(crate) fn set_linked(&mut self, node: u8, link: Link) {
        let location = self.locate(node, link.address());
        let way = self.find(location, node, link.address());
        if let Some(way) = way
            && let Some((_, known)) = &mut self.entries[location.set * WAYS + way]
            && known.link == link
        {
            known.is_linked = true;
        }
    }

    /// Forgets the node at an address.
    pub(crate) fn remove(&mut self, node: u8, address: u64) {
        let location = self.locate(node, address);
        if let Some(way) = self.find(location, node, address) {
            self.heads[location.set].tags[way] = 0;
            self.entries[location.set * WAYS + way] = None;
        }
    }

    /// Inserts or replaces what is known of an address. Entries for which `is_pinned` are not
    /// evicted.
    pub(crate) fn insert(
        &mut self,
        node: u8,
        known: Known,
        is_pinned: impl Fn(&Known) -> bool,
    ) -> Inserted {
        let now = self.tick();
        let location = self.locate(node, known.link.address());
        let same = self.find(location, node, known.link.address());
        let head = &self.heads[location.set];
        let free = || (0..WAYS).find(|way| head.tags[*way] == 0);
        let (way, inserted) = if let Some(way) = same.or_else(free) {
            (way, Inserted::Done)
        } else {
            let evictable = |way: &usize| {
                let entry = &self.entries[location.set * WAYS + way];
                entry.is_some_and(|(_, known)| !is_pinned(&known))
            };
            let age = |way: &usize| now.wrapping_sub(head.stamps[*way]);
            let Some(way) = (0..WAYS).filter(evictable).max_by_key(age) else {
                return Inserted::Refused;
            };
            let evicted = self.entries[location.set * WAYS + way];
            (
                way,
                evicted.map_or(Inserted::Done, |(_, known)| Inserted::Evicted(known)),
            )
        };
        self.heads[location.set].tags[way] = location.tag;
        self.heads[location.set].stamps[way] = now;
        self.entries[location.set * WAYS + way] = Some((node, known));
        inserted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(address: u64) -> Known {
        Known {
            link: Link::new(address, 1).unwrap(),
            chain_id: address,
            chain: 0,
            is_linked: false,
        }
    }

    #[test]
    fn the_entry_unused_for_longest_makes_room_unless_it_is_pinned() {
        let mut addresses = Addresses::new(8);
        for number in 1..=8 {
            assert_eq!(
                addresses.insert(0, known(number * 8), |_| false),
                Inserted::Done
            );
        }
        assert!(addresses.get(0, 8).is_some());
        let pinned = |known: &Known| known.chain_id == 16;
        assert_eq!(
            addresses.insert(0, known(72), pinned),
            Inserted::Evicted(known(24))
        );
        assert_eq!(addresses.get(0, 24), None);
        assert_eq!(addresses.insert(0, known(80), |_| true), Inserted::Refused);
    }

    #[test]
    fn the_same_address_of_two_memory_nodes_is_two_entries() {
        let mut addresses = Addresses::new(64);
        addresses.insert(0, known(8), |_| false);
        assert_eq!(addresses.get(1, 8), None);
        addresses.insert(
            1,
            Known {
                chain_id: 5,
                ..known(8)
            },
            |_| false,
        );
        assert_eq!(addresses.get(0, 8).unwrap().chain_id, 8);
        let newer = Link::new(8, 2).unwrap();
        addresses.set_linked(0, newer);
        assert!(
            !addresses.get(0, 8).unwrap().is_linked,
            "another generation"
        );
        addresses.set_linked(0, known(8).link);
        assert!(addresses.get(0, 8).unwrap().is_linked);
    }
}
