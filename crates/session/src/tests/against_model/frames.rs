//! Random sequences of frames of the binary protocol. The replies of the session must equal the
//! replies of the model, however the input is split, and no input may make the session panic.

use model::{Cache, ModelSession};
use proptest::prelude::*;
use protocol::binary::reply::Reply;
use protocol::binary::{Arith, Get, Head, Header, Opcode, REQUEST_MAGIC, Request, Set, write};
use protocol::{ArithMode, SetMode};

use super::{NOW, TestSession, received_in_parts, replies_do_not_depend_on_the_split, value};
use crate::{AllowedProtocols, Session};

const READS: [(u8, bool, bool); 9] = [
    // The opcode, whether the command sets a time to live, and whether its reply contains the key.
    (0x00, false, false),
    (0x09, false, false),
    (0x0c, false, true),
    (0x0d, false, true),
    (0x1c, true, false),
    (0x1d, true, false),
    (0x1e, true, false),
    (0x23, true, true),
    (0x24, true, true),
];

const STORES: [(u8, SetMode); 10] = [
    // The opcode and the mode. The opcodes from 0x11 on are quiet.
    (0x01, SetMode::Set),
    (0x02, SetMode::Add),
    (0x03, SetMode::Replace),
    (0x0e, SetMode::Append),
    (0x0f, SetMode::Prepend),
    (0x11, SetMode::Set),
    (0x12, SetMode::Add),
    (0x13, SetMode::Replace),
    (0x19, SetMode::Append),
    (0x1a, SetMode::Prepend),
];

/// A key. A key of 251 bytes is too long and closes the connection, so it is rare.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        300 => (0..5_u8).prop_map(|number| format!("k{number}")),
        30 => Just("x".repeat(250)),
        1 => Just("x".repeat(251)),
    ]
}

/// In nine of ten cases zero, which means no CAS. Otherwise a CAS that no item has.
fn cas() -> impl Strategy<Value = u64> {
    prop_oneof![9 => Just(0), 1 => Just(u64::MAX)]
}

/// The bytes of a frame that ends with `value`.
fn frame(opcode: u8, cas: u64, request: &Request<'_>, value: &str) -> Vec<u8> {
    let head = Head {
        opcode: Opcode(opcode),
        opaque: u32::from(opcode) << 24 | 7,
    };
    let mut bytes = Vec::new();
    write(&mut bytes, head, cas, request);
    bytes.extend_from_slice(value.as_bytes());
    bytes
}

fn read() -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(&READS[..]), key()).prop_map(|((opcode, touches, with_key), key)| {
        let get = Get {
            key: key.as_bytes(),
            exptime: touches.then_some(60),
            with_key,
            // 0x1c is `touch`, whose reply has no value.
            with_value: opcode != 0x1c,
        };
        frame(opcode, 0, &Request::Get(get), "")
    })
}

fn store() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(&STORES[..]);
    (kind, key(), cas(), 0..4_u32, 0..2_u32, value()).prop_map(
        |((opcode, mode), key, cas, flags, exptime, value)| {
            let set = Set {
                key: key.as_bytes(),
                mode,
                flags,
                exptime: exptime * 100,
                value_len: value.len() as u32,
            };
            frame(opcode, cas, &Request::Set(set), &value)
        },
    )
}

fn arith() -> impl Strategy<Value = Vec<u8>> {
    let opcodes = prop::sample::select(&[0x05_u8, 0x06, 0x15, 0x16][..]);
    let vivify = prop::option::of(0..100_u32);
    (opcodes, key(), cas(), 0..30_u64, vivify).prop_map(|(opcode, key, cas, delta, vivify)| {
        let arith = Arith {
            key: key.as_bytes(),
            // The odd opcodes increment.
            mode: match opcode & 1 {
                1 => ArithMode::Increment,
                _ => ArithMode::Decrement,
            },
            delta,
            initial: 11,
            vivify,
        };
        frame(opcode, cas, &Request::Arith(arith), "")
    })
}

/// Frames that neither read, store nor calculate.
fn other() -> impl Strategy<Value = Vec<u8>> {
    let with_key = (prop::sample::select(&[0x04_u8, 0x14][..]), key(), cas()).prop_map(
        |(opcode, key, cas)| {
            let key = key.as_bytes();
            frame(opcode, cas, &Request::Delete { key }, "")
        },
    );
    let too_long = "v".repeat(1 << 20);
    let set = Set {
        key: b"k1",
        mode: SetMode::Set,
        flags: 0,
        exptime: 0,
        value_len: too_long.len() as u32,
    };
    let alone = prop::sample::select(vec![
        frame(0x08, 0, &Request::Flush { exptime: None }, ""),
        frame(0x18, 0, &Request::Flush { exptime: Some(0) }, ""),
        frame(0x0a, 0, &Request::Noop, ""),
        frame(0x0b, 0, &Request::Version, ""),
        frame(0x10, 0, &Request::Stat { name: b"bogus" }, ""),
        frame(0x10, 0, &Request::Stat { name: b"reset" }, ""),
        frame(
            0x10,
            0,
            &Request::Stat {
                name: b"detail dump",
            },
            "",
        ),
        // The value is too long. The session skips it and finds the next frame.
        frame(0x01, 0, &Request::Set(set), &too_long),
        unknown(),
    ]);
    let quit = prop::sample::select(vec![
        frame(0x07, 0, &Request::Quit, ""),
        frame(0x17, 0, &Request::Quit, ""),
    ]);
    prop_oneof![30 => with_key, 30 => alone, 1 => quit]
}

/// A frame with an unknown opcode. Its body is itself a valid frame, which must not be executed.
fn unknown() -> Vec<u8> {
    let body = frame(0x0a, 0, &Request::Noop, "");
    let header = Header {
        magic: REQUEST_MAGIC,
        head: Head {
            opcode: Opcode(0x40),
            opaque: 3,
        },
        body_len: body.len() as u32,
        ..Header::default()
    };
    [header.to_bytes().to_vec(), body].concat()
}

pub(super) fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![6 => read(), 6 => store(), 3 => arith(), 3 => other()]
}

/// The replies as texts. Each CAS other than zero is replaced with 1, because the session and the
/// model assign different numbers.
fn comparable(mut replies: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    while let Some((mut reply, len)) = Reply::read(replies).unwrap() {
        reply.header.cas = u64::from(reply.header.cas != 0);
        all.push(format!("{reply:?}"));
        replies = &replies[len..];
    }
    assert_eq!(replies, b"");
    all
}

proptest! {
    #[test]
    fn replies_to_frames_equal_those_of_the_model_however_the_input_is_split(
        frames in prop::collection::vec(any_frame(), 1..40),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
        requests_per_turn in 1..8_usize,
    ) {
        let bytes = frames.concat();
        let session = received_in_parts(&bytes, &cuts, requests_per_turn);
        let item_size_max = 1 << 20;
        let mut cache = Cache::new(item_size_max);
        let now_s = NOW.epoch_unix_s + u64::from(NOW.elapsed_s);
        let mut model = ModelSession::new();
        let expected = model.receive(&mut cache, now_s, &bytes);
        prop_assert_eq!(comparable(&session.replies), comparable(&expected));
        prop_assert_eq!(session.is_closed, model.is_closed());
    }

    #[test]
    fn corrupted_frames_do_not_panic_and_replies_do_not_depend_on_the_split(
        frames in prop::collection::vec(any_frame(), 1..10),
        garbage in prop::collection::vec((any::<usize>(), any::<u8>()), 0..20),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
    ) {
        replies_do_not_depend_on_the_split(frames.concat(), &garbage, &cuts)?;
    }
}

/// Without a restriction, the session answers a frame and a line. With `-B ascii` it reads a frame
/// as an invalid line. With `-B binary` it closes the connection on which it receives a line.
#[test]
fn connection_has_only_the_allowed_protocols() {
    let version = frame(0x0b, 0, &Request::Version, "");
    for (allowed, frame_reply, line_reply) in [
        (
            AllowedProtocols::Auto,
            &b"\x81\x0b"[..],
            &b"VERSION 1.6.45"[..],
        ),
        (AllowedProtocols::Text, b"ERROR", b"VERSION 1.6.45"),
        (AllowedProtocols::Binary, b"\x81\x0b", b""),
    ] {
        for (input, expected) in [
            ([&version[..], b"\r\n"].concat(), frame_reply),
            (b"version\r\n".to_vec(), line_reply),
        ] {
            let mut session = TestSession::new(8);
            session.session = Session::new(allowed.into());
            session.receive(&input);
            let replies = &session.replies;
            assert!(replies.starts_with(expected), "{allowed:?}: {replies:?}");
            assert_eq!(replies.is_empty(), expected.is_empty());
            assert_eq!(session.is_closed && replies.is_empty(), expected.is_empty());
        }
    }
}
