//! What carries a conversation's bytes. TLS and datagrams will be further variants; sessions know
//! nothing of them.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use session::Output;
use sys::socket::Stream;

use crate::limits::{PIECES_MAX, SEND_A_TURN};

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

    /// Ends both directions; whoever waits for it is told.
    pub(crate) fn shut(&self) {
        let Self::Plain(stream) = self;
        stream.shut();
    }

    /// Sends the output from byte `sent` on, as much as there is room for and one turn allows.
    pub(crate) fn send(&self, output: &Output, mut sent: usize) -> io::Result<Sent> {
        let turn_end = sent + SEND_A_TURN;
        while sent < output.len() {
            if sent >= turn_end {
                return Ok(Sent::Part(sent));
            }
            match self.send_once(output, sent) {
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

    fn send_once(&self, output: &Output, sent: usize) -> io::Result<usize> {
        let Self::Plain(stream) = self;
        if let Some(bytes) = output.as_bytes() {
            return stream.send(&bytes[sent..]);
        }
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(output.pieces(sent)) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        stream.send_vectored(&slices[..count])
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let Self::Plain(stream) = self;
        stream.as_fd()
    }
}
