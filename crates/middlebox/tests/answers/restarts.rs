//! Clients and middleboxes that are started again, and frames of before.

use middlebox::{Config, Middlebox, Side, Step};
use roce::connect::Message;
use roce::wire::Datagram;

use super::direct::{CHAIN, Direct, FIRST, Sent, node, original};
use super::linked;
use super::world::{addresses, head, setup_frame};

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
    config.memory = super::world::START..super::world::START + super::world::MEMORY_LEN;
    direct.middlebox = Middlebox::new(config).unwrap();
    direct.connect(1, 1);
    // Without what was done with the first, the answer to the second would be misread.
    let again = direct.append(1, FIRST + 1, head(CHAIN), node(2));
    assert!(again.is_empty());
    let answer = direct.response(&first[0], original(node(1).empty().word()));
    assert!(answer.is_empty());
}
