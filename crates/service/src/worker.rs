//! The traits that a service implements.

use std::net::IpAddr;

use crate::completion::{Abandoned, Tickets};
use crate::endpoint::Endpoint;
use crate::output::{Output, Pin};
use crate::progress::Progress;

/// A service, which answers the requests on the connections of a listener. All workers share it.
pub trait Service: Send + Sync + 'static {
    /// The state of one worker.
    type Worker: Worker;

    /// Creates the state of a new worker.
    fn worker(&self) -> Self::Worker;

    /// Returns the bytes that are sent to a connection above the connection limit before it is
    /// closed.
    fn rejection(&self) -> &'static [u8];

    /// Returns a function that wakes the service's maintenance thread, which does the maintenance
    /// that makes system calls. The runtime calls it after [`Worker::needs_maintenance_thread`]
    /// returned true, and holds no lock during the call.
    fn maintenance_waker(&self) -> Box<dyn Fn() + Send + Sync> {
        Box::new(|| {})
    }
}

/// A service's state of one worker of a runtime. Its methods serve the connections of that worker.
/// Only one thread uses the state at a time. A method never calls back into the runtime.
pub trait Worker: Send + 'static {
    /// The state of a connection.
    type Session: Session;
    /// A request that is parsed but not answered. It borrows the input.
    type Request<'i>: Send;
    /// A pin of memory that is sent without a copy.
    type Pin: Pin;
    /// The result of a [ticket](crate::Ticket).
    type Completion: Send + 'static;

    /// Creates the state of a new connection. This must be cheap, because a runtime also calls it
    /// for a connection that it closes immediately.
    fn open(&self) -> Self::Session;

    /// Creates the state for the requests of one datagram, which have one reply. All other
    /// datagrams wait for it, so a service may refuse requests that take long.
    fn open_datagram(&self) -> Self::Session {
        self.open()
    }

    /// Prepares the worker for use, because its thread runs again. A new worker is offline. While
    /// the worker is new, or after [`offline`](Self::offline) or [`reset`](Self::reset), this is
    /// called before any method except those two. It may also be called when the worker is online.
    fn online(&mut self) {}

    /// Releases all references to shared memory, because the worker's thread is about to sleep.
    /// The worker takes none until [`online`](Self::online) is called. May be called when the
    /// worker is offline, and while its thread unwinds after a panic of another method, so it must
    /// not panic.
    fn offline(&mut self) {}

    /// Begins a burst. The time is `now_ns` for all calls until [`end_burst`](Self::end_burst).
    fn begin_burst(&mut self, now_ns: u64);

    /// Parses at most `max` requests at the front of `input`, appends them to `requests`, and
    /// prefetches the memory that their execution reads first (in the cache, index buckets).
    /// Returns the number of appended requests. The runtime then passes exactly these, with the
    /// same input, to [`answer`](Self::answer), or discards them ([`Session::discard_prepared`]).
    fn prepare<'i>(
        &self,
        session: &mut Self::Session,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<Self::Request<'i>>,
    ) -> usize;

    /// Prefetches the other memory that prepared requests need (in the cache, items). To find that
    /// memory, it reads what [`prepare`](Self::prepare) has prefetched. A runtime therefore
    /// prepares all sessions of a burst before it calls this.
    fn prefetch(&self, requests: &mut [Self::Request<'_>]) {
        let _ = requests;
    }

    /// Executes prepared requests in order and appends the replies to `out`. The runtime later
    /// prepares again the input that was not consumed.
    fn answer(
        &mut self,
        session: &mut Self::Session,
        requests: &[Self::Request<'_>],
        input: &[u8],
        tickets: Tickets<'_, Self::Completion>,
        out: &mut Output<Self::Pin>,
    ) -> Progress;

    /// Delivers the result of the ticket that the session issued with `number`. The session
    /// then gets a turn.
    fn complete(
        &mut self,
        session: &mut Self::Session,
        number: u32,
        result: Result<Self::Completion, Abandoned>,
    ) {
        let _ = (session, number, result);
    }

    /// Whether [`end_burst`](Self::end_burst) needs the time that the burst took. If so, the
    /// runtime reads the clock once more per burst.
    fn needs_elapsed_time(&self) -> bool {
        false
    }

    /// Ends a burst. The worker must hold no reference to shared memory between bursts. May be
    /// called although no burst was begun. `elapsed_ns` is the time from the wake-up of the worker
    /// until the replies were written to the output. With `events` it also contains the time of the
    /// system calls that send them.
    fn end_burst(&mut self, elapsed_ns: Option<u64>) {
        let _ = elapsed_ns;
    }

    /// Does one step of background work, which visits at most `items` items and makes no system
    /// calls. Returns true if more work may remain.
    fn maintain(&mut self, now_ns: u64, items: usize) -> bool {
        let _ = (now_ns, items);
        false
    }

    /// Whether maintenance that makes system calls is due. The runtime then wakes the thread that
    /// does it ([`Service::maintenance_waker`]).
    fn needs_maintenance_thread(&self) -> bool {
        false
    }

    /// Prefetches the memory that the first request in `input` reads first, before the turn of its
    /// connection. Runtimes that answer one connection at a time (`fibres`) call this for each
    /// connection that has received input, because `prepare` would prefetch too late for them. The
    /// call is only a hint.
    fn begin_early_prefetch(&mut self, input: &[u8]) {
        let _ = input;
    }

    /// Prefetches the other memory that these requests need, for all input that was passed to
    /// [`begin_early_prefetch`](Self::begin_early_prefetch) since the last call.
    fn finish_early_prefetch(&mut self) {}

    /// Replaces the parts of the state that a panic may have left inconsistent. The worker may be
    /// offline afterwards. May be called when the worker is offline.
    fn reset(&mut self) {}
}

/// A service's state of one connection.
pub trait Session: Send + 'static {
    /// Whether [`input_deadline_ns`](Self::input_deadline_ns) may return a time.
    const HAS_INPUT_DEADLINE: bool = false;

    /// Whether the runtime has to call [`set_peer`](Self::set_peer), which costs a system call for
    /// each connection.
    const NEEDS_PEER: bool = false;

    /// Takes note of the peer's address. Called once, before the first turn, if the transport has
    /// such addresses.
    fn set_peer(&mut self, address: IpAddr) {
        let _ = address;
    }

    /// Whether the runtime has to call [`set_endpoint`](Self::set_endpoint), which costs two system
    /// calls for each connection.
    const NEEDS_ENDPOINT: bool = false;

    /// Takes note of the two ends of the connection, and of the monotonic time at which it was
    /// opened, in nanoseconds. Called once, before the first turn, if the connection is a socket.
    fn set_endpoint(&mut self, endpoint: Endpoint, opened_ns: u64) {
        let _ = (endpoint, opened_ns);
    }

    /// The time, in nanoseconds, by which input that has begun has to be complete. If the session
    /// waits for input and this time passes, the runtime gives it a turn without new input, within
    /// about a second, so that it can close the connection.
    fn input_deadline_ns(&self) -> Option<u64> {
        None
    }

    /// Discards prepared requests that will not be answered. The runtime later prepares the same
    /// input again, from its front.
    fn discard_prepared(&mut self) {}

    /// Returns the memory into which the runtime may receive the next bytes of input directly,
    /// after [`Next::Upload`](crate::Next::Upload). If the slice is empty, the runtime has to pass
    /// these bytes as input.
    fn upload_buffer(&mut self) -> &mut [u8] {
        &mut []
    }

    /// Records that the first `len` bytes of [`upload_buffer`](Self::upload_buffer) have been
    /// received.
    fn advance_upload(&mut self, len: usize) {
        let _ = len;
    }

    /// Takes back the last `len` bytes of the output: the end of the [part of a
    /// file](crate::FileRange) that the session has appended, which the runtime could not send
    /// without waiting for a disk. The other bytes have been sent. Called before the next turn, in
    /// which the session begins with these bytes.
    fn take_back(&mut self, len: usize) {
        debug_assert_eq!(len, 0, "the session appends parts of files");
    }

    /// Returns the bytes that the results of open tickets, or results that the session has taken
    /// and not answered with, may occupy. While its peer does not take the output, a session has no
    /// turns. These bytes then count towards the bound of the memory of all connections. A session
    /// that does not know the length of a result before it arrives counts it from then on. By
    /// default results are not counted.
    fn result_bytes(&self) -> usize {
        0
    }

    /// Whether the session holds memory for which other connections may wait.
    fn holds_memory(&self) -> bool {
        false
    }
}

/// Empties a list of prepared requests and returns it with another lifetime. The requests borrowed
/// the input of one burst; the empty list, with the same allocation, can hold requests that borrow
/// the input of the next burst.
#[must_use]
#[expect(
    clippy::unnecessary_filter_map,
    reason = "a filter would not change the lifetime in the type of the list"
)]
pub fn recycle<'b, W: Worker>(mut requests: Vec<W::Request<'_>>) -> Vec<W::Request<'b>> {
    requests.clear();
    // The two element types differ only in a lifetime, so `collect` reuses the allocation.
    requests.into_iter().filter_map(|_| None).collect()
}

/// The type of the results of a service that issues no tickets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCompletion {}

/// The type of the pins of a service that pins no memory.
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
