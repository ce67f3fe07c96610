//! S3-FIFO (Yang and others, SOSP 2023): a small queue that new records must pass, a main queue
//! whose records come round again while they are asked for, and a ghost queue of names.

use std::collections::VecDeque;

use super::Policy;
use super::queue::{Links, Queue};

/// Share of the bytes that the small queue takes (section 4 of the paper).
const SMALL_SHARE: f64 = 0.1;
/// So often asked for in the small queue, a record moves to the main queue.
const MOVES_AT: u8 = 2;
/// The counter stops here.
const FREQUENCY_MAX: u8 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Away,
    Small,
    Main,
}

/// Three queues.
#[derive(Debug)]
pub struct S3Fifo {
    capacity: u64,
    place: Vec<Place>,
    frequency: Vec<u8>,
    links: Links,
    small: Queue,
    main: Queue,
    main_count: usize,
    ghost: VecDeque<u32>,
    /// How often a record is in the ghost queue.
    ghosts: Vec<u8>,
}

impl S3Fifo {
    /// Keeps `capacity` bytes of the records below `records`.
    #[must_use]
    pub fn new(capacity: u64, records: u32) -> Self {
        Self {
            capacity,
            place: vec![Place::Away; records as usize],
            frequency: vec![0; records as usize],
            links: Links::new(records),
            small: Queue::new(),
            main: Queue::new(),
            main_count: 0,
            ghost: VecDeque::new(),
            ghosts: vec![0; records as usize],
        }
    }

    fn evict(&mut self) {
        let small_max = (self.capacity as f64 * SMALL_SHARE) as u64;
        if self.small.bytes() > small_max || self.main_count == 0 {
            self.evict_small();
        } else {
            self.evict_main();
        }
    }

    fn evict_small(&mut self) {
        let Some(record) = self.small.pop(&mut self.links) else {
            return;
        };
        if self.frequency[record as usize] >= MOVES_AT {
            self.enter_main(record, self.links.bytes(record), 0);
            return;
        }
        self.place[record as usize] = Place::Away;
        self.ghost.push_back(record);
        self.ghosts[record as usize] += 1;
        // As many names as the main queue has records.
        while self.ghost.len() > self.main_count.max(1) {
            if let Some(gone) = self.ghost.pop_front() {
                self.ghosts[gone as usize] -= 1;
            }
        }
    }

    fn evict_main(&mut self) {
        let Some(record) = self.main.pop(&mut self.links) else {
            return;
        };
        self.main_count -= 1;
        match self.frequency[record as usize] {
            0 => self.place[record as usize] = Place::Away,
            frequency => self.enter_main(record, self.links.bytes(record), frequency - 1),
        }
    }

    fn enter_main(&mut self, record: u32, bytes: u32, frequency: u8) {
        self.frequency[record as usize] = frequency;
        self.place[record as usize] = Place::Main;
        self.main.push(&mut self.links, record, bytes);
        self.main_count += 1;
    }
}

impl Policy for S3Fifo {
    fn lookup(&mut self, record: u32) -> bool {
        let at = record as usize;
        let is_kept = self.place[at] != Place::Away;
        if is_kept {
            self.frequency[at] = (self.frequency[at] + 1).min(FREQUENCY_MAX);
        }
        is_kept
    }

    fn insert(&mut self, record: u32, bytes: u32) {
        let at = record as usize;
        if self.place[at] != Place::Away || u64::from(bytes) > self.capacity {
            return;
        }
        while self.used() + u64::from(bytes) > self.capacity {
            self.evict();
        }
        if self.ghosts[at] > 0 {
            self.enter_main(record, bytes, 0);
        } else {
            self.frequency[at] = 0;
            self.place[at] = Place::Small;
            self.small.push(&mut self.links, record, bytes);
        }
    }

    fn used(&self) -> u64 {
        self.small.bytes() + self.main.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_requested_once_do_not_displace_frequently_requested_items() {
        let mut cache = S3Fifo::new(100, 10_000);
        for _ in 0..3 {
            for record in 0..5 {
                cache.request(record, 10);
            }
        }
        for record in 100..5000 {
            cache.request(record, 10);
        }
        assert!((0..5).all(|record| cache.request(record, 10)));
    }

    #[test]
    fn a_ghost_goes_to_the_main_queue_at_once() {
        let mut cache = S3Fifo::new(100, 1000);
        for _ in 0..3 {
            (0..9).for_each(|record| {
                cache.request(record, 10);
            });
        }
        (20..40).for_each(|record| {
            cache.request(record, 10);
        });
        assert!(cache.ghosts[37] > 0 && cache.place[37] == Place::Away);
        cache.request(37, 10);
        assert_eq!(cache.place[37], Place::Main);
    }
}
