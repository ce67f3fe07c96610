//! Silent peers and slow heads, on every runtime.

use std::fs;
use std::sync::Arc;

use runtime::{Kind, Scheduler, Setup};
use sys::poll::Interest;
use sys::socket::Stream;

use curtail_tests::in_process::{
    Fragile, Sockets, answer, cache, everywhere_at_once, is_ready_within, setup, wait,
};
use curtail_tests::slow_disk::{CONTENT, SlowDisk};
use files::documents::{DocumentService, WallClock};
use files::{Disk, FileCount, FileSet, Misses, StrategyKind, SystemDisk};

const CLOCK: WallClock = WallClock {
    monotonic_ns: u64::MAX,
    unix_ns: 784_111_777_000_000_000,
};
/// How long a head may take in these tests.
const HEAD_TIME_NS: u64 = 50_000_000;

fn start<D: Disk>(kind: Kind, scheduler: Scheduler, disk: D, idle_s: Option<u32>) -> Sockets {
    let files = FileSet::start(disk, StrategyKind::Nowait, Misses::Threads).unwrap();
    start_with(&files, kind, scheduler, idle_s)
}

fn start_with<D: Disk>(
    files: &Arc<FileSet<D>>,
    kind: Kind,
    scheduler: Scheduler,
    idle_s: Option<u32>,
) -> Sockets {
    let service = DocumentService::new(Arc::clone(files), CLOCK).with_head_time(HEAD_TIME_NS);
    let setup = Setup {
        idle_s,
        ..setup(scheduler)
    };
    Sockets::start(kind, &service, setup, || None)
}

/// Whether the server has closed the connection without a further byte.
fn is_closed(stream: &Stream) -> bool {
    wait(stream, Interest::Read);
    !matches!(stream.recv(&mut [0; 64]), Ok(1..))
}

#[test]
fn silent_connections_are_closed_and_those_that_wait_for_the_disk_are_not() {
    everywhere_at_once(|kind, scheduler| {
        let disk = SlowDisk::default();
        let sockets = start(kind, scheduler, disk.clone(), Some(1));
        let name = kind.name();
        let slow = sockets.connect();
        slow.send(b"GET /cold HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        sockets.until_true("waiting for the disk", || disk.waiting() == 1);
        let (never, once) = (sockets.connect(), sockets.connect());
        once.send(b"GET /hot HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(answer(&once).ends_with(CONTENT), "{name}");
        assert!(is_closed(&never) && is_closed(&once), "{name}");
        // Another one is closed later, so the first has been checked several times.
        assert!(is_closed(&sockets.connect()), "{name}");
        sockets.until("counted", |counts| {
            counts.idle_closed == 3 && counts.current == 1
        });
        disk.release();
        let mut received = answer(&slow);
        while !received.ends_with(CONTENT) {
            let more = answer(&slow);
            assert!(!more.is_empty(), "{name}: closed after {received:?}");
            received.extend(more);
        }
    });
}

#[test]
fn a_peer_that_does_not_take_its_reply_is_closed() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("large"), vec![b'x'; 16 << 20]).unwrap();
    everywhere_at_once(|kind, scheduler| {
        let disk = SystemDisk::open(root.path()).unwrap();
        let sockets = start(kind, scheduler, disk, Some(1));
        let stream = sockets.connect_unix();
        stream
            .send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        sockets.until("closed", |counts| {
            counts.idle_closed == 1 && counts.current == 0
        });
    });
}

#[test]
fn a_head_that_stays_incomplete_is_answered_without_a_further_byte() {
    everywhere_at_once(|kind, scheduler| {
        let files =
            FileSet::start(SlowDisk::default(), StrategyKind::Nowait, Misses::Threads).unwrap();
        let sockets = start_with(&files, kind, scheduler, None);
        let (never, slow) = (sockets.connect(), sockets.connect());
        slow.send(b"GET /hot HTTP/1.1\r\nHost: x\r\n\r\nGET /hot HT")
            .unwrap();
        let first = answer(&slow);
        assert!(first.starts_with(b"HTTP/1.1 200 "), "{}", kind.name());
        let answered = answer(&slow);
        assert!(answered.starts_with(b"HTTP/1.1 408 "), "{}", kind.name());
        assert!(is_closed(&slow), "{}", kind.name());
        sockets.until("closed", |counts| counts.current == 1);
        assert_eq!(files.counts().of(FileCount::SlowHeads), 1);
        drop(never);
    });
}

/// A byte that arrives after the limit has the head rejected before the connection is checked.
#[test]
fn a_head_that_goes_on_after_its_limit_is_counted_too() {
    everywhere_at_once(|kind, scheduler| {
        let files =
            FileSet::start(SlowDisk::default(), StrategyKind::Nowait, Misses::Threads).unwrap();
        let sockets = start_with(&files, kind, scheduler, None);
        let slow = sockets.connect();
        slow.send(b"GET /h").unwrap();
        let mut answered = Vec::new();
        while answered.is_empty() {
            // Once it is closed, the answer is there.
            let _ = slow.send(b"x");
            if is_ready_within(&slow, Interest::Read, HEAD_TIME_NS / 5) {
                answered = answer(&slow);
            }
        }
        assert!(answered.starts_with(b"HTTP/1.1 408 "), "{}", kind.name());
        assert_eq!(files.counts().of(FileCount::SlowHeads), 1);
    });
}

#[test]
fn silent_clients_of_the_cache_are_closed_if_there_is_a_limit() {
    everywhere_at_once(|kind, scheduler| {
        let setup = Setup {
            idle_s: Some(1),
            ..setup(scheduler)
        };
        let service = cache(&Fragile::default().into());
        let sockets = Sockets::start(kind, &service, setup, || None);
        let stream = sockets.connect();
        stream.send(b"mn\r\n").unwrap();
        assert_eq!(answer(&stream), b"MN\r\n", "{}", kind.name());
        assert!(is_closed(&stream), "{}", kind.name());
        sockets.until("counted", |counts| counts.idle_closed == 1);
    });
}
