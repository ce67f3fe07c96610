//! The carrier that sends many requests on the same connection. Up to `depth` of them are
//! outstanding at the same time.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicBool;

use sys::poll::{Interest, Poll};
use sys::socket::Stream;

use super::replies::Replies;
use super::{Answered, Carrier, CarrierCounts, CarrierError, Failure, InFlight, zero_if_blocked};
use crate::batch::Batch;
use crate::config::{Config, Protocol};
use crate::error::Error;
use crate::opening::{self, Probe, Share};

/// A persistent connection to a server. A lost connection is not opened again. The requests that
/// were outstanding on it are never answered.
#[derive(Debug)]
pub(crate) struct Persistent {
    pub(crate) stream: Stream,
    replies: Replies,
    unsent: Unsent,
}

/// Bytes that a full socket did not accept, kept until the socket has space.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    bytes: Vec<u8>,
    /// The number of bytes at the front of `bytes` that have been sent later.
    sent: usize,
}

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }

    /// Sends a batch and keeps the bytes that the socket did not accept. Returns the number of
    /// bytes sent.
    #[inline]
    pub(super) fn send_batch(
        &mut self,
        batch: &Batch,
        stream: &Stream,
    ) -> Result<usize, CarrierError> {
        debug_assert!(self.is_empty());
        let sent = zero_if_blocked(batch.send(stream))?;
        if sent < batch.len() {
            batch.append_from(sent, &mut self.bytes);
        }
        Ok(sent)
    }

    /// Sends as many of the kept bytes as the socket accepts. Returns the number of bytes sent.
    pub(super) fn send(&mut self, stream: &Stream) -> Result<usize, CarrierError> {
        let sent = zero_if_blocked(stream.send(&self.bytes[self.sent..]))?;
        self.sent += sent;
        if self.sent == self.bytes.len() {
            self.clear();
        }
        Ok(sent)
    }
}

impl Persistent {
    pub(crate) fn new(protocol: Protocol, stream: Stream, depth: u32) -> Self {
        // `stamp_receives` fails for Unix sockets, which have no time stamps. For them, the engine
        // takes the time just after the receive as the arrival time.
        let _ = stream.stamp_receives();
        Self {
            stream,
            replies: Replies::new(protocol, depth as usize),
            unsent: Unsent::default(),
        }
    }
}

impl Carrier for Persistent {
    const BATCH_MAX: usize = usize::MAX;
    const TIMES_OUT: bool = false;

    fn open(
        config: &Config,
        poll: &Poll,
        share: Share,
        stop: &AtomicBool,
    ) -> Result<Vec<Self>, Error> {
        let probe = config.protocol.probe().unwrap_or(Probe::Text);
        let (targets, sources) = (&config.targets, &config.sources);
        let streams = opening::open(targets, sources, probe, poll, share, stop)?;
        let connections = streams
            .into_iter()
            .map(|stream| Self::new(config.protocol, stream, config.depth));
        Ok(connections.collect())
    }

    #[inline]
    fn in_flight(&self) -> &VecDeque<InFlight> {
        &self.replies.in_flight
    }

    #[inline]
    fn in_flight_mut(&mut self) -> &mut VecDeque<InFlight> {
        &mut self.replies.in_flight
    }

    #[inline]
    fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    #[inline]
    fn send(&mut self, batch: &Batch, _: &Poll, _: u64) -> Result<usize, CarrierError> {
        self.unsent.send_batch(batch, &self.stream)
    }

    fn send_unsent(&mut self) -> Result<usize, CarrierError> {
        self.unsent.send(&self.stream)
    }

    fn set_interest(&self, poll: &Poll, token: u64, interest: Interest) -> io::Result<()> {
        poll.change(&self.stream, token, interest)
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<(usize, Option<u64>), CarrierError> {
        receive(&self.stream, buffer)
    }

    #[inline]
    fn next(&mut self, input: &mut &[u8]) -> Result<Option<Answered>, CarrierError> {
        self.replies.next(input)
    }

    fn give_up(&mut self, _: u64) -> Option<InFlight> {
        None
    }

    fn recover(&mut self, _: &CarrierError) -> Option<(Vec<InFlight>, Failure)> {
        None
    }

    fn add_counts_to(&self, _: &mut CarrierCounts) {}
}

/// Receives once from a stream. Returns the same as [`Carrier::receive`]. The end of the stream is
/// an error.
#[inline]
pub(super) fn receive(
    stream: &Stream,
    buffer: &mut [u8],
) -> Result<(usize, Option<u64>), CarrierError> {
    match stream.recv_stamped(buffer) {
        Ok((0, _)) => Err(CarrierError::Closed),
        Ok(received) => Ok(received),
        Err(error) => zero_if_blocked(Err(error)).map(|len| (len, None)),
    }
}
