//! Parsing the head of a request.
//!
//! Invariant: the result for some input is final as soon as it is not [`Parsed::Incomplete`]. More
//! bytes after the input never change it, so that splitting the input never changes the replies.

use httparse::{EMPTY_HEADER, Error, Header};

use crate::limits::{HEAD_LEN_MAX, HEADERS_MAX};
use crate::response::{Persistence, Status};

/// What is at the front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'i> {
    /// The beginning of a head, or nothing.
    Incomplete,
    /// A request.
    Request(Request<'i>),
    /// Something that gets an error and ends the connection: where the next request begins is not
    /// known.
    Rejected(Rejection),
}

/// A request, with its body if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'i> {
    /// The method, as sent: methods are case-sensitive.
    pub method: &'i str,
    /// The request target, as sent.
    pub target: &'i str,
    /// The value of `Host`. Empty if it has none, as HTTP/1.0 allows.
    pub host: &'i [u8],
    /// Whether it is HTTP/1.0.
    pub is_1_0: bool,
    /// Whether the client keeps the connection open after it.
    pub is_persistent: bool,
    /// Its body. Empty if it has none.
    pub body: &'i [u8],
    /// Length of the head and the body in bytes.
    pub len: usize,
    /// The lines of the header fields, and the empty line.
    fields: &'i [u8],
}

/// Why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// It is not HTTP, or violates it.
    Malformed,
    /// It has a body, or one that is too long or whose length is not known before it.
    HasBody,
    /// Its head is longer than [`HEAD_LEN_MAX`] or has more than [`HEADERS_MAX`] fields.
    HeadTooLarge,
    /// Its version is neither HTTP/1.0 nor HTTP/1.1.
    VersionNotSupported,
    /// Its host is none for which the server answers ([`HostNames`](crate::HostNames)).
    UnknownHost,
    /// Its head took longer than [`HEAD_TIME_MAX_NS`](crate::limits::HEAD_TIME_MAX_NS) to arrive.
    HeadTooSlow,
}

impl Rejection {
    /// The status of the reply.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::Malformed => Status::BadRequest,
            Self::HasBody => Status::ContentTooLarge,
            Self::HeadTooLarge => Status::HeadTooLarge,
            Self::VersionNotSupported => Status::VersionNotSupported,
            Self::UnknownHost => Status::MisdirectedRequest,
            Self::HeadTooSlow => Status::RequestTimeout,
        }
    }

    /// What to tell the client: a line of text.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Malformed => "this is not a valid HTTP/1.1 request\n",
            Self::HasBody => "this body is not accepted\n",
            Self::HeadTooLarge => "the head of the request is too large\n",
            Self::VersionNotSupported => "only HTTP/1.1 and HTTP/1.0 are served\n",
            Self::UnknownHost => "this host is not served here (see --host-name)\n",
            Self::HeadTooSlow => "the head of the request took too long to arrive\n",
        }
    }
}

impl From<Error> for Rejection {
    fn from(error: Error) -> Self {
        match error {
            Error::TooManyHeaders => Self::HeadTooLarge,
            Error::Version => Self::VersionNotSupported,
            _ => Self::Malformed,
        }
    }
}

impl<'i> Request<'i> {
    /// Parses the head at the front of `input`. A request with a body is rejected.
    #[must_use]
    pub fn parse(input: &'i [u8]) -> Parsed<'i> {
        Self::parse_with_body(input, 0)
    }

    /// Parses the head at the front of `input`, and its body of at most `body_max` bytes. A request
    /// with a longer one, or with one whose length it does not state, is rejected.
    #[must_use]
    pub fn parse_with_body(input: &'i [u8], body_max: usize) -> Parsed<'i> {
        let head = &input[..input.len().min(HEAD_LEN_MAX)];
        let mut fields = [EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut fields);
        let len = match parsed.parse(head) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) if head.len() < HEAD_LEN_MAX => {
                return Parsed::Incomplete;
            }
            Ok(httparse::Status::Partial) => return Parsed::Rejected(Rejection::HeadTooLarge),
            Err(error) => return Parsed::Rejected(error.into()),
        };
        let (Some(method), Some(target), Some(minor)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Parsed::Rejected(Rejection::Malformed);
        };
        let is_1_0 = minor == 0;
        let (host, is_persistent, body_len) = match framing(parsed.headers, is_1_0) {
            Err(rejection) => return Parsed::Rejected(rejection),
            Ok(framing) => framing,
        };
        let body_len = usize::try_from(body_len).unwrap_or(usize::MAX);
        if body_len > body_max {
            return Parsed::Rejected(Rejection::HasBody);
        }
        let Some(body) = input[len..].get(..body_len) else {
            return Parsed::Incomplete;
        };
        Parsed::Request(Self {
            method,
            target,
            host,
            is_1_0,
            is_persistent,
            body,
            len: len + body_len,
            fields: fields_of(&head[..len]),
        })
    }

    /// The path of the target, without a query. The target may be in absolute form, which proxies
    /// send (RFC 9112, section 3.2.2).
    #[must_use]
    pub fn path(&self) -> &'i str {
        let origin = match self.target.split_once("://") {
            Some((scheme, rest)) if !scheme.contains('/') => rest.find('/').map_or("/", |at| {
                let (_, path) = rest.split_at(at);
                path
            }),
            _ => self.target,
        };
        origin.split(['?', '#']).next().unwrap_or(origin)
    }

    /// What happens to the connection after the response.
    #[must_use]
    pub fn persistence(&self) -> Persistence {
        match (self.is_persistent, self.is_1_0) {
            (false, _) => Persistence::Close,
            (true, true) => Persistence::OpenFor10,
            (true, false) => Persistence::Open,
        }
    }

    /// Passes the name and the value of each header field to `visit`, in their order.
    pub fn for_each_field(&self, mut visit: impl FnMut(&'i str, &'i [u8])) {
        let mut fields = [EMPTY_HEADER; HEADERS_MAX];
        if let Ok(httparse::Status::Complete((_, fields))) =
            httparse::parse_headers(self.fields, &mut fields)
        {
            for field in fields {
                visit(field.name, field.value);
            }
        }
    }

    /// Whether `matches` accepts a value of the header field `name`.
    pub fn has_header(&self, name: &str, mut matches: impl FnMut(&'i [u8]) -> bool) -> bool {
        let mut is_found = false;
        self.for_each_field(|found, value| {
            is_found = is_found || (found.eq_ignore_ascii_case(name) && matches(value));
        });
        is_found
    }
}

/// The lines of the header fields of a complete head.
fn fields_of(head: &[u8]) -> &[u8] {
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    // Empty lines before the request line are ignored (RFC 9112, section 2.2).
    let start = head.iter().position(|byte| !is_line_end(byte));
    let line_end = start.and_then(|start| {
        let line = head[start..].iter().position(|&byte| byte == b'\n');
        line.map(|len| start + len + 1)
    });
    line_end.map_or(&[], |at| &head[at..])
}

fn values<'i>(fields: &[Header<'i>], name: &str) -> impl Iterator<Item = &'i [u8]> {
    let is_named = move |field: &&Header<'_>| field.name.eq_ignore_ascii_case(name);
    fields.iter().filter(is_named).map(|field| field.value)
}

/// The host, whether the connection stays open, and the length of the body. The error says why the
/// request is rejected.
fn framing<'i>(fields: &[Header<'i>], is_1_0: bool) -> Result<(&'i [u8], bool, u64), Rejection> {
    // RFC 9112, section 3.2: a missing, repeated or invalid Host is an error.
    let mut hosts = values(fields, "host");
    let host = match (hosts.next(), hosts.next()) {
        (None, _) if is_1_0 => &[],
        (Some(host), None) if is_host(host) => host,
        _ => return Err(Rejection::Malformed),
    };
    let mut lengths = values(fields, "content-length");
    let (length, second_length) = (lengths.next(), lengths.next());
    if values(fields, "transfer-encoding").next().is_some() {
        // RFC 9112, section 6.1: with a length too, or in HTTP/1.0, the end of the body is
        // doubtful.
        return Err(match (length, is_1_0) {
            (None, false) => Rejection::HasBody,
            _ => Rejection::Malformed,
        });
    }
    // RFC 9112, section 6.3, allows to accept two equal lengths. No client needs that.
    if second_length.is_some() {
        return Err(Rejection::Malformed);
    }
    let mut body_len = 0;
    if let Some(length) = length {
        if length.is_empty() || !length.iter().all(u8::is_ascii_digit) {
            return Err(Rejection::Malformed);
        }
        for digit in length {
            body_len =
                u64::saturating_add(u64::saturating_mul(body_len, 10), u64::from(digit - b'0'));
        }
    }
    let has_option = |option: &[u8]| {
        let mut options =
            values(fields, "connection").flat_map(|it| it.split(|&byte| byte == b','));
        options.any(|it| it.trim_ascii().eq_ignore_ascii_case(option))
    };
    let is_persistent = !has_option(b"close") && (!is_1_0 || has_option(b"keep-alive"));
    Ok((host, is_persistent, body_len))
}

/// Whether a value of `Host` is the name or the address of a host, and a port if there is a colon
/// (RFC 3986, section 3.2). It may be empty.
fn is_host(value: &[u8]) -> bool {
    let is_in_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(byte);
    let is_in_address = |byte: &u8| *byte == b':' || is_in_name(byte);
    let port = match value.strip_prefix(b"[") {
        Some(after) => {
            let Some(end) = after.iter().position(|&byte| byte == b']') else {
                return false;
            };
            if end == 0 || !after[..end].iter().all(is_in_address) {
                return false;
            }
            &after[end + 1..]
        }
        None => {
            let end = value.iter().position(|byte| !is_in_name(byte));
            &value[end.unwrap_or(value.len())..]
        }
    };
    match port {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(head: &str) -> Request<'_> {
        match Request::parse(head.as_bytes()) {
            Parsed::Request(request) => request,
            other => panic!("{head:?}: {other:?}"),
        }
    }

    fn rejection(head: &[u8]) -> Rejection {
        match Request::parse(head) {
            Parsed::Rejected(rejection) => rejection,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_is_parsed_without_what_follows() {
        let head = "\r\nGET /metrics?a=b HTTP/1.1\r\nHost: x\r\nAccept:  text/plain \r\n\r\n";
        let input = format!("{head}GET /next");
        let parsed = request(&input);
        assert_eq!((parsed.method, parsed.path()), ("GET", "/metrics"));
        assert_eq!((parsed.len, parsed.is_persistent), (head.len(), true));
        assert!(parsed.has_header("accept", |value| value == b"text/plain"));
        assert!(!parsed.has_header("accept-language", |_| true));
        for len in 0..head.len() {
            assert_eq!(
                Request::parse(&head.as_bytes()[..len]),
                Parsed::Incomplete,
                "{len}"
            );
        }
    }

    #[test]
    fn lines_may_end_without_a_carriage_return() {
        let parsed = request("GET / HTTP/1.1\nHost: x\nA: 1\n\n");
        assert!(parsed.has_header("a", |value| value == b"1"));
    }

    #[test]
    fn the_path_has_neither_authority_nor_query() {
        for (target, path) in [
            ("/", "/"),
            ("/a?b?c", "/a"),
            ("http://host:1/a?b", "/a"),
            ("http://host", "/"),
            ("/a?u=http://host/b", "/a"),
            ("*", "*"),
        ] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
            assert_eq!(request(&head).path(), path, "{target}");
        }
    }

    #[test]
    fn persistence_follows_version_and_connection() {
        for (version, fields, expected) in [
            ("1.1", "", true),
            ("1.1", "Connection: Close\r\n", false),
            ("1.1", "Connection: keep-alive, close\r\n", false),
            ("1.1", "Connection: TE\r\nconnection: close\r\n", false),
            ("1.0", "", false),
            ("1.0", "Connection: Keep-Alive\r\n", true),
        ] {
            let head = format!("GET / HTTP/{version}\r\nHost: x\r\n{fields}\r\n");
            assert_eq!(request(&head).is_persistent, expected, "{head}");
        }
        assert!(
            !request("GET / HTTP/1.0\r\n\r\n").is_persistent,
            "1.0 needs no Host"
        );
    }

    #[test]
    fn bodies_are_rejected() {
        let with = |fields: &str| format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n");
        assert_eq!(request(&with("Content-Length: 0")).method, "GET");
        for (fields, expected) in [
            ("Content-Length: 1", Rejection::HasBody),
            (
                "Content-Length: 99999999999999999999999",
                Rejection::HasBody,
            ),
            ("Transfer-Encoding: chunked", Rejection::HasBody),
            ("Content-Length: -1", Rejection::Malformed),
            ("Content-Length: 0x1", Rejection::Malformed),
            ("Content-Length:", Rejection::Malformed),
            ("Content-Length: 0, 0", Rejection::Malformed),
        ] {
            assert_eq!(rejection(with(fields).as_bytes()), expected, "{fields}");
        }
    }

    #[test]
    fn a_body_within_the_bound_belongs_to_the_request() {
        let head = "PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 003\r\n\r\n";
        let input = format!("{head}abcGET /next");
        for len in 0..head.len() + 3 {
            let parsed = Request::parse_with_body(&input.as_bytes()[..len], 3);
            assert_eq!(parsed, Parsed::Incomplete, "{len}");
        }
        let Parsed::Request(parsed) = Request::parse_with_body(input.as_bytes(), 3) else {
            panic!("{input}");
        };
        assert_eq!((parsed.body, parsed.len), (&b"abc"[..], head.len() + 3));
        // It is rejected before the body arrives.
        for (head, max) in [
            (head, 2),
            (
                "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                3,
            ),
            (
                "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
                3,
            ),
        ] {
            let parsed = Request::parse_with_body(head.as_bytes(), max);
            assert_eq!(parsed, Parsed::Rejected(Rejection::HasBody), "{head}");
        }
    }

    #[test]
    fn what_is_not_http_is_rejected_at_once() {
        for input in [
            &b"get key\r\n"[..],
            b"\x16\x03\x01\x02\x00",
            b"GET  / HTTP/1.1\r\n",
            b"GET / HTTP/1.1\r\nHost : x\r\n",
            b"GET / HTTP/1.1\r\nA: 1\r\n folded",
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"\rG",
        ] {
            assert_eq!(rejection(input), Rejection::Malformed, "{input:?}");
        }
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        assert_eq!(rejection(preface), Rejection::VersionNotSupported);
        assert_eq!(rejection(b"GET /\x80 HTTP/1.1\r\n"), Rejection::Malformed);
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_maybe_a_port() {
        for (host, is_valid) in [
            ("", true),
            ("example.org", true),
            ("example.org:80", true),
            ("example.org:", true),
            ("a_b%41", true),
            ("127.0.0.1:1", true),
            ("[::1]", true),
            ("[::1]:80", true),
            ("x y", false),
            ("x/y", false),
            ("a@x", false),
            ("x:port", false),
            ("x:80:80", false),
            ("[::1", false),
            ("[]", false),
            ("[::1]x", false),
            ("::1", false),
            ("x\\y", false),
            ("x?y", false),
        ] {
            let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let is_request = matches!(Request::parse(head.as_bytes()), Parsed::Request(_));
            assert_eq!(is_request, is_valid, "{host}");
        }
        let raw = b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n";
        assert_eq!(rejection(raw), Rejection::Malformed);
    }

    #[test]
    fn heads_are_bounded() {
        let fields = |count: usize| {
            let fields: String = (1..count)
                .map(|number| format!("A{number}: x\r\n"))
                .collect();
            format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
        };
        assert_eq!(request(&fields(HEADERS_MAX)).method, "GET");
        assert_eq!(
            rejection(fields(HEADERS_MAX + 1).as_bytes()),
            Rejection::HeadTooLarge
        );

        let start = "GET /";
        let end = " HTTP/1.1\r\nHost: x\r\n\r\n";
        let of_len = |len: usize| {
            let filler = "a".repeat(len - start.len() - end.len());
            format!("{start}{filler}{end}")
        };
        assert_eq!(request(&of_len(HEAD_LEN_MAX)).len, HEAD_LEN_MAX);
        assert_eq!(
            rejection(of_len(HEAD_LEN_MAX + 1).as_bytes()),
            Rejection::HeadTooLarge
        );
        let newlines = [b'\n'; HEAD_LEN_MAX];
        assert_eq!(Request::parse(&newlines[1..]), Parsed::Incomplete);
        assert_eq!(rejection(&newlines), Rejection::HeadTooLarge);
    }
}
