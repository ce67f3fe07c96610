//! The optimum for items of one size (Belady, IBM Systems Journal 1966): what is read again last is
//! evicted, or not stored at all. It has to know the requests beforehand. For items of different
//! sizes it is no limit, only a good choice.

use std::collections::BTreeSet;

use super::Policy;

/// The number of a request that never comes.
const NEVER: u32 = u32::MAX;

/// A request as far as the optimum depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    /// The record requested.
    pub record: u32,
    /// Whether it is looked up, and not written.
    pub is_read: bool,
}

/// Keeps what is read next.
#[derive(Debug)]
pub struct Optimum {
    capacity: u64,
    used: u64,
    /// For each request, the number of the next read of its record.
    next_reads: Vec<u32>,
    /// Number of requests so far.
    requests: usize,
    /// For each record, the number of its next read, as of its last request.
    next_read: Vec<u32>,
    /// The bytes of a record that is kept.
    kept: Vec<Option<u32>>,
    order: BTreeSet<(u32, u32)>,
}

impl Optimum {
    /// Keeps `capacity` bytes of the records below `records`. `accesses` are all requests that will
    /// come, each as one [`Policy::lookup`] or one [`Policy::write`].
    #[must_use]
    pub fn new(capacity: u64, records: u32, accesses: &[Access]) -> Self {
        let mut next_read = vec![NEVER; records as usize];
        let mut next_reads = vec![NEVER; accesses.len()];
        for (number, access) in accesses.iter().enumerate().rev() {
            let next = &mut next_read[access.record as usize];
            next_reads[number] = *next;
            if access.is_read {
                *next = number as u32;
            }
        }
        Self {
            capacity,
            used: 0,
            next_reads,
            requests: 0,
            next_read: vec![NEVER; records as usize],
            kept: vec![None; records as usize],
            order: BTreeSet::new(),
        }
    }

    /// Counts a request, and moves its record, if it is kept, to its next read.
    fn advance(&mut self, record: u32) -> bool {
        let next = self.next_reads.get(self.requests).copied();
        let next = next.unwrap_or(NEVER);
        self.requests += 1;
        let before = std::mem::replace(&mut self.next_read[record as usize], next);
        let Some(bytes) = self.kept[record as usize] else {
            return false;
        };
        self.order.remove(&(before, record));
        if next == NEVER {
            self.kept[record as usize] = None;
            self.used -= u64::from(bytes);
        } else {
            self.order.insert((next, record));
        }
        true
    }
}

impl Policy for Optimum {
    fn lookup(&mut self, record: u32) -> bool {
        self.advance(record)
    }

    fn insert(&mut self, record: u32, bytes: u32) {
        let next = self.next_read[record as usize];
        let is_kept = self.kept[record as usize].is_some();
        if is_kept || next == NEVER || u64::from(bytes) > self.capacity {
            return;
        }
        while self.used + u64::from(bytes) > self.capacity {
            let Some((last, victim)) = self.order.last().copied() else {
                return;
            };
            if last < next {
                return;
            }
            self.order.pop_last();
            let freed = self.kept[victim as usize].take();
            self.used -= u64::from(freed.unwrap_or(0));
        }
        self.used += u64::from(bytes);
        self.kept[record as usize] = Some(bytes);
        self.order.insert((next, record));
    }

    fn write(&mut self, record: u32, bytes: u32) {
        self.advance(record);
        self.insert(record, bytes);
    }

    fn used(&self) -> u64 {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Lru, S3Fifo, Sieve, TinyLfu};

    fn reads(records: &[u32]) -> Vec<Access> {
        let is_read = true;
        records
            .iter()
            .map(|&record| Access { record, is_read })
            .collect()
    }

    fn hits(policy: &mut dyn Policy, records: &[u32]) -> usize {
        records
            .iter()
            .filter(|&&record| policy.request(record, 1))
            .count()
    }

    #[test]
    fn a_loop_longer_than_the_cache_keeps_all_but_one_place() {
        let records: Vec<u32> = (0..1000).map(|n| n % 10).collect();
        let mut optimum = Optimum::new(5, 10, &reads(&records));
        // Five of ten records stay for good, the others are not stored.
        assert_eq!(hits(&mut optimum, &records), 5 * 99);
    }

    #[test]
    fn a_write_is_no_use_of_what_is_kept() {
        let access = |record, is_read| Access { record, is_read };
        let accesses = [
            access(1, true),
            access(2, true),
            access(1, false),
            access(2, true),
        ];
        let mut optimum = Optimum::new(1, 3, &accesses);
        assert!(!optimum.request(1, 1));
        assert!(!optimum.request(2, 1));
        optimum.write(1, 1);
        assert!(optimum.request(2, 1), "1 is not read again");
    }

    #[test]
    fn no_policy_is_above_it() {
        let mut random = 1_u64;
        let mut draw = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % below
        };
        let records: Vec<u32> = (0..30_000)
            .map(|_| {
                let most = 1 + draw(300);
                draw(most) as u32
            })
            .collect();
        for capacity in [1, 10, 50, 150] {
            let best = hits(&mut Optimum::new(capacity, 300, &reads(&records)), &records);
            let kept = capacity as u32;
            let others: [Box<dyn Policy>; 4] = [
                Box::new(Lru::new(capacity, 300)),
                Box::new(Sieve::new(capacity, 300)),
                Box::new(S3Fifo::new(capacity, 300)),
                Box::new(TinyLfu::new(capacity, 300, kept)),
            ];
            for mut other in others {
                assert!(hits(&mut *other, &records) <= best, "{capacity}");
            }
        }
    }
}
