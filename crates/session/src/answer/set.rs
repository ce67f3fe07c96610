//! `set` and its kin, and `ms`: a value that has come with its line is put into the store at once;
//! for another, memory is reserved, filled as it comes, and published.

use protocol::limits::KEY_MAX;
use protocol::reply::{self, MetaStatus, meta_stored};
use protocol::{MetaSet, Parsed, Request, Set, SetMode, parse};
use store::{Expiry, Mode, Published, Refused, Reserve, Write};

use super::say;
use crate::counters::Counter;
use crate::output::Output;
use crate::prepare::Planned;
use crate::session::{State, Step, Surroundings};
use crate::upload::Uploading;

/// Bytes behind a value.
const LINE_END_LEN: usize = 2;

pub(super) fn set(
    asked: &Set<'_>,
    planned: &Planned<'_>,
    input: &[u8],
    around: &Surroundings<'_>,
    out: &mut Output,
) -> Step {
    let write = write_of(asked, around);
    let wanted = Wanted {
        value_len: asked.value_len as usize,
        flags: asked.flags,
        expiry: write.expiry,
    };
    let refused = match receive(asked.key, wanted, planned, input, around) {
        Received::Whole { value, len } => {
            let now_s = around.now.elapsed_s;
            let put = around
                .worker
                .put(asked.key, planned.hash, value, &write, now_s);
            match put {
                Ok(published) => {
                    answer_set(asked, Some((&write, published)), around, out.bytes_mut());
                    return Step::done(len);
                }
                Err(refused) => refused,
            }
        }
        Received::BadlyEnded { len } => {
            answer_set(asked, None, around, out.bytes_mut());
            return Step::done(len);
        }
        Received::Part(step) => return step,
        Received::Refused(refused) => refused,
    };
    say(out.bytes_mut(), refusal(refused, around), asked.noreply);
    // What could not be replaced must not be found either.
    if asked.mode == SetMode::Set && asked.cas.is_none() {
        around
            .worker
            .delete(asked.key, planned.hash, None, around.now.elapsed_s);
    }
    Step::swallow(
        planned.line_len,
        u64::from(asked.value_len) + LINE_END_LEN as u64,
    )
}

pub(super) fn meta_set(
    asked: &MetaSet<'_>,
    planned: &Planned<'_>,
    input: &[u8],
    around: &Surroundings<'_>,
    out: &mut Output,
) -> Step {
    let mut buffer = [0; KEY_MAX];
    let key = asked.key.decode(&mut buffer);
    let write = write_of_meta(asked, around);
    let wanted = Wanted {
        value_len: asked.value_len as usize,
        flags: asked.client_flags,
        expiry: write.expiry,
    };
    let refused = match receive(key, wanted, planned, input, around) {
        Received::Whole { value, len } => {
            let now_s = around.now.elapsed_s;
            match around.worker.put(key, planned.hash, value, &write, now_s) {
                Ok(published) => {
                    answer_meta_set(asked, Some((&write, published)), around, out.bytes_mut());
                    return Step::done(len);
                }
                Err(refused) => refused,
            }
        }
        Received::BadlyEnded { len } => {
            answer_meta_set(asked, None, around, out.bytes_mut());
            return Step::done(len);
        }
        Received::Part(step) => return step,
        Received::Refused(refused) => refused,
    };
    out.bytes_mut().extend_from_slice(refusal(refused, around));
    around
        .worker
        .delete(key, planned.hash, None, around.now.elapsed_s);
    Step::swallow(
        planned.line_len,
        u64::from(asked.value_len) + LINE_END_LEN as u64,
    )
}

/// Stores a value that arrived in pieces.
pub(crate) fn uploaded(uploading: Uploading, around: &Surroundings<'_>, out: &mut Output) {
    let well_ended = uploading.is_well_ended();
    let Uploading { upload, line, .. } = uploading;
    let publish = |upload, write: &Write| {
        let now_s = around.now.elapsed_s;
        around.worker.publish(upload, write, now_s)
    };
    // The line was parsed before the value was waited for, so it is one of these two.
    match parse(&line, 0) {
        Parsed::Request {
            request: Request::Set(asked),
            ..
        } => {
            let write = write_of(&asked, around);
            let published = well_ended.then(|| (&write, publish(upload, &write)));
            answer_set(&asked, published, around, out.bytes_mut());
        }
        Parsed::Request {
            request: Request::MetaSet(asked),
            ..
        } => {
            let write = write_of_meta(&asked, around);
            let published = well_ended.then(|| (&write, publish(upload, &write)));
            answer_meta_set(&asked, published, around, out.bytes_mut());
        }
        _ => {}
    }
}

/// Answers a command whose value was on its way when memory ran out.
pub(crate) fn upload_failed(uploading: &Uploading, around: &Surroundings<'_>, out: &mut Output) {
    around.counters.count(Counter::StoreNoMemory);
    let (bytes, answer) = (out.bytes_mut(), reply::NO_MEMORY_TO_STORE);
    let parsed = parse(&uploading.line, 0);
    let is_replaced = match &parsed {
        Parsed::Request {
            request: Request::Set(asked),
            ..
        } => {
            say(bytes, answer, asked.noreply);
            asked.mode == SetMode::Set && asked.cas.is_none()
        }
        _ => {
            bytes.extend_from_slice(answer);
            true
        }
    };
    if is_replaced {
        let upload = &uploading.upload;
        let now_s = around.now.elapsed_s;
        around
            .worker
            .delete(upload.key(), upload.hash(), None, now_s);
    }
}

/// What a value is to be reserved for.
#[derive(Clone, Copy)]
struct Wanted {
    value_len: usize,
    flags: u32,
    expiry: Expiry,
}

/// What became of the value behind a command line.
enum Received<'i> {
    /// It is here; with its line and what ends it it is `len` bytes.
    Whole { value: &'i [u8], len: usize },
    /// It is here, but does not end as values must.
    BadlyEnded { len: usize },
    /// The rest will come, or must wait.
    Part(Step),
    /// There is no place for it.
    Refused(Refused),
}

fn receive<'i>(
    key: &[u8],
    wanted: Wanted,
    planned: &Planned<'_>,
    input: &'i [u8],
    around: &Surroundings<'_>,
) -> Received<'i> {
    let (line, rest) = input.split_at(planned.line_len);
    let value_len = wanted.value_len;
    let whole = rest.len() >= value_len + LINE_END_LEN;
    let len = planned.line_len + value_len + LINE_END_LEN;
    if whole && rest[value_len..].starts_with(b"\r\n") {
        let value = &rest[..value_len];
        return Received::Whole { value, len };
    }
    let asked = Reserve {
        value_len,
        flags: wanted.flags,
        expiry: wanted.expiry,
        whole,
    };
    let now_s = around.now.elapsed_s;
    match around.worker.reserve(key, planned.hash, &asked, now_s) {
        Ok(_) if whole => Received::BadlyEnded { len },
        Ok(upload) => {
            let uploading = Box::new(Uploading::new(upload, line));
            Received::Part(Step::then(planned.line_len, State::Upload(uploading)))
        }
        Err(Refused::HeldFull) => Received::Part(Step::Memory),
        Err(refused) => Received::Refused(refused),
    }
}

/// Counts a refusal; the answer to it.
fn refusal(refused: Refused, around: &Surroundings<'_>) -> &'static [u8] {
    match refused {
        Refused::TooLarge => {
            around.counters.count(Counter::StoreTooLarge);
            reply::TOO_LARGE
        }
        Refused::NoMemory | Refused::HeldFull => {
            around.counters.count(Counter::StoreNoMemory);
            reply::NO_MEMORY_TO_STORE
        }
    }
}

fn write_of(asked: &Set<'_>, around: &Surroundings<'_>) -> Write {
    Write {
        flags: asked.flags,
        compare: asked.cas,
        ..Write::plain(mode(asked.mode), around.now.expiry(asked.exptime))
    }
}

fn write_of_meta(asked: &MetaSet<'_>, around: &Surroundings<'_>) -> Write {
    Write {
        // With a CAS to compare, replacing is setting what is there unchanged.
        mode: match (mode(asked.mode), asked.compare) {
            (Mode::Replace, Some(_)) => Mode::Set,
            (mode, _) => mode,
        },
        flags: asked.client_flags,
        expiry: around.now.expiry(asked.exptime),
        compare: asked.compare,
        invalidate: asked.invalidate,
        explicit_cas: asked.explicit_cas,
    }
}

/// Answers one whose value was written, or ended badly.
fn answer_set(
    asked: &Set<'_>,
    written: Option<(&Write, Published)>,
    around: &Surroundings<'_>,
    bytes: &mut Vec<u8>,
) {
    around.counters.count(Counter::CmdSet);
    let Some((write, published)) = written else {
        return say(bytes, reply::BAD_DATA_CHUNK, asked.noreply);
    };
    count_cas(write, published, around);
    let answer = match published {
        Published::Stored { .. } => reply::STORED,
        // An append too long for the store is not stored, says memcached, and no more.
        Published::NotStored | Published::NoRoom => reply::NOT_STORED,
        Published::Exists => reply::EXISTS,
        Published::NotFound => reply::NOT_FOUND,
    };
    say(bytes, answer, asked.noreply);
}

/// As [`answer_set`].
fn answer_meta_set(
    asked: &MetaSet<'_>,
    written: Option<(&Write, Published)>,
    around: &Surroundings<'_>,
    bytes: &mut Vec<u8>,
) {
    around.counters.count(Counter::CmdSet);
    around.counters.count(Counter::CmdMeta);
    let Some((write, published)) = written else {
        return bytes.extend_from_slice(reply::BAD_DATA_CHUNK);
    };
    count_cas(write, published, around);
    let (status, cas, value_len) = match published {
        Published::Stored { cas, value_len } => (MetaStatus::Done, cas, value_len as u32),
        Published::NotStored | Published::NoRoom => (MetaStatus::NotStored, 0, asked.value_len),
        Published::Exists => (MetaStatus::Exists, 0, asked.value_len),
        Published::NotFound => (MetaStatus::NotFound, 0, asked.value_len),
    };
    if !(asked.quiet && status == MetaStatus::Done) {
        meta_stored(bytes, status, &asked.key, asked.flags, cas, value_len);
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
fn count_cas(write: &Write, published: Published, around: &Surroundings<'_>) {
    if write.mode != Mode::Set || write.compare.is_none() {
        return;
    }
    around.counters.count(match published {
        Published::Stored { .. } => Counter::CasHits,
        Published::Exists => Counter::CasBadval,
        Published::NotFound | Published::NotStored | Published::NoRoom => Counter::CasMisses,
    });
}
