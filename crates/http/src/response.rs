//! Writing a response.

use std::fmt::Display;
use std::io::Write as _;

/// The status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of RFC 9110 and RFC 6585")]
pub enum Status {
    Ok,
    NoContent,
    PartialContent,
    MovedPermanently,
    NotModified,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    PreconditionFailed,
    ContentTooLarge,
    RangeNotSatisfiable,
    MisdirectedRequest,
    HeadTooLarge,
    InternalServerError,
    ServiceUnavailable,
    VersionNotSupported,
}

impl Status {
    /// The code and the reason, as in the status line.
    #[must_use]
    pub const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::NoContent => "204 No Content",
            Self::PartialContent => "206 Partial Content",
            Self::MovedPermanently => "301 Moved Permanently",
            Self::NotModified => "304 Not Modified",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::PreconditionFailed => "412 Precondition Failed",
            Self::ContentTooLarge => "413 Content Too Large",
            Self::RangeNotSatisfiable => "416 Range Not Satisfiable",
            Self::MisdirectedRequest => "421 Misdirected Request",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::InternalServerError => "500 Internal Server Error",
            Self::ServiceUnavailable => "503 Service Unavailable",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// What happens to the connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// It stays open, as is usual in HTTP/1.1.
    Open,
    /// It stays open, and the client has to be told so: it speaks HTTP/1.0.
    OpenFor10,
    /// It is closed.
    Close,
}

/// Writes the head of a response field by field. The caller appends the body after
/// [`finish`](Self::finish).
#[derive(Debug)]
#[must_use = "a head ends with `finish`"]
pub struct Head<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Head<'o> {
    /// Begins a head with its status line.
    pub fn begin(out: &'o mut Vec<u8>, status: Status) -> Self {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(status.line().as_bytes());
        out.extend_from_slice(b"\r\n");
        Self { out }
    }

    /// Appends a field. Neither `name` nor `value` may contain a line end.
    pub fn field(self, name: &str, value: impl Display) -> Self {
        // Writing to a vector cannot fail.
        let _ = write!(self.out, "{name}: {value}\r\n");
        self
    }

    /// Appends the length of the body in bytes. It is the length of the body of the answer to a
    /// GET also in the answer to a HEAD.
    pub fn content_length(self, len: u64) -> Self {
        self.field("Content-Length", len)
    }

    /// Ends the head.
    pub fn finish(self, persistence: Persistence) {
        self.out.extend_from_slice(match persistence {
            Persistence::Open => b"\r\n",
            Persistence::OpenFor10 => b"Connection: keep-alive\r\n\r\n",
            Persistence::Close => b"Connection: close\r\n\r\n",
        });
    }
}

/// A response with a body that caches must not store: a page with present figures, or an error.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// Its status.
    pub status: Status,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: &'a [u8],
    /// Whether the body is left out, as the method HEAD asks.
    pub is_head: bool,
    /// What happens to the connection afterwards.
    pub persistence: Persistence,
}

impl Response<'_> {
    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut head = Head::begin(out, self.status)
            .field("Content-Type", self.content_type)
            .content_length(self.body.len() as u64)
            .field("Cache-Control", "no-store")
            .field("X-Content-Type-Options", "nosniff");
        if self.status == Status::MethodNotAllowed {
            head = head.field("Allow", "GET, HEAD");
        }
        head.finish(self.persistence);
        if !self.is_head {
            out.extend_from_slice(self.body);
        }
    }
}
