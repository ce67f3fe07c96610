//! The session and the model give the same replies to the same input. So does memcached, if it is
//! installed.
//!
//! The input is random: a few clients send commands for a few keys, sometimes with a wrong byte,
//! and time passes between them. The session receives the input split at random offsets, on which
//! its replies must not depend.

use std::cell::RefCell;
use std::ops::Range;

use curtail_tests::client::Client;
use curtail_tests::pattern::show;
use curtail_tests::peer::{ClientId, ModelPeer, Peer, Received, SessionPeer};
use curtail_tests::process::{Server, memcached_command, reference_memcached};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;

/// One step of a random test.
#[derive(Clone)]
enum Event {
    /// A client sends these bytes. The session receives them split at these offsets.
    Send(usize, Vec<u8>, Vec<Index>),
    /// This number of seconds passes.
    Tick(u64),
}

impl std::fmt::Debug for Event {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Send(who, sent, _) => write!(formatter, "client {who}: {}", show(sent)),
            Self::Tick(seconds) => write!(formatter, "{seconds} s pass"),
        }
    }
}

const CLIENTS: Range<usize> = 0..2;

fn key() -> impl Strategy<Value = &'static str> {
    select(&["a", "b", "c", "Zm9v", "a-somewhat-longer-key"][..])
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let large = (16_000..40_000_usize).prop_map(|len| vec![b'v'; len]);
    let counter = select(
        &[
            "0",
            "7",
            "99",
            "007",
            "12 ",
            "18446744073709551615",
            "1x",
            "",
        ][..],
    );
    prop_oneof![
        8 => counter.prop_map(|text| text.as_bytes().to_vec()),
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => large,
    ]
}

fn exptime() -> impl Strategy<Value = i32> {
    select(
        &[
            0,
            0,
            0,
            100,
            1,
            2,
            3,
            -1,
            2_592_000,
            2_592_001,
            1_700_000_004,
        ][..],
    )
}

/// Numbers that no counter reaches: those a cache gives are its own affair.
fn cas() -> impl Strategy<Value = u64> {
    select(&[1_000_000_000_u64, 2_000_000_000, 3_000_000_000][..])
}

fn noreply() -> impl Strategy<Value = &'static str> {
    select(&["", "", "", " noreply"][..])
}

/// A line and its data block.
fn block(line: &str, value: &[u8]) -> Vec<u8> {
    [line.as_bytes(), b"\r\n", value, b"\r\n"].concat()
}

fn line(line: String) -> Vec<u8> {
    (line + "\r\n").into_bytes()
}

fn classic() -> impl Strategy<Value = Vec<u8>> {
    let store = (
        select(&["set", "set", "add", "replace", "append", "prepend"][..]),
        key(),
        any::<u16>(),
        exptime(),
        value(),
        noreply(),
    )
        .prop_map(|(word, key, flags, exptime, value, noreply)| {
            let len = value.len();
            block(
                &format!("{word} {key} {flags} {exptime} {len}{noreply}"),
                &value,
            )
        });
    let compare = (key(), exptime(), value(), cas(), noreply()).prop_map(
        |(key, exptime, value, cas, noreply)| {
            let len = value.len();
            block(
                &format!("cas {key} 0 {exptime} {len} {cas}{noreply}"),
                &value,
            )
        },
    );
    let fetch = (
        prop::collection::vec(key(), 1..6),
        prop::option::of(exptime()),
    )
        .prop_map(|(keys, exptime)| match exptime {
            None => line(format!("get {}", keys.join(" "))),
            Some(exptime) => line(format!("gat {exptime} {}", keys.join(" "))),
        });
    let count = (select(&["incr", "decr"][..]), key(), 0..100_u64, noreply())
        .prop_map(|(word, key, delta, noreply)| line(format!("{word} {key} {delta}{noreply}")));
    let change = (key(), exptime(), noreply(), any::<bool>()).prop_map(
        |(key, exptime, noreply, is_touch)| {
            line(if is_touch {
                format!("touch {key} {exptime}{noreply}")
            } else {
                format!("delete {key}{noreply}")
            })
        },
    );
    let flush = select(
        &[
            "flush_all",
            "flush_all 1",
            "flush_all 3",
            "flush_all noreply",
        ][..],
    );
    prop_oneof![
        8 => store,
        2 => compare,
        8 => fetch,
        4 => count,
        3 => change,
        1 => flush.prop_map(|text| line(text.to_owned())),
    ]
}

/// Some of these flags, in any order.
fn some(flags: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(flags, 0..=flags.len()).prop_shuffle()
}

/// A flag with one of these tokens, or none.
fn maybe(flags: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop_oneof![2 => Just(""), 1 => select(flags)]
}

/// Times to live, and in between those that `R` looks for: a second more or less changes nothing.
const TOUCH: &[&str] = &["T0", "T100", "T200", "T-1"];
const VIVIFY: &[&str] = &["N0", "N100", "N300", "N-1"];
const RECACHE: &[&str] = &["R0", "R50", "R150", "R250", "R-1"];
const COMPARE: &[&str] = &["C0", "C1000000000", "C2000000000", "C3000000000"];
const EXPLICIT: &[&str] = &["E1000000000", "E2000000000", "E3000000000"];

/// A key and the flag that says whether it is base64.
fn meta_key() -> impl Strategy<Value = (&'static str, &'static str)> {
    select(
        &[
            ("a", ""),
            ("foo", ""),
            ("Zm9v", "b"),
            ("Zm9v", ""),
            ("YQ==", "b"),
        ][..],
    )
}

/// Flags in any order, behind the key they belong to.
fn flags(
    own: impl Strategy<Value = Vec<&'static str>>,
    tokens: impl Strategy<Value = Vec<&'static str>>,
) -> impl Strategy<Value = (&'static str, String)> {
    let common = some(&["k", "q", "Oabc"]);
    (meta_key(), own, tokens, common)
        .prop_flat_map(|((key, base64), own, tokens, common)| {
            let mut all = [own, tokens, common].concat();
            all.push(base64);
            all.retain(|flag| !flag.is_empty());
            (Just(key), Just(all).prop_shuffle())
        })
        .prop_map(|(key, flags)| (key, flags.join(" ")))
}

fn meta_get() -> impl Strategy<Value = Vec<u8>> {
    let tokens = (
        maybe(TOUCH),
        maybe(VIVIFY),
        maybe(RECACHE),
        maybe(COMPARE),
        maybe(EXPLICIT),
    );
    let tokens = tokens.prop_map(|(touch, vivify, recache, compare, explicit)| {
        vec![touch, vivify, recache, compare, explicit]
    });
    flags(some(&["v", "t", "f", "s", "h", "c", "u"]), tokens)
        .prop_map(|(key, flags)| line(format!("mg {key} {flags}")))
}

fn meta_set(value: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let modes = maybe(&["ME", "MA", "MP", "MR", "MS"]);
    let tokens = (
        maybe(TOUCH),
        maybe(VIVIFY),
        maybe(COMPARE),
        maybe(EXPLICIT),
        modes,
    );
    let tokens = tokens.prop_map(|(touch, vivify, compare, explicit, mode)| {
        vec![touch, vivify, compare, explicit, mode]
    });
    (flags(some(&["s", "c", "I", "F5"]), tokens), value).prop_map(|((key, flags), value)| {
        block(&format!("ms {key} {} {flags}", value.len()), &value)
    })
}

fn meta_delete() -> impl Strategy<Value = Vec<u8>> {
    let tokens = (maybe(TOUCH), maybe(COMPARE), maybe(EXPLICIT));
    let tokens = tokens.prop_map(|(touch, compare, explicit)| vec![touch, compare, explicit]);
    flags(some(&["I", "x", "F6"]), tokens)
        .prop_map(|(key, flags)| line(format!("md {key} {flags}")))
}

fn meta_arith() -> impl Strategy<Value = Vec<u8>> {
    let tokens = (maybe(TOUCH), maybe(VIVIFY), maybe(COMPARE), maybe(EXPLICIT));
    let tokens = tokens
        .prop_map(|(touch, vivify, compare, explicit)| vec![touch, vivify, compare, explicit]);
    flags(some(&["v", "t", "c", "D13", "MD", "J5"]), tokens)
        .prop_map(|(key, flags)| line(format!("ma {key} {flags}")))
}

fn meta_debug() -> impl Strategy<Value = Vec<u8>> {
    meta_key().prop_map(|(key, base64)| line(format!("me {key} {base64} k")))
}

fn meta() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => meta_get(),
        6 => meta_set(value()),
        3 => meta_delete(),
        4 => meta_arith(),
        1 => meta_debug(),
        1 => Just(b"mn\r\n".to_vec()),
    ]
}

/// What a client says in one go: some commands, and at times a byte gone wrong.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let commands = prop::collection::vec(prop_oneof![classic(), meta()], 1..6);
    let wrong = prop::option::weighted(0.05, (any::<Index>(), any::<u8>()));
    (commands, wrong).prop_map(|(commands, wrong)| {
        let mut bytes = commands.concat();
        // A number may only show where the client names it.
        let shows_number = bytes.windows(3).any(|some| some == b" c ");
        if let Some((place, byte)) = wrong.filter(|_| !shows_number) {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes
    })
}

fn event() -> impl Strategy<Value = Event> {
    let cuts = prop::collection::vec(any::<Index>(), 0..4);
    prop_oneof![
        8 => (CLIENTS, input(), cuts).prop_map(|(who, sent, cuts)| Event::Send(who, sent, cuts)),
        1 => (1..4_u64).prop_map(Event::Tick),
    ]
}

/// Receives all replies of a peer. Returns them, and whether the connection has ended.
fn receive_all(peer: &mut dyn Peer, client: ClientId) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    loop {
        match peer.receive(client).unwrap() {
            Received::Bytes(more) => bytes.extend(more),
            Received::End => return (bytes, true),
            Received::Nothing => return (bytes, false),
        }
    }
}

/// Whether the replies may contain a CAS or statistics, which differ between caches.
fn has_incomparable_reply(sent: &[u8]) -> bool {
    sent.windows(4)
        .any(|some| some == b"gets" || some == b"gats" || some == b"stat")
}

/// A reply without the numbers that differ between caches: CAS, size and last access of an item.
/// A time to live is reduced to hundreds of seconds, because time passes in a server process while
/// the test runs.
fn comparable(reply: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(reply.len());
    for line in reply.split_inclusive(|&byte| byte == b'\n') {
        for word in line.split_inclusive(|&byte| byte == b' ') {
            let equals = word.iter().position(|&byte| byte == b'=');
            let (name, number) = match (equals, word.first()) {
                (Some(at), _) if line.starts_with(b"ME ") => word.split_at(at + 1),
                (_, Some(b'c' | b't')) => word.split_at(1),
                _ => word.split_at(0),
            };
            let digits = number
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            let value = str::from_utf8(&number[..digits])
                .ok()
                .and_then(|text| text.parse().ok());
            let value: Option<u64> =
                value.filter(|_| matches!(number.get(digits), Some(b' ' | b'\r')));
            kept.extend_from_slice(name);
            match (name, value) {
                (b"c" | b"cas=" | b"size=" | b"la=", Some(_)) => kept.push(b'?'),
                // The item has expired: memcached subtracts modulo 2^32.
                (b"t", Some(4_000_000_000..)) => kept.push(b'0'),
                (b"t" | b"exp=", Some(left_s)) => {
                    kept.extend(left_s.div_ceil(100).to_string().into_bytes());
                }
                _ => kept.extend_from_slice(&number[..digits]),
            }
            kept.extend_from_slice(&number[digits..]);
        }
    }
    kept
}

/// Executes the events in the model and in the session, and compares the replies.
fn agree(events: &[Event], in_place: bool) {
    let mut model = ModelPeer::new();
    let mut session = SessionPeer::new(in_place).unwrap();
    let mut log = String::new();
    for _ in CLIENTS {
        assert_eq!(model.connect().unwrap(), session.connect().unwrap());
    }
    for event in events {
        match event {
            Event::Tick(seconds) => {
                log += &format!("{seconds} s pass\n");
                model.tick(*seconds).unwrap();
                session.tick(*seconds).unwrap();
            }
            Event::Send(who, sent, cuts) if !has_incomparable_reply(sent) => {
                log += &format!("client {who}: {}\n", show(sent));
                let client = ClientId(*who);
                model.send(client, sent).unwrap();
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(sent.len())).collect();
                cuts.sort_unstable();
                let mut from = 0;
                for to in cuts.into_iter().chain([sent.len()]) {
                    session.send(client, &sent[from..to]).unwrap();
                    from = to;
                }
                let (expected, expected_end) = receive_all(&mut model, client);
                let (reply, reply_end) = receive_all(&mut session, client);
                assert!(
                    comparable(&expected) == comparable(&reply) && expected_end == reply_end,
                    "{log}model:   {} {expected_end}\nsession: {} {reply_end}",
                    show(&expected),
                    show(&reply)
                );
            }
            Event::Send(..) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn session_and_model_give_the_same_replies(
        events in prop::collection::vec(event(), 1..20),
        in_place in any::<bool>(),
    ) {
        agree(&events, in_place);
    }
}

/// Commands to be sent to memcached too. Arithmetic comes last, because memcached may create a new
/// item for it, which loses some properties of the old item. It does so if the number becomes
/// longer, or if its LRU thread holds the item at that moment.
fn with_memcached() -> impl Strategy<Value = Vec<u8>> {
    let values = || {
        let values = select(&["0", "7", "99", "007", "12 ", " +5", "1x", ""][..]);
        values.prop_map(|text| text.as_bytes().to_vec())
    };
    let plain = select(
        &[
            "get a foo",
            "gat 100 a",
            "gat 0 foo",
            "touch foo 200",
            "delete a",
            "set a 3 0 1\r\n7",
            "set foo 0 100 2\r\n99",
            "append foo 0 0 1\r\n1",
            "add a 0 0 1\r\n1",
        ][..],
    );
    let command = prop_oneof![
        8 => meta_get(),
        6 => meta_set(values()),
        3 => meta_delete(),
        1 => meta_debug(),
        4 => plain.prop_map(|text| line(text.to_owned())),
    ];
    (prop::collection::vec(command, 1..20), meta_arith())
        .prop_map(|(commands, last)| [commands.concat(), last].concat())
}

#[test]
fn session_and_installed_memcached_give_the_same_replies() {
    let Some(path) = reference_memcached() else {
        return;
    };
    let server = Server::tcp(|| memcached_command(&path)).unwrap();
    let client = Client::connect(&server.address).unwrap();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let client = RefCell::new(client);
    let outcome = TestRunner::new(config).run(&with_memcached(), |sent| {
        let mut session = SessionPeer::new(false).unwrap();
        let id = session.connect().unwrap();
        session.send(id, &sent).unwrap();
        let (got, _) = receive_all(&mut session, id);
        let mut client = client.borrow_mut();
        request_all(&mut client, b"md a q\r\nmd foo q\r\nmd Zm9v q\r\n");
        let expected = request_all(&mut client, &sent);
        prop_assert!(
            comparable(&expected) == comparable(&got),
            "sent: {}\nmemcached: {}\nsession:   {}",
            show(&sent),
            show(&expected),
            show(&got)
        );
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// Sends `sent` and returns all replies to it. The reply to a further `mn` marks their end.
fn request_all(client: &mut Client, sent: &[u8]) -> Vec<u8> {
    client.send(&[sent, b"mn\r\n"].concat()).unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"MN\r\n") {
        received.extend(client.take(1).unwrap());
    }
    received.truncate(received.len() - 4);
    received
}
