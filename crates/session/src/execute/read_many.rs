//! Reads of several keys, two or thousands, answered as far as the output has space.

use protocol::Keys;
use service::Next;
use store::KeyHash;

use super::read::read_key;
use crate::encode::Encode;
use crate::limits::{KEYS_PER_TURN, PREFETCH_KEYS};
use crate::operation::ReadOptions;
use crate::outcome::Outcome;
use crate::prepare::Prepared;
use crate::protocols::WithEncoder;
use crate::session::{Output, RemainingKeys, RequestContext, State, Step};

/// Sets up the state for [`resume`]. `line` is the whole command line.
pub(super) fn begin(
    keys: Keys<'_>,
    touch: Option<i32>,
    request: &Prepared<'_>,
    line: &[u8],
) -> Step {
    let keys_len = keys.as_bytes().len();
    let line_end_len = if line.ends_with(b"\r\n") { 2 } else { 1 };
    let remaining = RemainingKeys {
        keys_len: keys_len as u32,
        line_end_len,
        touch,
        encoder: request.encoder.to_owned(),
    };
    Step::EnterState {
        // Only the name of the command, and for `gat` the time. The keys are input of `resume`.
        len: line.len() - usize::from(line_end_len) - keys_len,
        state: State::Keys(remaining),
    }
}

/// Reads keys at the front of `input`, as many as one turn and the output allow. Returns the number
/// of consumed bytes, and what the session needs to read the remaining keys; `None` if all keys are
/// answered.
pub(crate) fn resume(
    remaining: &mut RemainingKeys,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> (usize, Option<Next>) {
    let unanswered = Keys::new(&input[..remaining.keys_len as usize]);
    let (unanswered_len, next) = remaining.encoder.borrow().dispatch(ReadKeys {
        unanswered,
        touch: remaining.touch,
        context,
        out,
    });
    let answered_len = remaining.keys_len as usize - unanswered_len;
    remaining.keys_len = unanswered_len as u32;
    match next {
        Some(next) => (answered_len, Some(next)),
        None => {
            let line_end_len = usize::from(remaining.line_end_len);
            (answered_len + unanswered_len + line_end_len, None)
        }
    }
}

struct ReadKeys<'r, 'i, 'c> {
    unanswered: Keys<'i>,
    touch: Option<i32>,
    context: &'r mut RequestContext<'c>,
    out: &'r mut Output,
}

impl WithEncoder for ReadKeys<'_, '_, '_> {
    /// Bytes of keys that are not answered, and what the session needs to read them.
    type Result = (usize, Option<Next>);

    fn run(self, encoder: &impl Encode) -> Self::Result {
        let Self {
            mut unanswered,
            touch,
            context,
            out,
        } = self;
        let options = ReadOptions::plain(touch);
        let mut prefetched = [PrefetchedKey::none(unanswered); PREFETCH_KEYS];
        let mut answered = 0;
        let next = 'line: loop {
            let batch = prefetch_keys(&mut unanswered, &mut prefetched, context);
            if batch.is_empty() {
                break None;
            }
            for &PrefetchedKey {
                key,
                hash,
                from_here,
            } in batch
            {
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
                    unanswered = from_here;
                    break 'line stop;
                }
                answered += 1;
            }
        };
        if next.is_none() {
            encoder.outcome(b"", Outcome::ReadMany, out.bytes_mut());
        }
        (unanswered.as_bytes().len(), next)
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

impl<'i> PrefetchedKey<'i> {
    fn none(from_here: Keys<'i>) -> Self {
        Self {
            key: &[],
            hash: KeyHash::default(),
            from_here,
        }
    }
}

/// Takes as many keys as fit into `prefetched`. Prefetches all their buckets, then all their items,
/// so that their cache misses overlap. Returns the taken keys.
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
    for next in &mut *prefetched {
        context.worker.prefetch_item(&mut next.hash);
    }
    prefetched
}
