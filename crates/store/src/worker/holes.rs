//! Holes: the memory of blocks that a worker's own writes have unlinked. Each worker remembers its
//! holes, and writes a new block into a hole of exactly the same length, as an allocator with size
//! classes would.
//!
//! Without holes, a worker that overwrites items would always append to memory that is not in the
//! processor's cache, and evacuation would later have to copy the live blocks between the holes. A
//! hole was used recently, so its memory is likely cached, and filling it needs no new segment. The
//! value of a slow upload is never written into a hole, because the segment of an unfinished upload
//! cannot be evacuated.
//!
//! ```text
//! unlinked ──► young ──────► waiting ───────────────► ready ─────► filled
//!              (one batch)   (full batches, until     (lists by
//!                             their stamps have        length
//!                             passed)                  and part)
//! ```
//!
//! Readers may use the block in a hole until the epoch stamp of its batch has passed (`epochs.rs`).
//! Meanwhile the segment may have been pinned, or evacuated and opened again for new blocks. So a
//! writer takes these steps before it fills a hole:
//!
//! 1. It acquires the segment as a writer. This fails if the segment is closed for evacuation.
//! 2. It compares the number of the segment's last opening with the number remembered for the hole.
//!    If they differ, the segment was opened again and the hole no longer exists.
//! 3. It checks that the segment is not pinned and its items are not flushed.
//!
//! The number of remembered holes is bounded. A hole that is forgotten is reclaimed when its
//! segment is evacuated.

use std::collections::VecDeque;
use std::mem;

use crate::epochs::{Epochs, Stamp};
use crate::eviction_policy::Part;
use crate::heap::{BlockRef, Location};
use crate::limits::{HOLE_BATCH, HOLE_BATCHES_MAX, HOLE_LISTS, HOLE_TRIES, HOLES_MAX};
use crate::log::{AllocTarget, Allocation, part_of_opening};
use crate::statistics::counters::Counter;
use crate::worker::Worker;

/// The memory of an unlinked block.
#[derive(Debug, Clone, Copy)]
struct Hole {
    location: Location,
    /// Length of the block in bytes.
    len: u32,
    /// [`Segment::opening`](crate::heap::segment::Segment::opening) when the block was unlinked.
    opening: u32,
}

/// Holes that wait for the same epoch stamp.
type Batch = [Option<Hole>; HOLE_BATCH];

/// The holes of a worker.
#[derive(Debug)]
pub(crate) struct Holes {
    /// The batch to which unlinked blocks are added. It has no stamp yet.
    young: Batch,
    /// Number of holes in `young`.
    young_len: usize,
    /// Full batches, each with its stamp, oldest first.
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

    /// Adds a hole to the young batch. If the batch is full, the hole is forgotten.
    fn remember(&mut self, hole: Hole) {
        if let Some(slot) = self.young.get_mut(self.young_len) {
            *slot = Some(hole);
            self.young_len += 1;
        }
    }

    /// Does nothing until the young batch is full. Then moves the holes of the oldest waiting batch
    /// to the ready lists, if its stamp has passed. Gives the young batch a stamp, adds it to the
    /// waiting batches, and begins a new young batch. If too many batches are waiting, the holes of
    /// the full batch are forgotten instead.
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
            // `Epochs::retire` returns the stamp of the memory that was unlinked before the call.
            self.waiting.push_back((epochs.retire(), self.young));
        }
        self.young_len = 0;
    }
}

/// In [`ReadyHoles`], a link number that means "none".
const NONE: u16 = u16::MAX;

const _: () = assert!(HOLES_MAX < NONE as usize);

/// The holes that can be filled: a doubly linked list for each length and each part of the log
/// ([`Part`]), last in first out. Lengths from 2 KiB share lists with shorter ones. The lists share
/// one table of links. If the table is full and a hole is added, another hole is forgotten.
#[derive(Debug)]
struct ReadyHoles {
    links: Box<[HoleLink]>,
    /// For each list, the number of its first link.
    heads: Box<[u16]>,
    /// The first link of the list of unused links.
    first_free_link: u16,
    /// The link whose hole is removed next if no link is unused. Advances cyclically.
    next_to_forget: u16,
}

/// An element of a list of holes, or of the list of unused links.
#[derive(Debug, Clone, Copy)]
struct HoleLink {
    /// `None`: the link is unused.
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

    /// Adds a hole to the front of its list.
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

    /// Removes the first hole of the list for this length and part. Returns the removed hole, and
    /// the hole that is now first. `None` if the list is empty or its first hole has another
    /// length.
    fn pop(&mut self, len: u32, part: Part) -> Option<(Hole, Option<Hole>)> {
        let list = list_of(len, part);
        let number = self.heads[list];
        let link = self.links.get_mut(usize::from(number))?;
        // Lengths that differ by a multiple of 2 KiB share a list.
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

    /// Removes a link with a hole from its list, and adds it to the list of unused links.
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
            (Some(previous), _) => previous.next = next,
            (None, Some(hole)) => {
                self.heads[list_of(hole.len, part_of_opening(hole.opening))] = next;
            }
            (None, None) => {}
        }
    }
}

/// Returns the number of the list for holes of this length, a multiple of 4, and this part. Each
/// length has two lists, one for each part.
#[inline]
fn list_of(len: u32, part: Part) -> usize {
    (len / 4 * 2) as usize % HOLE_LISTS + part as usize
}

impl Worker {
    /// Remembers a block as a hole. The caller has unlinked the block's item. Also subtracts the
    /// item from the live bytes.
    #[inline]
    pub(crate) fn remember_hole(&self, block_ref: &BlockRef<'_>) {
        let len = self.account_unlinked(block_ref) as u32;
        self.holes.borrow_mut().remember(Hole {
            location: block_ref.location,
            len,
            opening: block_ref.segment.opening(),
        });
    }

    /// Takes a hole of exactly `len` bytes in a segment that suits `target`. Returns its memory.
    /// The segment is held for the writer, and is not evacuated until the hold is released.
    /// Therefore the caller must fill the hole without waiting. `None` if no suitable hole was
    /// found.
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
            // These checks only avoid a write to shared memory for a hole that cannot be used. The
            // opening may change after them, so `acquire_writer_if_opening` checks it again.
            let is_same = segment.opening() == opening;
            if is_same && log.accepts(segment, target) && segment.acquire_writer_if_opening(opening)
            {
                if log.is_reusable(segment) {
                    segment.raise_expiry(target.expiry);
                    self.counters.count(Counter::HolesFilled);
                    // The worker's next value often has the same length, and will fill `next`.
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

    /// Creates a hole whose location tells it from other holes.
    fn hole(number: u64, len: u32, part: Part) -> Hole {
        Hole {
            location: Location::new(number).unwrap(),
            len,
            opening: 2 + part as u32,
        }
    }

    /// Pops a hole, and returns the number with which it was created.
    fn pop_number(ready: &mut ReadyHoles, len: u32, part: Part) -> Option<u64> {
        let (hole, next) = ready.pop(len, part)?;
        assert!(next.is_none_or(|next| next.location != hole.location));
        Some(hole.location.units())
    }

    #[test]
    fn the_hole_added_last_for_a_length_and_part_is_popped_first() {
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
    fn pop_returns_no_hole_of_another_length_in_the_same_list() {
        let mut ready = ReadyHoles::new();
        // The next length that shares a list with length 100.
        let other = 100 + HOLE_LISTS as u32 * 2;
        ready.add(hole(1, 100, Part::Small));
        ready.add(hole(2, other, Part::Small));
        assert_eq!(pop_number(&mut ready, 100, Part::Small), None);
        assert_eq!(pop_number(&mut ready, other, Part::Small), Some(2));
        assert_eq!(pop_number(&mut ready, 100, Part::Small), Some(1));
    }

    /// Adds and pops holes at random, and records all holes in a map. Each popped hole must be in
    /// the map with its length and part, and is then removed from it. Holes that stay in the map
    /// were forgotten, because the number of holes is bounded.
    #[test]
    fn every_hole_is_popped_at_most_once() {
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
            // Of each 50,000 steps, the first 30,000 add a hole. The other steps add or pop a hole,
            // at random.
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
        assert!(!expected.is_empty(), "no hole was forgotten");
    }
}
