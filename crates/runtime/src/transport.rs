//! What carries a conversation's bytes. TLS and datagrams will be further variants; sessions know
//! nothing of them.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use session::Output;
use sys::socket::Stream;

use crate::limits::{PIECES_MAX, SEND_PER_TURN};

/// A connected peer.
#[derive(Debug)]
pub(crate) enum Transport {
    /// A stream socket as it is.
    Plain(Stream),
}

/// How far sending came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// To the end.
    All,
    /// This far; the rest when there is room and a turn.
    Part(usize),
}

impl Transport {
    /// Receives what is there; 0 is the peer's end.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self::Plain(stream) = self;
        stream.recv(buffer)
    }

    /// Its thread sleeps from now on where there is nothing to receive or no room to send, in
    /// sends for `send_ns` at most.
    pub(crate) fn set_blocking(&self, send_ns: u64) -> io::Result<()> {
        let Self::Plain(stream) = self;
        stream.set_blocking(send_ns)
    }

    /// Sleeps for `timeout_ns`, or until the peer is gone or lost: true.
    pub(crate) fn hangs_up_within(&self, timeout_ns: u64) -> bool {
        let Self::Plain(stream) = self;
        stream.hangs_up_within(timeout_ns)
    }

    /// Lets what has come be the last; whoever waits for more is told.
    pub(crate) fn end_input(&self) {
        let Self::Plain(stream) = self;
        stream.shutdown_receive();
    }

    /// Ends both directions; whoever waits for it is told.
    pub(crate) fn shut(&self) {
        let Self::Plain(stream) = self;
        stream.shut();
    }

    /// Sends the output from byte `sent` on, as much as there is room for and one turn allows.
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

    /// Sends from byte `sent` on by one system call, at most `most` bytes; returns how many.
    pub(crate) fn send_once(&self, output: &Output, sent: usize, most: usize) -> io::Result<usize> {
        let Self::Plain(stream) = self;
        match output.as_bytes() {
            Some(bytes) => stream.send(first(&bytes[sent..], most)),
            None => with_slices(output, sent, most, |slices| stream.send_vectored(slices)),
        }
    }

    /// The same, but without sleeping where a send may ([`Transport::set_blocking`]).
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

/// The pieces of an output from byte `sent` on, `most` bytes at most.
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
