//! Deadlines of connections: one heap for timers, and queues for states that last a fixed time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::stack::ConnectionId;

/// Entries of a queue or heap, in addition to four for each connection that it is for, at which
/// entries of connections that are gone are removed.
const SPARE_ENTRIES: usize = 64;

/// Timers of connections, by time. A connection has at most one that counts; entries that were
/// replaced are skipped when their time comes.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, ConnectionId)>>,
}

impl Timers {
    /// Adds a timer for the time `at_ns`. `count` is the number of connections, and `is_armed` says
    /// whether an entry still counts.
    pub(crate) fn push(
        &mut self,
        at_ns: u64,
        id: ConnectionId,
        count: usize,
        is_armed: impl Fn(u64, ConnectionId) -> bool,
    ) {
        if self.heap.len() >= 4 * count + SPARE_ENTRIES {
            self.heap
                .retain(|&Reverse((at_ns, id))| is_armed(at_ns, id));
        }
        self.heap.push(Reverse((at_ns, id)));
    }

    /// Returns the earliest time of a timer, which may have been replaced.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|&Reverse((at_ns, _))| at_ns)
    }

    /// Removes a timer whose time has come.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<(u64, ConnectionId)> {
        let due = self.next_ns().is_some_and(|at_ns| at_ns <= now_ns);
        due.then(|| self.heap.pop().map(|Reverse(entry)| entry))?
    }
}

/// Connections in a state that lasts a fixed time, in the order in which they entered it.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    queue: VecDeque<(u64, ConnectionId)>,
}

impl Queue {
    /// Adds a connection whose time in the state ends at `at_ns`. `max` is the maximum number of
    /// connections in the state, and `is_there` says whether one still is.
    pub(crate) fn push(
        &mut self,
        at_ns: u64,
        id: ConnectionId,
        max: usize,
        is_there: impl Fn(ConnectionId) -> bool,
    ) {
        if self.queue.len() >= 4 * max + SPARE_ENTRIES {
            self.queue.retain(|&(_, id)| is_there(id));
        }
        self.queue.push_back((at_ns, id));
    }

    /// Returns the earliest time at which a connection, which may have left the state, is due.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.queue.front().map(|&(at_ns, _)| at_ns)
    }

    /// Removes the oldest entry if its time has come.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<ConnectionId> {
        self.next_ns().filter(|&at_ns| at_ns <= now_ns)?;
        self.pop()
    }

    /// Removes the oldest entry.
    pub(crate) fn pop(&mut self) -> Option<ConnectionId> {
        self.queue.pop_front().map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> ConnectionId {
        ConnectionId {
            slot,
            generation: 0,
        }
    }

    #[test]
    fn timers_are_due_in_the_order_of_time_and_replaced_ones_are_removed_at_the_bound() {
        let mut timers = Timers::default();
        for at_ns in (0..SPARE_ENTRIES as u64).rev() {
            timers.push(at_ns, id(at_ns as u32), 0, |_, _| unreachable!());
        }
        timers.push(100, id(100), 0, |at_ns, _| at_ns % 2 == 1);
        assert_eq!(timers.heap.len(), SPARE_ENTRIES / 2 + 1);
        assert_eq!(timers.pop_due(0), None);
        assert_eq!(timers.pop_due(3), Some((1, id(1))));
        assert_eq!(timers.next_ns(), Some(3));
    }

    #[test]
    fn a_queue_keeps_the_order_and_at_the_bound_removes_those_that_have_left() {
        let mut queue = Queue::default();
        for slot in 0..68 {
            queue.push(u64::from(slot), id(slot), 1, |_| unreachable!());
        }
        queue.push(100, id(100), 1, |it| it.slot >= 67);
        assert_eq!(queue.queue.len(), 2);
        assert_eq!(queue.pop_due(66), None);
        assert_eq!(queue.pop_due(67), Some(id(67)));
        assert_eq!(queue.next_ns(), Some(100));
        assert_eq!(queue.pop(), Some(id(100)));
    }
}
