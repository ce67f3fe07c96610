//! Documents that are sent from the page cache without a copy, on every runtime: the client
//! receives the same bytes as with copies.

use std::borrow::Cow;
use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};
use sys::page_cache::{Mapping, has_pages};
use sys::poll::Interest;
use sys::socket::Stream;

use curtail_tests::in_process::{Sockets, everywhere_with, setup, wait};
use files::documents::{DocumentService, WallClock};
use files::limits::{FILE_RANGE_MAX, FILE_RANGE_MIN};
use files::{FileCount, FileSet, Misses, StrategyKind, SystemDisk};
use runtime::{Kind, NewTransform, Scheduler, Transform, TransformError};

/// The number of bytes of a document for which no TCP connection has space.
const LONG_TCP: usize = 24 << 20;
/// The number of bytes of a document for which no Unix socket has space.
const LONG_UNIX: usize = 3 << 20;
/// The number of bytes of the other document: no multiple of a page, a block or a range.
const SHORT: usize = 700_001;
const CLOCK: WallClock = WallClock {
    monotonic_ns: u64::MAX,
    unix_ns: 784_111_777_000_000_000,
};

/// A folder with the documents `short` and `long`. Their pages are in memory.
struct Site {
    root: tempfile::TempDir,
    long: Vec<u8>,
}

impl Site {
    fn new(long_len: usize) -> Self {
        let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // Each word of the document is another one.
        let long: Vec<u8> = (0..long_len as u64 / 8)
            .flat_map(u64::to_le_bytes)
            .collect();
        let site = Self { root, long };
        fs::write(site.path("short"), site.short()).unwrap();
        site.write_long();
        site
    }

    fn short(&self) -> &[u8] {
        &self.long[..SHORT]
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Keeps the pages in memory until the mappings are dropped, as far as the limit of locked
    /// memory allows it. A busy machine may take them otherwise, and the server then sends copies.
    fn lock(&self) -> [Mapping; 2] {
        ["short", "long"].map(|name| {
            let file = File::open(self.path(name)).unwrap();
            let len = file.metadata().unwrap().len();
            let mapping = Mapping::new(&file, len).unwrap();
            let _ = mapping.lock();
            mapping
        })
    }

    fn write_long(&self) {
        fs::write(self.path("long"), &self.long).unwrap();
    }
}

/// A server of the documents below a folder.
struct Server {
    files: Arc<FileSet<SystemDisk>>,
    sockets: Sockets,
}

impl Server {
    fn start(
        root: &Path,
        (kind, scheduler): (Kind, Scheduler),
        sends_files: bool,
        transform: impl Fn() -> Option<NewTransform>,
    ) -> Self {
        let disk = SystemDisk::open(root).unwrap();
        let files = FileSet::start(disk, StrategyKind::Nowait, Misses::Threads).unwrap();
        let service = DocumentService::new(Arc::clone(&files), CLOCK).with_sendfile(sends_files);
        let sockets = Sockets::start(kind, &service, setup(scheduler), transform);
        Self { files, sockets }
    }

    fn count(&self, count: FileCount) -> u64 {
        self.files.counts().of(count)
    }
}

/// Whether the kernel says which pages are in memory. If not, nothing is sent without a copy.
fn is_supported() -> bool {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1).unwrap();
    let is_supported = has_pages(&file, 0, 1).is_ok();
    if !is_supported {
        eprintln!("skipped: the kernel has no cachestat");
    }
    is_supported
}

fn send(stream: &Stream, bytes: &str) {
    assert_eq!(stream.send(bytes.as_bytes()).unwrap(), bytes.len());
}

/// Receives until `received` has at least `len` bytes, or the connection has ended.
fn receive(stream: &Stream, len: usize, received: &mut Vec<u8>) {
    let mut buffer = vec![0; 1 << 16];
    while received.len() < len {
        wait(stream, Interest::Read);
        match stream.recv(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(len) => received.extend_from_slice(&buffer[..len]),
        }
    }
}

/// Receives until the end of the connection.
fn receive_all(stream: &Stream) -> Vec<u8> {
    let mut received = Vec::new();
    receive(stream, usize::MAX, &mut received);
    received
}

/// Takes a reply with this body from the front of `received`.
fn take_reply(received: &mut &[u8], status: &str, body: &[u8], what: &str) {
    let (head, rest) = split_head(received, what);
    assert!(head.starts_with(status), "{what}: {head}");
    assert!(rest.starts_with(body), "{what}: {} bytes", rest.len());
    *received = &rest[body.len()..];
}

/// Splits what was received behind the first head.
fn split_head<'r>(received: &'r [u8], what: &str) -> (Cow<'r, str>, &'r [u8]) {
    let end = received.windows(4).position(|it| it == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("{what}: no head"));
    let (head, rest) = received.split_at(end + 4);
    (String::from_utf8_lossy(head), rest)
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
}

fn get_last(path: &str) -> String {
    get(path, "Connection: close\r\n")
}

/// Pipelined requests for whole documents, parts and heads. `short` is the content of the short
/// document. The result is the requests, and the status and the body of each reply.
fn requests(short: &[u8]) -> (String, [(&'static str, &[u8]); 7]) {
    let head = get("/short", "").replace("GET", "HEAD");
    let first = FILE_RANGE_MAX as usize + 77;
    let requests = [
        get("/short", ""),
        head,
        get("/short", &format!("Range: bytes={first}-\r\n")),
        get("/short", "Range: bytes=10-19\r\n"),
        get("/absent", ""),
        get("/short", &format!("Range: bytes=-{FILE_RANGE_MIN}\r\n")),
        get_last("/short"),
    ];
    let end = SHORT - FILE_RANGE_MIN as usize;
    let replies: [(_, &[u8]); 7] = [
        ("HTTP/1.1 200 ", short),
        ("HTTP/1.1 200 ", b""),
        ("HTTP/1.1 206 ", &short[first..]),
        ("HTTP/1.1 206 ", &short[10..20]),
        ("HTTP/1.1 404 ", b"there is no such document\n"),
        ("HTTP/1.1 206 ", &short[end..]),
        ("HTTP/1.1 200 ", short),
    ];
    (requests.concat(), replies)
}

#[test]
fn pipelined_replies_are_the_same_with_and_without_copies() {
    if !is_supported() {
        return;
    }
    let site = Site::new(LONG_UNIX);
    let _locked = site.lock();
    let (requests, replies) = requests(site.short());
    // Ranges of the greatest length, and a last one if it is long enough.
    let sent = |len: usize| {
        let (len, max) = (len as u64, FILE_RANGE_MAX);
        let last = len % max;
        len - if last < FILE_RANGE_MIN { last } else { 0 }
    };
    let expected: u64 = replies.iter().map(|(_, body)| sent(body.len())).sum();
    everywhere_with(|kind, scheduler| {
        for sends_files in [true, false] {
            let runtime = (kind, scheduler);
            let server = Server::start(site.root.path(), runtime, sends_files, || None);
            let what = format!("{}, {}, {sends_files}", kind.name(), scheduler.name());
            for is_unix in [false, true] {
                let stream = match is_unix {
                    true => server.sockets.connect_unix(),
                    false => server.sockets.connect(),
                };
                send(&stream, &requests);
                let received = receive_all(&stream);
                let mut rest = &received[..];
                for (status, body) in replies {
                    take_reply(&mut rest, status, body, &what);
                }
                assert!(rest.is_empty(), "{what}");
            }
            let expected = if sends_files { 2 * expected } else { 0 };
            assert_eq!(server.count(FileCount::SendfileBytes), expected, "{what}");
            server.sockets.until("counted", |it| it.current == 0);
            let written = server.sockets.counts.traffic()[1];
            let bodies: usize = replies.iter().map(|(_, body)| body.len()).sum();
            assert!(
                (0..10_000).contains(&(written as i64 - 2 * bodies as i64)),
                "{what}: {written}"
            );
        }
    });
}

/// The server keeps no bytes of a document whose peer takes nothing more. With copies it does.
#[test]
fn a_peer_that_takes_nothing_costs_no_memory() {
    if !is_supported() {
        return;
    }
    let site = Site::new(LONG_UNIX);
    everywhere_with(|kind, scheduler| {
        for sends_files in [false, true] {
            let runtime = (kind, scheduler);
            let server = Server::start(site.root.path(), runtime, sends_files, || None);
            let sockets = &server.sockets;
            let (slow, fast) = (sockets.connect_unix(), sockets.connect_unix());
            send(&slow, &get_last("/long"));
            let mut received = Vec::new();
            receive(&slow, 10_000, &mut received);
            // Afterwards the worker has filled the other socket.
            send(&fast, &get_last("/short"));
            assert!(receive_all(&fast).len() > SHORT);
            if sends_files {
                let buffered = sockets.counts.snapshot().buffered;
                assert!(buffered < 8 << 10, "{}: {buffered}", kind.name());
            } else {
                sockets.until("kept", |it| it.buffered >= 32 << 10);
            }
            receive(&slow, usize::MAX, &mut received);
            take_reply(&mut &received[..], "HTTP/1.1 200 ", &site.long, kind.name());
        }
    });
}

/// A peer that takes a document slowly, so that it is sent in many pieces.
#[test]
fn a_slow_peer_receives_all_bytes_and_others_are_served_meanwhile() {
    if !is_supported() {
        return;
    }
    let site = Site::new(LONG_TCP);
    everywhere_with(|kind, scheduler| {
        let server = Server::start(site.root.path(), (kind, scheduler), true, || None);
        let (slow, fast) = (server.sockets.connect(), server.sockets.connect_unix());
        send(&slow, &get_last("/long"));
        wait(&slow, Interest::Read);
        // The worker serves others meanwhile.
        send(&fast, &get_last("/short"));
        let received = receive_all(&fast);
        take_reply(
            &mut &received[..],
            "HTTP/1.1 200 ",
            site.short(),
            kind.name(),
        );
        assert!(server.count(FileCount::SendfileBytes) < LONG_TCP as u64);
        let received = receive_all(&slow);
        take_reply(&mut &received[..], "HTTP/1.1 200 ", &site.long, kind.name());
        server.sockets.running.stop().unwrap();
    });
}

/// The pages leave memory while the peer takes nothing: the rest is read elsewhere and copied.
#[test]
fn a_document_that_leaves_memory_while_it_is_sent_is_read() {
    if !is_supported() {
        return;
    }
    let site = Site::new(LONG_UNIX);
    let (evicted, has_read) = (Cell::new(false), Cell::new(false));
    everywhere_with(|kind, scheduler| {
        site.write_long();
        let file = File::open(site.path("long")).unwrap();
        // Only pages that are on the disk can leave memory.
        file.sync_all().unwrap();
        let server = Server::start(site.root.path(), (kind, scheduler), true, || None);
        let slow = server.sockets.connect_unix();
        // The second reply comes behind the bytes that are taken back.
        send(&slow, &(get("/long", "") + &get_last("/short")));
        let mut received = Vec::new();
        // Some bytes of the file, not only the head.
        receive(&slow, 10_000, &mut received);
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let is_kept = has_pages(&file, LONG_UNIX as u64 - 4096, 4096).unwrap();
        receive(&slow, usize::MAX, &mut received);
        let mut rest = &received[..];
        take_reply(&mut rest, "HTTP/1.1 200 ", &site.long, kind.name());
        take_reply(&mut rest, "HTTP/1.1 200 ", site.short(), kind.name());
        assert!(rest.is_empty(), "{}", kind.name());
        evicted.set(evicted.get() || !is_kept);
        if server.count(FileCount::Read) == 0 {
            // The kernel has kept some pages, and has read the others ahead in time.
            return;
        }
        has_read.set(true);
        let sent = server.count(FileCount::SendfileBytes);
        assert!(
            (1..LONG_UNIX as u64).contains(&sent),
            "{}: {sent}",
            kind.name()
        );
        server.sockets.until("counted", |it| it.current == 0);
        let written = server.sockets.counts.traffic()[1];
        assert_eq!(written, received.len() as u64, "{}", kind.name());
    });
    if !evicted.get() {
        eprintln!("skipped: the file system of the target folder keeps its pages");
        return;
    }
    assert!(
        has_read.get(),
        "no runtime has noticed that pages had left memory"
    );
}

/// The length of the reply has been declared, so the connection is closed.
#[test]
fn a_document_that_becomes_shorter_while_it_is_sent_ends_the_connection() {
    if !is_supported() {
        return;
    }
    let site = Site::new(LONG_UNIX);
    everywhere_with(|kind, scheduler| {
        for len in [0, LONG_UNIX / 2, LONG_UNIX / 2 + 1] {
            site.write_long();
            let server = Server::start(site.root.path(), (kind, scheduler), true, || None);
            let slow = server.sockets.connect_unix();
            send(&slow, &(get("/long", "") + &get_last("/short")));
            wait(&slow, Interest::Read);
            let file = File::options().write(true).open(site.path("long"));
            file.unwrap().set_len(len as u64).unwrap();
            let received = receive_all(&slow);
            let what = format!("{}, {len}: {}", kind.name(), received.len());
            let (head, body) = split_head(&received, &what);
            let declared = format!("Content-Length: {LONG_UNIX}\r\n");
            assert!(head.contains(&declared), "{what}");
            assert!((len..LONG_UNIX).contains(&body.len()), "{what}");
            assert!(body[..len] == site.long[..len], "{what}");
            drop(slow);
            server.sockets.until("closed", |it| it.current == 0);
        }
    });
}

/// Inverts all bytes.
struct Invert;

fn inverted(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

impl Transform for Invert {
    fn receive(
        &mut self,
        wire: &[u8],
        plain: &mut Vec<u8>,
        _: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        plain.extend(inverted(wire));
        Ok(())
    }

    fn send(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        wire.extend(inverted(plain));
    }

    fn buffered(&self) -> usize {
        0
    }
}

#[test]
fn documents_are_copied_through_a_transform() {
    let site = Site::new(LONG_UNIX);
    everywhere_with(|kind, scheduler| {
        let invert = || -> Option<NewTransform> { Some(Box::new(|| Box::new(Invert))) };
        let server = Server::start(site.root.path(), (kind, scheduler), true, invert);
        let stream = server.sockets.connect();
        let request = inverted(get_last("/short").as_bytes());
        assert_eq!(stream.send(&request).unwrap(), request.len());
        let received = inverted(&receive_all(&stream));
        take_reply(
            &mut &received[..],
            "HTTP/1.1 200 ",
            site.short(),
            kind.name(),
        );
        assert_eq!(server.count(FileCount::SendfileBytes), 0);
    });
}
