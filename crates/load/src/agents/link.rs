//! A connection between coordinator and agent: messages in frames over TCP. Every wait has a
//! timeout.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use sys::clock::unix_ns;
use sys::socket::end_with_silent_peer;

use super::frame::{self, FrameError, Parsed};
use super::message::{Message, MessageError};
use crate::limits::{HELLO_LEN_MAX, LINGER, SEND_TIMEOUT, SILENCE_MAX_NS};

/// Why a message could not be received or sent. In the error texts, "it" is the other end of the
/// connection.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The other end has closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// No complete message came within this time.
    #[error("it sent nothing for {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// A message could not be sent, because the other end did not read for this time.
    #[error("it read nothing for {} s", .0.as_secs_f64())]
    SendTimedOut(Duration),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The other end sent bytes that are not a frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other end sent a frame whose body is not a message.
    #[error(transparent)]
    Message(#[from] MessageError),
}

/// A received message.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: Message,
    /// When the last bytes of the message were read, in nanoseconds of Unix time.
    pub(crate) at_ns: u64,
}

/// The receiving half of a connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    stream: TcpStream,
    /// Received bytes that are not parsed yet.
    buffer: Vec<u8>,
    /// The maximum length of a frame's body. A longer body is an error.
    body_max: usize,
    /// When bytes were last read, in nanoseconds of Unix time.
    read_ns: u64,
}

/// The sending half of a connection. Dropping it does not close the connection, because other
/// handles may still use it. [`Sender::close`] does.
#[derive(Debug)]
pub(crate) struct Sender {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Makes both halves of a connection. A frame whose body is longer than [`HELLO_LEN_MAX`] is an
/// error until the caller raises the limit with [`Receiver::set_body_max`]. The caller does so once
/// the other end has proved that it has the token.
pub(crate) fn open(stream: TcpStream) -> io::Result<(Receiver, Sender)> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    end_with_silent_peer(&stream, SILENCE_MAX_NS);
    let sender = Sender {
        stream: stream.try_clone()?,
        buffer: Vec::new(),
    };
    let receiver = Receiver {
        stream,
        buffer: Vec::new(),
        body_max: HELLO_LEN_MAX,
        read_ns: 0,
    };
    Ok((receiver, sender))
}

impl Receiver {
    /// Sets the maximum length of further frame bodies.
    pub(crate) fn set_body_max(&mut self, body_max: usize) {
        self.body_max = body_max;
    }

    /// Waits for the next message. The caller may call this again after [`LinkError::TimedOut`],
    /// because the bytes received so far are kept.
    pub(crate) fn receive(&mut self, timeout: Duration) -> Result<Received, LinkError> {
        let deadline = Instant::now() + timeout;
        loop {
            let needed = match frame::parse(&self.buffer, self.body_max)? {
                Parsed::Frame { body, len } => {
                    let message = Message::parse(body)?;
                    self.buffer.drain(..len);
                    let at_ns = self.read_ns;
                    return Ok(Received { message, at_ns });
                }
                Parsed::Incomplete { needed } => needed,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LinkError::TimedOut(timeout));
            }
            self.stream.set_read_timeout(Some(left))?;
            let len = self.buffer.len();
            self.buffer.resize(needed, 0);
            let read = self.stream.read(&mut self.buffer[len..]);
            self.read_ns = unix_ns();
            self.buffer
                .truncate(len + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => return Err(LinkError::Closed),
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {}
                Err(error) if is_closed(&error) => return Err(LinkError::Closed),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Ends a connection so that the other end can still read the last message. If a connection is
/// closed while received bytes are unread, the kernel resets it, and the reset can discard the last
/// message. Therefore this function first ends only the sending direction, and then reads and
/// discards what still arrives, for at most [`LINGER`].
pub(crate) fn close_gracefully(receiver: &mut Receiver, sender: &Sender) {
    // These calls fail if the connection has already ended, which needs no handling.
    let _ = sender.stream.shutdown(Shutdown::Write);
    let deadline = Instant::now() + LINGER;
    let mut discarded = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || receiver.stream.set_read_timeout(Some(left)).is_err() {
            break;
        }
        if !matches!(receiver.stream.read(&mut discarded), Ok(1..)) {
            break;
        }
    }
    sender.close();
}

impl Sender {
    /// Sends a message.
    pub(crate) fn send(&mut self, message: &Message) -> Result<(), LinkError> {
        self.buffer.clear();
        message.emit(&mut self.buffer)?;
        match self.stream.write_all(&self.buffer) {
            Ok(()) => Ok(()),
            Err(error) if is_timeout(&error) => Err(LinkError::SendTimedOut(SEND_TIMEOUT)),
            Err(error) if is_closed(&error) => Err(LinkError::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes another handle on the connection. A thread can close the connection with it while
    /// another thread waits in [`Receiver::receive`].
    pub(crate) fn clone_for_close(&self) -> Result<Self, LinkError> {
        Ok(Self {
            stream: self.stream.try_clone()?,
            buffer: Vec::new(),
        })
    }

    /// Ends the connection in both directions.
    pub(crate) fn close(&self) {
        // The call fails if the connection has already ended, which needs no handling.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Whether a read or write reached its timeout or was interrupted. The error kind `TimedOut` is not
/// among these: the kernel reports it when it has ended the connection to a silent host.
fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}

/// Whether the other end has closed or reset the connection.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A timeout that is expected to pass.
    const SHORT: Duration = Duration::from_millis(20);
    /// A timeout that is not expected to pass.
    const LONG: Duration = Duration::from_secs(20);

    /// The receiving half of a connection, and the socket at its other end.
    fn pair() -> (Receiver, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = open(listener.accept().unwrap().0).unwrap();
        (receiver, peer)
    }

    #[test]
    fn message_that_comes_in_pieces_is_received_even_after_a_timeout() {
        let (mut receiver, mut peer) = pair();
        let mut bytes = Vec::new();
        Message::Probe { number: 3 }.emit(&mut bytes).unwrap();
        Message::Stop.emit(&mut bytes).unwrap();
        let (first, rest) = bytes.split_at(15);
        peer.write_all(first).unwrap();
        let early = receiver.receive(SHORT).unwrap_err();
        assert!(matches!(early, LinkError::TimedOut(_)), "{early}");
        peer.write_all(rest).unwrap();
        let next = |receiver: &mut Receiver| receiver.receive(LONG).unwrap().message;
        assert_eq!(next(&mut receiver), Message::Probe { number: 3 });
        assert_eq!(next(&mut receiver), Message::Stop);
        drop(peer);
        let end = receiver.receive(LONG).unwrap_err();
        assert!(matches!(end, LinkError::Closed), "{end}");
    }

    #[test]
    fn peer_that_does_not_read_is_reported_as_such() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_, mut sender) = open(listener.accept().unwrap().0).unwrap();
        sender.stream.set_write_timeout(Some(SHORT)).unwrap();
        let reason = "x".repeat(1 << 20);
        let fault = loop {
            let reason = reason.clone();
            if let Err(fault) = sender.send(&Message::Failed { reason }) {
                break fault;
            }
        };
        // The text always gives SEND_TIMEOUT, not the shorter timeout of this test.
        assert_eq!(fault.to_string(), "it read nothing for 3 s");
    }

    #[test]
    fn long_message_before_the_token_is_proved_is_an_error() {
        let (mut receiver, mut peer) = pair();
        let reason = "x".repeat(2 * HELLO_LEN_MAX);
        let mut bytes = Vec::new();
        Message::Failed { reason }.emit(&mut bytes).unwrap();
        peer.write_all(&bytes).unwrap();
        let fault = receiver.receive(LONG).unwrap_err();
        assert!(
            matches!(fault, LinkError::Frame(FrameError::TooLong { .. })),
            "{fault}"
        );
    }

    #[test]
    fn bytes_that_are_not_a_frame_are_an_error() {
        let (mut receiver, mut peer) = pair();
        peer.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let fault = receiver.receive(LONG).unwrap_err();
        assert!(
            matches!(fault, LinkError::Frame(FrameError::NotAFrame)),
            "{fault}"
        );
    }
}
