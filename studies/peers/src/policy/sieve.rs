//! SIEVE (Zhang and others, NSDI 2024): a queue, a visited bit, and a hand that goes from old to
//! new and spares the visited where they are.

use super::Policy;
use super::queue::{Links, NONE, Queue};

/// Evicts the first not visited that the hand meets.
#[derive(Debug)]
pub struct Sieve {
    capacity: u64,
    /// For a record that is kept: whether it was visited.
    kept: Vec<Option<bool>>,
    links: Links,
    queue: Queue,
    hand: u32,
}

impl Sieve {
    /// Keeps `capacity` bytes of the records below `records`.
    #[must_use]
    pub fn new(capacity: u64, records: u32) -> Self {
        Self {
            capacity,
            kept: vec![None; records as usize],
            links: Links::new(records),
            queue: Queue::new(),
            hand: NONE,
        }
    }

    fn evict(&mut self) {
        let mut at = match self.hand {
            NONE => self.queue.oldest(),
            hand => hand,
        };
        while at != NONE && self.kept[at as usize] == Some(true) {
            self.kept[at as usize] = Some(false);
            at = match self.links.newer(at) {
                NONE => self.queue.oldest(),
                newer => newer,
            };
        }
        if at == NONE {
            return;
        }
        self.hand = self.links.newer(at);
        self.queue.take(&mut self.links, at);
        self.kept[at as usize] = None;
    }
}

impl Policy for Sieve {
    fn lookup(&mut self, record: u32) -> bool {
        let visited = &mut self.kept[record as usize];
        *visited = visited.map(|_| true);
        visited.is_some()
    }

    fn insert(&mut self, record: u32, bytes: u32) {
        if self.kept[record as usize].is_some() || u64::from(bytes) > self.capacity {
            return;
        }
        while self.queue.bytes() + u64::from(bytes) > self.capacity {
            self.evict();
        }
        self.kept[record as usize] = Some(false);
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
    fn the_hand_spares_the_visited_and_goes_on_from_where_it_was() {
        let mut sieve = Sieve::new(30, 10);
        for record in [1, 2, 3] {
            sieve.request(record, 10);
        }
        assert!(sieve.request(1, 10));
        // 1 is spared, 2 goes.
        assert!(!sieve.request(4, 10));
        // The hand stands at 3, which goes although 1 is older and no longer visited.
        assert!(!sieve.request(5, 10));
        assert!(sieve.request(1, 10));
        assert!(sieve.request(4, 10));
        assert!(!sieve.request(3, 10));
    }
}
