//! Half-open connections: a SYN has arrived, the acknowledgement of the answer has not.
//!
//! The buffers of a connection are long, so it exists only after its peer has shown that it
//! receives the answer. Until then its SYN is kept, and a seed. With both, smoltcp goes through the
//! same handshake as often as necessary: to answer, to answer again, and at last on the socket of
//! the connection.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use smoltcp::iface::{PollIngressSingleResult, PollResult, SocketSet};
use smoltcp::wire::{EthernetAddress, Ipv4Packet, TcpPacket};

use crate::acknowledgement::SentEnd;
use crate::arrival::Key;
use crate::connection::Connection;
use crate::deadlines::Queue;
use crate::limits::{ANSWER_NS, ANSWERS_MAX, FRAMES_MAX, HALF_OPEN_MAX};
use crate::link::{Frames, Link};
use crate::stack::{Config, instant, new_interface};

/// The half-open connections.
pub(crate) struct HalfOpenTable {
    by_key: HashMap<Key, HalfOpen>,
    /// When each has to be answered again, or dropped.
    deadlines: Queue<(Key, u32)>,
    /// Those to answer, in the order of their SYNs. Some are gone.
    unanswered: VecDeque<Key>,
    /// Goes through handshakes for their answers.
    listener: Connection,
    /// The number of the next one.
    number: u32,
}

struct HalfOpen {
    /// An IPv4 packet, without data.
    syn: Box<[u8]>,
    peer: EthernetAddress,
    number: u32,
    arrived_ns: u64,
    answers: u32,
    /// It is in the list of those to answer.
    is_unanswered: bool,
    sent_end: SentEnd,
}

/// What a segment means that is not a SYN.
pub(crate) enum Meaning {
    /// Nothing: neither an answer nor a connection.
    Ignored,
    /// It belongs to no connection.
    Unknown,
    /// It acknowledges the answer.
    Completes,
}

impl HalfOpenTable {
    pub(crate) fn new(config: &Config) -> Self {
        let config = Config {
            send_buffer: 0,
            ..config.clone()
        };
        let any_key = Key {
            peer: 0,
            peer_port: 0,
            local_port: 0,
        };
        Self {
            by_key: HashMap::new(),
            deadlines: Queue::default(),
            unanswered: VecDeque::new(),
            listener: Connection::new(&config, any_key, EthernetAddress::BROADCAST, 0, 0),
            number: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Adds the sender of a SYN. At the bound, drops the oldest one. Returns the number of those
    /// that were dropped.
    pub(crate) fn open(&mut self, key: Key, peer: EthernetAddress, syn: &[u8], now_ns: u64) -> u64 {
        let mut dropped = 0;
        while self.by_key.len() >= HALF_OPEN_MAX
            && let Some((oldest, number)) = self.deadlines.pop()
        {
            dropped += u64::from(self.drop_numbered(oldest, number));
        }
        let number = self.number;
        self.number = number.wrapping_add(1);
        let half_open = HalfOpen {
            syn: without_data(syn),
            peer,
            number,
            arrived_ns: now_ns,
            answers: 1,
            is_unanswered: false,
            sent_end: SentEnd::default(),
        };
        self.by_key.insert(key, half_open);
        self.answer_later(key);
        self.push_deadline(key, number, now_ns);
        dropped
    }

    /// Answers again, as soon as there is space for a frame. Returns false if there is nobody to
    /// answer.
    pub(crate) fn answer_later(&mut self, key: Key) -> bool {
        let Some(half_open) = self.by_key.get_mut(&key) else {
            return false;
        };
        if !std::mem::replace(&mut half_open.is_unanswered, true) {
            self.unanswered.push_back(key);
            // Entries of those that are gone stay in the list.
            if self.unanswered.len() > HALF_OPEN_MAX
                && let Some(first) = self.unanswered.pop_front()
                && let Some(left_out) = self.by_key.get_mut(&first)
            {
                left_out.is_unanswered = false;
            }
        }
        true
    }

    fn push_deadline(&mut self, key: Key, number: u32, now_ns: u64) {
        let by_key = &self.by_key;
        let is_there = |(key, number)| is_in(by_key, key, number);
        let due_ns = now_ns + ANSWER_NS;
        self.deadlines
            .push(due_ns, (key, number), HALF_OPEN_MAX, is_there);
    }

    fn drop_numbered(&mut self, key: Key, number: u32) -> bool {
        let is_there = is_in(&self.by_key, key, number);
        is_there && self.by_key.remove(&key).is_some()
    }

    /// Adds the answers to `frames`, as far as there is space, of which established connections
    /// have the other half.
    pub(crate) fn flush(&mut self, config: &Config, frames: &mut Frames) {
        while frames.len() < FRAMES_MAX / 2
            && let Some(key) = self.unanswered.pop_front()
        {
            let Some(half_open) = self.by_key.get_mut(&key) else {
                continue;
            };
            half_open.is_unanswered = false;
            self.listener.listen(config, key.local_port);
            let (sockets, at_ns) = (&mut self.listener.sockets, half_open.arrived_ns);
            let sent_end = half_open.shake_hands(config, sockets, key, at_ns, frames);
            half_open.sent_end = sent_end;
            if sent_end == SentEnd::default() {
                // smoltcp does not accept the SYN.
                self.by_key.remove(&key);
            }
        }
    }

    /// Whether [`Self::flush`] has something to do.
    pub(crate) fn has_unanswered(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Does what is due for the next one whose time has come. Returns whether it was dropped.
    /// `None`: nothing is due.
    pub(crate) fn advance(&mut self, now_ns: u64) -> Option<bool> {
        let (key, number) = self.deadlines.pop_due(now_ns)?;
        let found = self.by_key.get_mut(&key);
        Some(match found.filter(|it| it.number == number) {
            Some(half_open) if half_open.answers < ANSWERS_MAX => {
                half_open.answers += 1;
                self.answer_later(key);
                self.push_deadline(key, number, now_ns);
                false
            }
            Some(_) => self.drop_numbered(key, number),
            None => false,
        })
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.deadlines.next_ns()
    }

    /// What a segment of the peer means. Removes the half-open connection if it is a reset.
    pub(crate) fn receive(&mut self, key: Key, packet: &[u8]) -> Meaning {
        let Some(half_open) = self.by_key.get(&key) else {
            return Meaning::Unknown;
        };
        let ip = Ipv4Packet::new_unchecked(packet);
        let segment = TcpPacket::new_unchecked(ip.payload());
        if segment.rst() {
            if half_open.sent_end.is_next_after_acknowledged(&segment) {
                self.by_key.remove(&key);
            }
            return Meaning::Ignored;
        }
        match segment.ack() {
            true if half_open.is_completed_by(&segment, packet) => Meaning::Completes,
            true => Meaning::Unknown,
            false => Meaning::Ignored,
        }
    }

    /// Creates the connection, which has received the SYN and sent its answer.
    pub(crate) fn connection(
        &self,
        key: Key,
        config: &Config,
        generation: u32,
        now_ns: u64,
    ) -> Option<Connection> {
        let half_open = self.by_key.get(&key)?;
        let mut connection = Connection::new(config, key, half_open.peer, generation, now_ns);
        connection.listen(config, key.local_port);
        // If there were several answers, nobody knows which one took the time until now.
        let at_ns = match half_open.answers {
            1 => half_open.arrived_ns,
            _ => now_ns,
        };
        // The answer has been sent.
        let (sockets, mut frames) = (&mut connection.sockets, Frames::default());
        connection.sent_end = half_open.shake_hands(config, sockets, key, at_ns, &mut frames);
        Some(connection)
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.by_key.remove(&key);
    }

    pub(crate) fn clear(&mut self) {
        self.by_key.clear();
        self.unanswered.clear();
    }
}

impl HalfOpen {
    /// Whether a segment acknowledges the answer and lies near the window.
    fn is_completed_by(&self, segment: &TcpPacket<&[u8]>, packet: &[u8]) -> bool {
        let sent_end = &self.sent_end;
        sent_end.is_acknowledged_by(segment) && sent_end.is_known_to_sender_of(packet, 0)
    }

    /// Passes the SYN to a listening socket, at this time, and adds its answer to `frames`.
    fn shake_hands(
        &self,
        config: &Config,
        sockets: &mut SocketSet<'static>,
        key: Key,
        at_ns: u64,
        frames: &mut Frames,
    ) -> SentEnd {
        let mut sent_end = SentEnd::default();
        let mut link = Link::new(config, self.peer, Some(&self.syn), frames, &mut sent_end);
        // Who sees the numbers of some connections learns nothing of others (RFC 6528).
        let mut hasher = DefaultHasher::new();
        (config.seed, key, self.number).hash(&mut hasher);
        let at = instant(at_ns);
        let mut interface = new_interface(config, hasher.finish(), &mut link, at);
        let _: PollIngressSingleResult = interface.poll_ingress_single(at, &mut link, sockets);
        while interface.poll_egress(at, &mut link, sockets) != PollResult::None {}
        sent_end
    }
}

/// The headers of a packet with a segment. What a SYN carries is sent again.
fn without_data(packet: &[u8]) -> Box<[u8]> {
    let ip = Ipv4Packet::new_unchecked(packet);
    let segment = TcpPacket::new_unchecked(ip.payload());
    let len = usize::from(ip.header_len()) + usize::from(segment.header_len());
    let mut headers: Box<[u8]> = packet[..len].into();
    // No header is longer than 60 bytes.
    Ipv4Packet::new_unchecked(&mut headers).set_total_len(len as u16);
    headers
}

fn is_in(by_key: &HashMap<Key, HalfOpen>, key: Key, number: u32) -> bool {
    by_key.get(&key).is_some_and(|it| it.number == number)
}
