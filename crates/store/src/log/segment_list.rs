//! A doubly linked list of segments in the order in which they were sealed. A segment can be
//! removed from any position in constant time.

use crate::heap::SegmentNumber;

/// The segment number that means "no segment".
const NONE: SegmentNumber = SegmentNumber::MAX;

/// The neighbours of a segment in the list that contains it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links {
    prev: SegmentNumber,
    next: SegmentNumber,
}

impl Links {
    /// The links of a segment that is in no list.
    pub(super) const NONE: Self = Self {
        prev: NONE,
        next: NONE,
    };
}

/// The sealed segments of one part, oldest first. The links of the segments are in a table, indexed
/// by segment number, that the caller passes to each function. A segment is in at most one list, so
/// all lists share one table.
#[derive(Debug)]
pub(super) struct SegmentList {
    first: SegmentNumber,
    last: SegmentNumber,
    len: usize,
}

impl Default for SegmentList {
    fn default() -> Self {
        Self {
            first: NONE,
            last: NONE,
            len: 0,
        }
    }
}

impl SegmentList {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<SegmentNumber> {
        (self.first != NONE).then_some(self.first)
    }

    /// Returns the segment after segment `number`, which is in the list.
    pub(super) fn next(&self, links: &[Links], number: SegmentNumber) -> Option<SegmentNumber> {
        let next = links[number as usize].next;
        (next != NONE).then_some(next)
    }

    /// Adds a segment at the end of the list. It must be in no list.
    pub(super) fn push_last(&mut self, links: &mut [Links], number: SegmentNumber) {
        links[number as usize] = Links {
            prev: self.last,
            next: NONE,
        };
        match self.last {
            NONE => self.first = number,
            last => links[last as usize].next = number,
        }
        self.last = number;
        self.len += 1;
    }

    /// Adds a segment at the front of the list. It must be in no list.
    pub(super) fn push_first(&mut self, links: &mut [Links], number: SegmentNumber) {
        links[number as usize] = Links {
            prev: NONE,
            next: self.first,
        };
        match self.first {
            NONE => self.last = number,
            first => links[first as usize].prev = number,
        }
        self.first = number;
        self.len += 1;
    }

    /// Removes a segment that is in the list.
    pub(super) fn remove(&mut self, links: &mut [Links], number: SegmentNumber) {
        let Links { prev, next } = links[number as usize];
        match prev {
            NONE => self.first = next,
            prev => links[prev as usize].next = next,
        }
        match next {
            NONE => self.last = prev,
            next => links[next as usize].prev = prev,
        }
        links[number as usize] = Links::NONE;
        self.len -= 1;
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn a_segment_can_be_removed_from_any_position() {
        let (mut segment_list, mut links) = (SegmentList::default(), [Links::NONE; 5]);
        (0..4).for_each(|number| segment_list.push_last(&mut links, number));
        segment_list.push_first(&mut links, 4);
        let mut order = Vec::new();
        for number in [1, 3] {
            segment_list.remove(&mut links, number);
        }
        while let Some(number) = segment_list.first() {
            order.push((segment_list.len(), number));
            segment_list.remove(&mut links, number);
        }
        // Each pair is the length of the list and the number of its first segment.
        assert_eq!(order, [(3, 4), (2, 0), (1, 2)]);
        assert_eq!(segment_list.len(), 0);
    }
}
