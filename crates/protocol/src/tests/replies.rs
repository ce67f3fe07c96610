//! The text of the server's replies.

use crate::limits::KEY_MAX;
use crate::reply::{self, MetaEcho, MetaFields, MetaStatus};
use crate::{MetaFlags, MetaKey, Parsed, Request, parse};

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// As [`written`], with the echo of a request.
fn echoed(
    key: &MetaKey<'_>,
    flags: MetaFlags<'_>,
    write: impl FnOnce(&mut Vec<u8>, &MetaEcho<'_>),
) -> String {
    let mut buffer = [0; KEY_MAX];
    let echo = MetaEcho {
        key: key.decode(&mut buffer),
        base64: key.base64,
        flags,
    };
    written(|out| write(out, &echo))
}

#[test]
fn classic_lines() {
    let line = written(|out| reply::value_header(out, b"key", 4_294_967_295, 0, None));
    assert_eq!(line, "VALUE key 4294967295 0\r\n");
    let line = written(|out| reply::value_header(out, b"k", 0, 1_048_576, Some(u64::MAX)));
    assert_eq!(line, "VALUE k 0 1048576 18446744073709551615\r\n");
    assert_eq!(written(|out| reply::number(out, 10)), "10\r\n");
    assert_eq!(
        written(|out| reply::stat(out, b"pid", b"1")),
        "STAT pid 1\r\n"
    );
    assert_eq!(
        written(|out| reply::stat_number(out, b"gets", 99)),
        "STAT gets 99\r\n"
    );
    assert_eq!(
        written(|out| reply::version(out, b"1.6.45")),
        "VERSION 1.6.45\r\n"
    );
}

const FIELDS: MetaFields = MetaFields {
    cas: 13,
    client_flags: 7,
    value_len: 2,
    ttl_before_s: 100,
    ttl_s: 30,
    ttl_created_s: 40,
    created: false,
    idle_s: 5,
    fetched: true,
    won: false,
    stale: false,
    lost: false,
    base64_key: false,
};

fn found(line: &str, fields: &MetaFields) -> String {
    let Parsed::Request {
        request: Request::MetaGet(get),
        ..
    } = parse(line.as_bytes(), 0)
    else {
        panic!("{line:?}")
    };
    echoed(&get.key, get.flags, |out, echo| {
        reply::meta_found(out, echo, fields, get.with_value);
    })
}

#[test]
fn meta_get_returns_flags_in_request_order() {
    let table = [
        ("mg key\r\n", "HD\r\n"),
        ("mg key v\r\n", "VA 2\r\n"),
        (
            "mg key c v  k Oabc f s h l q u\r\n",
            "VA 2 c13 kkey Oabc f7 s2 h1 l5\r\n",
        ),
        ("mg key t T30\r\n", "HD t100\r\n"),
        ("mg key T30 t\r\n", "HD t30\r\n"),
        // A key is returned in the form it was stored in, whatever its form in this request.
        ("mg Zm9!v b k O1\r\n", "HD kfoo O1\r\n"),
        // The exception is a key that would break the word or the line.
        ("mg YSBi b k\r\n", "HD kYSBi b\r\n"),
        ("mg YQ0KYg== b k\r\n", "HD kYQ0KYg== b\r\n"),
        ("mg Zm9v b O1\r\n", "HD O1\r\n"),
    ];
    for (line, expected) in table {
        assert_eq!(found(line, &FIELDS), expected, "{line:?}");
    }
    let forever = MetaFields {
        ttl_before_s: -1,
        ..FIELDS
    };
    assert_eq!(found("mg key t\r\n", &forever), "HD t-1\r\n");
    let in_base64 = MetaFields {
        base64_key: true,
        ..FIELDS
    };
    for line in ["mg foo k s\r\n", "mg Zm9!v b k s\r\n"] {
        assert_eq!(found(line, &in_base64), "HD kZm9v b s2\r\n", "{line:?}");
    }
    let stale = MetaFields {
        won: true,
        stale: true,
        ..FIELDS
    };
    assert_eq!(found("mg key s\r\n", &stale), "HD s2 X W\r\n");
}

#[test]
fn meta_replies_without_an_item_echo_key_and_opaque() {
    let Parsed::Request {
        request: Request::MetaGet(get),
        ..
    } = parse(b"mg Zm9vYg== O1 v c b k s\r\n", 0)
    else {
        panic!()
    };
    let reply = |status| {
        echoed(&get.key, get.flags, |out, echo| {
            reply::meta_echo(out, status, echo);
        })
    };
    assert_eq!(reply(MetaStatus::Miss), "EN O1 kZm9vYg== b\r\n");
    assert_eq!(reply(MetaStatus::Exists), "EX O1 kZm9vYg== b\r\n");
}

#[test]
fn meta_set_and_arithmetic_replies() {
    let Parsed::Request {
        request: Request::MetaSet(set),
        ..
    } = parse(b"ms key 2 k O9 c s T0 f\r\n", 0)
    else {
        panic!()
    };
    let stored = |status, cas| {
        echoed(&set.key, set.flags, |out, echo| {
            reply::meta_stored(out, status, echo, cas, 2);
        })
    };
    assert_eq!(stored(MetaStatus::Done, 13), "HD kkey O9 c13 s2\r\n");
    assert_eq!(stored(MetaStatus::NotStored, 0), "NS kkey O9 c0 s2\r\n");

    let created = MetaFields {
        created: true,
        ttl_before_s: -1,
        ..FIELDS
    };
    assert_eq!(
        arith_reply("ma n t N30 c v k\r\n", &created),
        "VA 2 t-1 c13 kn\r\n10\r\n"
    );
    assert_eq!(
        arith_reply("ma n N40 t v\r\n", &created),
        "VA 2 t40\r\n10\r\n"
    );
    assert_eq!(arith_reply("ma n N40 t T30\r\n", &created), "HD t40\r\n");
    assert_eq!(arith_reply("ma n T30 t N40\r\n", &created), "HD t30\r\n");
    assert_eq!(
        arith_reply("ma n N30 t s f O7\r\n", &FIELDS),
        "HD t100 O7\r\n"
    );
}

fn arith_reply(line: &str, fields: &MetaFields) -> String {
    let Parsed::Request {
        request: Request::MetaArith(arith),
        ..
    } = parse(line.as_bytes(), 0)
    else {
        panic!("{line:?}")
    };
    echoed(&arith.key, arith.flags, |out, echo| {
        reply::meta_arith(out, echo, fields, 10, arith.with_value);
    })
}
