//! Checks before a run that a web server answers.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sys::poll::{Interest, is_ready_within};
use sys::socket::Stream;

use crate::config::Target;
use crate::error::Error;
use crate::limits::{
    HTTP_HEAD_LEN_MAX, OPENING_ATTEMPTS_MAX, OPENING_BACKOFF_NS, OPENING_TIMEOUT_NS,
};

/// A request that every web server answers. An error status is an answer too.
const PROBE: &[u8] = b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// The bytes with which every answer of a web server begins, in any version HTTP/1.x.
const VERSION: &[u8] = b"HTTP/1.";

/// Repeats a HEAD request until it is answered. The sockets have the local address `source`, if it
/// is given. The pauses between the attempts double.
///
/// # Errors
/// No answer came in [`OPENING_ATTEMPTS_MAX`] attempts; or an answer was not HTTP/1; or `stop` was
/// set.
pub(super) fn probe(
    target: &Target,
    source: Option<IpAddr>,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let mut attempts = 0;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let pause_ns = OPENING_BACKOFF_NS << attempts;
        attempts += 1;
        match attempt(target, source) {
            Ok(()) => return Ok(()),
            Err(source)
                if attempts == OPENING_ATTEMPTS_MAX
                    || source.kind() == io::ErrorKind::InvalidData =>
            {
                return Err(Error::NoWebServer {
                    target: target.clone(),
                    source,
                });
            }
            // The server may be starting.
            Err(_) => thread::sleep(Duration::from_nanos(pause_ns)),
        }
    }
}

/// Makes one attempt: connects, sends [`PROBE`], and reads the answer.
fn attempt(target: &Target, source: Option<IpAddr>) -> io::Result<()> {
    let stream = match target {
        Target::Tcp(address) => Stream::connect_from(source, *address)?,
        Target::Unix(path) => Stream::connect_unix(path)?,
    };
    wait_until(&stream, Interest::Write)?;
    stream.take_error()?;
    stream.send(PROBE)?;
    let mut head = vec![0; HTTP_HEAD_LEN_MAX];
    let mut len = 0;
    // The answer is read until the connection ends. Otherwise closing the socket with unread bytes
    // would reset the connection.
    while len < head.len() {
        let received = wait_until(&stream, Interest::Read);
        match received.and_then(|()| stream.recv(&mut head[len..])) {
            Ok(0) => break,
            Ok(part) => len += part,
            // The bytes received before the error show that a web server answers.
            Err(_) if len >= VERSION.len() => break,
            Err(error) => return Err(error),
        }
        // Compares the bytes received so far, up to the length of `VERSION`.
        let is_http = VERSION.iter().zip(&head[..len]).all(|(a, b)| a == b);
        if !is_http {
            let fault = "the answer is not one of HTTP/1.1";
            return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
        }
    }
    match len >= VERSION.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Waits until a socket is ready.
///
/// # Errors
/// `TimedOut`: the socket is not ready after [`OPENING_TIMEOUT_NS`] ÷ [`OPENING_ATTEMPTS_MAX`].
fn wait_until(socket: impl AsFd, interest: Interest) -> io::Result<()> {
    let wait_ns = OPENING_TIMEOUT_NS / u64::from(OPENING_ATTEMPTS_MAX);
    match is_ready_within(socket, interest, wait_ns)? {
        true => Ok(()),
        false => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    /// A server that sends `answer` on each connection and then resets the connection. The reset
    /// comes from the kernel, because the server closes the socket without reading the request.
    fn server(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // Waits until the request has arrived, and leaves it unread.
                stream.peek(&mut [0]).unwrap();
                stream.write_all(answer).unwrap();
            }
        });
        address
    }

    #[test]
    fn an_answer_cut_by_a_reset_is_accepted_if_it_begins_with_the_version() {
        let stop = AtomicBool::new(false);
        let target = |answer| Target::Tcp(server(answer));
        for answer in [&b"HTTP/1."[..], b"HTTP/1.1 400 Bad Request\r\n\r\n"] {
            assert!(probe(&target(answer), None, &stop).is_ok());
        }
        // This answer is one byte too short.
        assert!(attempt(&target(b"HTTP/1"), None).is_err());
        let other = probe(&target(b"220 mail\r\n"), None, &stop);
        assert!(matches!(other, Err(Error::NoWebServer { .. })));
    }
}
