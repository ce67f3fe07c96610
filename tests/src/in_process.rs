//! Runtimes inside the test's process, and functions for their clients.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    reason = "only tests use it, and a test may"
)]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use runtime::limits::DRAIN_NS;
use runtime::{
    ConnectionCounts, ConnectionSnapshot, Kind, Listening, NewTransform, Running, Scheduler, Setup,
    WaitPolicy,
};
use service::Service;
use session::{
    Access, CacheService, Clock, CounterRegistry, Now, Permissions, PrefixSums, ServerControl,
    StatWriter,
};
use sys::poll::{Events, Interest, Poll};
use sys::socket::{Bound, Listener, Stream};
use tempfile::TempDir;

/// The bound of the bytes that all connections together keep between bursts.
pub const BUFFERED_MAX: u64 = 1 << 20;
/// The name of the Unix socket in its folder.
const SOCKET: &str = "socket";
/// How often a condition is checked that a test waits for. A test that waits without a pause takes
/// a processor from the runtime under test.
pub const CHECK_EVERY: Duration = Duration::from_micros(100);
/// The longest time that a reply, or another condition, may take.
const TIMEOUT_NS: u64 = 10_000_000_000;

/// A control that tests use to make the server panic or wait.
#[derive(Default)]
pub struct Fragile {
    /// `stats settings` waits twice at this barrier. The first time, the test learns that the
    /// command is being executed; the second time, the test lets it continue.
    pub gate: Option<Barrier>,
    /// Whether the next maintenance call panics. The command `verbosity` sets it.
    pub is_armed: AtomicBool,
}

/// `stats reset` panics within a session. After `verbosity`, the next maintenance call panics.
impl ServerControl for Fragile {
    fn write_stats(&self, _: Now, _: &mut dyn StatWriter) {}

    fn write_settings(&self, _: &mut dyn StatWriter) {
        if let Some(gate) = &self.gate {
            gate.wait();
            gate.wait();
        }
    }

    fn reset_stats(&self) {
        panic!("intended by the test, within a session");
    }

    fn set_memory_limit(&self, _: u64) -> bool {
        false
    }

    fn wake_maintenance(&self) {
        assert!(
            !self.is_armed.swap(false, Ordering::Relaxed),
            "intended by the test, outside of any session"
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

    fn prefixes(&self, _: Option<&[u8]>, _: usize) -> PrefixSums {
        PrefixSums::new()
    }
}

/// Parameters of a runtime with one worker.
pub fn setup(fibre_scheduler: Scheduler) -> Setup {
    Setup {
        wait_policy: WaitPolicy::default(),
        idle_s: None,
        drain_ns: DRAIN_NS,
        fibre_scheduler,
        workers: 1,
        requests_per_turn: 2,
        counts: Arc::new(ConnectionCounts::new(1024, BUFFERED_MAX)),
    }
}

/// A cache with one worker.
pub fn cache(control: &Arc<Fragile>) -> CacheService {
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
        latency: session::LatencyRecording::Every,
        clock: Clock::new(sys::clock::monotonic_ns(), 1_700_000_000),
        tier: None,
        access: Access::default(),
    }
}

/// A runtime with any service inside the process, behind a TCP and a Unix socket.
pub struct Sockets {
    /// The runtime.
    pub kind: Kind,
    /// Its threads.
    pub running: Running,
    /// Its counts.
    pub counts: Arc<ConnectionCounts>,
    address: SocketAddr,
    /// The folder of the Unix socket.
    folder: TempDir,
}

/// A cache server inside the process.
pub struct Served {
    /// The runtime and its sockets.
    pub sockets: Sockets,
    /// The control that makes the server panic or wait.
    pub control: Arc<Fragile>,
}

impl Deref for Served {
    type Target = Sockets;

    fn deref(&self) -> &Sockets {
        &self.sockets
    }
}

impl Served {
    /// Starts a server with one worker.
    pub fn start(kind: Kind, fibre_scheduler: Scheduler, control: Fragile) -> Self {
        let control = Arc::new(control);
        let service = cache(&control);
        Self {
            sockets: Sockets::start(kind, &service, setup(fibre_scheduler), || None),
            control,
        }
    }
}

impl Sockets {
    /// Starts a runtime. `transform` is called once per listener and returns the transform of its
    /// connections, if any.
    pub fn start(
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
        let running = runtime::start(kind, service, setup, listeners.into()).unwrap();
        Self {
            kind,
            running,
            counts,
            address,
            folder,
        }
    }

    /// Connects by TCP.
    pub fn connect(&self) -> Stream {
        let stream = Stream::connect(self.address).unwrap();
        wait(&stream, Interest::Write);
        stream
    }

    /// Connects by the Unix socket. Its send buffer is small, so it is soon full if the peer does
    /// not read.
    pub fn connect_unix(&self) -> Stream {
        Stream::connect_unix(&self.folder.path().join(SOCKET)).unwrap()
    }

    /// Waits until `condition` is true of the counts. `what` describes it for a failure message.
    pub fn until(&self, what: &str, condition: impl Fn(&ConnectionSnapshot) -> bool) {
        self.until_true(what, || condition(&self.counts.snapshot()));
    }

    /// Waits until `is_true` returns true.
    pub fn until_true(&self, what: &str, is_true: impl Fn() -> bool) {
        let deadline_ns = sys::clock::monotonic_ns() + TIMEOUT_NS;
        while !is_true() {
            assert!(
                sys::clock::monotonic_ns() < deadline_ns,
                "{}: not {what}: {:?}",
                self.kind.name(),
                self.counts.snapshot()
            );
            thread::sleep(CHECK_EVERY);
        }
    }
}

/// Runs a test on every available runtime and scheduler. The argument of the test starts a server.
pub fn everywhere(test: impl Fn(&dyn Fn(Fragile) -> Served)) {
    everywhere_with(|kind, scheduler| test(&|control| Served::start(kind, scheduler, control)));
}

/// Runs a test for every available runtime over sockets, and every scheduler.
pub fn everywhere_with(test: impl Fn(Kind, Scheduler)) {
    for kind in Kind::OVER_SOCKETS {
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

/// As [`everywhere_with`], but all at the same time: for tests that mostly wait.
pub fn everywhere_at_once(test: impl Fn(Kind, Scheduler) + Sync) {
    let all = RefCell::new(Vec::new());
    everywhere_with(|kind, scheduler| all.borrow_mut().push((kind, scheduler)));
    let test = &test;
    thread::scope(|scope| {
        for (kind, scheduler) in all.take() {
            scope.spawn(move || test(kind, scheduler));
        }
    });
}

/// Waits until the stream is ready.
pub fn wait(stream: &Stream, interest: Interest) {
    let is_ready = is_ready_within(stream, interest, TIMEOUT_NS);
    assert!(is_ready, "no event within the timeout");
}

/// Whether the stream is ready within a time.
#[must_use]
pub fn is_ready_within(stream: &Stream, interest: Interest, time_ns: u64) -> bool {
    let poll = Poll::new().unwrap();
    poll.add(stream, 0, interest).unwrap();
    let mut events = Events::with_capacity(1);
    poll.wait(&mut events, Some(time_ns)).unwrap();
    !events.is_empty()
}

/// Waits for a reply and returns its first bytes. Empty if the connection was closed.
pub fn answer(stream: &Stream) -> Vec<u8> {
    wait(stream, Interest::Read);
    let mut answer = vec![0; 1024];
    let len = stream.recv(&mut answer).unwrap_or(0);
    answer.truncate(len);
    answer
}

/// Sends a request and returns the first bytes of the reply.
pub fn request(stream: &Stream, bytes: &[u8]) -> Vec<u8> {
    stream.send(bytes).unwrap();
    answer(stream)
}
