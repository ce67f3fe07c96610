//! Helpers of the runtimes' tests: a server inside the process, and a client.

pub(crate) mod toy;

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use service::{Output, Pin, Service};
use session::{
    CacheService, Clock, CounterRegistry, Now, Permissions, PrefixSums, ServerControl, StatWriter,
};
use sys::poll::{Events, Interest, Poll};
use sys::socket::{Bound, Listener, Stream};
use tempfile::TempDir;

use crate::connection::ConnectionIo;
use crate::transport::Sent;
use crate::{ConnectionCounts, Kind, Listening, NewTransform, Running, Scheduler, Setup};

/// The bound of the bytes that connections keep between bursts.
pub(crate) const BUFFERED_MAX: u64 = 1 << 20;
const SOCKET: &str = "socket";
/// Timeout of a reply.
const PATIENCE_NS: u64 = 10_000_000_000;

/// The transport of a connection that no runtime serves.
pub(crate) struct NoIo;

impl ConnectionIo for NoIo {
    fn send<P: Pin>(&mut self, output: &Output<P>, _: usize) -> std::io::Result<Sent> {
        Ok(Sent::Part(output.len()))
    }

    fn has_unsent(&self) -> bool {
        false
    }

    fn buffered(&self) -> usize {
        0
    }
}

/// A control that tests use to make the server panic or wait.
#[derive(Default)]
pub(crate) struct Fragile {
    /// `stats settings` waits here twice: until the test has noticed, and until the test lets it
    /// continue.
    pub(crate) gate: Option<Barrier>,
    /// The next maintenance call panics. `verbosity` arms it.
    pub(crate) is_armed: AtomicBool,
}

/// `stats reset` panics.
impl ServerControl for Fragile {
    fn write_stats(&self, _: Now, _: &mut dyn StatWriter) {}

    fn write_settings(&self, _: &mut dyn StatWriter) {
        if let Some(gate) = &self.gate {
            gate.wait();
            gate.wait();
        }
    }

    fn reset_stats(&self) {
        panic!("as the test asks, within a session");
    }

    fn set_memory_limit(&self, _: u64) -> bool {
        false
    }

    fn wake_maintenance(&self) {
        assert!(
            !self.is_armed.swap(false, Ordering::Relaxed),
            "as the test asks, outside of any session"
        );
    }

    fn set_verbosity(&self, _: u32) {
        self.is_armed.store(true, Ordering::Relaxed);
    }

    fn permissions(&self) -> Permissions {
        Permissions::DEFAULT
    }

    fn stop(&self) {}

    fn set_prefix_counting(&self, _: bool) {}

    fn prefixes(&self) -> PrefixSums {
        PrefixSums::new()
    }
}

/// Parameters of a runtime with one worker.
pub(crate) fn setup(fibre_scheduler: Scheduler) -> Setup {
    Setup {
        wait_policy: crate::WaitPolicy::default(),
        fibre_scheduler,
        workers: 1,
        requests_per_turn: 2,
        counts: Arc::new(ConnectionCounts::new(1024, BUFFERED_MAX)),
    }
}

/// A cache with one worker.
pub(crate) fn cache(control: &Arc<Fragile>) -> CacheService {
    let store = store::Store::new(store::Config {
        memory_bytes: 8 << 20,
        memory_max: 8 << 20,
        workers: 1,
        evicts: true,
        huge_pages: false,
        item_max: 1 << 20,
        hash_seed: 1,
    });
    CacheService {
        store: store.unwrap(),
        control: Arc::<Fragile>::clone(control),
        counters: Arc::<CounterRegistry>::default(),
        timed: true,
        clock: Clock::new(sys::clock::monotonic_ns(), 1_700_000_000),
    }
}

/// A runtime with any service inside the process, behind a TCP and a Unix socket.
pub(crate) struct Sockets {
    pub(crate) kind: Kind,
    pub(crate) running: Running,
    pub(crate) counts: Arc<ConnectionCounts>,
    address: SocketAddr,
    /// Path of its Unix socket.
    folder: TempDir,
}

/// A server inside the process.
pub(crate) struct Served {
    pub(crate) sockets: Sockets,
    pub(crate) control: Arc<Fragile>,
}

impl Deref for Served {
    type Target = Sockets;

    fn deref(&self) -> &Sockets {
        &self.sockets
    }
}

impl Served {
    /// Starts a server with one worker.
    pub(crate) fn start(kind: Kind, fibre_scheduler: Scheduler, control: Fragile) -> Self {
        let control = Arc::new(control);
        let service = cache(&control);
        Self {
            sockets: Sockets::start(kind, &service, setup(fibre_scheduler), || None),
            control,
        }
    }
}

impl Sockets {
    /// Starts a runtime. `transform` gives what the connections of a listener pass through.
    pub(crate) fn start(
        kind: Kind,
        service: &impl Service,
        setup: Setup,
        transform: impl Fn() -> Option<NewTransform>,
    ) -> Self {
        let counts = Arc::clone(&setup.counts);
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 1024).unwrap();
        let address = listener.address().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let unix = Bound::unix(&folder.path().join(SOCKET), 0o700).unwrap();
        let listeners = [listener, unix.listen(1024).unwrap()].map(|listener| Listening {
            listener,
            transform: transform(),
        });
        let running = crate::start(kind, service, setup, listeners.into()).unwrap();
        Self {
            kind,
            running,
            counts,
            address,
            folder,
        }
    }

    pub(crate) fn connect(&self) -> Stream {
        let stream = Stream::connect(self.address).unwrap();
        wait(&stream, Interest::Write);
        stream
    }

    /// Connects by the Unix socket, whose buffer for a peer that does not read is small.
    pub(crate) fn connect_unix(&self) -> Stream {
        Stream::connect_unix(&self.folder.path().join(SOCKET)).unwrap()
    }

    /// Waits until the counts satisfy `filter`.
    pub(crate) fn until(&self, what: &str, asked: impl Fn(&crate::ConnectionSnapshot) -> bool) {
        self.until_true(what, || asked(&self.counts.snapshot()));
    }

    /// Waits until `is_true` returns true.
    pub(crate) fn until_true(&self, what: &str, is_true: impl Fn() -> bool) {
        let by_ns = sys::clock::monotonic_ns() + PATIENCE_NS;
        while !is_true() {
            assert!(
                sys::clock::monotonic_ns() < by_ns,
                "{}: not {what}: {:?}",
                self.kind.name(),
                self.counts.snapshot()
            );
            std::thread::yield_now();
        }
    }
}

/// Runs a test on every available runtime and scheduler.
pub(crate) fn everywhere(test: impl Fn(&dyn Fn(Fragile) -> Served)) {
    everywhere_with(|kind, scheduler| test(&|control| Served::start(kind, scheduler, control)));
}

/// Runs a test for every available runtime and scheduler.
pub(crate) fn everywhere_with(test: impl Fn(Kind, Scheduler)) {
    for kind in Kind::ALL {
        if let Err(error) = kind.probe() {
            eprintln!("skipped: {}: {error}", kind.name());
            continue;
        }
        let schedulers = match kind {
            Kind::Fibres => &Scheduler::ALL[..],
            _ => &[Scheduler::Fair],
        };
        for &scheduler in schedulers {
            test(kind, scheduler);
        }
    }
}

pub(crate) fn wait(stream: &Stream, interest: Interest) {
    let poll = Poll::new().unwrap();
    poll.add(stream, 0, interest).unwrap();
    let mut events = Events::with_capacity(1);
    poll.wait(&mut events, Some(PATIENCE_NS)).unwrap();
    assert!(!events.is_empty(), "it does not answer");
}

/// The first reply. Empty if the connection was closed.
pub(crate) fn answer(stream: &Stream) -> Vec<u8> {
    wait(stream, Interest::Read);
    let mut answer = vec![0; 1024];
    let len = stream.recv(&mut answer).unwrap_or(0);
    answer.truncate(len);
    answer
}

pub(crate) fn ask(stream: &Stream, question: &[u8]) -> Vec<u8> {
    stream.send(question).unwrap();
    answer(stream)
}
