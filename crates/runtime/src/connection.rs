//! The state of a connection in the runtimes whose workers own connections (all but `threads` and
//! `fibres`): its transport, its session, input that is not consumed and output that is not sent.
//!
//! A *session* is the service's state of the connection. In a *turn*, the session answers a bounded
//! number of requests. A *burst* is a turn of each connection that is ready after a wait.

use std::io;

use service::{Next, OpenTickets, Output, Pin, Session, Worker};

use crate::buffered::is_inactive;
use crate::setup::second;
use crate::transport::Sent;

/// The transport of a connection, with the state that a runtime keeps for it.
pub(crate) trait ConnectionIo {
    /// Sends the output from byte `sent` on, until the transport has no space or the limit of a
    /// turn is reached ([`SEND_PER_TURN`](crate::limits::SEND_PER_TURN)).
    fn send<P: Pin>(&mut self, output: &Output<P>, sent: usize) -> io::Result<Sent>;

    /// Returns whether the transport can send a part of a file without copying it to the output.
    fn sends_files(&self) -> bool;

    /// Returns whether the transport has bytes of its own to send, such as those of a handshake.
    fn has_unsent(&self) -> bool;

    /// Returns the bytes of heap memory that the transport occupies between bursts.
    fn buffered(&self) -> usize;
}

/// A connection of a worker.
pub(crate) struct Connection<S: Worker, I> {
    /// The transport, and the state of the operations on it.
    pub(crate) io: I,
    pub(crate) session: S::Session,
    /// Distinguishes the connection from earlier connections in its slot (its index in the worker's
    /// table).
    pub(crate) generation: u32,
    /// The open tickets of the session. A *ticket* stands for a result that another thread
    /// produces. It is open until its result is delivered to the session.
    pub(crate) tickets: OpenTickets,
    /// Input that is not consumed yet.
    pub(crate) held: HeldInput,
    /// Replies of the last turns that have not been sent, because another turn follows. They are
    /// sent together with the replies of a later turn, after at most
    /// [`TURNS_PER_SEND`](crate::limits::TURNS_PER_SEND) turns or when the output is full.
    pub(crate) delayed_replies: Vec<u8>,
    /// The number of turns since replies were last sent.
    pub(crate) turns: u8,
    /// Output for which the transport had no space. The connection gets no turn before this output
    /// has been sent.
    pub(crate) unsent: Option<Box<Unsent<S::Pin>>>,
    /// The connection is in the current burst, or in one of the worker context's lists `runnable`
    /// and `waiting_for_memory`. It must not be added a second time.
    pub(crate) is_queued: bool,
    /// The session needs no further input to continue: it waits for another turn, for space in the
    /// output, for memory or for the result of a ticket.
    pub(crate) continues_without_input: bool,
    /// The session continues only when the result of a ticket is delivered.
    pub(crate) waits_for_ticket: bool,
    /// The connection has to be closed after its output has been sent.
    pub(crate) close_after_send: bool,
    /// The second in which a byte was last received or sent.
    pub(crate) active_s: u32,
    /// Capacity in bytes of the output buffer of a blocked send. The worker's io_uring owns this
    /// buffer until the peer has read enough. 0 if there is no such send.
    pub(crate) blocked_send_capacity: usize,
    /// The bytes that are counted for the connection in its worker's sum (`crate::buffered`).
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

    /// Returns whether the connection has no unfinished input, output, upload or ticket.
    pub(crate) fn is_idle(&self) -> bool {
        self.unsent.is_none()
            && self.held.is_empty()
            && !self.session.holds_memory()
            && self.tickets.count() == 0
    }

    /// Returns whether the connection holds memory of the service for which other connections may
    /// wait: pinned values in unsent output, or an upload.
    pub(crate) fn holds_memory(&self) -> bool {
        let pinned = self
            .unsent
            .as_ref()
            .is_some_and(|unsent| unsent.output.has_pins());
        pinned || self.session.holds_memory()
    }

    /// Returns whether the connection is a slow holder: it holds memory of the service, and has
    /// been waiting for its peer for more than a second. A connection that is queued, or that waits
    /// for the result of a ticket, does not wait for its peer.
    pub(crate) fn is_slow_holder(&self, now_s: u32) -> bool {
        !self.is_queued
            && !self.waits_for_ticket
            && is_inactive(self.active_s, now_s)
            && self.holds_memory()
    }
}

/// Why a connection is overdue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// Its peer has been silent for too long. It has to be closed.
    Idle,
    /// Input that has begun was not complete in time. The session has to get a turn.
    Deadline,
}

impl<S: Worker, I> Connection<S, I> {
    /// Returns why the connection is overdue, or `None` if it is not. `idle_s` is the number of
    /// seconds that its peer may be silent.
    pub(crate) fn overdue(&self, idle_s: Option<u32>, now_ns: u64) -> Option<Overdue> {
        if self.is_queued || self.waits_for_ticket {
            return None;
        }
        let is_late = |deadline_ns| now_ns > deadline_ns;
        if self.unsent.is_none() && self.session.input_deadline_ns().is_some_and(is_late) {
            return Some(Overdue::Deadline);
        }
        // A session may wait for further input while it has open tickets. Its peer may then be
        // silent, because the replies to its earlier requests need the results of these tickets.
        if self.tickets.count() > 0 && self.unsent.is_none() {
            return None;
        }
        is_silent(self.active_s, idle_s, second(now_ns)).then_some(Overdue::Idle)
    }
}

/// Returns whether a peer that was last active in second `active_s` has been silent for longer than
/// the limit `idle_s`.
pub(crate) fn is_silent(active_s: u32, idle_s: Option<u32>, now_s: u32) -> bool {
    idle_s.is_some_and(|idle_s| now_s.saturating_sub(active_s) > idle_s)
}

impl<S: Worker, I: ConnectionIo> Connection<S, I> {
    /// Records what the session needs next. `reached_eof`: the peer has shut down its sending side.
    /// Returns whether the connection has to be closed after its output has been sent.
    #[inline]
    pub(crate) fn record_next(&mut self, next: Next, reached_eof: bool) -> bool {
        self.continues_without_input = !matches!(next, Next::Input | Next::Upload | Next::Close);
        self.waits_for_ticket = next == Next::Completion;
        let has_tickets = self.tickets.count() > 0;
        // After the peer has shut down its sending side, replies to earlier requests may still be
        // due. Once no more replies are due, the connection is finished.
        let is_finished = reached_eof && !self.continues_without_input && !has_tickets;
        // Without an open ticket no result would arrive, and the connection would wait forever.
        let is_stuck = next == Next::Completion && !has_tickets;
        debug_assert!(!is_stuck, "the session waits for a result without a ticket");
        let must_close = next == Next::Close || is_finished || is_stuck;
        self.close_after_send |= must_close;
        must_close
    }

    /// Returns the bytes of memory that the connection occupies until the next burst: its buffers,
    /// and the results of its tickets. Results count only while the peer does not take the output.
    /// Otherwise the session turns them into replies at once. A result of known length counts from
    /// the issue of its ticket, any other result from its delivery.
    #[inline]
    pub(crate) fn buffered(&self) -> usize {
        let unsent = self
            .unsent
            .as_ref()
            .map_or(0, |unsent| unsent.output.capacity());
        let is_blocked = self.unsent.is_some() || self.blocked_send_capacity > 0;
        let results = match is_blocked {
            true => self.session.result_bytes(),
            false => 0,
        };
        self.held.capacity()
            + self.delayed_replies.capacity()
            + self.blocked_send_capacity
            + unsent
            + results
            + self.io.buffered()
    }
}

/// Output that has been sent in part.
#[derive(Debug)]
pub(crate) struct Unsent<P> {
    pub(crate) output: Output<P>,
    /// The number of bytes of `output` that have been sent.
    pub(crate) sent: usize,
}

/// Input that a connection keeps from one burst to the next. Its length is at most the sum of two:
///
/// - the longest line that a session accepts, with the value behind it if the session takes only
///   complete values;
/// - the bytes that may arrive during one wait: all receive buffers of the ring with `rings`, one
///   receive with the other runtimes.
#[derive(Debug, Default)]
pub(crate) struct HeldInput {
    bytes: Vec<u8>,
    /// The number of bytes at the front of `bytes` that have been consumed.
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

    /// The capacity of the buffer in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.tail().extend_from_slice(bytes);
    }

    /// Returns the held bytes as a vector, so that the caller can append to it. Moves them to the
    /// front of the buffer first.
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
    fn consumed_bytes_are_removed_and_the_memory_is_freed_when_all_are_consumed() {
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
