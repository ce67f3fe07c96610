//! Tests of matching datagrams to requests, when datagrams come in any order, are lost or are
//! duplicated.

use proptest::prelude::*;
use workload::{Op, Request};

use super::*;
use crate::wire::Outcome;

/// `count` outstanding gets, with the opaque tokens 100, 101, … and the request numbers 0, 1, ….
fn outstanding(protocol: Protocol, count: u16) -> Answers {
    let mut answers = Answers::new(protocol, usize::from(count));
    for number in 0..count {
        let get = Request::new(Op::Get, u64::from(number));
        let mut request = InFlight::unmeasured(protocol, get, 100 + u64::from(number));
        request.datagram = number;
        answers.in_flight.push_back(request);
    }
    answers
}

/// A datagram whose frame header has these fields: request number, datagram number (from 0), and
/// number of datagrams of the answer.
fn datagram(request: u16, number: u16, total: u16, payload: &[u8]) -> Vec<u8> {
    let words = [request, number, total, 0];
    let header = words.into_iter().flat_map(u16::to_be_bytes);
    header.chain(payload.iter().copied()).collect()
}

/// The datagrams of a hit: the answer to request number `request`, cut into at most `total` pieces.
fn hit(request: u16, total: u16) -> Vec<Vec<u8>> {
    let value = vec![b'x'; 40 + usize::from(request)];
    let head = format!("VALUE key 0 {}\r\n", value.len());
    let answer = [head.as_bytes(), &value, b"\r\nEND\r\n"].concat();
    let piece_len = answer.len().div_ceil(usize::from(total));
    let pieces: Vec<&[u8]> = answer.chunks(piece_len).collect();
    let total = pieces.len() as u16;
    let frame = |(number, piece): (u16, &&[u8])| datagram(request, number, total, piece);
    (0..).zip(&pieces).map(frame).collect()
}

/// Generates two lists. The first has the number of datagrams of the answer to each of several
/// requests. The second has received datagrams, each with the number of its request, in any order.
/// Any datagram may be missing or duplicated.
fn arrivals() -> impl Strategy<Value = (Vec<usize>, Vec<(u16, Vec<u8>)>)> {
    proptest::collection::vec(1_u16..6, 1..8).prop_flat_map(|totals| {
        let answers: Vec<Vec<Vec<u8>>> = (0..)
            .zip(&totals)
            .map(|(number, &total)| hit(number, total))
            .collect();
        let lens: Vec<usize> = answers.iter().map(Vec::len).collect();
        let sent: Vec<(u16, Vec<u8>)> = (0..)
            .zip(answers)
            .flat_map(|(number, parts)| parts.into_iter().map(move |part| (number, part)))
            .collect();
        let count = sent.len();
        let arrived = proptest::collection::vec(0..count, 0..3 * count)
            .prop_map(move |order| order.into_iter().map(|at| sent[at].clone()).collect());
        (Just(lens), arrived)
    })
}

proptest! {
    #[test]
    fn only_the_last_missing_datagram_completes_an_answer((lens, arrived) in arrivals()) {
        let mut answers = outstanding(Protocol::Text, lens.len() as u16);
        let mut seen: Vec<Vec<Vec<u8>>> = vec![Vec::new(); lens.len()];
        let mut answered = vec![0; lens.len()];
        let mut duplicates = 0;
        for (number, datagram) in &arrived {
            let number = usize::from(*number);
            let is_new = !seen[number].contains(datagram);
            if is_new {
                seen[number].push(datagram.clone());
            }
            let before = answers.late_or_duplicate;
            let answer = answers.accept(datagram);
            // Exactly the last missing datagram completes the answer.
            let completes = is_new && seen[number].len() == lens[number];
            prop_assert_eq!(answer.is_some(), completes);
            if let Some(answer) = answer {
                answered[number] += 1;
                prop_assert_eq!(answer.request.opaque, 100 + number as u64);
                prop_assert_eq!(answer.answer.outcome, Outcome::Found);
                let payload: usize = seen[number].iter().map(|it| it.len() - HEADER_LEN).sum();
                prop_assert_eq!(answer.len as usize, payload);
            }
            duplicates += u64::from(!is_new);
            prop_assert_eq!(answers.late_or_duplicate - before, u64::from(!is_new));
        }
        prop_assert!(answered.iter().all(|&count| count <= 1));
        let unanswered = answered.iter().filter(|&&count| count == 0).count();
        prop_assert_eq!(answers.in_flight.len(), unanswered);
        prop_assert_eq!(answers.late_or_duplicate, duplicates);
        prop_assert_eq!(answers.malformed, 0);
    }

    #[test]
    fn any_datagram_is_ignored_or_answers_one_request(
        datagrams in proptest::collection::vec(
            (0_u16..4, 0_u16..4, 0_u16..4, proptest::collection::vec(any::<u8>(), 0..40)),
            0..40,
        )
    ) {
        let mut answers = outstanding(Protocol::Text, 4);
        let mut unanswered = 4;
        for (request, number, total, payload) in datagrams {
            let answer = answers.accept(&datagram(request, number, total, &payload));
            unanswered -= usize::from(answer.is_some());
            prop_assert_eq!(answers.in_flight.len(), unanswered);
        }
    }
}

#[test]
fn answer_after_the_time_out_is_ignored_and_counted() {
    let mut answers = outstanding(Protocol::Text, 2);
    let parts = hit(0, 3);
    assert!(answers.accept(&parts[0]).is_none());
    assert_eq!(answers.give_up(100).map(|it| it.datagram), Some(0));
    assert!(answers.give_up(100).is_none());
    for part in &parts {
        assert!(answers.accept(part).is_none());
    }
    assert_eq!((answers.late_or_duplicate, answers.in_flight.len()), (3, 1));
    assert!(answers.accept(&datagram(1, 0, 1, b"END\r\n")).is_some());
}

#[test]
fn answer_with_the_token_of_another_request_is_ignored_and_counted() {
    let mut answers = outstanding(Protocol::Meta, 2);
    assert!(answers.accept(&datagram(0, 0, 1, b"EN O101\r\n")).is_none());
    assert_eq!(answers.malformed, 1);
    let answer = answers.accept(&datagram(0, 0, 1, b"EN O100\r\n")).unwrap();
    assert_eq!(answer.answer.outcome, Outcome::Missed);
}

#[test]
fn all_replies_to_a_multiget_in_one_datagram_make_its_answer() {
    let mut answers = outstanding(Protocol::Meta, 1);
    let request = &mut answers.in_flight[0];
    (request.request.op, request.request.keys, request.replies) = (Op::MultiGet, 3, 3);
    let payload = b"VA 1 O100\r\na\r\nEN O100\r\nVA 1 O100\r\nb\r\n";
    let answer = answers.accept(&datagram(0, 0, 1, payload)).unwrap().answer;
    assert_eq!((answer.outcome, answer.hits), (Outcome::Found, 2));
}

#[test]
fn answer_with_more_values_than_keys_is_an_error() {
    let mut answers = outstanding(Protocol::Text, 1);
    let twice = datagram(0, 0, 1, b"VALUE k 0 1\r\na\r\nVALUE k 0 1\r\na\r\nEND\r\n");
    let answer = answers.accept(&twice).unwrap().answer;
    assert_eq!((answer.outcome, answer.hits), (Outcome::Error, 0));
}

#[test]
fn datagrams_without_a_valid_header_are_ignored_and_counted() {
    let mut answers = outstanding(Protocol::Text, 1);
    for junk in [
        // Too short for a header.
        b"END\r\n".to_vec(),
        // An answer of 0 datagrams.
        datagram(0, 0, 0, b"END\r\n"),
        // The second datagram of an answer of one.
        datagram(0, 1, 1, b"END\r\n"),
        // An answer of too many datagrams.
        datagram(0, 0, u16::MAX, b"END\r\n"),
    ] {
        assert!(answers.accept(&junk).is_none());
    }
    assert_eq!((answers.malformed, answers.in_flight.len()), (4, 1));
}

/// Real servers send answers that cannot be parsed: memcached 1.6.18 answers a multiget with
/// several datagrams, and each header says that its datagram is the only one of the answer.
#[test]
fn answer_that_cannot_be_parsed_counts_as_an_error() {
    for payload in [
        b"VALUE a 0 1\r\nx\r\n".as_slice(),
        b"END\r\nEND\r\n",
        b"EN",
        b"VA 1\r\n",
    ] {
        let mut answers = outstanding(Protocol::Text, 1);
        let answer = answers.accept(&datagram(0, 0, 1, payload)).unwrap();
        assert_eq!(answer.answer.outcome, Outcome::Error);
        assert!(answers.in_flight.is_empty());
    }
}
