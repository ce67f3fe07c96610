//! `set` and its kin, and `ms`: reserve, fill, publish.

use protocol::limits::KEY_MAX;
use protocol::reply::{self, MetaStatus, meta_stored};
use protocol::{MetaSet, Parsed, Request, Set, SetMode, parse};
use store::{Expiry, Mode, Published, Refused, Reserve, Upload, Write};

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
    let value_len = asked.value_len as usize;
    let wanted = Wanted {
        value_len,
        flags: asked.flags,
        expiry: around.now.expiry(asked.exptime),
    };
    match receive(asked.key, wanted, planned, input, around) {
        Received::Whole {
            upload,
            well_ended,
            len,
        } => {
            finish_set(asked, upload, well_ended, around, out.bytes_mut());
            Step::done(len)
        }
        Received::Part(step) => step,
        Received::Refused(answer) => {
            say(out.bytes_mut(), answer, asked.noreply);
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
    }
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
    let value_len = asked.value_len as usize;
    let wanted = Wanted {
        value_len,
        flags: asked.client_flags,
        expiry: around.now.expiry(asked.exptime),
    };
    match receive(key, wanted, planned, input, around) {
        Received::Whole {
            upload,
            well_ended,
            len,
        } => {
            finish_meta_set(asked, upload, well_ended, around, out.bytes_mut());
            Step::done(len)
        }
        Received::Part(step) => step,
        Received::Refused(answer) => {
            out.bytes_mut().extend_from_slice(answer);
            around
                .worker
                .delete(key, planned.hash, None, around.now.elapsed_s);
            Step::swallow(
                planned.line_len,
                u64::from(asked.value_len) + LINE_END_LEN as u64,
            )
        }
    }
}

/// Stores a value that arrived in pieces.
pub(crate) fn uploaded(uploading: Uploading, around: &Surroundings<'_>, out: &mut Output) {
    let well_ended = uploading.is_well_ended();
    let Uploading { upload, line, .. } = uploading;
    // The line was parsed before the value was waited for, so it is one of these two.
    match parse(&line, 0) {
        Parsed::Request {
            request: Request::Set(asked),
            ..
        } => {
            finish_set(&asked, upload, well_ended, around, out.bytes_mut());
        }
        Parsed::Request {
            request: Request::MetaSet(asked),
            ..
        } => {
            finish_meta_set(&asked, upload, well_ended, around, out.bytes_mut());
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
enum Received {
    /// It is here.
    Whole {
        upload: Upload,
        well_ended: bool,
        len: usize,
    },
    /// The rest will come, or must wait.
    Part(Step),
    /// There is no place for it.
    Refused(&'static [u8]),
}

fn receive(
    key: &[u8],
    wanted: Wanted,
    planned: &Planned<'_>,
    input: &[u8],
    around: &Surroundings<'_>,
) -> Received {
    let (line, rest) = input.split_at(planned.line_len);
    let value_len = wanted.value_len;
    let whole = rest.len() >= value_len + LINE_END_LEN;
    let now_s = around.now.elapsed_s;
    let asked = Reserve {
        value_len,
        flags: wanted.flags,
        expiry: wanted.expiry,
        whole,
    };
    let reserved = around.worker.reserve(key, planned.hash, &asked, now_s);
    let filled = reserved.and_then(|mut upload| {
        if whole {
            around.worker.fill(&mut upload, rest, now_s)?;
        }
        Ok(upload)
    });
    let upload = match filled {
        Ok(upload) => upload,
        Err(Refused::TooLarge) => {
            around.counters.count(Counter::StoreTooLarge);
            return Received::Refused(reply::TOO_LARGE);
        }
        Err(Refused::NoMemory) => {
            around.counters.count(Counter::StoreNoMemory);
            return Received::Refused(reply::NO_MEMORY_TO_STORE);
        }
        Err(Refused::HeldFull) => return Received::Part(Step::Memory),
    };
    if whole {
        let well_ended = rest[value_len..].starts_with(b"\r\n");
        return Received::Whole {
            upload,
            well_ended,
            len: planned.line_len + value_len + LINE_END_LEN,
        };
    }
    let uploading = Box::new(Uploading::new(upload, line));
    Received::Part(Step::then(planned.line_len, State::Upload(uploading)))
}

fn finish_set(
    asked: &Set<'_>,
    upload: Upload,
    well_ended: bool,
    around: &Surroundings<'_>,
    bytes: &mut Vec<u8>,
) {
    around.counters.count(Counter::CmdSet);
    if !well_ended {
        return say(bytes, reply::BAD_DATA_CHUNK, asked.noreply);
    }
    let write = Write {
        flags: asked.flags,
        compare: asked.cas,
        ..Write::plain(mode(asked.mode), around.now.expiry(asked.exptime))
    };
    let published = around.worker.publish(upload, &write, around.now.elapsed_s);
    count_cas(&write, published, around);
    let answer = match published {
        Published::Stored { .. } => reply::STORED,
        // An append too long for the store is not stored, says memcached, and no more.
        Published::NotStored | Published::NoRoom => reply::NOT_STORED,
        Published::Exists => reply::EXISTS,
        Published::NotFound => reply::NOT_FOUND,
    };
    say(bytes, answer, asked.noreply);
}

fn finish_meta_set(
    asked: &MetaSet<'_>,
    upload: Upload,
    well_ended: bool,
    around: &Surroundings<'_>,
    bytes: &mut Vec<u8>,
) {
    around.counters.count(Counter::CmdSet);
    around.counters.count(Counter::CmdMeta);
    if !well_ended {
        return bytes.extend_from_slice(reply::BAD_DATA_CHUNK);
    }
    let write = Write {
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
    };
    let published = around.worker.publish(upload, &write, around.now.elapsed_s);
    count_cas(&write, published, around);
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
