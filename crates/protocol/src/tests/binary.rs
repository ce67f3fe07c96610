//! Frames of the binary protocol: examples, properties, and hostile headers.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::binary::reply::{self, NoReply, Reply};
use crate::binary::{
    Arith, Get, Head, Header, Opcode, Parsed, REPLY_MAGIC, REQUEST_MAGIC, Request, Set, Status,
    parse, stats, write,
};
use crate::limits::{BINARY_BODY_MAX, BINARY_HEADER_LEN, KEY_MAX};
use crate::{ArithMode, Detail, SetMode, Stats, fuzzing};

/// A request header with these lengths, followed by as many zero bytes as extras and key have.
fn frame(opcode: u8, extras_len: u8, key_len: u16, body_len: u32) -> Vec<u8> {
    let header = Header {
        magic: REQUEST_MAGIC,
        head: head(opcode),
        key_len,
        extras_len,
        body_len,
        ..Header::default()
    };
    let mut frame = header.to_bytes().to_vec();
    frame.resize(header.value_at(), 0);
    frame
}

fn head(opcode: u8) -> Head {
    Head {
        opcode: Opcode(opcode),
        opaque: 0xdead_beef,
    }
}

/// The example of memcached's `protocol_binary.txt`, "Add Response" and its request.
#[test]
fn frame_of_the_specification_is_read() {
    let bytes = b"\x80\x02\0\x05\x08\0\0\0\0\0\0\x12\0\0\0\0\0\0\0\0\0\0\0\0\
                  \xde\xad\xbe\xef\0\0\x1c\x20Hello";
    let Parsed::Request {
        request, len, cas, ..
    } = parse(bytes)
    else {
        panic!("{:?}", parse(bytes));
    };
    assert_eq!((len, cas), (bytes.len(), 0));
    let set = Set {
        key: b"Hello",
        mode: SetMode::Add,
        flags: 0xdead_beef,
        exptime: 7200,
        value_len: 5,
    };
    assert_eq!(request, Request::Set(set));
}

/// Every opcode, with the lengths that it allows. Any other length is fatal.
#[test]
fn each_opcode_has_its_lengths() {
    let lengths: [(&[u8], u8, u16, u32); 9] = [
        (&[0x00, 0x04, 0x09, 0x0c, 0x0d, 0x14], 0, 1, 0),
        (&[0x1c, 0x1d, 0x1e, 0x23, 0x24], 4, 1, 0),
        (&[0x01, 0x02, 0x03, 0x11, 0x12, 0x13], 8, 1, 1),
        (&[0x0e, 0x0f, 0x19, 0x1a], 0, 1, 1),
        (&[0x05, 0x06, 0x15, 0x16], 20, 1, 0),
        (&[0x08, 0x18], 4, 0, 0),
        (&[0x07, 0x17, 0x0a, 0x0b], 0, 0, 0),
        (&[0x10], 0, 1, 0),
        (&[0x10], 0, 0, 0),
    ];
    for (opcodes, extras_len, key_len, value_len) in lengths {
        for &opcode in opcodes {
            let body_len = u32::from(extras_len) + u32::from(key_len) + value_len;
            let valid = frame(opcode, extras_len, key_len, body_len);
            let Parsed::Request { len, .. } = parse(&valid) else {
                panic!("{opcode:#x}: {:?}", parse(&valid));
            };
            assert_eq!(len, valid.len());
            let invalid = Parsed::Fatal {
                head: head(opcode),
                status: Some(Status::Invalid),
            };
            let more_extras = frame(opcode, extras_len + 1, key_len, body_len + 1);
            assert_eq!(parse(&more_extras), invalid, "{opcode:#x}");
            if opcode != 0x10 {
                let key_len = 1 - key_len;
                let other_key = frame(opcode, extras_len, key_len, body_len + 1);
                assert_eq!(parse(&other_key), invalid, "{opcode:#x}");
            }
            if value_len == 0 {
                let with_value = frame(opcode, extras_len, key_len, body_len + 1);
                assert_eq!(parse(&with_value), invalid, "{opcode:#x}");
            }
        }
    }
    let plain_flush = frame(0x08, 0, 0, 0);
    let Parsed::Request { request, .. } = parse(&plain_flush) else {
        panic!("a flush may have no extras");
    };
    assert_eq!(request, Request::Flush { exptime: None });
}

#[test]
fn unknown_opcode_is_rejected_and_its_whole_body_skipped() {
    for opcode in [0x1b, 0x1f, 0x21, 0x22, 0x25, 0x30, 0xff] {
        let frame = frame(opcode, 0, 3, 10);
        let rejected = Parsed::Rejected {
            head: head(opcode),
            status: Status::Unknown,
            len: BINARY_HEADER_LEN,
            swallow: 10,
        };
        // The header is enough.
        assert_eq!(parse(&frame[..BINARY_HEADER_LEN]), rejected);
        assert_eq!(parse(&frame), rejected);
    }
}

#[test]
fn hostile_lengths_are_fatal_by_the_header_alone() {
    let key_max = KEY_MAX as u16;
    for (frame, status) in [
        (frame(0x00, 0, 2, 1), Status::Unknown),
        (frame(0x01, 8, 1, 8), Status::Unknown),
        (
            frame(0x01, 255, u16::MAX, u32::from(u16::MAX) + 254),
            Status::Unknown,
        ),
        (
            frame(0x00, 0, key_max + 1, u32::from(key_max) + 1),
            Status::Invalid,
        ),
        (
            frame(0x30, 0, key_max + 1, u32::from(key_max) + 1),
            Status::Invalid,
        ),
        (frame(0x01, 8, 1, BINARY_BODY_MAX + 1), Status::Invalid),
        (frame(0x30, 0, 0, u32::MAX), Status::Invalid),
        (frame(0x00, 0, 0, 0), Status::Invalid),
        (frame(0x20, 0, 1, 1), Status::Invalid),
        (frame(0x21, 0, 0, 0), Status::Invalid),
    ] {
        let header = &frame[..BINARY_HEADER_LEN];
        let fatal = Parsed::Fatal {
            head: head(header[1]),
            status: Some(status),
        };
        assert_eq!(parse(header), fatal, "{header:x?}");
    }
    let longest = frame(0x01, 8, key_max, BINARY_BODY_MAX);
    assert!(matches!(parse(&longest), Parsed::Request { .. }));
}

#[test]
fn other_magic_is_no_frame() {
    for magic in [0, REPLY_MAGIC, b'g'] {
        let no_frame = Parsed::Fatal {
            head: Head::default(),
            status: None,
        };
        assert_eq!(parse(&[magic]), no_frame);
    }
    assert_eq!(parse(b""), Parsed::Incomplete);
    assert_eq!(Reply::read(&[REQUEST_MAGIC]), Err(NoReply));
    let longer_key_than_body = Header {
        magic: REPLY_MAGIC,
        key_len: 1,
        ..Header::default()
    };
    assert_eq!(Reply::read(&longer_key_than_body.to_bytes()), Err(NoReply));
}

#[test]
fn names_of_statistics() {
    for (name, expected) in [
        (&b""[..], Stats::General),
        (b"reset", Stats::Reset),
        (b"resetting", Stats::Reset),
        (b"settings", Stats::Settings),
        (b"detail", Stats::Detail(Detail::Usage)),
        (b"detail on", Stats::Detail(Detail::On)),
        (b"detail off", Stats::Detail(Detail::Off)),
        (b"detail dump", Stats::Detail(Detail::Dump)),
        (b"detail x", Stats::Detail(Detail::Usage)),
        (b"hotkeys", Stats::HotKeys),
        (b"latency", Stats::Latency),
        (b"curtail", Stats::Curtail),
        (b"items", Stats::Items),
        (b"slabs", Stats::Slabs),
        (b"sizes", Stats::Sizes),
        (b"size", Stats::Other(b"size")),
    ] {
        assert_eq!(stats(name), expected);
    }
}

fn request() -> impl Strategy<Value = (u8, Vec<u8>, u64, u64, u32, u32, Option<u32>, u32)> {
    let opcodes = (0..=u8::MAX).filter(|&opcode| Opcode(opcode).command().is_some());
    let opcodes: Vec<u8> = opcodes
        .filter(|opcode| !(0x20..=0x22).contains(opcode))
        .collect();
    (
        select(opcodes),
        vec(any::<u8>(), 1..=KEY_MAX),
        any::<u64>(),
        any::<u64>(),
        any::<u32>(),
        any::<u32>(),
        option::of(0..u32::MAX),
        0..=BINARY_BODY_MAX - 300,
    )
}

proptest! {
    #[test]
    fn requests_survive_a_round_trip_in_any_pieces(
        (opcode, key, delta, initial, flags, exptime, maybe, value_len) in request(),
        opaque: u32,
        cas: u64,
    ) {
        use crate::binary::Command;
        let key = key.as_slice();
        let head = Head { opcode: Opcode(opcode), opaque };
        let get = |exptime, with_key, with_value| {
            Request::Get(Get { key, exptime, with_key, with_value })
        };
        let (command, _) = head.opcode.command().unwrap();
        let written = match command {
            Command::Get { with_key } => get(None, with_key, true),
            Command::GetAndTouch { with_key } => get(Some(exptime), with_key, true),
            Command::Touch => get(Some(exptime), false, false),
            Command::Set(mode @ (SetMode::Append | SetMode::Prepend)) => {
                Request::Set(Set { key, mode, flags: 0, exptime: 0, value_len })
            }
            Command::Set(mode) => Request::Set(Set { key, mode, flags, exptime, value_len }),
            Command::Delete => Request::Delete { key },
            Command::Arith(mode) => {
                Request::Arith(Arith { key, mode, delta, initial, vivify: maybe })
            }
            Command::Flush => Request::Flush { exptime: maybe },
            Command::Stat => Request::Stat { name: key },
            Command::Version => Request::Version,
            Command::Noop => Request::Noop,
            Command::Quit => Request::Quit,
            Command::SaslList | Command::SaslMessage => unreachable!("not selected"),
        };
        let mut bytes = Vec::new();
        write(&mut bytes, head, cas, &written);
        let read = Parsed::Request { head, cas, request: written, len: bytes.len() };
        prop_assert_eq!(parse(&bytes), read);
        for len in 0..bytes.len() {
            prop_assert_eq!(parse(&bytes[..len]), Parsed::Incomplete);
        }
        bytes.extend(b"more");
        prop_assert_eq!(parse(&bytes), read);
    }

    #[test]
    fn replies_survive_a_round_trip(
        opcode: u8,
        opaque: u32,
        cas: u64,
        flags: u32,
        key in vec(any::<u8>(), 0..=KEY_MAX),
        value in vec(any::<u8>(), 0..=300),
        number: u64,
    ) {
        let head = Head { opcode: Opcode(opcode), opaque };
        let check = |write: &dyn Fn(&mut Vec<u8>), status, cas, extras: &[u8], key: &[u8],
                     value: &[u8]| {
            let mut bytes = Vec::new();
            write(&mut bytes);
            let len = bytes.len();
            for part in 0..len {
                assert_eq!(Reply::read(&bytes[..part]), Ok(None));
            }
            bytes.extend(b"more");
            let Ok(Some((reply, read_len))) = Reply::read(&bytes) else {
                panic!("{bytes:x?} is no reply");
            };
            assert_eq!(read_len, len);
            assert_eq!((reply.extras, reply.key, reply.value), (extras, key, value));
            let header = reply.header;
            assert_eq!((header.status, header.cas), (status as u16, cas));
            assert_eq!((header.magic, header.head.opaque), (REPLY_MAGIC, opaque));
            header.head.opcode
        };
        let ok = Status::Ok;
        let opcodes = [
            check(&|out| reply::done(out, head, cas), ok, cas, b"", b"", b""),
            check(&|out| reply::text(out, head, &value), ok, 0, b"", b"", &value),
            check(
                &|out| reply::counted(out, head, cas, number),
                ok, cas, b"", b"", &number.to_be_bytes(),
            ),
            check(
                &|out| {
                    reply::found(out, head, (cas, flags), &key, value.len());
                    out.extend(&value);
                },
                ok, cas, &flags.to_be_bytes(), &key, &value,
            ),
            check(
                &|out| reply::missed_key(out, head, &key),
                Status::NotFound, 0, b"", &key, b"",
            ),
            check(
                &|out| reply::error(out, head, Status::Exists),
                Status::Exists, 0, b"", b"", b"Data exists for key.",
            ),
        ];
        prop_assert_eq!(opcodes, [head.opcode; 6]);
        let stat = check(
            &|out| reply::stat(out, opaque, &key, &value), ok, 0, b"", &key, &value,
        );
        prop_assert_eq!(stat, Opcode::STAT);
    }

    #[test]
    fn any_bytes_pass_the_checks_of_the_fuzz_target(
        mut input in vec(any::<u8>(), 0..300),
        opcode in 0..0x40_u8,
        lengths in (0..30_u8, 0..300_u16, 0..400_u32),
    ) {
        fuzzing::check_frames(&input);
        let (extras_len, key_len, body_len) = lengths;
        let mut framed = frame(opcode, extras_len, key_len, body_len);
        framed.append(&mut input);
        fuzzing::check_frames(&framed);
    }
}

#[test]
fn counter_that_must_exist_has_the_largest_time_to_live() {
    let arith = Arith {
        key: b"n",
        mode: ArithMode::Increment,
        delta: 1,
        initial: 2,
        vivify: None,
    };
    let mut bytes = Vec::new();
    write(&mut bytes, head(0x05), 0, &Request::Arith(arith));
    assert_eq!(&bytes[24 + 16..24 + 20], &[0xff; 4]);
}
