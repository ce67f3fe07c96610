//! The event log: lines of text about events (reads, stores, evictions and others), for the command
//! `watch`.
//!
//! ```text
//! worker ── line ──▶ LogBuffer (one for each worker) ──▶ collector thread ──▶ Watcher ──▶ session
//!             │ full: dropped                                │ full: skipped
//! ```
//!
//! - The lines about opened and closed connections are an exception: all workers write them into
//!   one further `LogBuffer`.
//! - While no stream is watched, the log adds no test to a request. `Counters::is_observed` tests a
//!   single word for both the log and the counting by key prefix (`stats detail`).
//! - A worker never waits for the log. If a `LogBuffer` is full or locked, it counts the line as
//!   dropped, and the line is lost.
//! - The collector is a thread that exists while there are watchers. It copies each line into the
//!   inbox of every watcher of the line's stream, and wakes the connections of these watchers.
//! - While the inbox of a watcher is full, the collector skips further lines for this watcher. The
//!   next line that the watcher receives is preceded by the line `skipped=N`, where N is the number
//!   of skipped lines.
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

/// The part of the log that is common to all buffers: the numbers of the lines, and the
/// configuration.
#[derive(Debug)]
pub(crate) struct LogShared {
    /// The number of the last line that was written into any buffer. The lines of all buffers are
    /// numbered in one sequence from 1. A line contains its number as `gid=` (memcached's name).
    gid: AtomicU64,
    pub(crate) config: LogConfig,
}

/// The configuration of the log.
#[derive(Debug, Clone, Copy)]
pub struct LogConfig {
    /// Size of a worker's buffer in bytes. The buffer for lines about connections has this size
    /// too.
    pub worker_bytes: usize,
    /// Size of a watcher's inbox in bytes.
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

    /// The number of the last line that was written into any buffer.
    pub(crate) fn last_gid(&self) -> u64 {
        self.gid.load(Ordering::Relaxed)
    }
}

/// The lines that have been written and that the collector has not taken yet: those of one worker,
/// or those about connections.
#[derive(Debug, Default)]
pub(crate) struct LogBuffer {
    /// Set if the server has a log. Without it, the buffer ignores all lines.
    shared: OnceLock<Arc<LogShared>>,
    lines: Mutex<Lines>,
    /// Number of lines that were lost, because they were not written into `lines`.
    dropped: AtomicU64,
    /// Number of lines that were written into `lines`.
    written: AtomicU64,
}

/// Log lines: their joined text, and for each line its stream, number and length.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    text: String,
    entries: Vec<Line>,
}

/// One of several [`Lines`], without its text.
#[derive(Debug, Clone, Copy)]
struct Line {
    stream: Streams,
    gid: u64,
    /// Length of the text in bytes, line end included.
    len: usize,
}

impl Lines {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl LogBuffer {
    /// Makes this buffer a part of the log that has the common part `shared`. Called at most once,
    /// before the first line.
    pub(crate) fn share(&self, shared: &Arc<LogShared>) {
        let _ = self.shared.set(Arc::clone(shared));
    }

    /// Adds a line about an event of `stream`. `write` appends the part of the line that follows
    /// `gid=…`. If the buffer is full or locked, the line is dropped.
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
        lines.entries.push(Line { stream, gid, len });
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds `lines` to the number of dropped lines. A worker calls this for evictions that cannot
    /// be logged: there were so many that the store did not record them all. If the server has no
    /// log, nothing is counted.
    pub(crate) fn count_dropped(&self, lines: u64) {
        if self.shared.get().is_some() {
            self.dropped.fetch_add(lines, Ordering::Relaxed);
        }
    }

    /// Removes all lines from the buffer and returns them. Only the collector calls this.
    pub(crate) fn take(&self) -> Lines {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of dropped lines and the number of written lines, in this order.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.dropped), load(&self.written))
    }
}

/// A client that receives log lines.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// The streams that the client named.
    pub(crate) streams: Streams,
    /// The file descriptor of the client's connection.
    descriptor: i32,
    /// The number of the last line that was written before the watcher was added. The watcher
    /// receives only lines with greater numbers.
    gid_before: u64,
    /// Size of the inbox in bytes.
    bytes_max: usize,
    inbox: Mutex<Inbox>,
}

/// The lines for a watcher that its session has not taken yet.
#[derive(Debug, Default)]
struct Inbox {
    text: String,
    /// Number of lines that were skipped since the last line in `text`.
    skipped: u64,
    /// Present while the session waits for a line. All tickets have the result type [`TierRead`],
    /// because some deliver an item from the tier. The result of this ticket is `None`.
    ticket: Option<Ticket<TierRead>>,
    /// The client has closed its side of the connection.
    is_closed: bool,
}

/// Numbers of lines: those that were put into inboxes, and those that were skipped because an inbox
/// was full.
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

    /// Copies from `lines` to the inbox each line of a stream that the client named. If the session
    /// waits for a line, wakes its connection.
    pub(crate) fn deliver(&self, lines: &Lines) -> Delivered {
        let (mut delivered, mut start) = (Delivered::default(), 0);
        let mut inbox = self.inbox();
        for line in &lines.entries {
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
                // Writing to a `String` cannot fail.
                let _ = writeln!(inbox.text, "skipped={skipped}");
            }
            inbox.text.push_str(text);
            delivered.sent += 1;
        }
        let has_lines = !inbox.text.is_empty();
        let ticket = inbox.ticket.take_if(|_| has_lines);
        drop(inbox);
        if let Some(ticket) = ticket {
            ticket.complete(None);
        }
        delivered
    }

    /// Makes the session close the connection if the client has closed its side of it.
    /// `has_hung_up` tests this for a file descriptor. The test is necessary because, while a
    /// session waits for a line, some runtimes do not read from its socket. Such a runtime does not
    /// find the end of the input.
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

    /// Moves all lines from the inbox to `out`. If there are none, calls `issue` and keeps the
    /// ticket; the next line will complete this ticket. Returns false if the connection has to be
    /// closed: because the client has closed its side, or because `issue` returned no ticket, so
    /// that nothing would wake the connection.
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

/// Appends ` key=` and the percent-encoded key.
pub(crate) fn push_key(text: &mut String, key: &[u8]) {
    let mut encoded = Vec::with_capacity(key.len());
    uri_encoded(&mut encoded, key);
    text.push_str(" key=");
    // A percent-encoded key consists of ASCII characters, so none is replaced here.
    text.push_str(&String::from_utf8_lossy(&encoded));
}
