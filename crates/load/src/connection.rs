//! One connection and its outstanding requests.

use std::collections::VecDeque;
use std::io;

use protocol::client::{Malformed, ReplyReader};
use sys::socket::Stream;
use workload::Op;

use crate::config::Protocol;
use crate::wire::{self, Answer, Batch};

/// A request that was sent and not yet answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlight {
    pub(crate) intended_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) opaque: u64,
    /// Its lateness: how long it waited only for the generator.
    pub(crate) late_ns: u32,
    pub(crate) op: Op,
    /// Its intended time lies in the measured interval.
    pub(crate) measured: bool,
    /// As [`crate::metrics::Recorded::interrupted`].
    pub(crate) interrupted: bool,
}

/// A connection to a server. It sends batches, buffers the bytes that a full socket did not accept,
/// and matches answers to requests.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) in_flight: VecDeque<InFlight>,
    reader: ReplyReader,
    /// Bytes that a full socket did not accept.
    unsent: Vec<u8>,
    /// Number of these bytes that were sent since.
    unsent_from: usize,
}

/// Why a connection was lost.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("the server closed the connection")]
    Closed,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("an answer that matches no outstanding request")]
    Unsolicited,
}

impl Connection {
    pub(crate) fn new(stream: Stream, depth: u32) -> Self {
        // Where there are no time stamps (Unix sockets), the thread's clock is used.
        let _ = stream.stamp_receives();
        Self {
            stream,
            in_flight: VecDeque::with_capacity(depth as usize),
            reader: ReplyReader::new(),
            unsent: Vec::new(),
            unsent_from: 0,
        }
    }

    /// Whether buffered bytes wait for space in the socket. They have to be sent before any others.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends a batch and buffers the bytes that the socket did not accept. Returns the number of
    /// bytes sent.
    pub(crate) fn send(&mut self, batch: &Batch) -> Result<usize, ConnectionError> {
        debug_assert!(!self.is_blocked());
        let sent = zero_if_blocked(batch.send(&self.stream))?;
        if sent < batch.len() {
            batch.append_from(sent, &mut self.unsent);
        }
        Ok(sent)
    }

    /// Sends buffered bytes. Returns the number of bytes sent.
    pub(crate) fn send_unsent(&mut self) -> Result<usize, ConnectionError> {
        let sent = zero_if_blocked(self.stream.send(&self.unsent[self.unsent_from..]))?;
        self.unsent_from += sent;
        if self.unsent_from == self.unsent.len() {
            self.unsent.clear();
            self.unsent_from = 0;
        }
        Ok(sent)
    }

    /// Receives once. Returns the length and, if the kernel has stamped it, the Unix time of
    /// arrival. Length 0: there was nothing to receive.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<(usize, Option<u64>), ConnectionError> {
        match self.stream.recv_stamped(buffer) {
            Ok((0, _)) => Err(ConnectionError::Closed),
            Ok(received) => Ok(received),
            Err(error) => zero_if_blocked(Err(error)).map(|len| (len, None)),
        }
    }

    /// Parses the next answer, removes it from `input`, and returns it with its request. None: the
    /// input holds no complete answer.
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
                let has_token = |request: &InFlight| request.opaque == opaque;
                self.in_flight
                    .iter()
                    .position(has_token)
                    .ok_or(ConnectionError::Unsolicited)?
            }
        };
        match self.in_flight.remove(index) {
            Some(request) if fits(request.op, answer) => Ok(Some((request, answer))),
            _ => Err(ConnectionError::Unsolicited),
        }
    }
}

/// Whether a request of kind `op` can have this answer.
fn fits(op: Op, answer: Answer) -> bool {
    match answer {
        Answer::Hit | Answer::Miss => op == Op::Get,
        Answer::Stored => op == Op::Set,
        Answer::Error => true,
    }
}

fn zero_if_blocked(outcome: io::Result<usize>) -> Result<usize, ConnectionError> {
    match outcome {
        Ok(len) => Ok(len),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(error.into()),
        },
    }
}
