//! Conversations at random: the session says what the model says, however its input is split,
//! and nothing it is told makes it panic.

#![allow(clippy::unwrap_used, reason = "a test may")]

use model::{Cache, ModelSession};
use proptest::prelude::*;
use session::{
    Counters, Next, Now, Output, RequestContext, ServerControl, Session, prefetch_items, recycle,
};
use store::{Config, Store, Worker};

const NOW: Now = Now {
    elapsed_s: 10,
    epoch_unix_s: 1_700_000_000,
};

struct Nothing;

impl ServerControl for Nothing {
    fn set_memory_limit(&self, _: u64) -> bool {
        true
    }

    fn wake_maintenance(&self) {}

    fn write_stats(&self, _: Now, _: &mut Vec<u8>) {}
    fn write_settings(&self, _: &mut Vec<u8>) {}
    fn reset_stats(&self) {}
    fn set_verbosity(&self, _: u32) {}
}

/// A session with all it needs.
struct Talk {
    worker: Worker,
    counters: Counters,
    session: Session,
    input: Vec<u8>,
    said: Vec<u8>,
    closed: bool,
    most: usize,
}

impl Talk {
    fn new(most: usize) -> Self {
        Self::over(
            most,
            Config {
                memory_bytes: 16 << 20,
                hash_seed: 3,
                ..Config::DEFAULT
            },
        )
    }

    fn over(most: usize, config: Config) -> Self {
        Self {
            worker: Store::new(config).unwrap().worker(),
            counters: Counters::default(),
            session: Session::default(),
            input: Vec::new(),
            said: Vec::new(),
            closed: false,
            most,
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut prepared = Vec::new();
        let mut out = Output::default();
        let mut turns = 0;
        while !self.closed {
            prepared = recycle(prepared);
            self.session
                .prepare(&self.input, self.most, &self.worker, &mut prepared);
            prefetch_items(&mut prepared, &self.worker);
            let mut context = RequestContext {
                now: NOW,
                worker: &mut self.worker,
                counters: &self.counters,
                control: &Nothing,
            };
            let progress = self
                .session
                .answer(&prepared, &self.input, &mut context, &mut out);
            prepared = recycle(prepared);
            self.said.extend(out.slices(0).flatten());
            out.clear();
            self.input.drain(..progress.consumed);
            match progress.next {
                Next::Close => self.closed = true,
                Next::Input | Next::Upload => break,
                Next::OutputSpace | Next::Yield => {}
                Next::Memory => panic!("nobody holds memory"),
            }
            turns += 1;
            assert!(turns < 100_000, "a session that never comes to rest");
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

/// Commands whose answers hold no CAS: those numbers are each cache's own.
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
    fn the_session_says_what_the_model_says_however_it_is_told(
        commands in prop::collection::vec(command(), 1..40),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
        most in 1..8_usize,
    ) {
        let bytes = commands.concat();
        let mut session = Talk::new(most);
        for chunk in chunks(&bytes, &cuts) {
            session.hear(chunk);
        }
        let mut cache = Cache::new(1 << 20);
        let now_s = NOW.epoch_unix_s + u64::from(NOW.elapsed_s);
        let expected = ModelSession::new().receive(&mut cache, now_s, &bytes);
        prop_assert_eq!(
            String::from_utf8_lossy(&session.said),
            String::from_utf8_lossy(&expected)
        );
    }

    #[test]
    fn garbage_neither_panics_nor_depends_on_how_it_is_split(
        commands in prop::collection::vec(command(), 1..10),
        garbage in prop::collection::vec((any::<usize>(), any::<u8>()), 0..20),
        cuts in prop::collection::vec(any::<usize>(), 0..30),
    ) {
        let mut bytes = commands.concat();
        for (place, byte) in garbage {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        let mut whole = Talk::new(20);
        whole.hear(&bytes);
        let mut split = Talk::new(3);
        for chunk in chunks(&bytes, &cuts) {
            split.hear(chunk);
        }
        prop_assert_eq!(whole.said, split.said);
        prop_assert_eq!(whole.closed, split.closed);
    }
}

/// Once the bytes that had still found room were forgotten, and as many from the end of the value
/// were taken for commands.
#[test]
fn no_byte_of_a_value_that_found_no_room_is_taken_for_a_command() {
    let config = Config {
        memory_bytes: 8 << 20,
        evicts: false,
        ..Config::DEFAULT
    };
    let mut talk = Talk::over(16, config);
    let filler = "v".repeat(10_000);
    for number in 0..765 {
        talk.hear(format!("set k{number} 0 0 10000 noreply\r\n{filler}\r\n").as_bytes());
    }
    talk.said.clear();
    let command = "set evil 0 0 5\r\nowned\r\n";
    for len in [900_000, 500_000, 100_000, 60_000, 30_000, 15_000] {
        let value = &command.repeat(len / command.len() + 1)[..len];
        // First the line alone, so that the value is on its way when room runs out.
        talk.hear(format!("set big 0 0 {len}\r\n").as_bytes());
        for piece in value.as_bytes().chunks(16_000) {
            talk.hear(piece);
        }
        talk.hear(b"\r\n");
    }
    talk.hear(b"get evil\r\nmn\r\n");
    let said = String::from_utf8(talk.said).unwrap();
    assert!(said.contains("SERVER_ERROR out of memory storing object\r\n"));
    assert!(said.ends_with("END\r\nMN\r\n"), "{said}");
    assert!(!said.contains("owned"), "{said}");
}
