//! Least recently used.

use super::Policy;
use super::queue::{Links, Queue};

/// Evicts what was asked for longest ago.
#[derive(Debug)]
pub struct Lru {
    capacity: u64,
    kept: Vec<bool>,
    links: Links,
    queue: Queue,
}

impl Lru {
    /// Keeps `capacity` bytes of the records below `records`.
    #[must_use]
    pub fn new(capacity: u64, records: u32) -> Self {
        Self {
            capacity,
            kept: vec![false; records as usize],
            links: Links::new(records),
            queue: Queue::new(),
        }
    }
}

impl Policy for Lru {
    fn lookup(&mut self, record: u32) -> bool {
        if self.kept[record as usize] {
            let bytes = self.links.bytes(record);
            self.queue.take(&mut self.links, record);
            self.queue.push(&mut self.links, record, bytes);
        }
        self.kept[record as usize]
    }

    fn insert(&mut self, record: u32, bytes: u32) {
        if self.kept[record as usize] || u64::from(bytes) > self.capacity {
            return;
        }
        while self.queue.bytes() + u64::from(bytes) > self.capacity {
            let Some(oldest) = self.queue.pop(&mut self.links) else {
                break;
            };
            self.kept[oldest as usize] = false;
        }
        self.kept[record as usize] = true;
        self.queue.push(&mut self.links, record, bytes);
    }

    fn used(&self) -> u64 {
        self.queue.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_requested_item_is_evicted() {
        let mut lru = Lru::new(30, 10);
        for record in [1, 2, 3] {
            assert!(!lru.request(record, 10));
        }
        assert!(lru.request(1, 10));
        assert!(!lru.request(4, 10));
        assert!(lru.request(1, 10));
        assert!(!lru.request(2, 10));
    }
}
