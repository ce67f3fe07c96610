//! `prefix`: lists, counts or deletes the items whose keys begin with a prefix.
//!
//! The command walks the whole index ([`ItemWalk`](crate::item_walk::ItemWalk)), because items are
//! not ordered by key. The operator of the server sets how many entries of the index the command
//! may visit in a second ([`VisitRate`]). When the rate allows no further step, the session pauses:
//! it issues a *ticket*, a promise of a result that the session waits for. The server completes the
//! ticket after the time [`PREFIX_PAUSE`](crate::limits::PREFIX_PAUSE). Here the result is not
//! used; its arrival gives the session its next turn. Only one such walk exists at a time, so the
//! rate is that of the whole server.

use protocol::reply;
use protocol::{PrefixAction, PrefixCommand};
use store::{Item, WalkAction, item_len};

use crate::dump_fields::fields;
use crate::now::Now;
use crate::visit_rate::VisitRate;

/// A `prefix` command in progress, and the number and size of the items that it has found so far.
#[derive(Debug)]
pub(crate) struct PrefixTask {
    action: PrefixAction,
    prefix: Box<[u8]>,
    /// The number of items found. An item that moves in the index during the walk may be counted
    /// twice.
    items: u64,
    /// The sum of the lengths of these items in bytes. The length of an item is the one that it
    /// would have in memcached, with memcached's overhead ([`item_len`]).
    bytes: u64,
    rate: VisitRate,
}

impl PrefixTask {
    /// The task of `command`, which may visit `entries_per_s` entries of the index in a second.
    pub(crate) fn new(command: PrefixCommand<'_>, entries_per_s: u32) -> Self {
        Self {
            action: command.action,
            prefix: command.prefix.into(),
            items: 0,
            bytes: 0,
            rate: VisitRate::new(entries_per_s),
        }
    }

    /// Whether the walk may make a step now. If so, the step counts as made.
    pub(crate) fn may_step(&mut self) -> bool {
        self.rate.may_step()
    }

    /// Begins a pause. Called after [`may_step`](Self::may_step) has returned false.
    pub(crate) fn pause(&mut self) {
        self.rate.pause();
    }

    /// Counts the item if its key begins with the prefix. If the command lists items, also writes
    /// the item's line of the reply to `output`. Returns whether the walk deletes the item.
    pub(crate) fn visit(
        &mut self,
        key: &[u8],
        item: &Item<'_>,
        now: Now,
        output: &mut Vec<u8>,
    ) -> WalkAction {
        if !key.starts_with(&self.prefix) {
            return WalkAction::Keep;
        }
        self.items += 1;
        self.bytes += item_len(key.len(), item.flags, item.value_len()) as u64;
        match self.action {
            PrefixAction::List => reply::metadump(output, &fields(key, item, now)),
            PrefixAction::Count => {}
            PrefixAction::Delete => return WalkAction::Delete,
        }
        WalkAction::Keep
    }

    /// Writes the end of the reply.
    pub(crate) fn end(&self, output: &mut Vec<u8>) {
        self.write_counts(output);
        output.extend_from_slice(reply::END);
    }

    /// Writes the end of the reply if the walk may have missed items. The counts are written
    /// nevertheless, because a deletion has deleted the items that it counted.
    pub(crate) fn end_incomplete(&self, output: &mut Vec<u8>) {
        self.write_counts(output);
        output.extend_from_slice(reply::DUMP_INCOMPLETE);
    }

    fn write_counts(&self, output: &mut Vec<u8>) {
        if self.action != PrefixAction::List {
            reply::stat_number(output, b"items", self.items);
            reply::stat_number(output, b"bytes", self.bytes);
        }
    }
}
