//! The session and the model, told the same, say the same.
//!
//! Random conversations of a few clients over a few keys, now and then with a byte gone wrong,
//! in which time passes. The session hears them cut at random places and must not care.
// Tests all the way down: helpers may do what tests may.
#![allow(clippy::unwrap_used)]

use std::ops::Range;

use curtail_tests::pattern::show;
use curtail_tests::peer::{ClientId, Heard, ModelPeer, Peer, SessionPeer};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// One thing that happens.
#[derive(Clone)]
enum Event {
    /// A client says this, cut at these places for the session.
    Say(usize, Vec<u8>, Vec<Index>),
    /// Seconds pass.
    Tick(u64),
}

impl std::fmt::Debug for Event {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Say(who, said, _) => write!(formatter, "client {who}: {}", show(said)),
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

fn meta() -> impl Strategy<Value = Vec<u8>> {
    let some = |flags: &'static [&'static str]| prop::sample::subsequence(flags, 0..=flags.len());
    let common = || some(&["k", "q", "Oabc", "b"]).prop_shuffle();
    let get = (
        key(),
        some(&["v", "t", "f", "s", "T50"]).prop_shuffle(),
        common(),
    )
        .prop_map(|(key, own, common)| {
            line(format!("mg {key} {} {}", own.join(" "), common.join(" ")))
        });
    let set = (
        key(),
        value(),
        some(&["s", "I", "F5"]),
        prop::option::of(select(&["E", "A", "P", "R", "S"][..])),
        (exptime(), prop::option::of(cas()), prop::option::of(cas())),
        common(),
    )
        .prop_map(
            |(key, value, own, mode, (exptime, compare, explicit), common)| {
                let mut text = format!("ms {key} {} T{exptime} {}", value.len(), own.join(" "));
                if let Some(mode) = mode {
                    text += &format!(" M{mode}");
                }
                if let Some(compare) = compare {
                    text += &format!(" C{compare}");
                }
                if let Some(explicit) = explicit {
                    text += &format!(" E{explicit} c");
                }
                block(&format!("{text} {}", common.join(" ")), &value)
            },
        );
    let delete = (key(), prop::option::of(cas()), common()).prop_map(|(key, compare, common)| {
        let compare = compare.map_or(String::new(), |cas| format!(" C{cas}"));
        line(format!("md {key}{compare} {}", common.join(" ")))
    });
    let count = (
        key(),
        some(&["v", "t", "D13", "MD", "N60", "J5"]).prop_shuffle(),
        prop::option::of(cas()),
        common(),
    )
        .prop_map(|(key, own, compare, common)| {
            let compare = compare.map_or(String::new(), |cas| format!(" C{cas}"));
            let (own, common) = (own.join(" "), common.join(" "));
            line(format!("ma {key} {own}{compare} {common}"))
        });
    prop_oneof![6 => get, 6 => set, 2 => delete, 4 => count, 1 => Just(b"mn\r\n".to_vec())]
}

/// What a client says in one go: some commands, and at times a byte gone wrong.
fn said() -> impl Strategy<Value = Vec<u8>> {
    let commands = prop::collection::vec(prop_oneof![classic(), meta()], 1..6);
    let wrong = prop::option::weighted(0.05, (any::<Index>(), any::<u8>()));
    (commands, wrong).prop_map(|(commands, wrong)| {
        let mut bytes = commands.concat();
        // A number may only show where the client names it.
        let shows_number = bytes.windows(3).any(|some| some == b" c ");
        // When an item was last read the model does not know.
        let asks_when = matches!(wrong, Some((_, b'h' | b'l')));
        if let Some((place, byte)) = wrong.filter(|_| !shows_number && !asks_when) {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes
    })
}

fn event() -> impl Strategy<Value = Event> {
    let cuts = prop::collection::vec(any::<Index>(), 0..4);
    prop_oneof![
        8 => (CLIENTS, said(), cuts).prop_map(|(who, said, cuts)| Event::Say(who, said, cuts)),
        1 => (1..4_u64).prop_map(Event::Tick),
    ]
}

fn heard(peer: &mut dyn Peer, client: ClientId) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    loop {
        match peer.hear(client).unwrap() {
            Heard::Bytes(more) => bytes.extend(more),
            Heard::End => return (bytes, true),
            Heard::Nothing => return (bytes, false),
        }
    }
}

/// Whether numbers that are a cache's own affair may show.
fn shows_numbers(said: &[u8]) -> bool {
    said.windows(4)
        .any(|some| some == b"gets" || some == b"gats" || some == b"stat")
}

/// An answer without the CAS of items, which is a cache's own affair too: ` c` and a number.
fn without_cas(said: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(said.len());
    let mut rest = said;
    while let Some((&first, behind)) = rest.split_first() {
        kept.push(first);
        rest = behind;
        if kept.ends_with(b" c") {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if matches!(rest.get(digits), Some(b' ' | b'\r')) {
                rest = &rest[digits..];
            }
        }
    }
    kept
}

fn agree(events: &[Event], in_place: bool) {
    let mut model = ModelPeer::new();
    let mut session = SessionPeer::new(in_place).unwrap();
    let mut told = String::new();
    for _ in CLIENTS {
        assert_eq!(model.connect().unwrap(), session.connect().unwrap());
    }
    for event in events {
        match event {
            Event::Tick(seconds) => {
                told += &format!("{seconds} s pass\n");
                model.tick(*seconds).unwrap();
                session.tick(*seconds).unwrap();
            }
            Event::Say(who, said, cuts) if !shows_numbers(said) => {
                told += &format!("client {who}: {}\n", show(said));
                let client = ClientId(*who);
                model.say(client, said).unwrap();
                let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(said.len())).collect();
                places.sort_unstable();
                let mut from = 0;
                for to in places.into_iter().chain([said.len()]) {
                    session.say(client, &said[from..to]).unwrap();
                    from = to;
                }
                let (expected, expected_end) = heard(&mut model, client);
                let (got, got_end) = heard(&mut session, client);
                assert!(
                    without_cas(&expected) == without_cas(&got) && expected_end == got_end,
                    "{told}model:   {} {expected_end}\nsession: {} {got_end}",
                    show(&expected),
                    show(&got)
                );
            }
            Event::Say(..) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn session_and_model_agree(
        events in prop::collection::vec(event(), 1..20),
        in_place in any::<bool>(),
    ) {
        agree(&events, in_place);
    }
}
