//! Any input: no panic, bounded memory, and the same output however the input is split.

use http::limits::HEAD_LEN_MAX;
use proptest::prelude::*;

use crate::tests::client::{Client, responses};
use crate::tests::example::Example;

/// What the client received, whether it was disconnected, and what waits for more input.
fn outcome(pieces: &[&[u8]], turn_max: usize) -> (Vec<u8>, bool, Option<usize>) {
    let mut client = Client::new(Example::DEFAULT, turn_max);
    for piece in pieces {
        if client.is_closed {
            break;
        }
        client.send(piece);
    }
    let unconsumed = (!client.is_closed).then(|| client.unconsumed());
    (client.received, client.is_closed, unconsumed)
}

/// Parts of requests, in any order.
fn part() -> impl Strategy<Value = Vec<u8>> {
    let text = |it: &'static str| Just(it.as_bytes().to_vec());
    prop_oneof![
        4 => text("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"),
        2 => text("HEAD /ready HTTP/1.1\nHost: x\n\n"),
        1 => text("GET /stats.json HTTP/1.1\r\nHost: x\r\n\r\n"),
        1 => text("DELETE / HTTP/1.1\r\nHost: x\r\n\r\n"),
        1 => text("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
        1 => text("GET /metrics?x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        1 => text("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"),
        1 => text("\r\n"),
        1 => text("GET /a"),
        1 => text(" HTTP/1.1\r\n"),
        1 => text("Host: y\r\nAccept: text/plain\r\n"),
        1 => (0..HEAD_LEN_MAX + 9).prop_map(|len| vec![b'a'; len]),
        1 => (0..100_usize).prop_map(|count| b"A: b\r\n".repeat(count)),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn splitting_the_input_changes_nothing(
        parts in prop::collection::vec(part(), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        turn_max in 1..5_usize,
    ) {
        let input = parts.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(input.len());
        let mut from = 0;
        let mut pieces = Vec::new();
        for cut in cuts {
            pieces.push(&input[from..cut]);
            from = cut;
        }
        let whole = outcome(&[&input], 4);
        prop_assert_eq!(&whole, &outcome(&pieces, turn_max));
        prop_assert!(whole.2.unwrap_or(0) < HEAD_LEN_MAX);
    }

    #[test]
    fn a_byte_at_a_time_changes_nothing(
        parts in prop::collection::vec(part(), 0..4),
        turn_max in 1..3_usize,
    ) {
        let mut input = parts.concat();
        input.truncate(600);
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        prop_assert_eq!(outcome(&[&input], 4), outcome(&bytes, turn_max));
    }

    #[test]
    fn random_bytes_get_a_response_or_wait(
        input in prop::collection::vec(any::<u8>(), 0..300),
        start in prop_oneof![Just(&b""[..]), Just(&b"GET / HTTP/1.1\r\nHost: x\r\n"[..])],
    ) {
        let (received, is_closed, _) = outcome(&[start, &input], 4);
        // It parses as responses. All that is random here is no valid HEAD.
        let count = responses(&received, |_| false).len();
        prop_assert!(!is_closed || count > 0);
    }
}
