//! Datagrams of clients (`-U`): binding their sockets, and their statistics.

use std::net::{SocketAddr, UdpSocket};

use datagrams::{Count, Counts, ReplyLimit};
use session::StatWriter;

use crate::error::Error;
use crate::start::{is_no_ipv6, is_optional};

/// The datagrams of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatagramsConfig {
    /// The addresses to receive at.
    pub addresses: Vec<SocketAddr>,
    /// How long replies may be.
    pub limit: ReplyLimit,
}

/// Binds the sockets. It needs root for a port below 1024.
pub(crate) fn bind(config: &DatagramsConfig) -> Result<Vec<UdpSocket>, Error> {
    let mut sockets = Vec::new();
    for &address in &config.addresses {
        match sys::datagram::bind(address, datagrams::limits::RECEIVE_BUFFER) {
            Ok(socket) => sockets.push(socket),
            Err(error) if is_optional(address, &config.addresses) && is_no_ipv6(&error) => {}
            Err(source) => return Err(Error::Datagrams { address, source }),
        }
    }
    Ok(sockets)
}

/// The addresses of the sockets.
pub(crate) fn addresses(sockets: &[UdpSocket]) -> Vec<SocketAddr> {
    let addresses = sockets.iter().map(UdpSocket::local_addr);
    addresses.filter_map(Result::ok).collect()
}

/// Writes the statistics of datagrams.
pub(crate) fn write_stats(counts: &Counts, out: &mut dyn StatWriter) {
    for count in Count::ALL {
        out.number(count.name().as_bytes(), counts.of(count));
    }
}
