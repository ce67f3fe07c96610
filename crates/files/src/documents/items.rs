//! Items of a cache over HTTP: `GET`, `HEAD`, `PUT` and `DELETE` of `/cache/KEY`.
//!
//! This crate knows no cache. A server that has one passes [`Items`] of it for each worker.

use std::fmt;

use http::{Conditions, Head, Request, Status, Validators, Verdict, decode_percent};

use super::reply::Reply;
use crate::limits::{ITEM_KEY_MAX, ITEM_TTL_MAX_S};
use crate::reader_pool::Fetched;

/// The beginning of the path of an item.
const PREFIX: &str = "/cache/";
/// Sent if there is no memory, or if too many items are being read.
const BUSY: &str = "the cache is busy\n";

/// A worker's access to the items of a cache. The methods without result are those of
/// [`service::Worker`].
pub trait Items: Send {
    /// Begins a burst at this time.
    fn begin_burst(&mut self, now_ns: u64);

    /// Ends a burst: no reference into the cache is left.
    fn end_burst(&mut self);

    /// The worker is about to use the cache again.
    fn online(&mut self);

    /// The worker is about to sleep.
    fn offline(&mut self);

    /// Does a step of background work. Returns whether more is left.
    fn maintain(&mut self, now_ns: u64, items: usize) -> bool;

    /// Whether background work is due that makes system calls.
    fn needs_maintenance_thread(&self) -> bool;

    /// Replaces what a panic may have left inconsistent.
    fn reset(&mut self);

    /// Whether the item of a key is in slower memory only, so that the other methods do not see it.
    fn must_fetch(&mut self, key: &[u8]) -> bool;

    /// Begins to read such an item.
    fn fetch(&mut self, key: &[u8], reply: Box<dyn FetchReply>);

    /// Makes an item that was read visible to the other methods. Returns false if there is no
    /// memory at the moment.
    fn restore(&mut self, fetched: Fetched) -> bool;

    /// Appends the value of a key to `value`. `None`: there is no such item, or it cannot be read
    /// now.
    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Option<FoundItem>;

    /// Stores a value, to live for `ttl_s` seconds or, without it, for ever.
    fn write(
        &mut self,
        key: &[u8],
        value: &[u8],
        condition: Condition,
        ttl_s: Option<u32>,
    ) -> Changed;

    /// Deletes an item.
    fn delete(&mut self, key: &[u8], condition: Condition) -> Changed;
}

/// The connection that waits for an item.
pub trait FetchReply: fmt::Debug + Send {
    /// Whether the connection was closed.
    fn is_cancelled(&self) -> bool;

    /// Delivers what was read; `None`: there is no item. A reply that is dropped tells the
    /// connection that the cache is busy.
    fn complete(self: Box<Self>, fetched: Option<Fetched>);
}

/// An item that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundItem {
    /// A number that changes with every write of the item.
    pub cas: u64,
    /// The seconds that it has left. `None`: it never expires.
    pub left_s: Option<u32>,
}

/// What must be true of the present item before it is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    None,
    /// There is none.
    Absent,
    /// There is one.
    Present,
    /// It has this number.
    Cas(u64),
}

/// The outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It is done. The item has this number, if it is there.
    Done(Option<u64>),
    /// The condition does not hold.
    ConditionFailed,
    /// There is no such item.
    NotFound,
    /// The value is longer than the cache accepts.
    TooLarge,
    /// There is no memory at the moment.
    Busy,
}

/// Whether a request is for an item.
pub(super) fn is_item(request: &Request<'_>) -> bool {
    request.path().starts_with(PREFIX)
}

/// The key of the item that has to be in the cache before a request can be answered. `None`: the
/// request does not depend on the present item, or is malformed.
pub(super) fn key_needed(request: &Request<'_>) -> Option<Vec<u8>> {
    let is_needed = match request.method {
        "GET" | "HEAD" => true,
        "PUT" => condition(request).is_ok_and(|it| it != Condition::None),
        // Other conditions of a deletion need no more than the knowledge that there is an item.
        "DELETE" => condition(request).is_ok_and(|it| matches!(it, Condition::Cas(_))),
        _ => false,
    };
    key(request).filter(|_| is_needed)
}

/// Answers a request whose item cannot be read at the moment.
pub(super) fn respond_busy(reply: &Reply<'_>, out: &mut Vec<u8>) {
    reply.message(Status::ServiceUnavailable, BUSY, out);
}

/// Answers a request for an item. `value` is memory for reuse.
pub(super) fn respond(
    request: &Request<'_>,
    items: &mut dyn Items,
    reply: &Reply<'_>,
    value: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let Some(key) = key(request) else {
        let text = "a key has 1 to 250 bytes, percent-encoded, without spaces and controls\n";
        return reply.message(Status::BadRequest, text, out);
    };
    let answered = match request.method {
        "GET" | "HEAD" => {
            read(request, &key, items, reply, value, out);
            return;
        }
        "PUT" => match (condition(request), ttl_s(request)) {
            (Ok(condition), Ok(ttl_s)) => Ok(items.write(&key, request.body, condition, ttl_s)),
            (Err(text), _) | (_, Err(text)) => Err(text),
        },
        "DELETE" => condition(request).map(|condition| items.delete(&key, condition)),
        _ => {
            let text = "an item has the methods GET, HEAD, PUT and DELETE\n";
            return reply.not_allowed("GET, HEAD, PUT, DELETE", text, out);
        }
    };
    let (status, text) = match answered {
        Err(text) => (Status::BadRequest, text),
        Ok(Changed::Done(cas)) => return changed(cas, reply, out),
        Ok(Changed::ConditionFailed) => (Status::PreconditionFailed, "the item is another one\n"),
        Ok(Changed::NotFound) => (Status::NotFound, "there is no such item\n"),
        Ok(Changed::TooLarge) => (Status::ContentTooLarge, "the value is too large\n"),
        Ok(Changed::Busy) => (Status::ServiceUnavailable, BUSY),
    };
    reply.message(status, text, out);
}

/// Appends the answer to a change that is done.
fn changed(cas: Option<u64>, reply: &Reply<'_>, out: &mut Vec<u8>) {
    let mut head = Head::begin(out, Status::NoContent).field("Date", reply.date);
    if let Some(cas) = cas {
        head = head.field("ETag", format_args!("\"{cas}\""));
    }
    head.finish(reply.persistence);
}

fn read(
    request: &Request<'_>,
    key: &[u8],
    items: &mut dyn Items,
    reply: &Reply<'_>,
    value: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    value.clear();
    let Some(found) = items.read(key, value) else {
        return reply.message(Status::NotFound, "there is no such item\n", out);
    };
    let etag = format!("\"{}\"", found.cas);
    let validators = Validators {
        etag: &etag,
        // An item has no time of its last change. The present time makes conditions with times
        // those of an item that has just been changed.
        modified_s: reply.now_s,
    };
    let len = value.len() as u64;
    let verdict = match (
        Conditions::of(request).verdict(validators, len),
        reply.is_head,
    ) {
        (Verdict::Part(_) | Verdict::RangeNotSatisfiable, true) => Verdict::Whole,
        (verdict, _) => verdict,
    };
    let (status, part) = match verdict {
        Verdict::Whole => (Status::Ok, 0..len),
        Verdict::Part(part) => (Status::PartialContent, part.start..part.end),
        Verdict::NotModified => {
            let head = Head::begin(out, Status::NotModified).field("Date", reply.date);
            return head.field("ETag", &etag).finish(reply.persistence);
        }
        Verdict::PreconditionFailed => {
            let text = "the item is another one\n";
            return reply.message(Status::PreconditionFailed, text, out);
        }
        Verdict::RangeNotSatisfiable => {
            Head::begin(out, Status::RangeNotSatisfiable)
                .field("Date", reply.date)
                .field("Content-Range", format_args!("bytes */{len}"))
                .content_length(0)
                .finish(reply.persistence);
            return;
        }
    };
    let mut head = Head::begin(out, status)
        .field("Date", reply.date)
        .field("ETag", &etag)
        .field("Content-Type", "application/octet-stream")
        .field("X-Content-Type-Options", "nosniff")
        .content_length(part.end - part.start);
    if status == Status::PartialContent {
        let last = part.end - 1;
        head = head.field(
            "Content-Range",
            format_args!("bytes {}-{last}/{len}", part.start),
        );
    }
    if let Some(left_s) = found.left_s {
        head = head.field("Cache-Control", format_args!("max-age={left_s}"));
    }
    head.finish(reply.persistence);
    if !reply.is_head {
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = value.get(index(part.start)..index(part.end));
        out.extend_from_slice(bytes.unwrap_or_default());
    }
}

/// The key of the item. The bytes of a key are those that the cache's other protocols allow too.
fn key(request: &Request<'_>) -> Option<Vec<u8>> {
    let key = decode_percent(request.path().strip_prefix(PREFIX)?)?;
    let is_allowed = |&byte: &u8| byte > b' ' && byte != 0x7f;
    let is_key = (1..=ITEM_KEY_MAX).contains(&key.len()) && key.iter().all(is_allowed);
    is_key.then_some(key)
}

/// The condition of a change. The error is what the client is told.
fn condition(request: &Request<'_>) -> Result<Condition, &'static str> {
    const UNKNOWN: &str = "a change has at most one condition: If-Match with * or the ETag of the \
                           item, or If-None-Match: *\n";
    let mut found = Ok(Condition::None);
    request.for_each_field(|name, value| {
        let value = value.trim_ascii();
        let condition = if name.eq_ignore_ascii_case("if-match") {
            match value {
                b"*" => Some(Condition::Present),
                tag => cas(tag).map(Condition::Cas),
            }
        } else if name.eq_ignore_ascii_case("if-none-match") {
            (value == b"*").then_some(Condition::Absent)
        } else {
            return;
        };
        found = match (found, condition) {
            (Ok(Condition::None), Some(condition)) => Ok(condition),
            _ => Err(UNKNOWN),
        };
    });
    found
}

/// The number in an entity tag. A tag that is not one of this server's matches no item, as does the
/// number 0.
fn cas(tag: &[u8]) -> Option<u64> {
    let digits = tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if digits.contains(&b'"') {
        return None;
    }
    Some(number(digits).unwrap_or(0))
}

/// The time to live in the query, `ttl=SECONDS`, or else in `Cache-Control: max-age=SECONDS`.
fn ttl_s(request: &Request<'_>) -> Result<Option<u32>, &'static str> {
    let query = request
        .target
        .split_once('?')
        .map_or("", |(_, query)| query);
    let mut parts = query.split('&');
    if let Some(text) = parts.find_map(|part| part.strip_prefix("ttl=")) {
        let ttl_s = number(text.as_bytes()).ok_or("ttl: a number of seconds is needed\n")?;
        return Ok(Some(bounded(ttl_s)));
    }
    let mut max_age_s = None;
    request.for_each_field(|name, value| {
        if name.eq_ignore_ascii_case("cache-control") {
            for directive in value.split(|&byte| byte == b',') {
                let directive = directive.trim_ascii().to_ascii_lowercase();
                let digits = directive.strip_prefix(b"max-age=");
                max_age_s = digits.and_then(number).or(max_age_s);
            }
        }
    });
    Ok(max_age_s.map(bounded))
}

fn bounded(ttl_s: u64) -> u32 {
    u32::try_from(ttl_s).map_or(ITEM_TTL_MAX_S, |ttl_s| ttl_s.min(ITEM_TTL_MAX_S))
}

/// A decimal number. One that is too large for the type is its largest value.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = (1..=20).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    Some(text.parse().unwrap_or(u64::MAX))
}
