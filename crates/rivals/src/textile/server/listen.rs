//! The loop of the thread that accepts: connections and datagrams to a sink.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use sys::poll::{Events, Interest, Poll};
use sys::socket::{Listener, Stream, is_exhaustion};

use super::control::Control;
use super::limits::{DATAGRAM_REQUEST_MAX, STOP_CHECK_NS};

/// The sockets of a server.
pub(crate) struct Sockets {
    pub(crate) tcp: Listener,
    /// Non-blocking.
    pub(crate) udp: Arc<UdpSocket>,
}

/// Where requests go.
pub(crate) trait Sink {
    fn datagram(&mut self, request: &[u8], from: SocketAddr);
    fn stream(&mut self, stream: Stream);
}

const TCP: u64 = 0;
const UDP: u64 = 1;

/// Passes one datagram and one connection to the sink at each wake-up, as the published server
/// does, until the server stops.
///
/// # Errors
/// The poll fails.
pub(crate) fn run(sockets: &Sockets, control: &Control, sink: &mut impl Sink) -> io::Result<()> {
    let poll = Poll::new()?;
    poll.add(&sockets.tcp, TCP, Interest::Read)?;
    poll.add(&sockets.udp, UDP, Interest::Read)?;
    let mut events = Events::with_capacity(2);
    // A longer datagram is cut, and then lacks its NUL.
    let mut buffer = [0; DATAGRAM_REQUEST_MAX];
    while !control.is_stopping() {
        poll.wait(&mut events, Some(STOP_CHECK_NS))?;
        for event in events.iter() {
            if event.token == UDP {
                if let Ok((len, from)) = sockets.udp.recv_from(&mut buffer) {
                    sink.datagram(&buffer[..len], from);
                }
                continue;
            }
            match sockets.tcp.accept() {
                Ok(stream) => sink.stream(stream),
                // The connection stays in the kernel's queue until a descriptor is free.
                Err(error) if is_exhaustion(&error) => std::thread::yield_now(),
                Err(_) => {}
            }
        }
    }
    Ok(())
}
