//! W-TinyLFU (Einziger, Friedman, Manes, ACM Transactions on Storage 2017): a window of one part
//! in a hundred by recency, and a main part in two segments that lets in only what was asked for
//! more often than what would have to go, by a sketch of all requests that forgets.

use super::queue::{Links, NONE, Queue};
use super::{Policy, scattered};

const WINDOW_SHARE: f64 = 0.01;
const PROTECTED_SHARE: f64 = 0.8;
/// Requests a counter's worth before all counters are halved, for each record kept.
const SAMPLE_FACTOR: u64 = 10;
const ROWS: usize = 4;
/// Counters of a row for each record kept: 16 half bytes in all, as Caffeine and moka have it.
const WIDTH: u64 = 4;
const COUNT_MAX: u8 = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Window,
    Probation,
    Protected,
}

/// Window, probation, protection, sketch.
#[derive(Debug)]
pub struct TinyLfu {
    capacity: u64,
    /// The part that keeps a record.
    place: Vec<Option<Part>>,
    links: Links,
    parts: [Queue; 3],
    sketch: Sketch,
}

impl TinyLfu {
    /// Keeps `capacity` bytes of the records below `records`; the sketch has room for
    /// `records_kept`, about as many as will fit.
    #[must_use]
    pub fn new(capacity: u64, records: u32, records_kept: u32) -> Self {
        Self {
            capacity,
            place: vec![None; records as usize],
            links: Links::new(records),
            parts: std::array::from_fn(|_| Queue::new()),
            sketch: Sketch::new(records_kept),
        }
    }

    fn bytes(&self, part: Part) -> u64 {
        self.parts[part as usize].bytes()
    }

    fn oldest(&self, part: Part) -> u32 {
        self.parts[part as usize].oldest()
    }

    /// Takes a record out of its part and says what was charged for it.
    fn take(&mut self, record: u32) -> u32 {
        if let Some(part) = self.place[record as usize].take() {
            self.parts[part as usize].take(&mut self.links, record);
        }
        self.links.bytes(record)
    }

    fn put(&mut self, record: u32, bytes: u32, part: Part) {
        self.place[record as usize] = Some(part);
        self.parts[part as usize].push(&mut self.links, record, bytes);
    }

    fn hit(&mut self, record: u32, part: Part) {
        let part = match part {
            Part::Window => Part::Window,
            Part::Probation | Part::Protected => Part::Protected,
        };
        let bytes = self.take(record);
        self.put(record, bytes, part);
        let main_bytes = self.capacity as f64 * (1.0 - WINDOW_SHARE);
        let protected_max = (main_bytes * PROTECTED_SHARE) as u64;
        while self.bytes(Part::Protected) > protected_max {
            let oldest = self.oldest(Part::Protected);
            let bytes = self.take(oldest);
            self.put(oldest, bytes, Part::Probation);
        }
    }

    /// What the main part would part with first; [`NONE`]: it is empty.
    fn victim(&self) -> u32 {
        match self.oldest(Part::Probation) {
            NONE => self.oldest(Part::Protected),
            oldest => oldest,
        }
    }

    /// The window's oldest leaves it: into the main part, if there is room or if it was asked for
    /// more often than each of those that would have to go.
    fn leave_window(&mut self, spare: u64) {
        let candidate = self.oldest(Part::Window);
        let bytes = self.take(candidate);
        let mine = self.sketch.count(candidate);
        while self.used() + spare + u64::from(bytes) > self.capacity {
            let victim = self.victim();
            if victim == NONE || self.sketch.count(victim) >= mine {
                return;
            }
            self.take(victim);
        }
        self.put(candidate, bytes, Part::Probation);
    }
}

impl Policy for TinyLfu {
    fn lookup(&mut self, record: u32) -> bool {
        self.sketch.add(record);
        let part = self.place[record as usize];
        if let Some(part) = part {
            self.hit(record, part);
        }
        part.is_some()
    }

    fn insert(&mut self, record: u32, bytes: u32) {
        if self.place[record as usize].is_some() || u64::from(bytes) > self.capacity {
            return;
        }
        let window_max = ((self.capacity as f64 * WINDOW_SHARE) as u64).max(u64::from(bytes));
        while self.bytes(Part::Window) + u64::from(bytes) > window_max {
            self.leave_window(u64::from(bytes));
        }
        while self.used() + u64::from(bytes) > self.capacity {
            self.take(self.victim());
        }
        self.put(record, bytes, Part::Window);
    }

    fn used(&self) -> u64 {
        self.parts.iter().map(Queue::bytes).sum()
    }
}

/// A count-min sketch of four rows of small counters.
#[derive(Debug)]
struct Sketch {
    counters: Vec<u8>,
    mask: u64,
    added: u64,
    halve_at: u64,
}

impl Sketch {
    fn new(records_kept: u32) -> Self {
        let width = WIDTH * u64::from(records_kept.max(64)).next_power_of_two();
        Self {
            counters: vec![0; ROWS * width as usize],
            mask: width - 1,
            added: 0,
            halve_at: SAMPLE_FACTOR * u64::from(records_kept.max(64)),
        }
    }

    fn places(&self, record: u32) -> [usize; ROWS] {
        let bits = scattered(record);
        let step = bits >> 32 | 1;
        std::array::from_fn(|row| {
            let place = bits.wrapping_add(step.wrapping_mul(row as u64)) & self.mask;
            row * (self.mask as usize + 1) + place as usize
        })
    }

    fn add(&mut self, record: u32) {
        for place in self.places(record) {
            self.counters[place] = (self.counters[place] + 1).min(COUNT_MAX);
        }
        self.added += 1;
        if self.added == self.halve_at {
            self.added /= 2;
            self.counters.iter_mut().for_each(|count| *count /= 2);
        }
    }

    fn count(&self, record: u32) -> u8 {
        let counts = self.places(record).map(|place| self.counters[place]);
        counts.into_iter().min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_does_not_displace_frequently_requested_items() {
        let mut cache = TinyLfu::new(1000, 10_000, 100);
        for _ in 0..5 {
            (0..80).for_each(|record| {
                cache.request(record, 10);
            });
        }
        (1000..1500).for_each(|record| {
            cache.request(record, 10);
        });
        let kept = (0..80).filter(|&record| cache.request(record, 10)).count();
        assert!(kept >= 75, "{kept}");
    }

    #[test]
    fn the_sketch_counts_and_forgets() {
        let mut sketch = Sketch::new(1000);
        (0..6).for_each(|_| sketch.add(7));
        assert_eq!(sketch.count(7), 6);
        // Others share its counters, but hardly all of them.
        (0..500).for_each(|record| sketch.add(record + 100));
        assert!((6..=7).contains(&sketch.count(7)));
        // The sample is full: all are halved.
        (0..9494).for_each(|_| sketch.add(8));
        assert_eq!(sketch.count(7), 3);
    }
}
