//! Sockets: traffic, connections that end or fail, timeouts and cancellation, and the observer that
//! is told of received bytes.

mod close;
mod timeout;
mod traffic;
mod watch;

use std::net::{SocketAddr, TcpListener};

use crate::Socket;

/// Creates a socket that listens on the loopback interface. Returns it with its address.
fn listen() -> (Socket<TcpListener>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The backlog (the kernel's queue of connections that are not accepted yet) has space for all
    // connections that a test opens at the same time. If it were full, the kernel would repeat the
    // attempt to connect only after a second or more.
    rustix::net::listen(&listener, 4096).unwrap();
    let address = listener.local_addr().unwrap();
    (Socket::new(listener).unwrap(), address)
}
