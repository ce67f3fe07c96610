//! Clients and middleboxes that are started again, and frames of before.

use roce::connect::{Attempt, Message, QueuePair};
use roce::wire::{Body, Datagram, NakCode, Psn};

use super::linked;
use crate::tests::direct::{
    CHAIN, Direct, FIRST, Sent, nak, node, node_read, original, parsed, read,
};
use crate::tests::world::{addresses, head, node_bytes, setup_frame};
use crate::{Config, Middlebox, Side, Step};

fn message(sent: &Sent) -> Message {
    Message::parse(Datagram::parse(&sent.1).unwrap().payload).unwrap()
}

#[test]
fn a_client_that_was_started_again_learns_the_attempt_that_it_has_to_exceed() {
    for step in [Step::Write, Step::Conversion] {
        let mut direct = Direct::new(step);
        direct.connect(1, 5);
        let sent = direct.request_connection(1, 1);
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].0, Side::Client);
        let Message::Accept(attempt, pair) = message(&sent[0]) else {
            panic!("{sent:?}");
        };
        assert_eq!((attempt.client, attempt.attempt), (1, 5));
        assert_eq!(pair.first_psn.number(), FIRST);
        assert_eq!(direct.request_connection(1, 6).len(), 1, "it passes");
    }
}

#[test]
fn a_client_that_was_started_again_at_another_address_learns_it_too() {
    for step in [Step::Write, Step::Conversion] {
        let mut direct = Direct::new(step);
        direct.connect(1, 5);
        let (attempt, pair) = requested(&direct.request_connection(1, 5)[0]);
        let again = Attempt {
            attempt: 1,
            ..attempt
        };
        let request = Message::Connect(again, pair);
        let sent = direct.process(Side::Client, &setup_frame(&addresses(9, 0), &request));
        let reply = Datagram::parse(&sent[0].1).unwrap();
        assert_eq!(reply.addresses, addresses(9, 0).reversed());
        let known = Message::parse(reply.payload);
        assert!(matches!(known, Some(Message::Accept(known, _)) if known.attempt == 5));
    }
}

#[test]
fn a_late_repetition_of_an_earlier_request_to_connect_does_not_end_a_later_one() {
    let mut direct = Direct::new(Step::Write);
    direct.connect(1, 5);
    let sent = direct.request_connection(1, 6);
    direct.request_connection(1, 5);
    let connected = direct.middlebox.counters().connected;
    assert_eq!(direct.accept(1, &sent[0]).len(), 1);
    assert_eq!(direct.middlebox.counters().connected, connected + 1);
}

/// The attempt and the queue pair of a request to connect.
fn requested(sent: &Sent) -> (Attempt, QueuePair) {
    match message(sent) {
        Message::Connect(attempt, pair) => (attempt, pair),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_start_with_a_number_that_is_too_low_connects_with_a_higher_one() {
    let mut config = Config::new(Step::Mapping, 5);
    config.shared = 1;
    let mut direct = Direct::new(Step::Mapping);
    direct.middlebox = Middlebox::new(config).unwrap();
    let sent = direct.request_connection(1, 2);
    let (attempt, pair) = requested(&sent[0]);
    assert_eq!((sent.len(), attempt.attempt), (2, 5));
    let reply = |direct: &mut Direct, attempt: Attempt, first_psn: u32| {
        let pair = QueuePair {
            first_psn: Psn::new(first_psn),
            ..pair
        };
        let accept = Message::Accept(attempt, pair);
        direct.process(
            Side::Memory,
            &setup_frame(&addresses(1, 0).reversed(), &accept),
        )
    };
    // An earlier start has had 9, and then by chance the same number.
    let earlier = Attempt {
        attempt: 9,
        ..attempt
    };
    let sent = reply(&mut direct, earlier, 77);
    let (attempt, _) = requested(&sent[0]);
    assert_eq!(attempt.attempt, 10);
    assert!(reply(&mut direct, earlier, 77).is_empty(), "it is late");
    let sent = reply(&mut direct, attempt, 77);
    let (attempt, pair) = requested(&sent[0]);
    assert_eq!(attempt.attempt, 11);
    assert_eq!(direct.middlebox.counters().attempts_raised, 2);
    reply(&mut direct, attempt, pair.first_psn.number());
    direct.connect(1, 2);
    direct.write(1, FIRST, node(2));
}

#[test]
fn a_reply_with_a_higher_attempt_passes_to_a_client_that_was_started_again() {
    for step in [Step::Write, Step::Conversion] {
        let mut direct = Direct::new(step);
        // Neither was there when attempt 5 was accepted.
        let connect = direct.request_connection(1, 5);
        let mut config = Config::new(step, 2000);
        config.shared = 1;
        direct.middlebox = Middlebox::new(config).unwrap();
        direct.connect(2, 1);
        assert!(!direct.request_connection(1, 1).is_empty());
        let Message::Connect(attempt, pair) = message(&connect[0]) else {
            panic!("{connect:?}");
        };
        let reply = Message::Accept(attempt, pair);
        let frame = setup_frame(&addresses(1, 0).reversed(), &reply);
        let sent = direct.process(Side::Memory, &frame);
        assert_eq!(sent, [(Side::Client, frame)]);
        assert!(direct.append(1, FIRST, head(CHAIN), node(2)).is_empty());
    }
}

#[test]
fn a_repeated_request_to_connect_revives_no_connection_of_before_a_restart() {
    let mut direct = linked(Step::Write);
    direct.write(1, FIRST, node(2));
    // It is steered to node 1, and executed.
    let first = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    let mut config = Config::new(Step::Write, 2000);
    config.memory =
        crate::tests::world::START..crate::tests::world::START + crate::tests::world::MEMORY_LEN;
    direct.middlebox = Middlebox::new(config).unwrap();
    direct.connect(1, 1);
    // Without what was done with the first, the answer to the second would be misread.
    let again = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    assert!(again.is_empty());
    let answer = direct.response(&first[0], original(node(1).empty().word()));
    assert!(answer.is_empty());
}

/// A middlebox with two shared queue pairs, of which the one of the chain has died. Node 3 is
/// written and not linked. Returns the request to open it again.
fn died() -> (Direct, Sent) {
    let mut direct = Direct::with_shared(Config::new(Step::Mapping, 1), 2);
    direct.write(1, FIRST, node(2));
    direct.write(2, FIRST, node(3));
    let sent = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    let sent = direct.response(&sent[0], nak(NakCode::RemoteAccess));
    let reopened = sent.last().unwrap().clone();
    (direct, reopened)
}

#[test]
fn a_refused_shared_queue_pair_is_counted_and_others_are_used() {
    let (mut direct, reopened) = died();
    // Until it is known what became of the old one, no compare-and-swap passes.
    assert!(direct.append(2, FIRST + 1, head(CHAIN), node(3)).is_empty());
    let sent = direct.refuse(&reopened);
    assert_eq!(sent.len(), 1, "the append goes on");
    assert_eq!(direct.middlebox.counters().shared_refused, 1);
    let answer = direct.response(&sent[0], original(head(CHAIN).empty().word()));
    assert_eq!(answer.len(), 1);
    // It is still requested, and used when it is accepted.
    let mut again = Vec::new();
    for _ in 0..4 {
        direct.now_ns = direct.middlebox.deadline_ns().unwrap();
        again.extend(direct.tick());
    }
    assert!(again.contains(&reopened));
    direct.accept(1, &reopened);
    assert_eq!(direct.request(0, FIRST + 1, read(node(3))).len(), 1);
}

#[test]
fn what_waits_while_all_shared_queue_pairs_are_refused_uses_the_first_accepted_one() {
    let mut direct = Direct::with_shared(Config::new(Step::Mapping, 1), 2);
    // A READ of what is no known node uses the shared queue pair of its connection's number.
    let elsewhere = read(node(50));
    let sent = [(0, FIRST + 1), (1, FIRST)].map(|(client, psn)| {
        let mut sent = direct.request(client, psn, elsewhere);
        sent.remove(0)
    });
    let reopened = sent.map(|sent| {
        let died = direct.response(&sent, nak(NakCode::RemoteAccess));
        let reopened = died.last().unwrap().clone();
        direct.refuse(&reopened);
        reopened
    });
    assert_eq!(direct.middlebox.counters().shared_refused, 2);
    assert!(direct.request(2, FIRST, elsewhere).is_empty(), "it waits");
    let passed = direct.accept(1, &reopened[1]);
    assert_eq!(passed.len(), 1);
    assert_eq!(parsed(&passed[0]).transport.bth.qpn, 0x71);
}

#[test]
fn responses_to_a_shared_queue_pair_of_before_answer_nothing() {
    let (mut direct, reopened) = died();
    let Message::Connect(_, pair) = message(&reopened) else {
        panic!("{reopened:?}");
    };
    direct.accept(1, &reopened);
    let sent = direct.request(0, FIRST + 1, read(node(2)));
    let psn = parsed(&sent[0]).transport.bth.psn;
    assert_eq!(psn, pair.first_psn, "it is on the new one");
    // An answer of another kind is to a request of before.
    let ignored = direct.middlebox.counters().responses_ignored;
    assert!(direct.response(&sent[0], original(5)).is_empty());
    assert_eq!(direct.middlebox.counters().responses_ignored, ignored + 1);
    let bytes = node_bytes(node(2), CHAIN, 1);
    let answer = direct.response(&sent[0], node_read(&bytes));
    let body = parsed(&answer[0]).transport.body;
    assert!(matches!(body, Body::ReadResponseOnly { .. }), "{body:?}");
}
