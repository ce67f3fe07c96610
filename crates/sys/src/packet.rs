//! Packet sockets (packet(7)), which receive and send whole Ethernet frames at one network device,
//! and the settings of a device that frames without a network card depend on.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netdevice::{index_to_name_inlined, name_to_index};
use rustix::net::{AddressFamily, SendFlags, SocketType, send, socket_with, sockopt};

use crate::packet_ring::{attach_filter, request_for};
use crate::socket::{FLAGS, recv_stamped, stamp_receives};

mod batch;

pub use batch::FrameBatch;

/// The longest frame that a device of this machine delivers, with some reserve.
pub const FRAME_MAX: usize = 64 * 1024 + 512;

// Options of packet sockets and commands for devices that the `libc` crate lacks; from
// linux/if_packet.h and linux/ethtool.h.
const PACKET_STATISTICS: libc::c_int = 6;
pub(crate) const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;

/// A packet socket that is bound to one device. It is non-blocking. It receives every frame that
/// arrives at the device, and none that this machine sends there.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    /// The number of the device in its network namespace.
    device: u32,
}

impl PacketSocket {
    /// Opens a socket for the device with the name `device`, in the network namespace of the
    /// calling thread. The kernel records when frames arrive, and keeps up to `buffer_bytes` bytes
    /// of them; it counts a frame with its bookkeeping, about 800 bytes more.
    ///
    /// # Errors
    /// `PermissionDenied`: the process lacks `CAP_NET_RAW` or `CAP_NET_ADMIN`, which root has.
    /// `NotFound`: there is no such device.
    pub fn open(device: &str, buffer_bytes: usize) -> io::Result<Self> {
        // Without a protocol, the socket receives nothing until it is bound to its device.
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, FLAGS, None)?;
        stamp_receives(&fd)?;
        sockopt::set_socket_recv_buffer_size_force(&fd, buffer_bytes)?;
        set_option(&fd, PACKET_IGNORE_OUTGOING, 1)?;
        let index = name_to_index(&fd, device)?;
        bind_to(&fd, index)?;
        Ok(Self { fd, device: index })
    }

    /// Receives only ARP and IPv4 for `address` from now on. The kernel discards other frames
    /// before it copies them.
    ///
    /// # Errors
    /// The kernel has no memory for the filter.
    pub fn receive_only(&self, address: Ipv4Addr) -> io::Result<()> {
        attach_filter(&self.fd, address)
    }

    /// Whether the device is still there. One that was set down is, and the socket receives again
    /// when it is set up.
    #[must_use]
    pub fn has_device(&self) -> bool {
        index_to_name_inlined(&self.fd, self.device).is_ok()
    }

    /// Makes the device with the name `device`, to which the socket is bound, receive frames for
    /// every Ethernet address (promiscuous mode), as long as the socket exists.
    ///
    /// # Errors
    /// There is no such device.
    pub fn receive_all_addresses(&self, device: &str) -> io::Result<()> {
        let index = name_to_index(&self.fd, device)?;
        let request = libc::packet_mreq {
            mr_ifindex: i32::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: the kernel reads `request`, which outlives the call, with its size.
        checked(unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const request).cast(),
                size_of_val(&request) as libc::socklen_t,
            )
        })
    }

    /// Receives one frame. Returns its length, and the unix time in nanoseconds at which it
    /// arrived, or `None` if the kernel has not recorded the time. A frame that is longer than
    /// `buffer` is truncated; none is longer than [`FRAME_MAX`].
    ///
    /// # Errors
    /// `WouldBlock`: no frame is available. `NetworkDown`: the device was set down or removed,
    /// which is reported once.
    pub fn recv_stamped(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        recv_stamped(&self.fd, buffer)
    }

    /// Sends one frame. Returns false if the device did not take it: its queue is full, it is down,
    /// or the frame is longer than it allows.
    ///
    /// # Errors
    /// The kernel reports another error, such as that the device was removed.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        match send(&self.fd, frame, SendFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::MSGSIZE | Errno::NETDOWN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the number of frames that the kernel has discarded since the last call because the
    /// socket's receive buffer was full.
    ///
    /// # Errors
    /// The kernel reports an error. This does not happen in a correct program.
    pub fn take_discarded(&self) -> io::Result<u32> {
        take_discarded(&self.fd)
    }
}

/// Returns how many frames the kernel has discarded for a packet socket since the last call.
pub(crate) fn take_discarded(fd: &OwnedFd) -> io::Result<u32> {
    // `struct tpacket_stats`: frames received, and frames discarded.
    let [_, discarded] = option(fd, PACKET_STATISTICS)?;
    Ok(discarded)
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes the kernel pass complete frames to the device with the name `device`, in the network
/// namespace of the calling thread: of at most the device's MTU, and with their checksums.
///
/// By default a virtual device gets segments of up to 64 KiB without a checksum (TSO, GSO and
/// checksum offload), as a network card would that completes them itself. A packet socket at the
/// other end of the device pair would receive them so, and the receiver of a forwarded copy would
/// discard it as damaged.
///
/// # Errors
/// There is no such device, or the process lacks `CAP_NET_ADMIN`.
pub fn disable_offloads(device: &str) -> io::Result<()> {
    let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, FLAGS, None)?;
    for command in [ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_STXCSUM] {
        set_offload(&fd, device, command, 0)?;
    }
    Ok(())
}

/// `struct ethtool_value`: a command and its argument.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

fn set_offload(fd: &OwnedFd, device: &str, command: u32, value: u32) -> io::Result<()> {
    let mut value = EthtoolValue { command, value };
    let mut request = request_for(device)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request has a name that ends in a zero byte, and points to a writable value of
    // the type that the three commands of `disable_offloads` expect. Both outlive the call.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) })
}

pub(crate) fn set_option(fd: &OwnedFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads `value`, which outlives the call, with its size.
    checked(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    })
}

/// Returns an option of a packet socket that consists of `N` words.
pub(crate) fn option<const N: usize>(fd: &OwnedFd, option: libc::c_int) -> io::Result<[u32; N]> {
    let mut words = [0_u32; N];
    let mut len = size_of_val(&words) as libc::socklen_t;
    // SAFETY: `words` is writable for `len` bytes, and both outlive the call.
    checked(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            words.as_mut_ptr().cast(),
            &raw mut len,
        )
    })?;
    Ok(words)
}

/// Binds a packet socket to the device with the number `index`, for frames of every protocol.
pub(crate) fn bind_to(fd: &OwnedFd, index: u32) -> io::Result<()> {
    let index = i32::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    // SAFETY: the kernel reads `address`, which outlives the call, with its size.
    checked(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    })
}

/// Converts the result of a system call.
pub(crate) fn checked(returned: libc::c_int) -> io::Result<()> {
    match returned {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_pair::{device_pair, ip};
    use crate::poll::{Events, Interest, Poll, is_ready_within};
    use std::net::UdpSocket;

    /// Ethernet, IP and UDP headers before the payload.
    const HEADERS: usize = 14 + 20 + 8;

    fn receive(socket: &PacketSocket, buffer: &mut [u8]) -> (usize, Option<u64>) {
        is_ready_within(socket, Interest::Read, 5_000_000_000).unwrap();
        socket.recv_stamped(buffer).unwrap()
    }

    /// The sum of RFC 1071 over the UDP datagram and its pseudo-header. It is 0xffff if the
    /// datagram's checksum is right.
    fn udp_sum(frame: &[u8]) -> u32 {
        let datagram = &frame[34..];
        let pseudo = [&frame[26..34], &[0, 17], &frame[38..40]].concat();
        let bytes: Vec<u8> = pseudo.iter().chain(datagram).copied().collect();
        let words = bytes.chunks(2);
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into());
        let sum: u32 = words.map(word).sum();
        (sum & 0xffff) + (sum >> 16)
    }

    #[test]
    fn frames_arrive_complete_and_with_the_time_of_their_arrival() {
        let Some(namespace) = device_pair() else {
            return;
        };
        namespace
            .run(|| {
                disable_offloads("one").unwrap();
                let socket = PacketSocket::open("two", 1 << 20).unwrap();
                let sender = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
                let before_ns = crate::clock::unix_ns();
                sender.send_to(b"a datagram", "192.0.2.2:7").unwrap();
                let mut buffer = vec![0; FRAME_MAX];
                let (len, arrived_ns) = receive(&socket, &mut buffer);
                assert_eq!(&buffer[HEADERS..len], b"a datagram");
                assert_eq!(udp_sum(&buffer[..len]), 0xffff);
                let now_ns = crate::clock::unix_ns();
                assert!((before_ns..=now_ns).contains(&arrived_ns.unwrap()));
                let none = socket.recv_stamped(&mut buffer).unwrap_err();
                assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
            })
            .unwrap();
    }

    #[test]
    fn own_frames_are_not_received_and_discarded_ones_are_counted() {
        let Some(namespace) = device_pair() else {
            return;
        };
        namespace
            .run(|| {
                let one = PacketSocket::open("one", 1 << 20).unwrap();
                let two = PacketSocket::open("two", 4096).unwrap();
                let other = PacketSocket::open("one", 1 << 20).unwrap();
                let frame = [0xff; 1000];
                for _ in 0..100 {
                    assert!(one.send(&frame).unwrap());
                }
                assert!(!one.send(&[0xff; 3000]).unwrap(), "longer than the MTU");
                let mut buffer = [0; 2000];
                assert_eq!(receive(&two, &mut buffer).0, 1000);
                let mut received = 1;
                while two.recv_stamped(&mut buffer).is_ok() {
                    received += 1;
                }
                assert_eq!(two.take_discarded().unwrap(), 100 - received);
                assert_eq!(two.take_discarded().unwrap(), 0);
                assert!(other.recv_stamped(&mut buffer).is_err());
                assert_eq!(other.take_discarded().unwrap(), 0);
            })
            .unwrap();
    }

    #[test]
    fn with_an_address_only_its_packets_are_received() {
        let Some(namespace) = device_pair() else {
            return;
        };
        namespace
            .run(|| {
                let socket = PacketSocket::open("two", 1 << 20).unwrap();
                socket.receive_only(Ipv4Addr::new(192, 0, 2, 2)).unwrap();
                let sender = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
                for (payload, target) in [("first", 2), ("second", 3), ("third", 2)] {
                    if target == 3 {
                        let words = "neighbour add 192.0.2.3 lladdr 02:00:00:00:00:03 dev one";
                        assert!(ip(words));
                    }
                    let target = format!("192.0.2.{target}:7");
                    sender.send_to(payload.as_bytes(), target).unwrap();
                }
                let mut buffer = vec![0; FRAME_MAX];
                for payload in ["first", "third"] {
                    let (len, _) = receive(&socket, &mut buffer);
                    assert_eq!(&buffer[HEADERS..len], payload.as_bytes());
                }
            })
            .unwrap();
    }

    #[test]
    fn batches_keep_frames_whole_and_in_order() {
        let Some(namespace) = device_pair() else {
            return;
        };
        namespace
            .run(|| {
                let one = PacketSocket::open("one", 1 << 20).unwrap();
                let two = PacketSocket::open("two", 1 << 20).unwrap();
                two.receive_all_addresses("two").unwrap();
                assert!(two.receive_all_addresses("three").is_err());
                let mut sent = FrameBatch::new(4, 3000);
                assert!(!sent.push(&[0; 3001]));
                // The second is longer than the device allows, the third than the receiver's slots.
                for (byte, len) in [(1, 60), (2, 2999), (3, 900), (4, 800)] {
                    let mut frame = vec![byte; len];
                    frame[..12].fill(2);
                    assert!(sent.push(&frame));
                }
                assert!(sent.is_full() && !sent.push(&[0; 60]));
                assert_eq!(one.send_batch(&mut sent), 1);
                let mut received = FrameBatch::new(8, 899);
                let poll = Poll::new().unwrap();
                poll.add(&two, 0, Interest::Read).unwrap();
                let mut events = Events::with_capacity(1);
                let (mut ends, mut truncated) = (Vec::new(), 0);
                // The kernel may deliver them one after the other.
                while ends.len() < 3 {
                    poll.wait(&mut events, Some(5_000_000_000)).unwrap();
                    assert!(!events.is_empty(), "{ends:?}");
                    truncated += two.recv_batch(&mut received).unwrap();
                    let frames = (0..).map_while(|index| received.get(index));
                    ends.extend(frames.map(|frame| (frame.len(), frame.last().copied())));
                }
                assert_eq!(ends, [(60, Some(1)), (0, None), (800, Some(4))]);
                assert_eq!(truncated, 1);
                assert_eq!(two.recv_batch(&mut received).unwrap(), 0);
                assert_eq!(received.get(0), None);
            })
            .unwrap();
    }

    #[test]
    fn a_socket_receives_again_when_its_device_is_up_again_and_knows_when_it_is_removed() {
        let Some(namespace) = device_pair() else {
            return;
        };
        namespace
            .run(|| {
                let one = PacketSocket::open("one", 1 << 20).unwrap();
                let two = PacketSocket::open("two", 1 << 20).unwrap();
                assert!(ip("link set two down"));
                let mut buffer = [0; 2000];
                let mut kind = |socket: &PacketSocket| {
                    let error = socket.recv_stamped(&mut buffer).unwrap_err();
                    error.kind()
                };
                assert_eq!(kind(&two), io::ErrorKind::NetworkDown);
                assert_eq!(kind(&two), io::ErrorKind::WouldBlock);
                assert!(two.has_device());
                assert!(ip("link set two up"));
                // The other end notices a little later that it has a link, and loses frames before.
                let arrives = || {
                    assert!(one.send(&[0xff; 100]).unwrap());
                    is_ready_within(&two, Interest::Read, 10_000_000).unwrap()
                };
                assert!((0..500).any(|_| arrives()));
                assert_eq!(receive(&two, &mut [0; 2000]).0, 100);
                assert!(ip("link delete two"));
                assert_eq!(kind(&two), io::ErrorKind::NetworkDown);
                assert!(!two.has_device() && !one.has_device());
            })
            .unwrap();
    }

    #[test]
    fn unknown_devices_are_errors() {
        let Some(namespace) = device_pair() else {
            return;
        };
        namespace
            .run(|| {
                assert!(PacketSocket::open("three", 4096).is_err());
                assert!(disable_offloads("three").is_err());
                assert!(disable_offloads("a-name-of-more-than-fifteen-bytes").is_err());
            })
            .unwrap();
    }
}
