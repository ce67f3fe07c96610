//! The segments of a tier: which ones exist, and what is in them.
//!
//! Segments are numbered in the order in which they are opened, and no number is used twice. A tier
//! of N segments keeps segment S in slot S mod N of its files, so the oldest segment is reused
//! first, and an index entry is valid exactly as long as its segment's number is in its slot.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A segment that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Its number.
    pub(crate) sequence: u32,
    /// The content of the segment that was in its slot.
    pub(crate) discarded: Content,
    /// Whether there was one.
    pub(crate) has_replaced: bool,
}

/// The current copies in a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// Their number.
    pub(crate) objects: u64,
    /// The lengths of their records, in bytes.
    pub(crate) bytes: u64,
}

/// A slot.
#[derive(Debug, Default)]
struct Slot {
    /// The number of the segment in bits 0 to 31, its flush generation in bits 32 to 63. Number 0:
    /// no segment is in this slot.
    ///
    /// The word guards no other memory. A reader that sees an old value reads bytes of a segment
    /// that is being replaced, which the record's own number shows.
    segment: AtomicU64,
    /// The number of the segment, and that of its current copies. So a copy that is removed too
    /// late is not subtracted from the next segment.
    objects: AtomicU64,
    /// The number of the segment, and the bytes of its current copies in units of
    /// [`RECORD_ALIGN`](crate::limits::RECORD_ALIGN).
    units: AtomicU64,
}

/// All slots.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    /// The number of the next segment.
    next: AtomicU32,
}

fn word(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl Ring {
    /// A ring of empty slots.
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            next: AtomicU32::new(1),
        }
    }

    /// The number of slots.
    pub(crate) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The number of the slot of a segment.
    pub(crate) fn slot_of(&self, sequence: u32) -> usize {
        sequence as usize % self.slots.len()
    }

    fn slot(&self, sequence: u32) -> &Slot {
        &self.slots[self.slot_of(sequence)]
    }

    /// Opens the next segment, in the place of the oldest one. Returns `None` once all numbers are
    /// used: after four thousand million segments the tier takes no more items.
    pub(crate) fn open(&self, generation: u32) -> Option<Opened> {
        let add = |next: u32| next.checked_add(1);
        let sequence = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .ok()?;
        let slot = self.slot(sequence);
        // In this order: after the first swap no entry of the earlier segment is valid.
        let before = slot
            .segment
            .swap(word(sequence, generation), Ordering::Relaxed);
        let objects = slot.objects.swap(word(sequence, 0), Ordering::Relaxed);
        let units = slot.units.swap(word(sequence, 0), Ordering::Relaxed);
        Some(Opened {
            sequence,
            discarded: content(objects, units),
            has_replaced: low(before) != 0,
        })
    }

    /// Puts back a segment that an earlier process has written. Its generation is the first one.
    pub(crate) fn restore(&self, sequence: u32) {
        let slot = self.slot(sequence);
        for counter in [&slot.segment, &slot.objects, &slot.units] {
            counter.store(word(sequence, 0), Ordering::Relaxed);
        }
    }

    /// Sets the number of the next segment.
    pub(crate) fn set_next(&self, next: u32) {
        self.next.store(next, Ordering::Relaxed);
    }

    /// The number of the next segment.
    pub(crate) fn next(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    /// Whether the segment is still in its slot.
    pub(crate) fn is_valid(&self, sequence: u32) -> bool {
        sequence != 0 && low(self.slot(sequence).segment.load(Ordering::Relaxed)) == sequence
    }

    /// Whether the segment is still in its slot, and has items of this flush generation.
    pub(crate) fn is_of(&self, sequence: u32, generation: u32) -> bool {
        let segment = self.slot(sequence).segment.load(Ordering::Relaxed);
        sequence != 0 && segment == word(sequence, generation)
    }

    /// The number of segments that were opened after this one.
    pub(crate) fn age(&self, sequence: u32) -> u32 {
        self.next().wrapping_sub(sequence).wrapping_sub(1)
    }

    /// Removes a segment whose bytes were lost. Returns its content.
    pub(crate) fn discard(&self, sequence: u32) -> Content {
        let slot = self.slot(sequence);
        let discard = |segment: u64| (low(segment) == sequence).then_some(0);
        let discarded = slot
            .segment
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, discard);
        if discarded.is_err() {
            return Content::default();
        }
        let objects = slot.objects.swap(0, Ordering::Relaxed);
        let units = slot.units.swap(0, Ordering::Relaxed);
        content(objects, units)
    }

    /// The numbers of the segments in the slots, with their flush generations.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (u32, u32)> {
        let words = self
            .slots
            .iter()
            .map(|it| it.segment.load(Ordering::Relaxed));
        words
            .map(|word| (low(word), high(word)))
            .filter(|&(sequence, _)| sequence != 0)
    }

    /// Adds a current copy to its segment. Returns what was added: nothing if the segment is not
    /// there any more.
    pub(crate) fn add(&self, sequence: u32, units: u32) -> Content {
        self.change(sequence, units, |it, by| it + by)
    }

    /// Subtracts a copy that is not current any more. Returns what was subtracted: nothing if its
    /// segment is not there any more.
    pub(crate) fn sub(&self, sequence: u32, units: u32) -> Content {
        self.change(sequence, units, u32::saturating_sub)
    }

    /// Changes both counts of a segment by those of one copy. If the segment is replaced meanwhile,
    /// one of them may have gone with it, which [`Opened::discarded`] then shows.
    fn change(&self, sequence: u32, units: u32, change: impl Fn(u32, u32) -> u32) -> Content {
        let slot = self.slot(sequence);
        let changed = |counter: &AtomicU64, by: u32| {
            let update =
                |it: u64| (low(it) == sequence).then(|| word(sequence, change(high(it), by)));
            let updated = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
            word(sequence, updated.map_or(0, |_| by))
        };
        content(changed(&slot.objects, 1), changed(&slot.units, units))
    }
}

fn content(objects: u64, units: u64) -> Content {
    let unit = crate::limits::RECORD_ALIGN as u64;
    Content {
        objects: u64::from(high(objects)),
        bytes: u64::from(high(units)) * unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise its bytes would be subtracted twice: here, and with the content of the segment.
    #[test]
    fn what_has_gone_with_a_replaced_segment_is_neither_added_nor_subtracted() {
        let ring = Ring::new(1);
        let sequence = ring.open(0).unwrap().sequence;
        let whole = Content {
            objects: 1,
            bytes: 24,
        };
        assert_eq!(ring.add(sequence, 3), whole);
        assert_eq!(ring.add(sequence, 3), whole);
        assert_eq!(ring.sub(sequence, 3), whole);
        // As if the segment were replaced between the changes of the two.
        let slot = ring.slot(sequence);
        let before = slot.units.swap(word(sequence + 1, 0), Ordering::Relaxed);
        assert_eq!(before, word(sequence, 3));
        let half = Content {
            objects: 1,
            bytes: 0,
        };
        assert_eq!(ring.add(sequence, 3), half);
        assert_eq!(ring.sub(sequence, 3), half);
        ring.open(0);
        assert_eq!(ring.add(sequence, 3), Content::default());
        assert_eq!(ring.sub(sequence, 3), Content::default());
    }
}
