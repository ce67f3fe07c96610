//! The host whose memory the pool is. It serves reliable connections, and knows nothing of chains.

use std::collections::{HashMap, VecDeque};

use roce::connect::{self, Attempt, Message, QueuePair, Reason};
use roce::endpoint::{Connection, Memory, Responder};
use roce::wire::{Datagram, Transport};

use crate::channel::mixed;
use crate::layout::regions;
use crate::limits::{DISCONNECTED_MAX, QUEUE_PAIRS_MAX};
use crate::station::{Frame, Station};

/// The first number of a queue pair. Lower ones have a meaning of their own.
const FIRST_QPN: u32 = 16;

/// A memory node: frames in, frames out. The memory is an argument.
#[derive(Debug)]
pub struct MemoryNode {
    me: Station,
    memory_len: u64,
    pairs: HashMap<u32, Pair>,
    by_connection: HashMap<(u64, u16), u32>,
    /// Clients whose connections are refused, oldest first.
    disconnected: VecDeque<u64>,
    next_qpn: u32,
    /// Queue pairs that may have to acknowledge something.
    touched: Vec<u32>,
    counters: MemoryNodeCounters,
}

#[derive(Debug)]
struct Pair {
    attempt: Attempt,
    /// The host at the other end. Packets of others are not of this connection.
    peer_ip: [u8; 4],
    accepted: QueuePair,
    responder: Responder,
    is_touched: bool,
}

/// Counts of frames and of changes, each modulo 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryNodeCounters {
    /// Frames that are no packets, damaged, or for another host.
    pub refused: u64,
    /// Packets for queue pairs that do not exist, or of hosts that are not their peers.
    pub unknown: u64,
    /// Packets of reliable connections that were handled.
    pub packets: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that ended: replaced, or by `Disconnect`.
    pub ended: u64,
}

impl MemoryNode {
    /// A node with `memory_len` bytes from [`crate::layout::START`] on. Numbers of its queue pairs
    /// begin at a place that `seed` decides, so that packets of an earlier start find none.
    pub fn new(me: Station, memory_len: u64, seed: u64) -> Self {
        Self {
            me,
            memory_len,
            pairs: HashMap::new(),
            by_connection: HashMap::new(),
            disconnected: VecDeque::new(),
            next_qpn: (mixed(seed) as u32) & 0xff_ffff,
            touched: Vec::new(),
            counters: MemoryNodeCounters::default(),
        }
    }

    /// The counts so far.
    pub fn counters(&self) -> MemoryNodeCounters {
        self.counters
    }

    /// Number of queue pairs.
    pub fn queue_pairs(&self) -> usize {
        self.pairs.len()
    }

    /// Takes a frame. WRITEs are acknowledged by [`MemoryNode::acknowledge`].
    pub fn handle(
        &mut self,
        _now_ns: u64,
        frame: &[u8],
        memory: &mut impl Memory,
        send: &mut impl FnMut(&[u8]),
    ) {
        match self.me.parse(frame) {
            Some(Frame::Packet(sender, packet)) => {
                self.handle_packet(&sender, &packet, memory, send);
            }
            Some(Frame::Datagram(datagram)) => self.handle_datagram(&datagram, send),
            None => self.counters.refused += 1,
        }
    }

    fn handle_packet(
        &mut self,
        sender: &Station,
        packet: &Transport,
        memory: &mut impl Memory,
        send: &mut impl FnMut(&[u8]),
    ) {
        let qpn = packet.bth.qpn;
        let pair = self.pairs.get_mut(&qpn);
        let Some(pair) = pair.filter(|pair| pair.peer_ip == sender.ip) else {
            self.counters.unknown += 1;
            return;
        };
        self.counters.packets += 1;
        pair.responder.handle(packet, memory, send);
        if !std::mem::replace(&mut pair.is_touched, true) {
            self.touched.push(qpn);
        }
    }

    /// Acknowledges what needs it. To be called when there are no more frames for now.
    pub fn acknowledge(&mut self, send: &mut impl FnMut(&[u8])) {
        for qpn in self.touched.drain(..) {
            if let Some(pair) = self.pairs.get_mut(&qpn) {
                pair.is_touched = false;
                pair.responder.acknowledge(send);
            }
        }
    }

    fn handle_datagram(&mut self, datagram: &Datagram, send: &mut impl FnMut(&[u8])) {
        let is_management =
            datagram.qpn == connect::QPN && datagram.queue_key == connect::QUEUE_KEY;
        let sender = Station::sender(&datagram.addresses);
        let message = Message::parse(datagram.payload);
        let (true, Some(sender), Some(message)) = (is_management, sender, message) else {
            self.counters.refused += 1;
            return;
        };
        let answer = match message {
            Message::Connect(attempt, pair) => self.connect(&sender, attempt, pair),
            Message::Disconnect { client } => {
                self.disconnect(client);
                Message::Disconnected { client }
            }
            _ => return,
        };
        let bytes = answer.emit();
        let key = connect::QUEUE_KEY;
        self.me.send(&sender, connect::QPN, key, &bytes, send);
    }

    /// Creates a queue pair, unless this attempt or a later one has one.
    fn connect(&mut self, peer: &Station, attempt: Attempt, pair: QueuePair) -> Message {
        if self.disconnected.contains(&attempt.client) {
            return Message::Refuse(attempt, Reason::Disconnected);
        }
        let connection = (attempt.client, attempt.index);
        if let Some(&qpn) = self.by_connection.get(&connection) {
            if let Some(known) = self.pairs.get(&qpn)
                && known.attempt.attempt >= attempt.attempt
            {
                return Message::Accept(known.attempt, known.accepted);
            }
            self.remove(qpn);
        }
        if self.pairs.len() >= QUEUE_PAIRS_MAX {
            return Message::Refuse(attempt, Reason::Full);
        }
        let qpn = self.free_qpn();
        let mut responder = Responder::new(
            &Connection {
                addresses: self.me.to(peer),
                local_qpn: qpn,
                peer_qpn: pair.qpn,
                mtu: pair.mtu,
                first_psn: pair.first_psn,
            },
            0,
        );
        for region in regions(self.memory_len) {
            // Two regions with two keys.
            let _ = responder.regions.add(region);
        }
        let accepted = QueuePair { qpn, ..pair };
        self.counters.accepted += 1;
        self.by_connection.insert(connection, qpn);
        self.pairs.insert(
            qpn,
            Pair {
                attempt,
                peer_ip: peer.ip,
                accepted,
                responder,
                is_touched: false,
            },
        );
        Message::Accept(attempt, accepted)
    }

    fn disconnect(&mut self, client: u64) {
        let is_of_client = |pair: &&Pair| pair.attempt.client == client;
        let qpns: Vec<u32> = self
            .pairs
            .values()
            .filter(is_of_client)
            .map(|pair| pair.accepted.qpn)
            .collect();
        for qpn in qpns {
            self.remove(qpn);
        }
        if !self.disconnected.contains(&client) {
            if self.disconnected.len() == DISCONNECTED_MAX {
                self.disconnected.pop_front();
            }
            self.disconnected.push_back(client);
        }
    }

    fn remove(&mut self, qpn: u32) {
        if let Some(pair) = self.pairs.remove(&qpn) {
            let Attempt { client, index, .. } = pair.attempt;
            self.by_connection.remove(&(client, index));
            self.counters.ended += 1;
        }
    }

    /// A number that no queue pair has, and that none had for long.
    fn free_qpn(&mut self) -> u32 {
        loop {
            let qpn = self.next_qpn;
            self.next_qpn = (self.next_qpn + 1) & 0xff_ffff;
            if qpn >= FIRST_QPN && !self.pairs.contains_key(&qpn) {
                return qpn;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use roce::endpoint::ByteMemory;
    use roce::wire::{AtomicEth, Body, Bth, Psn, Repr};

    use super::*;
    use crate::layout::{EXACT, START};

    #[test]
    fn packets_of_another_host_are_not_of_the_connection() {
        let [node_at, client, other] =
            [1, 2, 3].map(|number| Station::of_ip([10, 0, 0, number], 50_000));
        let mut node = MemoryNode::new(node_at, 4096, 1);
        let pair = QueuePair {
            qpn: 40,
            first_psn: Psn::new(5),
            mtu: roce::endpoint::Mtu::Bytes1024,
        };
        let attempt = Attempt {
            client: 20,
            index: 0,
            attempt: 1,
        };
        let Message::Accept(_, accepted) = node.connect(&client, attempt, pair) else {
            panic!("refused");
        };
        let mut memory = ByteMemory {
            start: START,
            bytes: vec![0; 4096],
        };
        let swap = AtomicEth {
            address: START,
            key: EXACT,
            compare: 0,
            swap_or_add: 9,
        };
        let mut sent_by = |sender: &Station| {
            let repr = Repr {
                addresses: sender.to(&node_at),
                transport: Transport {
                    bth: Bth::new(accepted.qpn, Psn::new(5)),
                    body: Body::CompareSwap(swap),
                },
            };
            let mut frame = Vec::new();
            repr.emit(&mut frame).unwrap();
            let mut answers = 0;
            node.handle(0, &frame, &mut memory, &mut |_| answers += 1);
            answers
        };
        assert_eq!(sent_by(&other), 0);
        assert_eq!(sent_by(&client), 1);
        assert_eq!(node.counters().unknown, 1);
    }
}
