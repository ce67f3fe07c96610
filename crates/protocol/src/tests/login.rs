//! Logins: of text, and of SASL. Their examples are in `tests/tests/on_runtimes/login.rs`, where
//! memcached has them too; these are the properties.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::binary::sasl::{self, ParsedSasl};
use crate::binary::{Head, Header, Opcode, REQUEST_MAGIC};
use crate::limits::LOGIN_TOKEN_MAX;
use crate::{Credentials, ParsedLogin, Rejection, parse_login};

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = select(vec![
        "set ", "k ", "0 ", "7", "16384", "16385", "\r\n", "\n", "foo bar", " ", "x", "noreply",
    ]);
    prop_oneof![
        8 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
    ]
}

/// A line, and a token of the length that the line states.
#[derive(Debug, Clone)]
struct Text {
    line: String,
    token: Vec<u8>,
    end: &'static str,
}

fn text() -> impl Strategy<Value = Text> {
    let token = prop_oneof![
        2 => select(vec!["foo bar", "foo bar baz", " ", "u ", "foo-bar", ""])
            .prop_map(|token| token.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..40),
    ];
    let start = select(vec!["set k 0 0", "setx a b c", "set  any  1 2 "]);
    let rest = select(vec!["\r\n", "\n", " noreply\r\n"]);
    let end = prop_oneof![4 => Just("\r\n"), 1 => select(vec!["xx", "\n\n", "\rx"])];
    (start, token, rest, end).prop_map(|(start, token, rest, end)| Text {
        line: format!("{start} {}{rest}", token.len()),
        token,
        end,
    })
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
    fn token_of_the_stated_length_is_parsed_once_it_is_complete(
        text in text(),
        behind in vec(any::<u8>(), 0..8),
    ) {
        let login = [text.line.as_bytes(), &text.token, text.end.as_bytes()].concat();
        let len = login.len();
        let space = text.token.iter().position(|&byte| byte == b' ');
        let rejected = |rejection| ParsedLogin::Rejected { rejection, len };
        let expected = match space {
            _ if text.end != "\r\n" => rejected(Rejection::BadLoginEnd),
            None => rejected(Rejection::BadLogin),
            Some(space) => ParsedLogin::Credentials {
                credentials: Credentials {
                    user: &text.token[..space],
                    password: &text.token[space + 1..],
                },
                len,
            },
        };
        let input = [&*login, &behind].concat();
        prop_assert_eq!(parse_login(&input), expected);
        for end in 0..len {
            prop_assert_eq!(parse_login(&login[..end]), ParsedLogin::Incomplete, "{}", end);
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
fn longest_token_is_awaited_and_a_longer_one_is_refused_at_once() {
    let line = format!("set k 0 0 {LOGIN_TOKEN_MAX}\r\nuser ");
    let token = vec![b'p'; LOGIN_TOKEN_MAX - 5];
    let login = [line.as_bytes(), &token, b"\r\n"].concat();
    let whole = parse_login(&login);
    assert!(matches!(whole, ParsedLogin::Credentials { len, .. } if len == login.len()));
    for end in (0..login.len()).rev().step_by(101) {
        assert_eq!(parse_login(&login[..end]), ParsedLogin::Incomplete, "{end}");
    }
    let line = format!("set k 0 0 {}\r\n", LOGIN_TOKEN_MAX + 1);
    let refused = ParsedLogin::Rejected {
        rejection: Rejection::LoginTooLong,
        len: line.len(),
    };
    assert_eq!(parse_login(line.as_bytes()), refused);
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
