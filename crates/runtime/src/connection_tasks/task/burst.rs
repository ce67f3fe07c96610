//! A burst of one connection with a worker context: prepare, answer. The only possible system call
//! is the wait for a context if all are in use.

use service::{ConnectionId, Next, Tickets};

use super::ConnectionTask;
use crate::connection_counts::Traffic;
use crate::connection_tasks::TaskRuntime;

/// A task has a mailbox of its own, so its results need not name a connection.
const CONNECTION: ConnectionId = ConnectionId {
    slot: 0,
    generation: 0,
};

impl<C: TaskRuntime> ConnectionTask<C> {
    /// Answers the first `in_buffer_len` bytes of the buffer, or else the held input. Input that cannot
    /// be consumed yet is held. `received_len` bytes are counted as received.
    pub(super) fn burst(&mut self, in_buffer_len: usize, received_len: u64, now_ns: u64) -> Next {
        let input = if in_buffer_len > 0 {
            &self.buffer[..in_buffer_len]
        } else {
            self.held.as_slice()
        };
        let (session, output) = (&mut self.session, &mut self.output);
        let tickets = Tickets {
            mailbox: &mut self.mailbox,
            waker: &self.waker,
            connection: CONNECTION,
            open: &mut self.tickets,
        };
        let waited_for_memory = self.waits_for_memory;
        let progress = self.tasks.runtime.with_context(|context| {
            context.counts.add(Traffic::BytesRead, received_len);
            std::mem::swap(&mut context.output, output);
            let progress = context.answer_one(session, input, tickets, now_ns);
            std::mem::swap(&mut context.output, output);
            // Counting needs a context, so bytes are counted as sent before they are.
            let len = output.len() as u64;
            context.counts.add(Traffic::BytesWritten, len);
            match progress.next {
                Next::Yield | Next::OutputSpace => context.counts.add(Traffic::Yields, 1),
                // A failed retry is part of the same wait.
                Next::Memory if !waited_for_memory => context.counts.add(Traffic::MemoryWaits, 1),
                _ => {}
            }
            progress
        });
        self.waits_for_memory = progress.next == Next::Memory;
        if in_buffer_len > 0 {
            let unconsumed = &self.buffer[progress.consumed..in_buffer_len];
            if !unconsumed.is_empty() {
                self.held.append(unconsumed);
            }
        } else {
            self.held.consume(progress.consumed);
        }
        progress.next
    }
}
