//! Generic netlink, as much of it as two families need: `ethtool` (interrupt coalescing of a
//! device) and `netdev` (settings of a NAPI instance). One request, one answer or one dump at a
//! time.
//!
//! Layouts: `linux/netlink.h`, `linux/genetlink.h`, `linux/ethtool_netlink.h`, `linux/netdev.h`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::sockopt::set_socket_timeout;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use crate::limits;

const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;

const ERROR: u16 = 2;
const DONE: u16 = 3;
const CONTROL_FAMILY: u16 = 0x10;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const DUMP: u16 = 0x300;
const NESTED: u16 = 1 << 15;
const TYPE: u16 = 0x3fff;

/// The version of each of the families.
const VERSION: u8 = 1;

const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const COALESCE_GET: u8 = 19;
const COALESCE_SET: u8 = 20;
const COALESCE_HEADER: u16 = 1;
const COALESCE_RX_USECS: u16 = 2;
const COALESCE_ADAPTIVE_RX: u16 = 11;
const HEADER_DEVICE_NAME: u16 = 2;

const NAPI_GET: u8 = 11;
const NAPI_SET: u8 = 14;
const NAPI_DEVICE: u16 = 1;
const NAPI_ID: u16 = 2;
const NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;

/// The coalescing of received packets' interrupts. None: the driver does not have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Microseconds from a packet to its interrupt, or between interrupts: as the driver has it.
    pub rx_usecs: Option<u32>,
    /// The driver chooses `rx_usecs` itself.
    pub is_adaptive_rx: Option<bool>,
}

/// A NAPI instance of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Napi {
    /// Its number; changes when the device is closed.
    pub id: u32,
    /// How long interrupts stay off while the application polls (Linux 6.13). None: this kernel
    /// does not have it.
    pub irq_suspend_timeout_ns: Option<u64>,
}

/// The coalescing of a device, in the network namespace of the calling thread.
///
/// # Errors
/// There is no such device, or its driver has no coalescing (`Unsupported`).
pub fn coalescing(device: &str) -> io::Result<Coalescing> {
    let answers = Request::coalescing(COALESCE_GET, device)?.send()?;
    let mut found = Coalescing::default();
    for (kind, value) in answers.iter().flat_map(|it| attributes(it)) {
        match kind {
            COALESCE_RX_USECS => found.rx_usecs = number(value).map(|it| it as u32),
            COALESCE_ADAPTIVE_RX => found.is_adaptive_rx = number(value).map(|it| it != 0),
            _ => {}
        }
    }
    Ok(found)
}

/// Changes the coalescing of a device; what is `None` stays.
///
/// # Errors
/// The driver or a lack of `CAP_NET_ADMIN` does not permit it.
pub fn set_coalescing(device: &str, wanted: Coalescing) -> io::Result<()> {
    let mut request = Request::coalescing(COALESCE_SET, device)?;
    if let Some(is_adaptive) = wanted.is_adaptive_rx {
        request = request.with(COALESCE_ADAPTIVE_RX, &[u8::from(is_adaptive)]);
    }
    if let Some(usecs) = wanted.rx_usecs {
        request = request.with(COALESCE_RX_USECS, &usecs.to_ne_bytes());
    }
    request.send().map(drop)
}

/// The NAPI instances of the device with the number `index`.
///
/// # Errors
/// The kernel has no family `netdev` (before 6.8: NotFound).
pub fn napis(index: u32) -> io::Result<Vec<Napi>> {
    let answers = Request::new("netdev", NAPI_GET)?
        .with(NAPI_DEVICE, &index.to_ne_bytes())
        .dump()?;
    let napi = |answer: &Vec<u8>| {
        let find = |wanted| {
            attributes(answer)
                .find(|it| it.0 == wanted)
                .and_then(|it| number(it.1))
        };
        Some(Napi {
            id: find(NAPI_ID)? as u32,
            irq_suspend_timeout_ns: find(NAPI_IRQ_SUSPEND_TIMEOUT),
        })
    };
    Ok(answers.iter().filter_map(napi).collect())
}

/// Sets how long interrupts of a NAPI instance stay off while the application polls.
///
/// # Errors
/// The kernel is older than 6.13, there is no such instance, or `CAP_NET_ADMIN` is missing.
pub fn set_irq_suspend_timeout(napi: u32, timeout_ns: u64) -> io::Result<()> {
    let request = Request::new("netdev", NAPI_SET)?
        .with(NAPI_ID, &napi.to_ne_bytes())
        .with(NAPI_IRQ_SUSPEND_TIMEOUT, &timeout_ns.to_ne_bytes());
    request.send().map(drop)
}

/// The number of a device, in the network namespace of the calling thread.
///
/// # Errors
/// There is no such device.
pub fn device_index(device: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(device).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `name` ends in a zero byte and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// A request to a family, being composed.
struct Request {
    socket: OwnedFd,
    family: u16,
    command: u8,
    attributes: Vec<u8>,
}

impl Request {
    fn new(family: &str, command: u8) -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::GENERIC),
        )?;
        let timeout = Some(limits::NETLINK_TIMEOUT);
        set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, timeout)?;
        let lookup = Self {
            socket,
            family: CONTROL_FAMILY,
            command: GET_FAMILY,
            attributes: attribute(FAMILY_NAME, &zero_ended(family)?),
        };
        let answers = lookup.exchange(REQUEST | ACKNOWLEDGE)?;
        let id = answers
            .iter()
            .flat_map(|it| attributes(it))
            .find(|it| it.0 == FAMILY_ID);
        let id = id
            .and_then(|it| number(it.1))
            .ok_or(io::ErrorKind::NotFound)?;
        Ok(Self {
            family: id as u16,
            command,
            attributes: Vec::new(),
            ..lookup
        })
    }

    fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.attributes.extend(attribute(kind, value));
        self
    }

    /// A request for the coalescing of a device.
    fn coalescing(command: u8, device: &str) -> io::Result<Self> {
        let header = attribute(HEADER_DEVICE_NAME, &zero_ended(device)?);
        Ok(Self::new("ethtool", command)?.with(COALESCE_HEADER | NESTED, &header))
    }

    fn send(&self) -> io::Result<Vec<Vec<u8>>> {
        self.exchange(REQUEST | ACKNOWLEDGE)
    }

    fn dump(&self) -> io::Result<Vec<Vec<u8>>> {
        self.exchange(REQUEST | DUMP)
    }

    /// Sends the request, and returns the attributes of each message that answers it.
    fn exchange(&self, flags: u16) -> io::Result<Vec<Vec<u8>>> {
        send(&self.socket, &self.message(flags), SendFlags::empty())?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; limits::NETLINK_BUFFER];
        for _ in 0..limits::NETLINK_ANSWERS {
            let (len, _) = recv(&self.socket, buffer.as_mut_slice(), RecvFlags::empty())?;
            if take(&buffer[..len], &mut answers)? {
                return Ok(answers);
            }
        }
        Err(io::Error::other("netlink answers without end"))
    }

    fn message(&self, flags: u16) -> Vec<u8> {
        let len = HEADER + GENERIC_HEADER + self.attributes.len();
        let mut message = Vec::with_capacity(len);
        message.extend((len as u32).to_ne_bytes());
        message.extend(self.family.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        // Sequence and port: one request at a time, and the kernel knows the port.
        message.extend([0; 8]);
        message.extend([self.command, VERSION, 0, 0]);
        message.extend(&self.attributes);
        message
    }
}

/// Takes the messages of one datagram. Returns whether the answer is complete.
fn take(mut datagram: &[u8], answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let Some(header) = datagram.first_chunk::<HEADER>() {
        let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(message) = datagram.get(HEADER..len) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match u16::from_ne_bytes([header[4], header[5]]) {
            DONE => return Ok(true),
            ERROR => {
                let code = message
                    .first_chunk()
                    .map_or(-libc::EPROTO, |it| i32::from_ne_bytes(*it));
                return match code {
                    0 => Ok(true),
                    _ => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
                };
            }
            _ => answers.push(message.get(GENERIC_HEADER..).unwrap_or_default().to_vec()),
        }
        datagram = datagram.get(aligned(len)..).unwrap_or_default();
    }
    Ok(false)
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = ATTRIBUTE_HEADER + value.len();
    let mut bytes = Vec::with_capacity(aligned(len));
    bytes.extend((len as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(aligned(len), 0);
    bytes
}

/// Kind and value of each attribute; ends at the first that is cut off.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header = bytes.first_chunk::<ATTRIBUTE_HEADER>()?;
        let len = u16::from_ne_bytes([header[0], header[1]]) as usize;
        let value = bytes.get(ATTRIBUTE_HEADER..len)?;
        bytes = bytes.get(aligned(len)..).unwrap_or_default();
        Some((u16::from_ne_bytes([header[2], header[3]]) & TYPE, value))
    })
}

/// A number of one to eight bytes. The kernel pads none of them.
fn number(value: &[u8]) -> Option<u64> {
    Some(match *value {
        [byte] => u64::from(byte),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    })
}

fn zero_ended(text: &str) -> io::Result<Vec<u8>> {
    if text.is_empty() || text.len() >= libc::IFNAMSIZ || text.contains('\0') {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok([text.as_bytes(), b"\0"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_coalescing_says_so_and_none_is_not_found() {
        let error = coalescing("lo").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}");
        let error = coalescing("no-such-0").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{error}");
        assert_eq!(coalescing("").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_family_that_is_not_there_is_not_found() {
        let error = Request::new("no-such", 1).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    }

    #[test]
    fn loopback_has_no_napi_instance() {
        match napis(device_index("lo").unwrap()) {
            Ok(found) => assert_eq!(found, []),
            Err(error) => println!("skipped: this kernel has no family netdev: {error}"),
        }
    }

    #[test]
    fn attributes_are_read_as_they_were_written_and_a_cut_one_ends_them() {
        let mut bytes = attribute(7, &9_u64.to_ne_bytes());
        bytes.extend(attribute(5 | NESTED, b"abc"));
        let read: Vec<(u16, &[u8])> = attributes(&bytes).collect();
        assert_eq!(read, [(7, &9_u64.to_ne_bytes()[..]), (5, &b"abc"[..])]);
        assert_eq!(number(read[0].1), Some(9));
        assert_eq!(attributes(&bytes[..bytes.len() - 5]).count(), 1);
        // A length of nothing would repeat for ever.
        assert_eq!(attributes(&[0; 16]).count(), 0);
    }

    #[test]
    fn datagrams_of_any_bytes_end() {
        for len in 0..40 {
            for byte in [0, 1, 2, 16, 255] {
                let _ = take(&vec![byte; len], &mut Vec::new());
            }
        }
    }
}
