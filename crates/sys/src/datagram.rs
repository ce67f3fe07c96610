//! UDP sockets: connected to one peer, or bound to an address for any. All are non-blocking.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{
    SendAncillaryBuffer, SendFlags, SocketType, connect, getsockname, sendmsg, sendto, socket_with,
    sockopt,
};

use crate::socket::{FLAGS, family_of, recv_stamped, stamp_receives, with_memory};

/// Binds a non-blocking socket to a local address, for datagrams of any peer. Requests a receive
/// buffer of `buffer_bytes` bytes, of which the kernel may give less (`net.core.rmem_max`). As with
/// TCP, an IPv6 socket receives no datagrams of IPv4.
///
/// # Errors
/// Another socket has the address, or this machine does not.
pub fn bind(address: SocketAddr, buffer_bytes: usize) -> io::Result<UdpSocket> {
    let fd = socket_with(family_of(address), SocketType::DGRAM, FLAGS, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    sockopt::set_socket_recv_buffer_size(&fd, buffer_bytes)?;
    rustix::net::bind(&fd, &address)?;
    Ok(fd.into())
}

/// Sends one datagram to a peer.
///
/// # Errors
/// `WouldBlock`: the socket has no space. Any other one: the datagram is lost.
pub fn send_to(socket: &UdpSocket, datagram: &[u8], peer: SocketAddr) -> io::Result<usize> {
    with_memory(|| retry_on_intr(|| sendto(socket, datagram, SendFlags::NOSIGNAL, &peer)))
}

/// A UDP socket with a peer. It receives only datagrams of that peer.
#[derive(Debug)]
pub struct Datagram {
    fd: OwnedFd,
}

impl Datagram {
    /// Creates a socket on a free local port, with the peer `address`. Sends nothing.
    ///
    /// # Errors
    /// No descriptor or port is available, or there is no route to the peer.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let fd = socket_with(family_of(address), SocketType::DGRAM, FLAGS, None)?;
        connect(&fd, &address)?;
        Ok(Self { fd })
    }

    /// Returns the local port.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        let address = getsockname(&self.fd).ok()?;
        SocketAddr::try_from(address).ok().map(|it| it.port())
    }

    /// Requests a receive buffer of `bytes` bytes from the kernel. Returns the size that the kernel
    /// has set, which `net.core.rmem_max` limits.
    ///
    /// # Errors
    /// The kernel reports an error. It does not for a socket.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<usize> {
        sockopt::set_socket_recv_buffer_size(&self.fd, bytes)?;
        Ok(sockopt::socket_recv_buffer_size(&self.fd)?)
    }

    /// Makes the kernel record the time at which datagrams arrive (`SO_TIMESTAMPNS`), for
    /// [`Datagram::recv_stamped`]. On a loopback interface, a datagram arrives during the peer's
    /// send.
    ///
    /// # Errors
    /// The kernel does not support time stamps for this kind of socket.
    pub fn stamp_receives(&self) -> io::Result<()> {
        stamp_receives(&self.fd)
    }

    /// Sends one datagram that consists of at most 1024 slices. Returns its length.
    ///
    /// # Errors
    /// `WouldBlock`: the socket has no space. `ConnectionRefused`: the peer's host has answered an
    /// earlier datagram with the message that no socket has this port; the present datagram was not
    /// sent.
    pub fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        with_memory(|| {
            let mut control = SendAncillaryBuffer::default();
            sendmsg(&self.fd, pieces, &mut control, SendFlags::NOSIGNAL)
        })
    }

    /// Receives one datagram. Returns its length, and the unix time in nanoseconds at which it
    /// arrived, or `None` if the kernel has not recorded the time. A datagram that is longer than
    /// `buffer` is truncated.
    ///
    /// # Errors
    /// `WouldBlock`: no datagram is available. `ConnectionRefused`: no socket has the peer's port,
    /// as for [`Datagram::send`].
    pub fn recv_stamped(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        recv_stamped(&self.fd, buffer)
    }
}

impl From<OwnedFd> for Datagram {
    /// Takes over a descriptor, which must be a connected, non-blocking datagram socket.
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl AsFd for Datagram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Interest, is_ready_within};

    #[test]
    fn datagrams_are_sent_and_received_one_by_one() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = Datagram::connect(peer.local_addr().unwrap()).unwrap();
        socket.stamp_receives().unwrap();
        assert!(socket.set_receive_buffer(1 << 16).unwrap() > 0);
        let pieces = [IoSlice::new(b"one"), IoSlice::new(b"datagram")];
        assert_eq!(socket.send(&pieces).unwrap(), 11);
        let mut buffer = [0; 64];
        let (len, from) = peer.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"onedatagram");
        assert_eq!(Some(from.port()), socket.port());
        for answer in [b"a".as_slice(), b"bc"] {
            peer.send_to(answer, from).unwrap();
        }
        assert!(is_ready_within(&socket, Interest::Read, 5_000_000_000).unwrap());
        assert_eq!(socket.recv_stamped(&mut buffer).unwrap().0, 1);
        assert_eq!(socket.recv_stamped(&mut buffer).unwrap().0, 2);
        let none = socket.recv_stamped(&mut buffer).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
    }
}
