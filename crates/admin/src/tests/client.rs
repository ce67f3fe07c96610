//! A connection to the service, driven as a runtime drives it.

use std::sync::Arc;
use std::task::Waker;

use http::Prepared;
use service::{ConnectionId, Next, NoPin, OpenTickets, Output, Service, Tickets, Worker, recycle};

use crate::tests::example::Example;
use crate::{AdminService, AdminWorker, HttpSession};

/// A connection.
pub(crate) struct Client {
    worker: AdminWorker,
    session: HttpSession,
    now_ns: u64,
    /// Heads prepared in one turn.
    turn_max: usize,
    /// Input that is not consumed.
    input: Vec<u8>,
    prepared: Vec<Prepared<'static>>,
    output: Output<NoPin>,
    /// Everything sent to the client.
    pub(crate) received: Vec<u8>,
    /// The largest output between two sends.
    pub(crate) output_len_max: usize,
    /// Whether the session closed the connection.
    pub(crate) is_closed: bool,
}

impl Client {
    pub(crate) fn new(example: Example, turn_max: usize) -> Self {
        let worker = AdminService::new(Arc::new(example)).worker();
        Self {
            session: worker.open(),
            worker,
            now_ns: 1,
            turn_max,
            input: Vec::new(),
            prepared: Vec::new(),
            output: Output::default(),
            received: Vec::new(),
            output_len_max: 0,
            is_closed: false,
        }
    }

    pub(crate) fn advance_ns(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    /// Bytes that wait for more.
    pub(crate) fn unconsumed(&self) -> usize {
        self.input.len()
    }

    /// Sends bytes, and lets the session answer until it needs more.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while !self.is_closed {
            match self.turn() {
                Next::Input => break,
                Next::Close => self.is_closed = true,
                Next::Yield | Next::OutputSpace => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn turn(&mut self) -> Next {
        self.worker.begin_burst(self.now_ns);
        let mut prepared = recycle::<AdminWorker>(std::mem::take(&mut self.prepared));
        let (worker, session) = (&mut self.worker, &mut self.session);
        let count = worker.prepare(session, &self.input, self.turn_max, &mut prepared);
        assert!(count == prepared.len() && count <= self.turn_max);
        let mut open = OpenTickets::default();
        let tickets = Tickets {
            mailbox: &mut None,
            waker: Waker::noop(),
            connection: ConnectionId {
                slot: 0,
                generation: 0,
            },
            open: &mut open,
        };
        let progress = worker.answer(session, &prepared, &self.input, tickets, &mut self.output);
        self.prepared = recycle::<AdminWorker>(prepared);
        self.worker.end_burst(None);
        self.input.drain(..progress.consumed);
        // Output is sent when the session waits; until then it accumulates.
        if progress.next != Next::Yield {
            self.output_len_max = self.output_len_max.max(self.output.len());
            self.received
                .extend_from_slice(self.output.as_bytes().unwrap());
            self.output.clear();
        }
        progress.next
    }
}

/// A response, as a client sees it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn status(&self) -> &str {
        &self.head[9..12]
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find_map(|(found, value)| (found == name).then_some(value))
    }
}

/// Splits what a client received. `is_head` says of each response whether it answers a HEAD.
pub(crate) fn responses(received: &[u8], mut is_head: impl FnMut(usize) -> bool) -> Vec<Response> {
    let mut rest = std::str::from_utf8(received).unwrap();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (head, after) = rest.split_once("\r\n\r\n").expect("a head ends");
        assert!(head.starts_with("HTTP/1.1 "), "{head}");
        let head = head.to_owned();
        let response = Response {
            head,
            body: String::new(),
        };
        let len = response.header("Content-Length").expect("a length");
        let len = if is_head(found.len()) {
            0
        } else {
            len.parse().unwrap()
        };
        let (body, after) = after.split_at(len);
        rest = after;
        found.push(Response {
            body: body.to_owned(),
            ..response
        });
    }
    found
}

/// The only response to `request`, on a new connection.
pub(crate) fn ask(example: Example, request: &str) -> Response {
    let mut client = Client::new(example, 4);
    client.send(request.as_bytes());
    let mut all = responses(&client.received, |_| request.starts_with("HEAD"));
    assert_eq!(all.len(), 1, "{request}");
    all.remove(0)
}

/// A GET with these further header fields.
pub(crate) fn get(example: Example, path: &str, fields: &str) -> Response {
    ask(
        example,
        &format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"),
    )
}
