//! A line of Twitter's traces: `time,key,key size,value size,client,operation,TTL`.

use crate::trace::{Builder, Operation, Request, TraceError};

use super::{decimal, name};

/// Adds the request of a line. A key may contain commas, so the fields are counted from the ends.
pub(super) fn line(builder: &mut Builder, line: usize, text: &[u8]) -> Result<(), TraceError> {
    let expected = "time,key,key size,value size,client,operation,TTL";
    let (key, request) = request(text).ok_or(TraceError::Line { line, expected })?;
    builder.add(key, request)
}

fn request(text: &[u8]) -> Option<(u64, Request)> {
    let mut from_end = text.rsplitn(6, |&byte| byte == b',');
    let ttl_s = number(from_end.next()?)?;
    let operation = operation(from_end.next()?)?;
    let _client = from_end.next()?;
    let value_len = number(from_end.next()?)?;
    let key_len = number(from_end.next()?)?;
    let mut start = from_end.next()?.splitn(2, |&byte| byte == b',');
    let second = number(start.next()?)?;
    let key = name(start.next()?);
    // A read that missed has the length 0.
    let bytes = match value_len {
        0 => 0,
        _ => key_len.saturating_add(value_len),
    };
    let request = Request {
        key: 0,
        operation,
        bytes,
        ttl_s,
        second,
    };
    Some((key, request))
}

fn number(text: &[u8]) -> Option<u32> {
    u32::try_from(decimal(text)?).ok()
}

fn operation(text: &[u8]) -> Option<Operation> {
    match text {
        b"get" | b"gets" => Some(Operation::Read),
        b"delete" => Some(Operation::Delete),
        b"set" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" => {
            Some(Operation::Write)
        }
        _ => None,
    }
}
