//! Counting of requests by key prefix (`stats detail on`), and writing of log lines about requests
//! (`watch`). The callers of these functions first test whether at least one of the two is on
//! ([`Counters::is_observed`](crate::counters::Counters::is_observed)). Each function then tests
//! which of the two is on.
//!
//! A log line is written only while its stream is watched. The names of the fields are memcached's:
//! `clsid` is the number of the size class, `cfd` the file descriptor of the connection, and `size`
//! the length of the value.

use std::fmt::Write as _;

use protocol::Streams;
use store::{ItemSize, KeyHash, Miss, Mode};

use crate::event_log::push_key;
use crate::operation::StoreOptions;
use crate::outcome::StoreOutcome;
use crate::prefixes::Access;
use crate::session::RequestContext;

/// Counts and logs a read of one key. `result` is the size of the item that the read found, or the
/// reason why it found no item.
#[cold]
pub(super) fn read(key: &[u8], result: Result<ItemSize, Miss>, context: &RequestContext<'_>) {
    count_prefix(key, Access::of_read(result.is_ok()), context);
    log_read(key, result, context);
}

/// Logs a read of one key, without counting it. `result` is that of [`read`].
fn log_read(key: &[u8], result: Result<ItemSize, Miss>, context: &RequestContext<'_>) {
    if !context.counters.is_watched(Streams::FETCHERS) {
        return;
    }
    let status = match result {
        Ok(_) => "found",
        Err(Miss::Absent) => "not_found",
        Err(Miss::Flushed) => "flushed",
        Err(Miss::Expired) => "expired",
    };
    let (class, len) = class_and_len(result.ok());
    context.counters.log().push(Streams::FETCHERS, |text| {
        text.push_str("type=item_get");
        push_key(text, key);
        // Writing to a `String` cannot fail.
        let cfd = context.connection;
        let _ = write!(text, " status={status} clsid={class} cfd={cfd} size={len}");
    });
}

/// Logs whether a key has an item before a storage command is executed. As in memcached, the line
/// looks like that of a read. An item that has expired or was flushed is logged as `not_found`.
#[cold]
pub(super) fn before_store(key: &[u8], hash: KeyHash, context: &RequestContext<'_>) {
    if context.counters.is_watched(Streams::FETCHERS) {
        let size = context.worker.size_of(key, hash, context.now.elapsed_s);
        log_read(key, size.ok_or(Miss::Absent), context);
    }
}

/// Logs a storage command and its outcome. A command is not logged if the bytes after its value are
/// not the line end that the protocol requires.
#[cold]
pub(super) fn store(
    key: &[u8],
    options: &StoreOptions,
    outcome: &StoreOutcome,
    context: &RequestContext<'_>,
) {
    if !context.counters.is_watched(Streams::MUTATIONS) {
        return;
    }
    let status = match outcome {
        StoreOutcome::Stored { .. } => "stored",
        StoreOutcome::NotStored { .. } => "not_stored",
        StoreOutcome::Exists { .. } => "exists",
        StoreOutcome::NotFound { .. } => "not_found",
        StoreOutcome::TooLarge => "too_large",
        StoreOutcome::NoMemory => "no_memory",
        StoreOutcome::BadDataChunk => return,
    };
    let command = match options.mode {
        Mode::Set if options.cas.compare().is_some() => "cas",
        Mode::Set => "set",
        Mode::Add => "add",
        Mode::Replace => "replace",
        Mode::Append => "append",
        Mode::Prepend => "prepend",
    };
    let now = context.now;
    let ttl_s = now.expiry(options.exptime).seconds_left(now.elapsed_s);
    // An item that never expires has the time to live 0 in the log line.
    let (ttl_s, len) = (ttl_s.unwrap_or(0), options.value_len);
    let class = options.size_class(key).number();
    context.counters.log().push(Streams::MUTATIONS, |text| {
        text.push_str("type=item_store");
        push_key(text, key);
        let cfd = context.connection;
        let _ = write!(
            text,
            " status={status} cmd={command} ttl={ttl_s} clsid={class} cfd={cfd} size={len}"
        );
    });
}

/// Logs a deletion that found an item. `command` is the name of the protocol's delete command.
/// `size` is `None` if the item was only in the tier.
#[cold]
pub(super) fn delete(
    key: &[u8],
    command: &str,
    size: Option<ItemSize>,
    context: &RequestContext<'_>,
) {
    if !context.counters.is_watched(Streams::DELETIONS) {
        return;
    }
    let (class, len) = class_and_len(size);
    context.counters.log().push(Streams::DELETIONS, |text| {
        text.push_str("type=deleted");
        push_key(text, key);
        let _ = write!(text, " cmd={command} clsid={class} size={len}");
    });
}

/// Counts an access under the prefix of its key, if counting by key prefix is on.
pub(super) fn count_prefix(key: &[u8], access: Access, context: &RequestContext<'_>) {
    if context.counters.counts_prefixes() {
        context.counters.count_prefix_of(key, access);
    }
}

/// The number of the size class and the length of the value, as a log line shows them. Both are 0
/// if the size is not known.
fn class_and_len(size: Option<ItemSize>) -> (u32, usize) {
    size.map_or((0, 0), |size| (size.class.number(), size.value_len))
}
