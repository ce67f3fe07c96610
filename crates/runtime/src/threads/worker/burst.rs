//! A burst of one connection, at a borrowed desk: prepare, answer. No system call is made here, but
//! for a desk when all are lent.

use session::{Counter, Next};

use super::Conversation;

impl Conversation {
    /// Answers what has come: the first `fresh_len` bytes of the buffer, or else what is held. What
    /// cannot be used yet is held. `received_len` bytes are counted as received.
    pub(super) fn burst(&mut self, fresh_len: usize, received_len: u64, now_ns: u64) -> Next {
        let now = self.hall.setup.clock.at(now_ns);
        let input = if fresh_len > 0 {
            &self.buffer[..fresh_len]
        } else {
            self.held.as_slice()
        };
        let mut desk = self.hall.desks.borrow();
        desk.counters.add(Counter::BytesRead, received_len);
        std::mem::swap(&mut desk.output, &mut self.output);
        let progress = desk.answer_one(&mut self.session, input, now);
        std::mem::swap(&mut desk.output, &mut self.output);
        // A desk's counters are counted by whoever has it: what is about to be sent, too.
        desk.counters
            .add(Counter::BytesWritten, self.output.len() as u64);
        let wants_memory = progress.next == Next::Memory;
        match progress.next {
            Next::Turn | Next::Room => desk.counters.count(Counter::ConnYields),
            // One that tries again in vain still waits the same wait.
            Next::Memory if !self.wants_memory => desk.counters.count(Counter::HeldWaits),
            _ => {}
        }
        drop(desk);
        self.wants_memory = wants_memory;
        if fresh_len > 0 {
            let rest = &self.buffer[progress.consumed..fresh_len];
            if !rest.is_empty() {
                self.held.append(rest);
            }
        } else {
            self.held.consume(progress.consumed);
        }
        progress.next
    }
}
