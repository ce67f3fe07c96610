//! One connection and what is outstanding on it.

use std::collections::VecDeque;
use std::io;

use protocol::client::{Malformed, ReplyReader};
use sys::socket::Stream;
use workload::Op;

use crate::config::Protocol;
use crate::wire::{self, Answer, Batch};

/// A request that has left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlight {
    pub(crate) intended_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) opaque: u64,
    /// How long it waited for the generator alone.
    pub(crate) late_ns: u32,
    pub(crate) op: Op,
    /// It counts: its intended time lies in the measured interval.
    pub(crate) measured: bool,
    /// As [`crate::tally::Recorded::interrupted`].
    pub(crate) interrupted: bool,
}

/// A connection. It sends batches, keeps what a full socket did not take, and gives each answer
/// the request it belongs to.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) in_flight: VecDeque<InFlight>,
    reader: ReplyReader,
    /// Bytes the socket had no room for, and how many of them have left since.
    unsent: Vec<u8>,
    unsent_from: usize,
}

/// Why a connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("the server closed it")]
    Closed,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("an answer to nothing that was asked")]
    Unsolicited,
}

impl Connection {
    pub(crate) fn new(stream: Stream, depth: u32) -> Self {
        // Where there are no such notes (Unix sockets), the clock of the thread has to do.
        let _ = stream.stamp_receives();
        Self {
            stream,
            in_flight: VecDeque::with_capacity(depth as usize),
            reader: ReplyReader::new(),
            unsent: Vec::new(),
            unsent_from: 0,
        }
    }

    /// Whether bytes wait for room in the socket; nothing may be sent before them.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends a batch; what the socket has no room for leaves later. Returns the bytes that left.
    pub(crate) fn send(&mut self, batch: &Batch) -> Result<usize, ConnectionError> {
        debug_assert!(!self.is_blocked());
        let sent = nothing_if_full(batch.send(&self.stream))?;
        if sent < batch.len() {
            batch.append_from(sent, &mut self.unsent);
        }
        Ok(sent)
    }

    /// Sends bytes that waited for room. Returns the bytes that left.
    pub(crate) fn send_unsent(&mut self) -> Result<usize, ConnectionError> {
        let sent = nothing_if_full(self.stream.send(&self.unsent[self.unsent_from..]))?;
        self.unsent_from += sent;
        if self.unsent_from == self.unsent.len() {
            self.unsent.clear();
            self.unsent_from = 0;
        }
        Ok(sent)
    }

    /// Receives once, with the unix time of arrival where the kernel noted it. 0: nothing was
    /// there after all.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<(usize, Option<u64>), ConnectionError> {
        match self.stream.recv_stamped(buffer) {
            Ok((0, _)) => Err(ConnectionError::Closed),
            Ok(received) => Ok(received),
            Err(error) => nothing_if_full(Err(error)).map(|len| (len, None)),
        }
    }

    /// The next answer in `input`, whose beginning up to where it ends is cut off.
    pub(crate) fn answer(
        &mut self,
        input: &mut &[u8],
        protocol: Protocol,
    ) -> Result<Option<(InFlight, Answer)>, ConnectionError> {
        let Some(next) = self.in_flight.front() else {
            return if input.is_empty() {
                Ok(None)
            } else {
                Err(ConnectionError::Unsolicited)
            };
        };
        let step = self
            .reader
            .advance(input, wire::expected_reply(protocol, next.op))?;
        *input = &input[step.consumed..];
        let Some(reply) = step.reply else {
            return Ok(None);
        };
        let (answer, opaque) = wire::interpret(reply);
        let index = match opaque {
            None => 0,
            Some(opaque) => {
                let mine = |request: &InFlight| request.opaque == opaque;
                self.in_flight
                    .iter()
                    .position(mine)
                    .ok_or(ConnectionError::Unsolicited)?
            }
        };
        match self.in_flight.remove(index) {
            Some(request) if fits(request.op, answer) => Ok(Some((request, answer))),
            _ => Err(ConnectionError::Unsolicited),
        }
    }
}

/// Whether such an answer can be one to such a request.
fn fits(op: Op, answer: Answer) -> bool {
    match answer {
        Answer::Hit | Answer::Miss => op == Op::Get,
        Answer::Stored => op == Op::Set,
        Answer::Error => true,
    }
}

fn nothing_if_full(outcome: io::Result<usize>) -> Result<usize, ConnectionError> {
    match outcome {
        Ok(len) => Ok(len),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(error.into()),
        },
    }
}
