//! A memory node: memory, and a queue pair for each connection.

use std::collections::HashMap;

use roce::connect::{self, Attempt, Message, QueuePair};
use roce::endpoint::{ByteMemory, Connection, Memory, Region, Responder};
use roce::wire::{Datagram, Ip, Repr};

use super::{EXACT, MEMORY_LEN, START, STEERABLE};

pub(crate) struct MemoryNode {
    number: u8,
    pub(crate) memory: ByteMemory,
    responders: HashMap<u32, Responder>,
    /// The attempt, the queue pair and the client's, of each connection.
    accepted: HashMap<(u64, u16), (Attempt, u32, QueuePair)>,
    next_qpn: u32,
}

impl MemoryNode {
    pub(crate) fn new(number: u8) -> Self {
        Self {
            number,
            memory: ByteMemory {
                start: START,
                bytes: vec![0; MEMORY_LEN as usize],
            },
            responders: HashMap::new(),
            accepted: HashMap::new(),
            next_qpn: 0x100,
        }
    }

    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) {
        self.memory.write(address, bytes);
    }

    pub(crate) fn read(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read(address, &mut bytes);
        bytes
    }

    pub(crate) fn handle(&mut self, frame: &[u8], send: &mut impl FnMut(&[u8])) {
        if let Ok(packet) = Repr::parse(frame) {
            let responder = self.responders.get_mut(&packet.transport.bth.qpn);
            if let Some(responder) = responder
                && is_to(self.number, &packet.addresses.ip)
            {
                responder.handle(&packet.transport, &mut self.memory, send);
            }
        } else if let Ok(datagram) = Datagram::parse(frame)
            && is_to(self.number, &datagram.addresses.ip)
            && datagram.qpn == connect::QPN
            && let Some(Message::Connect(attempt, client)) = Message::parse(datagram.payload)
        {
            self.connect(&datagram, attempt, client, send);
        }
    }

    fn connect(
        &mut self,
        datagram: &Datagram,
        attempt: Attempt,
        client: QueuePair,
        send: &mut impl FnMut(&[u8]),
    ) {
        let key = (attempt.client, attempt.index);
        match self.accepted.get(&key) {
            // Also an earlier attempt has the later one as its answer.
            Some((old, ..)) if old.attempt >= attempt.attempt => {}
            old => {
                if let Some((_, qpn, _)) = old {
                    self.responders.remove(qpn);
                }
                let qpn = self.next_qpn;
                self.next_qpn += 1;
                let connection = Connection {
                    addresses: datagram.addresses.reversed(),
                    local_qpn: qpn,
                    peer_qpn: client.qpn,
                    mtu: client.mtu,
                    first_psn: client.first_psn,
                };
                let mut responder = Responder::new(&connection, 1);
                for key in [STEERABLE, EXACT] {
                    let region = Region {
                        key,
                        start: START,
                        len: MEMORY_LEN,
                        may_read: true,
                        may_write: true,
                        may_change_atomically: true,
                    };
                    responder.regions.add(region).unwrap();
                }
                self.responders.insert(qpn, responder);
                self.accepted.insert(key, (attempt, qpn, client));
            }
        }
        let (attempt, qpn, client) = self.accepted[&key];
        let server = QueuePair { qpn, ..client };
        let mut frame = Vec::new();
        let reply = Datagram {
            addresses: datagram.addresses.reversed(),
            payload: &Message::Accept(attempt, server).emit(),
            ..*datagram
        };
        reply.emit(&mut frame).unwrap();
        send(&frame);
    }

    pub(crate) fn acknowledge(&mut self, send: &mut impl FnMut(&[u8])) {
        let mut qpns: Vec<u32> = self.responders.keys().copied().collect();
        qpns.sort_unstable();
        for qpn in qpns {
            self.responders.get_mut(&qpn).unwrap().acknowledge(send);
        }
    }
}

/// Whether a packet is to the memory node of this number.
fn is_to(number: u8, ip: &Ip) -> bool {
    matches!(ip, Ip::V4(ip) if ip.target == [10, 0, 2, number])
}
