//! Log lines of events, for `watch`. A *watcher* is a client that receives such lines.
//!
//! ```text
//! worker ── line ──▶ LogBuffer (one for each worker) ──▶ collector thread ──▶ Watcher ──▶ session
//!             │ full: dropped                                │ full: skipped
//! ```
//!
//! Lines about opened and closed connections have a buffer of their own, which all workers share.
//!
//! - While no stream is watched, the log adds no cost to an event: it shares the flag that counting
//!   by key prefix tests anyway.
//! - A worker never waits: if the buffer is full or locked, the line is dropped and counted.
//! - The collector is a thread that exists while there are watchers. It copies each line to the
//!   watchers of its stream, and wakes their connections.
//! - While the buffer of a watcher is full, further lines for it are skipped. The next line that it
//!   receives is preceded by the number of skipped lines.
//!
//! The format of the lines is that of memcached 1.6.45 (`logger.c`).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use protocol::Streams;
use protocol::reply::uri_encoded;
use service::Ticket;

use crate::limits::LOG_LINE_MAX;
use crate::tier_reads::TierRead;

/// What all buffers share.
#[derive(Debug)]
pub(crate) struct LogShared {
    /// The number of the last line. Lines are numbered from 1 across all buffers (`gid=` in the
    /// text).
    gid: AtomicU64,
    pub(crate) config: LogConfig,
}

/// The configuration of the log.
#[derive(Debug, Clone, Copy)]
pub struct LogConfig {
    /// Size of the buffer of a worker in bytes.
    pub worker_bytes: usize,
    /// Size of the buffer of a watcher in bytes.
    pub watcher_bytes: usize,
    /// Returns the time since the Unix epoch.
    pub unix_time: fn() -> Duration,
}

impl LogShared {
    pub(crate) fn new(config: LogConfig) -> Self {
        Self {
            gid: AtomicU64::new(0),
            config,
        }
    }

    pub(crate) fn last_gid(&self) -> u64 {
        self.gid.load(Ordering::Relaxed)
    }
}

/// Lines that have not been collected.
#[derive(Debug, Default)]
pub(crate) struct LogBuffer {
    shared: OnceLock<Arc<LogShared>>,
    lines: Mutex<Lines>,
    dropped: AtomicU64,
    written: AtomicU64,
}

/// Log lines: their joined text, and for each line its stream, number and length.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    text: String,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    stream: Streams,
    gid: u64,
    len: usize,
}

impl Lines {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl LogBuffer {
    pub(crate) fn share(&self, shared: &Arc<LogShared>) {
        let _ = self.shared.set(Arc::clone(shared));
    }

    /// Adds a line. `write` appends its text after `gid=…`.
    pub(crate) fn push(&self, stream: Streams, write: impl FnOnce(&mut String)) {
        let Some(shared) = self.shared.get() else {
            return;
        };
        let bytes_max = shared.config.worker_bytes;
        let Some(mut lines) = self
            .lines
            .try_lock()
            .ok()
            .filter(|lines| lines.text.len() + LOG_LINE_MAX <= bytes_max)
        else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let gid = shared.gid.fetch_add(1, Ordering::Relaxed) + 1;
        let time = (shared.config.unix_time)();
        let before = lines.text.len();
        // Writing to a `String` cannot fail. As in memcached, the microseconds have no leading
        // zeros.
        let _ = write!(
            lines.text,
            "ts={}.{} gid={gid} ",
            time.as_secs(),
            time.subsec_micros()
        );
        write(&mut lines.text);
        lines.text.push('\n');
        let len = lines.text.len() - before;
        lines.lines.push(Line { stream, gid, len });
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts lines that were not written because there were too many events.
    pub(crate) fn count_dropped(&self, lines: u64) {
        if self.shared.get().is_some() {
            self.dropped.fetch_add(lines, Ordering::Relaxed);
        }
    }

    /// Takes all lines.
    pub(crate) fn take(&self) -> Lines {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The numbers of lines dropped and written.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let load = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        (load(&self.dropped), load(&self.written))
    }
}

/// The lines for one client.
#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) streams: Streams,
    /// The file descriptor of its connection.
    descriptor: i32,
    /// The number of the last line before the watcher was added. It receives only later lines.
    gid_before: u64,
    bytes_max: usize,
    inbox: Mutex<Inbox>,
}

#[derive(Debug, Default)]
struct Inbox {
    text: String,
    skipped: u64,
    /// Wakes the connection, which waits for lines. All tickets of the cache have the result type
    /// [`TierRead`]; here the result is always `None`.
    ticket: Option<Ticket<TierRead>>,
    /// The client has closed its side of the connection.
    is_closed: bool,
}

/// The numbers of lines that watchers received and missed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub(crate) sent: u64,
    pub(crate) skipped: u64,
}

impl Watcher {
    pub(crate) fn new(
        streams: Streams,
        descriptor: i32,
        gid_before: u64,
        bytes_max: usize,
    ) -> Self {
        Self {
            streams,
            descriptor,
            gid_before,
            bytes_max,
            inbox: Mutex::default(),
        }
    }

    /// Copies those of `lines` that are of the watcher's streams to its inbox, and wakes its
    /// connection.
    pub(crate) fn deliver(&self, lines: &Lines) -> Delivered {
        let (mut delivered, mut start) = (Delivered::default(), 0);
        let mut inbox = self.inbox();
        for line in &lines.lines {
            let text = &lines.text[start..start + line.len];
            start += line.len;
            if !line.stream.intersects(self.streams) || line.gid <= self.gid_before {
                continue;
            }
            if inbox.text.len() + LOG_LINE_MAX > self.bytes_max {
                inbox.skipped += 1;
                delivered.skipped += 1;
                continue;
            }
            let skipped = std::mem::take(&mut inbox.skipped);
            if skipped > 0 {
                let _ = writeln!(inbox.text, "skipped={skipped}");
            }
            inbox.text.push_str(text);
            delivered.sent += 1;
        }
        let is_ready = !inbox.text.is_empty();
        let ticket = inbox.ticket.take_if(|_| is_ready);
        drop(inbox);
        if let Some(ticket) = ticket {
            ticket.complete(None);
        }
        delivered
    }

    /// Ends the watching if `has_hung_up` says that the client of this descriptor has closed its
    /// side of the connection. While no lines come, the connection waits for its ticket and does
    /// not read from its socket, so it would not find the end of the input.
    pub(crate) fn close_if(&self, has_hung_up: fn(i32) -> bool) {
        if !has_hung_up(self.descriptor) {
            return;
        }
        let mut inbox = self.inbox();
        inbox.is_closed = true;
        let ticket = inbox.ticket.take();
        drop(inbox);
        if let Some(ticket) = ticket {
            ticket.complete(None);
        }
    }

    /// Appends the lines to `out`. If there are no lines, keeps a ticket from `issue`, which the
    /// next line completes. Returns false if `issue` returned no ticket, or if the client has
    /// closed its side of the connection.
    pub(crate) fn take(
        &self,
        out: &mut Vec<u8>,
        issue: impl FnOnce() -> Option<Ticket<TierRead>>,
    ) -> bool {
        let mut inbox = self.inbox();
        if inbox.is_closed {
            return false;
        }
        if inbox.text.is_empty() {
            inbox.ticket = issue();
            return inbox.ticket.is_some();
        }
        out.extend_from_slice(inbox.text.as_bytes());
        inbox.text.clear();
        true
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends ` key=…`, percent-encoded.
pub(crate) fn push_key(text: &mut String, key: &[u8]) {
    let mut encoded = Vec::with_capacity(key.len());
    uri_encoded(&mut encoded, key);
    text.push_str(" key=");
    // The encoding is ASCII.
    text.push_str(&String::from_utf8_lossy(&encoded));
}
