//! What our store's policy was chosen with: S3-FIFO over a log, of one shape. Records lie in
//! segments, in the order they came; a segment is drained whole, and what deserves to stay is
//! copied behind the newest.
//!
//! ```text
//! new, overwritten ──► small part ──drained── asked for ──► main part ──drained── asked for ──┐
//!         │                               └── not: its       ▲   ▲              └── not: gone │
//!         └── its fingerprint is there ──┐  fingerprint      │   └── its count, one less ─────┘
//!                                        └───────────────────┘
//! ```
//!
//! It keeps to what the store can do: two bits of frequency beside each entry of the index, a
//! table of fingerprints in place of names in order (`ghost.rs`), dead bytes of what was
//! overwritten until their segment is emptied, and segments that are kept free. It does not waste
//! the ends of segments: a record goes on in the next one.

mod shape;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use shape::LogShape;

use super::Policy;
use super::ghost::Ghost;

/// Segments kept free for what is copied and for the writers.
const RESERVE: u32 = 4;
/// A record is refused that would take more than one part in so many of the memory.
const LARGEST: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Small,
    Main,
}

/// A record where it was appended; dead if the record has another turn by now.
#[derive(Debug, Clone, Copy)]
struct Copied {
    record: u32,
    turn: u32,
    bytes: u32,
}

/// What the index and the item's header know of a record.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    part: Option<Part>,
    /// Where it begins.
    segment: u32,
    /// So often appended.
    turn: u32,
    bytes: u32,
    frequency: u8,
    /// The second of the last request that counted.
    counted_s: u32,
}

#[derive(Debug, Default)]
struct Segment {
    copies: Vec<Copied>,
    dead_bytes: u64,
}

#[derive(Debug, Default)]
struct Lane {
    /// Oldest first; the last is open.
    segments: VecDeque<u32>,
    /// Bytes taken of the open segment.
    filled: u64,
}

/// A log of segments in two parts, and fingerprints of what left.
#[derive(Debug)]
pub struct Log {
    shape: LogShape,
    segment_bytes: u64,
    segments: Vec<Segment>,
    free: Vec<u32>,
    lanes: [Lane; 2],
    known: Vec<Known>,
    ghost: Ghost,
    requests: u64,
    arrived_bytes: u64,
    copied_bytes: u64,
}

impl Log {
    /// Keeps `capacity` bytes of the records below `records`, the fingerprints in it.
    #[must_use]
    pub fn new(capacity: u64, records: u32, shape: LogShape) -> Self {
        let ghost_bytes = (capacity as f64 * shape.ghost_share) as u64;
        let mut log = Self {
            shape,
            segment_bytes: ((capacity - ghost_bytes) / u64::from(shape.segments)).max(1),
            segments: Vec::new(),
            free: Vec::new(),
            lanes: Default::default(),
            known: vec![Known::default(); records as usize],
            ghost: Ghost::new(ghost_bytes, shape.fingerprint_bytes),
            requests: 0,
            arrived_bytes: 0,
            copied_bytes: 0,
        };
        log.open(Part::Small);
        log.open(Part::Main);
        log
    }

    /// Bytes copied so that they could stay, for each byte that came.
    #[must_use]
    pub fn copied_share(&self) -> f64 {
        self.copied_bytes as f64 / self.arrived_bytes as f64
    }

    fn now_s(&self) -> u32 {
        let seconds = self.requests.checked_div(u64::from(self.shape.second));
        seconds.map_or(0, |seconds| 1 + seconds as u32)
    }

    /// A read: the first of a record counts, and then the first of each second.
    fn count_read(&mut self, record: u32) {
        let now_s = self.now_s();
        let known = &mut self.known[record as usize];
        if self.shape.second == 0 || known.counted_s != now_s {
            known.counted_s = now_s;
            known.frequency = (known.frequency + 1).min(self.shape.frequency_max);
        }
    }

    fn arrive(&mut self, record: u32, bytes: u32) {
        if u64::from(bytes) > self.segment_bytes * u64::from(self.shape.segments) / LARGEST {
            return;
        }
        let now_s = self.now_s();
        let known = &mut self.known[record as usize];
        let part = if let Some(part) = known.part {
            // What was there is dead. A write holds the entry's lock, so it always counts.
            self.segments[known.segment as usize].dead_bytes += u64::from(known.bytes);
            known.frequency = (known.frequency + 1).min(self.shape.frequency_max);
            match self.shape.overwritten_to_small {
                true => Part::Small,
                false => part,
            }
        } else {
            known.counted_s = if self.shape.arrival_counts { now_s } else { 0 };
            known.frequency = 0;
            match self.ghost.take(record) {
                true => Part::Main,
                false => Part::Small,
            }
        };
        self.arrived_bytes += u64::from(bytes);
        self.append(record, bytes, part);
        self.make_room();
    }

    /// Puts a record behind the newest of a part.
    fn append(&mut self, record: u32, bytes: u32, part: Part) {
        let Some(&open) = self.lanes[part as usize].segments.back() else {
            return;
        };
        let known = &mut self.known[record as usize];
        known.part = Some(part);
        known.segment = open;
        known.turn += 1;
        known.bytes = bytes;
        let turn = known.turn;
        self.segments[open as usize].copies.push(Copied {
            record,
            turn,
            bytes,
        });
        self.lanes[part as usize].filled += u64::from(bytes);
        while self.lanes[part as usize].filled >= self.segment_bytes {
            self.lanes[part as usize].filled -= self.segment_bytes;
            self.open(part);
        }
    }

    fn open(&mut self, part: Part) {
        let fresh = self.free.pop().unwrap_or_else(|| {
            self.segments.push(Segment::default());
            self.segments.len() as u32 - 1
        });
        self.lanes[part as usize].segments.push_back(fresh);
    }

    fn segments_used(&self) -> u32 {
        let used: usize = self.lanes.iter().map(|lane| lane.segments.len()).sum();
        used as u32
    }

    fn make_room(&mut self) {
        let small_max = (f64::from(self.shape.segments) * self.shape.small_share) as usize;
        while self.segments_used() + RESERVE > self.shape.segments {
            let [small, main] = &self.lanes;
            if let Some(at) = self.mostly_dead() {
                self.compact(at);
            } else if small.segments.len() > small_max.max(1) || main.segments.len() <= 1 {
                self.drain(Part::Small);
            } else {
                self.drain(Part::Main);
            }
        }
    }

    /// The segment of the main part that has the most dead bytes, if these are enough.
    fn mostly_dead(&self) -> Option<usize> {
        let sealed = self.lanes[Part::Main as usize].segments.iter().rev();
        let dead_bytes = |segment: &u32| self.segments[*segment as usize].dead_bytes;
        let most = sealed.skip(1).map(dead_bytes).max()?;
        if (most as f64) < self.segment_bytes as f64 * self.shape.compacts_at {
            return None;
        }
        let segments = &self.lanes[Part::Main as usize].segments;
        segments
            .iter()
            .position(|segment| dead_bytes(segment) == most)
    }

    /// Copies what lives of a segment of the main part, whether asked for or not.
    fn compact(&mut self, at: usize) {
        if let Some(segment) = self.lanes[Part::Main as usize].segments.remove(at) {
            for copied in self.emptied(segment) {
                self.copied_bytes += u64::from(copied.bytes);
                self.append(copied.record, copied.bytes, Part::Main);
            }
        }
    }

    /// Copies what was asked for of the oldest segment of a part; the rest leaves.
    fn drain(&mut self, part: Part) {
        let Some(segment) = self.lanes[part as usize].segments.pop_front() else {
            return;
        };
        for copied in self.emptied(segment) {
            let known = &mut self.known[copied.record as usize];
            let needed = match part {
                Part::Small => self.shape.moves_at,
                Part::Main => 1,
            };
            if let Some(frequency) = known.frequency.checked_sub(needed) {
                known.frequency = match part {
                    Part::Small if !self.shape.moves_with_count => 0,
                    _ => frequency,
                };
                self.copied_bytes += u64::from(copied.bytes);
                self.append(copied.record, copied.bytes, Part::Main);
            } else {
                known.part = None;
                if part == Part::Small {
                    self.ghost.add(copied.record);
                }
            }
        }
    }

    /// Frees a segment; what lived in it.
    fn emptied(&mut self, segment: u32) -> Vec<Copied> {
        let Segment { mut copies, .. } = std::mem::take(&mut self.segments[segment as usize]);
        self.free.push(segment);
        copies.retain(|copied| {
            let known = &self.known[copied.record as usize];
            known.part.is_some() && known.turn == copied.turn
        });
        copies
    }
}

impl Policy for Log {
    fn lookup(&mut self, record: u32) -> bool {
        self.requests += 1;
        let is_kept = self.known[record as usize].part.is_some();
        if is_kept {
            self.count_read(record);
        }
        is_kept
    }

    fn insert(&mut self, record: u32, bytes: u32) {
        if self.known[record as usize].part.is_none() {
            self.arrive(record, bytes);
        }
    }

    fn write(&mut self, record: u32, bytes: u32) {
        self.requests += 1;
        self.arrive(record, bytes);
    }

    fn used(&self) -> u64 {
        u64::from(self.segments_used()) * self.segment_bytes
    }
}
