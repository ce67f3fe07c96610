//! Errors of the middlebox on purpose: what becomes of single packets.

use chain::Next;
use roce::wire::{NakCode, Opcode};

use super::told;
use crate::tests::direct::{
    CHAIN, Direct, FIRST, acknowledge, nak, node, node_read, original, parsed, read,
};
use crate::tests::world::{head, node_bytes};
use crate::{Config, Faults, Step};

#[test]
fn a_coalesced_acknowledgement_without_injection_leaves_owners_waiting() {
    let mut config = Config::new(Step::Conversion, 1);
    config.faults = Faults {
        injects_no_acks: true,
        ..Faults::default()
    };
    let mut direct = Direct::with(config);
    direct.link();
    let [_, last] = direct.append_two();
    let answers = direct.response(&last[0], acknowledge());
    assert_eq!(answers.len(), 1);
    // Until it repeats its request.
    let answers = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    assert_eq!(told(&answers[0]).1, FIRST + 1);
}

#[test]
fn a_response_without_injection_leaves_the_owners_before_it_waiting() {
    for (injects_no_acks, expected) in [(false, 2), (true, 1)] {
        let mut config = Config::new(Step::Conversion, 1);
        config.faults.injects_no_acks = injects_no_acks;
        let mut direct = Direct::with(config);
        direct.link();
        direct.write(1, FIRST, node(2));
        let append = direct.append(1, FIRST + 1, head(CHAIN), node(2));
        assert_eq!(
            parsed(&append[0]).transport.body.opcode(),
            Opcode::WriteOnly
        );
        let read = direct.request(2, FIRST, read(node(1)));
        let bytes = node_bytes(node(1), CHAIN, 1);
        let answers = direct.response(&read[0], node_read(&bytes));
        assert_eq!(answers.len(), expected);
    }
}

#[test]
fn with_the_prototypes_recovery_one_owner_of_a_loss_goes_on() {
    let mut config = Config::new(Step::Conversion, 1);
    config.faults.resends_one_owner = true;
    let mut direct = Direct::with(config);
    direct.link();
    let [first, _] = direct.append_two();
    let again = direct.response(&first[0], nak(NakCode::PsnSequence));
    assert_eq!(again, first, "and not the other's");
}

#[test]
fn a_failure_with_another_generation_is_told_apart_only_by_the_generation() {
    let mut config = Config::new(Step::Write, 1);
    config.faults.ignores_generation = true;
    let mut direct = Direct::with(config);
    direct.write(0, FIRST + 1, node(1));
    let sent = direct.append(0, FIRST + 2, head(CHAIN), node(1));
    let other = Next::Empty { generation: 77 }.word();
    let answer = direct.response(&sent[0], original(other));
    let wrong = head(CHAIN).empty().word();
    assert_eq!(
        told(&answer[0]).0,
        wrong,
        "the fault takes it for a success"
    );
    let mut direct = Direct::new(Step::Write);
    direct.write(0, FIRST + 1, node(1));
    let sent = direct.append(0, FIRST + 2, head(CHAIN), node(1));
    let answer = direct.response(&sent[0], original(other));
    assert_eq!(told(&answer[0]).0, other);
}
