//! Random sequences of commands. The replies of the session must equal the replies of the model
//! (the crate `model`, a simple cache), however the input is split, and no input may make the
//! session panic.

mod frames;
mod logins;

use model::{Cache, ModelSession};
use proptest::prelude::*;
use service::{Next, recycle};
use store::{Config, Store, Worker};

use crate::{
    CacheWorker, Counters, Now, Output, Permissions, PrefixSums, RequestContext, ServerControl,
    Session, StatWriter, prefetch_items,
};

const NOW: Now = Now {
    elapsed_s: 10,
    epoch_unix_s: 1_700_000_000,
};

/// A server without statistics and settings. The user `foo` has the password `bar`.
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

    fn is_password(&self, user: &[u8], password: &[u8]) -> bool {
        (user, password) == (b"foo", b"bar")
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

/// A session with a store of its own, its unconsumed input, and all replies so far.
struct TestSession {
    worker: Worker,
    counters: Counters,
    session: Session,
    input: Vec<u8>,
    replies: Vec<u8>,
    is_closed: bool,
    requests_per_turn: usize,
}

impl TestSession {
    /// A session that answers at most `requests_per_turn` requests in a turn.
    fn new(requests_per_turn: usize) -> Self {
        Self::with_config(
            requests_per_turn,
            Config {
                memory_bytes: 16 << 20,
                hash_seed: 3,
                ..Config::DEFAULT
            },
        )
    }

    fn with_config(requests_per_turn: usize, config: Config) -> Self {
        Self {
            worker: Store::new(config).unwrap().worker(),
            counters: Counters::default(),
            session: Session::default(),
            input: Vec::new(),
            replies: Vec::new(),
            is_closed: false,
            requests_per_turn,
        }
    }

    /// Receives `bytes`, split at the offsets `cuts`.
    fn receive_in_parts(&mut self, bytes: &[u8], cuts: &[usize]) {
        for chunk in split_at_cuts(bytes, cuts) {
            self.receive(chunk);
        }
    }

    /// Receives `bytes` as further input, and gives the session turns until it needs more input.
    fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut prepared = Vec::new();
        let mut out = Output::default();
        let mut turns = 0;
        while !self.is_closed {
            // The prepared requests borrow the input. `recycle` removes them and keeps the memory
            // of the list. It is called before a turn, so that the list can borrow the input of
            // that turn, and after the turn, so that the input can change.
            prepared = recycle::<CacheWorker>(prepared);
            self.session.prepare(
                &self.input,
                self.requests_per_turn,
                &self.worker,
                &mut prepared,
            );
            prefetch_items(&mut prepared, &self.worker);
            let mut context =
                RequestContext::new(NOW, &mut self.worker, &self.counters, &NoControl);
            let progress = self
                .session
                .answer(&prepared, &self.input, &mut context, &mut out);
            prepared = recycle::<CacheWorker>(prepared);
            let bytes_sent_before = 0;
            self.replies.extend(out.slices(bytes_sent_before).flatten());
            out.clear();
            self.input.drain(..progress.consumed);
            match progress.next {
                Next::Close => self.is_closed = true,
                Next::Input | Next::Upload => break,
                Next::OutputSpace | Next::Yield => {}
                // The last two cannot happen. The session would wait for memory only if other
                // sessions held it. It would wait for a completion only after it had issued a
                // ticket, which stands for a result that another thread produces.
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
        // One byte longer than the protocol allows.
        1 => Just("x".repeat(251)),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..300_u32).prop_map(|number| number.to_string()),
        Just(String::new()),
        Just("\r\n".to_owned()),
        Just("get k1\r\n".to_owned()),
        // The session sends values of more than 16 KiB from the store's memory, without a copy.
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

/// Returns commands whose replies contain no CAS, because the session and the model assign
/// different numbers.
fn command() -> impl Strategy<Value = Vec<u8>> {
    let read =
        prop::collection::vec(key(), 1..5).prop_map(|keys| format!("get {}\r\n", keys.join(" ")));
    prop_oneof![6 => store_command(), 4 => read, 5 => meta_command(), 6 => short_command()]
        .prop_map(String::into_bytes)
}

/// Splits `bytes` at the offsets `cuts`. Each offset is first reduced modulo `bytes.len() + 1`, so
/// that it is not beyond the end.
fn split_at_cuts<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Returns a session that has received `bytes`, split at the offsets `cuts`.
fn received_in_parts(bytes: &[u8], cuts: &[usize], requests_per_turn: usize) -> TestSession {
    let mut session = TestSession::new(requests_per_turn);
    session.receive_in_parts(bytes, cuts);
    session
}

/// Overwrites bytes of the input: each element of `garbage` is an offset (modulo the length of the
/// input) and the new byte. Then compares a session that receives the whole input at once with a
/// session that receives the input split at the offsets `cuts`.
fn replies_do_not_depend_on_the_split(
    mut bytes: Vec<u8>,
    garbage: &[(usize, u8)],
    cuts: &[usize],
) -> Result<(), TestCaseError> {
    for &(at, byte) in garbage {
        let at = at % bytes.len();
        bytes[at] = byte;
    }
    // The two sessions also answer different numbers of requests in a turn.
    let mut whole = TestSession::new(20);
    whole.receive(&bytes);
    let split = received_in_parts(&bytes, cuts, 3);
    prop_assert_eq!(whole.replies, split.replies);
    prop_assert_eq!(whole.is_closed, split.is_closed);
    Ok(())
}

proptest! {
    #[test]
    fn replies_equal_those_of_the_model_however_the_input_is_split(
        commands in prop::collection::vec(command(), 1..40),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
        requests_per_turn in 1..8_usize,
    ) {
        let bytes = commands.concat();
        let session = received_in_parts(&bytes, &cuts, requests_per_turn);
        let item_size_max = 1 << 20;
        let mut cache = Cache::new(item_size_max);
        let now_s = NOW.epoch_unix_s + u64::from(NOW.elapsed_s);
        let expected = ModelSession::new().receive(&mut cache, now_s, &bytes);
        prop_assert_eq!(
            String::from_utf8_lossy(&session.replies),
            String::from_utf8_lossy(&expected)
        );
    }

    #[test]
    fn corrupted_commands_do_not_panic_and_replies_do_not_depend_on_the_split(
        commands in prop::collection::vec(command(), 1..10),
        garbage in prop::collection::vec((any::<usize>(), any::<u8>()), 0..20),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
    ) {
        replies_do_not_depend_on_the_split(commands.concat(), &garbage, &cuts)?;
    }
}

/// A regression test. Bytes of a value that were copied before memory ran out did not count as
/// consumed. The session therefore skipped too few bytes, and parsed the end of the value as
/// commands.
#[test]
fn rejected_value_is_skipped_and_not_parsed_as_commands() {
    let config = Config {
        memory_bytes: 8 << 20,
        evicts: false,
        ..Config::DEFAULT
    };
    let mut session = TestSession::with_config(16, config);
    // These 765 values fill the memory of the store.
    let filler = "v".repeat(10_000);
    for number in 0..765 {
        session.receive(format!("set k{number} 0 0 10000 noreply\r\n{filler}\r\n").as_bytes());
    }
    session.replies.clear();
    let command = "set evil 0 0 5\r\nowned\r\n";
    for len in [900_000, 500_000, 100_000, 60_000, 30_000, 15_000] {
        let value = &command.repeat(len / command.len() + 1)[..len];
        // The command line arrives first and alone, so that memory runs out during an upload.
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

/// Lines of keys that are longer than what is decoded at once, some with a key that is too long,
/// and commands after them.
#[test]
fn long_lines_of_keys_are_answered_as_by_the_model_in_any_split() {
    let keys =
        |count: usize| -> String { (0..count).map(|key| format!(" k{}", key % 7)).collect() };
    let mut input = String::from("set k1 0 0 1\r\n1\r\nset k5 3 0 2\r\n55\r\n");
    for head in ["get", "gat 100"] {
        for count in [10, 25_000, 60_000] {
            let bad = "x".repeat(251);
            input += &format!("{head}{}\r\nmn\r\n", keys(count));
            input += &format!("{head}{} {bad}{}\nmn\r\n", keys(count), keys(20));
            input += &format!("{head} {bad} {}\r\nmn\r\n", keys(count));
        }
    }
    let input = input.as_bytes();
    let mut expected = ModelSession::new();
    let replies = expected.receive(&mut Cache::new(1 << 20), 1_700_000_010, input);
    for part in [input.len(), 70_001, 16_384, 4099] {
        let mut session = TestSession::new(20);
        input.chunks(part).for_each(|chunk| session.receive(chunk));
        assert!(!session.is_closed && session.input.is_empty());
        assert!(session.replies == replies, "in parts of {part}");
    }
}
