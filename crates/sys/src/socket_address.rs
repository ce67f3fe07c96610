//! The two ends of a connection.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{getpeername, getsockname};

use crate::socket::Stream;

impl Stream {
    /// Returns the peer's TCP address, or `None` for a Unix socket or a lost connection.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        getpeername(self).ok()??.try_into().ok()
    }

    /// Returns the server's TCP address, or `None` for a Unix socket.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        getsockname(self).ok()?.try_into().ok()
    }

    /// Returns the number of the file descriptor.
    #[must_use]
    pub fn descriptor(&self) -> i32 {
        self.as_fd().as_raw_fd()
    }
}
