//! The state of one connection.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use http::{
    Heads, HostNames, PathError, Pending, Persistence, Prepared, Rejection, Request, Status,
    decode_path,
};
use service::{Abandoned, Next, NoPin, Output, Progress, Ticket, Tickets};
use sys::file::FileKind;

use super::DocumentWorker;
use super::items::{self, FetchReply, Items, is_item};
use super::reply::Reply;
use super::transfer::Transfer;
use crate::counts::FileCount;
use crate::disk::{Disk, Document};
use crate::reader_pool::{Completion, Fetched};
use crate::strategy::Attempt;
use crate::worker::FileWorker;

/// The file that is served for a folder.
const INDEX: &[u8] = b"index.html";

/// The state of one connection.
#[derive(Debug)]
pub struct DocumentSession<F> {
    state: State<F>,
    is_closed: bool,
    heads: Heads,
    /// The number of the last ticket.
    ticket: u32,
    /// The address of the client, for the log.
    peer: Option<IpAddr>,
}

/// What a connection does with the request at the front of its input, or with the one before.
#[derive(Debug)]
enum State<F> {
    /// Nothing.
    Idle,
    /// Its file is opened elsewhere. The request stays in the input.
    AwaitsOpen,
    /// Its file has been opened elsewhere, or has not.
    Opened(io::Result<Arc<Document<F>>>),
    /// The name of its file has been brought into memory.
    NameTouched,
    /// Its item is read elsewhere.
    AwaitsItem,
    /// Its item has been read elsewhere. The error: it has not.
    Fetched(Result<Option<Fetched>, Abandoned>),
    /// The bytes of a document are sent. The request has been consumed.
    Sends(Transfer<F>),
    /// The next bytes are read elsewhere.
    AwaitsBlock(Transfer<F>),
    /// The next bytes have been read elsewhere, or have not.
    HasBlock(Transfer<F>, io::Result<Vec<u8>>),
    /// The next bytes have been brought into memory.
    BlockTouched(Transfer<F>),
}

impl<F> State<F> {
    /// Whether the request at the front of the input may be answered.
    fn may_answer(&self) -> bool {
        matches!(
            self,
            Self::Idle | Self::Opened(_) | Self::NameTouched | Self::Fetched(_)
        )
    }
}

/// How far a request was answered.
enum Answered {
    /// Completely.
    Complete,
    /// Its head was. The session needs something before it can send the bytes of the document.
    Begun(Next),
    /// Not at all. The session needs something before.
    Awaits(Next),
}

impl<F: Send + Sync + 'static> DocumentSession<F> {
    /// The state of a new connection. A head may take `head_time_ns` nanoseconds to arrive, and a
    /// body may have `body_max` bytes.
    pub(super) fn new(head_time_ns: u64, body_max: usize, hosts: HostNames) -> Self {
        Self {
            state: State::Idle,
            is_closed: false,
            heads: Heads::new(head_time_ns)
                .with_body_max(body_max)
                .with_hosts(hosts),
            ticket: 0,
            peer: None,
        }
    }

    /// Parses the complete heads at the front of `input`, at most `max`, and appends them to
    /// `requests`. Returns how many it appended: none while the bytes of a document are sent.
    pub(super) fn prepare<'i>(
        &mut self,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<Prepared<'i>>,
    ) -> usize {
        if self.is_closed || !self.state.may_answer() {
            self.heads.discard();
            return 0;
        }
        self.heads.prepare(input, max, requests)
    }

    /// Continues the bytes of a document, then answers prepared requests.
    pub(super) fn answer<D: Disk<File = F>>(
        &mut self,
        requests: &[Prepared<'_>],
        input: &[u8],
        worker: &mut DocumentWorker<D>,
        tickets: &mut Tickets<'_, Completion<F>>,
        out: &mut Output<NoPin>,
    ) -> Progress {
        if let Some(next) = self.continue_transfer(worker, tickets, out) {
            return stop(0, next);
        }
        let mut consumed = 0;
        for prepared in requests {
            if self.is_closed {
                break;
            }
            if out.is_full() {
                return stop(consumed, Next::OutputSpace);
            }
            self.heads.begin();
            match prepared {
                Prepared::Request(request) if !request.body.is_empty() && !is_item(request) => {
                    // Documents have no requests with a body.
                    self.reject(Rejection::HasBody, worker, out);
                }
                Prepared::Request(request) => match self.respond(request, worker, tickets, out) {
                    Answered::Complete => consumed += request.len,
                    Answered::Begun(next) => return stop(consumed + request.len, next),
                    Answered::Awaits(next) => return stop(consumed, next),
                },
                Prepared::Rejected(rejection) => {
                    self.reject(*rejection, worker, out);
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
                self.reject(rejection, worker, out);
                stop(consumed, Next::Close)
            }
        }
    }

    /// Takes the result of a ticket.
    pub(super) fn complete(&mut self, number: u32, result: Result<Completion<F>, Abandoned>) {
        if number != self.ticket {
            return;
        }
        let busy = || io::Error::from(io::ErrorKind::ResourceBusy);
        self.state = match (std::mem::replace(&mut self.state, State::Idle), result) {
            (State::AwaitsOpen, Ok(Completion::Opened { outcome, .. })) => State::Opened(outcome),
            (State::AwaitsOpen, Ok(Completion::Touched)) => State::NameTouched,
            (State::AwaitsOpen, _) => State::Opened(Err(busy())),
            (State::AwaitsItem, Ok(Completion::Fetched(fetched))) => State::Fetched(Ok(fetched)),
            (State::AwaitsItem, _) => State::Fetched(Err(Abandoned)),
            (State::AwaitsBlock(transfer), Ok(Completion::Read(block))) => {
                State::HasBlock(transfer, block)
            }
            (State::AwaitsBlock(transfer), Ok(Completion::Touched)) => {
                State::BlockTouched(transfer)
            }
            (State::AwaitsBlock(transfer), _) => State::HasBlock(transfer, Err(busy())),
            (state, _) => state,
        };
    }

    /// Answers a request, and logs it once the head of the reply is in the output.
    fn respond<D: Disk<File = F>>(
        &mut self,
        request: &Request<'_>,
        worker: &mut DocumentWorker<D>,
        tickets: &mut Tickets<'_, Completion<F>>,
        out: &mut Output<NoPin>,
    ) -> Answered {
        let start = out.len();
        let answered = self.respond_unlogged(request, worker, tickets, out);
        if !matches!(answered, Answered::Awaits(_)) {
            worker.log(self.peer, Some(request), out, start);
        }
        answered
    }

    fn respond_unlogged<D: Disk<File = F>>(
        &mut self,
        request: &Request<'_>,
        worker: &mut DocumentWorker<D>,
        tickets: &mut Tickets<'_, Completion<F>>,
        out: &mut Output<NoPin>,
    ) -> Answered {
        let opened = std::mem::replace(&mut self.state, State::Idle);
        let persistence = request.persistence();
        let is_last = persistence == Persistence::Close;
        let now_ns = worker.now_ns;
        let (date, now_s) = worker.dates.at(now_ns);
        let reply = Reply {
            date,
            now_s,
            is_head: request.method == "HEAD",
            persistence,
        };
        let start = out.len();
        let bytes = out.bytes_mut();
        self.is_closed = is_last;
        if let Some(items) = worker.items.as_deref_mut().filter(|_| is_item(request)) {
            let key = key_to_fetch(request, &opened, items);
            if start > 0 && key.is_some() {
                // The read begins when the peer has taken the replies so far: otherwise peers that
                // take none could hold all the memory for records.
                self.is_closed = false;
                return Answered::Awaits(Next::OutputSpace);
            }
            let is_available = self.has_item(key, opened, items, tickets);
            let value = &mut worker.value;
            return respond_item(is_available, request, items, &reply, value, bytes);
        }
        let (name, is_index) = match file_name(request) {
            Ok(found) => found,
            Err((status, message)) => {
                reply.message(status, message, bytes);
                return Answered::Complete;
            }
        };
        let files = &mut worker.files;
        let Some(opened) = self.open(opened, &name, files, now_ns, tickets) else {
            return Answered::Awaits(Next::Completion);
        };
        let document = match opened {
            Ok(document) => document,
            Err(error) => {
                reply.failure(&error, bytes);
                return Answered::Complete;
            }
        };
        let rest = match document.attributes.kind {
            FileKind::Regular => reply.document(request, &name, &document, bytes),
            FileKind::Folder if is_index => {
                reply.failure(&io::ErrorKind::NotFound.into(), bytes);
                None
            }
            FileKind::Folder => {
                reply.folder(&name, bytes);
                None
            }
            FileKind::Other => {
                reply.failure(&io::ErrorKind::PermissionDenied.into(), bytes);
                None
            }
        };
        let Some(rest) = rest else {
            return Answered::Complete;
        };
        let transfer = Transfer::new(document, rest, is_last, !worker.sends_files);
        self.is_closed = false;
        match self.transfer(transfer, false, worker, tickets, out) {
            None => Answered::Complete,
            Some(next) => Answered::Begun(next),
        }
    }

    /// Opens the file of a request. `None`: it is opened elsewhere.
    fn open<D: Disk<File = F>>(
        &mut self,
        state: State<F>,
        name: &[u8],
        files: &mut FileWorker<D>,
        now_ns: u64,
        tickets: &mut Tickets<'_, Completion<F>>,
    ) -> Option<io::Result<Arc<Document<F>>>> {
        match state {
            State::Opened(outcome) => return Some(outcome),
            State::NameTouched => {
                let outcome = files.open_touched(name);
                files.remember(name, &outcome, now_ns);
                return Some(outcome);
            }
            _ => {}
        }
        if let Attempt::Done(outcome) = files.open(name, now_ns) {
            return Some(outcome);
        }
        let Some(ticket) = self.issue(tickets) else {
            return Some(Err(io::ErrorKind::ResourceBusy.into()));
        };
        self.state = State::AwaitsOpen;
        // The request is answered later.
        self.is_closed = false;
        files.open_elsewhere(name.to_vec(), ticket);
        None
    }

    /// Whether the item that a request needs can be read, if there is one. `None`: the session has
    /// to wait for it. `key` is that of [`key_to_fetch`].
    fn has_item(
        &mut self,
        key: Option<Vec<u8>>,
        state: State<F>,
        items: &mut dyn Items,
        tickets: &mut Tickets<'_, Completion<F>>,
    ) -> Option<bool> {
        match state {
            State::Fetched(Ok(None)) => Some(true),
            State::Fetched(Ok(Some(fetched))) => Some(items.restore(fetched)),
            State::Fetched(Err(Abandoned)) => Some(false),
            _ => match key {
                Some(key) => self.fetch(&key, items, tickets),
                None => Some(true),
            },
        }
    }

    /// Begins to read an item that is in slower memory only. Without a ticket, it cannot be read
    /// now.
    fn fetch(
        &mut self,
        key: &[u8],
        items: &mut dyn Items,
        tickets: &mut Tickets<'_, Completion<F>>,
    ) -> Option<bool> {
        let Some(ticket) = self.issue(tickets) else {
            return Some(false);
        };
        self.state = State::AwaitsItem;
        // The request is answered later.
        self.is_closed = false;
        items.fetch(key, Box::new(ItemTicket(ticket)));
        None
    }

    /// Continues the bytes of a document. Returns what the session needs first; `None` if it may
    /// answer requests.
    fn continue_transfer<D: Disk<File = F>>(
        &mut self,
        worker: &mut DocumentWorker<D>,
        tickets: &mut Tickets<'_, Completion<F>>,
        out: &mut Output<NoPin>,
    ) -> Option<Next> {
        match std::mem::replace(&mut self.state, State::Idle) {
            state @ (State::Idle | State::Opened(_) | State::NameTouched | State::Fetched(_)) => {
                self.state = state;
                None
            }
            // A turn without the result, for example because the output was sent.
            state @ (State::AwaitsOpen | State::AwaitsItem | State::AwaitsBlock(_)) => {
                self.state = state;
                Some(Next::Completion)
            }
            State::Sends(mut transfer) => {
                transfer.count_sent(worker.files.counts());
                self.transfer(transfer, false, worker, tickets, out)
            }
            State::BlockTouched(transfer) => self.transfer(transfer, true, worker, tickets, out),
            State::HasBlock(mut transfer, block) => {
                let wanted = transfer.block_len();
                let block = block.unwrap_or_default();
                let block = &block[..block.len().min(wanted)];
                if block.is_empty() {
                    return Some(self.break_off());
                }
                out.bytes_mut().extend_from_slice(block);
                transfer.rest.start += block.len() as u64;
                // The next blocks may be on their way into memory. A part of the file that is not
                // complete would make the worker wait.
                transfer.must_copy = true;
                self.transfer(transfer, false, worker, tickets, out)
            }
        }
    }

    /// Appends bytes of a document to the output as long as it has space and nothing would block.
    /// Returns what the session needs; `None` if all bytes are in the output. `is_touched`: the
    /// first block has been brought into memory.
    fn transfer<D: Disk<File = F>>(
        &mut self,
        mut transfer: Transfer<F>,
        mut is_touched: bool,
        worker: &mut DocumentWorker<D>,
        tickets: &mut Tickets<'_, Completion<F>>,
        out: &mut Output<NoPin>,
    ) -> Option<Next> {
        while transfer.rest.start < transfer.rest.end {
            if out.is_full() {
                self.state = match is_touched {
                    true => State::BlockTouched(transfer),
                    false => State::Sends(transfer),
                };
                return Some(Next::OutputSpace);
            }
            if !is_touched && transfer.push_part(&worker.files, out) {
                // Also if it is the last part: until it is sent, it may have to be taken back.
                self.state = State::Sends(transfer);
                return Some(Next::OutputSpace);
            }
            let (offset, len) = (transfer.rest.start, transfer.block_len());
            let (document, out) = (&transfer.document, out.bytes_mut());
            let read = worker.files.read(document, offset, len, is_touched, out);
            is_touched = false;
            match read {
                Attempt::Done(Ok(read @ 1..)) => transfer.rest.start += read as u64,
                Attempt::Done(Ok(0) | Err(_)) => return Some(self.break_off()),
                Attempt::WouldBlock => {
                    let Some(ticket) = self.issue(tickets) else {
                        return Some(self.break_off());
                    };
                    let files = &worker.files;
                    files.read_elsewhere(&transfer.document, offset, len, ticket);
                    self.state = State::AwaitsBlock(transfer);
                    return Some(Next::Completion);
                }
            }
        }
        self.is_closed = transfer.is_last;
        None
    }

    /// Issues the next ticket. `None`: too many are open.
    fn issue(&mut self, tickets: &mut Tickets<'_, Completion<F>>) -> Option<Ticket<Completion<F>>> {
        let number = self.ticket.wrapping_add(1);
        let ticket = tickets.issue(number)?;
        self.ticket = number;
        Some(ticket)
    }

    /// Ends the connection in the middle of a document, whose length has been promised: it has
    /// become shorter, or cannot be read. The client notices that bytes are missing.
    fn break_off(&mut self) -> Next {
        self.is_closed = true;
        Next::Close
    }

    /// Appends an error, after which the connection is closed.
    fn reject<D: Disk<File = F>>(
        &mut self,
        rejection: Rejection,
        worker: &mut DocumentWorker<D>,
        out: &mut Output<NoPin>,
    ) {
        self.is_closed = true;
        if rejection == Rejection::HeadTooSlow {
            worker.files.counts().count(FileCount::SlowHeads);
        }
        let start = out.len();
        let (date, now_s) = worker.dates.at(worker.now_ns);
        let reply = Reply {
            date,
            now_s,
            is_head: false,
            persistence: Persistence::Close,
        };
        reply.message(rejection.status(), rejection.message(), out.bytes_mut());
        worker.log(self.peer, None, out, start);
    }
}

impl<F: Send + Sync + 'static> service::Session for DocumentSession<F> {
    const HAS_INPUT_DEADLINE: bool = true;
    const NEEDS_PEER: bool = true;

    fn set_peer(&mut self, address: IpAddr) {
        self.peer = Some(address);
    }

    fn input_deadline_ns(&self) -> Option<u64> {
        self.heads.deadline_ns()
    }

    fn discard_prepared(&mut self) {
        self.heads.discard();
    }

    fn take_back(&mut self, len: usize) {
        if let State::Sends(transfer) = &mut self.state {
            transfer.take_back(len);
        }
    }

    /// A strategy that only brings a block into memory has no bytes of it, which is not considered.
    fn result_bytes(&self) -> usize {
        match &self.state {
            State::AwaitsBlock(transfer) | State::HasBlock(transfer, _) => transfer.block_len(),
            _ => 0,
        }
    }
}

/// The key of the item that a request needs, if the item is in slower memory only and has not been
/// read.
fn key_to_fetch<F>(
    request: &Request<'_>,
    state: &State<F>,
    items: &mut dyn Items,
) -> Option<Vec<u8>> {
    match state {
        State::Fetched(_) => None,
        _ => items::key_needed(request).filter(|key| items.must_fetch(key)),
    }
}

/// Answers a request for an item, unless the session has to wait for the item.
fn respond_item(
    is_available: Option<bool>,
    request: &Request<'_>,
    items: &mut dyn Items,
    reply: &Reply<'_>,
    value: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Answered {
    match is_available {
        Some(true) => items::respond(request, items, reply, value, out),
        Some(false) => items::respond_busy(reply, out),
        None => return Answered::Awaits(Next::Completion),
    }
    Answered::Complete
}

/// The ticket of a connection that waits for an item.
struct ItemTicket<F>(Ticket<Completion<F>>);

impl<F> fmt::Debug for ItemTicket<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemTicket").finish_non_exhaustive()
    }
}

impl<F: Send + Sync> FetchReply for ItemTicket<F> {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn complete(self: Box<Self>, fetched: Option<Fetched>) {
        self.0.complete(Completion::Fetched(fetched));
    }
}

/// The name of the file that a request is for, and whether it is the index of a folder. The error
/// is what the client is told.
fn file_name(request: &Request<'_>) -> Result<(Vec<u8>, bool), (Status, &'static str)> {
    if !matches!(request.method, "GET" | "HEAD") {
        return Err((Status::MethodNotAllowed, "only GET and HEAD are served\n"));
    }
    let mut name = decode_path(request.path()).map_err(|error| match error {
        PathError::Malformed => (Status::BadRequest, "the path is malformed\n"),
        PathError::EncodedSlash => (Status::NotFound, "there is no such document\n"),
    })?;
    let is_index = name.is_empty() || name.ends_with(b"/");
    if is_index {
        name.extend_from_slice(INDEX);
    }
    Ok((name, is_index))
}

fn stop(consumed: usize, next: Next) -> Progress {
    Progress { consumed, next }
}

#[cfg(test)]
mod tests;
