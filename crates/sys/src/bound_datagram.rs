//! UDP sockets of IPv4 without a peer, bound to an address. All are non-blocking.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketType, bind, recvfrom, sendto, socket_with, sockopt,
};

use crate::socket::FLAGS;
use crate::socket_option::set_int;

/// A UDP socket that receives from any peer, and sends to any. Its datagrams are never fragmented,
/// so the kernel writes 0 as their identification: on a socket without a peer it counts them only
/// if they may be fragmented.
#[derive(Debug)]
pub struct BoundDatagram {
    fd: OwnedFd,
}

impl BoundDatagram {
    /// Creates a socket with this local address, and requests buffers of `buffer_bytes` bytes, of
    /// which the kernel may give less (`net.core.rmem_max`).
    ///
    /// # Errors
    /// Another socket has the address, or this machine does not.
    pub fn bind(address: SocketAddrV4, buffer_bytes: usize) -> io::Result<Self> {
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, FLAGS, None)?;
        set_int(
            &fd,
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_DO,
        )?;
        sockopt::set_socket_recv_buffer_size(&fd, buffer_bytes)?;
        sockopt::set_socket_send_buffer_size(&fd, buffer_bytes)?;
        bind(&fd, &address)?;
        Ok(Self { fd })
    }

    /// Sends a datagram. False if it was dropped: there is no space, or it is too long.
    ///
    /// # Errors
    /// The kernel reports another error, such as that there is no route.
    pub fn send_to(&self, bytes: &[u8], target: SocketAddrV4) -> io::Result<bool> {
        match sendto(&self.fd, bytes, SendFlags::NOSIGNAL, &target) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::MSGSIZE | Errno::CONNREFUSED) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives a datagram: its length, and its sender. `None` if there is none. One that is longer
    /// than `buffer` is truncated.
    ///
    /// # Errors
    /// The kernel reports an error.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddrV4)>> {
        match recvfrom(&self.fd, buffer, RecvFlags::empty()) {
            Ok((len, _, sender)) => {
                let sender = sender.and_then(|address| SocketAddr::try_from(address).ok());
                match sender {
                    Some(SocketAddr::V4(sender)) => Ok(Some((len, sender))),
                    _ => Ok(None),
                }
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for BoundDatagram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn datagrams_go_to_any_peer_and_say_where_they_come_from() {
        let address = |last| SocketAddrV4::new(Ipv4Addr::new(127, 77, 0, last), 47_911);
        let [first, second] =
            [1, 2].map(|last| BoundDatagram::bind(address(last), 1 << 16).unwrap());
        let mut buffer = [0; 16];
        assert_eq!(second.recv_from(&mut buffer).unwrap(), None);
        // On the loopback interface, a datagram arrives during the send.
        assert!(first.send_to(b"hello", address(2)).unwrap());
        assert_eq!(
            second.recv_from(&mut buffer).unwrap(),
            Some((5, address(1)))
        );
        assert_eq!(&buffer[..5], b"hello");
        assert!(first.send_to(b"to no socket", address(3)).unwrap());
        assert!(first.send_to(b"again", address(2)).unwrap());
        assert!(BoundDatagram::bind(address(1), 1 << 16).is_err());
    }
}
