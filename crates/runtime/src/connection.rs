//! The state of a connection between bursts: transport, session, and unfinished input and output.

use crate::buffered::is_inactive;
use crate::transport::Transport;
use session::{Output, Session};

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection<W> {
    pub(crate) transport: Transport,
    /// State of the kernel's operations on it; its type depends on the runtime.
    pub(crate) io_state: W,
    pub(crate) session: Session,
    /// Input that is not consumed yet.
    pub(crate) held: HeldInput,
    /// Replies of earlier turns that are sent together with those of the last turn. Bounded by
    /// [`TURNS_PER_SEND`](crate::limits::TURNS_PER_SEND) turns and a full output.
    pub(crate) pending: Vec<u8>,
    /// Turns since replies were last sent.
    pub(crate) turns: u8,
    /// Output that the peer has not taken yet.
    pub(crate) unsent: Option<Box<Unsent>>,
    /// It is in a list of connections that continue without an event.
    pub(crate) queued: bool,
    /// It holds input that can be answered without receiving more.
    pub(crate) wants_turn: bool,
    /// It is closed once its output has been sent.
    pub(crate) closing: bool,
    /// The second in which a byte was last received or sent.
    pub(crate) active_s: u32,
    /// Bytes of output that the ring is sending and the peer did not take at once.
    pub(crate) sending: usize,
    /// The bytes its worker has counted for it (`crate::buffered`).
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

    /// Whether it has no unfinished input, output or upload.
    pub(crate) fn is_idle(&self) -> bool {
        self.unsent.is_none() && self.held.is_empty() && !self.session.holds_memory()
    }

    /// Bytes of memory outside the store that it occupies until the next burst.
    #[inline]
    pub(crate) fn buffered(&self) -> usize {
        let unsent = self
            .unsent
            .as_ref()
            .map_or(0, |unsent| unsent.output.capacity());
        self.held.capacity() + self.pending.capacity() + self.sending + unsent
    }

    /// Whether it holds store memory that others may wait for.
    pub(crate) fn holds_memory(&self) -> bool {
        let pinned = self
            .unsent
            .as_ref()
            .is_some_and(|unsent| unsent.output.has_pins());
        pinned || self.session.holds_memory()
    }

    /// Whether it holds store memory and has been inactive for long. A queued connection is not
    /// inactive.
    pub(crate) fn is_slow_holder(&self, now_s: u32) -> bool {
        !self.queued && is_inactive(self.active_s, now_s) && self.holds_memory()
    }
}

/// Output that is partly sent.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) output: Output,
    pub(crate) sent: usize,
}

/// Input kept from one burst to the next. It is bounded by the longest line that a session accepts
/// plus the bytes of one wait: one receive for events, all buffers for rings.
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

    /// Capacity in bytes.
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
