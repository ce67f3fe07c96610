//! The two ends of a connection.

use std::fmt;
use std::net::SocketAddr;

/// The descriptor of a connection, and its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The file descriptor of the socket. Another connection may have it later.
    pub descriptor: i32,
    /// The peer's TCP address. `None`: a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The server's TCP address. `None`: a Unix socket.
    pub local: Option<SocketAddr>,
}

impl Endpoint {
    /// The peer's address as memcached shows it in `stats conns`.
    #[must_use]
    pub fn peer_text(&self) -> String {
        address_text(self.peer)
    }

    /// Writes the peer as memcached's log lines show it: `rip=… rport=… transport=…`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_log_fields(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let Some(peer) = self.peer else {
            return out.write_str("rip=unix rport=0 transport=local");
        };
        write!(out, "rip={} rport={} transport=tcp", peer.ip(), peer.port())
    }
}

/// An address as memcached shows it in `stats conns`. `None`: that of a Unix socket.
#[must_use]
pub fn address_text(address: Option<SocketAddr>) -> String {
    match address {
        Some(SocketAddr::V4(address)) => format!("tcp:{address}"),
        Some(SocketAddr::V6(address)) => format!("tcp6:{address}"),
        None => "unix".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_forms_of_memcached() {
        let endpoint = Endpoint {
            descriptor: 7,
            peer: "10.0.0.1:5".parse().ok(),
            local: "[::1]:11211".parse().ok(),
        };
        assert_eq!(endpoint.peer_text(), "tcp:10.0.0.1:5");
        assert_eq!(address_text(endpoint.local), "tcp6:[::1]:11211");
        let mut text = String::new();
        assert!(endpoint.write_log_fields(&mut text).is_ok());
        assert_eq!(text, "rip=10.0.0.1 rport=5 transport=tcp");
        let unix = Endpoint {
            peer: None,
            ..endpoint
        };
        assert_eq!(unix.peer_text(), "unix");
    }
}
