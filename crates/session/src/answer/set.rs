//! The storage commands, `ms` included. A value that arrived together with its line is stored in
//! one step. For any other value, memory is reserved, filled as bytes arrive, and published.

use protocol::limits::KEY_MAX;
use protocol::reply::{self, MetaStatus, meta_stored};
use protocol::{MetaSet, Parsed, Request, Set, SetMode, parse};
use store::{Mode, Published, Rejected, Reserve, Worker, Write};

use super::push_reply;
use crate::counters::Counter;
use crate::output::Output;
use crate::prefixes::Access;
use crate::prepare::Prepared;
use crate::session::{Outcome, RequestContext, State};
use crate::upload::PendingUpload;

/// Bytes of the line end after a value.
const LINE_END_LEN: usize = 2;

pub(super) fn set(
    command: &Set<'_>,
    prepared: &Prepared<'_>,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Outcome {
    let (write, value_len) = (write_of(command, context), command.value_len as usize);
    match receive(command.key, value_len, &write, prepared, input, context) {
        Received::Complete { written, len } => {
            answer_set(command, &write, written, context, out.bytes_mut());
            Outcome::done(len)
        }
        Received::Pending(step) => step,
        Received::Rejected(rejected) => {
            push_reply(out.bytes_mut(), refusal(rejected, context), command.noreply);
            // The client failed to replace the old value, so it must not read it any more.
            if command.mode == SetMode::Set && command.cas.is_none() {
                delete_old(command.key, prepared, context);
            }
            swallow(prepared, command.value_len)
        }
    }
}

pub(super) fn meta_set(
    command: &MetaSet<'_>,
    prepared: &Prepared<'_>,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Outcome {
    let mut buffer = [0; KEY_MAX];
    let key = command.key.decode(&mut buffer);
    let (write, value_len) = (write_of_meta(command, context), command.value_len as usize);
    match receive(key, value_len, &write, prepared, input, context) {
        Received::Complete { written, len } => {
            answer_meta_set(command, &write, written, context, out.bytes_mut());
            Outcome::done(len)
        }
        Received::Pending(step) => step,
        Received::Rejected(rejected) => {
            out.bytes_mut()
                .extend_from_slice(refusal(rejected, context));
            delete_old(key, prepared, context);
            swallow(prepared, command.value_len)
        }
    }
}

/// Publishes a value that arrived in parts, and replies. Returns the upload if memory for the
/// publication is not available yet.
pub(crate) fn publish_upload(
    pending: PendingUpload,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Option<Box<PendingUpload>> {
    let (has_line_end, now_s) = (pending.has_line_end(), context.now.elapsed_s);
    let PendingUpload {
        upload,
        line,
        line_end,
    } = pending;
    let publish = |worker: &mut Worker, write: &Write| match has_line_end {
        true => worker.publish(upload, write, now_s).map(Written::Published),
        false => Ok(Written::BadDataChunk),
    };
    // The line was parsed before the upload began, so it is one of these two requests.
    let published = match parse(&line, 0) {
        Parsed::Request {
            request: Request::Set(command),
            ..
        } => {
            let write = write_of(&command, context);
            publish(context.worker, &write)
                .map(|written| answer_set(&command, &write, written, context, out.bytes_mut()))
        }
        Parsed::Request {
            request: Request::MetaSet(command),
            ..
        } => {
            let write = write_of_meta(&command, context);
            publish(context.worker, &write)
                .map(|written| answer_meta_set(&command, &write, written, context, out.bytes_mut()))
        }
        _ => Ok(()),
    };
    let upload = published.err()?;
    Some(Box::new(PendingUpload {
        upload,
        line,
        line_end,
    }))
}

/// Replies to a storage command whose upload ran out of memory.
pub(crate) fn reject_upload(
    pending: &PendingUpload,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) {
    context.counters.count(Counter::StoreNoMemory);
    let (bytes, answer) = (out.bytes_mut(), reply::NO_MEMORY_TO_STORE);
    let parsed = parse(&pending.line, 0);
    let replaces = match &parsed {
        Parsed::Request {
            request: Request::Set(command),
            ..
        } => {
            push_reply(bytes, answer, command.noreply);
            command.mode == SetMode::Set && command.cas.is_none()
        }
        _ => {
            bytes.extend_from_slice(answer);
            true
        }
    };
    if replaces {
        let upload = &pending.upload;
        let now_s = context.now.elapsed_s;
        context
            .worker
            .delete(upload.key(), upload.hash(), None, now_s);
    }
}

/// The fate of the value after a command line.
enum Received {
    /// The whole value had arrived. Command line, value and line end are `len` bytes together.
    Complete { written: Written, len: usize },
    /// The rest has not arrived, or the request must wait for memory.
    Pending(Outcome),
    /// The store has no space for it.
    Rejected(Rejected),
}

/// The outcome for a value that had arrived.
#[derive(Clone, Copy)]
enum Written {
    Published(Published),
    /// No line end follows the value.
    BadDataChunk,
}

/// Stores the value if all of it has arrived, or else begins an upload.
fn receive(
    key: &[u8],
    value_len: usize,
    write: &Write,
    prepared: &Prepared<'_>,
    input: &[u8],
    context: &mut RequestContext<'_>,
) -> Received {
    let (worker, now_s) = (&mut *context.worker, context.now.elapsed_s);
    let (line, rest) = input.split_at(prepared.line_len);
    let whole = rest.len() >= value_len + LINE_END_LEN;
    let has_line_end = whole && rest[value_len..].starts_with(b"\r\n");
    let result = if has_line_end {
        let put = worker.put(key, prepared.hash, &rest[..value_len], write, now_s);
        put.map(Ok)
    } else {
        let reserve = Reserve {
            value_len,
            flags: write.flags,
            expiry: write.expiry,
            whole,
        };
        worker.reserve(key, prepared.hash, &reserve, now_s).map(Err)
    };
    let written = match result {
        Ok(Ok(published)) => Written::Published(published),
        Ok(Err(_)) if whole => Written::BadDataChunk,
        Ok(Err(upload)) => {
            let pending = Box::new(PendingUpload::new(upload, line));
            return Received::Pending(Outcome::then(prepared.line_len, State::Upload(pending)));
        }
        Err(Rejected::HoldLimit | Rejected::Deferred) => {
            return Received::Pending(Outcome::NeedsMemory);
        }
        Err(rejected) => return Received::Rejected(rejected),
    };
    let len = prepared.line_len + value_len + LINE_END_LEN;
    Received::Complete { written, len }
}

fn delete_old(key: &[u8], prepared: &Prepared<'_>, context: &mut RequestContext<'_>) {
    let now_s = context.now.elapsed_s;
    context.worker.delete(key, prepared.hash, None, now_s);
}

fn swallow(prepared: &Prepared<'_>, value_len: u32) -> Outcome {
    let missing = u64::from(value_len) + LINE_END_LEN as u64;
    Outcome::swallow(prepared.line_len, missing)
}

/// Counts a value that the store refused. Returns the reply.
fn refusal(rejected: Rejected, context: &mut RequestContext<'_>) -> &'static [u8] {
    match rejected {
        Rejected::TooLarge => {
            context.counters.count(Counter::StoreTooLarge);
            reply::TOO_LARGE
        }
        Rejected::NoMemory | Rejected::HoldLimit | Rejected::Deferred => {
            context.counters.count(Counter::StoreNoMemory);
            reply::NO_MEMORY_TO_STORE
        }
    }
}

fn write_of(command: &Set<'_>, context: &mut RequestContext<'_>) -> Write {
    Write {
        flags: command.flags,
        compare: command.cas,
        ..Write::plain(mode(command.mode), context.now.expiry(command.exptime))
    }
}

fn write_of_meta(command: &MetaSet<'_>, context: &mut RequestContext<'_>) -> Write {
    Write {
        // With a CAS to compare, replace means the same as set: both need an unchanged present
        // item.
        mode: match (mode(command.mode), command.compare) {
            (Mode::Replace, Some(_)) => Mode::Set,
            (mode, _) => mode,
        },
        flags: command.client_flags,
        expiry: context.now.expiry(command.exptime),
        compare: command.compare,
        invalidate: command.invalidate,
        explicit_cas: command.explicit_cas,
        vivify: command.vivify,
        claimed: false,
        base64_key: command.key.base64,
    }
}

/// Counts a storage command whose value had arrived, and replies.
fn answer_set(
    command: &Set<'_>,
    write: &Write,
    written: Written,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) {
    context.counters.count(Counter::CmdSet);
    if context.counters.counts_keys() {
        context.counters.count_key(command.key, Access::Set);
    }
    let Written::Published(published) = written else {
        return push_reply(bytes, reply::BAD_DATA_CHUNK, command.noreply);
    };
    count_cas(write, published, context);
    let reply = match published {
        Published::Stored { .. } => reply::STORED,
        // For an append that exceeds the item size, memcached replies `NOT_STORED`.
        Published::NotStored | Published::NoSpace => reply::NOT_STORED,
        Published::Exists => reply::EXISTS,
        Published::NotFound => reply::NOT_FOUND,
    };
    push_reply(bytes, reply, command.noreply);
}

/// As [`answer_set`], for `ms`.
fn answer_meta_set(
    command: &MetaSet<'_>,
    write: &Write,
    written: Written,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) {
    context.counters.count(Counter::CmdSet);
    if context.counters.counts_keys() {
        let mut buffer = [0; KEY_MAX];
        let key = command.key.decode(&mut buffer);
        context.counters.count_key(key, Access::Set);
    }
    let Written::Published(published) = written else {
        return bytes.extend_from_slice(reply::BAD_DATA_CHUNK);
    };
    count_cas(write, published, context);
    let (status, cas, value_len) = match published {
        Published::Stored { cas, value_len } => (MetaStatus::Done, cas, value_len),
        Published::NotStored | Published::NoSpace => (MetaStatus::NotStored, 0, command.value_len),
        Published::Exists => (MetaStatus::Exists, 0, command.value_len),
        Published::NotFound => (MetaStatus::NotFound, 0, command.value_len),
    };
    if !(command.quiet && status == MetaStatus::Done) {
        meta_stored(bytes, status, &command.key, command.flags, cas, value_len);
    }
}

fn mode(mode: SetMode) -> Mode {
    match mode {
        SetMode::Set => Mode::Set,
        SetMode::Add => Mode::Add,
        SetMode::Replace => Mode::Replace,
        SetMode::Append => Mode::Append,
        SetMode::Prepend => Mode::Prepend,
    }
}

/// Counts the outcome of a CAS comparison. Add, replace and append do not count as one.
fn count_cas(write: &Write, published: Published, context: &mut RequestContext<'_>) {
    if write.mode != Mode::Set || write.compare.is_none() {
        return;
    }
    context.counters.count(match published {
        Published::Stored { .. } => Counter::CasHits,
        Published::Exists => Counter::CasBadval,
        Published::NotFound | Published::NotStored | Published::NoSpace => Counter::CasMisses,
    });
}
