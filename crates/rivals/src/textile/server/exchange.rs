//! The exchange on one connection: a request, its answer, and the end of the connection.

use std::net::{SocketAddr, UdpSocket};

use sys::clock::monotonic_ns;
use sys::socket::Stream;

use super::counters::add;
use super::handler::Handler;
use super::limits::{DATAGRAM_LEN_MAX, EXCHANGE_NS, REQUEST_LEN_MAX};

/// A thread's buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// What a receive has room for.
const RECEIVE_LEN: usize = 16 * 1024;

/// Receives the request of a connection, answers it, and closes the connection. A peer that sends
/// nothing, or takes nothing, blocks it for [`EXCHANGE_NS`]; one that sends byte by byte for
/// twice as long.
pub(crate) fn serve_stream(stream: &Stream, handler: &mut Handler, buffers: &mut Buffers) {
    buffers.answer.clear();
    let is_complete = receive(stream, &mut buffers.request);
    match is_complete {
        Some(len) => handler.answer_tcp(&buffers.request[..len], &mut buffers.answer),
        None if buffers.request.len() > REQUEST_LEN_MAX => {
            handler.answer_tcp(b"", &mut buffers.answer);
        }
        None => return add(&handler.counters.lost, 1),
    }
    // The socket is blocking: a short send means that the peer took nothing for the whole time.
    let sent = stream.send(&buffers.answer);
    if !sent.is_ok_and(|len| len == buffers.answer.len()) {
        add(&handler.counters.lost, 1);
    }
}

/// Receives until a NUL; returns the length before it. `None`: it did not come in time, or the
/// request is too long.
///
/// The published clients send several NULs at the end, in the same segment. They are received with
/// the first, because a socket that is closed with unread bytes resets its connection, and the peer
/// may then lose the answer.
fn receive(stream: &Stream, request: &mut Vec<u8>) -> Option<usize> {
    request.clear();
    stream.set_blocking(EXCHANGE_NS).ok()?;
    stream.set_receive_timeout(EXCHANGE_NS).ok()?;
    let deadline_ns = monotonic_ns() + EXCHANGE_NS;
    while request.len() <= REQUEST_LEN_MAX && monotonic_ns() < deadline_ns {
        let start = request.len();
        request.resize(start + RECEIVE_LEN, 0);
        let received = stream.recv(&mut request[start..]);
        let len = *received.as_ref().unwrap_or(&0);
        request.truncate(start + len);
        if len == 0 {
            return None;
        }
        if let Some(at) = request[start..].iter().position(|&byte| byte == 0) {
            return Some(start + at);
        }
    }
    None
}

/// Answers a request that came as a datagram.
pub(crate) fn serve_datagram(
    socket: &UdpSocket,
    request: &[u8],
    from: SocketAddr,
    handler: &mut Handler,
    buffers: &mut Buffers,
) {
    buffers.answer.clear();
    handler.answer_udp(request, &mut buffers.answer);
    for datagram in buffers.answer.chunks(DATAGRAM_LEN_MAX) {
        // A datagram that is not sent is as good as one that is lost on the way.
        if socket.send_to(datagram, from).is_err() {
            add(&handler.counters.lost, 1);
            return;
        }
    }
}
