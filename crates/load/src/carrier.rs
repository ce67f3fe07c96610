//! The carriers: transports of requests and answers.
//!
//! A carrier opens connections, sends requests, receives answers, and matches each answer to its
//! request. The engine decides when a request is sent and records its latency. The engine is
//! compiled once for each carrier.
//!
//! | carrier | a request is sent | a request fails |
//! |---|---|---|
//! | [`Persistent`] | on a connection shared with other requests | if the connection is lost |
//! | [`Renewed`] | alone on a connection, which is reopened at times | as below over TCP |
//! | [`Udp`] | as one datagram | as below over UDP |
//! | [`PerOperation`] | on its own socket: UDP for a get, else TCP | as below |
//!
//! Over TCP, a request of `Renewed` or `PerOperation` fails if its connection is refused or lost,
//! or if no answer comes in time. Over UDP, a request fails if no answer comes in time, or if the
//! server's port is closed.

mod per_operation;
mod persistent;
mod renewed;
mod replies;
mod short_lived;
mod time_wait;
mod udp;
mod web_probe;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicBool;

pub(crate) use per_operation::PerOperation;
pub(crate) use persistent::Persistent;
use protocol::client::Malformed;
pub(crate) use renewed::Renewed;
use sys::poll::{Interest, Poll};
pub(crate) use udp::Udp;
use workload::{Op, Request};

use crate::batch::Batch;
use crate::config::{Config, Protocol};
use crate::error::Error;
use crate::limits::UNINTERRUPTED_MAX_NS;
use crate::opening::Share;
use crate::wire::{Answer, HttpCounts};

/// One connection of a run, on which up to `depth` requests are outstanding.
///
/// To send requests, the engine appends them to [`Carrier::in_flight_mut`] and then calls
/// [`Carrier::send`] with their bytes.
pub(crate) trait Carrier: Sized {
    /// Maximum number of requests in one send.
    const BATCH_MAX: usize;
    /// Whether a request without an answer fails after [`Config::timeout_ns`].
    const TIMES_OUT: bool;
    /// Maximum number of receives from one connection before other connections are served. It is 1
    /// for a stream, because one receive returns all bytes that have arrived and fit the buffer.
    const RECEIVES_MAX: usize = 1;
    /// The longest duration of a send that counts as uninterrupted. During a longer send, other
    /// work of the machine delayed the thread.
    const UNINTERRUPTED_SEND_MAX_NS: u64 = UNINTERRUPTED_MAX_NS;

    /// Returns the time-out of a request with the operation `op`. `timeout_ns` is
    /// [`Config::timeout_ns`], and the result is at least that long.
    fn timeout_ns(_op: Op, timeout_ns: u64) -> u64 {
        timeout_ns
    }

    /// Opens `share`, the thread's part of the run's connections. Each connection is registered
    /// with `poll` for reading as soon as it has a socket. Its poll token, by which `poll` reports
    /// its events, is its index in the result.
    fn open(
        config: &Config,
        poll: &Poll,
        share: Share,
        stop: &AtomicBool,
    ) -> Result<Vec<Self>, Error>;

    /// The outstanding requests, in the order in which they were sent.
    fn in_flight(&self) -> &VecDeque<InFlight>;
    /// [`Carrier::in_flight`], mutable.
    fn in_flight_mut(&mut self) -> &mut VecDeque<InFlight>;

    /// Whether the carrier keeps bytes that the socket did not accept. These bytes must be sent
    /// before any others.
    fn is_blocked(&self) -> bool;

    /// Sends a batch, whose requests are the last of [`Carrier::in_flight`]. Keeps the bytes that
    /// the socket did not accept. Returns the number of bytes sent. A carrier that opens a socket
    /// for the request registers the socket with `poll`, with the poll token `token`.
    fn send(&mut self, batch: &Batch, poll: &Poll, token: u64) -> Result<usize, CarrierError>;

    /// Sends bytes that were kept. Returns the number of bytes sent.
    fn send_unsent(&mut self) -> Result<usize, CarrierError>;

    /// Changes the events that `poll` reports for the socket.
    fn set_interest(&self, poll: &Poll, token: u64, interest: Interest) -> io::Result<()>;

    /// Receives once. Returns the number of bytes, which is 0 if there was nothing to receive. Also
    /// returns the Unix time of arrival in nanoseconds, if the kernel gave a time stamp.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<(usize, Option<u64>), CarrierError>;

    /// Parses the next answer, removes its bytes from `input`, and returns it with its request.
    /// None: `input` has no further complete answer.
    fn next(&mut self, input: &mut &[u8]) -> Result<Option<Answered>, CarrierError>;

    /// Removes and returns the request with the identifier `opaque` ([`InFlight::opaque`]), whose
    /// time-out has passed. None: the request is no longer outstanding.
    fn give_up(&mut self, opaque: u64) -> Option<InFlight>;

    /// Recovers from an error if possible. Removes and returns the requests that fail because of
    /// the error, and how they fail. None: the carrier cannot recover, so the connection is lost.
    fn recover(&mut self, error: &CarrierError) -> Option<(Vec<InFlight>, Failure)>;

    /// Adds the counts of this connection to `counts`.
    fn add_counts_to(&self, counts: &mut CarrierCounts);
}

/// A request that was sent and not yet answered. Times are on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlight {
    /// The time at which the request is due according to the schedule. In a closed loop, the same
    /// as `sent_ns`.
    pub(crate) intended_ns: u64,
    /// The time just before the send.
    pub(crate) sent_ns: u64,
    /// The number that identifies the request. In the meta protocol, the reply repeats it.
    pub(crate) opaque: u64,
    pub(crate) request: Request,
    /// The lateness of the send: how long the request waited for the generator's thread. The wait
    /// begins when the request is due and the socket of its connection accepts bytes.
    pub(crate) late_ns: u32,
    /// The length of the request in bytes.
    pub(crate) sent_len: u32,
    /// The number of replies that are still expected. A multiget may have several replies.
    pub(crate) replies: u16,
    /// The number of items found in the replies received so far.
    pub(crate) hits: u16,
    /// The request number in the header of its datagram. Used only over UDP.
    pub(crate) datagram: u16,
    /// Whether the intended time lies in the measured interval.
    pub(crate) measured: bool,
    /// Whether the machine delayed the request ([`crate::metrics::Recorded::interrupted`]).
    pub(crate) interrupted: bool,
    /// Whether one of the replies was an error.
    pub(crate) has_error: bool,
}

// A connection may have a thousand requests in flight, so an `InFlight` must be small.
const _: () = assert!(size_of::<InFlight>() <= 64);

impl InFlight {
    /// Makes the entry of a request whose times are not recorded. They are 0.
    pub(crate) fn unmeasured(protocol: Protocol, request: Request, opaque: u64) -> Self {
        Self {
            intended_ns: 0,
            sent_ns: 0,
            opaque,
            request,
            late_ns: 0,
            sent_len: 0,
            replies: protocol.replies(request.op, request.keys),
            hits: 0,
            datagram: 0,
            measured: false,
            interrupted: false,
            has_error: false,
        }
    }
}

/// An answer and the request to which it belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) request: InFlight,
    pub(crate) answer: Answer,
    /// The length of the answer in bytes.
    pub(crate) len: u32,
    /// The CAS number of the value in the answer. 0: the answer has none.
    pub(crate) cas: u64,
}

/// Why a request failed without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Failure {
    /// No answer came within the time-out.
    TimedOut = 0,
    /// The server's host refused the connection or the datagram, because no process listens at the
    /// port or the listen queue is full.
    Refused = 1,
    /// The connection ended before the answer, or the answer was malformed.
    Closed = 2,
    /// The generator had no local port or file descriptor for the request.
    NoPort = 3,
}

impl Failure {
    /// The number of variants.
    pub(crate) const COUNT: usize = 4;
}

/// What the carriers count in addition to the latencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CarrierCounts {
    /// Connections that [`Renewed`] and [`PerOperation`] opened to send requests.
    pub(crate) opened: u64,
    /// Connections among `opened` that the generator reset instead of closing, to bound the number
    /// of sockets in TIME_WAIT.
    pub(crate) resets: u64,
    /// Answers that came after the time-out of their request, and datagrams that came twice.
    pub(crate) late_or_duplicate: u64,
    /// Datagrams that cannot be a part of an answer.
    pub(crate) malformed: u64,
    /// The counts of HTTP answers.
    pub(crate) http: HttpCounts,
}

impl CarrierCounts {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.opened += other.opened;
        self.resets += other.resets;
        self.late_or_duplicate += other.late_or_duplicate;
        self.malformed += other.malformed;
        self.http.merge(&other.http);
    }
}

/// Why a connection was lost, or why a request failed.
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
    #[error("an answer with more values than its request has keys")]
    ExtraValues,
}

impl CarrierError {
    /// How a request fails because of this error.
    fn failure(&self) -> Failure {
        match self {
            Self::Io(error) => match error.kind() {
                // `WouldBlock` comes from connecting to a Unix socket whose listen queue is full.
                // Sends and receives that would block are not errors ([`zero_if_blocked`]).
                io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock => Failure::Refused,
                io::ErrorKind::AddrNotAvailable => Failure::NoPort,
                io::ErrorKind::TimedOut => Failure::TimedOut,
                _ if sys::socket::is_exhaustion(error) => Failure::NoPort,
                _ => Failure::Closed,
            },
            Self::Closed | Self::Malformed(_) | Self::Unsolicited | Self::ExtraValues => {
                Failure::Closed
            }
        }
    }
}

/// Returns the length of a send or receive. Returns 0 if the socket was full (send) or empty
/// (receive).
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
