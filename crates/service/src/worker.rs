//! The traits that a service implements.

use crate::completion::{Abandoned, Tickets};
use crate::output::{Output, Pin};
use crate::progress::Progress;

/// What a listener offers.
pub trait Service: Send + Sync + 'static {
    /// The state of one worker.
    type Worker: Worker;

    /// Creates the state of a new worker.
    fn worker(&self) -> Self::Worker;

    /// The bytes sent to a connection above the limit, before it is closed.
    fn rejection(&self) -> &'static [u8];

    /// What wakes the thread that does the service's maintenance which makes system calls. It is
    /// called without any lock, after [`Worker::needs_maintenance_thread`] was true.
    fn maintenance_waker(&self) -> Box<dyn Fn() + Send + Sync> {
        Box::new(|| {})
    }
}

/// A service's state of one worker of a runtime, and what the service does with the connections of
/// that worker. Only one thread uses the state at a time. A method never calls back into the
/// runtime.
pub trait Worker: Send + 'static {
    /// The state of a connection.
    type Session: Session;
    /// A request that is parsed but not answered. It borrows the input.
    type Request<'i>: Send;
    /// The memory that an output may pin.
    type Pin: Pin;
    /// What a [ticket](crate::Ticket) is completed with.
    type Completion: Send + 'static;

    /// Creates the state of a new connection. It must be cheap, and may be called for a connection
    /// that is about to be closed.
    fn open(&self) -> Self::Session;

    /// Prepares for use: the worker's thread runs again. Called before any other method after
    /// [`offline`](Self::offline). May be called when the worker is online already.
    fn online(&mut self) {}

    /// Releases all references to shared memory until [`online`](Self::online) is called: the
    /// worker's thread is about to sleep.
    fn offline(&mut self) {}

    /// Begins a burst: every call until [`end_burst`](Self::end_burst) happens at `now_ns`.
    fn begin_burst(&mut self, now_ns: u64);

    /// Parses requests at the front of `input`, at most `max`, appends them to `requests`, and
    /// prefetches the first part of the memory they need. Returns how many it appended. Exactly
    /// these are then passed to [`answer`](Self::answer), with the same input, or are discarded
    /// ([`Session::discard_prepared`]).
    fn prepare<'i>(
        &self,
        session: &mut Self::Session,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<Self::Request<'i>>,
    ) -> usize;

    /// Prefetches the rest of the memory that requests need. Called after their first part had time
    /// to arrive in the cache.
    fn prefetch(&self, requests: &mut [Self::Request<'_>]) {
        let _ = requests;
    }

    /// Executes prepared requests in order and appends the replies to `out`. Input that was not
    /// consumed is prepared again.
    fn answer(
        &mut self,
        session: &mut Self::Session,
        requests: &[Self::Request<'_>],
        input: &[u8],
        tickets: Tickets<'_, Self::Completion>,
        out: &mut Output<Self::Pin>,
    ) -> Progress;

    /// Delivers the result of the ticket `number` of a session, which then gets a turn.
    fn complete(
        &mut self,
        session: &mut Self::Session,
        number: u32,
        result: Result<Self::Completion, Abandoned>,
    ) {
        let _ = (session, number, result);
    }

    /// Whether [`end_burst`](Self::end_burst) needs the time that the burst took, which costs one
    /// reading of the clock per burst.
    fn needs_elapsed_time(&self) -> bool {
        false
    }

    /// Ends a burst: no reference to shared memory is held between bursts. It may be called without
    /// a burst. `elapsed_ns` is the time from the wake-up of the worker until the replies were
    /// written; with `events` they have also been passed to the kernel.
    fn end_burst(&mut self, elapsed_ns: Option<u64>) {
        let _ = elapsed_ns;
    }

    /// Does one step of background work of at most `items` items, without system calls. Returns
    /// true if more work may remain.
    fn maintain(&mut self, now_ns: u64, items: usize) -> bool {
        let _ = (now_ns, items);
        false
    }

    /// Whether maintenance that makes system calls is due, which another thread does
    /// ([`Service::maintenance_waker`]).
    fn needs_maintenance_thread(&self) -> bool {
        false
    }

    /// Prefetches memory for input that has arrived on a connection which is not answered yet. This
    /// call is a hint, for runtimes that answer one connection at a time.
    fn begin_early_prefetch(&mut self, input: &[u8]) {
        let _ = input;
    }

    /// Prefetches the remaining memory for all input passed to
    /// [`begin_early_prefetch`](Self::begin_early_prefetch).
    fn finish_early_prefetch(&mut self) {}

    /// Replaces what a panic may have left inconsistent.
    fn reset(&mut self) {}
}

/// A service's state of one connection.
pub trait Session: Send + 'static {
    /// Discards prepared requests that will not be answered. The same input is prepared again
    /// later, from its front.
    fn discard_prepared(&mut self) {}

    /// The memory that the next bytes of input may be received into, after
    /// [`Next::Upload`](crate::Next::Upload). Empty if they have to come as input.
    fn upload_buffer(&mut self) -> &mut [u8] {
        &mut []
    }

    /// Records that the first `len` bytes of [`upload_buffer`](Self::upload_buffer) have been
    /// received.
    fn advance_upload(&mut self, len: usize) {
        let _ = len;
    }

    /// Whether the session holds memory that other connections may wait for.
    fn holds_memory(&self) -> bool {
        false
    }
}

/// Empties a list of prepared requests and removes the lifetime of its last burst, so that the next
/// burst reuses its allocation.
#[must_use]
#[expect(
    clippy::unnecessary_filter_map,
    reason = "a filter would keep the old lifetime"
)]
pub fn recycle<'b, W: Worker>(mut requests: Vec<W::Request<'_>>) -> Vec<W::Request<'b>> {
    requests.clear();
    // The types differ in the lifetime only, so the standard library collects in place.
    requests.into_iter().filter_map(|_| None).collect()
}

/// The completion of a service that waits for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCompletion {}

/// The pin of a service that pins nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPin {}

impl Pin for NoPin {
    fn len(&self) -> usize {
        match *self {}
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::empty()
    }
}
