//! `delete`, `incr`, `decr`, `touch`, `flush_all`.

use protocol::{Arith, ArithMode, Delete, FlushAll, Touch, reply};
use store::{ArithOutcome, Arithmetic, Counted, Deleted, Direction, KeyHash};

use super::get::count_touch;
use super::{count_outcome, push_reply};
use crate::counters::Counter;
use crate::prefixes::Access;
use crate::prepare::Prepared;
use crate::session::{Outcome, RequestContext};

pub(super) fn delete(
    command: &Delete<'_>,
    hash: KeyHash,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) {
    let deleted = context
        .worker
        .delete(command.key, hash, None, context.now.elapsed_s);
    if context.counters.counts_keys() {
        context.counters.count_key(command.key, Access::Delete);
    }
    let found = deleted == Deleted::Deleted;
    count_outcome(context, found, Counter::DeleteHits, Counter::DeleteMisses);
    push_reply(
        bytes,
        if found {
            reply::DELETED
        } else {
            reply::NOT_FOUND
        },
        command.noreply,
    );
}

pub(super) fn arith(
    command: &Arith<'_>,
    prepared: &Prepared<'_>,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) -> Outcome {
    let arithmetic = Arithmetic {
        delta: command.delta,
        direction: direction(command.mode),
        compare: None,
        explicit_cas: None,
        touch: None,
        vivify: None,
    };
    let outcome = context.worker.arith(
        command.key,
        prepared.hash,
        &arithmetic,
        context.now.elapsed_s,
    );
    count_arith(command.mode, &outcome, context);
    match outcome {
        ArithOutcome::Counted(counted) if !command.noreply => reply::number(bytes, counted.value),
        ArithOutcome::Counted(_) => {}
        ArithOutcome::NotFound => push_reply(bytes, reply::NOT_FOUND, command.noreply),
        ArithOutcome::NotNumeric => push_reply(bytes, reply::NON_NUMERIC, command.noreply),
        ArithOutcome::NoSpace | ArithOutcome::Exists => {
            push_reply(bytes, reply::NO_MEMORY, command.noreply);
        }
        ArithOutcome::Deferred => return Outcome::NeedsMemory,
    }
    Outcome::done(prepared.line_len)
}

pub(super) fn direction(mode: ArithMode) -> Direction {
    match mode {
        ArithMode::Increment => Direction::Up,
        ArithMode::Decrement => Direction::Down,
    }
}

pub(super) fn count_arith(
    mode: ArithMode,
    outcome: &ArithOutcome,
    context: &mut RequestContext<'_>,
) {
    let (hits, misses) = match mode {
        ArithMode::Increment => (Counter::IncrHits, Counter::IncrMisses),
        ArithMode::Decrement => (Counter::DecrHits, Counter::DecrMisses),
    };
    match outcome {
        // Creating the missing item counts as neither hit nor miss, as in memcached.
        ArithOutcome::Counted(Counted { created: true, .. }) => {}
        ArithOutcome::Counted(_) => context.counters.count(hits),
        ArithOutcome::NotFound => context.counters.count(misses),
        ArithOutcome::NotNumeric
        | ArithOutcome::Exists
        | ArithOutcome::NoSpace
        | ArithOutcome::Deferred => {}
    }
}

pub(super) fn touch(
    command: &Touch<'_>,
    prepared: &Prepared<'_>,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) -> Outcome {
    let expiry = context.now.expiry(command.exptime);
    let touched = context
        .worker
        .touch(command.key, prepared.hash, expiry, context.now.elapsed_s);
    let Ok(found) = touched else {
        return Outcome::NeedsMemory;
    };
    count_touch(found, context);
    push_reply(
        bytes,
        if found {
            reply::TOUCHED
        } else {
            reply::NOT_FOUND
        },
        command.noreply,
    );
    Outcome::done(prepared.line_len)
}

pub(super) fn flush_all(command: &FlushAll, context: &mut RequestContext<'_>, bytes: &mut Vec<u8>) {
    context.counters.count(Counter::CmdFlush);
    if !context.control.permissions().flush {
        return push_reply(bytes, reply::FLUSH_NOT_ALLOWED, command.noreply);
    }
    if let Some(second) = context.now.flush_second(command.exptime) {
        context.worker.flush(second, context.now.elapsed_s);
    }
    push_reply(bytes, reply::OK, command.noreply);
}
