//! What a received frame does.

use smoltcp::iface::PollIngressSingleResult;
use smoltcp::socket::tcp::State;
use smoltcp::wire::EthernetAddress;

use super::{Checksums, ConnectionId, Stack, instant};
use crate::acknowledgement::SentEnd;
use crate::arrival::{Arrival, Key, classify};
use crate::connection::Phase;
use crate::half_open::Meaning;
use crate::limits::{DISCARDED_MAX, FRAMES_MAX};
use crate::link::Link;

impl Stack {
    /// Receives a frame. Answers to it may be in [`Stack::frames`] at once, or after
    /// [`Stack::flush`].
    pub fn receive(&mut self, frame: &[u8], checksums: Checksums, now_ns: u64) {
        self.now_ns = now_ns;
        self.counts.frames += 1;
        if self.frames.len() >= 2 * FRAMES_MAX {
            // The owner does not take frames, so answers would have no bound.
            self.counts.dropped += 1;
            return;
        }
        match classify(frame, checksums, &self.config) {
            Arrival::Tcp {
                peer,
                packet,
                key,
                opens,
            } => self.receive_segment(peer, packet, key, opens, now_ns),
            Arrival::ArpRequest { peer, peer_ip } => {
                if !self.frames.is_full() {
                    self.frames.push_arp_reply(&self.config, peer, peer_ip);
                }
            }
            Arrival::Icmp { peer, packet } => self.answer(peer, packet, now_ns),
            Arrival::Foreign => self.counts.foreign += 1,
            Arrival::Damaged => self.counts.damaged += 1,
        }
    }

    fn receive_segment(
        &mut self,
        peer: EthernetAddress,
        packet: &[u8],
        key: Key,
        opens: bool,
        now_ns: u64,
    ) {
        let mut slot = self.by_key.get(&key).copied();
        if opens
            && let Some(old) = slot
            && let Some(connection) = self.in_slot(old)
        {
            match (connection.phase, connection.is_hung_up()) {
                (Phase::Closing, true) => {
                    // The peer uses the port again, before the time in which late segments may
                    // arrive has passed. If this SYN is one of them, the peer answers by a reset.
                    self.remove(old);
                    slot = None;
                }
                (Phase::Open | Phase::Closing, false) => {
                    // The peer may have forgotten the connection (RFC 9293, 3.10.7.4): then it
                    // answers by a reset, and its next SYN opens another one.
                    connection.probe();
                    return self.queue_pending(old);
                }
                _ => {}
            }
        }
        if let Some(slot) = slot {
            return self.pass(slot, peer, packet, now_ns);
        }
        if opens && self.half_open.answer_later(key) {
            return;
        }
        if opens && self.is_listening && self.config.ports.contains(&key.local_port) {
            self.counts.opened += 1;
            self.counts.half_open_dropped += self.half_open.open(key, peer, packet, now_ns);
            return;
        }
        match self.half_open.receive(key, packet) {
            Meaning::Ignored => {}
            Meaning::Completes => self.establish(key, peer, packet, now_ns),
            Meaning::Unknown => {
                // smoltcp answers by a reset.
                self.counts.unknown += 1;
                self.answer(peer, packet, now_ns);
            }
        }
    }

    /// Passes a packet to smoltcp that belongs to no connection.
    fn answer(&mut self, peer: EthernetAddress, packet: &[u8], now_ns: u64) {
        // With more answers than can be sent, further ones are dropped, as a network does.
        if !self.frames.is_full() {
            let (frames, no_end) = (&mut self.frames, &mut SentEnd::default());
            let mut link = Link::new(&self.config, peer, Some(packet), frames, no_end);
            let sockets = &mut self.no_sockets;
            let _: PollIngressSingleResult =
                self.interface
                    .poll_ingress_single(instant(now_ns), &mut link, sockets);
        }
    }

    /// Makes a half-open connection an established one by the packet that acknowledges its answer.
    fn establish(&mut self, key: Key, peer: EthernetAddress, packet: &[u8], now_ns: u64) {
        let generation = self.generation;
        let made = self
            .half_open
            .connection(key, &self.config, generation, now_ns);
        let Some(connection) = made.map(Box::new) else {
            return;
        };
        self.generation = generation.wrapping_add(1);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.connections[slot as usize] = Some(connection);
                slot
            }
            None => {
                self.connections.push(Some(connection));
                // There are fewer than 2³² connections.
                (self.connections.len() - 1) as u32
            }
        };
        self.by_key.insert(key, slot);
        self.pass(slot, peer, packet, now_ns);
        let state = self.in_slot(slot).map(|connection| connection.state());
        if state.is_none_or(|state| matches!(state, State::SynReceived | State::Closed)) {
            // The packet lies outside of the window. A better one may come.
            return self.remove(slot);
        }
        self.half_open.remove(key);
        self.accepted.push_back(ConnectionId { slot, generation });
        self.counts.established += 1;
    }

    /// Passes a packet to its connection.
    fn pass(&mut self, slot: u32, peer: EthernetAddress, packet: &[u8], now_ns: u64) {
        let connection = self.connections.get_mut(slot as usize);
        let Some(connection) = connection.and_then(Option::as_deref_mut) else {
            return;
        };
        let send_buffer = self.config.send_buffer;
        if connection
            .sent_end
            .is_known_to_sender_of(packet, send_buffer)
        {
            connection.peer = peer;
            connection.last_frame_ns = now_ns;
        }
        // What is answered to others goes to the peer.
        let peer = connection.peer;
        let (frames, sent_end) = (&mut self.frames, &mut connection.sent_end);
        let mut link = Link::new(&self.config, peer, Some(packet), frames, sent_end);
        let sockets = &mut connection.sockets;
        self.interface
            .poll_ingress_single(instant(now_ns), &mut link, sockets);
        if connection.phase == Phase::Closing {
            connection.discard_received();
            if connection.discarded > DISCARDED_MAX {
                let generation = connection.generation;
                let id = ConnectionId { slot, generation };
                return self.reset(id, Phase::Closing);
            }
        }
        self.queue_pending(slot);
        self.queue_ready(slot);
    }
}
