//! Holes: blocks unlinked by a worker's own writes, kept for reuse.
//!
//! In a pure log, a worker that overwrites items would leave holes and append to memory that is not
//! cached, and the live blocks between the holes would have to be copied later. So a hole with
//! exactly the length of the next block is reused, as in an allocator: its memory is likely cached,
//! and no new segment is used. The value of a slow upload is never written into a hole, because the
//! upload would prevent the evacuation of the segment.
//!
//! ```text
//! unlinked ──► young ──────► waiting ───────────────► ready ─────► filled
//!              (one batch)   (batches, until their    (lists by
//!                             stamps have passed)      length)
//! ```
//!
//! Readers may use a hole's block until the stamp of its batch has passed (`epochs.rs`). Meanwhile
//! its segment may have been evacuated, pinned, or reopened. A writer that fills the hole therefore
//! first acquires the segment, which fails if the segment is closed, and checks that its opening is
//! still the same. The number of holes is bounded; further ones are forgotten and left to
//! evacuation.

use std::collections::VecDeque;
use std::mem;

use crate::counters::Counter;
use crate::epochs::{Epochs, Stamp};
use crate::heap::BlockRef;
use crate::heap::segment::Part;
use crate::index::Location;
use crate::limits::{HOLE_BATCH, HOLE_BATCHES_MAX, HOLE_LISTS, HOLE_TRIES, HOLES_MAX};
use crate::log::{AllocTarget, Allocation, part_of_opening};
use crate::worker::Worker;

/// An unlinked block.
#[derive(Debug, Clone, Copy)]
struct Hole {
    location: Location,
    len: u32,
    /// The opening of its segment.
    opening: u32,
}

type Batch = [Option<Hole>; HOLE_BATCH];

/// The holes of a worker.
#[derive(Debug)]
pub(crate) struct Holes {
    young: Batch,
    young_len: usize,
    waiting: VecDeque<(Stamp, Batch)>,
    ready: ReadyHoles,
}

impl Holes {
    pub(crate) fn new() -> Self {
        Self {
            young: Batch::default(),
            young_len: 0,
            waiting: VecDeque::with_capacity(HOLE_BATCHES_MAX),
            ready: ReadyHoles::new(),
        }
    }

    fn remember(&mut self, hole: Hole) {
        if let Some(slot) = self.young.get_mut(self.young_len) {
            *slot = Some(hole);
            self.young_len += 1;
        }
    }

    /// If the young batch is full, stamps it. Also moves one batch whose stamp has passed to the
    /// ready lists.
    fn advance_batches(&mut self, epochs: &Epochs) {
        if self.young_len < HOLE_BATCH {
            return;
        }
        if let Some(&(stamp, batch)) = self.waiting.front()
            && epochs.has_passed(stamp)
        {
            self.waiting.pop_front();
            let holes = batch.into_iter().flatten();
            holes.for_each(|hole| self.ready.add(hole));
        }
        if self.waiting.len() < HOLE_BATCHES_MAX {
            self.waiting.push_back((epochs.retire(), self.young));
        }
        self.young_len = 0;
    }
}

/// No hole in [`ReadyHoles`].
const NONE: u16 = u16::MAX;

const _: () = assert!(HOLES_MAX < NONE as usize);

/// Reusable holes: a list for each length and part, last in first out. If there is no space for
/// another hole, an old one is forgotten.
#[derive(Debug)]
struct ReadyHoles {
    links: Box<[HoleLink]>,
    /// The first hole of each list.
    heads: Box<[u16]>,
    /// The first unused link.
    first_free_link: u16,
    /// The next link to be reused if there is no unused one.
    next_to_forget: u16,
}

/// A hole in its list.
#[derive(Debug, Clone, Copy)]
struct HoleLink {
    hole: Option<Hole>,
    prev: u16,
    next: u16,
}

impl ReadyHoles {
    fn new() -> Self {
        let link = |number: usize| HoleLink {
            hole: None,
            prev: NONE,
            next: match number + 1 {
                HOLES_MAX => NONE,
                next => next as u16,
            },
        };
        Self {
            links: (0..HOLES_MAX).map(link).collect(),
            heads: vec![NONE; HOLE_LISTS].into(),
            first_free_link: 0,
            next_to_forget: 0,
        }
    }

    fn add(&mut self, hole: Hole) {
        if self.first_free_link == NONE {
            self.unlink(self.next_to_forget);
            self.next_to_forget = (self.next_to_forget + 1) % HOLES_MAX as u16;
        }
        let list = list_of(hole.len, part_of_opening(hole.opening));
        let (number, first) = (self.first_free_link, self.heads[list]);
        let link = &mut self.links[usize::from(number)];
        self.first_free_link = link.next;
        *link = HoleLink {
            hole: Some(hole),
            prev: NONE,
            next: first,
        };
        if let Some(first) = self.links.get_mut(usize::from(first)) {
            first.prev = number;
        }
        self.heads[list] = number;
    }

    /// Removes the first hole of this length. Returns it, and the next one.
    fn pop(&mut self, len: u32, part: Part) -> Option<(Hole, Option<Hole>)> {
        let list = list_of(len, part);
        let number = self.heads[list];
        let link = self.links.get_mut(usize::from(number))?;
        // Large lengths share lists.
        let hole = link.hole.take_if(|hole| hole.len == len)?;
        self.heads[list] = link.next;
        link.next = mem::replace(&mut self.first_free_link, number);
        let next = self.links.get_mut(usize::from(self.heads[list]));
        let next = next.and_then(|link| {
            link.prev = NONE;
            link.hole
        });
        Some((hole, next))
    }

    /// Removes a hole from its list.
    fn unlink(&mut self, number: u16) {
        let link = &mut self.links[usize::from(number)];
        let (hole, prev) = (link.hole.take(), mem::replace(&mut link.prev, NONE));
        let next = mem::replace(
            &mut link.next,
            mem::replace(&mut self.first_free_link, number),
        );
        if let Some(next) = self.links.get_mut(usize::from(next)) {
            next.prev = prev;
        }
        match (self.links.get_mut(usize::from(prev)), hole) {
            (Some(last), _) => last.next = next,
            (None, Some(hole)) => {
                self.heads[list_of(hole.len, part_of_opening(hole.opening))] = next;
            }
            (None, None) => {}
        }
    }
}

/// Lengths are multiples of 4.
#[inline]
fn list_of(len: u32, part: Part) -> usize {
    (len / 4 * 2) as usize % HOLE_LISTS + part as usize
}

impl Worker {
    /// Subtracts an item that a write of this worker has unlinked from the live bytes, and
    /// remembers its block as a hole.
    #[inline]
    pub(crate) fn remember_hole(&self, block_ref: &BlockRef<'_>) {
        let len = self.account_unlinked(block_ref) as u32;
        self.holes.borrow_mut().remember(Hole {
            location: block_ref.location,
            len,
            opening: block_ref.segment.opening(),
        });
    }

    /// Takes a hole of exactly this length for a block with this target. The block will soon be
    /// published; until then its segment is not evacuated.
    pub(crate) fn take_hole(&self, len: usize, target: &AllocTarget) -> Option<Allocation> {
        let log = &self.store.log;
        let mut holes = self.holes.borrow_mut();
        holes.advance_batches(&self.store.epochs);
        for _ in 0..HOLE_TRIES {
            let (hole, next) = holes.ready.pop(len as u32, target.part)?;
            let Hole {
                location, opening, ..
            } = hole;
            let number = log.heap.number_of(location);
            let segment = log.heap.segment(number);
            // The check here avoids writes to shared memory for unsuitable holes. The check in
            // `acquire_writer_if_opening` also notices a change since this one.
            let is_same = segment.opening() == opening;
            if is_same && log.accepts(segment, target) && segment.acquire_writer_if_opening(opening)
            {
                if log.is_reusable(segment) {
                    segment.raise_expiry(target.expiry);
                    self.counters.count(Counter::HolesFilled);
                    // The next value often has the same length.
                    if let Some(next) = next {
                        log.heap.prefetch_to_write(next.location, len);
                    }
                    return Some(Allocation { location, number });
                }
                segment.release_writer();
            }
        }
        None
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    fn hole(number: u64, len: u32, part: Part) -> Hole {
        Hole {
            location: Location::new(number).unwrap(),
            len,
            opening: 2 + part as u32,
        }
    }

    fn pop_number(ready: &mut ReadyHoles, len: u32, part: Part) -> Option<u64> {
        let (hole, next) = ready.pop(len, part)?;
        assert!(next.is_none_or(|next| next.location != hole.location));
        Some(hole.location.units())
    }

    #[test]
    fn the_last_hole_of_a_length_and_part_comes_first() {
        let mut ready = ReadyHoles::new();
        for number in 1..=3 {
            ready.add(hole(number, 100, Part::Small));
            ready.add(hole(10 + number, 104, Part::Small));
            ready.add(hole(20 + number, 100, Part::Main));
        }
        assert_eq!(pop_number(&mut ready, 96, Part::Small), None);
        for number in (1..=3).rev() {
            assert_eq!(pop_number(&mut ready, 100, Part::Main), Some(20 + number));
            assert_eq!(pop_number(&mut ready, 100, Part::Small), Some(number));
            assert_eq!(pop_number(&mut ready, 104, Part::Small), Some(10 + number));
        }
        assert_eq!(pop_number(&mut ready, 100, Part::Small), None);
    }

    #[test]
    fn lengths_that_share_a_list_are_distinguished() {
        let mut ready = ReadyHoles::new();
        let other = 100 + HOLE_LISTS as u32 * 2;
        ready.add(hole(1, 100, Part::Small));
        ready.add(hole(2, other, Part::Small));
        assert_eq!(pop_number(&mut ready, 100, Part::Small), None);
        assert_eq!(pop_number(&mut ready, other, Part::Small), Some(2));
        assert_eq!(pop_number(&mut ready, 100, Part::Small), Some(1));
    }

    /// Compared with a linear search: whatever is added and removed, every hole is in its list
    /// until it is taken or forgotten, and the number of holes is bounded.
    #[test]
    fn every_hole_is_popped_once() {
        let mut ready = ReadyHoles::new();
        let mut expected = std::collections::HashMap::new();
        let mut random = 1_u64;
        for number in 1..=200_000_u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let len = 4 * (4 + (random >> 33) as u32 % 40);
            let part = if random >> 63 == 0 {
                Part::Small
            } else {
                Part::Main
            };
            if number % 50_000 < 30_000 || random >> 32 & 1 == 0 {
                ready.add(hole(number, len, part));
                expected.insert(number, (len, part));
            } else if let Some(number) = pop_number(&mut ready, len, part) {
                assert_eq!(expected.remove(&number), Some((len, part)));
            }
        }
        let mut left = 0;
        for len in (16..16 + 160).step_by(4) {
            for part in [Part::Small, Part::Main] {
                while let Some(number) = pop_number(&mut ready, len, part) {
                    assert_eq!(expected.remove(&number), Some((len, part)));
                    left += 1;
                }
            }
        }
        assert!((HOLES_MAX / 2..=HOLES_MAX).contains(&left), "{left}");
        assert!(!expected.is_empty(), "none was forgotten");
    }
}
