//! The state of one connection.

use service::{Next, NoPin, Output, Progress};

use crate::limits::HEAD_TIME_MAX_NS;
use crate::pages::{PLAIN, Page};
use crate::worker::AdminWorker;
use http::{Parsed, Persistence, Rejection, Request, Response, Status};

/// The state of one connection.
#[derive(Debug, Default)]
pub struct HttpSession {
    is_closed: bool,
    /// Whether the input behind the prepared requests is the beginning of a head.
    is_incomplete: bool,
    /// When the first bytes of an incomplete head were seen.
    head_since_ns: Option<u64>,
}

/// A parsed head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prepared<'i> {
    /// A request.
    Request(Request<'i>),
    /// The connection ends here.
    Rejected(Rejection),
}

impl HttpSession {
    /// Parses the complete heads at the front of `input`, at most `max`, and appends them to
    /// `requests`. Returns how many it appended.
    pub(crate) fn prepare<'i>(
        &mut self,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<Prepared<'i>>,
    ) -> usize {
        self.is_incomplete = false;
        if self.is_closed {
            return 0;
        }
        let (mut count, mut at) = (0, 0);
        while count < max && at < input.len() {
            let prepared = match Request::parse(&input[at..]) {
                Parsed::Incomplete => {
                    self.is_incomplete = true;
                    break;
                }
                Parsed::Request(request) => Prepared::Request(request),
                Parsed::Rejected(rejection) => Prepared::Rejected(rejection),
            };
            requests.push(prepared);
            count += 1;
            match prepared {
                Prepared::Request(request) if request.is_persistent => at += request.len,
                // Nothing after it is answered.
                _ => break,
            }
        }
        count
    }

    /// Answers prepared requests.
    pub(crate) fn answer(
        &mut self,
        requests: &[Prepared<'_>],
        input: &[u8],
        worker: &mut AdminWorker,
        out: &mut Output<NoPin>,
    ) -> Progress {
        let mut consumed = 0;
        for prepared in requests {
            if self.is_closed {
                break;
            }
            if out.is_full() {
                self.is_incomplete = false;
                return stop(consumed, Next::OutputSpace);
            }
            self.head_since_ns = None;
            match prepared {
                Prepared::Request(request) => {
                    consumed += request.len;
                    self.is_closed = !request.is_persistent;
                    reply(request, worker, out.bytes_mut());
                }
                Prepared::Rejected(rejection) => {
                    self.reject(rejection.status(), rejection.message(), out.bytes_mut());
                }
            }
        }
        if self.is_closed {
            return stop(consumed, Next::Close);
        }
        let rest = &input[consumed..];
        if !self.is_incomplete {
            let next = if rest.is_empty() {
                Next::Input
            } else {
                Next::Yield
            };
            return stop(consumed, next);
        }
        // Empty lines before a head do not begin it: some clients send one after a request.
        if rest.iter().any(|byte| !matches!(byte, b'\r' | b'\n')) {
            let since_ns = *self.head_since_ns.get_or_insert(worker.now_ns);
            if worker.now_ns.saturating_sub(since_ns) > HEAD_TIME_MAX_NS {
                let message = "the head of the request took too long to arrive\n";
                self.reject(Status::RequestTimeout, message, out.bytes_mut());
                return stop(consumed, Next::Close);
            }
        }
        stop(consumed, Next::Input)
    }

    /// Appends an error, after which the connection is closed.
    fn reject(&mut self, status: Status, message: &str, out: &mut Vec<u8>) {
        self.is_closed = true;
        let response = Response {
            status,
            content_type: PLAIN,
            body: message.as_bytes(),
            is_head: false,
            persistence: Persistence::Close,
        };
        response.write(out);
    }
}

impl service::Session for HttpSession {
    fn discard_prepared(&mut self) {
        self.is_incomplete = false;
    }
}

fn stop(consumed: usize, next: Next) -> Progress {
    Progress { consumed, next }
}

/// Appends the reply to a request.
fn reply(request: &Request<'_>, worker: &mut AdminWorker, out: &mut Vec<u8>) {
    worker.page.clear();
    let is_head = request.method == "HEAD";
    let (status, content_type) = if is_head || request.method == "GET" {
        Page::write(request, &*worker.source, &mut worker.page)
    } else {
        worker
            .page
            .extend_from_slice(b"only GET and HEAD are served\n");
        (Status::MethodNotAllowed, PLAIN)
    };
    let response = Response {
        status,
        content_type,
        body: &worker.page,
        is_head,
        persistence: request.persistence(),
    };
    response.write(out);
}
