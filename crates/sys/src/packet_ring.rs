//! A packet socket whose received frames are in memory shared with the kernel (`PACKET_MMAP`,
//! `TPACKET_V2`; Documentation/networking/packet_mmap.rst), so that receiving makes no system call.
//!
//! ```text
//! kernel: copies a frame to the next free slot, and sets its status to USER
//! owner:  reads the slots in order, and sets the status of each back to KERNEL
//! ```
//!
//! A frame that is longer than a slot (a segment of up to 64 KiB between hosts of one machine) is
//! also kept in the socket's queue (`PACKET_COPY_THRESH`) and received from there.

use std::ffi::c_void;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, RecvFlags, SocketType, recv, socket_with, sockopt};

use crate::fork::OfOneProcess;
use crate::packet::{
    FRAME_MAX, PACKET_IGNORE_OUTGOING, bind_to, checked, option, set_option, take_discarded,
};
use crate::socket::FLAGS;

/// Bytes of a block, the unit in which the kernel allocates the memory.
const BLOCK_LEN: usize = 64 * 1024;
/// Bytes of a slot in front of the frame, at most: the header, an address and alignment.
const SLOT_HEADER: usize = 128;
/// Bytes of the socket's send buffer, and of the frames that do not fit into slots.
const QUEUE_BYTES: usize = 4 << 20;
/// Maximum number of frames that one system call sends. Their headers are cleared for each call,
/// and mostly there is one frame.
const SEND_MAX: usize = 16;

/// The name of a network device, its hardware address, and the length of its packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The name.
    pub name: String,
    /// The hardware address (MAC).
    pub hardware_address: [u8; 6],
    /// Maximum length of a packet in bytes, without the Ethernet header (MTU).
    pub mtu: usize,
}

impl Device {
    /// Finds the Ethernet device with this name, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// `NotFound`: there is no such device. `NetworkDown`: it is down. `Unsupported`: it is no
    /// Ethernet device.
    pub fn find(name: &str) -> io::Result<Self> {
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, FLAGS, None)?;
        let mut request = request_for(name)?;
        ioctl(&fd, libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: the kernel has set this field of the union.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        if i32::from(flags) & libc::IFF_UP == 0 {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        ioctl(&fd, libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: the kernel has set this field of the union.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        ioctl(&fd, libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: the kernel has set this field of the union.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut hardware_address = [0; 6];
        for (to, from) in hardware_address.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        Ok(Self {
            name: name.to_owned(),
            hardware_address,
            mtu: usize::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData)?,
        })
    }
}

/// A received frame.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedFrame<'a> {
    /// The frame, from the Ethernet header on.
    pub bytes: &'a [u8],
    /// The checksum of its TCP, UDP or ICMP part need not be verified: the device has done it, or
    /// the frame has not left this machine, and the checksum is not set.
    pub is_verified: bool,
}

/// A packet socket that is bound to a device, with its ring of received frames. It is non-blocking,
/// and readable by `poll` while a frame has arrived.
#[derive(Debug)]
pub struct PacketRing {
    fd: OwnedFd,
    ring: Mapping,
    slots: usize,
    slot_len: usize,
    /// The slot of the next frame.
    next: usize,
    /// Memory for a frame that is longer than a slot.
    long: Vec<u8>,
    /// Frames lost because the slots or the socket's queue were full.
    lost: u64,
}

impl PacketRing {
    /// Opens a socket for a device, in the network namespace of the calling thread. It receives ARP
    /// frames and the IPv4 packets for `address` that arrive at the device, from now on. The kernel
    /// keeps at least `frames` of them.
    ///
    /// # Errors
    /// `PermissionDenied`: the process lacks `CAP_NET_RAW`, which root has. `NotFound`: there is no
    /// such device. `OutOfMemory`: the kernel has no memory for the frames.
    pub fn open(device: &Device, address: Ipv4Addr, frames: usize) -> io::Result<Self> {
        // Without a protocol, the socket receives nothing until it is bound to its device.
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, FLAGS, None)?;
        set_option(&fd, libc::PACKET_VERSION, VERSION_2)?;
        set_option(&fd, PACKET_IGNORE_OUTGOING, 1)?;
        set_option(&fd, libc::PACKET_COPY_THRESH, 1)?;
        let _ = sockopt::set_socket_recv_buffer_size_force(&fd, QUEUE_BYTES);
        let _ = sockopt::set_socket_send_buffer_size_force(&fd, QUEUE_BYTES);
        let wanted = (device.mtu + SLOT_HEADER).next_power_of_two();
        let slot_len = wanted.clamp(2048, BLOCK_LEN);
        let slots_per_block = BLOCK_LEN / slot_len;
        let blocks = frames.div_ceil(slots_per_block).max(1);
        let slots = blocks * slots_per_block;
        allocate_ring(&fd, blocks, slots, slot_len)?;
        let ring = Mapping::new(&fd, blocks * BLOCK_LEN)?;
        attach_filter(&fd, address)?;
        bind_to(&fd, name_to_index(&fd, &device.name)?)?;
        Ok(Self {
            fd,
            ring,
            slots,
            slot_len,
            next: 0,
            long: Vec::new(),
            lost: 0,
        })
    }

    /// Makes this socket one of several that share the frames of the device: all frames of a
    /// connection go to the same socket. `group` is the number of the group that another socket has
    /// begun; `None` begins one. Returns its number.
    ///
    /// # Errors
    /// The group does not exist any more, or no number is free.
    pub fn share(&self, group: Option<u16>) -> io::Result<u16> {
        let (mode, number) = match group {
            Some(number) => (libc::PACKET_FANOUT_HASH, number),
            None => {
                let unique = libc::PACKET_FANOUT_FLAG_UNIQUEID;
                (libc::PACKET_FANOUT_HASH | unique, 0)
            }
        };
        let value = (mode << 16 | u32::from(number)).cast_signed();
        set_option(&self.fd, libc::PACKET_FANOUT, value)?;
        let [value] = option(&self.fd, libc::PACKET_FANOUT)?;
        Ok((value & 0xffff) as u16)
    }

    /// Returns whether a frame has arrived. Makes no system call.
    #[must_use]
    #[inline]
    pub fn has_frame(&self) -> bool {
        // Acquire: pairs with the barrier of the kernel between writing the slot and its status.
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Passes the next frame to `read`, and returns true, or returns false if none has arrived.
    /// Makes no system call, unless the frame is longer than the device's packets.
    #[inline]
    pub fn receive(&mut self, read: impl FnOnce(ReceivedFrame<'_>)) -> bool {
        // Acquire: pairs with the barrier of the kernel between writing the slot and its status.
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return false;
        }
        let slot = self.next * self.slot_len;
        self.next = (self.next + 1) % self.slots;
        // SAFETY: the slot begins at a multiple of its length, which is a power of two from 2048
        // on, and the header is shorter. The kernel does not write to the slot until its status is
        // KERNEL again, which only `SlotGuard` sets.
        let header = unsafe { self.ring.at::<libc::tpacket2_hdr>(slot).read() };
        let guard = SlotGuard {
            status: self.ring.status(slot),
        };
        let verified = libc::TP_STATUS_CSUMNOTREADY | libc::TP_STATUS_CSUM_VALID;
        let is_verified = status & verified != 0;
        // A frame with the number of a VLAN belongs to another device. A tag without one (number 0)
        // has a priority only.
        let is_foreign =
            status & libc::TP_STATUS_VLAN_VALID != 0 && header.tp_vlan_tci & 0xfff != 0;
        let has_lost = status & libc::TP_STATUS_LOSING != 0;
        if status & libc::TP_STATUS_COPY != 0 {
            drop(guard);
            if let Some(bytes) = self.receive_long()
                && !is_foreign
            {
                read(ReceivedFrame { bytes, is_verified });
            }
        } else {
            let (start, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
            let is_whole = header.tp_snaplen == header.tp_len && start + len <= self.slot_len;
            if !is_whole {
                self.lost += 1;
            } else if !is_foreign {
                let first = self.ring.at::<u8>(slot + start);
                // SAFETY: the frame lies in the slot (checked above), and the kernel does not write
                // there until `guard` is dropped, after the last use of the slice.
                let bytes = unsafe { std::slice::from_raw_parts(first.as_ptr(), len) };
                read(ReceivedFrame { bytes, is_verified });
            }
            drop(guard);
        }
        if has_lost {
            self.count_lost();
        }
        true
    }

    /// Receives a frame that did not fit into its slot from the socket's queue.
    #[cold]
    fn receive_long(&mut self) -> Option<&[u8]> {
        self.long.resize(FRAME_MAX, 0);
        let mut received = recv(&self.fd, &mut self.long[..], RecvFlags::empty());
        if received.is_err_and(|error| error != Errno::AGAIN) {
            // The call has reported an error of the device, and the frame is still in the queue.
            // Left there, it would be taken for the next one.
            received = recv(&self.fd, &mut self.long[..], RecvFlags::empty());
        }
        match received {
            Ok((len, _)) => Some(&self.long[..len]),
            Err(_) => {
                self.lost += 1;
                None
            }
        }
    }

    /// Adds the frames that the kernel has discarded because no slot was free. It marks the next
    /// frame (`TP_STATUS_LOSING`).
    #[cold]
    fn count_lost(&mut self) {
        self.lost += u64::from(take_discarded(&self.fd).unwrap_or(0));
    }

    /// Returns the number of frames that were lost because the slots or the socket's queue were
    /// full. Those after the last frame that was received are not included.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Sends frames. Returns how many the device has taken, from the first on.
    ///
    /// # Errors
    /// The kernel reports an error, such as that the device was removed. That the device has no
    /// space, or is down, is not one.
    pub fn send<'f>(&self, mut frames: impl Iterator<Item = &'f [u8]>) -> io::Result<usize> {
        let mut sent = 0;
        loop {
            let mut slices: [libc::iovec; SEND_MAX] = [EMPTY_SLICE; SEND_MAX];
            let mut count = 0;
            for (slice, frame) in slices.iter_mut().zip(&mut frames) {
                slice.iov_base = frame.as_ptr().cast_mut().cast();
                slice.iov_len = frame.len();
                count += 1;
            }
            if count == 0 {
                return Ok(sent);
            }
            let taken = self.send_slices(&mut slices[..count])?;
            sent += taken;
            if taken < count {
                return Ok(sent);
            }
        }
    }

    /// Sends each slice as a frame, by one system call. Returns how many the device has taken.
    fn send_slices(&self, slices: &mut [libc::iovec]) -> io::Result<usize> {
        // SAFETY: all zeroes is a valid empty message.
        let empty: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let mut messages = [empty; SEND_MAX];
        for (message, slice) in messages.iter_mut().zip(slices.iter_mut()) {
            message.msg_hdr.msg_iov = slice;
            message.msg_hdr.msg_iovlen = 1;
        }
        let count = slices.len() as libc::c_uint;
        // SAFETY: the first `count` messages point to one slice each, of a frame that the caller
        // borrows for the call. The kernel reads the frames, and writes only to `messages`.
        let sent = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        match usize::try_from(sent) {
            Ok(sent) => Ok(sent),
            Err(_) => match Errno::from_io_error(&io::Error::last_os_error()) {
                Some(Errno::AGAIN | Errno::NOBUFS | Errno::NETDOWN | Errno::INTR) => Ok(0),
                // The first frame is longer than the device allows now: it is lost, as on a path
                // that is too narrow.
                Some(Errno::MSGSIZE) => Ok(1),
                _ => Err(io::Error::last_os_error()),
            },
        }
    }

    /// Clears the pending error of the socket, such as that the device is down. Otherwise every
    /// wait would report it.
    pub fn take_error(&self) {
        let _ = sockopt::socket_error(&self.fd);
    }

    /// Returns the status of the next slot.
    fn status(&self) -> &AtomicU32 {
        self.ring.status(self.next * self.slot_len)
    }
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const VERSION_2: libc::c_int = 1;
const EMPTY_SLICE: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// Gives a slot back to the kernel when it is dropped, also if the reader of the frame panics.
struct SlotGuard<'a> {
    status: &'a AtomicU32,
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        // Release: pairs with the kernel's read of the status before it writes the slot.
        self.status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// The memory of a ring.
#[derive(Debug)]
struct Mapping {
    address: NonNull<c_void>,
    len: usize,
    _of_one_process: OfOneProcess,
}

// SAFETY: the value owns its mapping, which is not bound to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(fd: &OwnedFd, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory in use.
        let address = unsafe { mmap(null, len, access, flags, fd, 0) }?;
        let address = NonNull::new(address).ok_or(io::ErrorKind::InvalidData)?;
        let mapping = Self {
            address,
            len,
            _of_one_process: OfOneProcess::new(),
        };
        // In a file opener, which is forked while rings exist, the mapping would keep the socket
        // open, and receiving.
        // SAFETY: the range is the mapping; this advice changes no contents.
        unsafe { madvise(mapping.address.as_ptr(), len, Advice::LinuxDontFork) }?;
        Ok(mapping)
    }

    /// Returns a pointer to a value in the mapping.
    fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(offset + size_of::<T>() <= self.len);
        // SAFETY: the result lies in the mapping (asserted above).
        unsafe { self.address.byte_add(offset) }.cast()
    }

    /// Returns the status of the slot that begins at `slot`, the first field of its header.
    fn status(&self, slot: usize) -> &AtomicU32 {
        let status = self.at::<AtomicU32>(slot);
        // SAFETY: slots are aligned to 2048 bytes, the mapping lives as long as the borrow of
        // `self`, and both the kernel and this process access the field atomically.
        unsafe { status.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned, and every reference to it borrows this value. The call
        // fails only for an invalid address.
        let _ = unsafe { munmap(self.address.as_ptr(), self.len) };
    }
}

fn allocate_ring(fd: &OwnedFd, blocks: usize, slots: usize, slot_len: usize) -> io::Result<()> {
    let request = libc::tpacket_req {
        tp_block_size: BLOCK_LEN as libc::c_uint,
        tp_block_nr: blocks as libc::c_uint,
        tp_frame_size: slot_len as libc::c_uint,
        tp_frame_nr: slots as libc::c_uint,
    };
    // SAFETY: the kernel reads `request`, which outlives the call, with its size.
    checked(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_RX_RING,
            (&raw const request).cast(),
            size_of_val(&request) as libc::socklen_t,
        )
    })
}

/// Makes the kernel discard frames other than ARP and IPv4 for `address`, before it copies them.
pub(crate) fn attach_filter(fd: &OwnedFd, address: Ipv4Addr) -> io::Result<()> {
    // Instructions of classic BPF (linux/filter.h, linux/bpf_common.h).
    const LOAD_HALF: u16 = 0x28;
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        // The protocol of the frame.
        step(LOAD_HALF, 12, 0, 0),
        step(JUMP_IF_EQUAL, libc::ETH_P_ARP as u32, 3, 0),
        step(JUMP_IF_EQUAL, libc::ETH_P_IP as u32, 0, 3),
        // The target of the packet.
        step(LOAD_WORD, 30, 0, 0),
        step(JUMP_IF_EQUAL, address.to_bits(), 0, 1),
        step(RETURN, u32::MAX, 0, 0),
        step(RETURN, 0, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program, which outlives the call, and verifies it.
    checked(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    })
}

/// Returns a request about the device with this name, without data.
pub(crate) fn request_for(device: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeroes is a valid request: an empty name, and no data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero and ends the name.
    let len_max = request.ifr_name.len() - 1;
    if device.is_empty() || device.len() > len_max {
        return Err(io::ErrorKind::NotFound.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Makes a request that writes to the request itself.
fn ioctl(fd: &OwnedFd, request: libc::c_ulong, about: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the callers' requests read the name, which ends in a zero byte, and write to the
    // union of `about`, which outlives the call.
    let returned = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, std::ptr::from_mut(about)) };
    checked(returned).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => io::ErrorKind::NotFound.into(),
        _ => error,
    })
}

#[cfg(test)]
#[path = "packet_ring/tests.rs"]
mod tests;
