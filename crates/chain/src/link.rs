//! Where a node is, and what follows it.

use crate::limits::{ADDRESS_BITS, ADDRESS_MAX, GENERATION_MAX};

/// The address of a node and the generation of its slot, in one word.
///
/// ```text
/// 63 ········ 40 39 ··············· 0
/// │ generation  │ address in bytes  │
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link(u64);

impl Link {
    /// A link to the node of this generation at this address. Nothing if the address is 0, too
    /// large or no multiple of eight, or the generation is 0 or too large.
    pub const fn new(address: u64, generation: u32) -> Option<Self> {
        let has_address = address != 0 && address <= ADDRESS_MAX && address.is_multiple_of(8);
        if has_address && generation != 0 && generation <= GENERATION_MAX {
            Some(Self((generation as u64) << ADDRESS_BITS | address))
        } else {
            None
        }
    }

    /// The link with this word, if that is one.
    pub const fn from_word(word: u64) -> Option<Self> {
        Self::new(address_of(word), generation_of(word))
    }

    /// The word in memory.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Address of the node's first byte, which is that of its `next`.
    pub const fn address(self) -> u64 {
        address_of(self.0)
    }

    /// How many nodes the slot had, with this one.
    pub const fn generation(self) -> u32 {
        generation_of(self.0)
    }

    /// What `next` of this node is until a successor is linked. A compare-and-swap that links one
    /// expects this word.
    pub const fn empty(self) -> Next {
        Next::Empty {
            generation: self.generation(),
        }
    }

    /// The link to the next node in the same slot; nothing if the slot is worn out.
    pub const fn successor(self) -> Option<Self> {
        Self::new(self.address(), self.generation() + 1)
    }
}

/// What follows a node: its word `next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Nothing yet: this is the last node.
    Empty {
        /// The generation of the slot that has this word; 0 if the slot was never used.
        generation: u32,
    },
    /// Nothing, for ever: the chain has ended. Its key may have another chain.
    Closed,
    /// A node.
    Node(Link),
}

/// The word of [`Next::Closed`]. Its address is no multiple of eight.
const CLOSED: u64 = u64::MAX;

impl Next {
    /// What this word means; nothing if it is none of the three.
    pub const fn from_word(word: u64) -> Option<Self> {
        if word == CLOSED {
            Some(Self::Closed)
        } else if address_of(word) == 0 {
            let generation = generation_of(word);
            Some(Self::Empty { generation })
        } else {
            match Link::from_word(word) {
                Some(link) => Some(Self::Node(link)),
                None => None,
            }
        }
    }

    /// The link to the successor, if there is one.
    pub const fn node(self) -> Option<Link> {
        match self {
            Self::Node(link) => Some(link),
            Self::Empty { .. } | Self::Closed => None,
        }
    }

    /// The word in memory.
    pub const fn word(self) -> u64 {
        match self {
            Self::Empty { generation } => (generation as u64) << ADDRESS_BITS,
            Self::Closed => CLOSED,
            Self::Node(link) => link.word(),
        }
    }
}

const fn address_of(word: u64) -> u64 {
    word & ((1 << ADDRESS_BITS) - 1)
}

const fn generation_of(word: u64) -> u32 {
    (word >> ADDRESS_BITS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_generations_in_their_bounds_make_links() {
        assert_eq!(Link::new(0, 1), None);
        assert_eq!(Link::new(12, 1), None);
        assert_eq!(Link::new(ADDRESS_MAX + 8, 1), None);
        assert_eq!(Link::new(8, 0), None);
        assert_eq!(Link::new(8, GENERATION_MAX + 1), None);
        let link = Link::new(ADDRESS_MAX, GENERATION_MAX).unwrap();
        assert_eq!(
            (link.address(), link.generation()),
            (ADDRESS_MAX, GENERATION_MAX)
        );
        assert_eq!(Link::from_word(link.word()), Some(link));
        assert_eq!(link.successor(), None, "the slot is worn out");
    }

    #[test]
    fn memory_never_used_is_empty_of_generation_zero() {
        assert_eq!(Next::from_word(0), Some(Next::Empty { generation: 0 }));
    }

    #[test]
    fn the_empty_word_of_a_slot_differs_in_each_generation() {
        let old = Link::new(4096, 7).unwrap();
        let new = old.successor().unwrap();
        assert_eq!(old.empty().word(), 7 << 40);
        assert_ne!(old.empty().word(), new.empty().word());
        assert_eq!(Next::from_word(new.empty().word()), Some(new.empty()));
    }

    #[test]
    fn an_ended_chain_is_no_link() {
        assert_eq!(Next::from_word(Next::Closed.word()), Some(Next::Closed));
        assert_eq!(Link::from_word(Next::Closed.word()), None);
        assert_eq!(Next::from_word(u64::MAX - 1), None);
    }
}
