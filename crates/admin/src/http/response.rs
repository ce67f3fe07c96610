//! Writing a response.

use std::io::Write as _;

/// The status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of RFC 9110 and RFC 6585")]
pub enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    ContentTooLarge,
    HeadTooLarge,
    ServiceUnavailable,
    VersionNotSupported,
}

impl Status {
    /// The code and the reason, as in the status line.
    #[must_use]
    pub const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::ContentTooLarge => "413 Content Too Large",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
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

/// A response.
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
        let (status, content_type) = (self.status.line(), self.content_type);
        let len = self.body.len();
        // A page shows the present figures, so caches must not store it. Writing to a vector cannot
        // fail.
        let _ = write!(
            out,
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        );
        if self.status == Status::MethodNotAllowed {
            out.extend_from_slice(b"Allow: GET, HEAD\r\n");
        }
        out.extend_from_slice(match self.persistence {
            Persistence::Open => b"\r\n",
            Persistence::OpenFor10 => b"Connection: keep-alive\r\n\r\n",
            Persistence::Close => b"Connection: close\r\n\r\n",
        });
        if !self.is_head {
            out.extend_from_slice(self.body);
        }
    }
}
