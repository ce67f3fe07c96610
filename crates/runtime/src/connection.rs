//! The state of a connection in the runtimes whose workers own connections (all but `threads` and
//! `fibres`). The state consists of the connection's transport, its session, input that is not
//! consumed and output that is not sent.

use service::{Next, OpenTickets, Output, Session, Worker};

use crate::setup::second;
use crate::transfer::Transfer;
use crate::transport::Transport;

/// The transport of a connection (the byte stream to the peer), together with the state that the
/// runtime keeps for this transport.
pub(crate) trait ConnectionIo {
    type Transport: Transport;

    fn transport(&self) -> &Self::Transport;

    fn transport_mut(&mut self) -> &mut Self::Transport;
}

/// A connection of a worker.
pub(crate) struct Connection<S: Worker, I> {
    /// The transport, and the runtime's state for the transport.
    pub(crate) io: I,
    pub(crate) session: S::Session,
    /// Distinguishes the connection from earlier connections in its slot (its index in the worker's
    /// table).
    pub(crate) generation: u32,
    /// The open tickets of the session.
    pub(crate) tickets: OpenTickets,
    /// Input that the session has not consumed.
    pub(crate) held: HeldInput,
    /// Replies of earlier turns that were not sent, because the session has more requests to answer
    /// in another turn. They are sent together with the replies of a later turn. One send has the
    /// replies of at most [`TURNS_PER_SEND`](crate::limits::TURNS_PER_SEND) turns.
    pub(crate) delayed_replies: Vec<u8>,
    /// The number of turns since the last send of replies.
    pub(crate) turns: u8,
    /// Output for which the transport had no space, or which is sent in a later round. The
    /// connection gets no turn before this output has been sent.
    pub(crate) unsent: Option<Box<Unsent<S::Pin>>>,
    /// The connection is in the current burst, in `WorkerContext::runnable` or in
    /// `WorkerContext::waiting_for_memory`. It must not be added a second time to any of them.
    pub(crate) is_queued: bool,
    /// The connection is in the worker's queue of connections with unsent output whose transports
    /// may have space for it.
    pub(crate) waits_to_send: bool,
    /// The session needs no further input to continue: it waits for another turn, for space in the
    /// output, for memory or for the result of a ticket.
    pub(crate) continues_without_input: bool,
    /// The session continues only when the result of a ticket is delivered.
    pub(crate) waits_for_ticket: bool,
    /// The connection has to be closed after its output has been sent.
    pub(crate) close_after_send: bool,
    /// The second in which a byte was last received or sent.
    pub(crate) active_s: u32,
    pub(crate) transfer: Transfer,
    /// Used by the runtime `rings` only: the capacity in bytes of the output buffer of a blocked
    /// send (one that the kernel cannot complete because the peer does not read). The worker's
    /// io_uring owns this buffer until the send completes. 0 if no send is blocked.
    pub(crate) blocked_send_capacity: usize,
    /// The number of bytes that were added for this connection to the worker's sum of kept bytes
    /// (`crate::buffered`).
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
            waits_to_send: false,
            continues_without_input: false,
            waits_for_ticket: false,
            close_after_send: false,
            active_s: now_s,
            transfer: Transfer::default(),
            blocked_send_capacity: 0,
            counted: 0,
        }
    }

    /// Returns whether the connection has no unfinished input, output, upload or ticket. A stopping
    /// worker may then close the connection.
    pub(crate) fn is_idle(&self) -> bool {
        self.unsent.is_none()
            && self.held.is_empty()
            && !self.session.holds_memory()
            && self.tickets.count() == 0
    }

    /// Returns whether the connection keeps some of the service's memory in use, so that other
    /// connections may have to wait for memory. Such memory is a pinned value in unsent output, or
    /// an upload.
    pub(crate) fn holds_memory(&self) -> bool {
        let pinned = self
            .unsent
            .as_ref()
            .is_some_and(|unsent| unsent.output.has_pins());
        pinned || self.session.holds_memory()
    }

    /// Returns whether the connection waits for its worker, which has to give it a turn or to send
    /// its output. Its peer cannot be active then.
    pub(crate) fn waits_for_worker(&self) -> bool {
        self.is_queued || self.waits_to_send
    }

    /// Returns whether the connection is a slow holder: it holds memory
    /// ([`holds_memory`](Self::holds_memory)), and its peer has been too slow for some seconds. A
    /// connection that waits for its worker, or for the result of a ticket, does not wait for its
    /// peer.
    pub(crate) fn is_slow_holder(&self, now_s: u32) -> bool {
        if self.waits_for_worker() || self.waits_for_ticket || !self.holds_memory() {
            self.transfer.end_watch();
            return false;
        }
        self.transfer.is_too_slow(now_s)
    }
}

/// Why a connection is overdue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// Its peer has been silent for too long. The connection has to be closed.
    Idle,
    /// Input, such as a request, began to arrive but was not complete before the session's deadline
    /// for it. The session has to get a turn, in which it can close the connection.
    Deadline,
}

impl<S: Worker, I> Connection<S, I> {
    /// Returns why the connection is overdue, or `None` if it is not. `idle_s` is the number of
    /// seconds that its peer may be silent.
    pub(crate) fn overdue(&self, idle_s: Option<u32>, now_ns: u64) -> Option<Overdue> {
        if self.waits_for_worker() || self.waits_for_ticket {
            return None;
        }
        let is_late = |deadline_ns| now_ns > deadline_ns;
        if self.unsent.is_none() && self.session.input_deadline_ns().is_some_and(is_late) {
            return Some(Overdue::Deadline);
        }
        // The replies that need the results of the open tickets are not sent yet. The peer may wait
        // for these replies before it sends more, so it may be silent.
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
    /// Records `next`, which is what the session needs to continue after a turn. `reached_eof` says
    /// whether the peer has shut down its sending side. Returns whether the connection has to be
    /// closed after its output has been sent.
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

    /// Returns how many bytes of memory the connection occupies until the next burst. They are its
    /// buffers, and the results of its tickets while output waits for the peer to read. (If no
    /// output waits, the session turns each result into a reply as soon as it gets the result.) A
    /// result whose length the session knows in advance counts as soon as the ticket is issued. Any
    /// other result counts from its delivery on.
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
            + self.io.transport().buffered()
    }
}

/// Output that has been sent in part.
#[derive(Debug)]
pub(crate) struct Unsent<P> {
    pub(crate) output: Output<P>,
    /// The number of bytes of `output` that have been sent.
    pub(crate) sent: usize,
}

/// Input that a connection keeps from one burst to the next. Its length is at most the sum of two
/// lengths:
///
/// - the longest line that a session accepts; if the session consumes a value only when it is
///   complete, also the value that follows this line;
/// - the bytes that may arrive during one wait. In the runtime `rings`, these are all receive
///   buffers of the worker's io_uring. In other runtimes, these are the bytes of one receive.
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

    /// Returns the buffer, for a caller that appends bytes at its end (the tail of the input).
    /// First removes the consumed bytes, so that the buffer contains only the held bytes.
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
