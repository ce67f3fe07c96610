//! Sockets: what is sent arrives, in spite of ends, errors, timeouts and other fibres.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a failing test says where"
)]

#[path = "sockets/close.rs"]
mod close;
#[path = "common/each.rs"]
mod each;
#[path = "sockets/timeout.rs"]
mod timeout;
#[path = "sockets/traffic.rs"]
mod traffic;
#[path = "sockets/watch.rs"]
mod watch;

use std::net::{SocketAddr, TcpListener};

use fibre::Socket;

/// A socket that listens on the loopback, for a fibre.
fn listen() -> (Socket<TcpListener>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Room for all who come at once: whom the kernel turns away comes again after seconds.
    rustix::net::listen(&listener, 4096).unwrap();
    let address = listener.local_addr().unwrap();
    (Socket::new(listener).unwrap(), address)
}
