//! Parsing of valid and invalid lines. The expected error replies were recorded from memcached
//! 1.6.45.

use crate::{
    AfterKeys, DebugTime, Delete, FlushAll, MetaVivify, NextKeys, Parsed, PrefixAction,
    PrefixCommand, Rejection, Request, Set, SetMode, ShutdownMode, Stats, Touch, limits, next_keys,
    parse,
};

const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument\r\n";

fn key(len: usize) -> String {
    "k".repeat(len)
}

/// The rejection of `line`, and the bytes to skip after it.
fn rejected(line: &str) -> (Rejection, u64) {
    match parse(line.as_bytes(), 0) {
        Parsed::Rejected {
            rejection,
            len,
            swallow,
        } => {
            assert_eq!(len, line.len(), "{line:?}");
            (rejection, swallow)
        }
        other => panic!("{line:?} was not rejected: {other:?}"),
    }
}

fn request(line: &str) -> Request<'_> {
    match parse(line.as_bytes(), 0) {
        Parsed::Request { request, len } => {
            assert_eq!(len, line.len(), "{line:?}");
            request
        }
        other => panic!("{line:?} is no request: {other:?}"),
    }
}

#[test]
fn invalid_classic_lines_are_rejected() {
    let long = key(251);
    let table: &[(&str, &str)] = &[
        ("\r\n", BAD_FORMAT),
        ("\n", BAD_FORMAT),
        (" \r\n", BAD_FORMAT),
        ("g\r\n", BAD_FORMAT),
        ("mn\n", BAD_FORMAT),
        ("  \r\n", "ERROR\r\n"),
        ("bogus\r\n", "ERROR\r\n"),
        (" get a\r\n", "ERROR\r\n"),
        ("GET a\r\n", "ERROR\r\n"),
        ("mz a\r\n", "ERROR\r\n"),
        (
            "slabs reassign 1 1\r\n",
            "SAME src and dst class are identical\r\n",
        ),
        (
            "slabs reassign 1 64\r\n",
            "BADCLASS invalid src or dst class id\r\n",
        ),
        (
            "lru_crawler crawl hash\r\n",
            "ERROR an unknown error happened\r\n",
        ),
        (
            "lru tune 1 1 -1 1\r\n",
            "ERROR hot/warm age factors must be greater than 0\r\n",
        ),
        ("watch fetchers x\r\n", "ERROR\r\n"),
        ("get\r\n", BAD_FORMAT),
        ("get \r\n", BAD_FORMAT),
        ("gets\r\n", BAD_FORMAT),
        (
            &format!("get {long}\r\n"),
            "CLIENT_ERROR bad command line format\r\n\r\n",
        ),
        (
            &format!("get a {long}\r\n"),
            "CLIENT_ERROR bad command line format\r\n\r\n",
        ),
        ("set a 0 0\r\n", BAD_FORMAT),
        ("set a 0 0 x\r\n", BAD_FORMAT),
        ("set a 0 0 -1\r\n", BAD_FORMAT),
        ("set a 0 0 noreply\r\n", BAD_FORMAT),
        ("set a 0 0 2147483646\r\n", BAD_FORMAT),
        ("set a 0 0 4294967296\r\n", BAD_FORMAT),
        (
            "incr n x\r\n",
            "CLIENT_ERROR invalid numeric delta argument\r\n",
        ),
        (
            "incr n -1\r\n",
            "CLIENT_ERROR invalid numeric delta argument\r\n",
        ),
        ("incr n\r\n", BAD_FORMAT),
        (&format!("incr {long} 1\r\n"), BAD_FORMAT),
        ("delete\r\n", BAD_FORMAT),
        (&format!("delete {long}\r\n"), BAD_FORMAT),
        ("touch a\r\n", BAD_FORMAT),
        ("touch a x\r\n", BAD_EXPTIME),
        ("gat 0\r\n", BAD_FORMAT),
        ("gat x a\r\n", BAD_EXPTIME),
        ("flush_all x\r\n", BAD_EXPTIME),
        (" flush_all x\r\n", BAD_EXPTIME),
        ("verbosity\r\n", BAD_FORMAT),
        ("verbosity x\r\n", BAD_FORMAT),
    ];
    check_rejections(table);
}

#[test]
fn invalid_meta_lines_are_rejected() {
    let long = key(251);
    let table: &[(&str, &str)] = &[
        ("mg\r\n", BAD_FORMAT),
        (&format!("mg {long}\r\n"), BAD_FORMAT),
        ("mg a !\r\n", BAD_FORMAT),
        ("mg a _\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("mg a v v\r\n", "CLIENT_ERROR duplicate flag\r\n"),
        (
            &format!("mg a O{}\r\n", key(32)),
            "CLIENT_ERROR opaque token too long\r\n",
        ),
        (
            "mg a T\r\n",
            "CLIENT_ERROR bad token in command line format\r\n",
        ),
        (
            "mg a Tx\r\n",
            "CLIENT_ERROR bad token in command line format\r\n",
        ),
        (
            "mg a N\r\n",
            "CLIENT_ERROR bad token in command line format\r\n",
        ),
        ("mg a D\r\n", "CLIENT_ERROR invalid numeric delta value\r\n"),
        (
            "mg a J\r\n",
            "CLIENT_ERROR invalid numeric initial value\r\n",
        ),
        ("mg !!! b v\r\n", "CLIENT_ERROR error decoding key\r\n"),
        (
            "mg a b c f h k l s t u v q O1 T1 E1 F1 D1 J1 I x\r\n",
            "CLIENT_ERROR options flags are too long\r\n",
        ),
        ("ms\r\n", BAD_FORMAT),
        ("ms a\r\n", BAD_FORMAT),
        ("ms a x\r\n", BAD_FORMAT),
        ("ms a -1\r\n", BAD_FORMAT),
        ("ms a 1 !\r\n", BAD_FORMAT),
        ("md\r\n", BAD_FORMAT),
        ("ma\r\n", BAD_FORMAT),
        ("ma zz Dx\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        (
            "ma zz MX\r\n",
            "CLIENT_ERROR invalid mode for ma M token\r\n",
        ),
    ];
    check_rejections(table);
}

fn check_rejections(table: &[(&str, &str)]) {
    for (line, reply) in table {
        let (rejection, swallow) = rejected(line);
        assert_eq!(
            String::from_utf8_lossy(rejection.reply()),
            *reply,
            "{line:?}"
        );
        assert_eq!(swallow, 0, "{line:?}");
    }
}

#[test]
fn a_rejected_storage_command_skips_its_data_block() {
    let table: &[(&str, Rejection, u64)] = &[
        ("set a x 0 1\r\n", Rejection::BadFormat, 3),
        ("set a 0 x 1\r\n", Rejection::BadFormat, 3),
        ("set a -1 0 1\r\n", Rejection::BadFormat, 3),
        ("set a x 0 1 noreply\r\n", Rejection::Silent, 3),
        (
            &format!("set {} 0 0 10\r\n", key(251)),
            Rejection::BadFormat,
            12,
        ),
        ("cas a 0 0 1\r\n", Rejection::BadFormat, 3),
        ("cas a 0 0 1 x\r\n", Rejection::BadFormat, 3),
        ("cas a 0 0 1 noreply\r\n", Rejection::Silent, 3),
        (
            "cas a 0 0 2147483645 x\r\n",
            Rejection::BadFormat,
            2_147_483_647,
        ),
        ("ms a 1 MZ\r\n", Rejection::BadSetMode, 3),
        ("ms a 1 MXX\r\n", Rejection::BadSetMode, 3),
        ("ms a 1 M\r\n", Rejection::BadSetMode, 3),
        ("ms a 1 Fx\r\n", Rejection::BadFormat, 3),
        ("ms a 7 k k\r\n", Rejection::DuplicateFlag, 9),
        (&format!("ms {} 7\r\n", key(251)), Rejection::BadFormat, 9),
    ];
    for (line, rejection, swallow) in table {
        assert_eq!(rejected(line), (*rejection, *swallow), "{line:?}");
    }
}

#[test]
fn noreply_suppresses_the_error() {
    for line in [
        "bogus noreply\r\n",
        "incr a noreply\r\n",
        "touch a x noreply\r\n",
        "flush_all x noreply\r\n",
        "verbosity noreply\r\n",
    ] {
        assert_eq!(rejected(line).0, Rejection::Silent, "{line:?}");
    }
    // It does not suppress the error of a `get` or of a line with too few words.
    assert_eq!(rejected("touch noreply\r\n").0, Rejection::BadFormat);
    assert_eq!(
        rejected(&format!("get {} noreply\r\n", key(251))).0,
        Rejection::BadGetKey
    );
}

#[test]
fn flags_without_effect_are_checked_and_ignored() {
    assert_eq!(rejected("md a Rx\r\n"), (Rejection::BadToken, 0));
    assert!(matches!(request("ms a 1 N0 v t\r\n"), Request::MetaSet(_)));
    assert!(matches!(
        request("md a c s T30 D5\r\n"),
        Request::MetaDelete(_)
    ));
}

/// A client that compares with the CAS 0 compares nothing.
#[test]
fn a_cas_of_zero_is_as_if_it_were_absent() {
    let explicit = |line: String| match request(&line) {
        Request::MetaGet(get) => get.explicit_cas,
        Request::MetaSet(set) => set.explicit_cas,
        Request::MetaDelete(delete) => delete.explicit_cas,
        Request::MetaArith(arith) => arith.explicit_cas,
        other => panic!("{other:?}"),
    };
    for command in ["mg a N30", "ms a 1", "md a I", "ma a N30"] {
        assert_eq!(explicit(format!("{command} E0\r\n")), None);
        assert_eq!(explicit(format!("{command} E1\r\n")), Some(1));
    }
}

#[test]
fn lines_that_close_the_connection() {
    let long = "a".repeat(limits::LINE_MAX + 1);
    let flags = format!("mg a {}", "v ".repeat(limits::LINE_MAX));
    let exptime = format!("gat x {}", "a ".repeat(limits::KEYS_LINE_MAX));
    // The rest of the time may not have arrived.
    let spaces = " ".repeat(limits::KEYS_LINE_MAX);
    let (cut, missing) = (format!("gat {}1", &spaces[5..]), format!("gat {spaces}"));
    let (cut, missing) = (cut + "0 key\r\n", missing + "\r\nget x");
    let limit = limits::LINE_MAX.to_string();
    let said = String::from_utf8_lossy(Rejection::LineTooLong.reply());
    assert!(said.contains(&limit));
    for (line, rejection) in [
        ("GET / HTTP/1.0\r\n", Rejection::Silent),
        ("POST / HTTP/1.1\r\n", Rejection::Silent),
        (&long, Rejection::LineTooLong),
        (&flags, Rejection::LineTooLong),
        (&exptime, Rejection::BadExptime),
        (&cut, Rejection::BadFormat),
        (&missing, Rejection::BadFormat),
    ] {
        let parsed = parse(line.as_bytes(), 0);
        assert_eq!(parsed, Parsed::Fatal { rejection }, "{line:?}");
        if line.len() > limits::KEYS_LINE_MAX {
            let front = &line.as_bytes()[..=limits::KEYS_LINE_MAX];
            assert_eq!(parse(front, 0), parsed, "it does not depend on the split");
        }
    }
}

/// Feeds a line in parts of `part` bytes and returns its keys, and whether one was too long.
fn keys_of(line: &[u8], part: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut input, mut keys) = (Vec::new(), Vec::<Vec<u8>>::new());
    let mut is_begun = false;
    for bytes in line.chunks(part) {
        input.extend_from_slice(bytes);
        if !is_begun {
            let Parsed::LongGet { get, len } = parse(&input, 0) else {
                assert!(matches!(parse(&input, 0), Parsed::Incomplete { .. }));
                continue;
            };
            is_begun = true;
            keys.extend(get.keys.map(<[u8]>::to_vec));
            input.drain(..len);
        }
        while let Some(NextKeys { keys: next, after }) = next_keys(&input) {
            keys.extend(next.map(<[u8]>::to_vec));
            match after {
                AfterKeys::More => drop(input.drain(..next.as_bytes().len())),
                AfterKeys::LineEnd(_) => return (keys, false),
                AfterKeys::BadKey => return (keys, true),
            }
        }
        assert!(!is_begun || input.len() <= limits::KEY_MAX + 1);
    }
    panic!("the line has no end");
}

#[test]
fn a_line_of_keys_may_have_any_length_and_any_split() {
    for head in ["get", "gets", "gat 10", "gats -1"] {
        for line_end in ["\r\n", " \r\n", "\n"] {
            let keys: Vec<String> = (0..30_000).map(|n| format!("key{n}")).collect();
            let line = format!("{head}  {}{line_end}", keys.join(" "));
            for part in [1 << 20, 70_000, 16_384, 9973] {
                let (found, is_bad) = keys_of(line.as_bytes(), part);
                assert!(
                    !is_bad
                        && found
                            .iter()
                            .map(Vec::as_slice)
                            .eq(keys.iter().map(String::as_bytes))
                );
            }
        }
    }
}

#[test]
fn keys_before_one_that_is_too_long_are_found_in_any_split() {
    for count in [3, 20_000] {
        let bad = "k".repeat(limits::KEY_MAX + 1);
        let keys = "good ".repeat(count);
        let line = format!("get {keys}{bad} {}\r\n", "rest ".repeat(20_000));
        for part in [1 << 20, 70_000, 16_384, 9973] {
            let (found, is_bad) = keys_of(line.as_bytes(), part);
            assert!(is_bad);
            assert_eq!(found.len(), count);
        }
    }
}

#[test]
fn a_long_get_is_parsed_in_full() {
    let line = format!(
        "get {}\r\n",
        (0..3000).map(|n| format!("key{n} ")).collect::<String>()
    );
    let half = &line.as_bytes()[..line.len() / 2];
    assert_eq!(
        parse(half, 0),
        Parsed::Incomplete {
            scanned: half.len()
        }
    );
    let Request::Get(get) = request(&line) else {
        panic!()
    };
    assert_eq!(get.keys.count(), 3000);
    assert_eq!(get.keys.last(), Some(b"key2999".as_slice()));
}

#[test]
fn storage_requests() {
    let set = Set {
        key: b"a",
        flags: 0,
        exptime: 0,
        value_len: 1,
        mode: SetMode::Set,
        cas: None,
        noreply: false,
    };
    let table: &[(&str, Request<'_>)] = &[
        ("set a 0 0 1\n", Request::Set(set)),
        ("set a 0 0 1 2 3\r\n", Request::Set(set)),
        ("set a 4294967296 0 1\r\n", Request::Set(set)),
        (
            "set a 0 -1 -0\r\n",
            Request::Set(Set {
                exptime: -1,
                value_len: 0,
                ..set
            }),
        ),
        (
            "set a 0 0 1 noreply\r\n",
            Request::Set(Set {
                noreply: true,
                ..set
            }),
        ),
        (
            "cas a 0 0 1 9\r\n",
            Request::Set(Set {
                cas: Some(9),
                ..set
            }),
        ),
        (
            "prepend  a  5 0 1 \r\n",
            Request::Set(Set {
                mode: SetMode::Prepend,
                flags: 5,
                ..set
            }),
        ),
        (
            "set a 0 0 2147483645\r\n",
            Request::Set(Set {
                value_len: limits::VALUE_LEN_MAX,
                ..set
            }),
        ),
    ];
    check_requests(table);
}

#[test]
fn other_classic_requests() {
    let table: &[(&str, Request<'_>)] = &[
        (
            "delete a b c d e\r\n",
            Request::Delete(Delete {
                key: b"a",
                noreply: false,
            }),
        ),
        (
            "delete a 0 noreply\r\n",
            Request::Delete(Delete {
                key: b"a",
                noreply: true,
            }),
        ),
        (
            "touch a 0\r\n",
            Request::Touch(Touch {
                key: b"a",
                exptime: 0,
                noreply: false,
            }),
        ),
        (
            "flush_all\r\n",
            Request::FlushAll(FlushAll {
                exptime: None,
                noreply: false,
            }),
        ),
        (
            "flush_all noreply\r\n",
            Request::FlushAll(FlushAll {
                exptime: None,
                noreply: true,
            }),
        ),
        (
            " flush_all -1 noreply\r\n",
            Request::FlushAll(FlushAll {
                exptime: Some(-1),
                noreply: true,
            }),
        ),
        ("version x\r\n", Request::Version),
        (
            "verbosity 1\r\n",
            Request::Verbosity {
                level: 1,
                noreply: false,
            },
        ),
        ("quit\r\n", Request::Quit),
        ("stats\r\n", Request::Stats(Stats::General)),
        ("stats res\r\n", Request::Stats(Stats::Reset)),
        ("stats settings\r\n", Request::Stats(Stats::Settings)),
        ("stats hotkeys\r\n", Request::Stats(Stats::HotKeys)),
        ("stats latency\r\n", Request::Stats(Stats::Latency)),
        ("stats curtail\r\n", Request::Stats(Stats::Curtail)),
        (
            "stats cachedump 1 100\r\n",
            Request::Stats(Stats::CacheDump {
                class: 1,
                limit: 100,
            }),
        ),
        ("stats  items 1 \r\n", Request::Stats(Stats::Items)),
        ("mn x\r\n", Request::MetaNoop),
    ];
    check_requests(table);
}

fn check_requests(table: &[(&str, Request<'_>)]) {
    for (line, expected) in table {
        assert_eq!(request(line), *expected, "{line:?}");
    }
}

#[test]
fn meta_requests() {
    let Request::MetaGet(get) = request("mg Zm9v s b v q u T30 C7 k Oab\r\n") else {
        panic!()
    };
    assert_eq!(get.key.decode(&mut [0; limits::KEY_MAX]), b"foo");
    assert!(get.with_value && get.quiet && get.no_bump);
    assert_eq!((get.touch, get.known_cas), (Some(30), Some(7)));
    let letters: Vec<u8> = get.flags.map(|flag| flag.letter).collect();
    assert_eq!(letters, b"sbvquTCkO");

    let Request::MetaSet(set) = request("ms a 5 ME F9 T-1 E8 C0 I q\r\n") else {
        panic!()
    };
    assert_eq!(
        (set.mode, set.client_flags, set.exptime),
        (SetMode::Add, 9, -1)
    );
    assert_eq!(
        (set.explicit_cas, set.compare, set.value_len),
        (Some(8), Some(0), 5)
    );
    assert!(set.invalidate && set.quiet);

    let Request::MetaArith(arith) = request("ma a\r\n") else {
        panic!()
    };
    assert_eq!((arith.delta, arith.initial, arith.vivify), (1, 0, None));
    let Request::MetaArith(arith) = request("ma a M- D5 J3 N10 T20\r\n") else {
        panic!()
    };
    assert_eq!((arith.mode, arith.delta), (crate::ArithMode::Decrement, 5));
    assert_eq!(
        (arith.initial, arith.vivify, arith.touch),
        (3, Some(vivify(10, 20)), Some(20))
    );
    let Request::MetaArith(arith) = request("ma a T20 N10\r\n") else {
        panic!()
    };
    assert_eq!(
        (arith.vivify, arith.touch),
        (Some(vivify(10, 10)), Some(20))
    );
}

const fn vivify(exptime: i32, final_exptime: i32) -> MetaVivify {
    MetaVivify {
        exptime,
        final_exptime,
    }
}

#[test]
fn a_line_is_not_parsed_before_its_end() {
    let line = b"set key 0 0 10 noreply\r\n";
    for len in 0..line.len() {
        assert_eq!(
            parse(&line[..len], len / 2),
            Parsed::Incomplete { scanned: len }
        );
    }
}

#[test]
fn a_prefix_is_one_word_of_at_most_250_bytes() {
    let (most, more) = (key(250), key(251));
    let of = |action, prefix| Request::Prefix(PrefixCommand { action, prefix });
    check_requests(&[
        ("prefix list a\r\n", of(PrefixAction::List, b"a")),
        ("prefix  count  a \r\n", of(PrefixAction::Count, b"a")),
        (
            &format!("prefix delete {most}\r\n"),
            of(PrefixAction::Delete, most.as_bytes()),
        ),
    ]);
    for refused in [
        "prefix\r\n",
        "prefix list\r\n",
        "prefix cut a\r\n",
        "prefix List a\r\n",
        "prefix delete a b\r\n",
        &format!("prefix delete {more}\r\n"),
    ] {
        check_rejections(&[(refused, "ERROR\r\n")]);
    }
}

#[test]
fn debugtime_has_a_letter_or_64_bits_of_seconds() {
    let by = |seconds| Request::DebugTime(DebugTime::Advance { seconds });
    check_requests(&[
        ("debugtime p\r\n", Request::DebugTime(DebugTime::Pause)),
        ("debugtime r x\r\n", Request::DebugTime(DebugTime::Resume)),
        ("debugtime 9223372036854775807\r\n", by(i64::MAX)),
        ("debugtime -9223372036854775807\r\n", by(-i64::MAX)),
    ]);
    check_rejections(&[
        ("debugtime\r\n", "ERROR\r\n"),
        ("debugtime 9223372036854775808\r\n", "ERROR\r\n"),
        ("debugtime -9223372036854775808\r\n", "ERROR\r\n"),
        ("debugtime +1\r\n", "ERROR\r\n"),
        ("debugtime P\r\n", "ERROR\r\n"),
    ]);
}

#[test]
fn shutdown_has_a_mode() {
    let mode = |line: &str| match parse(line.as_bytes(), 0) {
        Parsed::Request {
            request: Request::Shutdown { mode, noreply },
            ..
        } => (mode, noreply),
        other => panic!("{line:?}: {other:?}"),
    };
    assert_eq!(mode("shutdown\r\n"), (ShutdownMode::Plain, false));
    assert_eq!(
        mode("shutdown graceful\r\n"),
        (ShutdownMode::Graceful, false)
    );
    assert_eq!(mode("shutdown now\r\n"), (ShutdownMode::Invalid, false));
    assert_eq!(mode("shutdown noreply\r\n"), (ShutdownMode::Invalid, true));
}
