//! The exchange of one datagram with the service: a session that answers its requests and ends.

use service::{ConnectionId, Next, OpenTickets, Output, Progress, Worker};

use crate::limits::REPLY_MAX;

/// A session that answers the requests of one datagram.
pub(crate) struct Exchange<W: Worker> {
    pub(crate) session: W::Session,
    pub(crate) tickets: OpenTickets,
    /// A result has been delivered since its last turn.
    pub(crate) has_result: bool,
    pub(crate) id: ConnectionId,
    /// The bytes of the input that the session has consumed.
    pub(crate) consumed: usize,
    /// The number of its turns.
    pub(crate) turns: u32,
    /// The replies so far.
    pub(crate) reply: Vec<u8>,
    /// The replies are longer than [`REPLY_MAX`].
    pub(crate) is_too_long: bool,
    /// It ended before its requests had all been answered.
    pub(crate) has_timed_out: bool,
}

/// How an exchange goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is complete.
    Done,
    /// The last request of the datagram is not complete.
    Incomplete,
    /// The session needs another turn.
    Turn,
    /// The session waits for memory.
    Memory,
    /// The session waits for a result.
    Completion,
}

impl<W: Worker> Exchange<W> {
    pub(crate) fn new(worker: &W, number: u32, reply: Vec<u8>) -> Self {
        Self {
            session: worker.open_datagram(),
            tickets: OpenTickets::default(),
            has_result: false,
            id: ConnectionId {
                slot: 0,
                generation: number,
            },
            consumed: 0,
            turns: 0,
            reply,
            is_too_long: false,
            has_timed_out: false,
        }
    }

    /// Takes the output of a turn, and returns what follows. `input_len` is the length of the input
    /// of that turn.
    pub(crate) fn take(
        &mut self,
        progress: Progress,
        input_len: usize,
        out: &mut Output<W::Pin>,
    ) -> Step {
        self.consumed += progress.consumed;
        self.turns += 1;
        if self.reply.len() + out.len() > REPLY_MAX {
            self.is_too_long = true;
        } else {
            for slice in out.slices(0) {
                self.reply.extend_from_slice(slice);
            }
        }
        out.clear();
        if self.is_too_long {
            return Step::Done;
        }
        match progress.next {
            Next::Close => Step::Done,
            // A session with open tickets has replies to write.
            Next::Input if self.tickets.count() > 0 => Step::Completion,
            Next::Input if progress.consumed == input_len => Step::Done,
            Next::Input | Next::Upload => Step::Incomplete,
            Next::OutputSpace | Next::Yield => Step::Turn,
            Next::Memory => Step::Memory,
            Next::Completion => Step::Completion,
        }
    }
}
