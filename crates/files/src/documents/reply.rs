//! Heads of responses with documents, and complete responses without one.

use std::io;

use http::{
    ByteRange, Conditions, Head, Persistence, Request, Response, Status, Validators, Verdict,
};

use super::media_type::media_type;
use crate::disk::Document;

const PLAIN: &str = "text/plain; charset=utf-8";
const NS_PER_S: u64 = 1_000_000_000;

/// What is common to the responses to a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply<'a> {
    /// The present date, as text.
    pub(super) date: &'a str,
    /// The present date, in seconds since 1970 in UTC.
    pub(super) now_s: u64,
    pub(super) is_head: bool,
    pub(super) persistence: Persistence,
}

impl Reply<'_> {
    /// Appends a response whose body is a line of text.
    pub(super) fn message(&self, status: Status, text: &str, out: &mut Vec<u8>) {
        let response = Response {
            status,
            content_type: PLAIN,
            body: text.as_bytes(),
            is_head: self.is_head,
            persistence: self.persistence,
        };
        response.write(out);
    }

    /// Appends the answer to a request with a method that its target does not have.
    pub(super) fn not_allowed(&self, allowed: &str, text: &str, out: &mut Vec<u8>) {
        Head::begin(out, Status::MethodNotAllowed)
            .field("Date", self.date)
            .field("Allow", allowed)
            .field("Content-Type", PLAIN)
            .content_length(text.len() as u64)
            .finish(self.persistence);
        out.extend_from_slice(text.as_bytes());
    }

    /// Appends the answer to a request for a file that was not opened.
    pub(super) fn failure(&self, error: &io::Error, out: &mut Vec<u8>) {
        let (status, text) = match Failure::of(error) {
            Failure::NotFound => (Status::NotFound, "there is no such document\n"),
            Failure::Forbidden => (Status::Forbidden, "this document must not be read\n"),
            Failure::Busy => (Status::ServiceUnavailable, "the server is busy\n"),
            Failure::Broken => (Status::InternalServerError, "the document cannot be read\n"),
        };
        self.message(status, text, out);
    }

    /// Appends the answer to a request for a folder without a slash at its end. Relative links of
    /// the folder's page would be wrong without it.
    pub(super) fn folder(&self, name: &[u8], out: &mut Vec<u8>) {
        let body = "the document is a folder\n";
        Head::begin(out, Status::MovedPermanently)
            .field("Date", self.date)
            .field("Location", http::encode_path(name) + "/")
            .field("Content-Type", PLAIN)
            .content_length(body.len() as u64)
            .finish(self.persistence);
        if !self.is_head {
            out.extend_from_slice(body.as_bytes());
        }
    }

    /// Appends the head of the answer to a request for a regular file, or a complete answer.
    /// Returns which of its bytes follow.
    pub(super) fn document<F>(
        &self,
        request: &Request<'_>,
        name: &[u8],
        document: &Document<F>,
        out: &mut Vec<u8>,
    ) -> Option<ByteRange> {
        let attributes = &document.attributes;
        let len = attributes.len;
        let etag = format!("\"{:x}-{len:x}\"", attributes.modified_ns);
        // A date in the future would be one that the server has not seen (RFC 9110, section
        // 8.8.2.1).
        let modified_s = (attributes.modified_ns / NS_PER_S).min(self.now_s);
        let validators = Validators {
            etag: &etag,
            modified_s,
        };
        let mut verdict = Conditions::of(request).verdict(validators, len);
        if self.is_head && matches!(verdict, Verdict::Part(_) | Verdict::RangeNotSatisfiable) {
            // Ranges are defined for GET only (RFC 9110, section 14.2).
            verdict = Verdict::Whole;
        }
        let (status, part) = match verdict {
            Verdict::Whole => (Status::Ok, ByteRange { start: 0, end: len }),
            Verdict::Part(part) => (Status::PartialContent, part),
            Verdict::NotModified => {
                Head::begin(out, Status::NotModified)
                    .field("Date", self.date)
                    .field("ETag", &etag)
                    .field("Last-Modified", http::format_date(modified_s))
                    .finish(self.persistence);
                return None;
            }
            Verdict::PreconditionFailed => {
                let text = "the document is another one\n";
                self.message(Status::PreconditionFailed, text, out);
                return None;
            }
            Verdict::RangeNotSatisfiable => {
                Head::begin(out, Status::RangeNotSatisfiable)
                    .field("Date", self.date)
                    .field("Content-Range", format_args!("bytes */{len}"))
                    .content_length(0)
                    .finish(self.persistence);
                return None;
            }
        };
        let mut head = Head::begin(out, status)
            .field("Date", self.date)
            .field("Content-Type", media_type(name))
            .content_length(part.end - part.start)
            .field("Last-Modified", http::format_date(modified_s))
            .field("ETag", &etag)
            .field("Accept-Ranges", "bytes")
            .field("X-Content-Type-Options", "nosniff");
        if status == Status::PartialContent {
            let (first, last) = (part.start, part.end - 1);
            head = head.field("Content-Range", format_args!("bytes {first}-{last}/{len}"));
        }
        head.finish(self.persistence);
        (!self.is_head).then_some(part)
    }
}

/// Why a file was not opened, as far as a client is told.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    NotFound,
    Forbidden,
    Busy,
    Broken,
}

impl Failure {
    fn of(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::NotFound | Kind::NotADirectory | Kind::InvalidFilename | Kind::InvalidInput => {
                Self::NotFound
            }
            // A name that leaves the root crosses devices, as the kernel calls it.
            Kind::PermissionDenied | Kind::CrossesDevices => Self::Forbidden,
            Kind::ResourceBusy | Kind::OutOfMemory | Kind::WouldBlock => Self::Busy,
            // `ErrorKind` has no stable name for these.
            _ => match error.raw_os_error() {
                Some(ELOOP) => Self::Forbidden,
                Some(EMFILE | ENFILE) => Self::Busy,
                // A socket, or a device without a driver.
                Some(ENXIO | ENODEV) => Self::Forbidden,
                _ => Self::Broken,
            },
        }
    }
}

// Numbers of errors, the same on all architectures of Linux but MIPS and SPARC (`ELOOP`).
const ENXIO: i32 = 6;
const ENODEV: i32 = 19;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ELOOP: i32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        for (number, expected) in [
            (2, Failure::NotFound),
            (20, Failure::NotFound),
            (36, Failure::NotFound),
            (1, Failure::Forbidden),
            (13, Failure::Forbidden),
            (18, Failure::Forbidden),
            (ELOOP, Failure::Forbidden),
            (ENXIO, Failure::Forbidden),
            (EMFILE, Failure::Busy),
            (12, Failure::Busy),
            (5, Failure::Broken),
        ] {
            let found = Failure::of(&io::Error::from_raw_os_error(number));
            assert_eq!(found, expected, "{number}");
        }
    }
}
