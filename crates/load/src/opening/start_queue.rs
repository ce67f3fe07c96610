//! The connections that wait for their next attempt to be opened, each with the time before which
//! the attempt must not start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue of connections, ordered by the times of their attempts. A connection whose attempt is
/// due never waits for one that is not due yet.
#[derive(Default)]
pub(super) struct StartQueue(BinaryHeap<Reverse<(u64, u32)>>);

/// The next attempt of a [`StartQueue`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextStart {
    /// The attempt of this connection is due. The connection has left the queue.
    Due(u32),
    /// The first attempt will be due after this number of nanoseconds.
    After(u64),
    /// The queue is empty.
    None,
}

impl StartQueue {
    /// Returns a queue with the connections 0 to `count - 1`, whose attempts are all due.
    pub(super) fn with_all_due(count: u32) -> Self {
        Self(
            (0..count)
                .map(|connection| Reverse((0, connection)))
                .collect(),
        )
    }

    /// Adds a connection. Its next attempt starts at `not_before_ns` or later.
    pub(super) fn push(&mut self, connection: u32, not_before_ns: u64) {
        self.0.push(Reverse((not_before_ns, connection)));
    }

    /// Returns the next attempt, and removes its connection if the attempt is due.
    pub(super) fn next(&mut self, now_ns: u64) -> NextStart {
        match self.0.peek() {
            None => NextStart::None,
            Some(&Reverse((not_before_ns, _))) if not_before_ns > now_ns => {
                NextStart::After(not_before_ns - now_ns)
            }
            Some(&Reverse((_, connection))) => {
                self.0.pop();
                NextStart::Due(connection)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test. Connections were started in the order in which they were pushed, so one
    /// with a long delay held back those behind it.
    #[test]
    fn a_connection_with_a_long_delay_does_not_hold_back_the_others() {
        let mut queue = StartQueue::with_all_due(3);
        let first: Vec<_> = (0..3).map(|_| queue.next(1)).collect();
        assert_eq!(first, [0, 1, 2].map(NextStart::Due));
        queue.push(0, 640);
        queue.push(2, 20);
        queue.push(1, 40);
        assert_eq!(queue.next(5), NextStart::After(15));
        assert_eq!(queue.next(20), NextStart::Due(2));
        assert_eq!(queue.next(30), NextStart::After(10));
        assert_eq!(queue.next(700), NextStart::Due(1));
        assert_eq!(queue.next(700), NextStart::Due(0));
        assert_eq!(queue.next(700), NextStart::None);
    }
}
