//! GDSF, GreedyDual-Size with Frequency (Cherkasova, HP Laboratories HPL-98-69R1, 1998). It evicts
//! what was requested least often for each byte, with an age added so that past requests fade.

use std::collections::BTreeSet;

use super::Policy;

/// What is known of a record that is kept.
#[derive(Debug, Clone, Copy)]
struct Kept {
    bytes: u32,
    requests: u32,
    priority: Priority,
}

/// A priority that is not negative, as the bits of its `f64`, which are ordered as it is.
type Priority = u64;

/// Evicts the least priority: the age at the last request, plus requests divided by bytes.
#[derive(Debug)]
pub struct Gdsf {
    capacity: u64,
    used: u64,
    /// The priority of the record that was evicted last.
    age: f64,
    kept: Vec<Option<Kept>>,
    order: BTreeSet<(Priority, u32)>,
}

impl Gdsf {
    /// Keeps `capacity` bytes of the records below `records`.
    #[must_use]
    pub fn new(capacity: u64, records: u32) -> Self {
        Self {
            capacity,
            used: 0,
            age: 0.0,
            kept: vec![None; records as usize],
            order: BTreeSet::new(),
        }
    }

    fn put(&mut self, record: u32, bytes: u32, requests: u32) {
        let value = f64::from(requests) / f64::from(bytes.max(1));
        let priority = (self.age + value).to_bits();
        self.order.insert((priority, record));
        self.kept[record as usize] = Some(Kept {
            bytes,
            requests,
            priority,
        });
    }
}

impl Policy for Gdsf {
    fn lookup(&mut self, record: u32) -> bool {
        let kept = self.kept[record as usize];
        if let Some(kept) = kept {
            self.order.remove(&(kept.priority, record));
            self.put(record, kept.bytes, kept.requests.saturating_add(1));
        }
        kept.is_some()
    }

    fn insert(&mut self, record: u32, bytes: u32) {
        if self.kept[record as usize].is_some() || u64::from(bytes) > self.capacity {
            return;
        }
        while self.used + u64::from(bytes) > self.capacity {
            let Some((priority, victim)) = self.order.pop_first() else {
                break;
            };
            self.age = f64::from_bits(priority);
            let victim = self.kept[victim as usize].take();
            self.used -= victim.map_or(0, |kept| u64::from(kept.bytes));
        }
        self.used += u64::from(bytes);
        self.put(record, bytes, 1);
    }

    fn used(&self) -> u64 {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_rarely_requested_items_are_evicted_first() {
        let mut gdsf = Gdsf::new(100, 10);
        gdsf.insert(1, 60);
        gdsf.insert(2, 20);
        gdsf.insert(3, 20);
        assert!(gdsf.lookup(2) && gdsf.lookup(1));
        // 1 has 2/60, 2 has 2/20, 3 has 1/20.
        gdsf.insert(4, 10);
        assert!(!gdsf.lookup(1) && gdsf.lookup(2) && gdsf.lookup(3));
        assert_eq!(gdsf.used(), 50);
    }

    #[test]
    fn past_requests_fade() {
        let mut gdsf = Gdsf::new(2, 1000);
        gdsf.insert(0, 1);
        (0..50).for_each(|_| assert!(gdsf.lookup(0)));
        (1..40).for_each(|record| gdsf.insert(record, 1));
        assert!(gdsf.kept[0].is_some());
        (40..100).for_each(|record| gdsf.insert(record, 1));
        assert!(gdsf.kept[0].is_none());
    }
}
