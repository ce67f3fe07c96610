//! Size classes: memcached's slab classes, as a scale of item sizes.
//!
//! The store has no slabs. Statistics are nevertheless counted by memcached's classes, because
//! operators and exporters know them. The class of an item is the one that memcached 1.6.45 would
//! store it in, with its default growth factor.

use crate::heap::block::Block;
use crate::limits::{FLAGS_LEN, ITEM_OVERHEAD};

/// Number of classes.
const CLASSES: usize = 39;
/// The largest item of the first class, in bytes: memcached's header of 48 bytes, and 48 bytes for
/// key, value and flags (memcached's option `-n`).
const FIRST_LEN: u32 = 96;
/// The largest item that memcached stores in one chunk (`slab_chunk_max`), in bytes. Longer items,
/// which memcached stores in several chunks, are in the last class too.
const LAST_LEN: u32 = 512 << 10;
/// The classes of items up to this length are in a table.
const TABLE_LEN_MAX: usize = 2048;

/// The largest item of each class, in bytes. Each length except the last is 1.25 times the one
/// before, rounded up to a multiple of 8.
const LENS: [u32; CLASSES] = {
    let mut lens = [0; CLASSES];
    let mut exact = FIRST_LEN as f64;
    let mut class = 0;
    while class < CLASSES - 1 {
        let len = (exact as u32).next_multiple_of(8);
        lens[class] = len;
        exact = len as f64 * 1.25;
        class += 1;
    }
    lens[CLASSES - 1] = LAST_LEN;
    lens
};

// Three of memcached's chunk sizes.
const _: () = assert!(LENS[1] == 120 && LENS[5] == 304 && LENS[CLASSES - 2] == 394_840);

/// For each length in units of 8 bytes, rounded up, the index of its class.
const TABLE: [u8; TABLE_LEN_MAX / 8 + 1] = {
    let mut table = [0; TABLE_LEN_MAX / 8 + 1];
    let (mut at, mut class) = (0, 0);
    while at < table.len() {
        if at as u32 * 8 > LENS[class] {
            class += 1;
        }
        table[at] = class as u8;
        at += 1;
    }
    table
};

/// The class of an item by its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

impl SizeClass {
    /// Number of classes.
    pub const COUNT: usize = CLASSES;

    /// The class of an item with a key and a value of these lengths.
    #[must_use]
    #[inline]
    pub fn of(key_len: usize, flags: u32, value_len: usize) -> Self {
        Self::of_len(item_len(key_len, flags, value_len))
    }

    /// The class of an item of this length ([`item_len`]).
    #[inline]
    pub(crate) fn of_len(len: usize) -> Self {
        match TABLE.get(len.div_ceil(8)) {
            Some(&class) => Self(class),
            None => Self::of_long(len),
        }
    }

    /// The class of an item that is longer than those in the table.
    #[cold]
    fn of_long(len: usize) -> Self {
        let class = LENS.partition_point(|&most| (most as usize) < len);
        Self(class.min(CLASSES - 1) as u8)
    }

    #[inline]
    pub(crate) fn of_block(block: Block<'_>) -> Self {
        Self::of(block.key().len(), block.flags(), block.value_len())
    }

    /// All classes, from the smallest items to the largest.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CLASSES as u8).map(Self)
    }

    /// Memcached's number of the class, which begins with 1.
    #[must_use]
    pub fn number(self) -> u32 {
        u32::from(self.0) + 1
    }

    /// The index of the class, below [`COUNT`](Self::COUNT).
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The largest item of the class, in bytes. The last class also has all larger items.
    #[must_use]
    pub fn item_len_max(self) -> u32 {
        LENS[self.index()]
    }
}

/// The size of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemSize {
    /// Its size class.
    pub class: SizeClass,
    /// Length of its value in bytes.
    pub value_len: usize,
}

impl ItemSize {
    pub(crate) fn of_block(block: Block<'_>) -> Self {
        Self {
            class: SizeClass::of_block(block),
            value_len: block.value_len(),
        }
    }
}

/// The length of an item as memcached counts it: with a header, a CAS and terminators. At most
/// `usize::MAX`, so that an absurd item is too large and not small.
#[must_use]
#[inline]
pub fn item_len(key_len: usize, flags: u32, value_len: usize) -> usize {
    let flags_len = if flags == 0 { 0 } else { FLAGS_LEN };
    value_len
        .saturating_add(key_len)
        .saturating_add(ITEM_OVERHEAD + flags_len)
}

/// The statistics of the items of one class. Counts of events are totals since the store was
/// created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassStatistics {
    /// Number of items in the index.
    pub items: u64,
    /// Sum of the lengths of these items, as memcached counts them ([`item_len`]), in bytes.
    pub bytes: u64,
    /// Number of evicted items.
    pub evicted: u64,
    /// Number of evicted items that had an expiry.
    pub evicted_expiring: u64,
    /// Number of evicted items that were never read.
    pub evicted_unfetched: u64,
    /// Seconds between the last request for an item and its eviction. Each worker records this for
    /// the item that it evicted last. The value is the longest of these times.
    pub evicted_idle_s: u64,
    /// Number of items unlinked after they expired or were flushed.
    pub expired: u64,
    /// Number of items counted in `expired` that were never read.
    pub expired_unfetched: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_in_the_first_class_that_is_large_enough() {
        // The length of an item with an empty key, no flags and an empty value is 59 bytes.
        for len in 59..3 * LAST_LEN as usize / 2 {
            let class = SizeClass::of(len - 59, 0, 0);
            let fits = class.item_len_max() as usize >= len;
            assert!(fits || class.number() == CLASSES as u32, "{len}");
            let smaller = class.index().checked_sub(1).map(|at| LENS[at] as usize);
            assert!(smaller.is_none_or(|most| most < len), "{len}");
        }
        assert_eq!(SizeClass::of(1, 0, 1).number(), 1);
        assert_eq!(SizeClass::of(33, 1, 0).number(), 1);
        assert_eq!(SizeClass::of(34, 1, 0).number(), 2);
    }
}
