//! The transport of a connection's bytes. TLS and datagrams will be further variants below the
//! session.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use session::Output;
use sys::socket::Stream;

use crate::limits::{PIECES_MAX, SEND_PER_TURN};

/// The transport of a connection.
#[derive(Debug)]
pub(crate) enum Transport {
    /// A plain stream socket.
    Plain(Stream),
}

/// The result of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All bytes are sent.
    All,
    /// Bytes sent so far. The rest follows when there is space and a turn.
    Part(usize),
}

impl Transport {
    /// Receives available bytes; 0 means that the peer has closed its side.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self::Plain(stream) = self;
        stream.recv(buffer)
    }

    /// Makes the socket blocking: receiving sleeps until bytes arrive, and sending sleeps for at
    /// most `send_ns` nanoseconds until there is space.
    pub(crate) fn set_blocking(&self, send_ns: u64) -> io::Result<()> {
        let Self::Plain(stream) = self;
        stream.set_blocking(send_ns)
    }

    /// Sleeps for `timeout_ns` nanoseconds. Returns true early if the peer has hung up or the
    /// connection is lost.
    pub(crate) fn hangs_up_within(&self, timeout_ns: u64) -> bool {
        let Self::Plain(stream) = self;
        stream.hangs_up_within(timeout_ns)
    }

    /// Ends receiving after the bytes that have arrived. Wakes a thread that waits for input.
    pub(crate) fn end_input(&self) {
        let Self::Plain(stream) = self;
        stream.shutdown_receive();
    }

    /// Shuts both directions down. Wakes threads that wait for the socket.
    pub(crate) fn shut(&self) {
        let Self::Plain(stream) = self;
        stream.shut();
    }

    /// Sends the output from byte `sent`, as much as the socket accepts within the limit of a turn.
    pub(crate) fn send(&self, output: &Output, mut sent: usize) -> io::Result<Sent> {
        let turn_end = sent + SEND_PER_TURN;
        while sent < output.len() {
            if sent >= turn_end {
                return Ok(Sent::Part(sent));
            }
            match self.send_once(output, sent, usize::MAX) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Sent::Part(sent));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::All)
    }

    /// Sends at most `most` bytes from byte `sent` by one system call. Returns their number.
    pub(crate) fn send_once(&self, output: &Output, sent: usize, most: usize) -> io::Result<usize> {
        let Self::Plain(stream) = self;
        match output.as_bytes() {
            Some(bytes) => stream.send(first(&bytes[sent..], most)),
            None => with_slices(output, sent, most, |slices| stream.send_vectored(slices)),
        }
    }

    /// The same without sleeping, even on a blocking socket ([`Transport::set_blocking`]).
    pub(crate) fn send_now(&self, output: &Output, sent: usize, most: usize) -> io::Result<usize> {
        let Self::Plain(stream) = self;
        match output.as_bytes() {
            Some(bytes) => stream.send_now(first(&bytes[sent..], most)),
            None => with_slices(output, sent, most, |slices| {
                stream.send_vectored_now(slices)
            }),
        }
    }
}

fn first(bytes: &[u8], most: usize) -> &[u8] {
    &bytes[..bytes.len().min(most)]
}

/// The slices of an output from byte `sent`, at most `most` bytes.
fn with_slices<R>(
    output: &Output,
    sent: usize,
    mut most: usize,
    send: impl FnOnce(&[IoSlice<'_>]) -> R,
) -> R {
    let mut slices = [IoSlice::new(&[]); PIECES_MAX];
    let mut count = 0;
    for (slice, piece) in slices.iter_mut().zip(output.slices(sent)) {
        let len = piece.len().min(most);
        if len == 0 {
            break;
        }
        *slice = IoSlice::new(&piece[..len]);
        most -= len;
        count += 1;
    }
    send(&slices[..count])
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let Self::Plain(stream) = self;
        stream.as_fd()
    }
}
