//! Keeps the kernel's own network stack from packets that another owner of an address receives
//! through a packet socket.
//!
//! A packet socket gets a copy of a frame, and the kernel goes on with the original. For an address
//! that it does not have, it looks for a route and then discards the packet, or forwards it if it
//! is a router. A BPF program at the device (tcx; Linux 6.6 and later), which runs after packet
//! sockets have received the frame, discards it at once.

use std::io;
use std::mem::offset_of;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket_with};

use crate::socket::FLAGS;

/// A program at a device. Dropping it, and the end of the process, remove it.
#[derive(Debug)]
pub struct IngressFilter {
    /// The attachment holds the program.
    _link: OwnedFd,
}

impl IngressFilter {
    /// Discards the IPv4 packets for `address` that arrive at the device with the name `device`, in
    /// the network namespace of the calling thread, after packet sockets have received them. Frames
    /// with the tag of a VLAN are not touched.
    ///
    /// # Errors
    /// `PermissionDenied`: the process lacks `CAP_NET_ADMIN` or `CAP_BPF`, which root has.
    /// `NotFound`: there is no such device. Others: the kernel does not know such programs.
    pub fn attach(device: &str, address: Ipv4Addr) -> io::Result<Self> {
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, FLAGS, None)?;
        let index = name_to_index(&fd, device)?;
        let program = load(&program(address))?;
        let attributes = LinkAttributes {
            program: program.as_raw_fd().cast_unsigned(),
            device: index,
            kind: BPF_TCX_INGRESS,
            ..LinkAttributes::default()
        };
        // SAFETY: the command `BPF_LINK_CREATE` reads the structure, whose fields have the layout
        // of its part of `bpf_attr`.
        let link = unsafe { bpf(BPF_LINK_CREATE, &attributes) }?;
        Ok(Self { _link: link })
    }
}

// Commands, kinds and fields of linux/bpf.h.
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;

/// An instruction of eBPF (RFC 9669, 3.2).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Instruction {
    code: u8,
    /// The destination register, and the source register times 16.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

/// The fields of a packet's context that the program reads (`struct __sk_buff`).
const VLAN_PRESENT: i16 = 20;
const DATA: i16 = 76;
const DATA_END: i16 = 80;
/// Where a frame has the protocol and the target address, and the length of its headers.
const PROTOCOL: i16 = 12;
const TARGET: i16 = 30;
const HEADERS_LEN: i16 = 34;

/// The number of instructions of the program.
const PROGRAM_LEN: usize = 15;

/// Returns the program that discards the IPv4 packets for `address`.
fn program(address: Ipv4Addr) -> [Instruction; PROGRAM_LEN] {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_HALF: u8 = 0x69;
    const MOVE: u8 = 0xbf;
    const MOVE_IMMEDIATE: u8 = 0xb7;
    const ADD_IMMEDIATE: u8 = 0x07;
    const JUMP_IF_GREATER: u8 = 0x2d;
    const JUMP_IF_UNEQUAL_IMMEDIATE: u8 = 0x55;
    const JUMP32_IF_UNEQUAL_IMMEDIATE: u8 = 0x56;
    const EXIT: u8 = 0x95;
    /// What the program returns: the packet is discarded, or goes on to the next program.
    const TCX_DROP: i32 = 2;
    const TCX_NEXT: i32 = -1;
    let step = |code, target: u8, source: u8, offset, immediate| Instruction {
        code,
        registers: match cfg!(target_endian = "little") {
            true => target | source << 4,
            false => target << 4 | source,
        },
        offset,
        immediate,
    };
    // Fields of the frame are compared as they lie in memory.
    let ipv4 = i32::from((libc::ETH_P_IP as u16).to_be());
    let address = i32::from_ne_bytes(address.octets());
    [
        // Register 1 is the context. All jumps go to the last but one instruction.
        step(LOAD_WORD, 2, 1, VLAN_PRESENT, 0),
        step(JUMP_IF_UNEQUAL_IMMEDIATE, 2, 0, 11, 0),
        step(LOAD_WORD, 2, 1, DATA, 0),
        step(LOAD_WORD, 3, 1, DATA_END, 0),
        step(MOVE, 4, 2, 0, 0),
        step(ADD_IMMEDIATE, 4, 0, 0, i32::from(HEADERS_LEN)),
        step(JUMP_IF_GREATER, 4, 3, 6, 0),
        step(LOAD_HALF, 5, 2, PROTOCOL, 0),
        step(JUMP_IF_UNEQUAL_IMMEDIATE, 5, 0, 4, ipv4),
        step(LOAD_WORD, 5, 2, TARGET, 0),
        step(JUMP32_IF_UNEQUAL_IMMEDIATE, 5, 0, 2, address),
        step(MOVE_IMMEDIATE, 0, 0, 0, TCX_DROP),
        step(EXIT, 0, 0, 0, 0),
        step(MOVE_IMMEDIATE, 0, 0, 0, TCX_NEXT),
        step(EXIT, 0, 0, 0, 0),
    ]
}

/// Fields of `bpf_attr` for `BPF_PROG_LOAD`.
#[derive(Debug, Default)]
#[repr(C)]
struct ProgramAttributes {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    attach_kind: u32,
}

const _: () = assert!(offset_of!(ProgramAttributes, attach_kind) == 68);

/// Fields of `bpf_attr` for `BPF_LINK_CREATE`, without an order among several programs.
#[derive(Debug, Default)]
#[repr(C)]
struct LinkAttributes {
    program: u32,
    device: u32,
    kind: u32,
    flags: u32,
}

/// Loads a program for packets that arrive at a device.
fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    // The program calls no function of the kernel that needs a particular license.
    let license = c"Dual MIT/GPL";
    let attributes = ProgramAttributes {
        kind: BPF_PROG_TYPE_SCHED_CLS,
        instruction_count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        attach_kind: BPF_TCX_INGRESS,
        ..ProgramAttributes::default()
    };
    // SAFETY: the command `BPF_PROG_LOAD` reads the structure, whose fields have the layout of its
    // part of `bpf_attr`, and the instructions and the text to which they point, which outlive the
    // call. The kernel copies and verifies the program.
    unsafe { bpf(BPF_PROG_LOAD, &attributes) }
}

/// Makes a request that returns a descriptor, which is closed on exec.
///
/// # Safety
/// `attributes` has the layout of the part of `bpf_attr` that `command` reads, and what it points
/// to outlives the call.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let (from, len) = (std::ptr::from_ref(attributes), size_of::<T>());
    // SAFETY: the kernel reads `len` bytes at `from`, and takes the others of `bpf_attr` for 0. The
    // caller has promised the rest.
    let returned = unsafe { libc::syscall(libc::SYS_bpf, command, from, len) };
    match libc::c_int::try_from(returned) {
        // SAFETY: the call has returned a new descriptor, which has no other owner.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::device_pair::{device_pair, ip};
    use crate::namespace::NetworkNamespace;
    use crate::packet_ring::{Device, PacketRing};
    use crate::poll::{Interest, is_ready_within};

    /// The number of packets that the kernel's stack has received in this namespace.
    fn received() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let mut lines = text.lines().filter(|it| it.starts_with("Ip:"));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let at = names.split(' ').position(|it| it == "InReceives").unwrap();
        values.split(' ').nth(at).unwrap().parse().unwrap()
    }

    /// A frame that a packet socket has received, and that the kernel's stack has not. Without the
    /// filter the kernel's stack has it too, so that the counter could show it.
    #[test]
    fn the_kernel_discards_what_a_packet_socket_has_received() {
        let Some(namespace) = device_pair() else {
            return;
        };
        let peer = NetworkNamespace::new().unwrap();
        let path = peer.path();
        let address = Ipv4Addr::new(192, 0, 2, 2);
        let own = Ipv4Addr::new(192, 0, 2, 7);
        let open = || {
            assert!(ip(&format!("link set one netns {}", path.display())));
            assert!(ip("address add 192.0.2.7/24 dev two"));
            let ring = PacketRing::open(&Device::find("two").unwrap(), address, 64).unwrap();
            let socket = UdpSocket::bind((own, 7)).unwrap();
            (ring, socket)
        };
        let (mut ring, socket) = namespace.run(open).unwrap();
        let set_up = || {
            assert!(ip("link set one up"));
            assert!(ip("address add 192.0.2.1/24 dev one"));
        };
        peer.run(set_up).unwrap();
        let hardware = namespace
            .run(|| Device::find("two").unwrap().hardware_address)
            .unwrap();
        let hardware = hardware.map(|byte| format!("{byte:02x}")).join(":");
        let add = || {
            ip(&format!(
                "neighbour add 192.0.2.2 lladdr {hardware} dev one nud permanent"
            ))
        };
        assert!(peer.run(add).unwrap());
        // Both packets are handled in order on the processor that sends them.
        let cpu = crate::thread::allowed_cpus().unwrap()[0];
        let send = |to: Ipv4Addr| {
            crate::thread::pin(&[cpu]).unwrap();
            let sender = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            assert_eq!(sender.send_to(b"frame", (to, 7)).unwrap(), 5);
        };
        // A packet for the kernel's own address is behind the first, so the first has been handled.
        let mut receive_both = || {
            peer.run(|| send(address)).unwrap();
            peer.run(|| send(own)).unwrap();
            socket.recv(&mut [0; 8]).unwrap();
            assert!(is_ready_within(&ring, Interest::Read, 5_000_000_000).unwrap());
            let mut frames = 0;
            while ring.receive(|frame| frames += u32::from(frame.bytes[30..34] == address.octets()))
            {
            }
            assert_eq!(frames, 1);
            namespace.run(received).unwrap()
        };
        let before = receive_both();
        assert_eq!(receive_both(), before + 2);
        let filter = match namespace
            .run(|| IngressFilter::attach("two", address))
            .unwrap()
        {
            Ok(filter) => filter,
            Err(error) if error.raw_os_error() == Some(libc::EPERM) || is_before_6_6() => {
                return eprintln!("skipped: BPF programs at devices: {error}");
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(receive_both(), before + 3);
        drop(filter);
        // The program goes with the last descriptor; a process that another test starts meanwhile
        // has a copy until it executes its program.
        let deadline = Instant::now() + Duration::from_secs(5);
        while receive_both() + 2 != receive_both() {
            assert!(Instant::now() < deadline, "the program is still there");
        }
    }

    /// Whether the kernel cannot attach such a program.
    fn is_before_6_6() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release
            .split(['.', '-'])
            .map(|it| it.parse::<u32>().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap()) < (6, 6)
    }

    #[test]
    fn an_unknown_device_is_an_error() {
        let Some(namespace) = device_pair() else {
            return;
        };
        let attached = namespace.run(|| IngressFilter::attach("three", Ipv4Addr::LOCALHOST));
        let error = attached.unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
