//! The queues of requests that are due but cannot be sent yet. Each connection has a queue. The
//! queues of all connections of a thread are linked lists in one array, whose size is bounded.

use workload::Request;

/// A request that is due: its intended time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// The intended send time, on the monotonic clock.
    pub(crate) intended_ns: u64,
    pub(crate) request: Request,
    /// For [`workload::Op::Cas`]: the CAS number that the item must have. For any other operation:
    /// 0.
    pub(crate) cas: u64,
}

/// The index that marks the end of a list.
const NONE: u32 = u32::MAX;

/// The FIFO queue of one connection: a linked list of nodes in a [`Waiting`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    /// The index of the node of the oldest request. [`NONE`]: the queue is empty.
    first: u32,
    /// The index of the node of the newest request. Not used if the queue is empty.
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

/// A queued request, or an unused node of [`Waiting::nodes`].
#[derive(Debug, Clone, Copy)]
struct Node {
    due: Due,
    /// The index of the next node in the same list. [`NONE`]: this is the last node.
    next: u32,
}

/// The nodes of all queues of a thread. The full capacity is reserved at the start. Otherwise the
/// vector would copy all nodes when it grows, which would delay requests.
pub(crate) struct Waiting {
    nodes: Vec<Node>,
    /// The index of the first node in the list of unused nodes. [`NONE`]: there are none.
    free: u32,
    /// The number of requests in all queues.
    len: usize,
    /// The maximum of `len`.
    len_max: usize,
}

impl Waiting {
    /// Reserves the memory for at most `len_max` requests. All queues are empty.
    pub(crate) fn new(len_max: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(len_max),
            free: NONE,
            len: 0,
            len_max,
        }
    }

    /// Returns the number of requests in all queues.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends a request to a queue, unless all queues together have the maximum number of
    /// requests. Returns whether the request was appended.
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

    /// Removes and returns the oldest request of a queue. None: the queue is empty.
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
    fn each_queue_is_first_in_first_out_and_the_number_of_requests_is_bounded() {
        let len_max = 64;
        let mut waiting = Waiting::new(len_max);
        let mut queues = [Queue::EMPTY; 4];
        let mut expected: [VecDeque<Due>; 4] = Default::default();
        // A linear congruential generator chooses the queue, and whether to push or to pop.
        let mut state = 1_u64;
        for step in 0..10_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let queue = (state >> 60) as usize % 4;
            if state >> 33 & 1 == 0 {
                let has_space = waiting.len() < len_max;
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
