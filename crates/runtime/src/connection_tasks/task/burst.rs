//! A burst of one connection, at a desk that is its own for that long: prepare, answer. No system
//! call is made here, but to wait for a desk where all are lent.

use session::{Counter, Next};

use super::ConnectionTask;
use crate::connection_tasks::TaskRuntime;

impl<C: TaskRuntime> ConnectionTask<C> {
    /// Answers what has come: the first `fresh_len` bytes of the buffer, or else what is held. What
    /// cannot be used yet is held. `received_len` bytes are counted as received.
    pub(super) fn burst(&mut self, fresh_len: usize, received_len: u64, now_ns: u64) -> Next {
        let now = self.tasks.setup.clock.at(now_ns);
        let input = if fresh_len > 0 {
            &self.buffer[..fresh_len]
        } else {
            self.held.as_slice()
        };
        let (session, output) = (&mut self.session, &mut self.output);
        let waited_for_memory = self.waits_for_memory;
        let progress = self.tasks.runtime.with_context(|context| {
            context.counters.add(Counter::BytesRead, received_len);
            std::mem::swap(&mut context.output, output);
            let progress = context.answer_one(session, input, now);
            std::mem::swap(&mut context.output, output);
            // A desk's counters are counted by whoever has it: what is about to be sent, too.
            let len = output.len() as u64;
            context.counters.add(Counter::BytesWritten, len);
            match progress.next {
                Next::Yield | Next::OutputSpace => context.counters.count(Counter::ConnYields),
                // One that tries again in vain still waits the same wait.
                Next::Memory if !waited_for_memory => context.counters.count(Counter::HeldWaits),
                _ => {}
            }
            progress
        });
        self.waits_for_memory = progress.next == Next::Memory;
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
