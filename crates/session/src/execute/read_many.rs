//! Reads of several keys, possibly of thousands. A turn answers a bounded number of keys. It ends
//! earlier if the output is full, or if a key has to wait for memory or for the tier. A later turn
//! continues.

use protocol::{AfterKeys, Keys, Rejection};
use service::Next;
use store::KeyHash;

use super::read::read_key;
use crate::encode::{Encode, NO_KEY};
use crate::limits::{KEYS_PER_TURN, PREFETCH_KEYS};
use crate::operation::ReadOptions;
use crate::outcome::Outcome;
use crate::prepare::Prepared;
use crate::protocols::WithEncoder;
use crate::session::{Output, RemainingKeys, RequestContext, State, Step};

/// Begins a read of `keys`. Answers none of them: the returned step puts the session into the state
/// [`State::Keys`], in which it calls [`resume`]. `line` is the command line, or the front of it.
pub(super) fn begin(
    keys: Keys<'_>,
    touch: Option<i32>,
    request: &Prepared<'_>,
    line: &[u8],
) -> Step {
    // The keys and the line end remain in the input, from where `resume` reads them.
    let (len, remaining) = RemainingKeys::begin(keys, touch, request.encoder, line);
    Step::EnterState {
        len,
        state: State::Keys(remaining),
    }
}

/// Answers the keys at the front of `input`, until all are answered or the turn ends. Returns the
/// number of consumed bytes of input. Also returns what the session needs before it can answer the
/// remaining keys, or `None` if all keys of the line are answered.
pub(crate) fn resume(
    remaining: &mut RemainingKeys,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> (usize, Option<Next>) {
    let unanswered = Keys::new(&input[..remaining.keys_len as usize]);
    let (unanswered_len, next) = remaining.encoder.borrow().dispatch(ReadKeys {
        unanswered,
        after: remaining.after,
        touch: remaining.touch,
        context,
        out,
    });
    let answered_len = remaining.keys_len as usize - unanswered_len;
    if next.is_some() {
        remaining.keys_len = unanswered_len as u32;
        return (answered_len, next);
    }
    // The unanswered bytes contain no key. They can only be spaces.
    let keys_len = answered_len + unanswered_len;
    let (len, next) = remaining.advance(&input[keys_len..]);
    (keys_len + len, next)
}

/// The arguments of [`resume`], for the code that is compiled for each encoder.
struct ReadKeys<'r, 'i, 'c> {
    unanswered: Keys<'i>,
    after: Option<AfterKeys>,
    touch: Option<i32>,
    context: &'r mut RequestContext<'c>,
    out: &'r mut Output,
}

impl WithEncoder for ReadKeys<'_, '_, '_> {
    /// The length of the unanswered keys in bytes. Also what the session needs before it can answer
    /// them, or `None` if all keys are answered.
    type Result = (usize, Option<Next>);

    fn run(self, encoder: &impl Encode) -> Self::Result {
        let Self {
            mut unanswered,
            after,
            touch,
            context,
            out,
        } = self;
        let options = ReadOptions::plain(touch);
        let mut prefetched = [PrefetchedKey::placeholder(unanswered); PREFETCH_KEYS];
        let mut answered = 0;
        let next = 'line: loop {
            let batch = prefetch_keys(&mut unanswered, &mut prefetched, context);
            if batch.is_empty() {
                break None;
            }
            for (at, prefetched) in batch.iter().enumerate() {
                let &PrefetchedKey {
                    key,
                    hash,
                    from_here,
                } = prefetched;
                // What the session needs, if the turn ends here. `Next::Memory` also stands for a
                // read of the tier; the session then replaces it.
                let stop = if answered == KEYS_PER_TURN {
                    Some(Next::Yield)
                } else if out.is_full() {
                    Some(Next::OutputSpace)
                } else if read_key(encoder, key, &options, hash, context, out).is_none() {
                    Some(Next::Memory)
                } else {
                    None
                };
                if stop.is_some() {
                    // If this key waits for its item from the tier, the session reads the items of
                    // the later keys from there at the same time. Otherwise `want_too` has no
                    // effect.
                    for later in &batch[at + 1..] {
                        context.want_too(later.key, later.hash);
                    }
                    unanswered = from_here;
                    break 'line stop;
                }
                answered += 1;
                // The next key may again wait for the tier as often as a request may.
                context.note_progress();
            }
        };
        if next.is_none() {
            let outcome = match after {
                Some(AfterKeys::LineEnd(_)) => Some(Outcome::ReadMany),
                Some(AfterKeys::BadKey) => Some(Outcome::Rejected(Rejection::BadGetKey)),
                Some(AfterKeys::More) | None => None,
            };
            if let Some(outcome) = outcome {
                encoder.outcome(NO_KEY, outcome, out.bytes_mut());
            }
        }
        (unanswered.as_bytes().len(), next)
    }
}

/// A key whose index buckets and item have been prefetched.
#[derive(Clone, Copy)]
struct PrefetchedKey<'i> {
    key: &'i [u8],
    hash: KeyHash,
    /// This key and all later keys of the command. If the turn ends before this key is answered,
    /// these are the unanswered keys.
    from_here: Keys<'i>,
}

impl<'i> PrefetchedKey<'i> {
    /// A placeholder for an array that [`prefetch_keys`] fills.
    fn placeholder(from_here: Keys<'i>) -> Self {
        Self {
            key: &[],
            hash: KeyHash::default(),
            from_here,
        }
    }
}

/// Takes from `keys` as many keys as fit into `prefetched`, and returns the filled part of
/// `prefetched`. Prefetches first the index buckets of all these keys and then their items, so that
/// the processor's cache misses for different keys overlap.
fn prefetch_keys<'p, 'i>(
    keys: &mut Keys<'i>,
    prefetched: &'p mut [PrefetchedKey<'i>; PREFETCH_KEYS],
    context: &RequestContext<'_>,
) -> &'p [PrefetchedKey<'i>] {
    let mut count = 0;
    for slot in &mut *prefetched {
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
    let prefetched = &mut prefetched[..count];
    for key in &mut *prefetched {
        // Also stores the position of the index entry in the hash, for the read.
        context.worker.prefetch_item(&mut key.hash);
    }
    prefetched
}
