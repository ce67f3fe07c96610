//! Logins: of text, and of SASL. Their examples are in `tests/tests/login.rs`, where memcached has
//! them too; these are the properties.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use protocol::binary::sasl::{self, ParsedSasl};
use protocol::binary::{Head, Header, Opcode, REQUEST_MAGIC};
use protocol::{Credentials, ParsedLogin, parse_login};

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = select(vec![
        "set ", "k ", "0 ", "7", "16384", "16385", "\r\n", "\n", "foo bar", " ", "x", "noreply",
    ]);
    prop_oneof![
        8 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
    ]
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![4 => 0x20..=0x22u8, 1 => any::<u8>()];
    let lens = (0..40u16, 0..2u8, 0..60u32);
    (opcode, lens, vec(any::<u8>(), 0..100)).prop_map(|(opcode, lens, body)| {
        let (key_len, extras_len, body_len) = lens;
        let head = Head {
            opcode: Opcode(opcode),
            opaque: 1,
        };
        let header = Header {
            magic: REQUEST_MAGIC,
            head,
            key_len,
            extras_len,
            body_len,
            ..Header::default()
        };
        [&header.to_bytes()[..], &body].concat()
    })
}

proptest! {
    #[test]
    fn login_of_text_does_not_depend_on_the_split(pieces in vec(piece(), 0..30)) {
        let input = pieces.concat();
        let whole = parse_login(&input);
        let len = match whole {
            ParsedLogin::Credentials { len, .. } | ParsedLogin::Rejected { len, .. } => len,
            ParsedLogin::Incomplete | ParsedLogin::Fatal => input.len(),
        };
        prop_assert!(len <= input.len());
        for end in 0..input.len() {
            let part = parse_login(&input[..end]);
            prop_assert!(part == ParsedLogin::Incomplete || part == whole, "{end}: {part:?}");
        }
    }

    #[test]
    fn message_of_sasl_does_not_depend_on_the_split(
        input in frame(),
        is_logged_in in any::<bool>(),
    ) {
        let whole = sasl::parse(&input, is_logged_in);
        for end in 24..input.len() {
            let part = sasl::parse(&input[..end], is_logged_in);
            prop_assert!(part == ParsedSasl::Incomplete || part == whole, "{end}: {part:?}");
        }
        if let ParsedSasl::Message { len, .. } | ParsedSasl::List { len, .. } = whole {
            prop_assert!(len <= input.len());
        }
    }
}

#[test]
fn passwords_are_not_shown() {
    let parsed = parse_login(b"set k 0 0 11\r\nuser secret\r\n");
    assert!(matches!(parsed, ParsedLogin::Credentials { .. }));
    let mut frame = Header {
        magic: REQUEST_MAGIC,
        head: Head {
            opcode: Opcode::SASL_AUTH,
            opaque: 0,
        },
        key_len: 5,
        body_len: 17,
        ..Header::default()
    }
    .to_bytes()
    .to_vec();
    frame.extend(b"PLAIN\0user\0secret");
    let message = sasl::parse(&frame, false);
    assert!(matches!(message, ParsedSasl::Message { .. }));
    // Bytes are shown as numbers: `s` is 115.
    let shown = format!("{parsed:?} {message:?}");
    assert!(
        !shown.contains("115") && !shown.contains("secret"),
        "{shown}"
    );
}

#[test]
fn message_of_plain_has_three_parts() {
    let credentials = |user, password| Some(Credentials { user, password });
    for (message, expected) in [
        (&b"\0user\0pass"[..], credentials(b"user", b"pass")),
        (b"user\0user\0", credentials(b"user", b"")),
        (b"admin\0user\0pass", None),
        (b"\0user", None),
        (b"\0user\0pass\0", None),
        (b"", None),
    ] {
        assert_eq!(Credentials::from_plain(message), expected, "{message:?}");
    }
}
