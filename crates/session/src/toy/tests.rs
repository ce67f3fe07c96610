//! A transcript of the toy protocol, sent to a session in large pieces and byte by byte.

use service::{Next, recycle};
use store::{Config, Store, Worker};

use crate::cache::CacheWorker;
use crate::control::{Permissions, ServerControl, StatWriter};
use crate::counters::Counters;
use crate::now::Now;
use crate::prefixes::PrefixSums;
use crate::prepare::prefetch_items;
use crate::session::{Output, RequestContext, Session};

/// Pairs of input and expected reply. `~` stands for the first byte of a command, `.` for NUL.
const TRANSCRIPT: &[(&str, &str)] = &[
    ("~Gkey.", "N."),
    ("~Skey.5.value", "O."),
    ("~Gkey.", "V5.value"),
    ("~Skey.0.~Gkey.", "O.V0."),
    ("~Dkey.~Dkey.", "O.N."),
    // The value is itself a command, which must not be executed.
    ("~Sa.6.~Dkey.~Ga.~Gkey.", "O.V6.~Dkey.N."),
    // The value is too long for the store. The test sends it after this table, and the session
    // skips it.
    ("~Sa.5000.", "E."),
];

/// The last input and reply, after [`TRANSCRIPT`] and the skipped value. The text command is not a
/// valid command of this protocol, so it closes the connection.
const LAST: (&str, &str) = ("~Ga.get a\r\n~Ga.", "N.E.");

/// A server without statistics and settings.
struct NoControl;

impl ServerControl for NoControl {
    fn write_stats(&self, _: Now, _: &mut dyn StatWriter) {}

    fn write_settings(&self, _: &mut dyn StatWriter) {}

    fn reset_stats(&self) {}

    fn set_memory_limit(&self, _: u64) -> bool {
        true
    }

    fn wake_maintenance(&self) {}

    fn set_verbosity(&self, _: u32) {}

    fn permissions(&self) -> Permissions {
        Permissions::DEFAULT
    }

    fn stop(&self) {}

    fn set_prefix_counting(&self, _: bool) {}

    fn prefixes(&self, _: Option<&[u8]>, _: usize) -> PrefixSums {
        PrefixSums::new()
    }
}

/// A connection to a session with its own store.
struct Connection {
    worker: Worker,
    counters: Counters,
    session: Session,
    input: Vec<u8>,
    is_closed: bool,
}

impl Connection {
    fn new() -> Self {
        let store = Store::new(Config {
            memory_bytes: 16 << 20,
            item_max: 4096,
            ..Config::DEFAULT
        });
        let Ok(store) = store else {
            panic!("no memory for a small store")
        };
        Self {
            worker: store.worker(),
            counters: Counters::default(),
            session: Session::default(),
            input: Vec::new(),
            is_closed: false,
        }
    }

    /// Receives `bytes` as further input and returns the replies.
    fn receive(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.input.extend_from_slice(bytes);
        let (mut prepared, mut out, mut replies) = (Vec::new(), Output::default(), Vec::new());
        while !self.is_closed {
            prepared = recycle::<CacheWorker>(prepared);
            // At most two requests in a turn.
            self.session
                .prepare(&self.input, 2, &self.worker, &mut prepared);
            prefetch_items(&mut prepared, &self.worker);
            let now = Now {
                elapsed_s: 1,
                epoch_unix_s: 1_700_000_000,
            };
            let mut context =
                RequestContext::new(now, &mut self.worker, &self.counters, &NoControl);
            let progress = self
                .session
                .answer(&prepared, &self.input, &mut context, &mut out);
            prepared = recycle::<CacheWorker>(prepared);
            replies.extend(out.slices(0).flatten());
            out.clear();
            self.input.drain(..progress.consumed);
            match progress.next {
                Next::Close => self.is_closed = true,
                Next::Input | Next::Upload => break,
                _ => {}
            }
        }
        replies
    }
}

/// Replaces the characters `~` and `.` of [`TRANSCRIPT`] with the bytes for which they stand.
fn bytes(text: &str) -> Vec<u8> {
    let byte = |byte| match byte {
        b'~' => super::FIRST_BYTE,
        b'.' => 0,
        other => other,
    };
    text.bytes().map(byte).collect()
}

/// Sends the transcript in pieces of at most `piece_len` bytes and checks the replies.
fn check_transcript(piece_len: usize) {
    let mut connection = Connection::new();
    let mut receive = |input: &[u8]| {
        let pieces = input.chunks(piece_len);
        let reply = pieces.flat_map(|piece| connection.receive(piece));
        (reply.collect::<Vec<_>>(), connection.is_closed)
    };
    for (input, reply) in TRANSCRIPT {
        let expected = (bytes(reply), false);
        assert_eq!(receive(&bytes(input)), expected, "{input}");
    }
    // The value that is too long.
    let skipped = receive(&vec![b'v'; 5_000]);
    assert_eq!(skipped, (Vec::new(), false));
    assert_eq!(receive(&bytes(LAST.0)), (bytes(LAST.1), true));
}

#[test]
fn replies_match_the_transcript() {
    check_transcript(usize::MAX);
}

#[test]
fn replies_match_the_transcript_if_input_arrives_byte_by_byte() {
    check_transcript(1);
}

#[test]
fn the_first_byte_selects_the_protocol_of_a_connection() {
    let mut text = Connection::new();
    assert_eq!(text.receive(b"mn\r\n"), b"MN\r\n");
    assert_eq!(text.receive(&bytes("~Gkey.\r\n")), b"ERROR\r\n");
    let mut toy = Connection::new();
    assert_eq!(toy.receive(&bytes("~Gkey.")), b"N\0");
}
