//! `stats sizes`: the number of items in each range of sizes. To count them, the command visits all
//! items.

use std::collections::BTreeMap;

use service::Next;
use store::{Walk, WalkAction, WalkStep, item_len};

use crate::control::StatWriter;
use crate::encode::{Encode, NO_KEY};
use crate::limits::{SIZES_PER_TURN, WALK_BUCKETS, WALK_ITEMS_PER_TURN, WALK_STEPS_PER_TURN};
use crate::outcome::{Outcome, ServerOutcome};
use crate::protocols::{OwnedEncoder, WithEncoder};
use crate::session::{Output, RequestContext};

/// Width of a range of sizes in bytes, as in memcached.
const RANGE_LEN: usize = 32;

/// A `stats sizes` in progress.
#[derive(Debug)]
pub(crate) struct SizeHistogram {
    /// The walk of the store's items. `None`: all items have been counted.
    walk: Option<Walk>,
    /// The number of items in each range of sizes. The key is the upper bound of the range, in
    /// bytes.
    counts: BTreeMap<usize, u64>,
    encoder: OwnedEncoder,
}

impl SizeHistogram {
    pub(crate) fn new(walk: Walk, encoder: OwnedEncoder) -> Self {
        Self {
            walk: Some(walk),
            counts: BTreeMap::new(),
            encoder,
        }
    }

    /// Visits as many items as a turn allows. When all items have been visited, writes as many
    /// counts as a turn allows. Returns what the session needs to continue, or `None` at the end.
    pub(crate) fn resume(
        &mut self,
        context: &mut RequestContext<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        if self.walk.is_some() {
            self.count(context);
            return Some(Next::Yield);
        }
        let (counts, bytes) = (&mut self.counts, out.bytes_mut());
        self.encoder
            .borrow()
            .dispatch(WriteCounts { counts, bytes })
    }

    /// Visits and counts as many items as a turn allows.
    fn count(&mut self, context: &mut RequestContext<'_>) {
        let (now_s, mut visited) = (context.now.elapsed_s, 0);
        for _ in 0..WALK_STEPS_PER_TURN {
            let Some(walk) = self.walk.as_mut().filter(|_| visited < WALK_ITEMS_PER_TURN) else {
                return;
            };
            let counts = &mut self.counts;
            let step = context
                .worker
                .walk::<WALK_BUCKETS>(walk, now_s, false, |key, item| {
                    let len = item_len(key.len(), item.flags, item.value_len());
                    *counts.entry(len.next_multiple_of(RANGE_LEN)).or_default() += 1;
                    visited += 1;
                    WalkAction::Keep
                });
            if step != WalkStep::More {
                self.walk = None;
            }
        }
    }
}

/// The arguments for writing counts. `run` is compiled separately for each encoder. It removes the
/// counts that it has written, and returns what the session needs to continue.
struct WriteCounts<'a> {
    counts: &'a mut BTreeMap<usize, u64>,
    bytes: &'a mut Vec<u8>,
}

impl WithEncoder for WriteCounts<'_> {
    type Result = Option<Next>;

    fn run(self, encoder: &impl Encode) -> Option<Next> {
        for _ in 0..SIZES_PER_TURN {
            let Some((bound, count)) = self.counts.pop_first() else {
                encoder.outcome(NO_KEY, Outcome::Server(ServerOutcome::StatsEnd), self.bytes);
                return None;
            };
            encoder
                .stats(self.bytes)
                .number(bound.to_string().as_bytes(), count);
        }
        Some(Next::OutputSpace)
    }
}
