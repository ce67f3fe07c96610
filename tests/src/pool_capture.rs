//! Captures of the packets of a memory pool, and what is checked of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, bail, ensure};
use roce::connect::Message;
use roce::pcap::{Resolution, Writer};
use roce::wire::{Addresses, Datagram, Ip, Opcode, Packet, Psn};
use sys::packet::{FRAME_MAX, PacketSocket};
use sys::poll::{Events, Interest, Poll, Waker};

/// The opcode of unreliable datagrams.
const DATAGRAM: u8 = 0x64;

/// Frames that arrived at a socket, oldest first.
pub type Frames = Vec<Vec<u8>>;

/// Sockets that a thread receives from.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<Waker>,
    thread: JoinHandle<Result<Vec<Frames>>>,
}

impl Capture {
    /// Begins to receive.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn start(sockets: Vec<PacketSocket>) -> Result<Self> {
        let stop = Arc::new(Waker::new()?);
        let waker = stop.clone();
        let thread = thread::spawn(move || receive(&sockets, &waker));
        Ok(Self { stop, thread })
    }

    /// Receives what has arrived until now, and ends. Returns the frames of each socket.
    ///
    /// # Errors
    /// The capture is not complete: the kernel has discarded frames.
    pub fn finish(self) -> Result<Vec<Frames>> {
        self.stop.wake();
        let joined = self.thread.join();
        joined.map_err(|_| anyhow!("the capturing thread has panicked"))?
    }
}

fn receive(sockets: &[PacketSocket], stop: &Waker) -> Result<Vec<Frames>> {
    let poll = Poll::new()?;
    for (number, socket) in sockets.iter().enumerate() {
        poll.add(socket, number as u64, Interest::Read)?;
    }
    poll.add(stop, u64::MAX, Interest::Read)?;
    let mut events = Events::with_capacity(sockets.len() + 1);
    let mut frames = vec![Vec::new(); sockets.len()];
    let mut buffer = vec![0; FRAME_MAX];
    loop {
        poll.wait(&mut events, None)?;
        let is_stopped = events.iter().any(|ready| ready.token == u64::MAX);
        for (socket, frames) in sockets.iter().zip(&mut frames) {
            loop {
                match socket.recv_stamped(&mut buffer) {
                    Ok((len, _)) => frames.push(buffer[..len].to_vec()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if is_stopped {
            break;
        }
    }
    for (number, socket) in sockets.iter().enumerate() {
        let discarded = socket.take_discarded()?;
        ensure!(discarded == 0, "capture {number} lacks {discarded} frames");
    }
    Ok(frames)
}

/// Writes frames to a file that other tools read.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, frames: &Frames) -> Result<()> {
    let mut writer = Writer::new(Resolution::Microseconds);
    for (number, frame) in frames.iter().enumerate() {
        writer.push(1_700_000_000_000_000_000 + number as u64 * 1000, frame);
    }
    std::fs::write(path, &writer.bytes).with_context(|| format!("write {}", path.display()))
}

/// What the fields of a frame are for tshark: opcode, length of the IP packet, and that of the
/// message in a RETH.
///
/// # Errors
/// The frame is no intact packet of the pool.
fn line(frame: &[u8]) -> Result<String> {
    let (opcode, message_len) = match Packet::new_checked(frame) {
        Ok(packet) => {
            packet.verify()?;
            let len = packet.reth().map(|reth| reth.len.to_string());
            (packet.opcode().code(), len.unwrap_or_default())
        }
        Err(_) => {
            Datagram::parse(frame)?;
            (DATAGRAM, String::new())
        }
    };
    // Ethernet may pad short frames; these are longer.
    let ip_len = frame.len() - 14;
    Ok(format!("{opcode}\t{ip_len}\t{message_len}\t"))
}

/// Compares opcodes and lengths of all frames in a file with what tshark reads there.
///
/// # Errors
/// They differ, a frame is damaged, or tshark finds one malformed.
pub fn compare_with_tshark(path: &Path, frames: &Frames) -> Result<()> {
    let mut tshark = Command::new("tshark");
    tshark.args(["--disable-protocol", "rpcordma"]);
    tshark
        .arg("-r")
        .arg(path)
        .args(["-T", "fields", "-E", "separator=/t"]);
    for field in [
        "infiniband.bth.opcode",
        "ip.len",
        "infiniband.reth.dmalen",
        "_ws.malformed",
    ] {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().context("start tshark")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    ensure!(
        lines.len() == frames.len(),
        "{} frames, but tshark has {}: {}",
        frames.len(),
        lines.len(),
        String::from_utf8_lossy(&output.stderr)
    );
    for (number, (frame, printed)) in frames.iter().zip(lines).enumerate() {
        let expected = line(frame).with_context(|| format!("parse frame {number}"))?;
        ensure!(
            printed == expected,
            "frame {number}: {printed:?} is not {expected:?}"
        );
    }
    Ok(())
}

/// What is known of the sequence numbers of the packets to a queue pair.
#[derive(Debug, Default, Clone, Copy)]
pub struct Sequence {
    /// Packets.
    pub packets: u64,
    /// Those whose number was sent before.
    pub repeated: u64,
    /// The highest number.
    pub last: Option<Psn>,
}

/// Sender, receiver, and queue pair of the receiver.
pub type Direction = ([u8; 4], [u8; 4], u32);

/// Checks that the requests to each queue pair have consecutive sequence numbers; a number that was
/// sent before is a repetition. Returns what each queue pair has.
///
/// # Errors
/// A number is missing.
pub fn check_requests(frames: &Frames) -> Result<BTreeMap<Direction, Sequence>> {
    let mut sequences: BTreeMap<Direction, Sequence> = BTreeMap::new();
    for (number, frame) in frames.iter().enumerate() {
        let Ok(packet) = Packet::new_checked(frame.as_slice()) else {
            continue;
        };
        ensure!(
            !packet.opcode().is_response(),
            "frame {number} is a response"
        );
        ensure!(
            packet.opcode() != Opcode::WriteFirst,
            "frame {number} begins a message of several packets"
        );
        let (source, target) = ips(&packet.addresses())?;
        let sequence = sequences.entry((source, target, packet.qpn())).or_default();
        sequence.packets += 1;
        let psn = packet.psn();
        match sequence.last.map(|last| psn.distance_from(last)) {
            None | Some(1) => sequence.last = Some(psn),
            Some(..=0) => sequence.repeated += 1,
            Some(gap) => bail!(
                "frame {number}: {} packets are missing before {psn} of queue pair {:#x}",
                gap - 1,
                packet.qpn()
            ),
        }
    }
    Ok(sequences)
}

/// Checks that the responses to each queue pair have numbers that do not decrease. To those of
/// `repeated`, requests were sent again, so responses may be too. Returns the last number of each.
///
/// # Errors
/// A number decreases though nothing was repeated.
pub fn check_responses(
    frames: &Frames,
    repeated: &BTreeSet<Direction>,
) -> Result<BTreeMap<Direction, Sequence>> {
    let mut sequences: BTreeMap<Direction, Sequence> = BTreeMap::new();
    for (number, frame) in frames.iter().enumerate() {
        let Ok(packet) = Packet::new_checked(frame.as_slice()) else {
            continue;
        };
        ensure!(packet.opcode().is_response(), "frame {number} is a request");
        let (source, target) = ips(&packet.addresses())?;
        let direction = (source, target, packet.qpn());
        let sequence = sequences.entry(direction).or_default();
        sequence.packets += 1;
        let psn = packet.psn();
        match sequence.last.map(|last| psn.distance_from(last)) {
            Some(..0) if repeated.contains(&direction) => sequence.repeated += 1,
            Some(..0) => bail!(
                "frame {number}: {psn} to queue pair {:#x} is late",
                packet.qpn()
            ),
            _ => sequence.last = Some(psn),
        }
    }
    Ok(sequences)
}

/// The connections that were accepted: to the memory node, and back.
///
/// # Errors
/// A frame is not of IPv4.
pub fn connections(requests: &Frames, responses: &Frames) -> Result<Vec<(Direction, Direction)>> {
    let requests = messages(requests)?;
    let mut connections = Vec::new();
    for (node, client, message) in messages(responses)? {
        let Message::Accept(accepted, server) = message else {
            continue;
        };
        let local = requests
            .iter()
            .find_map(|(source, _, message)| match message {
                Message::Connect(attempt, local) if *attempt == accepted && *source == client => {
                    Some(local.qpn)
                }
                _ => None,
            });
        if let Some(local) = local {
            connections.push(((client, node, server.qpn), (node, client, local)));
        }
    }
    connections.sort_unstable();
    connections.dedup();
    Ok(connections)
}

/// Messages about connections, with sender and receiver.
type Messages = Vec<([u8; 4], [u8; 4], Message)>;

fn messages(frames: &Frames) -> Result<Messages> {
    let mut messages = Messages::new();
    for frame in frames {
        let Ok(datagram) = Datagram::parse(frame) else {
            continue;
        };
        if let Some(message) = Message::parse(datagram.payload) {
            let (source, target) = ips(&datagram.addresses)?;
            messages.push((source, target, message));
        }
    }
    Ok(messages)
}

fn ips(addresses: &Addresses) -> Result<([u8; 4], [u8; 4])> {
    match addresses.ip {
        Ip::V4(ip) => Ok((ip.source, ip.target)),
        Ip::V6(_) => bail!("a packet of IPv6"),
    }
}
