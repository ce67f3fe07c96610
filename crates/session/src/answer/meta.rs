//! `mg`, `md`, `ma`, `me`.

use protocol::limits::KEY_MAX;
use protocol::reply::{
    self, DebugFields, MetaFields, MetaStatus, meta_arith, meta_debug, meta_echo, meta_found,
};
use protocol::{MetaArith, MetaDelete, MetaGet, MetaKey};
use store::{
    ArithOutcome, Arithmetic, Counted, Deleted, Expiry, Item, KeyHash, Mark, Marked, Miss, Mode,
    Published, Read, Recache, Rejected, Vivify, Write,
};

use super::classic::{count_arith, direction};
use super::count_outcome;
use super::get::{add_value, count_get, count_miss, count_touch};
use crate::counters::Counter;
use crate::limits::COPY_MAX;
use crate::now::Now;
use crate::output::Output;
use crate::prefixes::Access;
use crate::prepare::Prepared;
use crate::session::{Outcome, RequestContext};

pub(super) fn get(
    command: &MetaGet<'_>,
    prepared: &Prepared<'_>,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Outcome {
    let touch = command.touch.map(|exptime| context.now.expiry(exptime));
    let mut result = read_item(command, prepared, touch, false, context, out);
    if let (Err(miss), Some(vivify)) = (result, command.vivify) {
        count_miss(miss, context);
        match create(command, vivify.final_exptime, prepared, context) {
            // Another worker may have stored the item meanwhile; then that one is returned.
            Ok(created) => result = read_item(command, prepared, touch, created, context, out),
            Err(Rejected::Deferred) => return Outcome::NeedsMemory,
            // As in memcached, without memory for the new item this is a miss.
            Err(_) => result = Err(Miss::Absent),
        }
    }
    match result {
        Ok(Some(())) => {}
        Ok(None) => return Outcome::NeedsMemory,
        Err(miss) => {
            count_miss(miss, context);
            if !command.quiet {
                meta_echo(
                    out.bytes_mut(),
                    MetaStatus::Miss,
                    &command.key,
                    command.flags,
                );
            }
        }
    }
    if context.counters.counts_keys() {
        let mut buffer = [0; KEY_MAX];
        let key = command.key.decode(&mut buffer);
        let access = Access::of_read(result.is_ok());
        context.counters.count_key(key, access);
    }
    // As in memcached, a hit with `T` counts as a touch only, and every miss counts as a get.
    match (result, touch) {
        (Ok(_), Some(_)) => count_touch(true, context),
        _ => count_get(result.is_ok(), context),
    }
    Outcome::done(prepared.line_len)
}

/// Replies with the present item. `created` says whether this request created it.
fn read_item(
    command: &MetaGet<'_>,
    prepared: &Prepared<'_>,
    touch: Option<Expiry>,
    created: bool,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Result<Option<()>, Miss> {
    let mut buffer = [0; KEY_MAX];
    let key = command.key.decode(&mut buffer);
    let vivified = command.vivify.filter(|_| created);
    let touch = match vivified {
        Some(vivify) => Some(context.now.expiry(vivify.final_exptime)),
        None => touch,
    };
    let read = Read {
        touch,
        claim: true,
        recache: match created {
            true => Recache::Never,
            false => recache(command, touch, context.now),
        },
        untracked: command.no_bump,
        pins_above: command.with_value.then_some(COPY_MAX),
    };
    let now = context.now;
    let now_s = now.elapsed_s;
    context
        .worker
        .read(key, prepared.hash, now_s, read, |item| {
            let fields = fields(item, command, created, now);
            let with_value = command.with_value && command.known_cas != Some(item.cas);
            let line = |bytes: &mut Vec<u8>| {
                meta_found(bytes, &command.key, command.flags, &fields, with_value);
            };
            if with_value {
                return add_value(item, line, out);
            }
            line(out.bytes_mut());
            Some(())
        })
}

/// Whether this client wins the recache token by flag `R`. A `T` before the `R` sets the expiry
/// that `R` compares with.
fn recache(command: &MetaGet<'_>, touch: Option<Expiry>, now: Now) -> Recache {
    // With `R0` nothing recaches, as in memcached.
    let Some(exptime) = command.recache.filter(|&exptime| exptime != 0) else {
        return Recache::Never;
    };
    let before = now.expiry(exptime);
    match touch.filter(|_| command.recache_after_touch) {
        None => Recache::Before(before),
        Some(expiry) if expiry != Expiry::NEVER && expiry < before => Recache::Always,
        Some(_) => Recache::Never,
    }
}

/// Creates the empty item of flag `N`. Returns false if an item is already present.
fn create(
    command: &MetaGet<'_>,
    exptime: i32,
    prepared: &Prepared<'_>,
    context: &mut RequestContext<'_>,
) -> Result<bool, Rejected> {
    let mut buffer = [0; KEY_MAX];
    let key = command.key.decode(&mut buffer);
    let now_s = context.now.elapsed_s;
    // An item that is expired from the start is returned once, to this request.
    let expiry = match context.now.expiry(exptime) {
        expiry if expiry.is_past(now_s) => Expiry::at(now_s + 1),
        expiry => expiry,
    };
    let write = Write {
        explicit_cas: command.explicit_cas,
        claimed: true,
        ..Write::plain(Mode::Add, expiry)
    };
    let put = context.worker.put(key, prepared.hash, b"", &write, now_s)?;
    match put {
        Published::Stored { .. } => Ok(true),
        Published::NoSpace => Err(Rejected::NoMemory),
        Published::NotStored | Published::Exists | Published::NotFound => Ok(false),
    }
}

fn fields(item: &Item<'_>, command: &MetaGet<'_>, created: bool, now: Now) -> MetaFields {
    let now_s = now.elapsed_s;
    let ttl = |exptime: Option<i32>, otherwise| {
        exptime.map_or(otherwise, |exptime| ttl_s(now.expiry(exptime), now_s))
    };
    let present_s = ttl_s(item.expiry, now_s);
    MetaFields {
        cas: item.cas,
        client_flags: item.flags,
        value_len: item.value_len() as u32,
        ttl_before_s: if created { -1 } else { present_s },
        ttl_s: ttl(command.touch, present_s),
        ttl_created_s: ttl(command.vivify.map(|vivify| vivify.exptime), present_s),
        created,
        idle_s: now_s.saturating_sub(item.last_access_s),
        fetched: item.fetched,
        won: item.won || created,
        stale: item.stale,
        lost: item.claimed && !created,
        base64_key: item.base64_key,
    }
}

fn ttl_s(expiry: Expiry, now_s: u32) -> i64 {
    expiry.seconds_left(now_s).map_or(-1, i64::from)
}

pub(super) fn delete(
    command: &MetaDelete<'_>,
    prepared: &Prepared<'_>,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) -> Outcome {
    let mut buffer = [0; KEY_MAX];
    let key = command.key.decode(&mut buffer);
    let (hash, now_s) = (prepared.hash, context.now.elapsed_s);
    let status = if command.invalidate || command.remove_value {
        let mark = Mark {
            compare: command.compare,
            explicit_cas: command.explicit_cas,
            invalidate: command.invalidate,
            empty: command.remove_value.then_some(command.client_flags),
            expiry: command.touch.map(|exptime| context.now.expiry(exptime)),
        };
        match context.worker.mark(key, hash, &mark, now_s) {
            Marked::Done => MetaStatus::Done,
            Marked::NotFound => MetaStatus::NotFound,
            Marked::Exists => MetaStatus::Exists,
            Marked::NoSpace => {
                bytes.extend_from_slice(reply::NO_MEMORY);
                return Outcome::done(prepared.line_len);
            }
            Marked::Deferred => return Outcome::NeedsMemory,
        }
    } else {
        match context.worker.delete(key, hash, command.compare, now_s) {
            Deleted::Deleted => MetaStatus::Done,
            Deleted::NotFound => MetaStatus::NotFound,
            Deleted::Exists => MetaStatus::Exists,
        }
    };
    if context.counters.counts_keys() {
        context.counters.count_key(key, Access::Delete);
    }
    // As in memcached, removing the value counts as a deletion, and marking stale does not.
    let found = status == MetaStatus::Done;
    if !(found && command.invalidate) {
        count_outcome(context, found, Counter::DeleteHits, Counter::DeleteMisses);
    }
    if !(command.quiet && found) {
        meta_echo(bytes, status, &command.key, command.flags);
    }
    Outcome::done(prepared.line_len)
}

/// Answers `me`, which neither counts as an access nor as a get.
pub(super) fn debug(
    key: &MetaKey<'_>,
    hash: KeyHash,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) {
    let mut buffer = [0; KEY_MAX];
    let read = Read {
        untracked: true,
        ..Read::default()
    };
    let now_s = context.now.elapsed_s;
    let result = context
        .worker
        .read(key.decode(&mut buffer), hash, now_s, read, |item| {
            let fields = DebugFields {
                ttl_s: ttl_s(item.expiry, now_s),
                idle_s: now_s.saturating_sub(item.last_access_s),
                cas: item.cas,
                fetched: item.fetched,
                memory_len: item.memory_len() as u64,
                base64_key: item.base64_key,
            };
            meta_debug(bytes, key, &fields);
            Some(())
        });
    if let Err(miss) = result {
        count_miss(miss, context);
        bytes.extend_from_slice(reply::EN);
    }
    context.counters.count(Counter::CmdMeta);
}

pub(super) fn arith(
    command: &MetaArith<'_>,
    prepared: &Prepared<'_>,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) -> Outcome {
    let mut buffer = [0; KEY_MAX];
    let key = command.key.decode(&mut buffer);
    let expiry = |exptime| context.now.expiry(exptime);
    let arithmetic = Arithmetic {
        delta: command.delta,
        direction: direction(command.mode),
        compare: command.compare,
        explicit_cas: command.explicit_cas,
        touch: command.touch.map(expiry),
        vivify: command.vivify.map(|vivify| Vivify {
            initial: command.initial,
            expiry: expiry(vivify.final_exptime),
        }),
    };
    let outcome = context
        .worker
        .arith(key, prepared.hash, &arithmetic, context.now.elapsed_s);
    match outcome {
        ArithOutcome::Counted(_) if command.quiet => {}
        ArithOutcome::Counted(counted) => {
            let fields = arith_fields(&counted, command, context);
            meta_arith(
                bytes,
                &command.key,
                command.flags,
                &fields,
                counted.value,
                command.with_value,
            );
        }
        ArithOutcome::NotFound => {
            meta_echo(bytes, MetaStatus::NotFound, &command.key, command.flags);
        }
        ArithOutcome::Exists => meta_echo(bytes, MetaStatus::Exists, &command.key, command.flags),
        ArithOutcome::NotNumeric => bytes.extend_from_slice(reply::NON_NUMERIC),
        ArithOutcome::NoSpace => bytes.extend_from_slice(reply::NO_MEMORY),
        ArithOutcome::Deferred => return Outcome::NeedsMemory,
    }
    count_arith(command.mode, &outcome, context);
    Outcome::done(prepared.line_len)
}

fn arith_fields(
    counted: &Counted,
    command: &MetaArith<'_>,
    context: &mut RequestContext<'_>,
) -> MetaFields {
    let now_s = context.now.elapsed_s;
    let ttl = |exptime: i32| ttl_s(context.now.expiry(exptime), now_s);
    MetaFields {
        cas: counted.cas,
        ttl_before_s: ttl_s(counted.expiry_before, now_s),
        ttl_s: command.touch.map_or(-1, ttl),
        ttl_created_s: command.vivify.map_or(-1, |vivify| ttl(vivify.exptime)),
        created: counted.created,
        ..MetaFields::default()
    }
}
