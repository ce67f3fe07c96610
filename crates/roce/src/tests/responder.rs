//! What a responder answers, packet by packet.

use crate::endpoint::{ByteMemory, Connection, Event, Memory, Mtu, Region, Responder};
use crate::limits::{MESSAGE_LEN_MAX, READS_MAX, RECEIVES_MAX};
use crate::wire::{
    Addresses, AtomicEth, Body, Bth, Ethernet, Ip, Ipv4, NakCode, Psn, Repr, Reth, Syndrome,
    Transport,
};

const KEY: u32 = 5;
const START: u64 = 4096;
const ATOMIC: AtomicEth = AtomicEth {
    address: START,
    key: KEY,
    swap_or_add: 1,
    compare: 0,
};

/// A responder with 4 KiB of memory, whose requests begin with number 0.
struct Peer {
    responder: Responder,
    memory: ByteMemory,
    event: Option<Event>,
}

/// A packet that the responder sent.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Acknowledge(u32, Syndrome),
    Read(u32, Vec<u8>),
    Original(u32, u64),
}

impl Peer {
    fn new() -> Self {
        let connection = Connection {
            addresses: Addresses {
                ethernet: Ethernet {
                    source: [2, 0, 0, 0, 0, 2],
                    target: [2, 0, 0, 0, 0, 1],
                },
                ip: Ip::V4(Ipv4::between([10, 0, 0, 2], [10, 0, 0, 1])),
                udp_source: 0xc000,
            },
            local_qpn: 2,
            peer_qpn: 1,
            mtu: Mtu::Bytes256,
            first_psn: Psn::new(0),
        };
        let mut responder = Responder::new(&connection, 12);
        let region = Region {
            key: KEY,
            start: START,
            len: 4096,
            may_read: true,
            may_write: true,
            may_change_atomically: true,
        };
        responder.regions.add(region).unwrap();
        Self {
            responder,
            memory: ByteMemory {
                start: START,
                bytes: vec![0; 4096],
            },
            event: None,
        }
    }

    /// What is answered to a request at once.
    fn send(&mut self, psn: u32, body: Body) -> Vec<Answer> {
        let bth = Bth {
            ack_requested: true,
            ..Bth::new(2, Psn::new(psn))
        };
        let mut answers = Vec::new();
        self.event =
            self.responder
                .handle(&Transport { bth, body }, &mut self.memory, &mut |frame| {
                    answers.push(answer(frame));
                });
        answers
    }

    /// What is answered at the end of a burst.
    fn acknowledge(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        self.responder.acknowledge(&mut |frame| {
            answers.push(answer(frame));
        });
        answers
    }
}

fn answer(frame: &[u8]) -> Answer {
    let Transport { bth, body } = Repr::parse(frame).unwrap().transport;
    assert_eq!(bth.qpn, 1);
    let psn = bth.psn.number();
    match body {
        Body::Acknowledge { aeth } => Answer::Acknowledge(psn, aeth.syndrome),
        Body::AtomicAcknowledge { original, .. } => Answer::Original(psn, original),
        other => Answer::Read(psn, other.payload().to_vec()),
    }
}

fn nak(psn: u32, code: NakCode) -> Vec<Answer> {
    vec![Answer::Acknowledge(psn, Syndrome::Nak(code))]
}

fn acknowledged(psn: u32) -> Vec<Answer> {
    vec![Answer::Acknowledge(psn, Syndrome::UNLIMITED)]
}

fn reth(offset: u64, len: u32) -> Reth {
    Reth {
        address: START + offset,
        key: KEY,
        len,
    }
}

fn write(offset: u64, payload: &[u8]) -> Body<'_> {
    Body::WriteOnly {
        reth: reth(offset, payload.len() as u32),
        immediate: None,
        payload,
    }
}

#[test]
fn several_writes_are_acknowledged_once() {
    let mut peer = Peer::new();
    for psn in 0..3 {
        assert_eq!(peer.send(psn, write(u64::from(psn), b"x")), []);
    }
    assert_eq!(peer.acknowledge(), acknowledged(2));
    assert_eq!(peer.acknowledge(), []);
    assert_eq!(&peer.memory.bytes[..4], b"xxx\0");
}

#[test]
fn a_missing_packet_is_reported_once_until_it_arrives() {
    let mut peer = Peer::new();
    assert_eq!(peer.send(1, write(0, b"b")), nak(0, NakCode::PsnSequence));
    assert_eq!(peer.send(2, write(0, b"c")), []);
    assert_eq!(peer.send(0, write(0, b"a")), []);
    assert_eq!(peer.send(2, write(0, b"c")), nak(1, NakCode::PsnSequence));
    assert_eq!(peer.memory.bytes[0], b'a');
}

#[test]
fn a_repeated_write_is_acknowledged_again_and_not_executed() {
    let mut peer = Peer::new();
    peer.send(0, write(0, b"first"));
    peer.send(1, write(0, b"after"));
    peer.acknowledge();
    assert_eq!(peer.send(0, write(0, b"first")), []);
    assert_eq!(peer.acknowledge(), acknowledged(1));
    assert_eq!(&peer.memory.bytes[..5], b"after");
}

#[test]
fn a_repeated_read_is_executed_again_for_any_part() {
    let mut peer = Peer::new();
    peer.memory.bytes[..600].copy_from_slice(&[7; 600]);
    let answers = peer.send(0, Body::ReadRequest { reth: reth(0, 600) });
    let part = |psn, len| Answer::Read(psn, vec![7; len]);
    assert_eq!(answers, [part(0, 256), part(1, 256), part(2, 88)]);
    let again = Body::ReadRequest {
        reth: reth(256, 344),
    };
    assert_eq!(peer.send(1, again), [part(1, 256), part(2, 88)]);
    // Not beyond what was requested before.
    let longer = Body::ReadRequest { reth: reth(0, 601) };
    assert_eq!(peer.send(1, longer), []);
    assert_eq!(peer.send(3, write(0, b"x")), []);
}

#[test]
fn a_repeated_atomic_operation_has_the_same_answer_and_no_effect() {
    let mut peer = Peer::new();
    assert_eq!(
        peer.send(0, Body::CompareSwap(ATOMIC)),
        [Answer::Original(0, 0)]
    );
    assert_eq!(
        peer.send(1, Body::CompareSwap(ATOMIC)),
        [Answer::Original(1, 1)]
    );
    assert_eq!(
        peer.send(2, Body::FetchAdd(ATOMIC)),
        [Answer::Original(2, 1)]
    );
    assert_eq!(
        peer.send(0, Body::CompareSwap(ATOMIC)),
        [Answer::Original(0, 0)]
    );
    assert_eq!(
        peer.send(2, Body::FetchAdd(ATOMIC)),
        [Answer::Original(2, 1)]
    );
    assert_eq!(peer.memory.fetch_add(START, 0), 2);
    // One whose result is not kept any more is not executed either.
    for psn in 3..3 + READS_MAX as u32 {
        peer.send(psn, Body::FetchAdd(ATOMIC));
    }
    assert_eq!(peer.send(2, Body::FetchAdd(ATOMIC)), []);
    assert_eq!(peer.memory.fetch_add(START, 0), 2 + READS_MAX as u64);
}

#[test]
fn requests_that_are_not_allowed_end_the_connection() {
    let other_key = Reth {
        key: 6,
        ..reth(0, 1)
    };
    let unaligned = AtomicEth {
        address: START + 4,
        ..ATOMIC
    };
    let outside = AtomicEth {
        address: START + 4096,
        ..ATOMIC
    };
    let payload: &[u8] = b"x";
    let long = [0; 300];
    let immediate = None;
    for (body, code) in [
        (Body::ReadRequest { reth: other_key }, NakCode::RemoteAccess),
        (
            Body::ReadRequest {
                reth: reth(4000, 97),
            },
            NakCode::RemoteAccess,
        ),
        (Body::CompareSwap(outside), NakCode::RemoteAccess),
        (Body::CompareSwap(unaligned), NakCode::InvalidRequest),
        (write(4096, payload), NakCode::RemoteAccess),
        (write(0, &long), NakCode::InvalidRequest),
        (Body::WriteMiddle { payload }, NakCode::InvalidRequest),
        (
            Body::WriteLast { immediate, payload },
            NakCode::InvalidRequest,
        ),
        (
            Body::SendLast { immediate, payload },
            NakCode::InvalidRequest,
        ),
        (
            Body::WriteOnly {
                reth: reth(0, 2),
                immediate,
                payload,
            },
            NakCode::InvalidRequest,
        ),
        (
            Body::WriteFirst {
                reth: reth(0, 257),
                payload,
            },
            NakCode::InvalidRequest,
        ),
        (
            Body::ReadRequest {
                reth: reth(0, MESSAGE_LEN_MAX as u32 + 1),
            },
            NakCode::InvalidRequest,
        ),
    ] {
        let mut peer = Peer::new();
        peer.responder.post_receive();
        assert_eq!(peer.send(0, body), nak(0, code), "{body:?}");
        assert_eq!(peer.event, Some(Event::Failed(code)));
        assert_eq!(peer.send(0, write(0, b"x")), []);
        assert_eq!(peer.acknowledge(), []);
        assert!(peer.memory.bytes.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_message_must_not_begin_within_another() {
    let mut peer = Peer::new();
    let payload = &[1; 256];
    let first = Body::WriteFirst {
        reth: reth(0, 300),
        payload,
    };
    assert_eq!(peer.send(0, first), []);
    let read = Body::ReadRequest { reth: reth(0, 1) };
    assert_eq!(peer.send(1, read), nak(1, NakCode::InvalidRequest));
}

#[test]
fn a_read_of_nothing_needs_no_key_and_has_an_answer() {
    let mut peer = Peer::new();
    let reth = Reth {
        key: 99,
        address: 3,
        len: 0,
    };
    assert_eq!(
        peer.send(0, Body::ReadRequest { reth }),
        [Answer::Read(0, vec![])]
    );
}

#[test]
fn messages_wait_for_receives() {
    let mut peer = Peer::new();
    let message = |immediate| Body::SendOnly {
        immediate,
        payload: b"message",
    };
    let not_ready = [Answer::Acknowledge(
        0,
        Syndrome::ReceiverNotReady { timer: 12 },
    )];
    assert_eq!(peer.send(0, message(None)), not_ready);
    assert_eq!(peer.send(1, message(None)), [], "later ones are dropped");
    assert!(peer.responder.post_receive());
    assert_eq!(peer.send(0, message(Some(9))), []);
    let received = Event::Received {
        bytes: b"message".to_vec(),
        immediate: Some(9),
    };
    assert_eq!(peer.event, Some(received));
    assert_eq!(peer.acknowledge(), acknowledged(0));
    for _ in 0..RECEIVES_MAX {
        assert!(peer.responder.post_receive());
    }
    assert!(!peer.responder.post_receive());
}

#[test]
fn a_write_with_immediate_data_is_not_executed_before_its_receive() {
    let mut peer = Peer::new();
    let body = Body::WriteOnly {
        reth: reth(0, 1),
        immediate: Some(9),
        payload: b"x",
    };
    let not_ready = [Answer::Acknowledge(
        0,
        Syndrome::ReceiverNotReady { timer: 12 },
    )];
    assert_eq!(peer.send(0, body), not_ready);
    assert_eq!(peer.memory.bytes[0], 0);
    assert!(peer.responder.post_receive());
    assert_eq!(peer.send(0, body), []);
    assert_eq!(peer.memory.bytes[0], b'x');
    assert_eq!(peer.event, Some(Event::Written { immediate: 9 }));
}
