//! Blocks that a worker's own writes have unlinked, kept to be written again.
//!
//! Who overwrites an item in a log leaves a hole behind and goes on through all the memory there
//! is, none of which is in the processor's caches, and what stays between the holes must be copied
//! out one day. A hole that exactly fits the next value is used again instead, as an allocator
//! would: it is near, and no segment is spent. A value on its way from a slow peer never lies in
//! one: it would keep a segment of its own from being drained.
//!
//! ```text
//! unlinked ──► young ──► waiting, batch by batch, ──► ready, ──► filled
//!              (a batch)  for its stamp to be over     by length
//! ```
//!
//! Readers may still be looking at it until its batch's stamp is over (`epochs.rs`). Its segment
//! may have been drained meanwhile, may be held by a pin, or be opened anew as another's: whoever
//! writes again takes part in it first, which a segment that is closed refuses, and looks whether
//! it is the one it was. Every list is short, and what finds no place in one is forgotten: draining
//! finds it.

use std::collections::VecDeque;

use crate::epochs::{Epochs, Stamp};
use crate::heap::segment::Part;
use crate::index::Location;
use crate::limits::{FREED_BATCH, FREED_LISTS, FREED_OF_A_LENGTH, FREED_WAITING};
use crate::log::{Taken, Way, part_of_opening};
use crate::tally::Count;
use crate::worker::Worker;

/// A block nothing leads to.
#[derive(Debug, Clone, Copy)]
struct Hole {
    location: Location,
    len: u32,
    /// Which opening its segment was of.
    opening: u32,
}

type Batch = [Option<Hole>; FREED_BATCH];

/// The holes one worker knows.
#[derive(Debug)]
pub(crate) struct Freed {
    young: Batch,
    young_len: usize,
    waiting: VecDeque<(Stamp, Batch)>,
    ready: Box<[Ready]>,
}

/// Holes of one length, in segments of one part.
#[derive(Debug, Clone, Copy, Default)]
struct Ready {
    len: u32,
    count: usize,
    holes: [Option<Hole>; FREED_OF_A_LENGTH],
}

impl Freed {
    pub(crate) fn new() -> Self {
        Self {
            young: Batch::default(),
            young_len: 0,
            waiting: VecDeque::with_capacity(FREED_WAITING),
            ready: vec![Ready::default(); FREED_LISTS].into(),
        }
    }

    fn remember(&mut self, hole: Hole) {
        if let Some(place) = self.young.get_mut(self.young_len) {
            *place = Some(hole);
            self.young_len += 1;
        }
    }

    /// Gives a full batch its stamp, and takes up one whose stamp is over.
    fn age(&mut self, epochs: &Epochs) {
        if self.young_len < FREED_BATCH {
            return;
        }
        if let Some(&(stamp, batch)) = self.waiting.front()
            && epochs.is_over(stamp)
        {
            self.waiting.pop_front();
            batch.into_iter().flatten().for_each(|hole| self.add(hole));
        }
        if self.waiting.len() < FREED_WAITING {
            self.waiting.push_back((epochs.retire(), self.young));
        }
        self.young_len = 0;
    }

    fn add(&mut self, hole: Hole) {
        let ready = &mut self.ready[place_of(hole.len, part_of_opening(hole.opening))];
        if ready.len != hole.len {
            // Two lengths share a place: the one let go last is in use.
            (ready.len, ready.count) = (hole.len, 0);
        }
        if let Some(place) = ready.holes.get_mut(ready.count) {
            *place = Some(hole);
            ready.count += 1;
        }
    }

    fn pop(&mut self, len: u32, part: Part) -> Option<Hole> {
        let ready = self.ready.get_mut(place_of(len, part))?;
        if ready.len != len {
            return None;
        }
        ready.count = ready.count.checked_sub(1)?;
        ready.holes[ready.count].take()
    }
}

/// Lengths are multiples of 4.
fn place_of(len: u32, part: Part) -> usize {
    (len / 4 * 2) as usize % FREED_LISTS + part as usize
}

impl Worker {
    /// An item that a write of this worker has unlinked is alive no more, and its block may be
    /// written again.
    pub(crate) fn free(&self, location: Location) {
        let len = self.unlinked(location) as u32;
        let segment = self.store.log.heap.segment_of(location);
        self.freed.borrow_mut().remember(Hole {
            location,
            len,
            opening: segment.opening(),
        });
    }

    /// Takes a hole of just that length for a block that would go that way and will soon be
    /// published: nobody drains its segment until then.
    pub(crate) fn take_freed(&self, len: usize, way: &Way) -> Option<Taken> {
        let log = &self.store.log;
        let mut freed = self.freed.borrow_mut();
        freed.age(&self.store.epochs);
        // All there are of this length, so few that none are left to be asked again.
        for _ in 0..FREED_OF_A_LENGTH {
            let Hole {
                location, opening, ..
            } = freed.pop(len as u32, way.part)?;
            let number = log.heap.number_of(location);
            let segment = log.heap.segment(number);
            let is_same = || segment.opening() == opening;
            // The first look spares those that are not the shared writes; the second is sure of
            // what may have changed since.
            if is_same() && log.suits(segment, way) && segment.join() {
                if is_same() && log.is_open_to_all(segment) {
                    segment.raise_expiry(way.expiry);
                    self.tally.count(Count::Refilled);
                    return Some(Taken { location, number });
                }
                segment.release_writer();
            }
        }
        None
    }
}
