//! Documents over HTTP, on every runtime and with every strategy.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::thread;

use rustix::fs::{Advice, fadvise};
use sys::poll::Interest;
use sys::socket::Stream;

use curtail_tests::in_process::{
    BUFFERED_MAX, CHECK_EVERY, Sockets, everywhere_at_once, everywhere_with, is_ready_within,
    setup, wait,
};
use curtail_tests::slow_disk::{CONTENT, SlowDisk};
use files::documents::{AccessLog, DocumentService, WallClock};
use files::limits::BLOCK_LEN;
use files::{Disk, FileCount, FileSet, Misses, Openers, StrategyKind, SystemDisk};
use runtime::memory::Memory;
use runtime::{ConnectionCounts, Kind, NewTransform, Scheduler, Setup, Transform, TransformError};
use sys::file_opener::FileOpener;

/// How long a reply that must not come is waited for.
const ABSENT_NS: u64 = 50_000_000;
/// How long the threads of a service may take to end.
const END_NS: u64 = 10_000_000_000;
/// Sunday, 06 Nov 1994 08:49:37 GMT.
const CLOCK: WallClock = WallClock {
    monotonic_ns: u64::MAX,
    unix_ns: 784_111_777_000_000_000,
};

/// A strategy, with what reads the bytes that would block a worker.
type Way = (StrategyKind, Misses);

/// The default.
const NOWAIT: Way = (StrategyKind::Nowait, Misses::Threads);
const URING: Way = (StrategyKind::Nowait, Misses::Uring);

fn ways() -> Vec<Way> {
    let threads = StrategyKind::ALL.map(|kind| (kind, Misses::Threads));
    threads
        .into_iter()
        .chain([URING])
        .filter(is_available)
        .collect()
}

/// Whether the kernel allows it. If not, it is skipped.
fn is_available((_, misses): &Way) -> bool {
    let probed = match misses {
        Misses::Threads => Ok(()),
        Misses::Uring => sys::file_ring::probe(),
    };
    if let Err(error) = &probed {
        eprintln!("skipped: {}: {error}", misses.name());
    }
    probed.is_ok()
}

fn service<D: Disk>(disk: D, (kind, misses): Way) -> DocumentService<D> {
    DocumentService::new(FileSet::start(disk, kind, misses).unwrap(), CLOCK)
}

/// Receives until `len` bytes have arrived, or the connection is closed.
fn receive(stream: &Stream, len: usize) -> Vec<u8> {
    let (mut received, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while received.len() < len {
        wait(stream, Interest::Read);
        match stream.recv(&mut buffer) {
            Ok(0) => break,
            Ok(len) => received.extend_from_slice(&buffer[..len]),
            Err(error) => panic!("{error}"),
        }
    }
    received
}

fn send(stream: &Stream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        wait(stream, Interest::Write);
        bytes = &bytes[stream.send(bytes).unwrap()..];
    }
}

/// The reply to a request after which the connection is closed: its head and its body.
fn reply(sockets: &Sockets, request: &str) -> (String, Vec<u8>) {
    let stream = sockets.connect();
    send(&stream, request.as_bytes());
    split(&receive(&stream, usize::MAX))
}

fn split(received: &[u8]) -> (String, Vec<u8>) {
    let end = received.windows(4).position(|it| it == b"\r\n\r\n");
    let (head, body) = received.split_at(end.unwrap() + 4);
    (String::from_utf8(head.to_vec()).unwrap(), body.to_vec())
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n")
}

/// Makes a strategy remember the name of `/hot`: without that it has no hits.
fn remember_hot(stream: &Stream) {
    send(stream, b"HEAD /hot HTTP/1.1\r\nHost: x\r\n\r\n");
    receive(stream, 1);
}

#[test]
fn a_slow_read_delays_a_hit_of_the_same_worker_only_if_it_blocks_the_worker() {
    everywhere_with(|kind, scheduler| {
        for (strategy, misses) in ways() {
            for cold in ["/cold", "/cold-name"] {
                let disk = SlowDisk::default();
                let service = service(disk.clone(), (strategy, misses));
                let sockets = Sockets::start(kind, &service, setup(scheduler), || None);
                let (strategy_name, misses) = (strategy.name(), misses.name());
                let what = format!("{}, {strategy_name}, {misses}, {cold}", kind.name());
                let (slow, fast) = (sockets.connect(), sockets.connect());
                remember_hot(&fast);
                send(&slow, get(cold, "").as_bytes());
                sockets.until_true("waiting for the disk", || disk.waiting() == 1);
                send(&fast, get("/hot", "").as_bytes());
                let blocks = match strategy {
                    StrategyKind::Naive => true,
                    StrategyKind::NoMmap => cold == "/cold",
                    _ => false,
                };
                if blocks {
                    assert!(!is_ready_within(&fast, Interest::Read, ABSENT_NS), "{what}");
                    disk.release();
                }
                let hit = receive(&fast, usize::MAX);
                assert!(hit.ends_with(CONTENT), "{what}");
                if !blocks {
                    assert_eq!(disk.waiting(), 1, "{what}");
                    disk.release();
                }
                let (head, body) = split(&receive(&slow, usize::MAX));
                assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{what}: {head}");
                assert_eq!(body, CONTENT, "{what}");
            }
        }
    });
}

/// The steps from `flash` to `nowait`: which of them wait once more, in the worker, for what has
/// left the memory since another process has brought it there.
#[test]
fn a_worker_waits_again_only_if_it_repeats_the_operation_itself() {
    let mut ways = vec![
        ((StrategyKind::Flash, Misses::Threads), true, true),
        ((StrategyKind::FdPass, Misses::Threads), false, true),
        (NOWAIT, false, false),
        (URING, false, false),
    ];
    ways.retain(|(way, ..)| is_available(way));
    everywhere_with(|kind, scheduler| {
        for &((strategy, misses), repeats_open, repeats_read) in &ways {
            for (path, repeats) in [
                ("/cold-name-evicted", repeats_open),
                ("/cold-evicted", repeats_read),
            ] {
                let disk = SlowDisk::default();
                let service = service(disk.clone(), (strategy, misses));
                let sockets = Sockets::start(kind, &service, setup(scheduler), || None);
                let (strategy_name, misses) = (strategy.name(), misses.name());
                let what = format!("{}, {strategy_name}, {misses}, {path}", kind.name());
                let (slow, fast) = (sockets.connect(), sockets.connect());
                remember_hot(&fast);
                send(&slow, get(path, "").as_bytes());
                sockets.until_true("waiting for the disk", || disk.waiting() == 1);
                disk.release_one();
                // `nowait` has the bytes after one wait.
                if repeats || path == "/cold-name-evicted" {
                    sockets.until_true("waiting again", || {
                        disk.fetched() == 1 && disk.waiting() == 1
                    });
                }
                send(&fast, get("/hot", "").as_bytes());
                if repeats {
                    let is_answered = is_ready_within(&fast, Interest::Read, ABSENT_NS);
                    assert!(!is_answered, "{what}");
                    disk.release();
                }
                assert!(receive(&fast, usize::MAX).ends_with(CONTENT), "{what}");
                disk.release();
                assert!(receive(&slow, usize::MAX).ends_with(CONTENT), "{what}");
            }
        }
    });
}

#[test]
fn an_opener_that_has_ended_is_replaced_by_a_thread() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..100 {
        fs::write(root.path().join(format!("{number}")), CONTENT).unwrap();
    }
    for strategy in [
        StrategyKind::Flash,
        StrategyKind::FdPass,
        StrategyKind::NoMmap,
    ] {
        let disk = SystemDisk::open(root.path()).unwrap();
        let openers = Openers::start(&disk, strategy).unwrap();
        let ids: Vec<u32> = openers.iter().filter_map(FileOpener::id).collect();
        assert_eq!(ids.len(), files::limits::READERS);
        let files = FileSet::start_with(disk, strategy, Misses::Threads, openers).unwrap();
        let service = DocumentService::new(Arc::clone(&files), CLOCK);
        let setup = setup(Scheduler::Fair);
        let sockets = Sockets::start(Kind::Events, &service, setup, || None);
        let lost = || files.counts().of(FileCount::OpenersLost);
        for number in 0..50 {
            let (_, body) = reply(&sockets, &get(&format!("/{number}"), ""));
            assert_eq!(body, CONTENT, "{number}");
        }
        assert_eq!(lost(), 0);
        for id in ids {
            sys::child::kill(id).unwrap();
        }
        for number in 50..100 {
            let (_, body) = reply(&sockets, &get(&format!("/{number}"), ""));
            assert_eq!(body, CONTENT, "{number}");
        }
        assert!(lost() > 0, "{}", strategy.name());
    }
}

#[test]
fn pipelined_requests_are_answered_in_order_behind_a_slow_one() {
    everywhere_with(|kind, scheduler| {
        let disk = SlowDisk::default();
        let service = service(disk.clone(), NOWAIT);
        let sockets = Sockets::start(kind, &service, setup(scheduler), || None);
        let stream = sockets.connect();
        let open = "GET /cold HTTP/1.1\r\nHost: x\r\nRange: bytes=0-2\r\n\r\n";
        let requests = [open, open, &get("/hot", "")].concat();
        send(&stream, requests.as_bytes());
        sockets.until_true("waiting for the disk", || disk.waiting() == 1);
        disk.release();
        let received = String::from_utf8(receive(&stream, usize::MAX)).unwrap();
        let statuses: Vec<&str> = received.split("HTTP/1.1 ").skip(1).collect();
        let expected = ["206", "206", "200"];
        assert_eq!(statuses.len(), 3, "{received}");
        assert!(
            statuses
                .iter()
                .zip(expected)
                .all(|(it, code)| it.starts_with(code)),
            "{received}"
        );
        assert!(statuses[0].ends_with("\r\n\r\ncon") && statuses[2].ends_with("\r\n\r\ncontent"));
    });
}

#[test]
fn documents_of_a_folder() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("root");
    fs::create_dir_all(root.join("folder")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    fs::write(parent.path().join("secret"), "secret").unwrap();
    symlink("../secret", root.join("link")).unwrap();
    fs::write(root.join("folder/index.html"), "index").unwrap();
    fs::write(root.join("a b.txt"), "0123456789").unwrap();
    fs::write(root.join("nothing"), "").unwrap();
    let large: Vec<u8> = (0..300_000_u32)
        .map(|number| (number % 251) as u8)
        .collect();
    fs::write(root.join("large"), &large).unwrap();
    everywhere_with(|kind, scheduler| {
        for (strategy, misses) in ways() {
            let service = service(SystemDisk::open(&root).unwrap(), (strategy, misses));
            let sockets = Sockets::start(kind, &service, setup(scheduler), || None);
            for (path, fields, status, body) in [
                ("/a%20b.txt", "", "200", "0123456789"),
                ("/a%20b.txt", "Range: bytes=2-4\r\n", "206", "234"),
                ("/a%20b.txt", "Range: bytes=10-\r\n", "416", ""),
                (
                    "/a%20b.txt",
                    "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
                    "304",
                    "",
                ),
                ("/a%20b.txt", "If-None-Match: *\r\n", "304", ""),
                (
                    "/a%20b.txt",
                    "If-Match: \"x\"\r\n",
                    "412",
                    "the document is another one\n",
                ),
                ("/nothing", "", "200", ""),
                ("/folder/", "", "200", "index"),
                ("/folder", "", "301", "the document is a folder\n"),
                ("/empty/", "", "404", "there is no such document\n"),
                ("/absent", "", "404", "there is no such document\n"),
                ("/a%20b.txt/", "", "404", "there is no such document\n"),
                ("/link", "", "403", "this document must not be read\n"),
                ("/../secret", "", "400", "the path is malformed\n"),
                (
                    "/folder/%2e%2e/%2E%2e/secret",
                    "",
                    "400",
                    "the path is malformed\n",
                ),
                ("/..%2fsecret", "", "404", "there is no such document\n"),
                ("/nothing%00", "", "400", "the path is malformed\n"),
            ] {
                let (head, found) = reply(&sockets, &get(path, fields));
                let what = format!("{}, {}, {path}, {fields}", kind.name(), strategy.name());
                assert!(
                    head.starts_with(&format!("HTTP/1.1 {status} ")),
                    "{what}: {head}"
                );
                assert_eq!(String::from_utf8(found).unwrap(), body, "{what}");
            }
            let (_, body) = reply(&sockets, &get("/large", ""));
            assert!(body == large, "{}, {}", kind.name(), strategy.name());
            let head_only = get("/large", "Range: bytes=0-1\r\n").replace("GET", "HEAD");
            let (head, body) = reply(&sockets, &head_only);
            assert!(
                head.contains("Content-Length: 300000\r\n") && body.is_empty(),
                "{head}"
            );
        }
    });
}

/// More cold files than the ring reads at a time, each of several blocks.
#[test]
fn cold_files_that_a_ring_reads_have_their_bytes() {
    if !is_available(&URING) {
        return;
    }
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let content = |number: usize| -> Vec<u8> {
        let bytes = (0..200_000).map(|at: usize| ((at / 7 + number) % 251) as u8);
        bytes.collect()
    };
    let count = 3 * usize::from(files::limits::RING_READS);
    for number in 0..count {
        let path = root.path().join(number.to_string());
        fs::write(&path, content(number)).unwrap();
    }
    everywhere_with(|kind, scheduler| {
        for number in 0..count {
            let file = fs::File::open(root.path().join(number.to_string())).unwrap();
            file.sync_all().unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        }
        let disk = SystemDisk::open(root.path()).unwrap();
        let files = FileSet::start(disk, StrategyKind::Nowait, Misses::Uring).unwrap();
        let service = DocumentService::new(Arc::clone(&files), CLOCK);
        // The client reads one reply after another; the others stay in the server.
        let setup = Setup {
            counts: Arc::new(ConnectionCounts::new(1024, 64 << 20)),
            ..setup(scheduler)
        };
        let sockets = Sockets::start(kind, &service, setup, || None);
        let streams: Vec<Stream> = (0..count).map(|_| sockets.connect()).collect();
        for (number, stream) in streams.iter().enumerate() {
            send(stream, get(&format!("/{number}"), "").as_bytes());
        }
        for (number, stream) in streams.iter().enumerate() {
            let (head, body) = split(&receive(stream, usize::MAX));
            assert!(head.starts_with("HTTP/1.1 200 "), "{number}: {head}");
            assert!(body == content(number), "{number}, {}", kind.name());
        }
        if files.counts().of(FileCount::Read) == 0 {
            eprintln!("skipped: the file system of the target folder keeps its pages");
        }
    });
}

#[test]
fn a_service_ends_while_a_cold_read_of_its_ring_waits() {
    if !is_available(&URING) {
        return;
    }
    everywhere_at_once(|kind, scheduler| {
        let disk = SlowDisk::default();
        let service = service(disk.clone(), URING);
        // The connection that waits stays open for as long.
        let setup = Setup {
            drain_ns: 100_000_000,
            ..setup(scheduler)
        };
        let sockets = Sockets::start(kind, &service, setup, || None);
        let slow = sockets.connect();
        send(&slow, get("/cold", "").as_bytes());
        sockets.until_true("waiting for the disk", || disk.waiting() == 1);
        sockets.running.stop().unwrap();
        drop(service);
        let deadline_ns = sys::clock::monotonic_ns() + END_NS;
        while disk.holders() > 1 {
            let now_ns = sys::clock::monotonic_ns();
            assert!(now_ns < deadline_ns, "{}: not ended", kind.name());
            thread::sleep(CHECK_EVERY);
        }
        assert_eq!(disk.waiting(), 1, "the disk did not answer");
    });
}

#[test]
fn requests_arrive_byte_by_byte_and_doubtful_ones_end_the_connection() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), "0123456789").unwrap();
    everywhere_with(|kind, scheduler| {
        let service = service(SystemDisk::open(root.path()).unwrap(), NOWAIT);
        let sockets = Sockets::start(kind, &service, setup(scheduler), || None);
        let stream = sockets.connect();
        let requests = ["GET /a HTTP/1.1\r\nHost: x\r\n\r\n", &get("/a", "")].concat();
        for byte in requests.as_bytes() {
            send(&stream, &[*byte]);
        }
        let received = String::from_utf8(receive(&stream, usize::MAX)).unwrap();
        assert_eq!(
            received.matches("\r\n\r\n0123456789").count(),
            2,
            "{received}"
        );

        let stream = sockets.connect();
        let doubtful =
            "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 1\r\n\r\n";
        send(&stream, [doubtful, &get("/a", "")].concat().as_bytes());
        let received = String::from_utf8(receive(&stream, usize::MAX)).unwrap();
        assert!(received.starts_with("HTTP/1.1 400 "), "{received}");
        assert_eq!(received.matches("\r\n\r\n").count(), 1, "{received}");
    });
}

#[test]
fn a_name_that_does_not_exist_is_remembered_too() {
    let root = tempfile::tempdir().unwrap();
    for strategy in StrategyKind::ALL {
        let disk = SystemDisk::open(root.path()).unwrap();
        let files = FileSet::start(disk, strategy, Misses::Threads).unwrap();
        let service = DocumentService::new(Arc::clone(&files), CLOCK);
        let setup = setup(Scheduler::Fair);
        let sockets = Sockets::start(Kind::Events, &service, setup, || None);
        let request = "GET /absent HTTP/1.1\r\nHost: x\r\n\r\n";
        let (_, rest) = reply(&sockets, &(request.repeat(20) + &get("/absent", "")));
        let answers = String::from_utf8(rest).unwrap();
        assert_eq!(answers.matches("HTTP/1.1 404 ").count(), 20, "{answers}");
        let opened = files.counts().of(FileCount::Opened);
        let expected = match strategy.remembers_names() {
            // Once a second.
            true => 1..20,
            false => 0..22,
        };
        assert!(expected.contains(&opened), "{}: {opened}", strategy.name());
    }
}

#[test]
fn requests_are_logged_with_the_address_of_the_client() {
    everywhere_with(|kind, scheduler| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = AccessLog::open(&path).unwrap();
        let disk = SlowDisk::default();
        let service = service(disk.clone(), NOWAIT).with_log(Some(log));
        let sockets = Sockets::start(kind, &service, setup(scheduler), || None);
        reply(&sockets, &get("/hot?a", ""));
        let slow = sockets.connect();
        send(&slow, get("/cold-name", "Range: bytes=0-2\r\n").as_bytes());
        sockets.until_true("waiting for the disk", || disk.waiting() == 1);
        disk.release();
        receive(&slow, usize::MAX);
        reply(&sockets, "nonsense\r\n\r\n");
        let written = || fs::read_to_string(&path).unwrap();
        sockets.until_true("written", || written().lines().count() == 3);
        let written = written();
        let expected = [
            "\"GET /hot?a HTTP/1.1\" 200 7",
            "\"GET /cold-name HTTP/1.1\" 206 3",
            "\"-\" 400 37",
        ];
        for (line, expected) in written.lines().zip(expected) {
            let (client, rest) = line
                .split_once(" - - [06/Nov/1994:08:49:37 +0000] ")
                .unwrap();
            assert_eq!((client, rest), ("127.0.0.1", expected), "{}", kind.name());
        }
    });
}

/// Sends each byte many times, so that the head of a reply fills a socket.
struct Amplify;

impl Transform for Amplify {
    fn receive(
        &mut self,
        wire: &[u8],
        plain: &mut Vec<u8>,
        _: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        plain.extend_from_slice(wire);
        Ok(())
    }

    fn send(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        const TIMES: usize = 1200;
        wire.reserve_exact(plain.len() * TIMES);
        wire.extend(plain.iter().flat_map(|&byte| [byte; TIMES]));
    }

    fn buffered(&self) -> usize {
        0
    }
}

/// What a connection keeps that waits for a block, and whose peer does not take the head: the room
/// for the block in the output, and the block.
const COLD_BYTES: u64 = 2 * BLOCK_LEN as u64;

/// While a peer does not take the head of a reply, the block that is read for it counts as its
/// unsent output does.
#[test]
fn a_block_read_for_a_peer_that_takes_nothing_counts_on_every_runtime() {
    everywhere_with(|kind, scheduler| {
        let disk = SlowDisk::default();
        let service = service(disk.clone(), NOWAIT);
        let amplify = || -> Option<NewTransform> { Some(Box::new(|| Box::new(Amplify))) };
        let sockets = Sockets::start(kind, &service, setup(scheduler), amplify);
        let (hot, cold) = (sockets.connect_unix(), sockets.connect_unix());
        send(&hot, get("/hot", "").as_bytes());
        sockets.until("kept", |snapshot| snapshot.buffered > 200_000);
        let head_bytes = sockets.counts.snapshot().buffered;
        send(&cold, get("/cold-large", "").as_bytes());
        // The heads differ by some digits. The output has room for the block too.
        let expected = 2 * head_bytes + COLD_BYTES - 20_000;
        sockets.until("counted", |snapshot| snapshot.buffered > expected);
        disk.release();
        drop((hot, cold));
        sockets.until("given back", |snapshot| snapshot.buffered == 0);
        sockets.running.stop().unwrap();
    });
}

/// Many peers that read nothing cannot make the server read more than its bound for them. Peers
/// that wait for the disk are not closed, however many they are.
#[test]
fn blocks_for_peers_that_read_nothing_stay_below_the_bound() {
    const PEERS: usize = 64;
    for (capacity, takes_heads) in [(128, false), (1 << 20, true)] {
        let disk = SlowDisk::default();
        let service = service(disk.clone(), NOWAIT);
        let setup = setup(Scheduler::Fair);
        let counts = Arc::clone(&setup.counts);
        let mut server = Memory::new(&service, setup);
        let clients: Vec<_> = (0..PEERS)
            .map(|number| {
                let client = server.connect(capacity, None, 0);
                let request = get(&format!("/cold-large-{number}"), "");
                assert_eq!(client.send(request.as_bytes()).unwrap(), request.len());
                server.run(0);
                client
            })
            .collect();
        let present = counts.snapshot();
        assert!(present.buffered <= BUFFERED_MAX, "{present:?}");
        if takes_heads {
            let (current, closed) = (present.current, present.buffered_closed);
            assert_eq!((current, closed), (PEERS as u64, 0));
        } else {
            let bytes = present.current * COLD_BYTES;
            assert!(present.current > 0 && bytes <= BUFFERED_MAX, "{present:?}");
        }
        disk.release();
        drop(clients);
        server.run(0);
        assert!(server.stop(0));
    }
}
