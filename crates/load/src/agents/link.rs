//! A TCP connection between a coordinator and an agent. An agent is a process that offers a part of
//! the coordinator's load. Each message is sent in a frame. Every wait has a timeout.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use sys::clock::unix_ns;
use sys::socket::end_with_silent_peer;
use units::duration_text;

use super::frame::{self, FrameError, Parsed};
use super::message::{Message, MessageError};
use crate::limits::{HELLO_LEN_MAX, LINGER, READ_MIN, SEND_TIMEOUT, SILENCE_MAX_NS};

/// Why a message could not be received or sent. In the error texts, "it" is the other end of the
/// connection.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The other end has closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// No complete message came within this time, although a part of one may have come.
    #[error("it sent nothing for {}", duration_text(*.0))]
    TimedOut(Duration),
    /// A message could not be sent completely, because the other end did not read for this time.
    #[error("it read nothing for {}", duration_text(*.0))]
    SendTimedOut(Duration),
    /// An operation on the socket failed in another way.
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
    /// When the read that completed the message returned, in nanoseconds of Unix time.
    pub(crate) at_ns: u64,
}

/// The receiving half of a connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    stream: TcpStream,
    /// The bytes received so far of the next frame. Never contains bytes of the frame after it.
    buffer: Vec<u8>,
    /// The maximum length of a frame's body. A frame with a longer body is an error.
    body_max: usize,
    /// When the last read returned, with or without bytes, in nanoseconds of Unix time.
    read_ns: u64,
}

/// The sending half of a connection. [`Sender::close`] closes the connection. Dropping the sender
/// does not, because the receiver and further handles keep the socket open.
#[derive(Debug)]
pub(crate) struct Sender {
    stream: TcpStream,
    /// The frame that is being sent. Kept only to reuse its memory.
    buffer: Vec<u8>,
}

/// Makes both halves of a connection from its socket. At first, only the short messages of the
/// handshake are accepted: if the body of a received frame is longer than [`HELLO_LEN_MAX`], this
/// is an error. After the handshake, the caller must raise this limit with
/// [`Receiver::set_body_max`].
pub(crate) fn open(stream: TcpStream) -> io::Result<(Receiver, Sender)> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    // Makes the kernel end the connection with an error if the host at the other end acknowledges
    // nothing for this time.
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
    /// Sets the maximum length of a frame's body, for all frames received from now on.
    pub(crate) fn set_body_max(&mut self, body_max: usize) {
        self.body_max = body_max;
    }

    /// Waits up to `timeout` for the next message. After [`LinkError::TimedOut`] the caller may
    /// call this again, because the bytes of an incomplete message are kept.
    pub(crate) fn receive(&mut self, timeout: Duration) -> Result<Received, LinkError> {
        let deadline = Instant::now() + timeout;
        let mut is_late = false;
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
            // What has arrived is received at the deadline too: this process may have stood still.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() && mem::replace(&mut is_late, true) {
                return Err(LinkError::TimedOut(timeout));
            }
            self.stream.set_read_timeout(Some(left.max(READ_MIN)))?;
            // Reads at most the missing bytes of the frame. The buffer is enlarged for the read and
            // then cut to the bytes that have arrived.
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

/// Closes a connection without losing the last message that was sent on it. If a socket is closed
/// before all received bytes are read, the kernel resets the connection. The other end may then
/// lose the last message before it has read it. Therefore this function first ends only the sending
/// direction. Then it reads and discards further bytes until the other end closes the connection,
/// but at most for the time [`LINGER`].
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
        // `Ok(0)` is the end of the stream. An error is a timeout or a failed connection.
        if !matches!(receiver.stream.read(&mut discarded), Ok(1..)) {
            break;
        }
    }
    sender.close();
}

impl Sender {
    /// Sends a message. If the other end does not read, this fails after [`SEND_TIMEOUT`].
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

    /// Makes another handle of the same socket. One thread can close the connection by calling
    /// [`Sender::close`] on this handle, while another thread waits in [`Receiver::receive`].
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

/// Whether a read or write reached the timeout of the socket, or was interrupted by a signal. An
/// error of the kind `TimedOut` does not count: it means that the kernel has ended the connection,
/// because the other host was silent ([`end_with_silent_peer`]).
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

    /// A timeout that expires in the test.
    const SHORT: Duration = Duration::from_millis(20);
    /// A timeout that does not expire in the test, unless the test fails.
    const LONG: Duration = Duration::from_secs(20);

    /// Opens a connection. Returns its receiving half, and the socket at the other end.
    fn receiver_and_peer() -> (Receiver, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = open(listener.accept().unwrap().0).unwrap();
        (receiver, peer)
    }

    #[test]
    fn message_whose_rest_comes_after_a_timeout_is_received() {
        let (mut receiver, mut peer) = receiver_and_peer();
        let mut bytes = Vec::new();
        Message::Probe { number: 3 }.emit(&mut bytes).unwrap();
        Message::Stop.emit(&mut bytes).unwrap();
        // The first 15 bytes end within the body of the first message.
        let (first, rest) = bytes.split_at(15);
        peer.write_all(first).unwrap();
        let error = receiver.receive(SHORT).unwrap_err();
        assert!(matches!(error, LinkError::TimedOut(_)), "{error}");
        peer.write_all(rest).unwrap();
        let next = |receiver: &mut Receiver| receiver.receive(LONG).unwrap().message;
        assert_eq!(next(&mut receiver), Message::Probe { number: 3 });
        assert_eq!(next(&mut receiver), Message::Stop);
        drop(peer);
        let end = receiver.receive(LONG).unwrap_err();
        assert!(matches!(end, LinkError::Closed), "{end}");
    }

    #[test]
    fn send_to_a_peer_that_does_not_read_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_, mut sender) = open(listener.accept().unwrap().0).unwrap();
        sender.stream.set_write_timeout(Some(SHORT)).unwrap();
        // Long messages fill the buffers of both sockets.
        let reason = "x".repeat(1 << 20);
        let error = loop {
            let reason = reason.clone();
            if let Err(error) = sender.send(&Message::Failed { reason }) {
                break error;
            }
        };
        // The text always contains SEND_TIMEOUT, which is 3 s, and not the timeout of the socket.
        assert_eq!(error.to_string(), "it read nothing for 3 s");
    }

    #[test]
    fn message_above_the_initial_limit_is_an_error() {
        let (mut receiver, mut peer) = receiver_and_peer();
        let reason = "x".repeat(2 * HELLO_LEN_MAX);
        let mut bytes = Vec::new();
        Message::Failed { reason }.emit(&mut bytes).unwrap();
        peer.write_all(&bytes).unwrap();
        let error = receiver.receive(LONG).unwrap_err();
        assert!(
            matches!(error, LinkError::Frame(FrameError::TooLong { .. })),
            "{error}"
        );
    }

    #[test]
    fn bytes_that_are_not_a_frame_are_an_error() {
        let (mut receiver, mut peer) = receiver_and_peer();
        peer.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let error = receiver.receive(LONG).unwrap_err();
        assert!(
            matches!(error, LinkError::Frame(FrameError::NotAFrame)),
            "{error}"
        );
    }
}
