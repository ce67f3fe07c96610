//! Slots that are used anew, and clients that still know the older nodes: what the middlebox may
//! learn of tails from their operations.

use super::{atomic, linked};
use crate::Step;
use crate::tests::direct::{CHAIN, Direct, FIRST, node, original, swap};
use crate::tests::world::{EXACT, STEERABLE, head, node_bytes};

#[test]
fn a_failure_in_a_slot_that_was_used_anew_teaches_no_tail() {
    for step in [Step::Read, Step::Mapping] {
        let mut direct = Direct::new(step);
        // Slot 9 was of this chain before the middlebox was started, and is of another now, with
        // node 8 behind it.
        direct.write(0, FIRST + 1, node(1));
        let sent = direct.append(0, FIRST + 2, node(9), node(1));
        direct.response(&sent[0], original(node(8).word()));
        let other = node_bytes(node(8), CHAIN + 1, 1);
        let to = direct.walk(1, FIRST, head(CHAIN), &other);
        assert_eq!(to, head(CHAIN).address(), "{step:?}");
    }
}

#[test]
fn an_append_with_the_generation_of_an_older_node_is_not_of_the_newer_ones_chain() {
    let mut direct = linked(Step::Read);
    // Node 1 is forgotten by its chain, and its slot is of another chain.
    let newer = node(1).successor().unwrap();
    direct.write_to(CHAIN + 1, STEERABLE, 0, FIRST + 3, newer);
    direct.write(1, FIRST, node(2));
    // A client that still knows node 1 appends to it. Its compare-and-swap fails.
    let sent = direct.append(1, FIRST + 1, node(1), node(2));
    assert_eq!(atomic(&sent[0]), swap(node(1), node(2)));
    direct.response(&sent[0], original(node(2).word()));
    let to = direct.walk(2, FIRST, newer, &node_bytes(newer, CHAIN + 1, 1));
    assert_eq!(to, newer.address(), "and not node 2, of the first chain");
}

#[test]
fn a_slot_that_is_written_anew_is_no_tail_whatever_the_key() {
    for key in [STEERABLE, EXACT] {
        let mut direct = linked(Step::Read);
        let newer = node(1).successor().unwrap();
        direct.write_to(CHAIN, key, 0, FIRST + 3, newer);
        let to = direct.walk(2, FIRST, head(CHAIN), &node_bytes(head(CHAIN), CHAIN, 1));
        assert_eq!(to, head(CHAIN).address(), "key {key:#x}");
    }
}

#[test]
fn a_written_node_that_a_client_reads_by_an_old_link_is_no_tail() {
    for step in [Step::Read, Step::Mapping] {
        let mut direct = Direct::new(step);
        // Node 1 is written and not linked. Another client still knows an older node there.
        direct.write(0, FIRST + 1, node(1));
        direct.walk(1, FIRST, node(1), &node_bytes(node(1), CHAIN, 1));
        let private = node_bytes(node(5), CHAIN, 1);
        direct.walk(1, FIRST + 1, node(5), &private);
        let to = direct.walk(2, FIRST, head(CHAIN), &node_bytes(head(CHAIN), CHAIN, 1));
        assert_eq!(to, head(CHAIN).address(), "{step:?}");
    }
}

#[test]
fn a_read_of_another_chains_bytes_teaches_nothing() {
    let mut direct = linked(Step::Read);
    let mut bytes = node_bytes(node(1), CHAIN + 1, 1);
    bytes[..8].copy_from_slice(&node(3).word().to_le_bytes());
    direct.walk(1, FIRST, node(1), &bytes);
    let to = direct.walk(2, FIRST, head(CHAIN), &node_bytes(node(1), CHAIN, 1));
    assert_eq!(to, node(1).address());
}
