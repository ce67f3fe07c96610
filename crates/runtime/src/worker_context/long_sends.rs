//! The connections whose output is sent over several rounds, and the bound on the bytes of a round.
//!
//! A *round* is one pass of the worker's loop: a wait, and the turns and sends that follow. A
//! request that arrives during a round waits for the end of the round. So the bytes of long output
//! that are sent in a round have a bound, however many connections have such output.
//!
//! *Long output* has pins or a part of a file. Other output (copied replies) is sent at the end of
//! the turn. Long output is sent in parts of at most [`SEND_PER_ROUND`] bytes. Once the parts of a
//! round have reached this number, the connections wait in a queue for the next rounds. While any
//! connection waits, new long output joins the queue too. So each round sends at least one part of
//! the queue, and each connection gets its next part when all others have got one (round-robin).

use std::collections::VecDeque;

use crate::connection_table::Slot;
use crate::limits::SEND_PER_ROUND;

/// The queue of connections with unsent output, and the bytes of long output that were sent in the
/// current round.
#[derive(Debug, Default)]
pub(super) struct LongSends {
    /// The connections whose transports may have space for more. They are sent to in this order,
    /// one part each.
    queue: VecDeque<Slot>,
    /// The number of bytes of long output that were sent in the current round.
    sent_len: usize,
}

impl LongSends {
    pub(super) fn begin_round(&mut self) {
        self.sent_len = 0;
    }

    /// Counts the bytes of a part.
    #[inline]
    pub(super) fn count(&mut self, len: usize) {
        self.sent_len += len;
    }

    /// Returns how many bytes of new long output may be sent at the end of a turn.
    #[inline]
    pub(super) fn first_part_max(&self) -> usize {
        match self.queue.is_empty() && !self.is_round_full() {
            true => SEND_PER_ROUND,
            false => 0,
        }
    }

    /// Returns whether no further part may be sent in this round.
    #[inline]
    fn is_round_full(&self) -> bool {
        self.sent_len >= SEND_PER_ROUND
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn push(&mut self, slot: Slot) {
        self.queue.push_back(slot);
    }

    /// Takes the next connection to send to. Returns `None` if there is none, or the round is full.
    pub(super) fn pop(&mut self) -> Option<Slot> {
        match self.is_round_full() {
            true => None,
            false => self.queue.pop_front(),
        }
    }

    /// Removes a connection that is about to be closed.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.queue.retain(|&queued| queued != slot);
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_sent_to_in_turn_and_a_round_has_a_bound() {
        let mut sends = LongSends::default();
        (0..3).for_each(|slot| sends.push(slot));
        let mut round = |part_len| {
            sends.begin_round();
            let mut sent_to = Vec::new();
            while let Some(slot) = sends.pop() {
                sends.count(part_len);
                sends.push(slot);
                sent_to.push(slot);
            }
            sent_to
        };
        assert_eq!(round(SEND_PER_ROUND), [0]);
        assert_eq!(round(SEND_PER_ROUND / 2), [1, 2]);
        assert_eq!(round(SEND_PER_ROUND / 2 - 1), [0, 1, 2]);
        sends.remove(1);
        sends.begin_round();
        assert_eq!(
            (sends.pop(), sends.pop(), sends.pop()),
            (Some(0), Some(2), None)
        );
    }

    /// Regression: new long output was sent before that of the queue. If it filled each round, the
    /// connections in the queue waited for ever.
    #[test]
    fn new_long_output_does_not_overtake_the_queue() {
        let mut sends = LongSends::default();
        sends.begin_round();
        assert_eq!(sends.first_part_max(), SEND_PER_ROUND);
        sends.push(0);
        for _ in 0..3 {
            sends.begin_round();
            assert_eq!(sends.first_part_max(), 0);
            assert_eq!(sends.pop(), Some(0));
            sends.count(SEND_PER_ROUND);
            assert_eq!(sends.first_part_max(), 0, "the round is full");
            sends.push(0);
        }
    }
}
