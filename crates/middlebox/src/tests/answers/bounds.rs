//! Small tables, connections that fail while they wait, gaps, and shared queue pairs that die.

use roce::connect::Message;
use roce::wire::{Body, Datagram, NakCode, Reth, Syndrome};

use super::{atomic, linked};
use crate::tests::direct::{CHAIN, Direct, FIRST, Sent, nak, node, original, parsed, read, swap};
use crate::tests::world::{EXACT, STEERABLE, head};
use crate::{Config, Step};

#[test]
fn nodes_between_an_owned_tail_and_the_last_one_on_its_way_are_not_evicted() {
    let mut config = Config::new(Step::Mapping, 1);
    config.addresses = 8;
    let mut direct = Direct::with(config);
    direct.link();
    let [first, second] = direct.append_two();
    assert_eq!(atomic(&second[0]), swap(node(2), node(3)));
    for number in 0..6 {
        let other = node(10 + u64::from(number));
        direct.write_to(CHAIN + 1, STEERABLE, 0, FIRST + 3 + number, other);
    }
    assert!(direct.middlebox.counters().addresses_evicted > 0);
    direct.response(&first[0], original(node(1).empty().word()));
    direct.response(&second[0], original(node(2).empty().word()));
    assert_eq!(direct.middlebox.counters().tails_disowned, 0);
}

#[test]
fn a_client_that_connects_again_and_again_waits_once() {
    let mut config = Config::new(Step::Write, 1);
    config.hold_max_ns = 1 << 40;
    let mut direct = Direct::with(config);
    direct.write(1, FIRST, node(2));
    direct.append(1, FIRST + 1, head(CHAIN), node(2));
    for attempt in 2..6 {
        direct.connect(2, attempt);
        direct.write(2, FIRST, node(3));
        assert!(direct.append(2, FIRST + 1, head(CHAIN), node(3)).is_empty());
        assert_eq!(direct.middlebox.sizes().waiters, 1);
    }
}

#[test]
fn a_read_of_several_packets_is_not_steered() {
    let mut direct = linked(Step::Read);
    let long = |len| Body::ReadRequest {
        reth: Reth {
            address: head(CHAIN).address(),
            key: STEERABLE,
            len,
        },
    };
    let sent = direct.request(1, FIRST, long(1025));
    assert_eq!(parsed(&sent[0]).transport.body, long(1025));
    let sent = direct.request(1, FIRST + 2, long(1024));
    assert_ne!(
        parsed(&sent[0]).transport.body,
        long(1024),
        "and one packet is"
    );
}

#[test]
fn the_cause_of_a_shared_queue_pairs_death_is_told_for_the_request_that_has_it() {
    for is_first in [true, false] {
        let mut direct = Direct::with_shared(Config::new(Step::Mapping, 1), 2);
        let Body::ReadRequest { reth } = read(head(CHAIN)) else {
            unreachable!();
        };
        let exact = Body::ReadRequest {
            reth: Reth { key: EXACT, ..reth },
        };
        let other = direct.request(0, FIRST + 1, exact);
        let second = direct.request(0, FIRST + 2, read(head(CHAIN)));
        let qpn = |sent: &Sent| parsed(sent).transport.bth.qpn;
        assert_ne!(qpn(&other[0]), qpn(&second[0]));
        let failed = if is_first { &other } else { &second };
        let told = direct.response(&failed[0], nak(NakCode::RemoteAccess));
        let packet = parsed(&told[0]).transport;
        let Body::Acknowledge { aeth } = packet.body else {
            panic!("{packet:?}");
        };
        assert_eq!(packet.bth.psn.number(), FIRST + 1);
        let code = if is_first {
            NakCode::RemoteAccess
        } else {
            NakCode::RemoteOperation
        };
        assert_eq!(aeth.syndrome, Syndrome::Nak(code));
    }
}

#[test]
fn after_the_last_number_of_attempts_a_dead_shared_queue_pair_stays_closed() {
    let mut direct = Direct::with(Config::new(Step::Mapping, u32::MAX));
    let sent = direct.request(0, FIRST + 1, read(head(CHAIN)));
    let sent = direct.response(&sent[0], nak(NakCode::RemoteAccess));
    let request = Datagram::parse(&sent.last().unwrap().1).unwrap();
    let Some(Message::Connect(attempt, _)) = Message::parse(request.payload) else {
        panic!("no request to connect");
    };
    assert_eq!(
        attempt.attempt, 0,
        "lower than all that memory nodes accept"
    );
}

#[test]
fn owners_connect_again_only_when_a_dead_shared_queue_pair_is_replaced() {
    let mut config = Config::new(Step::Mapping, 1);
    config.resends_max = 1;
    let mut direct = Direct::with(config);
    direct.write(1, FIRST, node(2));
    // The append's packet is still in the network when the shared queue pair dies.
    direct.append(1, FIRST + 1, head(CHAIN), node(2));
    let mut sent = Vec::new();
    while direct.middlebox.counters().shared_dead == 0 {
        direct.now_ns = direct.middlebox.deadline_ns().unwrap();
        sent = direct.tick();
    }
    let connected = direct.middlebox.counters().connected;
    direct.connect(1, 2);
    assert_eq!(direct.middlebox.counters().connected, connected);
    let reopened = sent.last().unwrap();
    direct.accept(1, reopened);
    direct.connect(1, 2);
    assert_eq!(direct.middlebox.counters().connected, connected + 1);
}

#[test]
fn all_shared_queue_pairs_without_requests_are_opened_again_with_one_that_is_dead() {
    let mut config = Config::new(Step::Mapping, 1);
    config.resends_max = 1;
    let mut direct = Direct::with_shared(config, 4);
    // One is in use.
    direct.request(0, FIRST + 1, read(head(CHAIN)));
    let before = direct.middlebox.counters();
    let mut sent = Vec::new();
    while direct.middlebox.counters().shared_dead == before.shared_dead {
        direct.now_ns = direct.middlebox.deadline_ns().unwrap();
        sent = direct.tick();
    }
    let connects = |sent: &Sent| {
        let request = Datagram::parse(&sent.1).ok()?;
        match Message::parse(request.payload)? {
            Message::Connect(attempt, _) => Some(attempt.index),
            _ => None,
        }
    };
    let mut reopened: Vec<u16> = sent.iter().filter_map(connects).collect();
    reopened.sort_unstable();
    assert_eq!(reopened, [0, 1, 2, 3]);
}

#[test]
fn without_mapping_a_compare_and_swap_waits_for_what_is_missing_before_it() {
    let mut direct = linked(Step::Write);
    direct.write(1, FIRST, node(2));
    // The READ before it is lost on its way. What comes later passes, and shows that.
    assert!(direct.append(1, FIRST + 2, head(CHAIN), node(2)).is_empty());
    assert_eq!(direct.request(1, FIRST + 3, read(head(CHAIN))).len(), 1);
    assert_eq!(direct.middlebox.counters().out_of_sequence, 1);
    // Another append of the chain is on its way when all are sent again.
    direct.write(2, FIRST, node(3));
    let other = direct.append(2, FIRST + 1, head(CHAIN), node(3));
    assert_eq!(direct.request(1, FIRST + 1, read(head(CHAIN))).len(), 1);
    assert!(direct.append(1, FIRST + 2, head(CHAIN), node(2)).is_empty());
    let sent = direct.response(&other[0], original(node(1).empty().word()));
    assert_eq!(
        atomic(&sent[1]),
        swap(node(3), node(2)),
        "it did not starve"
    );
}
