//! The state of one connection.

use http::{
    Heads, HostNames, Pending, Persistence, Prepared, Rejection, Request, Response, Status,
};
use service::{Next, NoPin, Output, Progress};

use crate::pages::{PLAIN, Page};
use crate::worker::AdminWorker;

/// The state of one connection.
#[derive(Debug, Default)]
pub struct HttpSession {
    is_closed: bool,
    heads: Heads,
}

impl HttpSession {
    /// The state of a new connection, for requests to one of these hosts.
    pub(crate) fn new(hosts: HostNames) -> Self {
        Self {
            is_closed: false,
            heads: Heads::default().with_hosts(hosts),
        }
    }

    /// Parses the complete heads at the front of `input` ([`Heads::prepare`]).
    pub(crate) fn prepare<'i>(
        &mut self,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<Prepared<'i>>,
    ) -> usize {
        match self.is_closed {
            true => 0,
            false => self.heads.prepare(input, max, requests),
        }
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
                self.heads.discard();
                return stop(consumed, Next::OutputSpace);
            }
            self.heads.begin();
            match prepared {
                Prepared::Request(request) => {
                    consumed += request.len;
                    self.is_closed = !request.is_persistent;
                    reply(request, worker, out.bytes_mut());
                }
                Prepared::Rejected(rejection) => {
                    self.reject(*rejection, out.bytes_mut());
                }
            }
        }
        if self.is_closed {
            return stop(consumed, Next::Close);
        }
        match self.heads.pending(&input[consumed..], worker.now_ns) {
            Ok(Pending::Input) => stop(consumed, Next::Input),
            Ok(Pending::Requests) => stop(consumed, Next::Yield),
            Err(rejection) => {
                self.reject(rejection, out.bytes_mut());
                stop(consumed, Next::Close)
            }
        }
    }

    /// Appends an error, after which the connection is closed.
    fn reject(&mut self, rejection: Rejection, out: &mut Vec<u8>) {
        self.is_closed = true;
        let response = Response {
            status: rejection.status(),
            content_type: PLAIN,
            body: rejection.message().as_bytes(),
            is_head: false,
            persistence: Persistence::Close,
        };
        response.write(out);
    }
}

impl service::Session for HttpSession {
    const HAS_INPUT_DEADLINE: bool = true;

    fn input_deadline_ns(&self) -> Option<u64> {
        self.heads.deadline_ns()
    }

    fn discard_prepared(&mut self) {
        self.heads.discard();
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
