//! The watchers of a cache, and the delivery of log lines to them. A *watcher* is a client that has
//! sent `watch`. A *stream* is the log lines about one kind of event. The *collector* is a thread
//! that moves the lines from the workers' buffers to the watchers.

use std::sync::Arc;

use protocol::Streams;
use service::{Next, Ticket};

use crate::counters::Counters;
use crate::event_log::{Delivered, LogConfig, LogShared, Watcher};
use crate::limits::WATCHERS_MAX;
use crate::registry::CounterRegistry;
use crate::tier_reads::TierRead;

/// The present watchers, and the numbers of lines delivered to all watchers so far.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// The part of the log that all workers share. `None`: the server has no log.
    shared: Option<Arc<LogShared>>,
    present: Vec<Arc<Watcher>>,
    delivered: Delivered,
    /// Whether the collector is running. It is started for the first watcher, and ends when it
    /// finds no watchers.
    is_collecting: bool,
}

/// The statistics of the log, in memcached's terms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Lines dropped by workers, because a buffer was full or locked.
    pub dropped: u64,
    /// Lines written by workers.
    pub written: u64,
    /// Lines that watchers missed, because their buffers were full.
    pub skipped: u64,
    /// Lines that were put into watchers' buffers.
    pub sent: u64,
    /// Present watchers.
    pub watchers: u64,
}

/// Why a `watch` is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchRefused {
    /// This server has no log.
    Unsupported,
    /// There are [`WATCHERS_MAX`] watchers already.
    TooMany,
}

/// The session's handle of its watcher. Dropping the handle removes the watcher.
#[derive(Debug)]
pub struct Watching {
    registry: Arc<CounterRegistry>,
    watcher: Arc<Watcher>,
}

impl CounterRegistry {
    /// Enables the log. Called once, before the first worker registers.
    pub fn enable_log(&self, config: LogConfig) {
        let shared = Arc::new(LogShared::new(config));
        self.connections().log.share(&shared);
        self.watchers().shared = Some(shared);
    }

    /// Adds a watcher whose connection has this file descriptor. Returns its handle, and whether
    /// the caller has to start the collector, which calls [`collect_log`](Self::collect_log)
    /// repeatedly.
    ///
    /// # Errors
    /// No watcher can be added. The error is the reason.
    pub fn watch(
        self: &Arc<Self>,
        streams: Streams,
        descriptor: i32,
    ) -> Result<(Watching, bool), WatchRefused> {
        let mut watchers = self.watchers();
        let shared = watchers.shared.as_ref().ok_or(WatchRefused::Unsupported)?;
        if watchers.present.len() >= WATCHERS_MAX {
            return Err(WatchRefused::TooMany);
        }
        // The number of the last line before this watcher, and the size of the watcher's buffer.
        let (gid, bytes_max) = (shared.last_gid(), shared.config.watcher_bytes);
        let watcher = Arc::new(Watcher::new(streams, descriptor, gid, bytes_max));
        watchers.present.push(Arc::clone(&watcher));
        let starts_collector = !std::mem::replace(&mut watchers.is_collecting, true);
        self.update_streams(&watchers);
        let registry = Arc::clone(self);
        Ok((Watching { registry, watcher }, starts_collector))
    }

    /// The streams that are watched.
    #[must_use]
    pub fn watched_streams(&self) -> Streams {
        self.watchers().streams()
    }

    /// Delivers all lines to the watchers. Returns whether there were lines. Returns `None` if
    /// there is no watcher; the collector then ends.
    pub fn collect_log(&self) -> Option<bool> {
        let present = {
            let mut watchers = self.watchers();
            watchers.is_collecting = !watchers.present.is_empty();
            watchers.is_collecting.then(|| watchers.present.clone())?
        };
        let mut found = false;
        let buffers = self.workers().clone();
        let lines = buffers.iter().map(|counters| counters.log().take());
        for lines in lines.chain([self.connections().log.take()]) {
            if lines.is_empty() {
                continue;
            }
            found = true;
            let mut sum = Delivered::default();
            for watcher in &present {
                let delivered = watcher.deliver(&lines);
                sum.sent += delivered.sent;
                sum.skipped += delivered.skipped;
            }
            let mut watchers = self.watchers();
            watchers.delivered.sent += sum.sent;
            watchers.delivered.skipped += sum.skipped;
        }
        Some(found)
    }

    /// Closes the watchers whose clients have closed their side of the connection. `has_hung_up`
    /// says whether the client of the connection with a file descriptor has done so.
    pub fn close_watchers(&self, has_hung_up: fn(i32) -> bool) {
        let present = self.watchers().present.clone();
        for watcher in present {
            watcher.close_if(has_hung_up);
        }
    }

    /// Records that the collector could not be started, or that it ended although there were
    /// watchers. When the next watcher is added, the collector is started again.
    pub fn collector_failed(&self) {
        self.watchers().is_collecting = false;
    }

    /// The statistics of the log.
    #[must_use]
    pub fn log_counts(&self) -> LogCounts {
        let mut sum = LogCounts::default();
        let mut add = |(dropped, written): (u64, u64)| {
            sum.dropped += dropped;
            sum.written += written;
        };
        for counters in &*self.workers() {
            add(counters.log().counts());
        }
        add(self.connections().log.counts());
        let watchers = self.watchers();
        LogCounts {
            skipped: watchers.delivered.skipped,
            sent: watchers.delivered.sent,
            watchers: watchers.present.len() as u64,
            ..sum
        }
    }

    /// Tells all workers, and the list of connections, which streams are watched.
    fn update_streams(&self, watchers: &Watchers) {
        let streams = watchers.streams();
        for counters in &*self.workers() {
            counters.set_watched(streams);
        }
        let is_logged = streams.intersects(Streams::CONNEVENTS);
        self.connections().set_logged(is_logged);
    }
}

impl Watchers {
    /// Connects the log of a new worker, and tells the worker which streams are watched.
    pub(crate) fn set_up(&self, worker: &Counters) {
        if let Some(shared) = &self.shared {
            worker.log().share(shared);
        }
        worker.set_watched(self.streams());
    }

    /// The streams that are watched.
    fn streams(&self) -> Streams {
        let all = self.present.iter().map(|watcher| watcher.streams);
        all.fold(Streams::NONE, Streams::with)
    }
}

impl Watching {
    /// Appends lines to `out`. Returns what the session needs before it can append further lines.
    /// If there are no lines, takes a ticket from `issue`. The next line completes the ticket, and
    /// so gives the session a turn.
    pub(crate) fn resume(
        &self,
        out: &mut Vec<u8>,
        issue: impl FnOnce() -> Option<Ticket<TierRead>>,
    ) -> Next {
        let before = out.len();
        match self.watcher.take(out, issue) {
            true if out.len() > before => Next::OutputSpace,
            true => Next::Completion,
            // The client has closed its side of the connection, or no ticket is free. Without a
            // ticket the connection would wait forever.
            false => Next::Close,
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut watchers = self.registry.watchers();
        let is_other = |other: &Arc<Watcher>| !Arc::ptr_eq(other, &self.watcher);
        watchers.present.retain(is_other);
        self.registry.update_streams(&watchers);
    }
}
