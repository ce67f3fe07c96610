//! `get`, `gets`, `gat`, `gats`: one key or thousands, answered as there is room.

use protocol::{Get, Keys, reply};
use store::{Item, KeyHash, Miss, Read};

use super::count_outcome;
use crate::counters::Counter;
use crate::limits::{COPY_MAX, KEYS_PER_TURN, PREFETCH_KEYS};
use crate::output::Output;
use crate::prepare::Prepared;
use crate::session::{Next, RemainingKeys, RequestContext, State, Step};

/// Answers a `get` with one key; hands one with several over to [`keys`].
pub(super) fn get(
    command: &Get<'_>,
    prepared: &Prepared<'_>,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Step {
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
        return Step::then(
            prepared.line_len - line_end_len - keys_len,
            State::Keys(remaining),
        );
    }
    let form = Form {
        with_cas: command.with_cas,
        exptime: command.exptime,
    };
    if !one(first, prepared.hash, form, context, out) {
        return Step::Memory;
    }
    out.bytes_mut().extend_from_slice(reply::END);
    Step::done(prepared.line_len)
}

/// Answers keys at the front of `input`, as many as one turn and the output allow. Returns the
/// bytes it is done with and what it needs to go on; none: the line is answered.
pub(crate) fn keys(
    remaining: &mut RemainingKeys,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> (usize, Option<Next>) {
    let form = Form {
        with_cas: remaining.with_cas,
        exptime: remaining.exptime,
    };
    let mut left = Keys::new(&input[..remaining.keys_len]);
    let mut answered = 0;
    let next = 'line: loop {
        let (ahead, count) = prefetch_keys(&mut left, context);
        if count == 0 {
            break None;
        }
        for &PrefetchedKey { key, hash, before } in &ahead[..count] {
            let stop = if answered == KEYS_PER_TURN {
                Some(Next::Yield)
            } else if out.is_full() {
                Some(Next::OutputSpace)
            } else if !one(key, hash, form, context, out) {
                Some(Next::Memory)
            } else {
                None
            };
            if stop.is_some() {
                left = before;
                break 'line stop;
            }
            answered += 1;
        }
    };
    let done = remaining.keys_len - left.as_bytes().len();
    remaining.keys_len -= done;
    match next {
        Some(next) => (done, Some(next)),
        None => {
            out.bytes_mut().extend_from_slice(reply::END);
            (done + remaining.keys_len + remaining.line_end_len, None)
        }
    }
}

/// A key of several that are asked for together.
#[derive(Clone, Copy)]
struct PrefetchedKey<'i> {
    key: &'i [u8],
    hash: KeyHash,
    /// This key and those behind it.
    before: Keys<'i>,
}

/// Takes the next few keys and asks for the memory they will visit, all buckets and then all items,
/// so that their cache misses are one another's company. Returns how many they are.
fn prefetch_keys<'i>(
    left: &mut Keys<'i>,
    context: &mut RequestContext<'_>,
) -> ([PrefetchedKey<'i>; PREFETCH_KEYS], usize) {
    let none = PrefetchedKey {
        key: &[],
        hash: KeyHash::default(),
        before: *left,
    };
    let mut ahead = [none; PREFETCH_KEYS];
    let mut count = 0;
    for slot in &mut ahead {
        let before = *left;
        let Some(key) = left.next() else { break };
        let hash = context.worker.hash(key);
        context.worker.prefetch(hash);
        *slot = PrefetchedKey { key, hash, before };
        count += 1;
    }
    for next in &mut ahead[..count] {
        context.worker.prefetch_item(&mut next.hash);
    }
    (ahead, count)
}

#[derive(Clone, Copy)]
struct Form {
    with_cas: bool,
    exptime: Option<i32>,
}

/// Answers one key; false: a large value could not be pinned, and nothing was said.
fn one(
    key: &[u8],
    hash: KeyHash,
    form: Form,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> bool {
    let how = Read {
        touch: form.exptime.map(|exptime| context.now.expiry(exptime)),
        pins_above: Some(COPY_MAX),
        ..Read::default()
    };
    let shown = context
        .worker
        .read(key, hash, context.now.elapsed_s, how, |item| {
            let header = |bytes: &mut Vec<u8>| {
                let cas = form.with_cas.then_some(item.cas);
                reply::value_header(bytes, key, item.flags, item.value_len() as u32, cas);
            };
            add_value(item, header, out)
        });
    match shown {
        Ok(Some(())) => {}
        Ok(None) => return false,
        Err(miss) => count_miss(miss, context),
    }
    match form.exptime {
        Some(_) => count_touch(shown.is_ok(), context),
        None => count_get(shown.is_ok(), context),
    }
    true
}

/// Adds a header and the item's value: copied if small, pinned if large; none: it could not be
/// pinned, and nothing was added.
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

/// Counts a get.
pub(super) fn count_get(hit: bool, context: &mut RequestContext<'_>) {
    context.counters.count(Counter::CmdGet);
    count_outcome(context, hit, Counter::GetHits, Counter::GetMisses);
}

/// Counts a touch. As in memcached a get-and-touch is one of these and no get, so that
/// `get_hits` ÷ `cmd_get` stays the hit rate of gets.
pub(super) fn count_touch(hit: bool, context: &mut RequestContext<'_>) {
    context.counters.count(Counter::CmdTouch);
    count_outcome(context, hit, Counter::TouchHits, Counter::TouchMisses);
}
