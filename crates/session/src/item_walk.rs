//! Lists of all items, and the removal of expired ones, in steps.
//!
//! A session that lists items is in a state of its own ([`State::Walk`](crate::session::State)). In
//! each turn it visits a bounded number of items. The next turn comes after the turns of other
//! connections, and after the peer has taken the output. So a list delays other connections only by
//! the length of a turn, and needs no memory beyond a buffer, however slow its reader is.

use protocol::reply::{self, DumpFields};
use protocol::{Classes, Crawler, DumpForm};
use service::Next;
use store::{Expiry, Item, Walk, WalkAction, WalkStep, item_len};

use crate::limits::{WALK_BUCKETS, WALK_ITEMS_PER_TURN, WALK_STEPS_PER_TURN};
use crate::now::Now;
use crate::outcome::{Restricted, ServerOutcome};
use crate::session::{Output, RequestContext};

/// The unfinished part of a list.
#[derive(Debug)]
pub(crate) struct ItemWalk {
    walk: Walk,
    task: Task,
}

/// What to do with each item.
#[derive(Debug, Clone, Copy)]
enum Task {
    /// Removes it if it has expired.
    Crawl,
    /// Lists it, if it is of one of these classes.
    Dump(DumpForm, Classes),
    /// Lists it, if it is of this class and fewer than `left` have been listed.
    CacheDump { class: u32, left: u64 },
}

impl ItemWalk {
    /// Begins a dump or a crawl, and writes the first line of its reply. `None`: the command is
    /// neither.
    ///
    /// # Errors
    /// The reply, if it cannot begin.
    pub(crate) fn crawler(
        crawler: Crawler,
        context: &RequestContext<'_>,
        bytes: &mut Vec<u8>,
    ) -> Option<Result<Self, ServerOutcome>> {
        let (task, restricted) = match crawler {
            Crawler::Enable | Crawler::Disable => return None,
            Crawler::Crawl(_) => (Task::Crawl, None),
            Crawler::Dump(form, classes) => {
                let restricted = match form {
                    DumpForm::Metadump => Restricted::Metadump,
                    DumpForm::Mgdump => Restricted::Mgdump,
                };
                (Task::Dump(form, classes), Some(restricted))
            }
        };
        if !context.control.is_crawler_enabled() {
            return Some(Err(ServerOutcome::CrawlerDisabled));
        }
        if let Some(restricted) = restricted
            && !context.control.permissions().dump
        {
            return Some(Err(ServerOutcome::NotAllowed(restricted)));
        }
        let Some(walk) = context.worker.store().walk() else {
            return Some(Err(ServerOutcome::CrawlerBusy));
        };
        bytes.extend_from_slice(reply::OK);
        Some(Ok(Self { walk, task }))
    }

    /// Begins a `stats cachedump`. `limit` is the maximum number of items, 0 for all.
    pub(crate) fn cachedump(class: u32, limit: u32, context: &RequestContext<'_>) -> Self {
        let left = match limit {
            0 => u64::MAX,
            limit => limit.into(),
        };
        Self {
            walk: context.worker.store().survey(),
            task: Task::CacheDump { class, left },
        }
    }

    /// Visits as many items as one turn allows. Returns what the session needs to continue, or
    /// `None` at the end of the list.
    pub(crate) fn resume(
        &mut self,
        context: &mut RequestContext<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        let mut visited = 0;
        for _ in 0..WALK_STEPS_PER_TURN {
            if visited >= WALK_ITEMS_PER_TURN {
                break;
            }
            if out.is_full() {
                return Some(Next::OutputSpace);
            }
            match self.step(&mut visited, context, out) {
                WalkStep::More if !self.task.is_done() => {}
                WalkStep::More | WalkStep::Done => {
                    out.bytes_mut().extend_from_slice(self.task.end());
                    return None;
                }
                WalkStep::Incomplete => {
                    if let Task::Dump(..) = self.task {
                        out.bytes_mut().extend_from_slice(reply::DUMP_INCOMPLETE);
                    }
                    return None;
                }
            }
        }
        Some(Next::Yield)
    }

    /// Makes a step, and adds the number of its items to `visited`.
    fn step(
        &mut self,
        visited: &mut usize,
        context: &mut RequestContext<'_>,
        out: &mut Output,
    ) -> WalkStep {
        let now = context.now;
        let (task, bytes) = (&mut self.task, out.bytes_mut());
        let reclaims = matches!(task, Task::Crawl);
        let visit = |key: &[u8], item: &Item<'_>| {
            *visited += 1;
            task.visit(key, item, now, bytes);
            WalkAction::Keep
        };
        context
            .worker
            .walk::<WALK_BUCKETS>(&mut self.walk, now.elapsed_s, reclaims, visit)
    }
}

impl Task {
    fn visit(&mut self, key: &[u8], item: &Item<'_>, now: Now, bytes: &mut Vec<u8>) {
        let class = item.size_class().number();
        match self {
            Self::Crawl => {}
            Self::Dump(_, classes) if !classes.contains(class) => {}
            Self::Dump(DumpForm::Metadump, _) => reply::metadump(bytes, &fields(key, item, now)),
            Self::Dump(DumpForm::Mgdump, _) => reply::mgdump(bytes, &fields(key, item, now)),
            Self::CacheDump {
                class: wanted,
                left,
            } => {
                if *left > 0 && *wanted == class {
                    *left -= 1;
                    reply::cachedump(bytes, &fields(key, item, now));
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        matches!(self, Self::CacheDump { left: 0, .. })
    }

    /// The last line of the reply.
    fn end(&self) -> &'static [u8] {
        match self {
            Self::Crawl => b"",
            Self::Dump(DumpForm::Metadump, _) | Self::CacheDump { .. } => reply::END,
            Self::Dump(DumpForm::Mgdump, _) => reply::MGDUMP_END,
        }
    }
}

fn fields<'k>(key: &'k [u8], item: &Item<'_>, now: Now) -> DumpFields<'k> {
    let left_s = match item.expiry {
        Expiry::NEVER => None,
        expiry => expiry.seconds_left(now.elapsed_s),
    };
    let now_s = u64::from(now.elapsed_s) + now.epoch_unix_s;
    let idle_s = now.elapsed_s.saturating_sub(item.last_access_s);
    DumpFields {
        key,
        expires_s: left_s.map(|left_s| now_s + u64::from(left_s)),
        accessed_s: now_s.saturating_sub(idle_s.into()),
        cas: item.cas,
        fetched: item.fetched,
        class: item.size_class().number(),
        item_len: item_len(key.len(), item.flags, item.value_len()) as u64,
        client_flags: item.flags,
        base64_key: item.base64_key,
        value_len: item.value_len() as u64,
    }
}
