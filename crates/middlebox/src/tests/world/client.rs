//! A client of chains.

use std::collections::HashMap;

use chain::{Link, Next, Node};
use roce::connect::{Attempt, Message, QueuePair};
use roce::endpoint::{Completion, Connection, Mtu, Outcome, Request, Requester, Retries};
use roce::wire::{AtomicEth, Datagram, Psn, Repr};

use super::history::History;
use super::network::Random;
use super::{
    CLIENT_SLOTS, EXACT, SLOT_LEN, START, STEERABLE, Scenario, addresses, head, node_bytes,
    setup_frame,
};

const CONNECT_NS: u64 = 300_000;
const NODE_LEN: u32 = 59;
const TIMEOUT_NS: u64 = 400_000;

/// What an operation does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// WRITE the new node.
    Write,
    /// Link it behind this one.
    Swap(Link),
    /// READ this node, to find the last one.
    Walk(Link),
    /// READ this node, to find out whether the new one was linked.
    Resolve(Link),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Read,
    Append { new: Link, is_exact: bool },
}

#[derive(Debug)]
struct Operation {
    /// Its number in the history.
    id: usize,
    chain: u64,
    action: Action,
    stage: Stage,
    /// The number it was posted with.
    posted: Option<u64>,
    started_ns: u64,
}

/// A connection to a memory node.
struct Session {
    node: u8,
    attempt: u32,
    is_up: bool,
    /// When the request to connect is sent again.
    connect_ns: u64,
    qpn: u32,
    first_psn: Psn,
    requester: Option<Requester>,
    operations: Vec<Operation>,
    next_slot: u64,
}

pub(crate) struct Client {
    number: u8,
    pub(crate) is_dead: bool,
    sessions: Vec<Session>,
    /// The last node of each chain, as far as known.
    cache: HashMap<u64, Link>,
    left: usize,
    depth: usize,
    chains: u64,
    reads: u64,
    exact: u64,
    losses_max: u32,
    random: Random,
    next_post: u64,
}

impl Client {
    pub(crate) fn new(number: u8, scenario: &Scenario, seed: u64) -> Self {
        let mut random = Random(seed);
        let session = |node: u8, random: &mut Random| Session {
            node,
            attempt: 1,
            is_up: false,
            connect_ns: 0,
            qpn: 0x10 + u32::from(number) * 0x100,
            first_psn: Psn::new(0xff_ffe0_u32.wrapping_add(random.below(64) as u32)),
            requester: None,
            operations: Vec::new(),
            next_slot: 0,
        };
        Self {
            number,
            is_dead: false,
            sessions: (0..scenario.nodes)
                .map(|node| session(node as u8, &mut random))
                .collect(),
            cache: HashMap::new(),
            left: scenario.operations,
            depth: scenario.depth,
            chains: scenario.chains,
            reads: scenario.reads,
            exact: scenario.exact,
            losses_max: scenario.losses_max,
            random,
            next_post: 0,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        let is_idle = self
            .sessions
            .iter()
            .all(|session| session.operations.is_empty());
        self.is_dead || (self.left == 0 && is_idle)
    }

    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        if self.is_dead {
            return None;
        }
        let due = |session: &Session| {
            if session.is_up {
                let requester = session.requester.as_ref()?;
                if requester.has_failed() {
                    return Some(0);
                }
                requester.deadline_ns()
            } else if session.operations.is_empty() && self.left == 0 {
                None
            } else {
                Some(session.connect_ns)
            }
        };
        self.sessions.iter().filter_map(due).min()
    }

    pub(crate) fn handle(&mut self, now_ns: u64, frame: &[u8]) {
        if self.is_dead {
            return;
        }
        if let Ok(packet) = Repr::parse(frame) {
            for session in &mut self.sessions {
                let to_server = addresses(self.number, session.node);
                if packet.addresses.ip == to_server.reversed().ip
                    && let Some(requester) = &mut session.requester
                {
                    requester.handle(now_ns, &packet.transport);
                }
            }
        } else if let Ok(datagram) = Datagram::parse(frame)
            && let Some(Message::Accept(attempt, server)) = Message::parse(datagram.payload)
            && attempt.client == u64::from(self.number)
        {
            let session = self.sessions.get_mut(usize::from(attempt.index)).unwrap();
            if !session.is_up && session.attempt == attempt.attempt {
                session.accept(self.number, &server, self.losses_max);
            }
        }
    }

    /// Does everything that can be done now.
    pub(crate) fn advance(
        &mut self,
        now_ns: u64,
        history: &mut History,
        send: &mut impl FnMut(&[u8]),
    ) {
        if self.is_dead {
            return;
        }
        for index in 0..self.sessions.len() {
            if !self.sessions[index].is_up {
                self.sessions[index].connect(self.number, index, now_ns, send);
                continue;
            }
            self.complete(index, now_ns, history);
            let session = &mut self.sessions[index];
            if session.requester.as_ref().unwrap().has_failed() {
                session.fail(now_ns);
            }
        }
        self.start(now_ns, history);
        for index in 0..self.sessions.len() {
            if self.sessions[index].is_up {
                self.post(index);
                let requester = self.sessions[index].requester.as_mut().unwrap();
                requester.transmit(now_ns, send);
            }
        }
    }

    fn start(&mut self, now_ns: u64, history: &mut History) {
        while self.left > 0 {
            let busy: usize = self
                .sessions
                .iter()
                .map(|session| session.operations.len())
                .sum();
            if busy >= self.depth {
                return;
            }
            let chain = 1 + self.random.below(self.chains);
            let index = (chain % self.sessions.len() as u64) as usize;
            let session = &mut self.sessions[index];
            self.left -= 1;
            let tail = *self.cache.entry(chain).or_insert(head(chain));
            let (action, stage, id) = if self.random.below(100) < self.reads {
                (Action::Read, Stage::Walk(tail), 0)
            } else {
                let number = self.number;
                let slot = 64 + u64::from(number) * CLIENT_SLOTS + session.next_slot;
                session.next_slot += 1;
                // Few generations, so that those of different slots are often the same.
                let generation = 1 + self.random.below(3) as u32;
                let new = Link::new(START + slot * SLOT_LEN, generation).unwrap();
                let is_exact = self.random.below(100) < self.exact;
                let expected = is_exact.then_some(tail);
                let id = history.append_started(chain, new, expected, now_ns);
                (Action::Append { new, is_exact }, Stage::Write, id)
            };
            session.operations.push(Operation {
                id,
                chain,
                action,
                stage,
                posted: None,
                started_ns: now_ns,
            });
        }
    }

    /// Posts the next step of each operation.
    fn post(&mut self, index: usize) {
        let session = &mut self.sessions[index];
        let requester = session.requester.as_mut().unwrap();
        for operation in &mut session.operations {
            if operation.posted.is_some() {
                continue;
            }
            let read = |link: Link, key| Request::Read {
                address: link.address(),
                key,
                len: NODE_LEN,
            };
            let request = match (operation.stage, operation.action) {
                (Stage::Write, Action::Append { new, .. }) => Request::Write {
                    address: new.address(),
                    key: STEERABLE,
                    bytes: node_bytes(new, operation.chain, operation.id as u64),
                    immediate: None,
                },
                (Stage::Swap(tail), Action::Append { new, is_exact }) => {
                    Request::CompareSwap(AtomicEth {
                        address: tail.address(),
                        key: if is_exact { EXACT } else { STEERABLE },
                        swap_or_add: new.word(),
                        compare: tail.empty().word(),
                    })
                }
                (Stage::Walk(link), _) => read(link, STEERABLE),
                // A READ with the other key may skip the node that is looked for.
                (Stage::Resolve(link), _) => read(link, EXACT),
                (stage, action) => panic!("{stage:?} of {action:?}"),
            };
            operation.posted = Some(self.next_post);
            requester.post(self.next_post, request, false).unwrap();
            self.next_post += 1;
        }
    }

    fn complete(&mut self, index: usize, now_ns: u64, history: &mut History) {
        loop {
            let session = &mut self.sessions[index];
            let completion = session.requester.as_mut().unwrap().take_completion();
            let Some(Completion { id, result }) = completion else {
                return;
            };
            let Ok(outcome) = result else {
                // The whole connection has failed: see there.
                continue;
            };
            let is_it = |operation: &Operation| operation.posted == Some(id);
            let position = session.operations.iter().position(is_it).unwrap();
            let operation = &mut session.operations[position];
            operation.posted = None;
            let (is_over, tail) = step(operation, &outcome, history, now_ns);
            if let Some(tail) = tail {
                self.cache.insert(operation.chain, tail);
            }
            if let Stage::Swap(tail) = &mut operation.stage
                && outcome == Outcome::Done
                && let Action::Append { is_exact, .. } = operation.action
                && !is_exact
            {
                *tail = self.cache[&operation.chain];
            }
            if is_over {
                session.operations.remove(position);
            }
        }
    }
}

/// Takes an outcome. Whether the operation is over, and the last node as far as known.
fn step(
    operation: &mut Operation,
    outcome: &Outcome,
    history: &mut History,
    now_ns: u64,
) -> (bool, Option<Link>) {
    let (id, chain) = (operation.id, operation.chain);
    match (outcome, operation.stage, operation.action) {
        (Outcome::Done, Stage::Write, Action::Append { .. }) => {
            operation.stage = Stage::Swap(history.expected(id).unwrap_or(head(chain)));
            (false, None)
        }
        (Outcome::Original(original), Stage::Swap(tail), Action::Append { new, is_exact }) => {
            if *original == tail.empty().word() {
                history.append_ended(id, true, now_ns);
                return (true, Some(new));
            }
            if is_exact {
                history.append_ended(id, false, now_ns);
                return (true, Link::from_word(*original));
            }
            match Next::from_word(*original) {
                Some(Next::Node(link)) => {
                    operation.stage = Stage::Walk(link);
                    (false, None)
                }
                other => {
                    history.complain(format!("a failed append found {other:?}"));
                    (true, None)
                }
            }
        }
        (Outcome::Read(bytes), stage, action) => {
            let Ok(node) = Node::parse(bytes) else {
                history.complain(format!("no node at {stage:?} of chain {chain}"));
                return (true, None);
            };
            if node.chain != chain {
                history.complain(format!("a node of chain {} in {chain}", node.chain));
                return (true, None);
            }
            let successor = match node.next {
                Next::Node(link) => Some(link),
                _ => None,
            };
            match (stage, action) {
                (Stage::Resolve(_), Action::Append { new, is_exact }) => {
                    if node.own == new {
                        history.append_ended(id, true, now_ns);
                        return (true, Some(new));
                    }
                    match successor {
                        Some(link) if is_exact && link != new => {
                            history.append_ended(id, false, now_ns);
                            return (true, Some(link));
                        }
                        Some(link) => operation.stage = Stage::Resolve(link),
                        None => operation.stage = Stage::Swap(node.own),
                    }
                    (false, None)
                }
                (_, Action::Read) if successor.is_none() => {
                    history.read(chain, node.own, operation.started_ns, now_ns);
                    (true, Some(node.own))
                }
                _ => {
                    operation.stage = match (successor, action) {
                        (Some(link), _) => Stage::Walk(link),
                        (None, _) => Stage::Swap(node.own),
                    };
                    (false, Some(successor.unwrap_or(node.own)))
                }
            }
        }
        (outcome, stage, action) => panic!("{outcome:?} at {stage:?} of {action:?}"),
    }
}

impl Session {
    fn connect(&mut self, client: u8, index: usize, now_ns: u64, send: &mut impl FnMut(&[u8])) {
        if now_ns < self.connect_ns {
            return;
        }
        self.connect_ns = now_ns + CONNECT_NS;
        let attempt = Attempt {
            client: client.into(),
            index: index as u16,
            attempt: self.attempt,
        };
        let local = QueuePair {
            qpn: self.qpn + self.attempt + u32::from(self.node) * 0x40,
            first_psn: self.first_psn,
            mtu: Mtu::Bytes1024,
        };
        let request = Message::Connect(attempt, local);
        send(&setup_frame(&addresses(client, self.node), &request));
    }

    fn accept(&mut self, client: u8, server: &QueuePair, losses_max: u32) {
        self.is_up = true;
        let connection = Connection {
            addresses: addresses(client, self.node),
            local_qpn: self.qpn + self.attempt + u32::from(self.node) * 0x40,
            peer_qpn: server.qpn,
            mtu: Mtu::Bytes1024,
            first_psn: self.first_psn,
        };
        let retries = Retries {
            timeout_ns: TIMEOUT_NS,
            losses_max,
            not_ready_max: 10,
        };
        self.requester = Some(Requester::new(&connection, 16, 8, retries));
    }

    /// The connection has failed. Whether nodes were linked is unknown where that was tried.
    fn fail(&mut self, now_ns: u64) {
        self.is_up = false;
        self.attempt += 1;
        self.first_psn = self.first_psn.plus(0x1234);
        self.connect_ns = now_ns;
        for operation in &mut self.operations {
            if let (Stage::Swap(tail), Some(_)) = (operation.stage, operation.posted) {
                operation.stage = Stage::Resolve(tail);
            }
            operation.posted = None;
        }
    }
}
