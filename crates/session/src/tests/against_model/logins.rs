//! Commands before and after a login, in a session that requires passwords. The session refuses
//! most commands before the login. To commands after the login, it replies as a session without
//! passwords does. Both hold however the input is split.

use proptest::prelude::*;
use protocol::binary::{Head, Header, Opcode, REQUEST_MAGIC};

use super::frames::any_frame;
use super::{TestSession, command};
use crate::{Access, AllowedProtocols, Session};

const TEXT_LOGIN: &[u8] = b"set any 0 0 7\r\nfoo bar\r\n";

/// A session of a server with passwords that has received `bytes`, split at the offsets `cuts`.
fn with_passwords(bytes: &[u8], cuts: &[usize], requests_per_turn: usize) -> TestSession {
    let mut session = TestSession::new(requests_per_turn);
    session.session = Session::new(Access {
        protocols: AllowedProtocols::Auto,
        needs_login: true,
    });
    session.receive_in_parts(bytes, cuts);
    session
}

/// A session of a server without passwords that has received `bytes`.
fn without_passwords(bytes: &[u8]) -> TestSession {
    let mut session = TestSession::new(20);
    session.receive(bytes);
    session
}

/// Input that a session refuses before a login, and the reply to the input.
fn refused() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(vec![
        ("get k1\r\n", "CLIENT_ERROR unauthenticated\r\n"),
        ("version\n", "CLIENT_ERROR unauthenticated\r\n"),
        (
            "set k1 0 0 7\r\nfoo bad\r\n",
            "CLIENT_ERROR authentication failure\r\n",
        ),
        (
            "set k1 0 0 8\r\nfoo bar \r\n",
            "CLIENT_ERROR authentication failure\r\n",
        ),
        (
            "set k1 0 0 3\r\nfoo\r\n",
            "CLIENT_ERROR bad authentication token format\r\n",
        ),
        (
            "set k1 0 0 7\r\nfoo bar  ",
            "CLIENT_ERROR bad command line termination\r\n",
        ),
        (
            "set k1 0 0 99999\r\n",
            "CLIENT_ERROR auth token too long\r\n",
        ),
    ])
}

/// A frame whose key is `mechanism`, the name of a way to log in. The opcode 0x0b requests the
/// version, and 0x20 the list of mechanisms. The opcode 0x21 is the first message of a login, and
/// 0x22 the second.
fn message(opcode: u8, mechanism: &[u8], value: &[u8]) -> Vec<u8> {
    let header = Header {
        magic: REQUEST_MAGIC,
        head: Head {
            opcode: Opcode(opcode),
            opaque: 7,
        },
        key_len: mechanism.len() as u16,
        body_len: (mechanism.len() + value.len()) as u32,
        ..Header::default()
    };
    [&header.to_bytes(), mechanism, value].concat()
}

/// Frames that do not close the connection of a client that has not logged in: requests that need
/// no login, and logins that fail.
fn before_login() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![
        message(0x0b, b"", b""),
        message(0x20, b"", b""),
        message(0x21, b"PLAIN", b""),
        message(0x21, b"PLAIN", b"\0foo\0bad"),
        message(0x21, b"SCRAM", b"\0foo\0bar"),
        message(0x22, b"PLAIN", b"\0foo\0"),
        // The name of the mechanism is too long.
        message(0x21, &[b'M'; 40], b"x"),
    ])
}

proptest! {
    #[test]
    fn lines_are_refused_before_a_login_and_answered_after_it(
        refused in prop::collection::vec(refused(), 0..6),
        commands in prop::collection::vec(command(), 0..10),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
        requests_per_turn in 1..8_usize,
    ) {
        let commands = commands.concat();
        let inputs: String = refused.iter().map(|(input, _)| *input).collect();
        let replies: String = refused.iter().map(|(_, reply)| *reply).collect();
        let bytes = [inputs.as_bytes(), TEXT_LOGIN, &commands].concat();
        let session = with_passwords(&bytes, &cuts, requests_per_turn);
        let plain = without_passwords(&commands);
        let expected = [replies.as_bytes(), b"STORED\r\n", &plain.replies].concat();
        prop_assert_eq!(
            String::from_utf8_lossy(&session.replies),
            String::from_utf8_lossy(&expected)
        );
        prop_assert_eq!(session.is_closed, plain.is_closed);
    }

    #[test]
    fn frames_are_answered_after_a_login_and_close_the_connection_without_one(
        early in prop::collection::vec(before_login(), 0..6),
        refused in any_frame(),
        frames in prop::collection::vec(any_frame(), 1..10),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
        requests_per_turn in 1..8_usize,
    ) {
        let early = early.concat();
        let login = message(0x21, b"PLAIN", b"\0foo\0bar");
        let frames = frames.concat();
        let bytes = [&early[..], &login, &frames].concat();
        let until_login = with_passwords(&[&early[..], &login].concat(), &[], 20);
        prop_assert!(until_login.replies.ends_with(b"Authenticated") && !until_login.is_closed);
        let session = with_passwords(&bytes, &cuts, requests_per_turn);
        let plain = without_passwords(&frames);
        prop_assert_eq!(&session.replies, &[&until_login.replies[..], &plain.replies].concat());
        prop_assert_eq!(session.is_closed, plain.is_closed);

        // Without the login, the first frame that needs a login closes the connection. Of the
        // frames that `any_frame` returns, only a request for the version needs no login.
        let is_version = refused[1] == 0x0b;
        prop_assume!(!is_version);
        let without_login = with_passwords(&[&early[..], &refused, &frames].concat(), &cuts, 3);
        let before = with_passwords(&early, &[], 20);
        prop_assert!(without_login.is_closed);
        prop_assert!(without_login.replies.starts_with(&before.replies));
        // The reply to that frame, if there is one, has the status "not authorized" (0x20) or
        // "invalid" (4). The status is in bytes 6 and 7 of the header.
        let rest = &without_login.replies[before.replies.len()..];
        prop_assert!(
            rest.is_empty() || rest[6..8] == [0, 0x20] || rest[6..8] == [0, 4],
            "{:?}",
            rest
        );
        // The reply is one frame: a header of 24 bytes and a short text.
        prop_assert!(rest.len() <= 24 + 32, "{:?}", rest);
    }
}
