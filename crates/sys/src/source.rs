//! Sockets that connect from a chosen local address.
//!
//! A host has some 28 000 local ports for each of its addresses and each address of a server
//! (`net.ipv4.ip_local_port_range`). A program that opens a socket for each request can therefore
//! use up the ports of one address; several local addresses multiply them. The port is chosen at
//! `connect` (`IP_BIND_ADDRESS_NO_PORT`, ip(7)). Chosen at `bind`, before the peer is known, it
//! would be unique for the address alone, so that different servers could not share it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{SocketType, bind, connect, socket_with};

use crate::datagram::Datagram;
use crate::socket::{FLAGS, Stream, family_of};
use crate::socket_option::switch_on;

impl Stream {
    /// Starts to connect as [`Stream::connect`] does, from the local address `source`. None: the
    /// kernel chooses the local address.
    ///
    /// # Errors
    /// Those of [`Stream::connect`], and `AddrNotAvailable` if the host does not have the address
    /// or none of its ports is free.
    pub fn connect_from(source: Option<IpAddr>, address: SocketAddr) -> io::Result<Self> {
        let fd = bound(source, address, SocketType::STREAM)?;
        match connect(&fd, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(fd.into()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Datagram {
    /// Creates a socket as [`Datagram::connect`] does, with the local address `source`. None: the
    /// kernel chooses the local address.
    ///
    /// # Errors
    /// Those of [`Datagram::connect`], and `AddrNotAvailable` if the host does not have the address
    /// or none of its ports is free.
    pub fn connect_from(source: Option<IpAddr>, address: SocketAddr) -> io::Result<Self> {
        let fd = bound(source, address, SocketType::DGRAM)?;
        match connect(&fd, &address) {
            Ok(()) => Ok(fd.into()),
            // The kernel's error of a datagram socket for which no port is free.
            Err(Errno::AGAIN) => Err(io::ErrorKind::AddrNotAvailable.into()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns a new socket for the peer `address`, bound to the address `source` but to no port.
fn bound(source: Option<IpAddr>, address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let fd = socket_with(family_of(address), kind, FLAGS, None)?;
    if let Some(source) = source {
        // IPv6 sockets have this option too.
        switch_on(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)?;
        bind(&fd, &SocketAddr::new(source, 0))?;
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    const SOURCE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 77)));
    /// Reserved for documentation (RFC 5737), so no host has it.
    const FOREIGN: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));

    #[test]
    fn connections_and_datagrams_come_from_the_source_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _client = Stream::connect_from(SOURCE, address).unwrap();
        let (_, peer) = listener.accept().unwrap();
        assert_eq!(Some(peer.ip()), SOURCE);
        assert_ne!(peer.port(), 0);
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = Datagram::connect_from(SOURCE, server.local_addr().unwrap()).unwrap();
        client.send(&[io::IoSlice::new(b"a")]).unwrap();
        let (_, peer) = server.recv_from(&mut [0; 8]).unwrap();
        assert_eq!(
            (Some(peer.ip()), Some(peer.port())),
            (SOURCE, client.port())
        );
    }

    #[test]
    fn port_is_not_chosen_before_the_peer_is_known() {
        let address = "127.0.0.1:9".parse().unwrap();
        let fd = bound(SOURCE, address, SocketType::DGRAM).unwrap();
        let local = SocketAddr::try_from(rustix::net::getsockname(&fd).unwrap()).unwrap();
        assert_eq!((Some(local.ip()), local.port()), (SOURCE, 0));
    }

    #[test]
    fn address_of_another_host_is_not_available() {
        let address = "127.0.0.1:9".parse().unwrap();
        let of_stream = Stream::connect_from(FOREIGN, address).unwrap_err().kind();
        let of_datagram = Datagram::connect_from(FOREIGN, address).unwrap_err().kind();
        let expected = io::ErrorKind::AddrNotAvailable;
        assert_eq!((of_stream, of_datagram), (expected, expected));
    }
}
