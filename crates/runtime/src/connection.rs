//! The state of a connection between bursts: transport, session, and unfinished input and output.

use std::io;

use service::{Next, OpenTickets, Output, Pin, Session, Worker};

use crate::buffered::is_inactive;
use crate::transport::Sent;

/// What carries the bytes of a connection. Its type depends on the runtime.
pub(crate) trait ConnectionIo {
    /// Sends the output from byte `sent`, as much as the transport takes within the limit of a
    /// turn.
    fn send<P: Pin>(&mut self, output: &Output<P>, sent: usize) -> io::Result<Sent>;

    /// Whether the transport itself has bytes to send, such as a handshake.
    fn has_unsent(&self) -> bool;

    /// Bytes of memory that the transport occupies between bursts, beyond a fixed size.
    fn buffered(&self) -> usize;
}

/// A connection.
pub(crate) struct Connection<S: Worker, I> {
    /// The transport, and the state of the operations on it.
    pub(crate) io: I,
    pub(crate) session: S::Session,
    /// Distinguishes the connection from earlier ones in its slot.
    pub(crate) generation: u32,
    /// The tickets whose results its session waits for.
    pub(crate) tickets: OpenTickets,
    /// Input that is not consumed yet.
    pub(crate) held: HeldInput,
    /// Replies of earlier turns that are sent together with those of the last turn. Bounded by
    /// [`TURNS_PER_SEND`](crate::limits::TURNS_PER_SEND) turns and a full output.
    pub(crate) delayed_replies: Vec<u8>,
    /// Turns since replies were last sent.
    pub(crate) turns: u8,
    /// Output that the peer has not taken yet.
    pub(crate) unsent: Option<Box<Unsent<S::Pin>>>,
    /// The connection is in the present burst, or in a list of connections that continue without an
    /// event.
    pub(crate) is_queued: bool,
    /// The connection continues without receiving more input.
    pub(crate) continues_without_input: bool,
    /// The connection gets its next turn with the result of a ticket.
    pub(crate) waits_for_ticket: bool,
    /// The connection is closed once its output has been sent.
    pub(crate) close_after_send: bool,
    /// The second in which a byte was last received or sent.
    pub(crate) active_s: u32,
    /// Capacity, in bytes, of the buffer that a ring is sending and the peer did not take at once.
    pub(crate) blocked_send_capacity: usize,
    /// The bytes that its worker has counted for the connection (`crate::buffered`).
    pub(crate) counted: u64,
}

impl<S: Worker, I> Connection<S, I> {
    pub(crate) fn new(io: I, session: S::Session, now_s: u32) -> Self {
        Self {
            io,
            session,
            generation: 0,
            tickets: OpenTickets::default(),
            held: HeldInput::default(),
            delayed_replies: Vec::new(),
            turns: 0,
            unsent: None,
            is_queued: false,
            continues_without_input: false,
            waits_for_ticket: false,
            close_after_send: false,
            active_s: now_s,
            blocked_send_capacity: 0,
            counted: 0,
        }
    }

    /// Whether the connection has no unfinished input, output, upload or ticket.
    pub(crate) fn is_idle(&self) -> bool {
        self.unsent.is_none()
            && self.held.is_empty()
            && !self.session.holds_memory()
            && self.tickets.count() == 0
    }

    /// Whether the connection holds memory of the service that others may wait for.
    pub(crate) fn holds_memory(&self) -> bool {
        let pinned = self
            .unsent
            .as_ref()
            .is_some_and(|unsent| unsent.output.has_pins());
        pinned || self.session.holds_memory()
    }

    /// Whether it holds such memory and its peer has been inactive for long. A connection that is
    /// queued, or waits for a completion, does not wait for its peer.
    pub(crate) fn is_slow_holder(&self, now_s: u32) -> bool {
        !self.is_queued
            && !self.waits_for_ticket
            && is_inactive(self.active_s, now_s)
            && self.holds_memory()
    }
}

impl<S: Worker, I: ConnectionIo> Connection<S, I> {
    /// Records what the session needs next; `reached_eof`: the peer has shut down its sending side.
    /// Returns whether the connection is to be closed once its output has been sent.
    #[inline]
    pub(crate) fn record_next(&mut self, next: Next, reached_eof: bool) -> bool {
        self.continues_without_input = !matches!(next, Next::Input | Next::Upload | Next::Close);
        self.waits_for_ticket = next == Next::Completion;
        let has_tickets = self.tickets.count() > 0;
        // Replies may still be due after the peer has closed its side.
        let is_finished = reached_eof && !self.continues_without_input && !has_tickets;
        // A session that waits for the result of a ticket without having one would wait forever.
        let is_stuck = next == Next::Completion && !has_tickets;
        debug_assert!(!is_stuck, "the session waits for a result without a ticket");
        let must_close = next == Next::Close || is_finished || is_stuck;
        self.close_after_send |= must_close;
        must_close
    }

    /// Bytes of memory outside the service that the connection occupies until the next burst.
    #[inline]
    pub(crate) fn buffered(&self) -> usize {
        let unsent = self
            .unsent
            .as_ref()
            .map_or(0, |unsent| unsent.output.capacity());
        self.held.capacity()
            + self.delayed_replies.capacity()
            + self.blocked_send_capacity
            + unsent
            + self.io.buffered()
    }
}

/// Output that is partly sent.
#[derive(Debug)]
pub(crate) struct Unsent<P> {
    pub(crate) output: Output<P>,
    /// Bytes of `output` that have been sent.
    pub(crate) sent: usize,
}

/// Input kept from one burst to the next. Its length is bounded by the longest line that a session
/// accepts plus the bytes of one wait: one receive for events, all buffers for rings.
#[derive(Debug, Default)]
pub(crate) struct HeldInput {
    bytes: Vec<u8>,
    /// Bytes at the front that have been consumed.
    start: usize,
}

impl HeldInput {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Capacity in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.tail().extend_from_slice(bytes);
    }

    /// The held bytes, as a vector to append to.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        &mut self.bytes
    }

    /// Removes the first `len` bytes, and frees the memory once all are removed.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_input_is_used_from_the_front() {
        let mut held = HeldInput::default();
        held.append(b"abc");
        held.consume(2);
        held.append(b"de");
        assert_eq!(held.as_slice(), b"cde");
        held.consume(3);
        assert!(held.is_empty());
        assert_eq!(held.bytes.capacity(), 0);
    }
}
