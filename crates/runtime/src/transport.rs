//! The transport of a connection: the byte stream to its peer, usually a socket. A transport may
//! have a transform, such as TLS. *Wire* bytes are the bytes on the network, after the transform.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use service::{Endpoint, FileRest, Output, Pin};
use sys::file_send::{send_before_file, send_file};
use sys::socket::Stream;

use crate::limits::SLICES_PER_SEND;
use crate::transform::{Transform, Transformer};

/// A byte stream to the peer of a connection, with an optional transform of the bytes.
pub(crate) trait Transport {
    /// Receives available wire bytes. Returns their number; 0 means that the peer has shut down its
    /// sending side.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Returns the address of the peer, if it has one.
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    /// Returns the descriptor and the two addresses of the connection, if it is a socket.
    fn endpoint(&self) -> Option<Endpoint> {
        None
    }

    /// Returns whether there is no transform. Then received bytes are the session's input, and the
    /// session's output is sent unchanged.
    fn is_plain(&self) -> bool;

    /// Returns whether the transport can send a part of a file directly. If not, sessions copy the
    /// bytes of files to their output.
    fn sends_files(&self) -> bool {
        false
    }

    /// Transforms the received bytes `wire` and appends the result, which is the session's input,
    /// to `plain`.
    fn transform(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> io::Result<()>;

    /// Sends the output from byte `sent` on, until all is sent, the transport has no space, or
    /// `max_len` bytes are sent. A transform takes its input in chunks
    /// ([`TRANSFORM_CHUNK`](crate::limits::TRANSFORM_CHUNK)), the last of which may exceed
    /// `max_len`.
    fn send<P: Pin>(&mut self, output: &Output<P>, sent: usize, max_len: usize)
    -> io::Result<Sent>;

    /// Returns whether the transform has wire bytes to send.
    fn has_unsent(&self) -> bool;

    /// Returns the number of bytes of memory that the transform and its unsent wire bytes occupy.
    fn buffered(&self) -> usize;
}

/// Returns the descriptor and the two addresses of a connection.
pub(crate) fn endpoint_of(stream: &Stream) -> Endpoint {
    Endpoint {
        descriptor: stream.descriptor(),
        peer: stream.peer(),
        local: stream.local(),
    }
}

/// The transport of a connection over a stream socket.
pub(crate) struct SocketTransport {
    stream: Stream,
    transformer: Option<Box<Transformer>>,
}

impl fmt::Debug for SocketTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SocketTransport")
            .field(&self.stream)
            .finish()
    }
}

/// The result of sending output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The number of bytes, counted from the start of the output, that have been sent or given to
    /// the transform.
    pub(crate) position: usize,
    /// The number of wire bytes that this call passed to the network.
    pub(crate) network_len: usize,
    /// Whether all output and all wire bytes have been sent, except the bytes that `returned_len`
    /// counts. If not, the transport has no space or the maximum is reached, and another call has
    /// to send the rest.
    pub(crate) is_complete: bool,
    /// Whether the transport had no space for all of the bytes that it was to send.
    pub(crate) is_blocked: bool,
    /// The number of bytes at the end of the output that belong to a file and cannot be sent
    /// without waiting for a disk. The session has to take these bytes back.
    pub(crate) returned_len: usize,
}

impl SocketTransport {
    pub(crate) fn new(stream: Stream, transform: Option<Box<dyn Transform>>) -> Self {
        let transformer = |transform| Box::new(Transformer::new(transform));
        Self {
            stream,
            transformer: transform.map(transformer),
        }
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(crate) fn into_parts(self) -> (Stream, Option<Box<Transformer>>) {
        (self.stream, self.transformer)
    }

    /// Shuts down both directions of the socket. This ends the operations that wait for the socket.
    pub(crate) fn shut(&self) {
        self.stream.shut();
    }
}

impl Transport for SocketTransport {
    fn peer(&self) -> Option<IpAddr> {
        self.stream.peer().map(|peer| peer.ip())
    }

    fn endpoint(&self) -> Option<Endpoint> {
        Some(endpoint_of(&self.stream))
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.recv(buffer)
    }

    #[inline]
    fn is_plain(&self) -> bool {
        self.transformer.is_none()
    }

    #[inline]
    fn sends_files(&self) -> bool {
        self.transformer.is_none()
    }

    fn transform(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.transformer {
            Some(transformer) => transformer.receive(wire, plain).inspect_err(|_| {
                // The transform may have left a message about the error for the peer. Send as much
                // of it as the socket has space for.
                let _ = self.stream.send(transformer.unsent());
            }),
            None => {
                plain.extend_from_slice(wire);
                Ok(())
            }
        }
    }

    #[inline]
    fn send<P: Pin>(
        &mut self,
        output: &Output<P>,
        sent: usize,
        max_len: usize,
    ) -> io::Result<Sent> {
        let end = output.len().min(sent + max_len);
        match &mut self.transformer {
            None => send_plain(&self.stream, output, sent, end),
            Some(transformer) => send_transformed(&self.stream, transformer, output, sent, end),
        }
    }

    #[inline]
    fn has_unsent(&self) -> bool {
        let transformer = self.transformer.as_ref();
        transformer.is_some_and(|transformer| !transformer.unsent().is_empty())
    }

    #[inline]
    fn buffered(&self) -> usize {
        let transformer = self.transformer.as_ref();
        transformer.map_or(0, |transformer| transformer.buffered())
    }
}

/// Sends output without a transform, from byte `first` to byte `end`. Stops when the socket has no
/// space.
#[inline]
fn send_plain<P: Pin>(
    stream: &Stream,
    output: &Output<P>,
    first: usize,
    end: usize,
) -> io::Result<Sent> {
    let mut position = first;
    // In the usual case, the socket has space for all output and one send suffices.
    if let Some(bytes) = output.as_bytes()
        && let Ok(len) = stream.send(&bytes[first..end])
    {
        position += len;
        if position == bytes.len() {
            return Ok(Sent {
                position,
                network_len: len,
                is_complete: true,
                is_blocked: false,
                returned_len: 0,
            });
        }
    }
    let (mut is_blocked, mut returned_len) = (false, 0);
    while position < end {
        match send_once(stream, output, position, end) {
            Ok(Some(len)) => position += len,
            Ok(None) => {
                returned_len = output.len() - position;
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                is_blocked = true;
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Sent {
        position,
        network_len: position - first,
        is_complete: position + returned_len == output.len(),
        is_blocked,
        returned_len,
    })
}

/// Sends output through a transform, from byte `position` on, at least to byte `end`. Stops when
/// the socket has no space.
fn send_transformed<P: Pin>(
    stream: &Stream,
    transformer: &mut Transformer,
    output: &Output<P>,
    mut position: usize,
    end: usize,
) -> io::Result<Sent> {
    let mut network_len = 0;
    loop {
        while !transformer.unsent().is_empty() {
            match stream.send(transformer.unsent()) {
                Ok(len) => {
                    transformer.advance(len);
                    network_len += len;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Sent {
                        position,
                        network_len,
                        is_complete: false,
                        is_blocked: true,
                        returned_len: 0,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if position >= end {
            return Ok(Sent {
                position,
                network_len,
                is_complete: position == output.len(),
                is_blocked: false,
                returned_len: 0,
            });
        }
        position += transformer.load(output, position)?;
    }
}

/// Sends output from byte `sent` to byte `end` with one system call, which may send less. Returns
/// the number of bytes sent, or `None` if the next bytes belong to a file and are not in memory.
#[inline]
fn send_once<P: Pin>(
    stream: &Stream,
    output: &Output<P>,
    sent: usize,
    end: usize,
) -> io::Result<Option<usize>> {
    if let Some(bytes) = output.as_bytes() {
        return stream.send(&bytes[sent..end]).map(Some);
    }
    let max_len = end - sent;
    if let Some(rest) = output.file_rest(sent) {
        return send_rest(stream, &rest, max_len);
    }
    let has_file = output.has_file();
    let send = |slices: &[IoSlice<'_>]| match has_file {
        true => send_before_file(stream, slices),
        false => stream.send_vectored(slices),
    };
    with_slices(output, sent, max_len, send).map(Some)
}

/// Sends at most `max_len` bytes of a part of a file. Returns the number of bytes sent, or `None`
/// if some of the bytes to send are not in memory.
pub(crate) fn send_rest(
    stream: impl AsFd,
    rest: &FileRest<'_>,
    max_len: usize,
) -> io::Result<Option<usize>> {
    send_file(stream, rest.file, rest.offset, rest.len.min(max_len))
}

/// Calls `send` with slices of the part of an output that is in memory. The slices begin at byte
/// `sent`, and have at most `max_len` bytes. There are at most [`SLICES_PER_SEND`] slices.
pub(crate) fn with_slices<P: Pin, R>(
    output: &Output<P>,
    sent: usize,
    mut max_len: usize,
    send: impl FnOnce(&[IoSlice<'_>]) -> R,
) -> R {
    if let Some(bytes) = output.as_bytes() {
        let end = bytes.len().min(sent.saturating_add(max_len));
        return send(&[IoSlice::new(&bytes[sent..end])]);
    }
    let mut slices = [IoSlice::new(&[]); SLICES_PER_SEND];
    let mut count = 0;
    for (slice, piece) in slices.iter_mut().zip(output.slices(sent)) {
        let len = piece.len().min(max_len);
        if len == 0 {
            break;
        }
        *slice = IoSlice::new(&piece[..len]);
        max_len -= len;
        count += 1;
    }
    send(&slices[..count])
}

impl AsFd for SocketTransport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
