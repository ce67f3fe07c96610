//! A client of the pool: operations in, frames out and in, completions out.
//!
//! ```text
//! submit ─▶ waiting ─▶ active, at most `outstanding_max`, each a small state machine (progress.rs)
//!                        │ one operation on memory at a time      ─▶ channel ─▶ memory node
//!                        └ the chain of a key, slabs (session.rs) ─▶ metadata service
//! ```
//!
//! A client is one thread: it has one connection, its own cache of tails and its own slabs. It
//! holds a lease. Without one it sends nothing to the memory node, because its slabs may belong to
//! others by then.
//!
//! Invariants:
//! - Each operation completes once.
//! - A write that completes without an error is linked into the chain of its key.
//! - A node is linked at most once, and its slot is not written again before the metadata service
//!   has freed it, or unless it is certain that the node was never linked.

mod cache;
mod ending;
mod progress;
mod reading;
mod session;

use std::collections::VecDeque;

use chain::limits::KEY_LEN_MAX;
use roce::connect;
use roce::wire::Datagram;

use crate::channel::{Channel, ChannelConfig};
use crate::limits::{OUTSTANDING_MAX, SUBMITTED_MAX};
use crate::message::{self, Answer, Question, Reply};
use crate::operation::{Completion, Operation, OperationError, Outcome, SubmitError, is_storable};
use crate::slots::Slots;
use crate::station::{Frame, Station};
use cache::{Cache, Entry};
use progress::{Active, Step};
use session::{Answered, Session};

const NS_PER_S: u64 = 1_000_000_000;

/// What a client needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// This host.
    pub me: Station,
    /// The metadata service.
    pub metadata: Station,
    /// Where the memory node is reached, if not where the metadata service says.
    pub node: Option<Station>,
    /// The connection to the memory node.
    pub channel: ChannelConfig,
    /// Most operations in progress at once, 1 to [`OUTSTANDING_MAX`]. Clover has 2.
    pub outstanding_max: usize,
    /// Most keys whose chains are remembered.
    pub cached_max: usize,
    /// A middlebox may redirect operations with the steerable key. Then it is not known after which
    /// node the client's own was linked.
    pub is_steered: bool,
    /// How often the lease is renewed at least, in nanoseconds.
    pub heartbeat_ns: u64,
    /// How long an operation may take, in nanoseconds.
    pub timeout_ns: u64,
    /// How often there may be no slab before an operation fails. The client tries again with each
    /// renewal of the lease.
    pub refusals_max: u32,
    /// Unix time at time 0 of the client's clock, in nanoseconds.
    pub unix_start_ns: u64,
    /// Where all random numbers come from.
    pub seed: u64,
}

impl ClientConfig {
    /// A client as in Clover: two operations at once. Leases are renewed every 20 ms, and
    /// operations fail after 10 s.
    pub fn new(me: Station, metadata: Station, seed: u64) -> Self {
        Self {
            me,
            metadata,
            node: None,
            channel: ChannelConfig::default(),
            outstanding_max: 2,
            cached_max: 1 << 16,
            is_steered: false,
            heartbeat_ns: 20_000_000,
            timeout_ns: 10_000_000_000,
            refusals_max: 50,
            unix_start_ns: 0,
            seed,
        }
    }
}

/// Counts of what a client did, each modulo 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Operations that completed with a result.
    pub completed: u64,
    /// Operations that completed with an error.
    pub failed: u64,
    /// READs of memory.
    pub reads: u64,
    /// WRITEs of nodes.
    pub writes: u64,
    /// Compare-and-swaps.
    pub swaps: u64,
    /// Those that linked a node.
    pub swaps_won: u64,
    /// Nodes that were read and had a successor.
    pub stale: u64,
    /// Times that an operation began again at the anchor.
    pub restarts: u64,
    /// Questions to the metadata service for the chain of a key.
    pub lookups: u64,
    /// Connections that were lost.
    pub reconnects: u64,
    /// Changes that were refused memory at once, because others waited for it with long values.
    pub changes_refused: u64,
    /// Leases that ended.
    pub expired: u64,
    /// Bytes of frames sent, with all headers.
    pub sent_bytes: u64,
    /// Bytes of frames received, with all headers.
    pub received_bytes: u64,
}

impl ClientCounters {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::wrapping_sub)
    }

    /// What this client and another one have counted.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    fn with(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            completed: of(self.completed, other.completed),
            failed: of(self.failed, other.failed),
            reads: of(self.reads, other.reads),
            writes: of(self.writes, other.writes),
            swaps: of(self.swaps, other.swaps),
            swaps_won: of(self.swaps_won, other.swaps_won),
            stale: of(self.stale, other.stale),
            restarts: of(self.restarts, other.restarts),
            lookups: of(self.lookups, other.lookups),
            reconnects: of(self.reconnects, other.reconnects),
            changes_refused: of(self.changes_refused, other.changes_refused),
            expired: of(self.expired, other.expired),
            sent_bytes: of(self.sent_bytes, other.sent_bytes),
            received_bytes: of(self.received_bytes, other.received_bytes),
        }
    }
}

/// A client.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    session: Session,
    channel: Option<Channel>,
    slab_len: u32,
    slots: Slots,
    cache: Cache,
    waiting: VecDeque<(u64, u64, Operation)>,
    active: Vec<Active>,
    /// The number of the next operation on memory.
    next_token: u64,
    completions: VecDeque<Completion>,
    /// No slab is requested before, because there was none.
    no_slab_until_ns: u64,
    /// Unix time of the last call, in seconds.
    unix_s: u64,
    is_leaving: bool,
    has_left: bool,
    counters: ClientCounters,
}

impl Client {
    /// A client that knows nothing of the pool but its metadata service.
    pub fn new(config: ClientConfig) -> Self {
        let timeout_ns = config.channel.retries.timeout_ns;
        Self {
            config,
            session: Session::new(
                config.me,
                config.metadata,
                timeout_ns,
                config.heartbeat_ns,
                config.seed,
            ),
            channel: None,
            slab_len: 0,
            slots: Slots::default(),
            cache: Cache::new(config.cached_max),
            waiting: VecDeque::new(),
            active: Vec::new(),
            next_token: 1,
            completions: VecDeque::new(),
            no_slab_until_ns: 0,
            unix_s: config.unix_start_ns / NS_PER_S,
            is_leaving: false,
            has_left: false,
            counters: ClientCounters::default(),
        }
    }

    /// The counts so far.
    pub fn counters(&self) -> ClientCounters {
        self.counters
    }

    /// Number of operations that are not complete.
    pub fn pending(&self) -> usize {
        self.waiting.len() + self.active.len()
    }

    /// Bytes of the values that changes in progress have made of what was there.
    pub fn draft_bytes(&self) -> usize {
        self.active.iter().map(Active::draft_len).sum()
    }

    /// Whether no further operation is accepted until a completion is taken.
    pub fn is_full(&self) -> bool {
        self.pending() + self.completions.len() >= SUBMITTED_MAX
    }

    /// Whether a completion can be taken.
    pub fn has_completion(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Whether the client has a lease and a connection.
    pub fn is_ready(&self, now_ns: u64) -> bool {
        self.session.has_lease(now_ns) && self.channel.as_ref().is_some_and(Channel::is_connected)
    }

    /// Begins an operation, or queues it. Its completion has this number.
    ///
    /// # Errors
    /// There are too many, or the key or the value has a length that no pool takes.
    pub fn submit(
        &mut self,
        now_ns: u64,
        id: u64,
        operation: Operation,
    ) -> Result<(), SubmitError> {
        if self.is_full() || self.is_leaving {
            return Err(SubmitError::Busy);
        }
        let key_len = operation.key.len();
        if key_len == 0 || key_len > KEY_LEN_MAX {
            return Err(SubmitError::Key);
        }
        if !is_storable(key_len, operation.value_len()) {
            return Err(SubmitError::TooLong);
        }
        let deadline_ns = now_ns.saturating_add(self.config.timeout_ns);
        self.waiting.push_back((id, deadline_ns, operation));
        Ok(())
    }

    /// Takes the completion of an operation.
    pub fn take_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Gives the lease back once all operations are complete. No more are accepted.
    pub fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Whether the lease was given back.
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Takes a frame. Frames for others are ignored.
    pub fn handle(&mut self, now_ns: u64, frame: &[u8]) {
        let content = self.config.me.parse(frame);
        if content.is_some() {
            self.counters.received_bytes += frame.len() as u64;
        }
        match content {
            Some(Frame::Packet(_, packet)) => {
                if let Some(channel) = &mut self.channel {
                    channel.handle_packet(now_ns, &packet);
                }
            }
            Some(Frame::Datagram(datagram)) => self.handle_datagram(now_ns, &datagram),
            None => {}
        }
        self.settle(now_ns);
    }

    fn handle_datagram(&mut self, now_ns: u64, datagram: &Datagram) {
        match (datagram.qpn, datagram.queue_key) {
            (connect::QPN, connect::QUEUE_KEY) => {
                let message = connect::Message::parse(datagram.payload);
                if let (Some(channel), Some(message)) = (&mut self.channel, message) {
                    channel.handle_message(now_ns, &message);
                }
            }
            (message::QPN, message::QUEUE_KEY) => {
                let reply = Reply::parse(datagram.payload);
                if let Some(answered) = reply.and_then(|reply| self.session.handle(reply)) {
                    self.handle_answer(now_ns, answered);
                }
            }
            _ => {}
        }
    }

    fn handle_answer(&mut self, now_ns: u64, answered: Answered) {
        let freed = answered.freed;
        let mut was_refused = false;
        match (answered.question, answered.answer) {
            (Question::Leave, _) => self.has_left = true,
            (_, Answer::Expired) => self.expire(),
            (
                _,
                Answer::Registered {
                    client,
                    node,
                    slab_len,
                },
            ) => {
                self.slab_len = slab_len;
                let node = self.config.node.unwrap_or(node);
                let Self { config, .. } = self;
                let channel = Channel::new(config.me, node, config.channel, client, config.seed);
                self.channel = Some(channel);
            }
            (
                Question::Lookup { key, .. },
                Answer::Chain {
                    chain,
                    anchor,
                    tail,
                },
            ) => {
                let entry = Entry {
                    chain,
                    anchor,
                    tail,
                    len: 0,
                };
                self.cache.insert(&key, entry);
                self.looked_up(&key, Some(entry));
            }
            (Question::Lookup { key, .. }, Answer::Absent) => self.looked_up(&key, None),
            (Question::Lookup { key, .. }, Answer::Full) => self.chains_are_full(&key),
            (
                Question::Slab { .. },
                Answer::Slab {
                    address,
                    slot_len,
                    is_fresh,
                },
            ) => self.slots.add(address, self.slab_len, slot_len, is_fresh),
            (Question::Slab { .. }, Answer::Full) => was_refused = true,
            _ => {}
        }
        // Some may be slots of a slab that came with this answer.
        for link in freed {
            self.slots.free(link);
        }
        if was_refused {
            self.was_refused_slab(now_ns);
        }
    }

    /// There is no slab, but there may be slots that have just come back.
    fn was_refused_slab(&mut self, now_ns: u64) {
        // Slots are freed with each renewal, so those come soon.
        self.no_slab_until_ns = now_ns.saturating_add(self.config.heartbeat_ns);
        self.session.hurry(now_ns + self.config.heartbeat_ns / 8);
        self.take_slots();
        self.no_slab();
    }

    /// Sends what is due.
    pub fn transmit(&mut self, now_ns: u64, send: &mut impl FnMut(&[u8])) {
        self.settle(now_ns);
        if self.has_left {
            return;
        }
        let mut sent_bytes = 0;
        let mut send = |frame: &[u8]| {
            sent_bytes += frame.len() as u64;
            send(frame);
        };
        let has_lease = self.session.has_lease(now_ns);
        if let Some(channel) = self.channel.as_mut().filter(|_| has_lease) {
            channel.transmit(now_ns, &mut send);
        }
        self.session.transmit(now_ns, &mut send);
        self.counters.sent_bytes += sent_bytes;
        // A connection that was given up has completions.
        self.settle(now_ns);
    }

    /// When [`Client::transmit`] is to be called at the latest.
    pub fn deadline_ns(&self) -> Option<u64> {
        if self.has_left {
            return None;
        }
        let session_ns = Some(self.session.deadline_ns());
        let lease_ns = self.session.lease_until_ns();
        let channel_ns = self.channel.as_ref().and_then(Channel::deadline_ns);
        let waiting = self.waiting.iter().map(|(_, deadline_ns, _)| *deadline_ns);
        let active = self.active.iter().map(|active| active.deadline_ns);
        let operation_ns = waiting.chain(active).min();
        let times = [session_ns, lease_ns, channel_ns, operation_ns];
        times.into_iter().flatten().min()
    }

    /// Does everything that can be done without another frame.
    fn settle(&mut self, now_ns: u64) {
        if self.has_left {
            return;
        }
        self.unix_s = self.config.unix_start_ns.saturating_add(now_ns) / NS_PER_S;
        if self.session.client != 0 && !self.session.has_lease(now_ns) {
            self.expire();
        }
        self.check_channel(now_ns);
        self.time_out(now_ns);
        if self.session.has_lease(now_ns) {
            let most = self.config.outstanding_max.clamp(1, OUTSTANDING_MAX);
            // Operations that were refused memory do nothing meanwhile, so others may begin.
            while self
                .active
                .iter()
                .filter(|it| !it.was_refused_memory())
                .count()
                < most
                && let Some((id, deadline_ns, operation)) = self.waiting.pop_front()
            {
                self.begin(id, deadline_ns, operation);
            }
            self.advance();
        }
        self.request_needed(now_ns);
    }

    /// Takes completions of the connection, and notices its end.
    fn check_channel(&mut self, now_ns: u64) {
        let Some(channel) = &mut self.channel else {
            return;
        };
        if channel.has_ended() {
            self.expire();
            return;
        }
        let was_connected = channel.is_connected();
        while let Some(channel) = &mut self.channel
            && let Some(completion) = channel.take_completion(now_ns)
        {
            self.completed(completion);
        }
        let is_connected = self.channel.as_ref().is_some_and(Channel::is_connected);
        self.counters.reconnects += u64::from(was_connected && !is_connected);
        // The lease is not one of the present service: that one may have given the slabs to others,
        // and the memory node, if it has started again, knows nothing of it.
        let opened = self.channel.as_mut().and_then(Channel::take_opened);
        if opened.is_some_and(|service| service != self.session.service) {
            self.expire();
        }
    }

    /// Requests what is needed from the metadata service, one thing after the other.
    fn request_needed(&mut self, now_ns: u64) {
        if !self.session.is_free() {
            return;
        }
        let (quiescent, unix_s) = (self.quiescent(), self.unix_s);
        if self.session.client == 0 {
            self.session.request(now_ns, Question::Register, 0, unix_s);
            return;
        }
        let needed = self.active.iter().find_map(|active| match active.step {
            Step::Lookup { create, .. } => Some(Question::Lookup {
                key: active.operation.key.clone(),
                create,
                closed: active.closed,
            }),
            Step::Slot { slot_len } if now_ns >= self.no_slab_until_ns => {
                Some(Question::Slab { slot_len })
            }
            _ => None,
        });
        let is_done = self.is_leaving && self.pending() == 0 && !self.session.has_edges();
        if let Some(question) = needed {
            if let Question::Lookup { key, .. } = &question {
                self.counters.lookups += 1;
                self.mark_requested(key);
            }
            self.session.request(now_ns, question, quiescent, unix_s);
        } else if is_done {
            self.session
                .request(now_ns, Question::Leave, quiescent, unix_s);
        } else if self.session.is_due(now_ns) || self.is_leaving {
            self.session
                .request(now_ns, Question::Nothing, quiescent, unix_s);
        }
    }

    /// The epoch for which everything that began before is complete.
    fn quiescent(&self) -> u64 {
        let oldest = self.active.iter().map(|active| active.epoch).min();
        oldest.unwrap_or(self.session.epoch)
    }

    fn finish(&mut self, index: usize, result: Result<Outcome, OperationError>) {
        let active = self.active.swap_remove(index);
        self.complete(active.id, result);
    }

    fn complete(&mut self, id: u64, result: Result<Outcome, OperationError>) {
        match result {
            Ok(_) => self.counters.completed += 1,
            Err(_) => self.counters.failed += 1,
        }
        self.completions.push_back(Completion { id, result });
    }
}
