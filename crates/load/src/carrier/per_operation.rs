//! The carrier of protocol textile ([`crate::Protocol::Textile`]). It opens a new socket for each
//! request. The operation decides the transport: a get is a datagram, any other request has its own
//! TCP connection.
//!
//! An answer over UDP consists of datagrams without headers (datagrams of memcached have them).
//! Only the last datagram ends with a NUL byte. If several requests shared a socket, it would be
//! unknown which request a datagram answers. Each request has its own socket, which is closed when
//! the request times out. The kernel drops an answer that arrives later. Such an answer can reach
//! another request only if the kernel has given the same port to that request's socket.
//!
//! Datagrams in a wrong order cannot be detected, because they have no numbers. A request whose
//! last datagram is lost times out.

mod probe;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use sys::datagram::Datagram;
use sys::poll::{Interest, Poll};
use workload::Op;

use super::replies::Replies;
use super::short_lived::{ShortLived, Sources};
use super::{Answered, Carrier, CarrierCounts, CarrierError, Failure, InFlight, zero_if_blocked};
use crate::batch::Batch;
use crate::config::{Config, ConfigError};
use crate::error::Error;
use crate::limits::{
    DATAGRAMS_PER_TURN_MAX, TEXTILE_TCP_TIMEOUT_MIN_NS, UNINTERRUPTED_CONNECT_MAX_NS,
};
use crate::opening::{Share, target_of};

/// One connection of a run in the sense of [`Carrier`]: a sequence of requests, of which at most
/// one is in flight. A new socket is opened for each request.
#[derive(Debug)]
pub(crate) struct PerOperation {
    /// The socket of a request over TCP.
    stream: ShortLived,
    /// The server's address for datagrams.
    udp_address: SocketAddr,
    /// The socket of a request over UDP. None: no get is in flight.
    datagram: Option<Datagram>,
    replies: Replies,
}

impl PerOperation {
    /// Sends a request as one datagram, on a new socket.
    fn send_datagram(
        &mut self,
        batch: &Batch,
        poll: &Poll,
        token: u64,
    ) -> Result<usize, CarrierError> {
        let socket = Datagram::connect_from(self.stream.sources.next(), self.udp_address)?;
        // If `stamp_receives` fails, the datagrams have no time stamps, and the engine uses the
        // time just after the receive as the arrival time.
        let _ = socket.stamp_receives();
        poll.add(&socket, token, Interest::Read)?;
        // The send buffer of a new socket is empty, so that the datagram fits into it.
        let sent = batch.send_with_header(&[], |pieces| socket.send(pieces))?;
        self.datagram = Some(socket);
        Ok(sent)
    }
}

impl Carrier for PerOperation {
    const BATCH_MAX: usize = 1;
    const TIMES_OUT: bool = true;
    const RECEIVES_MAX: usize = DATAGRAMS_PER_TURN_MAX;
    const UNINTERRUPTED_SEND_MAX_NS: u64 = UNINTERRUPTED_CONNECT_MAX_NS;

    fn timeout_ns(op: Op, timeout_ns: u64) -> u64 {
        match op {
            Op::Get => timeout_ns,
            _ => timeout_ns.max(TEXTILE_TCP_TIMEOUT_MIN_NS),
        }
    }

    /// Checks that each target answers over TCP and over UDP. The sockets for requests are opened
    /// later, when the requests are sent.
    fn open(
        config: &Config,
        _: &Poll,
        share: Share,
        stop: &AtomicBool,
    ) -> Result<Vec<Self>, Error> {
        Sources::check(config)?;
        for target in &config.targets {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let source = config.sources.first().copied();
            probe::probe(target, udp_address(config, target)?, source)?;
        }
        let connection = |number: u32| {
            let number = share.first + number;
            Ok(Self {
                stream: ShortLived::new(config, number),
                udp_address: udp_address(config, target_of(&config.targets, number))?,
                datagram: None,
                replies: Replies::new(config.protocol, 1),
            })
        };
        (0..share.count).map(connection).collect()
    }

    fn in_flight(&self) -> &VecDeque<InFlight> {
        &self.replies.in_flight
    }

    fn in_flight_mut(&mut self) -> &mut VecDeque<InFlight> {
        &mut self.replies.in_flight
    }

    fn is_blocked(&self) -> bool {
        self.stream.is_blocked()
    }

    fn send(&mut self, batch: &Batch, poll: &Poll, token: u64) -> Result<usize, CarrierError> {
        let request = self.replies.in_flight.back();
        match request.map(|it| it.request.op) {
            Some(Op::Get) => self.send_datagram(batch, poll, token),
            _ => self.stream.send(batch, poll, token),
        }
    }

    fn send_unsent(&mut self) -> Result<usize, CarrierError> {
        self.stream.send_unsent()
    }

    fn set_interest(&self, poll: &Poll, token: u64, interest: Interest) -> io::Result<()> {
        self.stream.set_interest(poll, token, interest)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<(usize, Option<u64>), CarrierError> {
        let Some(socket) = &self.datagram else {
            return self.stream.receive(buffer);
        };
        match socket.recv_stamped(buffer) {
            Ok(received) => Ok(received),
            Err(error) => zero_if_blocked(Err(error)).map(|len| (len, None)),
        }
    }

    fn next(&mut self, input: &mut &[u8]) -> Result<Option<Answered>, CarrierError> {
        let answered = self.replies.next(input)?;
        if answered.is_some() {
            self.datagram = None;
            self.stream.close();
            self.replies.reset();
        }
        Ok(answered)
    }

    fn give_up(&mut self, opaque: u64) -> Option<InFlight> {
        let request = self.replies.in_flight.front()?;
        if request.opaque != opaque {
            return None;
        }
        self.datagram = None;
        self.stream.give_up();
        self.replies.reset();
        self.replies.in_flight.pop_front()
    }

    fn recover(&mut self, error: &CarrierError) -> Option<(Vec<InFlight>, Failure)> {
        let failed = self.replies.in_flight.drain(..).collect();
        self.datagram = None;
        self.stream.recover(error);
        self.replies.reset();
        Some((failed, error.failure()))
    }

    fn add_counts_to(&self, counts: &mut CarrierCounts) {
        self.stream.add_counts_to(counts);
    }
}

/// Returns the UDP address of a target. The validation of the settings ensures that every target
/// has one.
fn udp_address(config: &Config, target: &crate::Target) -> Result<SocketAddr, Error> {
    let missing = || ConfigError::new("UDP port", format!("{target} has none"));
    Ok(config.udp_address(target).ok_or_else(missing)?)
}
