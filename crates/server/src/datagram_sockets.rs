//! Datagrams of clients (`-U`): binding their sockets, and their statistics.

use std::net::{SocketAddr, UdpSocket};

use datagrams::limits::RECEIVE_BUFFER;
use datagrams::{Count, Counts, ReplyLimit};
use session::StatWriter;

use crate::error::Error;
use crate::sockets::bind_all;

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
    let bind = |address| sys::datagram::bind(address, RECEIVE_BUFFER);
    let failed = |address, source| Error::Datagrams { address, source };
    bind_all(&config.addresses, bind, failed)
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
