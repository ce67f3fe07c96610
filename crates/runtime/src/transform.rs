//! Transforms of the bytes of a connection, between its transport and its session.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use service::{Output, Pin};

use crate::limits::{BUFFERED_UNCOUNTED, TRANSFORM_CHUNK};

/// Transforms the bytes of one connection, as TLS does, without access to the socket. The bytes on
/// the network are called *wire* bytes, those of the session *plain* bytes.
pub trait Transform: Send {
    /// Takes received wire bytes and appends the plain bytes in them to `plain`. Appends wire bytes
    /// that have to be sent in return, such as those of a handshake, to `reply`. Keeps an
    /// incomplete record, whose length has a bound.
    ///
    /// # Errors
    /// The peer violates the protocol. The connection is closed.
    fn receive(
        &mut self,
        wire: &[u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<(), TransformError>;

    /// Appends plain bytes to `wire` in their form for the network.
    fn send(&mut self, plain: &[u8], wire: &mut Vec<u8>);

    /// Bytes of memory that it occupies, an incomplete record included.
    fn buffered(&self) -> usize;
}

/// The peer violates the protocol of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid bytes from the peer: {0}")]
pub struct TransformError(pub &'static str);

/// A transform panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a transform panicked")]
struct Panicked;

/// Whether an error is the panic of a transform.
pub(crate) fn is_panic(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Panicked>)
}

/// Creates the transform of a new connection.
pub type NewTransform = Box<dyn Fn() -> Box<dyn Transform> + Send + Sync>;

/// A transform and the wire bytes that have not been sent.
pub(crate) struct Transformer {
    transform: Box<dyn Transform>,
    wire: Vec<u8>,
    /// Bytes of `wire` that have been sent.
    sent: usize,
}

impl Transformer {
    pub(crate) fn new(transform: Box<dyn Transform>) -> Self {
        Self {
            transform,
            wire: Vec::new(),
            sent: 0,
        }
    }

    /// Appends the plain bytes of received `wire` bytes to `plain`.
    pub(crate) fn receive(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        // A panic closes this connection and no other.
        let received = catch_unwind(AssertUnwindSafe(|| {
            self.transform.receive(wire, plain, &mut self.wire)
        }));
        received
            .map_err(|_| io::Error::other(Panicked))?
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Wire bytes to send.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.wire[self.sent..]
    }

    /// Records that `len` wire bytes have been sent.
    pub(crate) fn advance(&mut self, len: usize) {
        self.sent += len;
        if self.sent == self.wire.len() {
            self.wire.clear();
            self.sent = 0;
            if self.wire.capacity() > BUFFERED_UNCOUNTED {
                // An idle connection keeps no more than it may keep without being counted.
                self.wire = Vec::new();
            }
        }
    }

    /// Transforms plain bytes of the output from byte `sent`, at most [`TRANSFORM_CHUNK`]. Returns
    /// their number.
    pub(crate) fn load<P: Pin>(&mut self, output: &Output<P>, sent: usize) -> io::Result<usize> {
        let mut rest = TRANSFORM_CHUNK;
        let loaded = catch_unwind(AssertUnwindSafe(|| {
            for slice in output.slices(sent) {
                let len = slice.len().min(rest);
                if len == 0 {
                    break;
                }
                self.transform.send(&slice[..len], &mut self.wire);
                rest -= len;
            }
        }));
        loaded.map_err(|_| io::Error::other(Panicked))?;
        Ok(TRANSFORM_CHUNK - rest)
    }

    /// Bytes of memory that the unsent wire bytes occupy.
    pub(crate) fn buffered(&self) -> usize {
        self.wire.capacity() + self.transform.buffered()
    }
}
