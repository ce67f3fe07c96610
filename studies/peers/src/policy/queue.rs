//! A first-in, first-out queue of records from whose middle one can be taken, all queues of a
//! policy in one array.

/// No record.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
    bytes: u32,
}

/// The places of all records, in whichever queue they are.
#[derive(Debug)]
pub(super) struct Links(Vec<Link>);

impl Links {
    pub(super) fn new(records: u32) -> Self {
        let link = Link {
            newer: NONE,
            older: NONE,
            bytes: 0,
        };
        Self(vec![link; records as usize])
    }

    /// What was charged for a record that is in a queue.
    pub(super) fn bytes(&self, record: u32) -> u32 {
        self.0[record as usize].bytes
    }

    /// The record that came just after; [`NONE`]: it is the newest.
    pub(super) fn newer(&self, record: u32) -> u32 {
        self.0[record as usize].newer
    }
}

/// One queue.
#[derive(Debug)]
pub(super) struct Queue {
    newest: u32,
    oldest: u32,
    bytes: u64,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            newest: NONE,
            oldest: NONE,
            bytes: 0,
        }
    }

    /// Bytes of all its records.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The record that came first; [`NONE`]: it is empty.
    pub(super) fn oldest(&self) -> u32 {
        self.oldest
    }

    pub(super) fn push(&mut self, links: &mut Links, record: u32, bytes: u32) {
        links.0[record as usize] = Link {
            newer: NONE,
            older: self.newest,
            bytes,
        };
        match self.newest {
            NONE => self.oldest = record,
            newest => links.0[newest as usize].newer = record,
        }
        self.newest = record;
        self.bytes += u64::from(bytes);
    }

    pub(super) fn take(&mut self, links: &mut Links, record: u32) {
        let Link {
            newer,
            older,
            bytes,
        } = links.0[record as usize];
        match newer {
            NONE => self.newest = older,
            newer => links.0[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => links.0[older as usize].newer = newer,
        }
        self.bytes -= u64::from(bytes);
    }

    pub(super) fn pop(&mut self, links: &mut Links) -> Option<u32> {
        let record = self.oldest;
        if record == NONE {
            return None;
        }
        self.take(links, record);
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_but_for_what_is_taken_from_the_middle() {
        let mut links = Links::new(8);
        let mut queue = Queue::new();
        for record in [3, 1, 4, 2] {
            queue.push(&mut links, record, 10 + record);
        }
        assert_eq!(queue.bytes(), 50);
        assert_eq!(links.newer(1), 4);
        queue.take(&mut links, 4);
        assert_eq!(queue.pop(&mut links), Some(3));
        assert_eq!(queue.pop(&mut links), Some(1));
        assert_eq!((queue.oldest(), queue.bytes()), (2, 12));
        assert_eq!(queue.pop(&mut links), Some(2));
        assert_eq!(queue.pop(&mut links), None);
        assert_eq!(queue.bytes(), 0);
    }
}
