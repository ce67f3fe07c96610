//! What a client knows of the chains of keys.

use std::collections::{HashMap, VecDeque};

use chain::Link;

/// Where the chain of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) chain: u64,
    pub(super) anchor: Link,
    /// The last node that was seen.
    pub(super) tail: Link,
    /// Its length, or a guess.
    pub(super) len: u32,
}

/// A bounded table. The entry that was inserted first makes room.
#[derive(Debug)]
pub(super) struct Cache {
    entries: HashMap<Vec<u8>, Entry>,
    order: VecDeque<Vec<u8>>,
    entries_max: usize,
}

impl Cache {
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
            entries_max: entries_max.max(1),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Entry> {
        self.entries.get(key).copied()
    }

    pub(super) fn insert(&mut self, key: &[u8], entry: Entry) {
        if self.entries.insert(key.to_vec(), entry).is_some() {
            return;
        }
        self.order.push_back(key.to_vec());
        // Keys that were removed may still be in the queue, and more than once.
        while self.entries.len() > self.entries_max || self.order.len() > 2 * self.entries_max {
            match self.order.pop_front() {
                Some(oldest) => self.entries.remove(&oldest),
                None => break,
            };
        }
    }

    /// Sets the last node, unless the key has another chain by now.
    pub(super) fn set_tail(&mut self, key: &[u8], chain: u64, tail: Link, len: u32) {
        if let Some(entry) = self.entries.get_mut(key)
            && entry.chain == chain
        {
            entry.tail = tail;
            entry.len = len;
        }
    }

    /// Forgets a key, unless it has another chain by now.
    pub(super) fn remove(&mut self, key: &[u8], chain: u64) {
        if self.get(key).is_some_and(|entry| entry.chain == chain) {
            self.entries.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_bounded_and_the_oldest_key_makes_room() {
        let link = Link::new(8, 1).unwrap();
        let entry = |chain| Entry {
            chain,
            anchor: link,
            tail: link,
            len: 0,
        };
        let mut cache = Cache::new(3);
        for number in 0..100_u64 {
            cache.insert(&number.to_be_bytes(), entry(number + 1));
            if number % 3 == 0 {
                cache.remove(&number.to_be_bytes(), number + 1);
            }
        }
        assert!(cache.entries.len() <= 3 && cache.order.len() <= 6);
        assert_eq!(cache.get(&98_u64.to_be_bytes()), Some(entry(99)));
        assert_eq!(cache.get(&1_u64.to_be_bytes()), None);
    }

    #[test]
    fn another_chain_of_the_key_is_not_changed() {
        let link = |address| Link::new(address, 1).unwrap();
        let entry = Entry {
            chain: 2,
            anchor: link(8),
            tail: link(16),
            len: 50,
        };
        let mut cache = Cache::new(3);
        cache.insert(b"key", entry);
        cache.set_tail(b"key", 1, link(24), 60);
        cache.remove(b"key", 1);
        assert_eq!(cache.get(b"key"), Some(entry));
        cache.set_tail(b"key", 2, link(24), 60);
        assert_eq!(cache.get(b"key").unwrap().tail, link(24));
    }
}
