//! Where frames come from and go to: UDP sockets on loopback addresses, or a network device.
//!
//! A UDP socket has no headers below the transport, but the ICRC covers them. They are made again
//! from the addresses of the socket. The kernel writes 0 as identification of datagrams that are
//! never fragmented, and this is what the ICRC was computed with. All hosts have UDP port 4791, as
//! source port too.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};

use roce::limits::FRAME_LEN_MAX;
pub use roce::wire::UDP_PORT;
use roce::wire::encapsulate;
use sys::bound_datagram::BoundDatagram;
use sys::packet::PacketSocket;

use crate::station::Station;

/// Bytes of a port's socket buffers, as far as the kernel gives them.
const BUFFER_LEN: usize = 4 << 20;
/// Lengths of the headers below the transport: Ethernet, IPv4, UDP.
const HEADERS_LEN: usize = 14 + 20 + 8;
/// Where the target's IPv4 address lies in a frame.
const TARGET: std::ops::Range<usize> = 30..34;

/// A source and a sink of frames.
#[derive(Debug)]
pub struct Port {
    me: Station,
    socket: Socket,
    buffer: Vec<u8>,
    /// Frames that the kernel did not take.
    dropped: u64,
}

#[derive(Debug)]
enum Socket {
    Loopback(BoundDatagram),
    Device(PacketSocket),
}

impl Port {
    /// A UDP socket on an address of this machine. The station has this address.
    ///
    /// # Errors
    /// Another socket has port 4791 of this address, or the address is not one of this machine.
    pub fn loopback(ip: [u8; 4]) -> io::Result<Self> {
        let address = SocketAddrV4::new(Ipv4Addr::from(ip), UDP_PORT);
        let socket = Socket::Loopback(BoundDatagram::bind(address, BUFFER_LEN)?);
        Ok(Self::new(Station::of_ip(ip, UDP_PORT), socket))
    }

    /// A packet socket on a device. The address must not be one that this machine has, or the
    /// kernel answers too.
    ///
    /// # Errors
    /// There is no such device, or the process may not open packet sockets.
    pub fn device(name: &str, ip: [u8; 4]) -> io::Result<Self> {
        let socket = PacketSocket::open(name, BUFFER_LEN)?;
        // Several hosts may be at one device.
        socket.receive_only(Ipv4Addr::from(ip))?;
        Ok(Self::new(
            Station::of_ip(ip, UDP_PORT),
            Socket::Device(socket),
        ))
    }

    fn new(me: Station, socket: Socket) -> Self {
        Self {
            me,
            socket,
            buffer: vec![0; FRAME_LEN_MAX],
            dropped: 0,
        }
    }

    /// The host at this port.
    pub fn station(&self) -> Station {
        self.me
    }

    /// Frames that the kernel did not take.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Replaces `frame` by the next one that has arrived; false if there is none.
    ///
    /// # Errors
    /// The kernel reports an error, such as that the device was removed.
    pub fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        match &self.socket {
            Socket::Loopback(socket) => {
                let Some((len, sender)) = socket.recv_from(&mut self.buffer)? else {
                    return Ok(false);
                };
                let sender = Station::of_ip(sender.ip().octets(), sender.port());
                encapsulate(&sender.to(&self.me), &self.buffer[..len], frame);
                Ok(true)
            }
            Socket::Device(socket) => match socket.recv_stamped(&mut self.buffer) {
                Ok((len, _)) => {
                    frame.clear();
                    frame.extend_from_slice(&self.buffer[..len.min(FRAME_LEN_MAX)]);
                    Ok(true)
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
                // It was set down, and may be set up again.
                Err(error) if error.kind() == io::ErrorKind::NetworkDown && socket.has_device() => {
                    Ok(false)
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Sends a frame of this host. One that the kernel does not take is lost, as on any network.
    pub fn send(&mut self, frame: &[u8]) {
        let is_sent = match &self.socket {
            Socket::Loopback(socket) => {
                let (Some(transport), Some(target)) = (frame.get(HEADERS_LEN..), frame.get(TARGET))
                else {
                    return;
                };
                let mut ip = [0; 4];
                ip.copy_from_slice(target);
                let target = SocketAddrV4::new(Ipv4Addr::from(ip), UDP_PORT);
                socket.send_to(transport, target)
            }
            Socket::Device(socket) => socket.send(frame),
        };
        self.dropped += u64::from(!matches!(is_sent, Ok(true)));
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Loopback(socket) => socket.as_fd(),
            Socket::Device(socket) => socket.as_fd(),
        }
    }
}
