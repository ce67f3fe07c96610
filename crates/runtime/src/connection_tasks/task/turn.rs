//! One turn of a task. The task uses a worker context to prepare and answer a bounded number of
//! requests. A turn makes no system call, unless it has to wait for a context.

use service::{ConnectionId, Next, Tickets};

use super::ConnectionTask;
use crate::connection_counts::Traffic;
use crate::connection_tasks::TaskRuntime;

/// The connection that every ticket names. All connections use this same value: each task has its
/// own mailbox, so a result in the mailbox belongs to the task's only connection.
const CONNECTION: ConnectionId = ConnectionId {
    slot: 0,
    generation: 0,
};

impl<C: TaskRuntime> ConnectionTask<C> {
    /// Answers the requests of one turn and returns what the session needs next. The replies are
    /// then in `output`.
    ///
    /// The input is the first `in_buffer_len` bytes of the receive buffer or, if `in_buffer_len` is
    /// 0, the held input. Bytes that the session does not consume are in the held input afterwards.
    /// `received_len` is added to the counter of received bytes.
    pub(super) fn answer_turn(
        &mut self,
        in_buffer_len: usize,
        received_len: u64,
        now_ns: u64,
    ) -> Next {
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
        // A transform has to read the bytes that it transforms, so it cannot send a file directly.
        output.set_accepts_files(self.transformer.is_none());
        let taken_back = &mut self.taken_back;
        let waited_for_memory = self.waits_for_memory;
        let progress = self.tasks.runtime.with_context(|context| {
            context.counts.add(Traffic::BytesRead, received_len);
            // `answer_one` answers only this connection. It appends the replies to the context's
            // output, so swap the task's output into the context for this call.
            std::mem::swap(&mut context.output, output);
            let progress = context.answer_one(session, input, tickets, now_ns);
            std::mem::swap(&mut context.output, output);
            // The counters belong to the context, which the task has only during this closure. So
            // the output is counted as sent before it is sent.
            let len = output.len() as u64;
            let counted_before = len.min(*taken_back);
            *taken_back -= counted_before;
            context
                .counts
                .add(Traffic::BytesWritten, len - counted_before);
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
