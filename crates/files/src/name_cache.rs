//! A bounded map from names to values, which evicts by second chance (CLOCK: Corbató, "A Paging
//! Experiment with the Multics System", 1968).

use std::collections::HashMap;

/// A bounded map from names to values.
#[derive(Debug)]
pub struct NameCache<V> {
    /// The index of the entry of each name.
    indices: HashMap<Box<[u8]>, usize>,
    entries: Vec<Entry<V>>,
    max: usize,
    /// The entry that is examined next.
    hand: usize,
}

#[derive(Debug)]
struct Entry<V> {
    name: Box<[u8]>,
    value: V,
    /// Whether it was used since the hand passed it.
    is_referenced: bool,
}

impl<V> NameCache<V> {
    /// A map of at most `max` names, which is at least 1.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            indices: HashMap::new(),
            entries: Vec::new(),
            max: max.max(1),
            hand: 0,
        }
    }

    /// The value of a name.
    pub fn get(&mut self, name: &[u8]) -> Option<&V> {
        let entry = self.entries.get_mut(*self.indices.get(name)?)?;
        entry.is_referenced = true;
        Some(&entry.value)
    }

    /// Inserts a value, or replaces the one of this name. A full map evicts another name.
    pub fn insert(&mut self, name: &[u8], value: V) {
        if let Some(entry) = self
            .indices
            .get(name)
            .and_then(|&at| self.entries.get_mut(at))
        {
            entry.value = value;
            return;
        }
        let entry = Entry {
            name: name.into(),
            value,
            is_referenced: false,
        };
        if self.entries.len() < self.max {
            self.indices.insert(entry.name.clone(), self.entries.len());
            self.entries.push(entry);
            return;
        }
        let at = self.choose_victim();
        self.indices.remove(&self.entries[at].name);
        self.indices.insert(entry.name.clone(), at);
        self.entries[at] = entry;
    }

    /// Moves the hand to the next entry that was not used since the hand passed it. Ends within
    /// one round, because the hand takes the mark of each entry that it passes.
    fn choose_victim(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.entries.len();
            if !std::mem::take(&mut self.entries[at].is_referenced) {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_use_stay_and_the_number_of_names_is_bounded() {
        let mut cache = NameCache::new(4);
        for number in 0..100_u32 {
            cache.insert(format!("once-{number}").as_bytes(), number);
            if number == 0 {
                cache.insert(b"kept", 7);
            }
            assert_eq!(cache.get(b"kept"), Some(&7), "{number}");
        }
        assert_eq!((cache.entries.len(), cache.indices.len()), (4, 4));
        assert_eq!(cache.get(b"once-0"), None);
        assert_eq!(cache.get(b"once-99"), Some(&99));
        cache.insert(b"once-99", 1);
        assert_eq!(cache.get(b"once-99"), Some(&1));
        assert_eq!(cache.entries.len(), 4);
    }
}
