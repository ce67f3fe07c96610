//! Checks before a run that a server of the study's protocol answers, over TCP and over UDP. Without
//! this check, a wrong port would show only as a run in which every get times out.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::config::Target;
use crate::error::Error;
use crate::limits::{
    OPENING_ATTEMPTS_MAX, OPENING_BACKOFF_NS, OPENING_TIMEOUT_NS, TEXTILE_ANSWER_LEN_MAX,
};

/// A request that every server of the protocol answers, and that changes nothing.
const STREAM_PROBE: &[u8] = b"HEAD\0";
/// A get of a key that is not stored. The server may count it as a miss.
const DATAGRAM_PROBE: &[u8] = b"GET /curtail-probe\0";

/// Sends a request over TCP and one over UDP until each is answered.
///
/// # Errors
/// No answer came in [`OPENING_ATTEMPTS_MAX`] attempts. Each attempt waits twice as long as the one
/// before.
pub(super) fn probe(target: &Target, udp_address: SocketAddr) -> Result<(), Error> {
    if let Target::Tcp(address) = target {
        attempts("TCP", *address, |_| over_tcp(*address))?;
    }
    attempts("UDP", udp_address, |wait| over_udp(udp_address, wait))
}

fn attempts(
    transport: &'static str,
    address: SocketAddr,
    mut attempt: impl FnMut(Duration) -> io::Result<()>,
) -> Result<(), Error> {
    let mut number = 0;
    loop {
        let wait = Duration::from_nanos(OPENING_BACKOFF_NS << number);
        number += 1;
        match attempt(4 * wait) {
            Ok(()) => return Ok(()),
            Err(source) if number == OPENING_ATTEMPTS_MAX => {
                return Err(Error::Unanswered {
                    transport,
                    address,
                    source,
                });
            }
            // The server may be starting. A datagram or its answer may be lost.
            Err(_) => thread::sleep(wait),
        }
    }
}

fn over_tcp(address: SocketAddr) -> io::Result<()> {
    let timeout = Duration::from_nanos(OPENING_TIMEOUT_NS / u64::from(OPENING_ATTEMPTS_MAX));
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(STREAM_PROBE)?;
    let mut buffer = [0; 1024];
    let mut len = 0;
    // The answer is read to its end, because closing a socket with unread bytes resets it.
    while len <= TEXTILE_ANSWER_LEN_MAX as usize {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            part if buffer[..part].contains(&0) => return Ok(()),
            part => len += part,
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

fn over_udp(address: SocketAddr, wait: Duration) -> io::Result<()> {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(wait))?;
    socket.send(DATAGRAM_PROBE)?;
    socket.recv(&mut [0; 1024]).map(drop)
}
