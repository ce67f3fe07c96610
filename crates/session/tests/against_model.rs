//! Random command sequences: the session's replies equal the model's, however the input is split,
//! and no input makes it panic.

#![allow(clippy::unwrap_used, reason = "a test may")]

use model::{Cache, ModelSession};
use proptest::prelude::*;
use service::{Next, recycle};
use session::{
    CacheWorker, Counters, Now, Output, Permissions, PrefixSums, RequestContext, ServerControl,
    Session, StatWriter, prefetch_items,
};
use store::{Config, Store, Worker};

const NOW: Now = Now {
    elapsed_s: 10,
    epoch_unix_s: 1_700_000_000,
};

struct NoControl;

impl ServerControl for NoControl {
    fn set_memory_limit(&self, _: u64) -> bool {
        true
    }

    fn wake_maintenance(&self) {}

    fn write_stats(&self, _: Now, _: &mut dyn StatWriter) {}
    fn write_settings(&self, _: &mut dyn StatWriter) {}
    fn reset_stats(&self) {}
    fn set_verbosity(&self, _: u32) {}

    fn permissions(&self) -> Permissions {
        Permissions::DEFAULT
    }

    fn stop(&self) {}

    fn set_prefix_counting(&self, _: bool) {}

    fn prefixes(&self) -> PrefixSums {
        PrefixSums::new()
    }
}

/// A session with a store of its own.
struct TestSession {
    worker: Worker,
    counters: Counters,
    session: Session,
    input: Vec<u8>,
    replies: Vec<u8>,
    closed: bool,
    turn_max: usize,
}

impl TestSession {
    fn new(turn_max: usize) -> Self {
        Self::over(
            turn_max,
            Config {
                memory_bytes: 16 << 20,
                hash_seed: 3,
                ..Config::DEFAULT
            },
        )
    }

    fn over(turn_max: usize, config: Config) -> Self {
        Self {
            worker: Store::new(config).unwrap().worker(),
            counters: Counters::default(),
            session: Session::default(),
            input: Vec::new(),
            replies: Vec::new(),
            closed: false,
            turn_max,
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut prepared = Vec::new();
        let mut out = Output::default();
        let mut turns = 0;
        while !self.closed {
            prepared = recycle::<CacheWorker>(prepared);
            self.session
                .prepare(&self.input, self.turn_max, &self.worker, &mut prepared);
            prefetch_items(&mut prepared, &self.worker);
            let mut context = RequestContext {
                now: NOW,
                worker: &mut self.worker,
                counters: &self.counters,
                control: &NoControl,
            };
            let progress = self
                .session
                .answer(&prepared, &self.input, &mut context, &mut out);
            prepared = recycle::<CacheWorker>(prepared);
            self.replies.extend(out.slices(0).flatten());
            out.clear();
            self.input.drain(..progress.consumed);
            match progress.next {
                Next::Close => self.closed = true,
                Next::Input | Next::Upload => break,
                Next::OutputSpace | Next::Yield => {}
                Next::Memory => panic!("no other session holds memory"),
                Next::Completion => panic!("no ticket is issued"),
            }
            turns += 1;
            assert!(turns < 100_000, "the session does not finish");
        }
    }
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0..5_u8).prop_map(|number| format!("k{number}")),
        1 => Just("x".repeat(250)),
        1 => Just("x".repeat(251)),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..300_u32).prop_map(|number| number.to_string()),
        Just(String::new()),
        Just("\r\n".to_owned()),
        Just("get k1\r\n".to_owned()),
        (0..3_usize).prop_map(|times| "v".repeat(times * 20_000)),
    ]
}

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

fn store_command() -> impl Strategy<Value = String> {
    let verbs = one_of(&["set", "add", "replace", "append", "prepend"]);
    let noreply = one_of(&["", "", "", " noreply"]);
    (verbs, key(), 0..4_u32, 0..2_i32, value(), noreply).prop_map(
        |(verb, key, flags, exptime, value, noreply)| {
            let (exptime, len) = (exptime * 100, value.len());
            format!("{verb} {key} {flags} {exptime} {len}{noreply}\r\n{value}\r\n")
        },
    )
}

fn meta_command() -> impl Strategy<Value = String> {
    let set_flags = one_of(&["", " q", " k O7", " MA", " s"]);
    let get_flags = one_of(&["v", "s v f t", "q k", "T30 t O1 v", "k"]);
    prop_oneof![
        (key(), value(), set_flags).prop_map(|(key, value, flags)| {
            format!("ms {key} {}{flags}\r\n{value}\r\n", value.len())
        }),
        (key(), get_flags).prop_map(|(key, flags)| format!("mg {key} {flags}\r\n")),
    ]
}

fn short_command() -> impl Strategy<Value = String> {
    let with_key = one_of(&[
        "delete KEY\r\n",
        "delete KEY noreply\r\n",
        "incr KEY 17\r\n",
        "decr KEY 17\r\n",
        "ma KEY N0 J7 v\r\n",
        "md KEY q\r\n",
        "touch KEY 50\r\n",
        "gat 60 KEY k1\r\n",
    ]);
    let alone = one_of(&[
        "mn\r\n",
        "version\r\n",
        "bogus\r\n",
        "\r\n",
        "set k1 0 0 5\r\nlonger than five\r\n",
        "set k1 0 0 2000000\r\nabc",
        "set k1 x 0 3\r\nabc\r\n",
        "flush_all\r\n",
    ]);
    prop_oneof![
        (with_key, key()).prop_map(|(line, key)| line.replace("KEY", &key)),
        alone.prop_map(str::to_owned),
    ]
}

/// Commands whose replies contain no CAS: session and model number their items differently.
fn command() -> impl Strategy<Value = Vec<u8>> {
    let gets =
        prop::collection::vec(key(), 1..5).prop_map(|keys| format!("get {}\r\n", keys.join(" ")));
    prop_oneof![6 => store_command(), 4 => gets, 5 => meta_command(), 6 => short_command()]
        .prop_map(String::into_bytes)
}

fn chunks<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn replies_equal_the_models_however_the_input_is_split(
        commands in prop::collection::vec(command(), 1..40),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
        turn_max in 1..8_usize,
    ) {
        let bytes = commands.concat();
        let mut session = TestSession::new(turn_max);
        for chunk in chunks(&bytes, &cuts) {
            session.receive(chunk);
        }
        let mut cache = Cache::new(1 << 20);
        let now_s = NOW.epoch_unix_s + u64::from(NOW.elapsed_s);
        let expected = ModelSession::new().receive(&mut cache, now_s, &bytes);
        prop_assert_eq!(
            String::from_utf8_lossy(&session.replies),
            String::from_utf8_lossy(&expected)
        );
    }

    #[test]
    fn garbage_does_not_panic_and_its_split_does_not_matter(
        commands in prop::collection::vec(command(), 1..10),
        garbage in prop::collection::vec((any::<usize>(), any::<u8>()), 0..20),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
    ) {
        let mut bytes = commands.concat();
        for (at, byte) in garbage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let mut whole = TestSession::new(20);
        whole.receive(&bytes);
        let mut split = TestSession::new(3);
        for chunk in chunks(&bytes, &cuts) {
            split.receive(chunk);
        }
        prop_assert_eq!(whole.replies, split.replies);
        prop_assert_eq!(whole.closed, split.closed);
    }
}

/// A regression test: bytes that still fitted before memory ran out were not counted as consumed,
/// and as many bytes at the end of the value were parsed as commands.
#[test]
fn no_byte_of_a_value_that_did_not_fit_is_parsed_as_a_command() {
    let config = Config {
        memory_bytes: 8 << 20,
        evicts: false,
        ..Config::DEFAULT
    };
    let mut session = TestSession::over(16, config);
    let filler = "v".repeat(10_000);
    for number in 0..765 {
        session.receive(format!("set k{number} 0 0 10000 noreply\r\n{filler}\r\n").as_bytes());
    }
    session.replies.clear();
    let command = "set evil 0 0 5\r\nowned\r\n";
    for len in [900_000, 500_000, 100_000, 60_000, 30_000, 15_000] {
        let value = &command.repeat(len / command.len() + 1)[..len];
        // The line comes alone, so that an upload is in progress when memory runs out.
        session.receive(format!("set big 0 0 {len}\r\n").as_bytes());
        for piece in value.as_bytes().chunks(16_000) {
            session.receive(piece);
        }
        session.receive(b"\r\n");
    }
    session.receive(b"get evil\r\nmn\r\n");
    let replies = String::from_utf8(session.replies).unwrap();
    assert!(replies.contains("SERVER_ERROR out of memory storing object\r\n"));
    assert!(replies.ends_with("END\r\nMN\r\n"), "{replies}");
    assert!(!replies.contains("owned"), "{replies}");
}
