//! Deadlines of connections: one heap for timers, and queues for states that last a fixed time.

use std::collections::VecDeque;

/// Entries of a queue, in addition to four for each connection that it is for, at which
/// entries of connections that are gone are removed.
const SPARE_ENTRIES: usize = 64;

/// Timers of connections, at most one for each: a binary heap by time, and where in it the entry of
/// each connection is. So an earlier time replaces a later one in place, and no entries of the past
/// have to be removed.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Vec<(u64, u32)>,
    /// By slot: the position in `heap`, or [`NO_TIMER`].
    positions: Vec<usize>,
}

/// The position of a connection without a timer.
const NO_TIMER: usize = usize::MAX;

impl Timers {
    /// Sets the timer of the connection in `slot` to the time `at_ns`, if it is not set to an
    /// earlier one.
    pub(crate) fn set_earlier(&mut self, slot: u32, at_ns: u64) {
        let index = slot as usize;
        if index >= self.positions.len() {
            self.positions.resize(index + 1, NO_TIMER);
        }
        let position = match self.positions[index] {
            NO_TIMER => {
                self.heap.push((at_ns, slot));
                self.heap.len() - 1
            }
            position if at_ns < self.heap[position].0 => {
                self.heap[position].0 = at_ns;
                position
            }
            _ => return,
        };
        self.move_up(position);
    }

    /// Removes the timer of the connection in `slot`, if it has one.
    pub(crate) fn remove(&mut self, slot: u32) {
        let position = self.positions.get(slot as usize).copied();
        let Some(position) = position.filter(|&position| position != NO_TIMER) else {
            return;
        };
        self.positions[slot as usize] = NO_TIMER;
        let Some(last) = self.heap.pop().filter(|_| position < self.heap.len()) else {
            return;
        };
        self.heap[position] = last;
        self.move_up(position);
        self.move_down(self.positions[last.1 as usize]);
    }

    /// Returns the earliest time of a timer.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.first().map(|&(at_ns, _)| at_ns)
    }

    /// Removes a timer whose time has come. Returns its slot.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<u32> {
        let &(_, slot) = self.heap.first().filter(|&&(at_ns, _)| at_ns <= now_ns)?;
        self.remove(slot);
        Some(slot)
    }

    /// Moves an entry towards the root until its parent is not later.
    fn move_up(&mut self, mut position: usize) {
        let entry = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.place(position, self.heap[parent]);
            position = parent;
        }
        self.place(position, entry);
    }

    /// Moves an entry away from the root until its children are not earlier.
    fn move_down(&mut self, mut position: usize) {
        let entry = self.heap[position];
        loop {
            let children = 2 * position + 1..(2 * position + 3).min(self.heap.len());
            let Some(child) = children.min_by_key(|&child| self.heap[child]) else {
                break;
            };
            if entry <= self.heap[child] {
                break;
            }
            self.place(position, self.heap[child]);
            position = child;
        }
        self.place(position, entry);
    }

    fn place(&mut self, position: usize, entry: (u64, u32)) {
        self.heap[position] = entry;
        self.positions[entry.1 as usize] = position;
    }
}

/// Connections in a state that lasts a fixed time, in the order in which they entered it.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    queue: VecDeque<(u64, T)>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let queue = VecDeque::new();
        Self { queue }
    }
}

impl<T: Copy> Queue<T> {
    /// Adds a connection whose time in the state ends at `at_ns`. `max` is the maximum number of
    /// connections in the state, and `is_there` says whether one still is.
    pub(crate) fn push(&mut self, at_ns: u64, id: T, max: usize, is_there: impl Fn(T) -> bool) {
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
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<T> {
        self.next_ns().filter(|&at_ns| at_ns <= now_ns)?;
        self.pop()
    }

    /// Removes the oldest entry.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.queue.pop_front().map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Random calls, compared with a map from slots to times.
    #[test]
    fn timers_are_due_in_the_order_of_time() {
        let mut random = crate::testing::Random(1);
        let (mut timers, mut model) = (Timers::default(), BTreeMap::new());
        for _ in 0..20_000 {
            let (slot, at_ns) = (random.below(50) as u32, random.below(1000) as u64);
            match random.below(8) {
                0..5 => {
                    timers.set_earlier(slot, at_ns);
                    let set = model.entry(slot).or_insert(at_ns);
                    *set = (*set).min(at_ns);
                }
                5 => {
                    timers.remove(slot);
                    model.remove(&slot);
                }
                _ => {
                    let next = model.iter().map(|(&slot, &at_ns)| (at_ns, slot)).min();
                    assert_eq!(timers.next_ns(), next.map(|(at_ns, _)| at_ns));
                    let due = next.filter(|&(next_ns, _)| next_ns <= at_ns);
                    assert_eq!(timers.pop_due(at_ns), due.map(|(_, slot)| slot));
                    due.and_then(|(_, slot)| model.remove(&slot));
                }
            }
            assert_eq!(timers.heap.len(), model.len());
        }
    }

    #[test]
    fn a_queue_keeps_the_order_and_at_the_bound_removes_those_that_have_left() {
        let mut queue = Queue::default();
        for slot in 0_u32..68 {
            queue.push(u64::from(slot), slot, 1, |_| unreachable!());
        }
        queue.push(100, 100, 1, |it| it >= 67);
        assert_eq!(queue.queue.len(), 2);
        assert_eq!(queue.pop_due(66), None);
        assert_eq!(queue.pop_due(67), Some(67));
        assert_eq!(queue.next_ns(), Some(100));
        assert_eq!(queue.pop(), Some(100));
    }
}
