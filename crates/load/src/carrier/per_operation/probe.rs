//! Checks before a run that a server of protocol textile answers, over TCP and over UDP. Without
//! this check, a wrong UDP port would show only as a run in which every get times out.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use sys::datagram::Datagram;
use sys::poll::{Interest, is_ready_within};
use sys::socket::Stream;

use crate::config::Target;
use crate::error::Error;
use crate::limits::{
    OPENING_ATTEMPTS_MAX, OPENING_BACKOFF_NS, OPENING_TIMEOUT_NS, TEXTILE_ANSWER_LEN_MAX,
};

/// The byte that ends each request and each answer of the protocol.
const TERMINATOR: u8 = 0;
/// A request that every server of the protocol answers, and that changes nothing.
const STREAM_PROBE: &[u8] = b"HEAD\0";
/// A get of a key that is not stored. The server may count it as a miss.
const DATAGRAM_PROBE: &[u8] = b"GET /curtail-probe\0";

/// Repeats a request over TCP until it is answered, and then a request over UDP. The sockets have
/// the local address `source`, if it is given.
///
/// # Errors
/// One of the requests had no answer in [`OPENING_ATTEMPTS_MAX`] attempts.
pub(super) fn probe(
    target: &Target,
    udp_address: SocketAddr,
    source: Option<IpAddr>,
) -> Result<(), Error> {
    if let Target::Tcp(address) = target {
        attempts("TCP", *address, |_| over_tcp(*address, source))?;
    }
    attempts("UDP", udp_address, |wait_ns| {
        over_udp(udp_address, source, wait_ns)
    })
}

/// Calls `attempt` until it succeeds, at most [`OPENING_ATTEMPTS_MAX`] times. The pauses between
/// the calls double. The argument of `attempt` is how long an attempt over UDP waits for the
/// answer, in nanoseconds; an attempt over TCP ignores it.
fn attempts(
    transport: &'static str,
    address: SocketAddr,
    attempt: impl Fn(u64) -> io::Result<()>,
) -> Result<(), Error> {
    let mut number = 0;
    loop {
        let pause_ns = OPENING_BACKOFF_NS << number;
        number += 1;
        // Over UDP, the wait for the answer is four times as long as the pause after the attempt.
        match attempt(4 * pause_ns) {
            Ok(()) => return Ok(()),
            Err(source) if number == OPENING_ATTEMPTS_MAX => {
                return Err(Error::Unanswered {
                    transport,
                    address,
                    source,
                });
            }
            // The server may be starting. A datagram or its answer may be lost.
            Err(_) => thread::sleep(Duration::from_nanos(pause_ns)),
        }
    }
}

/// Makes one attempt over TCP: connects, sends [`STREAM_PROBE`], and reads the answer to its end.
fn over_tcp(address: SocketAddr, source: Option<IpAddr>) -> io::Result<()> {
    let wait_ns = OPENING_TIMEOUT_NS / u64::from(OPENING_ATTEMPTS_MAX);
    let stream = Stream::connect_from(source, address)?;
    wait_until(&stream, Interest::Write, wait_ns)?;
    stream.take_error()?;
    stream.send(STREAM_PROBE)?;
    let mut buffer = [0; 1024];
    let mut len = 0;
    // The answer is read to its end, because closing a socket with unread bytes resets it.
    while len <= TEXTILE_ANSWER_LEN_MAX as usize {
        wait_until(&stream, Interest::Read, wait_ns)?;
        match stream.recv(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            part if buffer[..part].contains(&TERMINATOR) => return Ok(()),
            part => len += part,
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Makes one attempt over UDP: sends [`DATAGRAM_PROBE`], and waits for one datagram of the answer.
fn over_udp(address: SocketAddr, source: Option<IpAddr>, wait_ns: u64) -> io::Result<()> {
    let socket = Datagram::connect_from(source, address)?;
    socket.send(&[IoSlice::new(DATAGRAM_PROBE)])?;
    wait_until(&socket, Interest::Read, wait_ns)?;
    socket.recv_stamped(&mut [0; 1024]).map(drop)
}

/// Waits until a socket is ready.
///
/// # Errors
/// `TimedOut`: the socket is not ready after `wait_ns`.
fn wait_until(socket: impl AsFd, interest: Interest, wait_ns: u64) -> io::Result<()> {
    match is_ready_within(socket, interest, wait_ns)? {
        true => Ok(()),
        false => Err(io::ErrorKind::TimedOut.into()),
    }
}
