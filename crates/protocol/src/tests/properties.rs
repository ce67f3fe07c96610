//! Properties of every request, every reply and arbitrary bytes.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::client::{self, MetaResult, Reply, ReplyKind, ReplyReader, Status};
use crate::reply::{self, MetaStatus};
use crate::{
    Arith, ArithMode, Classes, Crawler, DebugTime, Delete, DumpForm, FlushAll, MetaKey, Parsed,
    PrefixAction, PrefixCommand, Request, Set, SetMode, Stats, Streams, Touch, Tuning, fuzzing,
    limits, parse,
};

fn key() -> impl Strategy<Value = Vec<u8>> {
    let plain = vec(b'!'..=b'~', 1..=limits::KEY_MAX);
    prop_oneof![6 => plain, 1 => Just(b"noreply".to_vec()), 1 => Just(vec![b'k'; 250])]
}

fn set_mode() -> impl Strategy<Value = SetMode> {
    use SetMode::{Add, Append, Prepend, Replace, Set};
    select(vec![Set, Add, Replace, Append, Prepend])
}

fn arith_mode() -> impl Strategy<Value = ArithMode> {
    select(vec![ArithMode::Increment, ArithMode::Decrement])
}

/// The request that `line`, which includes its line end, is parsed as.
fn parsed(line: &[u8]) -> Request<'_> {
    match parse(line, 0) {
        Parsed::Request { request, len } if len == line.len() => request,
        other => panic!("{:?} was read as {other:?}", String::from_utf8_lossy(line)),
    }
}

proptest! {
    #[test]
    fn gets_survive_a_round_trip(
        keys in vec(key(), 1..20),
        with_cas: bool,
        exptime in option::of(any::<i32>()),
    ) {
        let mut line = Vec::new();
        let words = keys.iter().map(Vec::as_slice);
        match exptime {
            None => client::get(&mut line, words, with_cas),
            // A `gat` with many keys would exceed the line limit.
            Some(exptime) => client::get_and_touch(&mut line, exptime, words.take(5), with_cas),
        }
        let Request::Get(get) = parsed(&line) else { panic!() };
        prop_assert_eq!((get.with_cas, get.exptime), (with_cas, exptime));
        let count = if exptime.is_some() { 5 } else { 20 };
        prop_assert!(get.keys.eq(keys.iter().take(count)));
    }

    #[test]
    fn classic_requests_survive_a_round_trip(
        key in key(),
        (flags, exptime, value_len) in (any::<u32>(), any::<i32>(), 0..=limits::VALUE_LEN_MAX),
        (mode, arith_mode) in (set_mode(), arith_mode()),
        cas in option::of(any::<u64>()),
        delta: u64,
        noreply: bool,
    ) {
        let key = key.as_slice();
        let mode = if cas.is_some() { SetMode::Set } else { mode };
        let set = Set { key, flags, exptime, value_len, mode, cas, noreply };
        let delete = Delete { key, noreply };
        let arith = Arith { key, delta, mode: arith_mode, noreply };
        let touch = Touch { key, exptime, noreply };
        let flush = FlushAll { exptime: cas.map(|_| exptime), noreply };
        let mut line = Vec::new();
        let mut check = |write: &dyn Fn(&mut Vec<u8>), request: Request<'_>| {
            line.clear();
            write(&mut line);
            assert_eq!(parsed(&line), request);
        };
        check(&|out| client::set_line(out, &set), Request::Set(set));
        check(&|out| client::delete(out, &delete), Request::Delete(delete));
        check(&|out| client::arith(out, &arith), Request::Arith(arith));
        check(&|out| client::touch(out, &touch), Request::Touch(touch));
        check(&|out| client::flush_all(out, flush), Request::FlushAll(flush));
        check(
            &|out| client::verbosity(out, flags, noreply),
            Request::Verbosity { level: flags, noreply },
        );
    }

    #[test]
    fn meta_requests_survive_a_round_trip(
        key in key(),
        flags in subsequence(
            vec!["c", "f", "k", "q", "s", "t", "v", "h", "l", "u", "F9", "T-1", "C5", "E6"],
            0..=14,
        ).prop_shuffle(),
        opaque in option::of(any::<u64>()),
        value in vec(any::<u8>(), 0..50),
    ) {
        let key = MetaKey { raw: &key, base64: false };
        let text = flags.join(" ");
        let has = |flag| flags.contains(&flag);
        let compare = has("C5").then_some(5);
        let explicit_cas = has("E6").then_some(6);
        let touch = has("T-1").then_some(-1);
        let (mut get_line, mut set_line) = (Vec::new(), Vec::new());
        let (mut delete_line, mut arith_line) = (Vec::new(), Vec::new());
        client::meta_get(&mut get_line, &key, text.as_bytes(), opaque);
        client::meta_set(&mut set_line, &key, text.as_bytes(), opaque, &value);
        client::meta_delete(&mut delete_line, &key, text.as_bytes(), opaque);
        client::meta_arith(&mut arith_line, &key, text.as_bytes(), opaque);

        let Request::MetaGet(get) = parsed(&get_line) else { panic!() };
        prop_assert_eq!((get.key, get.with_value, get.quiet), (key, has("v"), has("q")));
        prop_assert_eq!((get.touch, get.known_cas, get.no_bump), (touch, compare, has("u")));
        let Request::MetaDelete(delete) = parsed(&delete_line) else { panic!() };
        prop_assert_eq!((delete.key, delete.compare, delete.quiet), (key, compare, has("q")));
        let Request::MetaArith(arith) = parsed(&arith_line) else { panic!() };
        prop_assert_eq!((arith.key, arith.explicit_cas, arith.touch), (key, explicit_cas, touch));
        let line_len = set_line.len() - value.len() - 2;
        let Request::MetaSet(set) = parsed(&set_line[..line_len]) else { panic!() };
        prop_assert_eq!((set.key, set.value_len as usize), (key, value.len()));
        prop_assert_eq!((set.compare, set.explicit_cas), (compare, explicit_cas));
        prop_assert_eq!(set.client_flags, if has("F9") { 9 } else { 0 });

        let digits = opaque.map(|number| number.to_string());
        let sent = get.flags.filter(|flag| flag.letter == b'O').map(|flag| flag.token).last();
        prop_assert_eq!(sent, digits.as_ref().map(String::as_bytes));
        prop_assert_eq!(get.flags.count(), flags.len() + usize::from(opaque.is_some()));
    }

    #[test]
    fn parsing_any_bytes_as_requests_does_not_panic(input in vec(any::<u8>(), 0..300)) {
        fuzzing::check_request(&input);
    }

    #[test]
    fn splitting_request_like_bytes_does_not_change_the_result(
        words in vec(select(WORDS.to_vec()), 1..40),
    ) {
        fuzzing::check_request(words.concat().as_bytes());
    }

    #[test]
    fn parsing_any_bytes_as_replies_does_not_panic(input in vec(any::<u8>(), 0..300)) {
        fuzzing::check_reply(&[b"vlsm\n".as_slice(), &input].concat());
    }

    #[test]
    fn replies_survive_a_round_trip_however_they_are_split(
        replies in vec(reply(), 1..12),
        split in 1..40usize,
    ) {
        let mut bytes = Vec::new();
        for reply in &replies {
            write_reply(&mut bytes, reply);
        }
        let mut reader = ReplyReader::new();
        let mut found = Vec::new();
        for mut piece in bytes.chunks(split) {
            while !piece.is_empty() {
                let advance = reader.advance(piece, kind(&replies[found.len()])).unwrap();
                found.extend(advance.reply);
                piece = &piece[advance.consumed..];
            }
        }
        prop_assert_eq!(found, replies);
        prop_assert!(!reader.is_mid_reply());
    }
}

const CRAWL: Crawler = Crawler::Dump(DumpForm::Metadump, Classes::ALL);
const TUNING: Tuning = Tuning::LruShares {
    hot_percent: 20,
    warm_percent: 40,
    hot_factor: 200,
    warm_factor: 2_050,
};
const SESSIONS: PrefixCommand<'_> = PrefixCommand {
    action: PrefixAction::Delete,
    prefix: b"session:",
};
const BACK: DebugTime = DebugTime::Advance { seconds: -3 };
const STREAMS: Streams = Streams::FETCHERS.with(Streams::PROXY);

#[test]
fn requests_without_arguments_survive_a_round_trip() {
    type Write = dyn Fn(&mut Vec<u8>);
    let table: &[(&Write, Request<'_>)] = &[
        (&client::version, Request::Version),
        (&client::quit, Request::Quit),
        (&client::meta_noop, Request::MetaNoop),
        (
            &|out| client::stats(out, Stats::General),
            Request::Stats(Stats::General),
        ),
        (
            &|out| client::stats(out, Stats::Reset),
            Request::Stats(Stats::Reset),
        ),
        (
            &|out| client::stats(out, Stats::Settings),
            Request::Stats(Stats::Settings),
        ),
        (
            &|out| client::stats(out, Stats::Other(b"size")),
            Request::Stats(Stats::Other(b"size")),
        ),
        (
            &|out| client::stats(out, Stats::Items),
            Request::Stats(Stats::Items),
        ),
        (&|out| client::crawler(out, CRAWL), Request::Crawler(CRAWL)),
        (&|out| client::tune(out, TUNING), Request::Tune(TUNING)),
        (&|out| client::watch(out, STREAMS), Request::Watch(STREAMS)),
        (
            &|out| client::debug_time(out, DebugTime::Pause),
            Request::DebugTime(DebugTime::Pause),
        ),
        (
            &|out| client::debug_time(out, DebugTime::Resume),
            Request::DebugTime(DebugTime::Resume),
        ),
        (
            &|out| client::debug_time(out, BACK),
            Request::DebugTime(BACK),
        ),
        (
            &|out| client::prefix(out, SESSIONS),
            Request::Prefix(SESSIONS),
        ),
    ];
    for (write, request) in table {
        let mut line = Vec::new();
        write(&mut line);
        assert_eq!(parsed(&line), *request);
    }
}

/// Parts of lines, valid and invalid.
const WORDS: &[&str] = &[
    "get ",
    "gets ",
    "gat 0 ",
    "set ",
    "cas ",
    "append ",
    "delete ",
    "incr ",
    "touch ",
    "stats ",
    "flush_all ",
    "verbosity ",
    "mg ",
    "ms ",
    "md ",
    "ma ",
    "mn ",
    "key ",
    "Zm9v ",
    "noreply ",
    "0 ",
    "1 ",
    "-1 ",
    "+1 ",
    "2147483645 ",
    "18446744073709551615 ",
    "v ",
    "k ",
    "b ",
    "q ",
    "c ",
    "s ",
    "t ",
    "O1 ",
    "T30 ",
    "N0 ",
    "C5 ",
    "E6 ",
    "MA ",
    "I ",
    "x",
    " ",
    "\r\n",
    "\r\n",
    "\n",
    "\r",
    "\0",
];

fn reply() -> impl Strategy<Value = Reply> {
    use MetaStatus::{Done, Exists, Miss, NotFound, NotStored};
    let values = vec(0..2000u32, 0..4).prop_map(|lens| Reply::Values {
        hits: lens.len() as u32,
        bytes: lens.iter().map(|&len| u64::from(len)).sum(),
    });
    let classic = select(vec![
        Status::Stored,
        Status::NotStored,
        Status::Exists,
        Status::NotFound,
    ]);
    let status = select(vec![Done, NotFound, NotStored, Exists, Miss]).prop_map(MetaResult::Status);
    let meta = prop_oneof![status, (0..2000u32).prop_map(MetaResult::Value)];
    prop_oneof![
        values,
        classic.prop_map(Reply::Status),
        any::<u64>().prop_map(Reply::Number),
        (0..5u32).prop_map(|count| Reply::Stats { count }),
        (meta, option::of(any::<u64>()))
            .prop_map(|(result, opaque)| Reply::Meta { result, opaque }),
    ]
}

fn kind(reply: &Reply) -> ReplyKind {
    match reply {
        Reply::Values { .. } => ReplyKind::Values,
        Reply::Status(_) | Reply::Number(_) | Reply::Error(_) => ReplyKind::Line,
        Reply::Stats { .. } => ReplyKind::Stats,
        Reply::Meta { .. } => ReplyKind::Meta,
    }
}

/// Writes `reply`. Its values consist of line ends, which the reader must not mistake for the end
/// of a line.
fn write_reply(out: &mut Vec<u8>, reply: &Reply) {
    let value = |out: &mut Vec<u8>, len: u32| {
        out.extend(b"\r\nEND\r\n".iter().cycle().take(len as usize));
        out.extend_from_slice(reply::LINE_END);
    };
    match *reply {
        Reply::Values { hits, bytes } => {
            for hit in 0..u64::from(hits) {
                let first = if hit == 0 { bytes } else { 0 };
                reply::value_header(out, b"VALUE", 1, first as u32, Some(9));
                value(out, first as u32);
            }
            out.extend_from_slice(reply::END);
        }
        Reply::Status(status) => out.extend_from_slice(match status {
            Status::Stored => reply::STORED,
            Status::NotStored => reply::NOT_STORED,
            Status::Exists => reply::EXISTS,
            _ => reply::NOT_FOUND,
        }),
        Reply::Number(number) => reply::number(out, number),
        Reply::Stats { count } => {
            (0..count).for_each(|_| reply::stat(out, b"END", b"x y"));
            out.extend_from_slice(reply::END);
        }
        Reply::Meta { result, opaque } => {
            match result {
                MetaResult::Value(len) => out.extend_from_slice(format!("VA {len}").as_bytes()),
                MetaResult::Status(status) => out.extend_from_slice(status.letters()),
                MetaResult::Noop => out.extend_from_slice(b"MN"),
            }
            if let Some(opaque) = opaque {
                out.extend_from_slice(format!(" t-1 O{opaque}").as_bytes());
            }
            out.extend_from_slice(reply::LINE_END);
            if let MetaResult::Value(len) = result {
                value(out, len);
            }
        }
        Reply::Error(_) => out.extend_from_slice(reply::ERROR),
    }
}
