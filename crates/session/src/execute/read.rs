//! Reads of one key.

use store::{Expiry, Item, KeyHash, Miss, Mode, Published, Read, Recache, Rejected, Write};

use super::count_outcome;
use crate::counters::Counter;
use crate::encode::Encode;
use crate::limits::COPY_MAX;
use crate::now::Now;
use crate::operation::{self, RareReadOptions, ReadCount, ReadOptions, ReadVivify, Vivify};
use crate::outcome::{FoundItem, Outcome};
use crate::prefixes::Access;
use crate::session::{Output, RequestContext};

/// Executes a read of one key.
#[inline]
#[must_use]
pub(super) fn read(
    encoder: &impl Encode,
    key: &[u8],
    options: &ReadOptions,
    hash: KeyHash,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> bool {
    let Some(found) = read_key(encoder, key, options, hash, context, out) else {
        return false;
    };
    encoder.outcome(key, Outcome::Read { found }, out.bytes_mut());
    true
}

/// Reads one key, writes its item and counts the read. Returns whether the key has an item, or
/// `None` if the read has to wait for memory.
///
/// `store::Worker::read` is called at one place only, so that the compiler inlines it, and the
/// encoder with it.
pub(super) fn read_key<E: Encode>(
    encoder: &E,
    key: &[u8],
    options: &ReadOptions,
    hash: KeyHash,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Option<bool> {
    let options = match E::HAS_READ_OPTIONS {
        true => options,
        // All but the touch is constant, so the compiler drops the code for it.
        false => &ReadOptions::plain(options.touch),
    };
    let now = &context.now;
    let mut read = Read {
        touch: options.touch.map(|exptime| now.expiry(exptime)),
        claim: options.claim,
        untracked: options.untracked,
        pins_above: options.with_value.then_some(COPY_MAX),
        recache: Recache::Never,
    };
    let mut known_cas = None;
    if let Some(rare) = &options.rare {
        known_cas = rare.known_cas;
        match rare.vivify {
            ReadVivify::AlreadyCreated(vivify) => read.touch = Some(now.expiry(vivify.exptime)),
            ReadVivify::Never | ReadVivify::IfMissing(_) => {
                read.recache = recache(rare.recache, read.touch, now);
            }
        }
    }
    let visit = |item: &Item<'_>| {
        let found = FoundItem {
            key,
            item,
            with_value: options.with_value && known_cas != Some(item.cas),
            options,
            now,
        };
        encoder.item(&found, out)
    };
    let result = context.worker.read(key, hash, now.elapsed_s, read, visit);
    match result {
        Ok(Some(())) => {}
        Ok(None) => return None,
        Err(miss) => {
            count_miss(miss, context);
            if let Some(rare) = &options.rare
                && let ReadVivify::IfMissing(vivify) = rare.vivify
            {
                return create_and_read(encoder, key, (options, rare, vivify), hash, context, out);
            }
        }
    }
    count_read(key, result.is_ok(), options, context);
    Some(result.is_ok())
}

/// As [`read_key`], for a missing item that is to be created.
#[cold]
fn create_and_read(
    encoder: &impl Encode,
    key: &[u8],
    (options, rare, vivify): (&ReadOptions, &RareReadOptions, Vivify),
    hash: KeyHash,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Option<bool> {
    let vivify = match create(key, rare.explicit_cas, vivify, hash, context) {
        Ok(true) => ReadVivify::AlreadyCreated(vivify),
        // Another worker has stored the item meanwhile. The second attempt returns that item.
        Ok(false) => ReadVivify::Never,
        Err(Rejected::Deferred) => return None,
        // As in memcached, a read that has no memory for the new item is a miss.
        Err(_) => {
            count_read(key, false, options, context);
            return Some(false);
        }
    };
    let options = ReadOptions {
        rare: Some(RareReadOptions { vivify, ..*rare }),
        ..*options
    };
    read_key(encoder, key, &options, hash, context, out)
}

/// When this read claims an item that is not stale.
#[inline]
fn recache(option: Option<operation::Recache>, touch: Option<Expiry>, now: &Now) -> Recache {
    // A time of zero means never, as in memcached.
    let Some(recache) = option.filter(|recache| recache.exptime != 0) else {
        return Recache::Never;
    };
    let deadline = now.expiry(recache.exptime);
    match touch.filter(|_| recache.after_touch) {
        None => Recache::Before(deadline),
        Some(expiry) if expiry != Expiry::NEVER && expiry < deadline => Recache::Always,
        Some(_) => Recache::Never,
    }
}

/// Creates an empty item. Returns false if an item is already present.
#[cold]
fn create(
    key: &[u8],
    explicit_cas: Option<u64>,
    vivify: Vivify,
    hash: KeyHash,
    context: &mut RequestContext<'_>,
) -> Result<bool, Rejected> {
    let now_s = context.now.elapsed_s;
    // An item that is expired from the start is returned once, to this request.
    let expiry = match context.now.expiry(vivify.exptime) {
        expiry if expiry.is_past(now_s) => Expiry::at(now_s + 1),
        expiry => expiry,
    };
    let write = Write {
        explicit_cas,
        claimed: true,
        ..Write::plain(Mode::Add, expiry)
    };
    match context.worker.put(key, hash, b"", &write, now_s)? {
        Published::Stored { .. } => Ok(true),
        Published::NoSpace => Err(Rejected::NoMemory),
        Published::NotStored | Published::Exists | Published::NotFound => Ok(false),
    }
}

#[inline]
fn count_read(key: &[u8], is_hit: bool, options: &ReadOptions, context: &RequestContext<'_>) {
    let is_touch = match options.count {
        ReadCount::Access => options.touch.is_some(),
        ReadCount::MissAsGet => options.touch.is_some() && is_hit,
        ReadCount::Metadata => return context.counters.count(Counter::CmdMeta),
    };
    if context.counters.counts_prefixes() {
        context
            .counters
            .count_prefix_of(key, Access::of_read(is_hit));
    }
    if is_touch {
        count_touch(is_hit, context);
    } else {
        context.counters.count(Counter::CmdGet);
        count_outcome(context, is_hit, Counter::GetHits, Counter::GetMisses);
    }
}

fn count_miss(miss: Miss, context: &RequestContext<'_>) {
    match miss {
        Miss::Absent => {}
        Miss::Expired => context.counters.count(Counter::GetExpired),
        Miss::Flushed => context.counters.count(Counter::GetFlushed),
    }
}

/// Counts a touch. As in memcached, a get-and-touch counts as a touch and not as a get, so
/// `get_hits` ÷ `cmd_get` remains the hit rate of gets.
pub(super) fn count_touch(is_hit: bool, context: &RequestContext<'_>) {
    context.counters.count(Counter::CmdTouch);
    count_outcome(context, is_hit, Counter::TouchHits, Counter::TouchMisses);
}
