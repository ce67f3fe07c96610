//! A burst of one connection with a worker context: prepare, answer. The only possible system call
//! is the wait for a context if all are in use.

use session::{Counter, Next};

use super::ConnectionTask;
use crate::connection_tasks::TaskRuntime;

impl<C: TaskRuntime> ConnectionTask<C> {
    /// Answers the first `fresh_len` bytes of the buffer, or else the held input. Input that cannot
    /// be consumed yet is held. `received_len` bytes are counted as received.
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
            // Only the holder of a context may count, so bytes to be sent are counted here too.
            let len = output.len() as u64;
            context.counters.add(Counter::BytesWritten, len);
            match progress.next {
                Next::Yield | Next::OutputSpace => context.counters.count(Counter::ConnYields),
                // A failed retry is part of the same wait.
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
