//! `get`, `gets`, `gat`, `gats`: one key or thousands, answered as far as the output has space.

use protocol::{Get, Keys, reply};
use store::{Item, KeyHash, Miss, Read};

use super::count_outcome;
use crate::counters::Counter;
use crate::limits::{COPY_MAX, KEYS_PER_TURN, PREFETCH_KEYS};
use crate::output::Output;
use crate::prefixes::Access;
use crate::prepare::Prepared;
use crate::session::{Next, Outcome, RemainingKeys, RequestContext, State};

/// Answers a `get` of one key. With several keys it only sets up the state for [`answer_keys`].
pub(super) fn get(
    command: &Get<'_>,
    prepared: &Prepared<'_>,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Outcome {
    let keys_len = command.keys.as_bytes().len();
    let line = &input[..prepared.line_len];
    let line_end_len = if line.ends_with(b"\r\n") { 2 } else { 1 };
    let mut rest = command.keys;
    let first = rest.next().unwrap_or_default();
    if rest.next().is_some() {
        let remaining = RemainingKeys {
            keys_len,
            line_end_len,
            with_cas: command.with_cas,
            exptime: command.exptime,
        };
        return Outcome::then(
            prepared.line_len - line_end_len - keys_len,
            State::Keys(remaining),
        );
    }
    let options = Options {
        with_cas: command.with_cas,
        exptime: command.exptime,
    };
    if !answer_key(first, prepared.hash, options, context, out) {
        return Outcome::NeedsMemory;
    }
    out.bytes_mut().extend_from_slice(reply::END);
    Outcome::done(prepared.line_len)
}

/// Answers keys at the front of `input`, as many as one turn and the output allow. Returns the
/// consumed bytes, and the need that stopped it; none if all keys are answered.
pub(crate) fn answer_keys(
    remaining: &mut RemainingKeys,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> (usize, Option<Next>) {
    let options = Options {
        with_cas: remaining.with_cas,
        exptime: remaining.exptime,
    };
    let mut unanswered = Keys::new(&input[..remaining.keys_len]);
    let mut answered = 0;
    let next = 'line: loop {
        let (prefetched, count) = prefetch_keys(&mut unanswered, context);
        if count == 0 {
            break None;
        }
        for &PrefetchedKey {
            key,
            hash,
            from_here,
        } in &prefetched[..count]
        {
            let stop = if answered == KEYS_PER_TURN {
                Some(Next::Yield)
            } else if out.is_full() {
                Some(Next::OutputSpace)
            } else if !answer_key(key, hash, options, context, out) {
                Some(Next::Memory)
            } else {
                None
            };
            if stop.is_some() {
                unanswered = from_here;
                break 'line stop;
            }
            answered += 1;
        }
    };
    let done = remaining.keys_len - unanswered.as_bytes().len();
    remaining.keys_len -= done;
    match next {
        Some(next) => (done, Some(next)),
        None => {
            out.bytes_mut().extend_from_slice(reply::END);
            (done + remaining.keys_len + remaining.line_end_len, None)
        }
    }
}

/// One of several keys whose memory is prefetched together.
#[derive(Clone, Copy)]
struct PrefetchedKey<'i> {
    key: &'i [u8],
    hash: KeyHash,
    /// This key and those after it.
    from_here: Keys<'i>,
}

/// Takes up to [`PREFETCH_KEYS`] keys and prefetches all their buckets, then all their items, so
/// that their cache misses overlap. Returns the keys and how many they are.
fn prefetch_keys<'i>(
    keys: &mut Keys<'i>,
    context: &mut RequestContext<'_>,
) -> ([PrefetchedKey<'i>; PREFETCH_KEYS], usize) {
    let none = PrefetchedKey {
        key: &[],
        hash: KeyHash::default(),
        from_here: *keys,
    };
    let mut prefetched = [none; PREFETCH_KEYS];
    let mut count = 0;
    for slot in &mut prefetched {
        let from_here = *keys;
        let Some(key) = keys.next() else { break };
        let hash = context.worker.hash(key);
        context.worker.prefetch(hash);
        *slot = PrefetchedKey {
            key,
            hash,
            from_here,
        };
        count += 1;
    }
    for next in &mut prefetched[..count] {
        context.worker.prefetch_item(&mut next.hash);
    }
    (prefetched, count)
}

/// The options of a `get` line.
#[derive(Clone, Copy)]
struct Options {
    with_cas: bool,
    /// New time to live, of `gat` and `gats`.
    exptime: Option<i32>,
}

/// Answers one key. Returns false, without a reply, if a large value could not be pinned.
fn answer_key(
    key: &[u8],
    hash: KeyHash,
    options: Options,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> bool {
    let read = Read {
        touch: options.exptime.map(|exptime| context.now.expiry(exptime)),
        pins_above: Some(COPY_MAX),
        ..Read::default()
    };
    let result = context
        .worker
        .read(key, hash, context.now.elapsed_s, read, |item| {
            let header = |bytes: &mut Vec<u8>| {
                let cas = options.with_cas.then_some(item.cas);
                reply::value_header(bytes, key, item.flags, item.value_len() as u32, cas);
            };
            add_value(item, header, out)
        });
    match result {
        Ok(Some(())) => {}
        Ok(None) => return false,
        Err(miss) => count_miss(miss, context),
    }
    if context.counters.counts_keys() {
        context
            .counters
            .count_key(key, Access::of_read(result.is_ok()));
    }
    match options.exptime {
        Some(_) => count_touch(result.is_ok(), context),
        None => count_get(result.is_ok(), context),
    }
    true
}

/// Appends a header and the item's value, which is copied if small and pinned if large. Returns
/// none, and appends nothing, if the value could not be pinned.
pub(super) fn add_value(
    item: &Item<'_>,
    header: impl FnOnce(&mut Vec<u8>),
    out: &mut Output,
) -> Option<()> {
    if item.value_len() <= COPY_MAX {
        let bytes = out.bytes_mut();
        header(bytes);
        item.value()
            .for_each(|piece| bytes.extend_from_slice(piece));
        bytes.extend_from_slice(reply::LINE_END);
        return Some(());
    }
    let pin = item.pin()?;
    header(out.bytes_mut());
    out.push_pin(pin);
    out.bytes_mut().extend_from_slice(reply::LINE_END);
    Some(())
}

pub(super) fn count_miss(miss: Miss, context: &mut RequestContext<'_>) {
    match miss {
        Miss::Absent => {}
        Miss::Expired => context.counters.count(Counter::GetExpired),
        Miss::Flushed => context.counters.count(Counter::GetFlushed),
    }
}

/// Counts a get as hit or miss.
pub(super) fn count_get(hit: bool, context: &mut RequestContext<'_>) {
    context.counters.count(Counter::CmdGet);
    count_outcome(context, hit, Counter::GetHits, Counter::GetMisses);
}

/// Counts a touch. As in memcached, a get-and-touch counts as a touch and not as a get, so
/// `get_hits` ÷ `cmd_get` remains the hit rate of gets.
pub(super) fn count_touch(hit: bool, context: &mut RequestContext<'_>) {
    context.counters.count(Counter::CmdTouch);
    count_outcome(context, hit, Counter::TouchHits, Counter::TouchMisses);
}
