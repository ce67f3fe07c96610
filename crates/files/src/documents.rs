//! The files below a root as documents over HTTP: a service of a runtime.
//!
//! ```text
//! session: one request at a time, and then the bytes of its document
//!   Idle ─▶ open ─▶ head ─▶ read, block by block ─▶ Idle      as long as nothing would block
//!            │ would block    │ would block
//!            ▼                ▼
//!        AwaitsOpen       AwaitsBlock                          Next::Completion
//! ```
//!
//! Parts of a document that are in the page cache are not read, but sent from there, if they are
//! long and the runtime can ([`Output::push_file`]). What it could not send without waiting, the
//! session takes back and reads.
//!
//! GET and HEAD are answered, with one range, conditions and persistent connections. A request for
//! a folder gets its `index.html`; there are no listings. Nothing is compressed or encrypted.
//! Requests are logged if that is configured.

mod access_log;
mod clock;
mod items;
mod media_type;
mod reply;
mod session;
mod transfer;

use std::net::IpAddr;
use std::sync::Arc;

use http::limits::HEAD_TIME_MAX_NS;
use http::{HostNames, Prepared, Request};
use service::{Abandoned, NoPin, Output, Progress, Service, Tickets, Worker};

use crate::disk::Disk;
use crate::limits::BLOCK_LEN;
use crate::reader_pool::Completion;
pub use crate::reader_pool::Fetched;
use crate::worker::{FileSet, FileWorker};

pub use access_log::AccessLog;
pub use clock::WallClock;
pub use items::{Changed, Condition, FetchReply, FoundItem, Items};
pub use session::DocumentSession;

use access_log::LogBuffer;
use clock::DateCache;

/// Sent to a connection above the limit.
const REJECTION: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 21\r\n\
    Retry-After: 1\r\n\
    Connection: close\r\n\
    \r\n\
    too many connections\n";

/// The items of a cache that are served beside the documents.
#[derive(Clone)]
pub struct ItemService {
    /// Returns the access of a new worker.
    pub worker: Arc<dyn Fn() -> Box<dyn Items> + Send + Sync>,
    /// Wakes the thread that does background work of the cache.
    pub wake_maintenance: Arc<dyn Fn() + Send + Sync>,
    /// Longest value in bytes.
    pub value_max: usize,
}

/// The documents below a root.
pub struct DocumentService<D: Disk> {
    files: Arc<FileSet<D>>,
    clock: WallClock,
    head_time_ns: u64,
    log: Option<Arc<AccessLog>>,
    items: Option<ItemService>,
    sends_files: bool,
    hosts: HostNames,
}

impl<D: Disk> DocumentService<D> {
    /// The documents of `files`. Responses have the date of `clock`.
    #[must_use]
    pub fn new(files: Arc<FileSet<D>>, clock: WallClock) -> Self {
        Self {
            files,
            clock,
            head_time_ns: HEAD_TIME_MAX_NS,
            log: None,
            items: None,
            sends_files: true,
            hosts: HostNames::default(),
        }
    }

    /// The same for requests to a host with one of these names ([`HostNames`]).
    #[must_use]
    pub fn with_host_names(self, names: &[String]) -> Self {
        Self {
            hosts: HostNames::new(names),
            ..self
        }
    }

    /// The same with a log of the requests.
    #[must_use]
    pub fn with_log(self, log: Option<Arc<AccessLog>>) -> Self {
        Self { log, ..self }
    }

    /// The same with the items of a cache.
    #[must_use]
    pub fn with_items(self, items: Option<ItemService>) -> Self {
        Self { items, ..self }
    }

    /// The same, but all bytes of documents are copied if `sends_files` is false.
    #[must_use]
    pub fn with_sendfile(self, sends_files: bool) -> Self {
        Self {
            sends_files,
            ..self
        }
    }

    /// The same with another limit of the time that the head of a request may take to arrive, in
    /// nanoseconds.
    #[must_use]
    pub fn with_head_time(self, head_time_ns: u64) -> Self {
        Self {
            head_time_ns,
            ..self
        }
    }
}

impl<D: Disk> Service for DocumentService<D> {
    type Worker = DocumentWorker<D>;

    fn worker(&self) -> DocumentWorker<D> {
        DocumentWorker {
            files: FileWorker::new(&self.files),
            dates: DateCache::new(self.clock),
            head_time_ns: self.head_time_ns,
            log: self.log.as_ref().map(LogBuffer::new),
            body_max: self.items.as_ref().map_or(0, |items| items.value_max),
            items: self.items.as_ref().map(|items| (items.worker)()),
            value: Vec::new(),
            sends_files: self.sends_files,
            hosts: self.hosts.clone(),
            now_ns: 0,
        }
    }

    fn rejection(&self) -> &'static [u8] {
        REJECTION
    }

    fn maintenance_waker(&self) -> Box<dyn Fn() + Send + Sync> {
        let wake = self
            .items
            .as_ref()
            .map(|items| Arc::clone(&items.wake_maintenance));
        Box::new(move || {
            if let Some(wake) = &wake {
                wake();
            }
        })
    }
}

/// A worker of the documents.
pub struct DocumentWorker<D: Disk> {
    files: FileWorker<D>,
    dates: DateCache,
    head_time_ns: u64,
    hosts: HostNames,
    log: Option<LogBuffer>,
    /// Longest body of a request in bytes.
    body_max: usize,
    items: Option<Box<dyn Items>>,
    /// Memory for the value of an item.
    value: Vec<u8>,
    /// Whether long parts of documents are sent without a copy.
    sends_files: bool,
    /// The time of the burst.
    now_ns: u64,
}

impl<D: Disk> DocumentWorker<D> {
    /// Logs a request whose reply, or the head of it, begins at `start` in the output.
    fn log(
        &mut self,
        peer: Option<IpAddr>,
        request: Option<&Request<'_>>,
        out: &Output<NoPin>,
        start: usize,
    ) {
        if let Some(log) = &self.log {
            let (date, _) = self.dates.at(self.now_ns);
            // A reply begins with copied bytes, and the service has no pins.
            let reply = out.copied_bytes().get(start..);
            log.append(peer, date, request, reply.unwrap_or_default());
        }
    }
}

impl<D: Disk> Worker for DocumentWorker<D> {
    type Session = DocumentSession<D::File>;
    type Request<'i> = Prepared<'i>;
    type Pin = NoPin;
    type Completion = Completion<D::File>;

    fn open(&self) -> DocumentSession<D::File> {
        DocumentSession::new(self.head_time_ns, self.body_max, self.hosts.clone())
    }

    fn begin_burst(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        if let Some(items) = &mut self.items {
            items.begin_burst(now_ns);
        }
    }

    fn end_burst(&mut self, _: Option<u64>) {
        if let Some(items) = &mut self.items {
            items.end_burst();
            self.value.shrink_to(BLOCK_LEN);
        }
    }

    fn online(&mut self) {
        if let Some(items) = &mut self.items {
            items.online();
        }
    }

    fn offline(&mut self) {
        if let Some(items) = &mut self.items {
            items.offline();
        }
    }

    fn maintain(&mut self, now_ns: u64, count: usize) -> bool {
        let items = self.items.as_mut();
        items.is_some_and(|items| items.maintain(now_ns, count))
    }

    fn needs_maintenance_thread(&self) -> bool {
        let items = self.items.as_ref();
        items.is_some_and(|items| items.needs_maintenance_thread())
    }

    fn prepare<'i>(
        &self,
        session: &mut DocumentSession<D::File>,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<Prepared<'i>>,
    ) -> usize {
        session.prepare(input, max, requests)
    }

    fn answer(
        &mut self,
        session: &mut DocumentSession<D::File>,
        requests: &[Prepared<'_>],
        input: &[u8],
        mut tickets: Tickets<'_, Completion<D::File>>,
        out: &mut Output<NoPin>,
    ) -> Progress {
        session.answer(requests, input, self, &mut tickets, out)
    }

    fn complete(
        &mut self,
        session: &mut DocumentSession<D::File>,
        number: u32,
        result: Result<Completion<D::File>, Abandoned>,
    ) {
        if let Ok(Completion::Opened { name, outcome }) = &result {
            self.files.remember(name, outcome, self.now_ns);
        }
        session.complete(number, result);
    }

    fn reset(&mut self) {
        self.files.reset();
        if let Some(items) = &mut self.items {
            items.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rejection_states_its_length() {
        let text = std::str::from_utf8(REJECTION).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let expected = format!("Content-Length: {}", body.len());
        assert!(head.lines().any(|line| line == expected), "{expected}");
    }
}
