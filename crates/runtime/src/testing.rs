//! A service and a transport without effects, for unit tests.

use std::io;

use service::{Next, NoPin, Output, Pin, Progress, Session, Tickets, Worker};

use crate::connection::ConnectionIo;
use crate::transport::{Sent, Transport};

/// A transport that discards all output, reports it as sent, and never holds any bytes.
pub(crate) struct NoIo;

impl ConnectionIo for NoIo {
    type Transport = Self;

    fn transport(&self) -> &Self {
        self
    }

    fn transport_mut(&mut self) -> &mut Self {
        self
    }
}

impl Transport for NoIo {
    fn receive(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn is_plain(&self) -> bool {
        true
    }

    fn transform(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        plain.extend_from_slice(wire);
        Ok(())
    }

    fn send<P: Pin>(&mut self, output: &Output<P>, _: usize, _: usize) -> io::Result<Sent> {
        Ok(Sent {
            position: output.len(),
            network_len: 0,
            is_complete: true,
            is_blocked: false,
            returned_len: 0,
        })
    }

    fn has_unsent(&self) -> bool {
        false
    }

    fn buffered(&self) -> usize {
        0
    }
}

/// A service that consumes all input and never replies.
pub(crate) struct Silent;

/// A session of [`Silent`].
pub(crate) struct SilentSession;

impl Session for SilentSession {}

impl Worker for Silent {
    type Session = SilentSession;
    type Request<'i> = ();
    type Pin = NoPin;
    type Completion = ();

    fn open(&self) -> SilentSession {
        SilentSession
    }

    fn begin_burst(&mut self, _: u64) {}

    fn prepare(&self, _: &mut SilentSession, _: &[u8], _: usize, _: &mut Vec<()>) -> usize {
        0
    }

    fn answer(
        &mut self,
        _: &mut SilentSession,
        _: &[()],
        input: &[u8],
        _: Tickets<'_, ()>,
        _: &mut Output<NoPin>,
    ) -> Progress {
        Progress {
            consumed: input.len(),
            next: Next::Input,
        }
    }
}
