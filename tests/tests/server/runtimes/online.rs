//! The state of a worker is used only while it is *online*, on every runtime: after `offline`, and
//! after a panic, the runtime calls `online` before it uses the state again.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use curtail_tests::in_process::{Sockets, answer, everywhere_with, request, setup};
use runtime::{Kind, Panicked};
use service::{Next, NoCompletion, NoPin, Output, Progress, Service, Session, Tickets, Worker};

/// The line whose answer waits twice at the gate.
const GATE: &[u8] = b"gate\n";
/// The line whose answer panics.
const PANIC: &[u8] = b"panic\n";
/// Number of maintenance steps that the service needs in all.
const MAINTENANCE_STEPS: u32 = 20;

/// A service that replies to each line with the same line.
#[derive(Clone)]
struct Echo(Arc<Record>);

/// What the test and the service share.
struct Record {
    /// The first time, the test learns that [`GATE`] is being answered. The second time, the test
    /// lets the answer continue.
    gate: Barrier,
    /// The names of the methods that were called while the worker was offline.
    used_offline: Mutex<Vec<&'static str>>,
    maintenance_steps: AtomicU32,
    /// The number of the maintenance step that panics. Steps are counted from 1.
    panicking_step: Option<u32>,
    /// The number of workers that are online.
    online_workers: AtomicUsize,
}

struct EchoWorker {
    record: Arc<Record>,
    is_online: bool,
}

struct EchoSession;

impl Session for EchoSession {}

impl Record {
    fn new(panicking_step: Option<u32>) -> Arc<Self> {
        Arc::new(Self {
            gate: Barrier::new(2),
            used_offline: Mutex::default(),
            maintenance_steps: AtomicU32::new(0),
            panicking_step,
            online_workers: AtomicUsize::new(0),
        })
    }
}

impl Service for Echo {
    type Worker = EchoWorker;

    fn worker(&self) -> EchoWorker {
        EchoWorker {
            record: Arc::clone(&self.0),
            is_online: false,
        }
    }

    fn rejection(&self) -> &'static [u8] {
        b"full\n"
    }
}

impl EchoWorker {
    /// Records the name of a method if the worker is offline.
    fn check(&self, method: &'static str) {
        if !self.is_online {
            self.record.used_offline.lock().unwrap().push(method);
        }
    }
}

impl Worker for EchoWorker {
    type Session = EchoSession;
    type Request<'i> = &'i [u8];
    type Pin = NoPin;
    type Completion = NoCompletion;

    fn open(&self) -> EchoSession {
        self.check("open");
        EchoSession
    }

    fn online(&mut self) {
        if !self.is_online {
            self.is_online = true;
            self.record.online_workers.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn offline(&mut self) {
        if self.is_online {
            self.is_online = false;
            self.record.online_workers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn begin_burst(&mut self, _: u64) {
        self.check("begin_burst");
    }

    fn prepare<'i>(
        &self,
        _: &mut EchoSession,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<&'i [u8]>,
    ) -> usize {
        self.check("prepare");
        let before = requests.len();
        let lines = input.split_inclusive(|&byte| byte == b'\n');
        requests.extend(lines.filter(|line| line.ends_with(b"\n")).take(max));
        requests.len() - before
    }

    fn answer(
        &mut self,
        _: &mut EchoSession,
        requests: &[&[u8]],
        input: &[u8],
        _: Tickets<'_, NoCompletion>,
        out: &mut Output<NoPin>,
    ) -> Progress {
        self.check("answer");
        for &line in requests {
            assert!(line != PANIC, "intended by the test, within a session");
            if line == GATE {
                self.record.gate.wait();
                self.record.gate.wait();
            }
            out.bytes_mut().extend_from_slice(line);
        }
        let consumed: usize = requests.iter().map(|line| line.len()).sum();
        let next = match input[consumed..].contains(&b'\n') {
            true => Next::Yield,
            false => Next::Input,
        };
        Progress { consumed, next }
    }

    fn end_burst(&mut self, _: Option<u64>) {
        self.check("end_burst");
    }

    fn maintain(&mut self, _: u64, _: usize) -> bool {
        self.check("maintain");
        let steps = self
            .record
            .maintenance_steps
            .fetch_add(1, Ordering::Relaxed)
            + 1;
        assert!(
            self.record.panicking_step != Some(steps),
            "intended by the test, outside of any session"
        );
        steps < MAINTENANCE_STEPS
    }

    fn begin_early_prefetch(&mut self, _: &[u8]) {
        self.check("begin_early_prefetch");
    }

    fn finish_early_prefetch(&mut self) {
        self.check("finish_early_prefetch");
    }

    fn reset(&mut self) {
        // A service replaces its state by that of a new worker, which is offline.
        self.offline();
    }
}

#[test]
fn a_worker_is_used_only_while_it_is_online() {
    everywhere_with(|kind, scheduler| {
        let record = Record::new(None);
        let service = Echo(Arc::clone(&record));
        let sockets = Sockets::start(kind, &service, setup(scheduler), || None);
        let [first, panics, last, gate] = [(); 4].map(|()| sockets.connect());
        for stream in [&first, &panics, &last, &gate] {
            assert_eq!(request(stream, b"line\n"), b"line\n");
        }
        // The worker continues after the panic without a sleep, because other connections have
        // input: while the worker waits at the gate, this input arrives.
        gate.send(GATE).unwrap();
        record.gate.wait();
        first.send(b"first\n").unwrap();
        panics.send(PANIC).unwrap();
        last.send(b"last\n").unwrap();
        record.gate.wait();
        assert_eq!(answer(&gate), GATE);
        assert_eq!(answer(&first), b"first\n");
        assert_eq!(answer(&panics), b"");
        assert_eq!(answer(&last), b"last\n");
        // In these runtimes, the supervisor uses the states of sleeping workers for maintenance.
        if matches!(kind, Kind::Threads | Kind::Fibres) {
            sockets.until_true("maintained", || {
                record.maintenance_steps.load(Ordering::Relaxed) >= MAINTENANCE_STEPS
            });
        }
        sockets.until("panicked", |snapshot| snapshot.panics == 1);
        assert_eq!(sockets.running.stop(), Err(Panicked));
        let used_offline = record.used_offline.lock().unwrap();
        assert!(used_offline.is_empty(), "{}: {used_offline:?}", kind.name());
    });
}

/// Regression: in `fibres`, the worker stayed online until its processor woke. Meanwhile the
/// service could not reclaim memory.
#[test]
fn a_worker_is_offline_after_the_supervisor_panics_in_its_maintenance() {
    everywhere_with(|kind, scheduler| {
        // The other runtimes have no supervisor.
        if !matches!(kind, Kind::Threads | Kind::Fibres) {
            return;
        }
        // The task of the connection runs the first step. There is only one request, so the
        // supervisor runs the second.
        let record = Record::new(Some(2));
        let service = Echo(Arc::clone(&record));
        let sockets = Sockets::start(kind, &service, setup(scheduler), || None);
        let stream = sockets.connect();
        assert_eq!(request(&stream, b"line\n"), b"line\n");
        sockets.until("panicked", |snapshot| snapshot.restarts == 1);
        sockets.until_true("offline", || {
            record.online_workers.load(Ordering::Relaxed) == 0
        });
        // The worker is used again.
        assert_eq!(request(&stream, b"line\n"), b"line\n");
        assert_eq!(sockets.running.stop(), Err(Panicked));
        let used_offline = record.used_offline.lock().unwrap();
        assert!(used_offline.is_empty(), "{}: {used_offline:?}", kind.name());
    });
}
