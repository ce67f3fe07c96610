//! The carriers: how requests travel and how their answers come back.
//!
//! A carrier opens, sends, receives and completes. It knows no schedule and keeps no statistics of
//! latency: the engine decides when a request leaves and what is recorded, and is compiled once for
//! each pair of a carrier and a [`Wire`].
//!
//! | carrier | a request | may be lost | a request fails when |
//! |---|---|---|---|
//! | [`Persistent`] | shares a connection | with the connection, which ends it | never alone |
//! | [`Udp`] | is one datagram | yes | no answer comes in time, or the port is closed |
//! | [`OneShot`] | has its own connection | no | refused, closed early, or not answered in time |

mod one_shot;
mod persistent;
mod replies;
mod udp;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicBool;

pub(crate) use one_shot::OneShot;
pub(crate) use persistent::Persistent;
use protocol::client::Malformed;
use sys::poll::{Interest, Poll};
pub(crate) use udp::Udp;
use workload::Request;

use crate::batch::Batch;
use crate::config::Config;
use crate::error::Error;
use crate::limits::INTERRUPTED_NS;
use crate::opening::Share;
use crate::wire::{Answer, Wire};

/// One of a run's connections: up to a depth, requests are outstanding on it.
///
/// The engine appends a request to [`Carrier::in_flight_mut`] and then calls [`Carrier::send`] with
/// its bytes.
pub(crate) trait Carrier: Sized {
    /// The protocol.
    type Wire: Wire;
    /// Maximum number of requests in one send.
    const BATCH_MAX: usize;
    /// A request without an answer fails after the time-out.
    const TIMES_OUT: bool;
    /// Duration above which a send counts as interrupted.
    const INTERRUPTED_SEND_NS: u64 = INTERRUPTED_NS;

    /// Opens a share of the run's connections, each registered with `poll` for reading as soon as
    /// it has a socket; the token of a connection is its index.
    fn open(
        config: &Config,
        poll: &Poll,
        share: Share,
        stop: &AtomicBool,
    ) -> Result<Vec<Self>, Error>;

    /// The requests outstanding, in the order in which they were sent.
    fn in_flight(&self) -> &VecDeque<InFlight>;
    fn in_flight_mut(&mut self) -> &mut VecDeque<InFlight>;

    /// Whether unsent bytes wait for space in the socket. They have to be sent before any others.
    fn is_blocked(&self) -> bool;

    /// Sends the requests that were added last, and keeps the bytes that the socket did not accept.
    /// Returns the number of bytes sent.
    fn send(&mut self, batch: &Batch, poll: &Poll, token: u64) -> Result<usize, CarrierError>;

    /// Sends kept bytes. Returns the number of bytes sent.
    fn send_unsent(&mut self) -> Result<usize, CarrierError>;

    /// Changes what `poll` reports of the socket.
    fn set_interest(&self, poll: &Poll, token: u64, interest: Interest) -> io::Result<()>;

    /// Receives once. Returns the length and, if the kernel has stamped it, the Unix time of
    /// arrival. Length 0: there was nothing to receive.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<(usize, Option<u64>), CarrierError>;

    /// Parses the next answer in received bytes and removes it from `input`. None: the input holds
    /// no complete answer.
    fn next(&mut self, input: &mut &[u8]) -> Result<Option<Answered>, CarrierError>;

    /// Removes an outstanding request whose time-out has passed. None: it was answered.
    fn give_up(&mut self, opaque: u64) -> Option<InFlight>;

    /// Recovers from an error: removes and returns the requests that fail with it. None: the
    /// connection is lost.
    fn recover(&mut self, error: &CarrierError) -> Option<(Vec<InFlight>, Failure)>;

    /// Adds this connection's counts to those of its thread.
    fn add_counts_to(&self, counts: &mut CarrierCounts);
}

/// A request that was sent and not yet answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlight {
    pub(crate) intended_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) opaque: u64,
    pub(crate) request: Request,
    /// Its lateness: how long it waited only for the generator.
    pub(crate) late_ns: u32,
    /// Its length in bytes.
    pub(crate) sent_len: u32,
    /// Number of replies still to come, and of hits in those that came.
    pub(crate) replies: u16,
    pub(crate) hits: u16,
    /// The request number of its datagram.
    pub(crate) datagram: u16,
    /// Its intended time lies in the measured interval.
    pub(crate) measured: bool,
    /// As [`crate::metrics::Recorded::interrupted`].
    pub(crate) interrupted: bool,
    /// One of its replies was an error.
    pub(crate) has_error: bool,
}

// A connection may have a thousand of them.
const _: () = assert!(size_of::<InFlight>() <= 64);

impl InFlight {
    /// A request whose times are not recorded.
    pub(crate) fn unmeasured<W: Wire>(request: Request, opaque: u64) -> Self {
        Self {
            intended_ns: 0,
            sent_ns: 0,
            opaque,
            request,
            late_ns: 0,
            sent_len: 0,
            replies: W::replies(request.op, request.keys),
            hits: 0,
            datagram: 0,
            measured: false,
            interrupted: false,
            has_error: false,
        }
    }
}

/// An answered request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) request: InFlight,
    pub(crate) answer: Answer,
    /// Bytes of the answer.
    pub(crate) len: u32,
    /// The CAS of the value; 0: it had none.
    pub(crate) cas: u64,
}

/// Why a request failed without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Failure {
    /// No answer came within the time-out.
    TimedOut = 0,
    /// The server's host refused it: nothing listens there, or the backlog is full.
    Refused = 1,
    /// The connection ended before the answer, or the answer was malformed.
    Closed = 2,
    /// The generator had no local port or descriptor for it.
    NoPort = 3,
}

impl Failure {
    /// Number of kinds.
    pub(crate) const COUNT: usize = 4;
}

/// The counts of carriers that no latency shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CarrierCounts {
    /// Connections opened for single requests.
    pub(crate) opened: u64,
    /// Connections that ended in a reset, to bound the sockets in TIME_WAIT.
    pub(crate) resets: u64,
    /// Answers that came after the time-out of their request, or again.
    pub(crate) late_or_duplicate: u64,
    /// Datagrams that are no part of an answer.
    pub(crate) malformed: u64,
}

impl CarrierCounts {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.opened += other.opened;
        self.resets += other.resets;
        self.late_or_duplicate += other.late_or_duplicate;
        self.malformed += other.malformed;
    }
}

/// Why a connection was lost, or why one request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarrierError {
    #[error("the server closed the connection")]
    Closed,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("an answer that matches no outstanding request")]
    Unsolicited,
}

impl CarrierError {
    /// The failure of the request that met this error.
    fn failure(&self) -> Failure {
        match self {
            Self::Io(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock => Failure::Refused,
                io::ErrorKind::AddrNotAvailable => Failure::NoPort,
                io::ErrorKind::TimedOut => Failure::TimedOut,
                _ if sys::socket::is_exhaustion(error) => Failure::NoPort,
                _ => Failure::Closed,
            },
            Self::Closed | Self::Malformed(_) | Self::Unsolicited => Failure::Closed,
        }
    }
}

/// The length of a send or receive; 0 if the socket had no space or no bytes.
#[inline]
fn zero_if_blocked(outcome: io::Result<usize>) -> Result<usize, CarrierError> {
    match outcome {
        Ok(len) => Ok(len),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(error.into()),
        },
    }
}
