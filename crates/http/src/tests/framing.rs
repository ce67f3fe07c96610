//! Requests whose end is doubtful are rejected, whatever they look like: otherwise a proxy in
//! front of the server and the server could see different requests in the same bytes.

use crate::{Parsed, Rejection, Request};

/// Follows each request of the tables. It must never be answered.
const NEXT: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

fn parse(bytes: &[u8]) -> Parsed<'_> {
    Request::parse(bytes)
}

/// Each row is a head without its first line, its `Host` and its last line.
const DOUBTFUL_FIELDS: [(&str, Rejection); 30] = [
    // Two lengths, also equal ones.
    (
        "Content-Length: 0\r\nContent-Length: 0",
        Rejection::Malformed,
    ),
    (
        "Content-Length: 0\r\nContent-Length: 35",
        Rejection::Malformed,
    ),
    (
        "Content-Length: 35\r\ncontent-length: 0",
        Rejection::Malformed,
    ),
    ("Content-Length: 0, 0", Rejection::Malformed),
    // A length that is not a number.
    ("Content-Length:", Rejection::Malformed),
    ("Content-Length: +0", Rejection::Malformed),
    ("Content-Length: -1", Rejection::Malformed),
    ("Content-Length: 0x0", Rejection::Malformed),
    ("Content-Length: 0 0", Rejection::Malformed),
    ("Content-Length: 0;a", Rejection::Malformed),
    ("Content-Length: \u{660}", Rejection::Malformed),
    // A transfer coding, with or without a length.
    (
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        Rejection::Malformed,
    ),
    (
        "Content-Length: 35\r\nTransfer-Encoding: chunked",
        Rejection::Malformed,
    ),
    (
        "Content-Length: 0\r\nTransfer-Encoding: identity",
        Rejection::Malformed,
    ),
    ("Transfer-Encoding: chunked", Rejection::HasBody),
    ("transfer-encoding: xchunked", Rejection::HasBody),
    ("Transfer-Encoding:\u{b}chunked", Rejection::Malformed),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        Rejection::HasBody,
    ),
    // Bodies.
    ("Content-Length: 35", Rejection::HasBody),
    ("Content-Length: 18446744073709551616", Rejection::HasBody),
    // White space around names, folded lines.
    ("Content-Length : 0", Rejection::Malformed),
    (" Content-Length: 0", Rejection::Malformed),
    ("A: b\r\n Content-Length: 35", Rejection::Malformed),
    ("A: b\r\n\tc", Rejection::Malformed),
    ("A:\r\n b", Rejection::Malformed),
    // Line ends, NUL, and no name.
    ("A: b\rContent-Length: 35", Rejection::Malformed),
    ("A: b\r\r\nB: c", Rejection::Malformed),
    ("A: b\0c", Rejection::Malformed),
    (": b", Rejection::Malformed),
    ("A b", Rejection::Malformed),
];

#[test]
fn doubtful_fields_are_rejected_and_nothing_behind_them_is_read() {
    for (fields, expected) in DOUBTFUL_FIELDS {
        for method in ["GET", "HEAD", "POST"] {
            let input = format!("{method} / HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n{NEXT}");
            let found = parse(input.as_bytes());
            assert_eq!(found, Parsed::Rejected(expected), "{fields:?}");
        }
    }
    // In HTTP/1.0 there are no transfer codings.
    let input = format!("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n{NEXT}");
    assert_eq!(
        parse(input.as_bytes()),
        Parsed::Rejected(Rejection::Malformed)
    );
}

#[test]
fn doubtful_first_lines_and_hosts_are_rejected() {
    for head in [
        "GET /\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: x\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "G\rET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /\r HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\rHost: x\r\n\r\n",
        "GET / http/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/11\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        "\rGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        let input = format!("{head}{NEXT}");
        let found = parse(input.as_bytes());
        assert!(matches!(found, Parsed::Rejected(_)), "{head:?}: {found:?}");
    }
    for version in ["HTTP/2.0", "HTTP/1.2", "HTTP/0.9"] {
        let input = format!("GET / {version}\r\nHost: x\r\n\r\n{NEXT}");
        let found = parse(input.as_bytes());
        assert_eq!(
            found,
            Parsed::Rejected(Rejection::VersionNotSupported),
            "{version}"
        );
    }
}

#[test]
fn the_verdict_does_not_depend_on_how_the_bytes_arrive() {
    for (fields, expected) in DOUBTFUL_FIELDS {
        let input = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n{NEXT}");
        let verdicts = (0..=input.len()).map(|len| parse(&input.as_bytes()[..len]));
        let mut final_ones = verdicts.filter(|verdict| *verdict != Parsed::Incomplete);
        assert!(
            final_ones.all(|verdict| verdict == Parsed::Rejected(expected)),
            "{fields:?}"
        );
    }
}
