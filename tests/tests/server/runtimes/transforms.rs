//! A transform of the bytes, on every runtime: uploads into the store's memory, pinned values, and
//! a handshake.

use std::io::ErrorKind;
use std::sync::Arc;

use sys::poll::Interest;
use sys::socket::Stream;

use curtail_tests::in_process::{Fragile, Sockets, answer, cache, everywhere_with, setup, wait};
use runtime::memory::{Client, Memory};
use runtime::{NewTransform, Transform, TransformError};
use runtime::{Panicked, Scheduler};

const HELLO: &[u8] = b"HELLO";
const WELCOME: &[u8] = b"WELCOME";
/// What the transform sends to a peer that violates its protocol.
const ALERT: &[u8] = b"ALERT";
/// What a peer sends that violates the protocol, and what it then receives.
const VIOLATIONS: [(&[u8], &str); 2] = [
    (b"get key\r\n", "ALERT"),
    (b"HELLO\xff\xff", "WELCOMEALERT"),
];
/// Longest content of a frame in bytes.
const FRAME_MAX: usize = 1000;
/// The length of a frame at which the transform panics.
const PANICS: usize = 0xfffe;
/// Longer than a value that is copied into the output, and than one receive.
const LARGE: usize = 200_000;

/// After a greeting, frames: two bytes of length, then the content with its bits inverted.
#[derive(Default)]
struct Frames {
    has_greeted: bool,
    /// Wire bytes that do not form a frame yet.
    partial: Vec<u8>,
}

impl Transform for Frames {
    fn receive(
        &mut self,
        wire: &[u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        self.partial.extend_from_slice(wire);
        let mut rest = &self.partial[..];
        if !self.has_greeted {
            if !rest.starts_with(HELLO) {
                return match HELLO.starts_with(rest) {
                    true => Ok(()),
                    false => {
                        reply.extend_from_slice(ALERT);
                        Err(TransformError("no greeting"))
                    }
                };
            }
            self.has_greeted = true;
            reply.extend_from_slice(WELCOME);
            rest = &rest[HELLO.len()..];
        }
        while let [high, low, after @ ..] = rest {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            assert!(len != PANICS, "as the test demands");
            if len > FRAME_MAX {
                reply.extend_from_slice(ALERT);
                return Err(TransformError("the frame is too long"));
            }
            let Some((content, after)) = after.split_at_checked(len) else {
                break;
            };
            plain.extend(content.iter().map(|byte| !byte));
            rest = after;
        }
        self.partial = rest.to_vec();
        Ok(())
    }

    fn send(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        for part in plain.chunks(FRAME_MAX) {
            wire.extend((part.len() as u16).to_be_bytes());
            wire.extend(part.iter().map(|byte| !byte));
        }
    }

    fn buffered(&self) -> usize {
        self.partial.capacity()
    }
}

fn new_frames() -> NewTransform {
    Box::new(|| Box::<Frames>::default())
}

/// The other side of a connection, over anything that sends and receives some bytes.
struct Framed<F> {
    frames: Frames,
    /// Sends and receives as much as is possible now.
    exchange: F,
}

impl<F: FnMut(&[u8], &mut [u8]) -> (usize, usize)> Framed<F> {
    /// Greets the server.
    fn open(mut exchange: F) -> Self {
        let (mut sent, mut received) = (0, Vec::new());
        while received.len() < WELCOME.len() {
            let mut buffer = [0; 64];
            let (more, len) = exchange(&HELLO[sent..], &mut buffer);
            sent += more;
            received.extend_from_slice(&buffer[..len]);
        }
        assert_eq!(received, WELCOME);
        Self {
            frames: Frames {
                has_greeted: true,
                partial: Vec::new(),
            },
            exchange,
        }
    }

    /// Sends `question`, and receives `len` bytes of answers.
    fn request(&mut self, question: &[u8], len: usize) -> Vec<u8> {
        let (mut wire, mut answers) = (Vec::new(), Vec::new());
        self.frames.send(question, &mut wire);
        let mut sent = 0;
        while sent < wire.len() || answers.len() < len {
            let mut buffer = [0; 4096];
            let (more, received) = (self.exchange)(&wire[sent..], &mut buffer);
            sent += more;
            let frames = &mut self.frames;
            let received = frames.receive(&buffer[..received], &mut answers, &mut Vec::new());
            received.unwrap();
        }
        answers
    }
}

/// Stores and reads small and large values, in pipelines too.
fn converse<F: FnMut(&[u8], &mut [u8]) -> (usize, usize)>(mut framed: Framed<F>) {
    let value: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    let set = [
        format!("set large 0 0 {LARGE}\r\n").as_bytes(),
        &value,
        b"\r\n",
    ]
    .concat();
    assert_eq!(framed.request(&set, 8), b"STORED\r\n");
    let header = format!("VALUE large 0 {LARGE}\r\n");
    let expected = [header.as_bytes(), &value, b"\r\nEND\r\n"].concat();
    assert!(framed.request(b"get large\r\n", expected.len()) == expected);
    // Several pinned values with small replies between them.
    let question = b"get large\r\nmn\r\n".repeat(5);
    let expected = [&expected[..], b"MN\r\n"].concat().repeat(5);
    assert!(framed.request(&question, expected.len()) == expected);
    let sets = b"set small 0 0 3\r\nabc\r\nget small\r\n".repeat(100);
    let expected = b"STORED\r\nVALUE small 0 3\r\nabc\r\nEND\r\n".repeat(100);
    assert!(framed.request(&sets, expected.len()) == expected);
}

/// Sends and receives on a socket as much as is possible, at least something.
fn over(stream: &Stream) -> impl FnMut(&[u8], &mut [u8]) -> (usize, usize) + '_ {
    |wire, buffer| loop {
        let sent = if wire.is_empty() {
            0
        } else {
            stream.send(wire).unwrap_or(0)
        };
        let received = match stream.recv(buffer) {
            Ok(0) => panic!("the server has closed the connection"),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("{error}"),
        };
        if sent + received > 0 {
            return (sent, received);
        }
        let interest = if wire.is_empty() {
            Interest::Read
        } else {
            Interest::ReadWrite
        };
        wait(stream, interest);
    }
}

#[test]
fn transformed_connections_upload_pin_and_pipeline() {
    everywhere_with(|kind, scheduler| {
        let service = cache(&Arc::new(Fragile::default()));
        let sockets = Sockets::start(kind, &service, setup(scheduler), || Some(new_frames()));
        // The buffers of a Unix socket are small, so replies wait for space.
        for stream in [sockets.connect(), sockets.connect_unix()] {
            converse(Framed::open(over(&stream)));
        }
        sockets.until("closed", |snapshot| snapshot.current == 0);
        assert_eq!(sockets.counts.snapshot().panics, 0);
        sockets.running.stop().unwrap();
    });
}

#[test]
fn a_peer_that_violates_the_transform_gets_an_alert_and_is_closed() {
    everywhere_with(|kind, scheduler| {
        let service = cache(&Arc::new(Fragile::default()));
        let sockets = Sockets::start(kind, &service, setup(scheduler), || Some(new_frames()));
        let good = sockets.connect();
        let mut framed = Framed::open(over(&good));
        for (wrong, expected) in VIOLATIONS {
            let stream = sockets.connect();
            stream.send(wrong).unwrap();
            sockets.until("closed", |snapshot| snapshot.current == 1);
            let last_words = String::from_utf8_lossy(&answer(&stream)).into_owned();
            assert_eq!(last_words, expected, "{}", kind.name());
        }
        assert_eq!(sockets.counts.snapshot().panics, 0);
        let stream = sockets.connect();
        stream.send(b"HELLO\xff\xfe").unwrap();
        sockets.until("closed", |it| (it.current, it.panics) == (1, 1));
        assert_eq!(framed.request(b"mn\r\n", 4), b"MN\r\n", "no other is lost");
        drop(framed);
        assert_eq!(sockets.running.stop(), Err(Panicked));
    });
}

#[test]
fn a_peer_in_memory_that_violates_the_transform_gets_an_alert_and_is_closed() {
    for (wrong, expected) in VIOLATIONS {
        let service = cache(&Arc::new(Fragile::default()));
        let mut server = Memory::new(&service, setup(Scheduler::Fair));
        let client = server.connect(1 << 16, Some(Box::<Frames>::default()), 0);
        Client::send(&client, wrong).unwrap();
        server.run(0);
        let mut last_words = [0; 64];
        let len = client.receive(&mut last_words).unwrap();
        assert_eq!(&last_words[..len], expected.as_bytes());
        assert_eq!(client.receive(&mut last_words).unwrap(), 0, "closed");
    }
}

#[test]
fn transformed_connections_in_memory() {
    for capacity in [100, 1 << 16] {
        let service = cache(&Arc::new(Fragile::default()));
        let mut server = Memory::new(&service, setup(Scheduler::Fair));
        let client = server.connect(capacity, Some(Box::<Frames>::default()), 0);
        converse(Framed::open(|wire: &[u8], buffer: &mut [u8]| {
            let possible = |result: std::io::Result<usize>| result.unwrap_or(0);
            let sent = possible(Client::send(&client, wire));
            server.run(0);
            (sent, possible(client.receive(buffer)))
        }));
    }
}
