//! For fuzzing: sequences of frames, made from bytes, to a stack with an owner that uses every
//! function.

use crate::limits::{CLOSING_MAX, HALF_OPEN_MAX, KEEPALIVE_NS};
use crate::{Checksums, Config, ConnectionId, Counts, Event, Interest, Stack};

/// The hardware address of the stack under test.
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Its IPv4 address.
const ADDRESS: [u8; 4] = [10, 0, 0, 1];
const PORT: u16 = 11211;
/// Maximum number of connections that the owner keeps.
const OPEN_MAX: usize = 8;

/// Reads steps from `input` and takes them: frames as they are, segments with right headers, and
/// time that passes. Returns what the stack has counted.
///
/// # Panics
/// The stack panics, or its bounds do not hold.
pub fn check_sequence(input: &[u8]) -> Counts {
    let mut config = Config::new(OWN, ADDRESS.into(), vec![PORT]);
    config.receive_buffer = 2048;
    config.send_buffer = 2048;
    let mut owner = Owner {
        stack: Stack::new(config, 0),
        open: Vec::new(),
        now_ns: 0,
        acknowledged: [0; 4],
    };
    let mut rest = input;
    while let [kind, len, tail @ ..] = rest {
        let (bytes, tail) = tail.split_at(tail.len().min(usize::from(*len)));
        rest = tail;
        owner.step(*kind, bytes);
    }
    owner.stack.counts()
}

/// The owner of the stack, which echoes what it receives.
struct Owner {
    stack: Stack,
    open: Vec<ConnectionId>,
    now_ns: u64,
    /// The number that acknowledges the last segment of the stack to each port.
    acknowledged: [u32; 4],
}

impl Owner {
    fn step(&mut self, kind: u8, bytes: &[u8]) {
        let (now_ns, verified) = (self.now_ns, Checksums::Verified);
        match kind % 4 {
            0 => self.stack.receive(bytes, Checksums::Unverified, now_ns),
            1 => self.now_ns += 1_000_000 << (bytes.len() % 18),
            2 => self.stack.receive(&segment(bytes, None), verified, now_ns),
            _ => {
                // A segment that acknowledges what the stack has sent to its port.
                let port = bytes.first().map_or(0, |byte| usize::from(byte % 4));
                let acknowledged = Some(self.acknowledged[port]);
                let frame = segment(bytes, acknowledged);
                self.stack.receive(&frame, verified, now_ns);
            }
        }
        self.serve(kind);
    }

    fn serve(&mut self, kind: u8) {
        self.stack.advance(self.now_ns);
        while let Some(id) = self.stack.accept() {
            let interest = Interest {
                readable: kind & 0x80 == 0,
                writable: kind & 0x40 == 0,
            };
            self.stack.watch(id, u64::from(id.slot), interest);
            self.open.push(id);
            if self.open.len() > OPEN_MAX {
                let oldest = self.open.remove(0);
                self.stack.close(oldest);
            }
        }
        let mut events: Vec<Event> = Vec::new();
        self.stack.events(&mut events);
        for event in events {
            let found = self
                .open
                .iter()
                .position(|id| u64::from(id.slot) == event.token);
            let Some(at) = found else { continue };
            let id = self.open[at];
            let mut buffer = [0; 64];
            match self.stack.recv(id, &mut buffer) {
                Ok(len @ 1..) => drop(self.stack.send(id, &buffer[..len])),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                _ => {
                    self.open.remove(at);
                    self.stack.close(id);
                }
            }
        }
        self.stack.flush(self.now_ns);
        let frames = self.stack.frames();
        for frame in frames.iter() {
            assert!(frame.len() >= 14 && frame.len() <= 1514);
            if frame.len() >= 54 && frame[12..14] == [8, 0] && frame[23] == 6 {
                let port = usize::from(frame[37] % 4);
                let word = |at: usize| {
                    u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]])
                };
                let header = usize::from(frame[46] >> 4) * 4;
                let payload = (frame.len() - 34).saturating_sub(header) as u32;
                // SYN and FIN count as a byte each.
                let flags = u32::from(frame[47] & 1) + u32::from((frame[47] >> 1) & 1);
                self.acknowledged[port] = word(38).wrapping_add(payload + flags);
            }
        }
        frames.clear();
        assert!(self.stack.len() <= HALF_OPEN_MAX + CLOSING_MAX + OPEN_MAX);
        if let Some(deadline_ns) = self.stack.next_deadline_ns() {
            assert!(deadline_ns <= self.now_ns + KEEPALIVE_NS);
        }
    }
}

/// Returns a frame with right Ethernet and IPv4 headers, whose TCP segment is made from `bytes`:
/// port, flags, sequence number (16 bits), window, options and payload.
fn segment(bytes: &[u8], acknowledged: Option<u32>) -> Vec<u8> {
    let mut fields = [0; 6];
    let len = bytes.len().min(fields.len());
    fields[..len].copy_from_slice(&bytes[..len]);
    let rest = &bytes[len..];
    let [port, flags, high, low, window, options] = fields;
    let words = usize::from(options % 11).min(rest.len() / 4);
    let mut tcp = vec![0x9c, 0x40 | (port % 4)];
    tcp.extend(PORT.to_be_bytes());
    tcp.extend(
        1_000_u32
            .wrapping_add(u32::from_be_bytes([0, 0, high, low]))
            .to_be_bytes(),
    );
    tcp.extend(acknowledged.unwrap_or(0).to_be_bytes());
    tcp.extend([((5 + words) as u8) << 4, flags, window, options, 0, 0, 0, 0]);
    tcp.extend(rest);
    let total = (20 + tcp.len()) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2]);
    ip.extend(ADDRESS);
    let sum = ip
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = sum.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = OWN.to_vec();
    frame.extend([2, 0, 0, 0, 0, 2, 8, 0]);
    frame.extend(ip);
    frame.extend(tcp);
    frame
}
