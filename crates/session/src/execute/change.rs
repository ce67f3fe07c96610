//! Commands that change an item and do not contain a value: deletion, mark (`md` with the flag `I`
//! or `x`), arithmetic and touch.
//!
//! An item may be only in the tier. For a command that needs this item, `must_fetch` returns true.
//! The command then has no effect: the session reads the item from the tier, and executes the
//! command again.

use store::{
    Arithmetic, ArithmeticOutcome, CounterValue, Deleted, Direction, ItemMark, KeyHash,
    MarkOutcome, SizeClass, Vivify,
};

use super::observe;
use super::read::count_touch;
use crate::counters::{ClassCounter, Counter};
use crate::encode::Encode;
use crate::operation::{ArithOptions, MarkOptions};
use crate::outcome::{ArithOutcome, DeleteOutcome, Outcome, Times};
use crate::prefixes::Access;
use crate::session::RequestContext;

/// Deletes an item and replies. If `compare` is given, deletes the item only if it has this CAS.
pub(super) fn delete(
    encoder: &impl Encode,
    key: &[u8],
    compare: Option<u64>,
    hash: KeyHash,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) {
    let now_s = context.now.elapsed_s;
    let outcome = match context.worker.delete(key, hash, compare, now_s) {
        Deleted::Deleted(size) => {
            // The size is unknown if the item was only in the tier.
            if let Some(size) = size {
                context
                    .counters
                    .count_in_class(ClassCounter::DeleteHits, size.class);
            }
            if context.counters.is_observed() {
                observe::delete(key, encoder.delete_name(), size, context);
            }
            DeleteOutcome::Done
        }
        Deleted::NotFound => DeleteOutcome::NotFound,
        Deleted::Exists => DeleteOutcome::Exists,
    };
    let counts_hit = true;
    count_delete(key, outcome, counts_hit, context);
    encoder.outcome(key, Outcome::Delete(outcome), bytes);
}

/// Marks an item stale (flag `I`), or empties its value (flag `x`), or both, and replies. Returns
/// false if the request has to wait for memory or for the tier.
#[must_use]
pub(super) fn mark(
    encoder: &impl Encode,
    key: &[u8],
    options: &MarkOptions,
    hash: KeyHash,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) -> bool {
    if context.must_fetch(key, hash) {
        return false;
    }
    let mark = ItemMark {
        compare: options.cas.compare(),
        explicit_cas: options.cas.explicit(),
        invalidate: options.invalidate,
        empty: options.remove_value_and_set_flags,
        expiry: options.exptime.map(|exptime| context.now.expiry(exptime)),
    };
    let outcome = match context.worker.mark(key, hash, &mark, context.now.elapsed_s) {
        MarkOutcome::Done => DeleteOutcome::Done,
        MarkOutcome::NotFound => DeleteOutcome::NotFound,
        MarkOutcome::Exists => DeleteOutcome::Exists,
        MarkOutcome::NoSpace => DeleteOutcome::NoMemory,
        MarkOutcome::Deferred => return false,
    };
    if outcome != DeleteOutcome::NoMemory {
        // As in memcached, a mark that makes the item stale is not counted as a hit, even if it
        // also removes the value. A mark that only removes the value is counted as a hit.
        let counts_hit = !options.invalidate;
        count_delete(key, outcome, counts_hit, context);
    }
    encoder.outcome(key, Outcome::Delete(outcome), bytes);
    true
}

/// Counts a deletion or a mark as a hit or a miss. As in memcached, the request also misses if the
/// item's CAS differs from the CAS in the request. If `counts_hit` is false, a hit is not counted.
fn count_delete(
    key: &[u8],
    outcome: DeleteOutcome,
    counts_hit: bool,
    context: &RequestContext<'_>,
) {
    if context.counters.is_observed() {
        observe::count_prefix(key, Access::Delete, context);
    }
    let is_hit = outcome == DeleteOutcome::Done;
    if !is_hit || counts_hit {
        context
            .counters
            .count_outcome(is_hit, Counter::DeleteHits, Counter::DeleteMisses);
    }
}

/// Adds to a counter (an item whose value is a decimal number), or subtracts from it, and replies.
/// Returns false if the request has to wait for memory or for the tier.
#[must_use]
pub(super) fn arith(
    encoder: &impl Encode,
    key: &[u8],
    options: &ArithOptions,
    hash: KeyHash,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) -> bool {
    if context.must_fetch(key, hash) {
        return false;
    }
    let (now, now_s) = (context.now, context.now.elapsed_s);
    let touch = options.touch.map(|exptime| now.expiry(exptime));
    let arithmetic = Arithmetic {
        delta: options.delta,
        direction: options.direction,
        compare: options.cas.compare(),
        explicit_cas: options.cas.explicit(),
        touch,
        // memcached's vivify: the request creates the counter if the key has no item.
        vivify: options.vivify.map(|vivify| Vivify {
            initial: options.initial,
            expiry: now.expiry(vivify.exptime),
        }),
    };
    let outcome = match context.worker.arith(key, hash, &arithmetic, now_s) {
        ArithmeticOutcome::Done(counter) => {
            let CounterValue {
                value,
                created,
                cas,
                expiry_before,
                ..
            } = counter;
            let times = Times {
                now_s,
                before: expiry_before,
                touched: touch,
                // If the request has created the counter, the reply shows the time to live of the
                // flag `N`, even if the counter has got that of a flag `T` after `N`.
                vivified: options
                    .vivify
                    .filter(|_| created)
                    .map(|vivify| now.expiry(vivify.reply_exptime)),
            };
            ArithOutcome::Counted { value, cas, times }
        }
        ArithmeticOutcome::NotFound => ArithOutcome::NotFound,
        ArithmeticOutcome::NotNumeric => ArithOutcome::NotNumeric,
        ArithmeticOutcome::Exists => ArithOutcome::Exists,
        ArithmeticOutcome::NoSpace => ArithOutcome::NoMemory,
        ArithmeticOutcome::Deferred => return false,
    };
    count_arith(key, options.direction, &outcome, context);
    encoder.outcome(key, Outcome::Arith(outcome), bytes);
    true
}

/// Counts the outcome of arithmetic in the statistics: as a hit, as a miss, or not at all. A
/// [`Counter`] is a number of the statistics here, and not the client's counter.
fn count_arith(
    key: &[u8],
    direction: Direction,
    outcome: &ArithOutcome,
    context: &RequestContext<'_>,
) {
    use ClassCounter::{DecrHits, IncrHits};
    let (hits, misses, class_hits) = match direction {
        Direction::Up => (Counter::IncrHits, Counter::IncrMisses, IncrHits),
        Direction::Down => (Counter::DecrHits, Counter::DecrMisses, DecrHits),
    };
    match outcome {
        // As in memcached, arithmetic that creates the item is neither a hit nor a miss.
        ArithOutcome::Counted { times, .. } if times.vivified.is_some() => {}
        ArithOutcome::Counted { value, .. } => {
            // This size class may be too small. It is that of an item without client flags (which
            // take at most four bytes) and without spaces after the number. `decr` leaves such
            // spaces if the number becomes shorter. Neither is known here.
            let client_flags = 0;
            let digits = value.checked_ilog10().unwrap_or(0) as usize + 1;
            let class = SizeClass::of(key.len(), client_flags, digits);
            context.counters.count(hits);
            context.counters.count_in_class(class_hits, class);
        }
        ArithOutcome::NotFound => context.counters.count(misses),
        ArithOutcome::NotNumeric | ArithOutcome::Exists | ArithOutcome::NoMemory => {}
    }
}

/// Sets the time to live of an item, and replies. Returns false if the request has to wait for
/// memory or for the tier.
#[must_use]
pub(super) fn touch(
    encoder: &impl Encode,
    key: &[u8],
    exptime: i32,
    hash: KeyHash,
    context: &mut RequestContext<'_>,
    bytes: &mut Vec<u8>,
) -> bool {
    if context.must_fetch(key, hash) {
        return false;
    }
    let expiry = context.now.expiry(exptime);
    let touched = context
        .worker
        .touch(key, hash, expiry, context.now.elapsed_s);
    // `class` is the size class of the item, or `None` if the key has no item. The only error is
    // that the touch has to wait for memory.
    let Ok(class) = touched else {
        return false;
    };
    count_touch(class, context);
    let found = class.is_some();
    encoder.outcome(key, Outcome::Touch { found }, bytes);
    true
}
