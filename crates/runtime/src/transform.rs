//! Transforms, such as TLS, of the bytes of a connection between its socket and its session.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use service::{Output, Pin};

use crate::limits::{BUFFERED_UNCOUNTED, TRANSFORM_CHUNK};

/// A transform of the bytes of one connection, in both directions. It has no access to the socket.
/// *Wire* bytes are the bytes on the network; *plain* bytes are the session's input and output.
pub trait Transform: Send {
    /// Takes received wire bytes and appends the plain bytes that they contain to `plain`. If wire
    /// bytes have to be sent in return (in a handshake, for example), appends these to `reply`.
    /// Keeps the bytes of an incomplete record until the rest of the record arrives. The length of
    /// a record is bounded.
    ///
    /// # Errors
    /// The peer violates the protocol. The caller sends as many bytes of `reply` (an alert, for
    /// example) as the socket has space for, and then closes the connection.
    fn receive(
        &mut self,
        wire: &[u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<(), TransformError>;

    /// Transforms the bytes of `plain` to wire bytes, and appends the wire bytes to `wire`.
    fn send(&mut self, plain: &[u8], wire: &mut Vec<u8>);

    /// Returns the number of bytes of memory that the transform occupies, including an incomplete
    /// record.
    fn buffered(&self) -> usize;
}

/// The error of a transform whose peer violates the protocol of the transform, such as TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid bytes from the peer: {0}")]
pub struct TransformError(pub &'static str);

/// The error that replaces a panic of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a transform panicked")]
struct Panicked;

/// Returns whether an error stands for a panic of a transform.
pub(crate) fn is_panic(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Panicked>)
}

/// A function that creates the transform of a new connection.
pub type NewTransform = Box<dyn Fn() -> Box<dyn Transform> + Send + Sync>;

/// The transform of a connection, and the wire bytes that have not been sent.
pub(crate) struct Transformer {
    transform: Box<dyn Transform>,
    /// Wire bytes to send, produced by the transform.
    wire: Vec<u8>,
    /// The number of bytes of `wire` that have been sent.
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

    /// Transforms received `wire` bytes and appends the resulting plain bytes to `plain`. A panic
    /// of the transform is returned as an error.
    pub(crate) fn receive(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        // An error closes only this connection. An uncaught panic could end the worker's loop,
        // which would close all connections of the worker.
        let received = catch_unwind(AssertUnwindSafe(|| {
            self.transform.receive(wire, plain, &mut self.wire)
        }));
        received
            .map_err(|_| io::Error::other(Panicked))?
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Returns the wire bytes that have not been sent.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.wire[self.sent..]
    }

    /// Records that `len` more wire bytes have been sent.
    pub(crate) fn advance(&mut self, len: usize) {
        self.sent += len;
        if self.sent == self.wire.len() {
            self.wire.clear();
            self.sent = 0;
            if self.wire.capacity() > BUFFERED_UNCOUNTED {
                // Free a large buffer. Otherwise it would count towards the bound on kept bytes
                // while the connection is idle.
                self.wire = Vec::new();
            }
        }
    }

    /// Transforms at most [`TRANSFORM_CHUNK`] bytes of the output, from byte `sent` on, to wire
    /// bytes. Returns the number of transformed bytes.
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

    /// Returns the number of bytes of memory that the unsent wire bytes and the transform occupy.
    pub(crate) fn buffered(&self) -> usize {
        self.wire.capacity() + self.transform.buffered()
    }
}
