use std::io::{PipeWriter, Write as _};
use std::sync::mpsc::{Receiver, Sender};
use std::task::{Wake, Waker as TaskWaker};
use std::time::{Duration, Instant};

use service::{Abandoned, ConnectionId, Mailbox, OpenTickets, Tickets};
use sys::file::{Attributes, FileKind, Wait};

use super::*;
use crate::disk::ResidencyProbe;
use crate::{FileSet, FileWorker, Misses, StrategyKind};

/// The longest time that an event may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The file whose read by a ring panics.
const PANICS: u32 = u32::MAX;

/// A disk whose reads by a ring end when the test writes to their pipes. Files are numbers.
#[derive(Debug)]
struct PipeDisk {
    /// Each read that was started, with its pipe.
    started: Sender<(u32, PipeWriter)>,
}

impl PipeDisk {
    fn new() -> (Self, Receiver<(u32, PipeWriter)>) {
        let (started, of_test) = mpsc::channel();
        (Self { started }, of_test)
    }
}

impl Disk for PipeDisk {
    type File = u32;
    type Opener = ();

    fn open(&self, _: &[u8], _: Wait) -> io::Result<Document<u32>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn read(&self, file: &u32, _: u64, buffer: &mut [u8], _: Wait) -> io::Result<usize> {
        buffer.fill(*file as u8);
        Ok(buffer.len())
    }

    fn start_read<T>(
        &self,
        ring: &mut FileRing<OpenFile, T>,
        document: Arc<Document<u32>>,
        _: u64,
        len: usize,
        receiver: T,
    ) -> Result<(), Owner<OpenFile, T>> {
        assert_ne!(document.file, PANICS, "intended by the test");
        let (source, target) = io::pipe().unwrap();
        let file: OpenFile = Arc::new(source);
        ring.read(0, len, Owner { file, receiver })?;
        let _ = self.started.send((document.file, target));
        Ok(())
    }

    /// So the ring has one read at a time.
    fn queue_len(&self) -> Option<u32> {
        Some(2)
    }

    fn is_resident(&self, _: &u32, _: u64, _: usize, _: ResidencyProbe) -> io::Result<bool> {
        Ok(false)
    }

    fn start_opener(&self) -> io::Result<()> {
        Ok(())
    }

    fn open_by(&self, (): &(), _: &[u8]) -> Option<io::Result<Document<u32>>> {
        None
    }

    fn touch_name_by(&self, (): &(), _: &[u8]) -> Option<()> {
        None
    }

    fn touch_by(&self, (): &(), _: &u32, _: u64, _: usize) -> Option<()> {
        None
    }
}

struct Signal(Sender<()>);

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

/// The worker whose connections need the reads.
struct Worker {
    mailbox: Option<Arc<Mailbox<Completion<u32>>>>,
    waker: TaskWaker,
    woken: Receiver<()>,
}

impl Worker {
    fn new() -> Self {
        let (signal, woken) = mpsc::channel();
        Self {
            mailbox: None,
            waker: TaskWaker::from(Arc::new(Signal(signal))),
            woken,
        }
    }

    /// A ticket of a new connection, which is closed when its `OpenTickets` are dropped.
    fn ticket(&mut self, number: u32) -> (Ticket<Completion<u32>>, OpenTickets) {
        let mut open = OpenTickets::default();
        let mut tickets = Tickets {
            mailbox: &mut self.mailbox,
            waker: &self.waker,
            connection: ConnectionId {
                slot: number,
                generation: 0,
            },
            open: &mut open,
        };
        let ticket = tickets.issue(number).unwrap();
        (ticket, open)
    }

    /// A read of one byte of the file `number`, for a new connection.
    fn read(&mut self, number: u32) -> (RingRead<u32>, OpenTickets) {
        let (ticket, open) = self.ticket(number);
        let read = RingRead {
            document: document(number),
            offset: 0,
            len: 1,
            ticket,
        };
        (read, open)
    }

    /// Waits for the next result: the number of its ticket, and the bytes.
    fn next(&mut self) -> (u32, Result<Vec<u8>, Abandoned>) {
        let mailbox = self.mailbox.as_ref().unwrap();
        let completed = loop {
            match mailbox.take() {
                Some(completed) => break completed,
                None => self.woken.recv_timeout(TIMEOUT).unwrap(),
            }
        };
        let bytes = completed.result.map(|completion| match completion {
            Completion::Read(outcome) => outcome.unwrap(),
            other => panic!("{other:?}"),
        });
        (completed.number, bytes)
    }
}

fn document(number: u32) -> Arc<Document<u32>> {
    Arc::new(Document {
        file: number,
        attributes: Attributes {
            kind: FileKind::Regular,
            len: 1,
            modified_ns: 0,
            inode: 0,
        },
    })
}

/// A ring that has one read at a time, the reads that it has started, and its counts.
struct Started {
    ring: MissRing<PipeDisk>,
    reads: Receiver<(u32, PipeWriter)>,
    counts: Arc<FileCounts>,
}

impl Started {
    /// None: the kernel has no io_uring or does not allow it, so the test is skipped.
    fn new() -> Option<Self> {
        if !is_possible() {
            return None;
        }
        let (disk, reads) = PipeDisk::new();
        let counts = Arc::<FileCounts>::default();
        let ring = MissRing::start(&Arc::new(disk), &counts).unwrap();
        Some(Self {
            ring,
            reads,
            counts,
        })
    }

    /// Waits until a read has been started.
    fn next(&self) -> (u32, PipeWriter) {
        self.reads.recv_timeout(TIMEOUT).unwrap()
    }
}

fn is_possible() -> bool {
    let probed = sys::file_ring::probe();
    if let Err(error) = &probed {
        eprintln!("skipped: io_uring: {error}");
    }
    probed.is_ok()
}

#[test]
fn the_ring_leaves_room_in_the_queue_of_the_device() {
    for (queue_len, expected) in [
        (None, RING_READS),
        (Some(1), 1),
        (Some(2), 1),
        (Some(10), 5),
        (Some(1023), RING_READS),
    ] {
        assert_eq!(reads_max(queue_len), expected, "{queue_len:?}");
    }
}

#[test]
fn a_read_whose_connection_is_closed_while_it_waits_is_skipped_and_not_counted() {
    let Some(started) = Started::new() else {
        return;
    };
    let mut worker = Worker::new();
    let (first, _first) = worker.read(1);
    started.ring.submit(first).unwrap();
    let (number, mut pipe) = started.next();
    assert_eq!(number, 1);
    let (second, closed) = worker.read(2);
    let (third, _third) = worker.read(3);
    started.ring.submit(second).unwrap();
    started.ring.submit(third).unwrap();
    drop(closed);
    pipe.write_all(b"a").unwrap();
    assert_eq!(worker.next(), (1, Ok(b"a".to_vec())));
    assert_eq!(worker.next(), (2, Err(Abandoned)));
    let (number, mut pipe) = started.next();
    assert_eq!(number, 3);
    pipe.write_all(b"c").unwrap();
    assert_eq!(worker.next(), (3, Ok(b"c".to_vec())));
    assert_eq!(started.counts.of(FileCount::Read), 2);
    assert_eq!(started.counts.of(FileCount::Refused), 0);
}

#[test]
fn more_reads_than_may_wait_are_refused_and_the_end_of_the_ring_abandons_the_others() {
    let Some(started) = Started::new() else {
        return;
    };
    let mut worker = Worker::new();
    let mut connections = Vec::new();
    let last = QUEUE_MAX as u32 + 1;
    let mut submit = |number| {
        let (read, open) = worker.read(number);
        connections.push(open);
        started.ring.submit(read).unwrap();
    };
    submit(0);
    let (number, pipe) = started.next();
    assert_eq!(number, 0);
    // From here on all wait for this one.
    (1..=last).for_each(submit);
    let refused = worker.mailbox.as_ref().unwrap();
    let refused: Vec<u32> = std::iter::from_fn(|| refused.take())
        .map(|it| it.number)
        .collect();
    assert_eq!(refused, [last]);
    assert_eq!(started.counts.of(FileCount::Refused), 1);
    let Started { ring, counts, .. } = started;
    drop(ring);
    let mut abandoned: Vec<u32> = (0..last).map(|_| worker.next().0).collect();
    abandoned.sort_unstable();
    assert_eq!(abandoned, (0..last).collect::<Vec<u32>>());
    assert_eq!(counts.of(FileCount::RingLost), 0);
    drop(pipe);
}

#[test]
fn after_a_panic_of_the_thread_no_read_waits_and_later_ones_are_given_back() {
    let Some(started) = Started::new() else {
        return;
    };
    let mut worker = Worker::new();
    let (first, _first) = worker.read(1);
    started.ring.submit(first).unwrap();
    let (_, mut pipe) = started.next();
    let (second, _second) = worker.read(PANICS);
    let (third, _third) = worker.read(3);
    started.ring.submit(second).unwrap();
    started.ring.submit(third).unwrap();
    pipe.write_all(b"a").unwrap();
    assert_eq!(worker.next(), (1, Ok(b"a".to_vec())));
    assert_eq!(worker.next(), (PANICS, Err(Abandoned)));
    assert_eq!(worker.next(), (3, Err(Abandoned)));
    let (fourth, _fourth) = worker.read(4);
    let fourth = started.ring.submit(fourth).unwrap_err();
    assert_eq!(fourth.document.file, 4);
}

#[test]
fn threads_read_once_the_ring_has_failed() {
    if !is_possible() {
        return;
    }
    let (disk, _reads) = PipeDisk::new();
    let files = FileSet::start(disk, StrategyKind::Nowait, Misses::Uring).unwrap();
    let (access, mut worker) = (FileWorker::new(&files), Worker::new());
    let (ticket, _open) = worker.ticket(1);
    access.read_elsewhere(&document(PANICS), 0, 1, ticket);
    assert_eq!(worker.next(), (1, Err(Abandoned)));
    let deadline = Instant::now() + TIMEOUT;
    while files.counts().of(FileCount::RingLost) == 0 {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
    let (ticket, _open) = worker.ticket(2);
    access.read_elsewhere(&document(7), 0, 1, ticket);
    assert_eq!(worker.next(), (2, Ok(vec![7])));
}

#[test]
fn a_strategy_that_does_not_read_by_a_ring_is_refused() {
    for kind in &StrategyKind::ALL[1..] {
        let kind = *kind;
        let (disk, _reads) = PipeDisk::new();
        let refused = match FileSet::start(disk, kind, Misses::Uring) {
            Err(crate::StartError::Misses(of)) => Some(of),
            _ => None,
        };
        assert_eq!(refused, Some(kind));
    }
}
