//! Datagram sockets (UDP) that are connected to one peer. None of them blocks.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    SendAncillaryBuffer, SendFlags, SocketType, connect, getsockname, sendmsg, socket_with, sockopt,
};

use crate::socket::{FLAGS, family_of, recv_stamped, stamp_receives};

/// A UDP socket with a peer: it receives only what that peer sends.
#[derive(Debug)]
pub struct Datagram {
    fd: OwnedFd,
}

impl Datagram {
    /// A socket on a free local port whose peer is `address`. Nothing is sent yet.
    ///
    /// # Errors
    /// No descriptor or port left, or no route to the peer.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let fd = socket_with(family_of(address), SocketType::DGRAM, FLAGS, None)?;
        connect(&fd, &address)?;
        Ok(Self { fd })
    }

    /// The local port.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        let address = getsockname(&self.fd).ok()?;
        SocketAddr::try_from(address).ok().map(|it| it.port())
    }

    /// Asks the kernel for a receive buffer of `bytes`. Returns what it gives, which
    /// net.core.rmem_max limits.
    ///
    /// # Errors
    /// The kernel's own, none for a socket.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<usize> {
        sockopt::set_socket_recv_buffer_size(&self.fd, bytes)?;
        Ok(sockopt::socket_recv_buffer_size(&self.fd)?)
    }

    /// As [`crate::socket::Stream::stamp_receives`].
    ///
    /// # Errors
    /// As there.
    pub fn stamp_receives(&self) -> io::Result<()> {
        stamp_receives(&self.fd)
    }

    /// Sends one datagram of several pieces. At most 1024 pieces.
    ///
    /// # Errors
    /// `WouldBlock`: there is no space. `ConnectionRefused`: the host of an earlier datagram has
    /// said that there is no such port; this datagram was not sent.
    pub fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut control = SendAncillaryBuffer::default();
        Ok(sendmsg(
            &self.fd,
            pieces,
            &mut control,
            SendFlags::NOSIGNAL,
        )?)
    }

    /// Receives one datagram, cut to the buffer, with the unix time in nanoseconds at which it
    /// arrived; none where the kernel did not note it.
    ///
    /// # Errors
    /// `WouldBlock`: nothing is there. `ConnectionRefused`: as for [`Datagram::send`].
    pub fn recv_stamped(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        recv_stamped(&self.fd, buffer)
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
    use crate::poll::{Events, Interest, Poll};
    use std::net::UdpSocket;

    #[test]
    fn datagrams_travel_both_ways_and_keep_their_bounds() {
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
        let poll = Poll::new().unwrap();
        poll.add(&socket, 0, Interest::Read).unwrap();
        let mut events = Events::with_capacity(1);
        poll.wait(&mut events, Some(5_000_000_000)).unwrap();
        assert_eq!(socket.recv_stamped(&mut buffer).unwrap().0, 1);
        assert_eq!(socket.recv_stamped(&mut buffer).unwrap().0, 2);
        let none = socket.recv_stamped(&mut buffer).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
    }
}
