//! A client's connection to the memory node, which is made again when it is lost.
//!
//! Its first request is a READ of the number of the present metadata service. Until it is answered,
//! there is none other. A middlebox that is started again may take a repeated `Connect` for a new
//! one; it then expects the first request, which never comes again, and lets no compare-and-swap
//! pass.
//!
//! The number decides whether a service is still the present one, and whether the lease of a client
//! comes from the present one ([`Channel::take_opened`]). The memory node does not know it: when it
//! starts again, it forgets its connections, and which clients it has disconnected.
//!
//! A client whose queue pair was replaced by that of another host ends: its client number is used
//! twice. Metadata services all connect with the same client number ([`METADATA`]), so a service
//! that connects replaces the connections of the others. A service that another one has replaced
//! connects once more, and ends when it finds the number of the other one.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use roce::connect::{self, Attempt, Message, QueuePair, Reason};
use roce::endpoint::{Completion, Connection, Mtu, Outcome, Request, Requester, Retries};
use roce::limits::{READS_MAX, WINDOW_MAX};
use roce::wire::{Psn, Transport};

use crate::layout::{EXACT, METADATA, SERVICE, number};
use crate::station::Station;

/// Queue pairs at this end are numbered from here: 2¹⁶ attempts before one comes again.
const FIRST_QPN: u32 = 0x1_0000;
/// The number of the first request. Those of others are counted from 1.
const FIRST_REQUEST: u64 = u64::MAX;

/// What a connection needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelConfig {
    /// The path MTU.
    pub mtu: Mtu,
    /// Most packets sent ahead of their acknowledgements.
    pub window: u32,
    /// Most READs and atomic operations sent ahead of their responses.
    pub reads_max: usize,
    /// When packets are sent again, and how often until the connection counts as lost.
    pub retries: Retries,
}

impl Default for ChannelConfig {
    /// Packets of 4096 bytes, sent again after 20 ms, up to seven times.
    fn default() -> Self {
        Self {
            mtu: Mtu::Bytes4096,
            window: WINDOW_MAX,
            reads_max: READS_MAX,
            retries: Retries {
                timeout_ns: 20_000_000,
                losses_max: 7,
                not_ready_max: 7,
            },
        }
    }
}

/// Both ends, while there is a connection, and what is sent until there is one.
#[derive(Debug)]
pub(crate) struct Channel {
    me: Station,
    node: Station,
    config: ChannelConfig,
    attempt: Attempt,
    pair: QueuePair,
    random: SplitMix64,
    state: State,
    has_been_connected: bool,
    /// What the first READ of a connection has found.
    opened: Option<u64>,
}

#[derive(Debug)]
enum State {
    /// `Connect` is sent at this time, and again later.
    Connecting {
        next_ns: u64,
    },
    /// The first request is not answered.
    Opening(Box<Requester>),
    Connected(Box<Requester>),
    /// The node refuses this client for ever, or another host uses the same number of the client.
    Ended,
}

impl Channel {
    pub(crate) fn new(
        me: Station,
        node: Station,
        config: ChannelConfig,
        client: u64,
        seed: u64,
    ) -> Self {
        let attempt = Attempt {
            client,
            index: 0,
            attempt: 0,
        };
        let mut channel = Self {
            me,
            node,
            config,
            attempt,
            pair: QueuePair {
                qpn: 0,
                first_psn: Psn::new(0),
                mtu: config.mtu,
            },
            random: SplitMix64::seed_from_u64(seed ^ mixed(client)),
            state: State::Ended,
            has_been_connected: false,
            opened: None,
        };
        channel.begin(1, 0);
        channel
    }

    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected(_))
    }

    /// Whether there is no connection and never will be.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Begins an attempt, with a new queue pair at this end.
    fn begin(&mut self, attempt: u32, now_ns: u64) {
        self.attempt.attempt = attempt;
        self.pair = QueuePair {
            qpn: FIRST_QPN + (attempt & 0xffff),
            first_psn: Psn::new(self.random.next_u64() as u32),
            mtu: self.config.mtu,
        };
        self.state = State::Connecting { next_ns: now_ns };
    }

    /// Posts an operation; false if there is no connection, or its queue is full.
    pub(crate) fn post(&mut self, id: u64, request: Request) -> bool {
        match &mut self.state {
            State::Connected(requester) => requester.post(id, request, false).is_ok(),
            _ => false,
        }
    }

    /// Takes a datagram of the memory node.
    pub(crate) fn handle_message(&mut self, now_ns: u64, message: &Message) {
        match *message {
            Message::Accept(attempt, pair) if self.is_mine(attempt) => {
                let is_same = attempt == self.attempt;
                let is_foreign = attempt.attempt > self.attempt.attempt
                    || (is_same && pair.first_psn != self.pair.first_psn);
                let is_connecting = matches!(self.state, State::Connecting { .. });
                let is_service = attempt.client == METADATA;
                if is_foreign && self.has_been_connected && !is_service {
                    self.state = State::Ended;
                } else if is_foreign && is_connecting {
                    // Of an earlier start of this client, which has not ended for the node, or of
                    // another metadata service.
                    self.begin(attempt.attempt.saturating_add(1), now_ns);
                } else if is_same && is_connecting {
                    self.connected(pair.qpn);
                }
            }
            Message::Refuse(attempt, Reason::Disconnected) if attempt == self.attempt => {
                self.state = State::Ended;
            }
            _ => {}
        }
    }

    fn is_mine(&self, attempt: Attempt) -> bool {
        attempt.client == self.attempt.client && attempt.index == self.attempt.index
    }

    fn connected(&mut self, peer_qpn: u32) {
        let connection = Connection {
            addresses: self.me.to(&self.node),
            local_qpn: self.pair.qpn,
            peer_qpn,
            mtu: self.pair.mtu,
            first_psn: self.pair.first_psn,
        };
        let ChannelConfig {
            window,
            reads_max,
            retries,
            ..
        } = self.config;
        let mut requester = Requester::new(&connection, window, reads_max, retries);
        let first = Request::Read {
            address: SERVICE,
            key: EXACT,
            len: 8,
        };
        // The queue is empty.
        let _ = requester.post(FIRST_REQUEST, first, false);
        self.state = State::Opening(Box::new(requester));
        self.has_been_connected = true;
    }

    /// Takes a packet of the connection.
    pub(crate) fn handle_packet(&mut self, now_ns: u64, packet: &Transport) {
        if let State::Opening(requester) | State::Connected(requester) = &mut self.state {
            requester.handle(now_ns, packet);
        }
    }

    /// Takes the oldest completion. After the last one of a connection that has failed, the next
    /// attempt begins.
    pub(crate) fn take_completion(&mut self, now_ns: u64) -> Option<Completion> {
        if let State::Opening(requester) = &mut self.state
            && let Some(Completion {
                result: Ok(outcome),
                ..
            }) = requester.take_completion()
            && let State::Opening(requester) = std::mem::replace(&mut self.state, State::Ended)
        {
            self.state = State::Connected(requester);
            if let Outcome::Read(bytes) = outcome {
                self.opened = (bytes.len() >= 8).then(|| number(&bytes, 0, 8));
            }
        }
        let (State::Opening(requester) | State::Connected(requester)) = &mut self.state else {
            return None;
        };
        let completion = requester.take_completion();
        if completion.is_none() && requester.has_failed() {
            self.begin(self.attempt.attempt.saturating_add(1), now_ns);
        }
        completion
    }

    /// Takes the number of the present metadata service, as the first READ of a connection has
    /// found it: once after each connection, when [`Self::take_completion`] has been called.
    pub(crate) fn take_opened(&mut self) -> Option<u64> {
        self.opened.take()
    }

    pub(crate) fn transmit(&mut self, now_ns: u64, send: &mut impl FnMut(&[u8])) {
        match &mut self.state {
            State::Opening(requester) | State::Connected(requester) => {
                requester.transmit(now_ns, send);
            }
            State::Connecting { next_ns } if *next_ns <= now_ns => {
                *next_ns = now_ns.saturating_add(self.config.retries.timeout_ns);
                let bytes = Message::Connect(self.attempt, self.pair).emit();
                let key = connect::QUEUE_KEY;
                self.me.send(&self.node, connect::QPN, key, &bytes, send);
            }
            _ => {}
        }
    }

    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        match &self.state {
            State::Opening(requester) | State::Connected(requester) => requester.deadline_ns(),
            State::Connecting { next_ns } => Some(*next_ns),
            _ => None,
        }
    }
}

/// A number of which all bits depend on all bits of `number`.
pub(crate) fn mixed(number: u64) -> u64 {
    SplitMix64::seed_from_u64(number).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(number: u8) -> Station {
        Station::of_ip([10, 0, 0, number], 50_000)
    }

    fn connect(channel: &mut Channel, now_ns: u64) -> (Attempt, QueuePair) {
        let mut sent = None;
        channel.transmit(now_ns, &mut |frame| {
            let datagram = roce::wire::Datagram::parse(frame).unwrap();
            sent = Message::parse(datagram.payload);
        });
        match sent {
            Some(Message::Connect(attempt, pair)) => (attempt, pair),
            other => panic!("{other:?}"),
        }
    }

    fn accepted(channel: &mut Channel, now_ns: u64) -> (Attempt, QueuePair) {
        let (attempt, pair) = connect(channel, now_ns);
        channel.handle_message(now_ns, &Message::Accept(attempt, pair));
        assert!(!channel.is_connected(), "the first request is unanswered");
        (attempt, pair)
    }

    fn foreign(pair: QueuePair) -> QueuePair {
        QueuePair {
            first_psn: pair.first_psn.plus(9),
            ..pair
        }
    }

    #[test]
    fn the_connection_of_an_earlier_start_is_not_taken_over() {
        let config = ChannelConfig::default();
        let mut channel = Channel::new(station(1), station(2), config, 20, 7);
        let (attempt, pair) = connect(&mut channel, 0);
        assert_eq!(attempt.attempt, 1);
        // The node knows this attempt from an earlier start, with other sequence numbers.
        channel.handle_message(10, &Message::Accept(attempt, foreign(pair)));
        let (attempt, _) = connect(&mut channel, 10);
        assert_eq!(attempt.attempt, 2);
        let later = Attempt {
            attempt: 7,
            ..attempt
        };
        channel.handle_message(20, &Message::Accept(later, foreign(pair)));
        let (attempt, pair) = accepted(&mut channel, 20);
        assert_eq!(attempt.attempt, 8);
        channel.handle_message(40, &Message::Accept(attempt, foreign(pair)));
        assert!(channel.has_ended(), "another host has this number");
    }

    #[test]
    fn a_metadata_service_replaces_others_only_while_it_has_no_connection() {
        let config = ChannelConfig::default();
        let mut channel = Channel::new(station(1), station(2), config, METADATA, 7);
        let (attempt, pair) = accepted(&mut channel, 0);
        // A reply that is late must not end a connection with operations in progress.
        channel.handle_message(10, &Message::Accept(attempt, foreign(pair)));
        assert!(matches!(channel.state, State::Opening(_)));
        channel.begin(2, 20);
        let (attempt, pair) = connect(&mut channel, 20);
        channel.handle_message(30, &Message::Accept(attempt, foreign(pair)));
        assert!(!channel.has_ended());
        assert_eq!(connect(&mut channel, 30).0.attempt, 3);
    }
}
