//! Reads of one key. An item may be only in the tier. The read then waits until the item has been
//! read from there.
//!
//! A read may *claim* an item that is stale, that expires soon, or that the read has created. The
//! reply then tells this client that it has won and should recompute the value. The replies to
//! later reads tell their clients that another client has won.

use store::{
    Expiry, Item, ItemSize, KeyHash, Miss, Mode, Published, Read, Recache, Rejected, SizeClass,
    Write,
};

use super::observe;
use crate::counters::{ClassCounter, Counter};
use crate::encode::Encode;
use crate::limits::COPY_MAX;
use crate::now::Now;
use crate::operation::{self, RareReadOptions, ReadCount, ReadOptions, ReadVivify, Vivify};
use crate::outcome::{FoundItem, Outcome};
use crate::session::{Output, RequestContext};

/// Executes a read of one key and replies. Returns false if the read has to wait for memory or for
/// the tier.
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

/// Reads one key, writes its item to `out` and counts the read. Returns whether the key has an
/// item, or `None` if the read has to wait for memory or for the tier.
///
/// `store::Worker::read` is generic over the type of its closure. For each type of encoder, the
/// closure `visit` has a type of its own, and only this function calls `read` with it. The compiler
/// therefore inlines `read` here, and the encoder in the closure.
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
        // The protocol has no read options except the touch. Here the others become constants, so
        // the compiler removes the code that handles them.
        false => &ReadOptions::plain(options.touch),
    };
    let now = &context.now;
    let mut read = Read {
        touch: options.touch.map(|exptime| now.expiry(exptime)),
        claim: options.claim_stale,
        untracked: options.untracked,
        // The encoder does not copy a longer value but pins it: the value stays in the store's
        // memory until it has been sent.
        pin_if_longer_than: options.with_value.then_some(COPY_MAX),
        // One copy for each connection: the next value is sent when this one has been received.
        may_copy: !out.has_pins(),
        recache: Recache::Never,
    };
    let mut known_cas = None;
    if let Some(rare) = &options.rare {
        known_cas = rare.known_cas;
        match rare.vivify {
            // `create` has given the item an expiry that is not past, so that this read finds it.
            // This read sets the expiry that the client requested, which may be in the past.
            ReadVivify::AlreadyCreated(vivify) => read.touch = Some(now.expiry(vivify.exptime)),
            ReadVivify::Never | ReadVivify::IfMissing(_) => {
                read.recache = recache_condition(rare.recache, read.touch, now);
            }
        }
    }
    let mut size = None;
    let visit = |item: &Item<'_>| {
        size = Some(ItemSize {
            class: item.size_class(),
            value_len: item.value_len(),
        });
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
            // If the item is in the tier, `want` returns true, and the session reads it from there.
            if context.tier.is_some() && miss == Miss::Absent && context.want(key, hash) {
                return None;
            }
            // The reason is counted before the item is created. If the creation is deferred, the
            // whole read is repeated later, but its reason is not counted twice: this read has
            // unlinked the expired or flushed item, so the repeated read finds the key absent.
            count_miss(miss, context);
            if let Some(rare) = &options.rare
                && let ReadVivify::IfMissing(vivify) = rare.vivify
            {
                return create_and_read(encoder, key, (options, rare, vivify), hash, context, out);
            }
        }
    }
    let is_hit = result.is_ok();
    // After a hit, `visit` has set `size`.
    let result = result.and(size.ok_or(Miss::Absent));
    count_read(key, result, options, context);
    Some(is_hit)
}

/// Creates an empty item for a key that has none (memcached's vivify, flag `N` of `mg`), and reads
/// this item. Returns what [`read_key`] returns.
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
        // Another worker has stored an item since the miss. The read below returns that item.
        Ok(false) => ReadVivify::Never,
        Err(Rejected::Deferred) => return None,
        // There is no memory for the new item. As in memcached, the read is then a miss.
        Err(_) => {
            count_read(key, Err(Miss::Absent), options, context);
            return Some(false);
        }
    };
    let options = ReadOptions {
        rare: Some(RareReadOptions { vivify, ..*rare }),
        ..*options
    };
    read_key(encoder, key, &options, hash, context, out)
}

/// Returns the condition under which a read claims an item although the item is not stale
/// (memcached's recache, flag `R` of `mg`). `touch` is the expiry that the read sets.
#[inline]
fn recache_condition(
    option: Option<operation::Recache>,
    touch: Option<Expiry>,
    now: &Now,
) -> Recache {
    // As in memcached, `R0` claims no item.
    let Some(recache) = option.filter(|recache| recache.exptime != 0) else {
        return Recache::Never;
    };
    // The read claims an item that expires before this time.
    let deadline = now.expiry(recache.exptime);
    match touch.filter(|_| recache.compare_new_expiry) {
        // The expiry that the item has before the read decides. Only the store knows it.
        None => Recache::Before(deadline),
        // The expiry that the read sets decides. It is known here.
        Some(expiry) if expiry != Expiry::NEVER && expiry < deadline => Recache::Always,
        Some(_) => Recache::Never,
    }
}

/// Creates an empty item that this request has claimed. Returns false if the key already has an
/// item.
#[cold]
fn create(
    key: &[u8],
    explicit_cas: Option<u64>,
    vivify: Vivify,
    hash: KeyHash,
    context: &mut RequestContext<'_>,
) -> Result<bool, Rejected> {
    let now_s = context.now.elapsed_s;
    // The client may request an expiry in the past. The read that follows in this request would
    // not find such an item. The item therefore gets one second to live, and the read then sets the
    // requested expiry.
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

/// Counts a read as a touch or as a get, or for `me` as a request for metadata ([`ReadCount`]).
/// `result` is the size of the item that the read found, or the reason of the miss.
#[inline(always)]
fn count_read(
    key: &[u8],
    result: Result<ItemSize, Miss>,
    options: &ReadOptions,
    context: &RequestContext<'_>,
) {
    let class = result.ok().map(|size| size.class);
    let is_hit = class.is_some();
    let is_touch = match options.count {
        ReadCount::Access => options.touch.is_some(),
        ReadCount::MissAsGet => options.touch.is_some() && is_hit,
        ReadCount::Metadata => return context.counters.count(Counter::CmdMeta),
    };
    if context.counters.is_observed() {
        observe::read(key, result, context);
    }
    if is_touch {
        count_touch(class, context);
    } else {
        context.counters.count(Counter::CmdGet);
        if let Some(class) = class {
            context
                .counters
                .count_in_class(ClassCounter::GetHits, class);
        }
        context
            .counters
            .count_outcome(is_hit, Counter::GetHits, Counter::GetMisses);
    }
}

/// Counts the reason of a miss: the item had expired, or it was flushed. Counts nothing if the key
/// had no item.
fn count_miss(miss: Miss, context: &RequestContext<'_>) {
    match miss {
        Miss::Absent => {}
        Miss::Expired => context.counters.count(Counter::GetExpired),
        Miss::Flushed => context.counters.count(Counter::GetFlushed),
    }
}

/// Counts a touch. `class` is the size class of the touched item, or `None` for a miss. As in
/// memcached, a get-and-touch (`gat`) counts as a touch and not as a get. The quotient `get_hits` ÷
/// `cmd_get` is therefore the hit rate of the gets alone.
pub(super) fn count_touch(class: Option<SizeClass>, context: &RequestContext<'_>) {
    context.counters.count(Counter::CmdTouch);
    if let Some(class) = class {
        context
            .counters
            .count_in_class(ClassCounter::TouchHits, class);
    }
    context
        .counters
        .count_outcome(class.is_some(), Counter::TouchHits, Counter::TouchMisses);
}
