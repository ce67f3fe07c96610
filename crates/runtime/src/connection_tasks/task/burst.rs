//! One turn of a task (the thread or fibre of a connection): with a worker context, it prepares and
//! answers a bounded number of requests. The only possible system call is the wait for a context if
//! all contexts are in use.

use service::{ConnectionId, Next, Tickets};

use super::ConnectionTask;
use crate::connection_counts::Traffic;
use crate::connection_tasks::TaskRuntime;

/// The identity of the connection in the tickets of any task. Each task has a mailbox of its own,
/// so the identity is not needed to find the connection of a result.
const CONNECTION: ConnectionId = ConnectionId {
    slot: 0,
    generation: 0,
};

impl<C: TaskRuntime> ConnectionTask<C> {
    /// Answers one turn of requests and returns what the session needs next. The replies are in
    /// `output`.
    ///
    /// The input is the first `in_buffer_len` bytes of the receive buffer or, if `in_buffer_len` is
    /// 0, the held input. Input that the session does not consume is held. `received_len` is added
    /// to the counter of received bytes.
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
        output.set_accepts_files(self.transformer.is_none());
        let taken_back = &mut self.taken_back;
        let waited_for_memory = self.waits_for_memory;
        let progress = self.tasks.runtime.with_context(|context| {
            context.counts.add(Traffic::BytesRead, received_len);
            std::mem::swap(&mut context.output, output);
            let progress = context.answer_one(session, input, tickets, now_ns);
            std::mem::swap(&mut context.output, output);
            // The counters belong to the context, which the task has only during this closure. So
            // the output is counted as sent before it is sent.
            let len = output.len() as u64;
            let counted = len.min(*taken_back);
            *taken_back -= counted;
            context.counts.add(Traffic::BytesWritten, len - counted);
            match progress.next {
                Next::Yield | Next::OutputSpace => context.counts.add(Traffic::Yields, 1),
                // Count the wait once, even if the connection retries several times.
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
