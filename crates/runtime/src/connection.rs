//! A connection between bursts: the peer, the conversation, and what could not be finished.

use crate::buffered::is_inactive;
use crate::transport::Transport;
use session::{Output, Session};

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection<W> {
    pub(crate) transport: Transport,
    /// What the runtime has asked the kernel for.
    pub(crate) io_state: W,
    pub(crate) session: Session,
    /// Input that could not be used yet.
    pub(crate) held: HeldInput,
    /// Answers of earlier turns that are sent with those of the last: those of
    /// [`TURNS_PER_SEND`](crate::limits::TURNS_A_SEND) turns, and a full output, at most.
    pub(crate) pending: Vec<u8>,
    /// Turns since answers were sent.
    pub(crate) turns: u8,
    /// Output that the peer has not taken yet.
    pub(crate) unsent: Option<Box<Unsent>>,
    /// It stands in a list of connections that go on without an event.
    pub(crate) queued: bool,
    /// It holds input that can be answered without receiving more.
    pub(crate) wants_turn: bool,
    /// It ends when its output has been sent.
    pub(crate) closing: bool,
    /// The second in which a byte last came or went.
    pub(crate) active_s: u32,
    /// Bytes of output that its ring is sending, and the peer has not taken at once.
    pub(crate) sending: usize,
    /// What its worker has counted of what it keeps (`crate::buffered`).
    pub(crate) counted: u64,
}

impl<W> Connection<W> {
    pub(crate) fn new(transport: Transport, io_state: W, now_s: u32) -> Self {
        Self {
            transport,
            io_state,
            session: Session::default(),
            held: HeldInput::default(),
            pending: Vec::new(),
            turns: 0,
            unsent: None,
            queued: false,
            wants_turn: false,
            closing: false,
            active_s: now_s,
            sending: 0,
            counted: 0,
        }
    }

    /// Whether nothing has been begun that is not finished.
    pub(crate) fn is_idle(&self) -> bool {
        self.unsent.is_none() && self.held.is_empty() && !self.session.holds_memory()
    }

    /// Bytes of memory outside the store that it keeps until the next burst.
    #[inline]
    pub(crate) fn buffered(&self) -> usize {
        let unsent = self
            .unsent
            .as_ref()
            .map_or(0, |unsent| unsent.output.capacity());
        self.held.capacity() + self.pending.capacity() + self.sending + unsent
    }

    /// Whether it keeps memory of the store from others.
    pub(crate) fn holds_memory(&self) -> bool {
        let pinned = self
            .unsent
            .as_ref()
            .is_some_and(|unsent| unsent.output.has_pins());
        pinned || self.session.holds_memory()
    }

    /// Whether it does so without having moved for long. One that has its turn coming does not.
    pub(crate) fn is_slow_holder(&self, now_s: u32) -> bool {
        !self.queued && is_inactive(self.active_s, now_s) && self.holds_memory()
    }
}

/// Output on its way.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) output: Output,
    pub(crate) sent: usize,
}

/// Input kept from one burst to the next. Bounded by the longest line a session accepts and what
/// one wait brings: a receive on events, all buffers on rings.
#[derive(Debug, Default)]
pub(crate) struct HeldInput {
    bytes: Vec<u8>,
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

    /// Bytes of memory it takes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Lets the first `len` bytes go, and the memory once all are gone.
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
