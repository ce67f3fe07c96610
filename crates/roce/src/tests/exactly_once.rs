//! A requester and a responder over a network that loses, repeats, reorders and damages packets, in
//! virtual time: each operation takes effect once, and completes once.
//!
//! All chance comes from one seed, which a failure names.

mod network;

use proptest::prelude::*;

use crate::endpoint::{
    ByteMemory, Completion, Connection, Event, Memory, Mtu, OperationError, Outcome, PostError,
    Region, Request, Requester, Responder, Retries,
};
use crate::limits::{OPERATIONS_MAX, READS_MAX};
use crate::wire::{AtomicEth, NakCode, Psn, Repr};
use network::{Faults, Network, Random};

const KEY: u32 = 0x77;
const START: u64 = 0x1000;
const MEMORY_LEN: usize = 8192;
const LIMIT_NS: u64 = 600_000_000_000;

/// Both ends, the network between them, and the memory.
struct Pair {
    requester: Requester,
    responder: Responder,
    memory: ByteMemory,
    network: Network<bool>,
    now_ns: u64,
    received: Vec<Event>,
    completions: Vec<Completion>,
    /// Whether the responder's host posts receives as messages arrive.
    are_receives_posted: bool,
}

impl Pair {
    fn new(seed: u64, faults: Faults, retries: Retries) -> Self {
        let mut random = Random(seed);
        let mtu = [Mtu::Bytes256, Mtu::Bytes512, Mtu::Bytes1024][random.below(3) as usize];
        let connection = Connection {
            addresses: network::addresses(),
            local_qpn: 0x11,
            peer_qpn: 0x12,
            mtu,
            // Often close to the wrap.
            first_psn: Psn::new(0xff_fff0_u32.wrapping_add(random.below(64) as u32)),
        };
        let peer = Connection {
            addresses: connection.addresses.reversed(),
            local_qpn: 0x12,
            peer_qpn: 0x11,
            ..connection
        };
        let window = 1 + random.below(40) as u32;
        let reads_max = 1 + random.below(READS_MAX as u64) as usize;
        let mut responder = Responder::new(&peer, 1);
        responder.regions.add(region()).unwrap();
        Self {
            requester: Requester::new(&connection, window, reads_max, retries),
            responder,
            memory: memory(),
            network: network::network(random.next(), faults),
            now_ns: 0,
            received: Vec::new(),
            completions: Vec::new(),
            are_receives_posted: true,
        }
    }

    /// Lets both ends do what they can until nothing is pending.
    fn run(&mut self) {
        self.transmit();
        while self.requester.pending() > 0 {
            let deadline_ns = self.requester.deadline_ns();
            let arrival_ns = self.network.next_ns();
            let next_ns = deadline_ns.into_iter().chain(arrival_ns).min();
            let next_ns = next_ns.expect("something is pending but nothing is due");
            self.now_ns = self.now_ns.max(next_ns);
            assert!(self.now_ns < LIMIT_NS, "it does not end");
            // A burst, so that acknowledgements are coalesced.
            let burst = 1 + self.network.random.below(4);
            for _ in 0..burst {
                self.deliver();
            }
            if self.are_receives_posted && self.network.random.below(2) == 0 {
                self.responder.post_receive();
            }
            let network = &mut self.network;
            self.responder.acknowledge(&mut |frame| {
                network.push(self.now_ns, false, frame);
            });
            self.transmit();
        }
    }

    fn transmit(&mut self) {
        let network = &mut self.network;
        self.requester.transmit(self.now_ns, &mut |frame| {
            network.push(self.now_ns, true, frame);
        });
        while let Some(completion) = self.requester.take_completion() {
            self.completions.push(completion);
        }
    }

    /// Delivers a frame that is due.
    fn deliver(&mut self) {
        let Some((is_request, frame)) = self.network.take(self.now_ns) else {
            return;
        };
        let Ok(packet) = Repr::parse(&frame) else {
            return;
        };
        if is_request {
            let network = &mut self.network;
            let event = self
                .responder
                .handle(&packet.transport, &mut self.memory, &mut |frame| {
                    network.push(self.now_ns, false, frame);
                });
            self.received.extend(event);
        } else {
            self.requester.handle(self.now_ns, &packet.transport);
        }
    }
}

fn region() -> Region {
    Region {
        key: KEY,
        start: START,
        len: MEMORY_LEN as u64,
        may_read: true,
        may_write: true,
        may_change_atomically: true,
    }
}

fn memory() -> ByteMemory {
    ByteMemory {
        start: START,
        bytes: vec![0; MEMORY_LEN],
    }
}

/// A request within the memory, mostly small.
fn request(random: &mut Random, number: u64) -> Request {
    let len = if random.below(4) == 0 {
        random.below(3000)
    } else {
        random.below(40)
    };
    let address = START + random.below(MEMORY_LEN as u64 - len);
    let immediate = (random.below(4) == 0).then_some(number as u32);
    let bytes = (0..len).map(|_| random.next() as u8).collect();
    let atomic = AtomicEth {
        // Few words, so that additions and swaps meet.
        address: START + 8 * random.below(4),
        key: KEY,
        swap_or_add: random.below(3),
        compare: random.below(3),
    };
    match random.below(8) {
        0 | 1 => Request::Read {
            address,
            key: KEY,
            len: len as u32,
        },
        2 => Request::Send { bytes, immediate },
        3 | 4 => Request::CompareSwap(atomic),
        5 => Request::FetchAdd(atomic),
        _ => Request::Write {
            address,
            key: KEY,
            bytes,
            immediate,
        },
    }
}

/// Executes a request as it should be, on memory without a network.
fn execute(request: &Request, memory: &mut ByteMemory) -> (Outcome, Option<Event>) {
    match request {
        Request::Write {
            address,
            bytes,
            immediate,
            ..
        } => {
            memory.write(*address, bytes);
            let event = immediate.map(|immediate| Event::Written { immediate });
            (Outcome::Done, event)
        }
        Request::Send { bytes, immediate } => {
            let event = Event::Received {
                bytes: bytes.clone(),
                immediate: *immediate,
            };
            (Outcome::Done, Some(event))
        }
        Request::Read { address, len, .. } => {
            let mut bytes = vec![0; *len as usize];
            memory.read(*address, &mut bytes);
            (Outcome::Read(bytes), None)
        }
        Request::CompareSwap(atomic) => {
            let (compare, swap) = (atomic.compare, atomic.swap_or_add);
            let original = memory.compare_swap(atomic.address, compare, swap);
            (Outcome::Original(original), None)
        }
        Request::FetchAdd(atomic) => {
            let original = memory.fetch_add(atomic.address, atomic.swap_or_add);
            (Outcome::Original(original), None)
        }
    }
}

const PATIENT: Retries = Retries {
    timeout_ns: 400_000,
    losses_max: 10_000,
    not_ready_max: 10_000,
};

/// Runs operations from a seed and compares everything with the model.
fn check_exactly_once(seed: u64, faults: Faults, count: u64, fenced_percent: u64) {
    let mut pair = Pair::new(seed, faults, PATIENT);
    let mut random = Random(!seed);
    let mut model = memory();
    let mut expected = Vec::new();
    let mut events = Vec::new();
    // The model's memory after each operation.
    let mut history = Vec::new();
    for id in 0..count {
        let request = request(&mut random, id);
        let is_fenced = random.below(100) < fenced_percent;
        let (outcome, event) = execute(&request, &mut model);
        history.push(model.bytes.clone());
        expected.push((request.clone(), outcome));
        events.extend(event);
        pair.requester.post(id, request, is_fenced).unwrap();
        // Some operations are posted while others are on their way.
        if random.below(5) == 0 {
            pair.transmit();
        }
    }
    pair.run();
    assert_eq!(pair.memory.bytes, model.bytes, "memory");
    assert_eq!(pair.received, events, "events");
    assert_eq!(pair.completions.len() as u64, count, "each completes once");
    for (index, completion) in pair.completions.iter().enumerate() {
        let (request, outcome) = &expected[index];
        assert_eq!(completion.id, index as u64, "completions are in order");
        let result = completion.result.as_ref().expect("no operation fails");
        let (Request::Read { address, .. }, Outcome::Read(bytes)) = (request, result) else {
            assert_eq!(result, outcome, "{request:?}");
            continue;
        };
        if fenced_percent == 100 {
            assert_eq!(result, outcome, "{request:?}");
            continue;
        }
        // A READ that was sent again sees later operations, but never earlier or other bytes.
        for (offset, byte) in bytes.iter().enumerate() {
            let place = (address - START) as usize + offset;
            let is_known = history[index..].iter().any(|state| state[place] == *byte);
            assert!(is_known, "byte {offset} of {request:?}");
        }
    }
    assert!(!pair.requester.has_failed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn each_operation_takes_effect_once(seed: u64, faults in network::faults()) {
        check_exactly_once(seed, faults, 60, 100);
    }

    #[test]
    fn unfenced_reads_see_nothing_older_than_themselves(seed: u64, faults in network::faults()) {
        check_exactly_once(seed, faults, 60, 30);
    }

    #[test]
    fn on_a_bad_connection_each_operation_completes_once_or_fails(
        seed: u64, faults in network::faults(),
    ) {
        let impatient = Retries { losses_max: 1, not_ready_max: 1, ..PATIENT };
        let mut pair = Pair::new(seed, faults, impatient);
        let mut random = Random(!seed);
        let mut model = memory();
        let mut outcomes = Vec::new();
        for id in 0..60 {
            let request = request(&mut random, id);
            outcomes.push(execute(&request, &mut model).0);
            prop_assert_eq!(pair.requester.post(id, request, true), Ok(()));
        }
        pair.run();
        let ids: Vec<u64> = pair.completions.iter().map(|completion| completion.id).collect();
        prop_assert_eq!(ids, (0..60).collect::<Vec<_>>());
        let failed = pair.completions.iter().position(|completion| completion.result.is_err());
        let succeeded = failed.unwrap_or(60);
        for (index, completion) in pair.completions.iter().enumerate() {
            match &completion.result {
                Ok(outcome) => prop_assert!(index < succeeded && *outcome == outcomes[index]),
                Err(error) => prop_assert_eq!(
                    index == succeeded,
                    *error != OperationError::Flushed,
                    "the first failure has the reason"
                ),
            }
        }
        prop_assert_eq!(pair.requester.has_failed(), succeeded < 60);
    }
}

#[test]
fn without_a_peer_the_oldest_operation_reports_it() {
    let mut pair = Pair::new(
        1,
        network::LOST,
        Retries {
            losses_max: 7,
            ..PATIENT
        },
    );
    let mut random = Random(1);
    for id in 0..3 {
        let request = request(&mut random, id);
        pair.requester.post(id, request, false).unwrap();
    }
    pair.run();
    let results: Vec<_> = pair
        .completions
        .iter()
        .map(|some| some.result.clone())
        .collect();
    assert_eq!(
        results,
        [
            Err(OperationError::RetriesExceeded),
            Err(OperationError::Flushed),
            Err(OperationError::Flushed)
        ]
    );
    // Eight times out, each after its time.
    assert_eq!(pair.now_ns, 8 * PATIENT.timeout_ns);
    let request = request(&mut random, 3);
    assert_eq!(
        pair.requester.post(3, request, false),
        Err(PostError::Failed)
    );
}

#[test]
fn a_peer_that_never_receives_is_reported() {
    let patience = Retries {
        not_ready_max: 3,
        ..PATIENT
    };
    let mut pair = Pair::new(2, Faults::NONE, patience);
    pair.are_receives_posted = false;
    let send = Request::Send {
        bytes: b"message".to_vec(),
        immediate: None,
    };
    pair.requester.post(0, send, false).unwrap();
    pair.run();
    assert_eq!(pair.completions[0].result, Err(OperationError::NotReady));
    assert_eq!(pair.responder.counters().naks, 4);
}

#[test]
fn a_refused_operation_says_why_and_those_before_it_succeed() {
    let mut pair = Pair::new(3, Faults::NONE, PATIENT);
    let write = |address, len| Request::Write {
        address,
        key: KEY,
        bytes: vec![1; len],
        immediate: None,
    };
    let end = START + MEMORY_LEN as u64;
    for (id, request) in [write(START, 9), write(end - 999, 1000), write(START, 9)]
        .into_iter()
        .enumerate()
    {
        pair.requester.post(id as u64, request, false).unwrap();
    }
    pair.run();
    let results: Vec<_> = pair
        .completions
        .iter()
        .map(|some| some.result.clone())
        .collect();
    assert_eq!(
        results,
        [
            Ok(Outcome::Done),
            Err(OperationError::Refused(NakCode::RemoteAccess)),
            Err(OperationError::Flushed)
        ]
    );
    assert_eq!(pair.received, [Event::Failed(NakCode::RemoteAccess)]);
    // Nothing of the refused WRITE is in memory.
    assert!(pair.memory.bytes[9..].iter().all(|byte| *byte == 0));
}

#[test]
fn the_queue_has_a_bound_that_completions_count_in() {
    let mut pair = Pair::new(4, Faults::NONE, PATIENT);
    let read = Request::Read {
        address: START,
        key: KEY,
        len: 8,
    };
    for id in 0..OPERATIONS_MAX as u64 {
        pair.requester.post(id, read.clone(), false).unwrap();
    }
    let refused = pair.requester.post(0, read.clone(), false);
    assert_eq!(refused, Err(PostError::Full));
    pair.run();
    assert_eq!(pair.completions.len(), OPERATIONS_MAX);
    assert_eq!(pair.requester.post(0, read, false), Ok(()));
}

#[test]
fn no_more_is_sent_ahead_than_was_agreed() {
    let connection = Connection {
        addresses: network::addresses(),
        local_qpn: 0x11,
        peer_qpn: 0x12,
        mtu: Mtu::Bytes256,
        first_psn: Psn::new(0),
    };
    let sent = |request: &Request| {
        let mut requester = Requester::new(&connection, 20, 4, PATIENT);
        for id in 0..40 {
            requester.post(id, request.clone(), false).unwrap();
        }
        let mut frames = 0;
        requester.transmit(0, &mut |_| frames += 1);
        requester.transmit(PATIENT.timeout_ns - 1, &mut |_| frames += 1);
        let mut again = 0;
        requester.transmit(PATIENT.timeout_ns, &mut |_| again += 1);
        assert_eq!(again, frames, "all of it is sent again");
        frames
    };
    let bytes = vec![0; 1000];
    let immediate = None;
    assert_eq!(sent(&Request::Send { bytes, immediate }), 20);
    let atomic = AtomicEth {
        address: START,
        key: KEY,
        swap_or_add: 1,
        compare: 0,
    };
    assert_eq!(sent(&Request::FetchAdd(atomic)), 4);
    let read = Request::Read {
        address: START,
        key: KEY,
        len: 1024,
    };
    assert_eq!(sent(&read), 4);
}
