//! Lists of all items, and the removal of expired ones, in steps.
//!
//! A session that lists items is in a state of its own ([`State::Walk`](crate::session::State)). In
//! each turn (one call of the session) it visits a bounded number of items. The session's next turn
//! comes after the turns of other connections, and after its client has received the output. So a
//! list delays other connections only by the length of a turn. It needs no memory beyond an output
//! buffer, however slowly the client receives.

use protocol::reply;
use protocol::{Classes, Crawler, DumpForm, PrefixAction, PrefixCommand};
use service::Next;
use store::{Item, Walk, WalkAction, WalkStep};

use crate::dump_fields::fields;
use crate::limits::{WALK_BUCKETS, WALK_ITEMS_PER_TURN, WALK_STEPS_PER_TURN};
use crate::now::Now;
use crate::outcome::{Restricted, ServerOutcome};
use crate::prefix_task::PrefixTask;
use crate::session::{Output, RequestContext};

/// The unfinished part of a command that visits all items: how far its walk of the store has come,
/// and what to do with each item.
#[derive(Debug)]
pub(crate) struct ItemWalk {
    walk: Walk,
    task: Task,
}

/// What to do with each item that the walk visits.
#[derive(Debug)]
enum Task {
    /// Nothing. The store removes expired items during the walk, and visits only the others.
    Crawl,
    /// Lists the item, if it is of one of these size classes.
    Dump(DumpForm, Classes),
    /// Lists the item, if it is of this size class. The list ends after `left` more items.
    CacheDump { class: u32, left: u64 },
    /// Lists, counts or deletes the item, if its key begins with a prefix.
    Prefix(PrefixTask),
}

impl ItemWalk {
    /// Begins a dump or a crawl, and writes the first line of its reply. Returns `None` if the
    /// command is neither a dump nor a crawl.
    ///
    /// # Errors
    /// The dump or crawl cannot begin. The error is the reply to the client.
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
        let Some(walk) = context.worker.store().walk(context.now.elapsed_s) else {
            return Some(Err(ServerOutcome::CrawlerBusy));
        };
        bytes.extend_from_slice(reply::OK);
        Some(Ok(Self { walk, task }))
    }

    /// Begins a `prefix` command.
    ///
    /// # Errors
    /// The command cannot begin. The error is the reply to the client.
    pub(crate) fn prefix(
        command: PrefixCommand<'_>,
        context: &RequestContext<'_>,
    ) -> Result<Self, ServerOutcome> {
        // The maximum speed of the walk. `None`: the server does not have the command `prefix`.
        let rate = context.control.prefix_rate();
        let rate = rate.ok_or(ServerOutcome::Unsupported)?;
        let permissions = context.control.permissions();
        match command.action {
            PrefixAction::List if !permissions.dump => {
                return Err(ServerOutcome::NotAllowed(Restricted::PrefixList));
            }
            PrefixAction::Delete if !permissions.flush => {
                return Err(ServerOutcome::NotAllowed(Restricted::PrefixDelete));
            }
            PrefixAction::List | PrefixAction::Count | PrefixAction::Delete => {}
        }
        let walk = context.worker.store().walk(context.now.elapsed_s);
        Ok(Self {
            walk: walk.ok_or(ServerOutcome::CrawlerBusy)?,
            task: Task::Prefix(PrefixTask::new(command, rate)),
        })
    }

    /// Begins a `stats cachedump` of a size class. `limit` is the maximum number of items, 0 for
    /// all.
    pub(crate) fn cachedump(class: u32, limit: u32, context: &RequestContext<'_>) -> Self {
        let left = match limit {
            0 => u64::MAX,
            limit => limit.into(),
        };
        Self {
            // A survey is a walk that may miss items. Any number of surveys may exist at a time,
            // but only one complete walk.
            walk: context.worker.store().survey(),
            task: Task::CacheDump { class, left },
        }
    }

    /// Visits as many items as one turn allows. Returns what the session needs to continue, or
    /// `None` at the end of the walk.
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
            if let Task::Prefix(task) = &mut self.task
                && !task.may_step()
            {
                return Some(pause(task, context));
            }
            match self.step(&mut visited, context, out) {
                WalkStep::More if !self.task.is_done() => {}
                WalkStep::More | WalkStep::Done => {
                    self.task.end(out.bytes_mut());
                    return None;
                }
                // The walk has ended, and may have missed items.
                WalkStep::Incomplete => {
                    self.task.end_incomplete(out.bytes_mut());
                    return None;
                }
            }
        }
        Some(Next::Yield)
    }

    /// Visits the items of the next [`WALK_BUCKETS`] buckets, and adds the number of these items to
    /// `visited`.
    fn step(
        &mut self,
        visited: &mut usize,
        context: &mut RequestContext<'_>,
        out: &mut Output,
    ) -> WalkStep {
        let now = context.now;
        let (task, bytes) = (&mut self.task, out.bytes_mut());
        // Whether the store removes the expired items of these buckets. Even if it does not remove
        // them, it does not pass them to `visit`.
        let reclaims = matches!(task, Task::Crawl);
        let visit = |key: &[u8], item: &Item<'_>| {
            *visited += 1;
            task.visit(key, item, now, bytes)
        };
        context
            .worker
            .walk::<WALK_BUCKETS>(&mut self.walk, now.elapsed_s, reclaims, visit)
    }
}

/// Begins a pause of a `prefix` command, because its rate allows no further step now. Returns what
/// the session needs to continue.
fn pause(task: &mut PrefixTask, context: &mut RequestContext<'_>) -> Next {
    // The server completes the ticket after the pause, which gives this session a turn.
    let Some(ticket) = context.issue_ticket() else {
        // The worker has a limited number of tickets, and all of them are in use. The session tries
        // again in its next turn.
        return Next::Yield;
    };
    task.pause();
    context.control.pause(ticket);
    Next::Completion
}

impl Task {
    fn visit(&mut self, key: &[u8], item: &Item<'_>, now: Now, bytes: &mut Vec<u8>) -> WalkAction {
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
            Self::Prefix(task) => return task.visit(key, item, now, bytes),
        }
        WalkAction::Keep
    }

    fn is_done(&self) -> bool {
        matches!(self, Self::CacheDump { left: 0, .. })
    }

    /// Writes the last lines of the reply, after a walk that may have missed items.
    fn end_incomplete(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Crawl | Self::CacheDump { .. } => {}
            Self::Dump(..) => bytes.extend_from_slice(reply::DUMP_INCOMPLETE),
            Self::Prefix(task) => task.end_incomplete(bytes),
        }
    }

    /// Writes the last lines of the reply.
    fn end(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Crawl => {}
            Self::Dump(DumpForm::Metadump, _) | Self::CacheDump { .. } => {
                bytes.extend_from_slice(reply::END);
            }
            Self::Dump(DumpForm::Mgdump, _) => bytes.extend_from_slice(reply::MGDUMP_END),
            Self::Prefix(task) => task.end(bytes),
        }
    }
}
