//! `set` and its kin, and `ms`: a value that has come with its line is put into the store at once;
//! for another, memory is reserved, filled as it comes, and published.

use protocol::limits::KEY_MAX;
use protocol::reply::{self, MetaStatus, meta_stored};
use protocol::{MetaSet, Parsed, Request, Set, SetMode, parse};
use store::{Mode, Published, Refused, Reserve, Worker, Write};

use super::say;
use crate::counters::Counter;
use crate::output::Output;
use crate::prepare::Prepared;
use crate::session::{RequestContext, State, Step};
use crate::upload::PendingUpload;

/// Bytes behind a value.
const LINE_END_LEN: usize = 2;

pub(super) fn set(
    command: &Set<'_>,
    prepared: &Prepared<'_>,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Step {
    let (write, value_len) = (write_of(command, context), command.value_len as usize);
    match receive(command.key, value_len, &write, prepared, input, context) {
        Received::Complete { written, len } => {
            answer_set(command, &write, written, context, out.bytes_mut());
            Step::done(len)
        }
        Received::Pending(step) => step,
        Received::Refused(refused) => {
            say(out.bytes_mut(), refusal(refused, context), command.noreply);
            // What could not be replaced must not be found either.
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
) -> Step {
    let mut buffer = [0; KEY_MAX];
    let key = command.key.decode(&mut buffer);
    let (write, value_len) = (write_of_meta(command, context), command.value_len as usize);
    match receive(key, value_len, &write, prepared, input, context) {
        Received::Complete { written, len } => {
            answer_meta_set(command, &write, written, context, out.bytes_mut());
            Step::done(len)
        }
        Received::Pending(step) => step,
        Received::Refused(refused) => {
            out.bytes_mut().extend_from_slice(refusal(refused, context));
            delete_old(key, prepared, context);
            swallow(prepared, command.value_len)
        }
    }
}

/// Stores a value that arrived in pieces; gives it back if memory for it is not there yet.
pub(crate) fn uploaded(
    uploading: PendingUpload,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Option<Box<PendingUpload>> {
    let (has_line_end, now_s) = (uploading.has_line_end(), context.now.elapsed_s);
    let PendingUpload {
        upload,
        line,
        line_end,
    } = uploading;
    let publish = |worker: &mut Worker, write: &Write| match has_line_end {
        true => worker.publish(upload, write, now_s).map(Written::Published),
        false => Ok(Written::BadDataChunk),
    };
    // The line was parsed before the value was waited for, so it is one of these two.
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

/// Answers a command whose value was on its way when memory ran out.
pub(crate) fn upload_failed(
    uploading: &PendingUpload,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) {
    context.counters.count(Counter::StoreNoMemory);
    let (bytes, answer) = (out.bytes_mut(), reply::NO_MEMORY_TO_STORE);
    let parsed = parse(&uploading.line, 0);
    let is_replaced = match &parsed {
        Parsed::Request {
            request: Request::Set(command),
            ..
        } => {
            say(bytes, answer, command.noreply);
            command.mode == SetMode::Set && command.cas.is_none()
        }
        _ => {
            bytes.extend_from_slice(answer);
            true
        }
    };
    if is_replaced {
        let upload = &uploading.upload;
        let now_s = context.now.elapsed_s;
        context
            .worker
            .delete(upload.key(), upload.hash(), None, now_s);
    }
}

/// What became of the value behind a command line.
enum Received {
    /// It was there; with its line and what ends it it is `len` bytes.
    Complete { written: Written, len: usize },
    /// The rest will come, or must wait.
    Pending(Step),
    /// There is no place for it.
    Refused(Refused),
}

/// What became of a value that was there.
#[derive(Clone, Copy)]
enum Written {
    Published(Published),
    /// It did not end as values must.
    BadDataChunk,
}

/// Stores a value that is there, or begins to receive it.
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
    let came = if has_line_end {
        let put = worker.put(key, prepared.hash, &rest[..value_len], write, now_s);
        put.map(Ok)
    } else {
        let command = Reserve {
            value_len,
            flags: write.flags,
            expiry: write.expiry,
            whole,
        };
        worker.reserve(key, prepared.hash, &command, now_s).map(Err)
    };
    let written = match came {
        Ok(Ok(published)) => Written::Published(published),
        Ok(Err(_)) if whole => Written::BadDataChunk,
        Ok(Err(upload)) => {
            let uploading = Box::new(PendingUpload::new(upload, line));
            return Received::Pending(Step::then(prepared.line_len, State::Upload(uploading)));
        }
        Err(Refused::HeldFull | Refused::NotYet) => return Received::Pending(Step::Memory),
        Err(refused) => return Received::Refused(refused),
    };
    let len = prepared.line_len + value_len + LINE_END_LEN;
    Received::Complete { written, len }
}

fn delete_old(key: &[u8], prepared: &Prepared<'_>, context: &mut RequestContext<'_>) {
    let now_s = context.now.elapsed_s;
    context.worker.delete(key, prepared.hash, None, now_s);
}

fn swallow(prepared: &Prepared<'_>, value_len: u32) -> Step {
    let missing = u64::from(value_len) + LINE_END_LEN as u64;
    Step::swallow(prepared.line_len, missing)
}

/// Counts a refusal; the answer to it.
fn refusal(refused: Refused, context: &mut RequestContext<'_>) -> &'static [u8] {
    match refused {
        Refused::TooLarge => {
            context.counters.count(Counter::StoreTooLarge);
            reply::TOO_LARGE
        }
        Refused::NoMemory | Refused::HeldFull | Refused::NotYet => {
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
        // With a CAS to compare, replacing is setting what is there unchanged.
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

/// Answers one whose value was written, or ended badly.
fn answer_set(
    command: &Set<'_>,
    write: &Write,
    written: Written,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) {
    context.counters.count(Counter::CmdSet);
    let Written::Published(published) = written else {
        return say(bytes, reply::BAD_DATA_CHUNK, command.noreply);
    };
    count_cas(write, published, context);
    let answer = match published {
        Published::Stored { .. } => reply::STORED,
        // An append too long for the store is not stored, says memcached, and no more.
        Published::NotStored | Published::NoRoom => reply::NOT_STORED,
        Published::Exists => reply::EXISTS,
        Published::NotFound => reply::NOT_FOUND,
    };
    say(bytes, answer, command.noreply);
}

/// As [`answer_set`].
fn answer_meta_set(
    command: &MetaSet<'_>,
    write: &Write,
    written: Written,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) {
    context.counters.count(Counter::CmdSet);
    let Written::Published(published) = written else {
        return bytes.extend_from_slice(reply::BAD_DATA_CHUNK);
    };
    count_cas(write, published, context);
    let (status, cas, value_len) = match published {
        Published::Stored { cas, value_len } => (MetaStatus::Done, cas, value_len),
        Published::NotStored | Published::NoRoom => (MetaStatus::NotStored, 0, command.value_len),
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

/// Counts what came of a CAS, where one was compared: add, replace and append are no such thing.
fn count_cas(write: &Write, published: Published, context: &mut RequestContext<'_>) {
    if write.mode != Mode::Set || write.compare.is_none() {
        return;
    }
    context.counters.count(match published {
        Published::Stored { .. } => Counter::CasHits,
        Published::Exists => Counter::CasBadval,
        Published::NotFound | Published::NotStored | Published::NoRoom => Counter::CasMisses,
    });
}
