//! `delete`, `incr`, `decr`, `touch`, `flush_all`.

use protocol::{Arith, ArithMode, Delete, FlushAll, Touch, reply};
use store::{ArithOutcome, Arithmetic, Counted, Deleted, Direction, KeyHash};

use super::get::count_touch;
use super::{count_either, say};
use crate::counters::Counter;
use crate::prepare::Planned;
use crate::session::{Step, Surroundings};

pub(super) fn delete(
    asked: &Delete<'_>,
    hash: KeyHash,
    around: &mut Surroundings<'_>,
    bytes: &mut Vec<u8>,
) {
    let deleted = around
        .worker
        .delete(asked.key, hash, None, around.now.elapsed_s);
    let found = deleted == Deleted::Deleted;
    count_either(around, found, Counter::DeleteHits, Counter::DeleteMisses);
    say(
        bytes,
        if found {
            reply::DELETED
        } else {
            reply::NOT_FOUND
        },
        asked.noreply,
    );
}

pub(super) fn arith(
    asked: &Arith<'_>,
    planned: &Planned<'_>,
    around: &mut Surroundings<'_>,
    bytes: &mut Vec<u8>,
) -> Step {
    let arithmetic = Arithmetic {
        delta: asked.delta,
        direction: direction(asked.mode),
        compare: None,
        explicit_cas: None,
        touch: None,
        vivify: None,
    };
    let outcome = around
        .worker
        .arith(asked.key, planned.hash, &arithmetic, around.now.elapsed_s);
    count_arith(asked.mode, &outcome, around);
    match outcome {
        ArithOutcome::Counted(counted) if !asked.noreply => reply::number(bytes, counted.value),
        ArithOutcome::Counted(_) => {}
        ArithOutcome::NotFound => say(bytes, reply::NOT_FOUND, asked.noreply),
        ArithOutcome::NotNumeric => say(bytes, reply::NON_NUMERIC, asked.noreply),
        ArithOutcome::NoRoom | ArithOutcome::Exists => {
            say(bytes, reply::NO_MEMORY, asked.noreply);
        }
        ArithOutcome::NotYet => return Step::Memory,
    }
    Step::done(planned.line_len)
}

pub(super) fn direction(mode: ArithMode) -> Direction {
    match mode {
        ArithMode::Increment => Direction::Up,
        ArithMode::Decrement => Direction::Down,
    }
}

pub(super) fn count_arith(mode: ArithMode, outcome: &ArithOutcome, around: &mut Surroundings<'_>) {
    let (hits, misses) = match mode {
        ArithMode::Increment => (Counter::IncrHits, Counter::IncrMisses),
        ArithMode::Decrement => (Counter::DecrHits, Counter::DecrMisses),
    };
    match outcome {
        // What was missing and is made there and then is neither, in memcached too.
        ArithOutcome::Counted(Counted { created: true, .. }) => {}
        ArithOutcome::Counted(_) => around.counters.count(hits),
        ArithOutcome::NotFound => around.counters.count(misses),
        ArithOutcome::NotNumeric
        | ArithOutcome::Exists
        | ArithOutcome::NoRoom
        | ArithOutcome::NotYet => {}
    }
}

pub(super) fn touch(
    asked: &Touch<'_>,
    planned: &Planned<'_>,
    around: &mut Surroundings<'_>,
    bytes: &mut Vec<u8>,
) -> Step {
    let expiry = around.now.expiry(asked.exptime);
    let touched = around
        .worker
        .touch(asked.key, planned.hash, expiry, around.now.elapsed_s);
    let Ok(found) = touched else {
        return Step::Memory;
    };
    count_touch(found, around);
    say(
        bytes,
        if found {
            reply::TOUCHED
        } else {
            reply::NOT_FOUND
        },
        asked.noreply,
    );
    Step::done(planned.line_len)
}

pub(super) fn flush_all(asked: &FlushAll, around: &mut Surroundings<'_>, bytes: &mut Vec<u8>) {
    around.counters.count(Counter::CmdFlush);
    if let Some(second) = around.now.flush_second(asked.exptime) {
        around.worker.flush(second, around.now.elapsed_s);
    }
    say(bytes, reply::OK, asked.noreply);
}
