//! Requests that are due but cannot leave yet: one queue per connection, all in one bounded arena.

use workload::Request;

/// A request whose intended time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) intended_ns: u64,
    pub(crate) request: Request,
    /// The CAS of an [`workload::Op::Cas`].
    pub(crate) cas: u64,
}

const NONE: u32 = u32::MAX;

/// The FIFO queue of one connection: a linked list in [`Waiting`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
}

impl Queue {
    pub(crate) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

#[derive(Debug, Clone, Copy)]
struct Node {
    due: Due,
    next: u32,
}

/// The arena of all queues. Its address space is reserved at the start, so that growth never copies
/// the requests and delays none.
pub(crate) struct Waiting {
    nodes: Vec<Node>,
    free: u32,
    len: usize,
    len_max: usize,
}

impl Waiting {
    pub(crate) fn new(len_max: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(len_max),
            free: NONE,
            len: 0,
            len_max,
        }
    }

    /// Requests in all queues.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends a request to a queue. False: the arena is full.
    #[inline]
    pub(crate) fn push(&mut self, queue: &mut Queue, due: Due) -> bool {
        if self.len == self.len_max {
            return false;
        }
        let node = Node { due, next: NONE };
        let index = self.free;
        let index = if index == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            self.free = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        };
        if queue.first == NONE {
            queue.first = index;
        } else {
            self.nodes[queue.last as usize].next = index;
        }
        queue.last = index;
        self.len += 1;
        true
    }

    /// Removes the first request of a queue.
    #[inline]
    pub(crate) fn pop(&mut self, queue: &mut Queue) -> Option<Due> {
        if queue.first == NONE {
            return None;
        }
        let index = queue.first as usize;
        let node = self.nodes[index];
        queue.first = node.next;
        self.nodes[index].next = self.free;
        self.free = index as u32;
        self.len -= 1;
        Some(node.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use workload::Op;

    fn due(intended_ns: u64) -> Due {
        Due {
            intended_ns,
            request: Request::new(Op::Get, intended_ns),
            cas: 0,
        }
    }

    #[test]
    fn queues_share_the_arena_and_keep_their_order() {
        let mut waiting = Waiting::new(64);
        let mut queues = [Queue::EMPTY; 4];
        let mut expected: [VecDeque<Due>; 4] = Default::default();
        let mut state = 1_u64;
        for step in 0..10_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let queue = (state >> 60) as usize % 4;
            if state >> 33 & 1 == 0 {
                let has_space = waiting.len() < 64;
                assert_eq!(waiting.push(&mut queues[queue], due(step)), has_space);
                if has_space {
                    expected[queue].push_back(due(step));
                }
            } else {
                assert_eq!(waiting.pop(&mut queues[queue]), expected[queue].pop_front());
            }
            assert_eq!(queues[queue].is_empty(), expected[queue].is_empty());
        }
        assert_eq!(
            waiting.len(),
            expected.iter().map(VecDeque::len).sum::<usize>()
        );
    }
}
