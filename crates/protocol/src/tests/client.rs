//! The client half reading replies as servers send them.

use crate::client::{
    Advance, ErrorClass, Malformed, MetaResult, Reply, ReplyKind, ReplyReader, Status,
};
use crate::reply::MetaStatus;

fn one(input: &str, kind: ReplyKind) -> Result<Reply, Malformed> {
    let advance = ReplyReader::new().advance(input.as_bytes(), kind)?;
    assert_eq!(advance.consumed, input.len(), "{input:?}");
    Ok(advance
        .reply
        .unwrap_or_else(|| panic!("{input:?} is not a whole reply")))
}

fn meta(result: MetaResult, opaque: Option<u64>) -> Result<Reply, Malformed> {
    Ok(Reply::Meta { result, opaque })
}

#[test]
fn complete_replies() {
    use ReplyKind::{Line, Meta, Stats, Values};
    let status = MetaResult::Status;
    let table = [
        ("END\r\n", Values, Ok(Reply::Values { hits: 0, bytes: 0 })),
        (
            "VALUE a 0 5\r\nEND\r\n\r\nVALUE bb 7 0 99\r\n\r\nEND\r\n",
            Values,
            Ok(Reply::Values { hits: 2, bytes: 5 }),
        ),
        ("STORED\r\n", Line, Ok(Reply::Status(Status::Stored))),
        ("NOT_STORED\r\n", Line, Ok(Reply::Status(Status::NotStored))),
        ("EXISTS\r\n", Line, Ok(Reply::Status(Status::Exists))),
        ("NOT_FOUND\r\n", Line, Ok(Reply::Status(Status::NotFound))),
        ("DELETED\r\n", Line, Ok(Reply::Status(Status::Deleted))),
        ("TOUCHED\r\n", Line, Ok(Reply::Status(Status::Touched))),
        ("OK\r\n", Line, Ok(Reply::Status(Status::Ok))),
        ("RESET\r\n", Line, Ok(Reply::Status(Status::Reset))),
        (
            "VERSION 1.6.45\r\n",
            Line,
            Ok(Reply::Status(Status::Version)),
        ),
        (
            "18446744073709551615\r\n",
            Line,
            Ok(Reply::Number(u64::MAX)),
        ),
        (
            "STAT pid 1\r\nSTAT x \r\nEND\r\n",
            Stats,
            Ok(Reply::Stats { count: 2 }),
        ),
        ("MN\r\n", Meta, meta(MetaResult::Noop, None)),
        ("HD\r\n", Meta, meta(status(MetaStatus::Done), None)),
        (
            "EN kEND O7\r\n",
            Meta,
            meta(status(MetaStatus::Miss), Some(7)),
        ),
        (
            "NF O0\r\n",
            Meta,
            meta(status(MetaStatus::NotFound), Some(0)),
        ),
        ("NS\r\n", Meta, meta(status(MetaStatus::NotStored), None)),
        ("EX\r\n", Meta, meta(status(MetaStatus::Exists), None)),
        (
            "VA 4 t-1 O42\r\n\r\n\r\n\r\n",
            Meta,
            meta(MetaResult::Value(4), Some(42)),
        ),
        ("VA 0\r\n\r\n", Meta, meta(MetaResult::Value(0), None)),
        ("ERROR\r\n", Values, Ok(Reply::Error(ErrorClass::Unknown))),
        (
            "ERROR Too many open connections\r\n",
            Meta,
            Ok(Reply::Error(ErrorClass::Unknown)),
        ),
        (
            "CLIENT_ERROR bad data chunk\r\n",
            Line,
            Ok(Reply::Error(ErrorClass::Client)),
        ),
        (
            "SERVER_ERROR: no\r\n",
            Stats,
            Ok(Reply::Error(ErrorClass::Server)),
        ),
        (
            "VALUE a 0 1\r\n1\r\nSERVER_ERROR out of memory writing get response\r\n",
            Values,
            Ok(Reply::Error(ErrorClass::Server)),
        ),
    ];
    for (input, kind, expected) in table {
        assert_eq!(one(input, kind), expected, "{input:?}");
    }
}

#[test]
fn malformed_replies_are_errors() {
    use ReplyKind::{Line, Meta, Stats, Values};
    let table = [
        ("STORED\n", Line, Malformed::Line),
        ("\r\n", Line, Malformed::Line),
        ("END\r\n", Line, Malformed::Line),
        ("STORED\r\n", Values, Malformed::Line),
        ("12x\r\n", Line, Malformed::Line),
        ("VALUE a 0\r\n", Values, Malformed::Line),
        ("VALUE a 0 -1\r\n", Values, Malformed::Line),
        ("VALUE a 0 4294967295\r\n", Values, Malformed::Line),
        ("VALUE a 0 1\r\n12\r\n", Values, Malformed::Value),
        ("VALUE a 0 1\r\n1\r\r", Values, Malformed::Value),
        ("VALUE a 0 1\r\n1\r\n", Meta, Malformed::Line),
        ("STAT a 1\r\nSTORED\r\n", Stats, Malformed::Line),
        ("VA\r\n", Meta, Malformed::Line),
        ("VA x\r\n", Meta, Malformed::Line),
        ("HD Oabc\r\n", Meta, Malformed::Line),
        ("HDX\r\n", Meta, Malformed::Line),
        ("ERRORS\r\n", Line, Malformed::Line),
    ];
    for (input, kind, expected) in table {
        assert_eq!(one(input, kind), Err(expected), "{input:?}");
    }
    assert_eq!(one(&"x".repeat(3000), Line), Err(Malformed::LineTooLong));
}

#[test]
fn pipelined_replies_are_returned_one_by_one() {
    let input = b"STORED\r\nEND\r\nVA 1 O5\r\n7\r\nMN\r";
    let mut reader = ReplyReader::new();
    let mut at = 0;
    let mut next = |kind| {
        let advance = reader.advance(&input[at..], kind).unwrap();
        at += advance.consumed;
        advance.reply
    };
    assert_eq!(next(ReplyKind::Line), Some(Reply::Status(Status::Stored)));
    assert_eq!(
        next(ReplyKind::Values),
        Some(Reply::Values { hits: 0, bytes: 0 })
    );
    assert_eq!(
        next(ReplyKind::Meta),
        Some(Reply::Meta {
            result: MetaResult::Value(1),
            opaque: Some(5)
        })
    );
    assert_eq!(next(ReplyKind::Meta), None);
    assert!(reader.is_mid_reply());
    let advance = reader.advance(b"\n", ReplyKind::Meta).unwrap();
    let noop = Reply::Meta {
        result: MetaResult::Noop,
        opaque: None,
    };
    assert_eq!(
        advance,
        Advance {
            consumed: 1,
            reply: Some(noop)
        }
    );
    assert!(!reader.is_mid_reply());
}

#[test]
fn the_cas_of_a_value_is_kept() {
    let mut reader = ReplyReader::new();
    let mut cas_of = |input: &str, kind| {
        let advance = reader.advance(input.as_bytes(), kind).unwrap();
        assert!(advance.reply.is_some());
        reader.cas()
    };
    let classic = "VALUE k 0 1 77\r\na\r\nEND\r\n";
    assert_eq!(cas_of(classic, ReplyKind::Values), Some(77));
    let without = "VALUE k 0 1\r\na\r\nEND\r\n";
    assert_eq!(cas_of(without, ReplyKind::Values), None);
    let meta = "VA 1 c5 O9\r\na\r\n";
    assert_eq!(cas_of(meta, ReplyKind::Meta), Some(5));
    let wrong = reader.advance(b"VALUE k 0 1 x\r\n", ReplyKind::Values);
    assert_eq!(wrong, Err(Malformed::Line));
}
