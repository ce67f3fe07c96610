//! What leaves the middlebox for single packets: the points in which the published prototype was
//! wrong, one test each.

mod bounds;
mod errors;
mod restarts;
mod reuse;

use chain::Next;
use roce::wire::{Aeth, AtomicEth, Body, NakCode, Opcode, Reth, Syndrome};

use crate::tests::direct::{
    CHAIN, Direct, FIRST, Sent, acknowledge, client_qpn, frame, nak, node, node_read, original,
    parsed, read, server_qpn, swap,
};
use crate::tests::world::{EXACT, STEERABLE, addresses, head, node_bytes};
use crate::{Config, ConfigError, Middlebox, Side, Step, Switches};

fn atomic(sent: &Sent) -> AtomicEth {
    match parsed(sent).transport.body {
        Body::CompareSwap(atomic) => atomic,
        other => panic!("{other:?}"),
    }
}

/// The original value that a client is told, and its sequence number.
fn told(sent: &Sent) -> (u64, u32) {
    assert_eq!(sent.0, Side::Client);
    let packet = parsed(sent);
    match packet.transport.body {
        Body::AtomicAcknowledge { original, .. } => (original, packet.transport.bth.psn.number()),
        other => panic!("{other:?}"),
    }
}

/// Client 0 has linked node 1 behind the head.
fn linked(step: Step) -> Direct {
    let mut direct = Direct::new(step);
    let answer = direct.link();
    assert_eq!(told(&answer[0]), (head(CHAIN).empty().word(), FIRST + 2));
    direct
}

#[test]
fn an_append_goes_to_the_tail_and_success_is_the_clients_own_operand() {
    let mut direct = linked(Step::Write);
    direct.write(1, FIRST, node(2));
    let sent = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    assert_eq!(atomic(&sent[0]), swap(node(1), node(2)));
    let answer = direct.response(&sent[0], original(node(1).empty().word()));
    assert_eq!(told(&answer[0]), (head(CHAIN).empty().word(), FIRST + 1));
}

#[test]
fn a_failed_append_is_answered_as_failed() {
    for step in [Step::Write, Step::Read, Step::Mapping] {
        let mut direct = linked(step);
        direct.write(1, FIRST, node(2));
        let sent = direct.append(1, FIRST + 1, head(CHAIN), node(2));
        let answer = direct.response(&sent[0], original(node(9).word()));
        assert_eq!(told(&answer[0]), (node(9).word(), FIRST + 1), "{step:?}");
        assert_eq!(direct.middlebox.counters().swaps_failed, 1);
    }
}

#[test]
fn a_failure_never_looks_like_a_success() {
    let mut direct = linked(Step::Write);
    direct.write(1, FIRST, node(2));
    let sent = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    // The slot of node 1 was used anew, and its generation is that of the head by chance.
    let same = head(CHAIN).empty().word();
    let answer = direct.response(&sent[0], original(same));
    let (told, _) = told(&answer[0]);
    assert_ne!(told, same);
    assert!(matches!(Next::from_word(told), Some(Next::Empty { .. })));
    assert_eq!(direct.middlebox.counters().originals_replaced, 1);
}

#[test]
fn a_conditional_append_is_left_alone() {
    for step in Step::ALL {
        let mut direct = linked(step);
        direct.write(1, FIRST, node(2));
        let exact = AtomicEth {
            key: EXACT,
            ..swap(head(CHAIN), node(2))
        };
        let sent = direct.request(1, FIRST + 1, Body::CompareSwap(exact));
        assert_eq!(atomic(&sent[0]), exact, "{step:?}");
        let answer = direct.response(&sent[0], original(node(1).word()));
        assert_eq!(told(&answer[0]).0, node(1).word());
    }
}

#[test]
fn a_client_of_a_slot_that_was_used_anew_is_not_steered() {
    let mut direct = linked(Step::Write);
    direct.write(1, FIRST, node(2));
    let stale = AtomicEth {
        compare: Next::Empty { generation: 99 }.word(),
        ..swap(head(CHAIN), node(2))
    };
    let sent = direct.request(1, FIRST + 1, Body::CompareSwap(stale));
    assert_eq!(atomic(&sent[0]), stale);
}

#[test]
fn a_read_goes_to_linked_nodes_only() {
    let mut direct = linked(Step::Read);
    direct.write(1, FIRST, node(2));
    let swap = direct.append(1, FIRST + 1, node(1), node(2));
    let target = |sent: &[Sent]| match parsed(&sent[0]).transport.body {
        Body::ReadRequest { reth } => reth.address,
        other => panic!("{other:?}"),
    };
    // Node 2 is on its way to be linked, and may fail.
    let sent = direct.request(2, FIRST, read(head(CHAIN)));
    assert_eq!(target(&sent), node(1).address());
    direct.response(&swap[0], original(node(1).empty().word()));
    let sent = direct.request(2, FIRST + 1, read(head(CHAIN)));
    assert_eq!(target(&sent), node(2).address());
}

#[test]
fn a_read_that_shows_a_successor_moves_the_hint_even_while_an_append_is_unanswered() {
    let mut direct = linked(Step::Read);
    direct.write(1, FIRST, node(2));
    // This client is dead, and its append was lost. Another has linked node 3 by itself.
    direct.append(1, FIRST + 1, node(1), node(2));
    let walk = direct.request(2, FIRST, read(head(CHAIN)));
    let mut bytes = node_bytes(node(1), CHAIN, 1);
    bytes[..8].copy_from_slice(&node(3).word().to_le_bytes());
    let aeth = Aeth {
        syndrome: Syndrome::UNLIMITED,
        msn: 1,
    };
    let payload = &bytes;
    direct.response(&walk[0], Body::ReadResponseOnly { aeth, payload });
    let sent = direct.request(2, FIRST + 1, read(node(3)));
    assert_eq!(
        parsed(&sent[0]).transport.body,
        read(node(3)),
        "and not back to node 1"
    );
}

#[test]
fn a_mapped_read_follows_the_operation_that_links_its_node() {
    let mut direct = linked(Step::Mapping);
    direct.write(1, FIRST, node(2));
    let swap = direct.append(1, FIRST + 1, node(1), node(2));
    let sent = direct.request(2, FIRST, read(head(CHAIN)));
    let (swap, read) = (parsed(&swap[0]).transport, parsed(&sent[0]).transport);
    let Body::ReadRequest { reth } = read.body else {
        panic!("{read:?}");
    };
    assert_eq!(reth.address, node(2).address());
    assert_eq!(read.bth.qpn, swap.bth.qpn);
    assert_eq!(read.bth.psn, swap.bth.psn.plus(1));
}

#[test]
fn without_mapping_an_append_waits_for_the_one_before() {
    let mut direct = linked(Step::Write);
    direct.write(1, FIRST, node(2));
    direct.write(2, FIRST, node(3));
    let first = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    assert!(direct.append(2, FIRST + 1, head(CHAIN), node(3)).is_empty());
    // What comes behind it on its connection waits too, and in order.
    assert!(direct.request(2, FIRST + 2, read(head(CHAIN))).is_empty());
    let sent = direct.response(&first[0], original(node(1).empty().word()));
    assert_eq!(sent.len(), 3);
    assert_eq!(told(&sent[0]).1, FIRST + 1);
    assert_eq!(atomic(&sent[1]), swap(node(2), node(3)));
    assert_eq!(parsed(&sent[2]).transport.body, read(head(CHAIN)));
}

#[test]
fn an_append_that_is_never_answered_does_not_stop_others_for_ever() {
    let mut direct = linked(Step::Write);
    direct.write(1, FIRST, node(2));
    direct.write(2, FIRST, node(3));
    direct.append(1, FIRST + 1, head(CHAIN), node(2));
    assert!(direct.append(2, FIRST + 1, head(CHAIN), node(3)).is_empty());
    direct.now_ns = direct.middlebox.deadline_ns().unwrap();
    let sent = direct.tick();
    assert_eq!(
        atomic(&sent[0]),
        swap(head(CHAIN), node(3)),
        "as the client sent it"
    );
    assert_eq!(direct.middlebox.counters().holds_expired, 1);
}

#[test]
fn a_retransmission_goes_where_the_first_went() {
    let mut direct = linked(Step::Write);
    direct.write(1, FIRST, node(2));
    direct.write(2, FIRST, node(3));
    let first = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    direct.response(&first[0], original(node(1).empty().word()));
    // The answer was lost behind the middlebox. The tail is node 2 now.
    let again = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    assert_eq!(again, first);
    let answer = direct.response(&again[0], original(node(1).empty().word()));
    assert_eq!(told(&answer[0]).0, head(CHAIN).empty().word());
}

#[test]
fn a_converted_append_is_a_write_of_the_word_as_memory_has_it() {
    let mut direct = linked(Step::Conversion);
    direct.write(1, FIRST, node(2));
    let sent = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    let expected = Body::WriteOnly {
        reth: Reth {
            address: node(1).address(),
            key: STEERABLE,
            len: 8,
        },
        immediate: None,
        payload: &node(2).word().to_le_bytes(),
    };
    assert_eq!(parsed(&sent[0]).transport.body, expected);
    let answer = direct.response(&sent[0], acknowledge());
    assert_eq!(told(&answer[0]), (head(CHAIN).empty().word(), FIRST + 1));
}

#[test]
fn one_acknowledgement_answers_every_owner() {
    let mut direct = linked(Step::Conversion);
    let [_, last] = direct.append_two();
    let answers = direct.response(&last[0], acknowledge());
    assert_eq!(answers.len(), 2);
    for (answer, client) in answers.iter().zip([1, 2]) {
        assert_eq!(told(answer), (head(CHAIN).empty().word(), FIRST + 1));
        let packet = parsed(answer);
        assert_eq!(packet.transport.bth.qpn, client_qpn(client));
        assert_eq!(packet.addresses, addresses(client, 0).reversed());
        let Body::AtomicAcknowledge { aeth, .. } = packet.transport.body else {
            panic!("{packet:?}");
        };
        // Two messages: the WRITE of the node, and this.
        assert_eq!(aeth.msn, 2);
    }
}

#[test]
fn a_loss_is_repaired_for_every_owner_and_a_dead_one() {
    for code in [true, false] {
        let mut direct = linked(Step::Conversion);
        let [first, second] = direct.append_two();
        // The memory node misses the first, or everything: then client 2 repeats its request.
        let again = if code {
            direct.response(&first[0], nak(NakCode::PsnSequence))
        } else {
            direct.now_ns += 1_000_000;
            direct.append(2, FIRST + 1, head(CHAIN), node(3))
        };
        assert_eq!(again, [first, second].concat());
    }
}

#[test]
fn without_traffic_a_loss_is_repaired_in_time() {
    let mut direct = linked(Step::Conversion);
    direct.write(1, FIRST, node(2));
    let first = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    let mut again = Vec::new();
    for _ in 0..2 {
        direct.now_ns = direct.middlebox.deadline_ns().unwrap();
        again.extend(direct.tick());
    }
    assert_eq!(again[0], first[0]);
}

#[test]
fn an_exact_operation_on_its_way_keeps_others_from_conversion() {
    let mut direct = linked(Step::Conversion);
    direct.write(1, FIRST, node(2));
    direct.write(2, FIRST, node(3));
    let exact = AtomicEth {
        key: EXACT,
        ..swap(node(1), node(2))
    };
    let first = direct.request(1, FIRST + 1, Body::CompareSwap(exact));
    assert!(direct.append(2, FIRST + 1, head(CHAIN), node(3)).is_empty());
    let sent = direct.response(&first[0], original(node(1).empty().word()));
    assert_eq!(told(&sent[0]).0, node(1).empty().word());
    let Body::WriteOnly { reth, .. } = parsed(&sent[1]).transport.body else {
        panic!("{sent:?}");
    };
    assert_eq!(
        reth.address,
        node(2).address(),
        "the exact one has succeeded"
    );
}

#[test]
fn an_anchor_that_moves_does_not_hide_the_node_that_an_exact_append_has_linked() {
    for step in [Step::Mapping, Step::Conversion] {
        let mut direct = linked(step);
        direct.write(1, FIRST, node(2));
        let exact = |atomic| {
            Body::CompareSwap(AtomicEth {
                key: EXACT,
                ..atomic
            })
        };
        let append = direct.request(1, FIRST + 1, exact(swap(node(1), node(2))));
        let advance = AtomicEth {
            compare: node(1).word(),
            ..swap(head(CHAIN), node(2))
        };
        let advance = direct.request(0, FIRST + 3, exact(advance));
        direct.response(&append[0], original(node(1).empty().word()));
        direct.response(&advance[0], original(node(1).word()));
        let sent = direct.request(2, FIRST, read(head(CHAIN)));
        let Body::ReadRequest { reth } = parsed(&sent[0]).transport.body else {
            panic!("{sent:?}");
        };
        assert_eq!(reth.address, node(2).address(), "{step:?}");
    }
}

#[test]
fn answers_come_in_the_order_of_the_clients_requests() {
    let mut direct = Direct::with_shared(Config::new(Step::Mapping, 1), 2);
    let Body::ReadRequest { reth } = read(head(CHAIN)) else {
        unreachable!();
    };
    let exact = Body::ReadRequest {
        reth: Reth { key: EXACT, ..reth },
    };
    // They use two shared queue pairs, and the second one is answered first.
    let first = direct.request(0, FIRST + 1, exact);
    let second = direct.request(0, FIRST + 2, read(head(CHAIN)));
    let qpn = |sent: &Sent| parsed(sent).transport.bth.qpn;
    assert_ne!(qpn(&first[0]), qpn(&second[0]));
    let bytes = node_bytes(head(CHAIN), CHAIN, 1);
    assert!(direct.response(&second[0], node_read(&bytes)).is_empty());
    let sent = direct.response(&first[0], node_read(&bytes));
    let psns: Vec<u32> = sent
        .iter()
        .map(|sent| parsed(sent).transport.bth.psn.number())
        .collect();
    assert_eq!(psns, [FIRST + 1, FIRST + 2]);
}

#[test]
fn messages_of_several_packets_are_refused_to_their_owner_alone() {
    let mut direct = linked(Step::Mapping);
    direct.write(1, FIRST, node(2));
    let payload = [0; 1024];
    let reth = Reth {
        address: node(5).address(),
        key: STEERABLE,
        len: 2048,
    };
    let first = Body::WriteFirst {
        reth,
        payload: &payload,
    };
    let sent = direct.request(2, FIRST, first);
    assert_eq!(sent.len(), 1);
    let packet = parsed(&sent[0]);
    assert_eq!(packet.transport.bth.qpn, client_qpn(2));
    let Body::Acknowledge { aeth } = packet.transport.body else {
        panic!("{packet:?}");
    };
    assert_eq!(aeth.syndrome, Syndrome::Nak(NakCode::InvalidRequest));
    assert_eq!(direct.middlebox.counters().refused, 1);
    let sent = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    assert_eq!(sent.len(), 1, "others go on");
}

#[test]
fn accesses_that_would_destroy_a_shared_queue_pair_are_refused() {
    let mut direct = linked(Step::Mapping);
    let outside = AtomicEth {
        address: 8,
        ..swap(head(CHAIN), node(2))
    };
    let other_key = AtomicEth {
        key: 1,
        ..swap(head(CHAIN), node(2))
    };
    for (client, body) in [(1, outside), (2, other_key)] {
        let sent = direct.request(client, FIRST, Body::CompareSwap(body));
        let Body::Acknowledge { aeth } = parsed(&sent[0]).transport.body else {
            panic!("{sent:?}");
        };
        assert_eq!(aeth.syndrome, Syndrome::Nak(NakCode::RemoteAccess));
    }
}

#[test]
fn a_gap_is_reported_without_acknowledging_what_is_open() {
    let mut direct = linked(Step::Mapping);
    direct.write(1, FIRST, node(2));
    let open = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    assert!(direct.request(1, FIRST + 3, read(head(CHAIN))).is_empty());
    let sent = direct.response(&open[0], original(node(1).empty().word()));
    assert_eq!(told(&sent[0]).1, FIRST + 1);
    let packet = parsed(&sent[1]).transport;
    assert_eq!(packet.body, {
        let Body::Acknowledge { mut aeth } = nak(NakCode::PsnSequence) else {
            unreachable!()
        };
        aeth.msn = 2;
        Body::Acknowledge { aeth }
    });
    assert_eq!(packet.bth.psn.number(), FIRST + 2);
}

#[test]
fn corrupted_packets_change_nothing_and_other_traffic_passes() {
    for step in [Step::Write, Step::Conversion] {
        let mut direct = linked(step);
        let mut broken = frame(
            addresses(1, 0),
            server_qpn(1),
            FIRST,
            Body::CompareSwap(swap(head(CHAIN), node(2))),
        );
        broken[60] ^= 1;
        assert!(direct.process(Side::Client, &broken).is_empty());
        assert_eq!(direct.middlebox.counters().corrupted, 1);
        let other = [7; 60];
        assert_eq!(
            direct.process(Side::Memory, &other),
            [(Side::Client, other.to_vec())]
        );
        assert_eq!(direct.middlebox.counters().foreign, 1);
    }
}

#[test]
fn without_any_step_frames_pass_unchanged_even_corrupted_ones() {
    let mut direct = linked(Step::Forward);
    let mut broken = frame(addresses(1, 0), 5, 1, read(head(CHAIN)));
    broken[60] ^= 1;
    let sent = direct.process(Side::Client, &broken);
    assert_eq!(sent, [(Side::Memory, broken)]);
}

#[test]
fn an_ended_chain_has_no_tail() {
    let mut direct = linked(Step::Conversion);
    let end = AtomicEth {
        key: EXACT,
        swap_or_add: Next::Closed.word(),
        ..swap(node(1), node(2))
    };
    let sent = direct.request(0, FIRST + 3, Body::CompareSwap(end));
    direct.response(&sent[0], original(node(1).empty().word()));
    direct.write(1, FIRST, node(2));
    let sent = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    assert_eq!(atomic(&sent[0]), swap(head(CHAIN), node(2)));
}

#[test]
fn conversion_without_mapping_is_refused() {
    let mut config = Config::new(Step::Read, 1);
    config.switches.conversion = true;
    let refused = Middlebox::new(config.clone()).err();
    assert_eq!(refused, Some(ConfigError::ConversionWithoutMapping));
    config.switches = Switches {
        mapping: true,
        ..config.switches
    };
    assert!(Middlebox::new(config).is_ok());
}

#[test]
fn after_a_restart_mapped_packets_are_dropped_and_nothing_is_converted_until_a_tail_is_known() {
    let mut direct = linked(Step::Conversion);
    let mut config = Config::new(Step::Conversion, 2000);
    config.shared = 1;
    direct.middlebox = Middlebox::new(config).unwrap();
    assert!(direct.request(1, FIRST, read(head(CHAIN))).is_empty());
    assert_eq!(direct.middlebox.counters().unknown_dropped, 1);
    direct.connect(1, 2);
    direct.write(1, FIRST, head(CHAIN));
    direct.write(1, FIRST + 1, node(2));
    let sent = direct.append(1, FIRST + 2, head(CHAIN), node(2));
    assert_eq!(
        parsed(&sent[0]).transport.body.opcode(),
        Opcode::CompareSwap
    );
}

#[test]
fn a_client_connects_again_only_when_its_old_operations_are_settled() {
    let mut direct = linked(Step::Conversion);
    direct.write(1, FIRST, node(2));
    let open = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    assert!(direct.connect(1, 2).is_empty());
    assert_eq!(direct.middlebox.counters().connects_delayed, 1);
    direct.response(&open[0], acknowledge());
    assert_eq!(direct.connect(1, 2).len(), 1);
}

#[test]
fn nodes_on_the_wrong_shard_are_refused() {
    let mut config = Config::new(Step::Mapping, 1);
    let wrong = 1 - crate::Shard::of(CHAIN, 2);
    config.shard = crate::Shard {
        index: 1 - wrong,
        count: 2,
    };
    let mut direct = Direct::with(config);
    let other = (1..)
        .find(|chain| crate::Shard::of(*chain, 2) == wrong)
        .unwrap();
    let payload = node_bytes(node(4), other, 1);
    let body = Body::WriteOnly {
        reth: Reth {
            address: node(4).address(),
            key: STEERABLE,
            len: payload.len() as u32,
        },
        immediate: None,
        payload: &payload,
    };
    let sent = direct.request(1, FIRST, body);
    assert_eq!(sent[0].0, Side::Client);
    assert_eq!(direct.middlebox.counters().refused, 1);
}
