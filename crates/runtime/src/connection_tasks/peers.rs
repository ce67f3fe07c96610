//! The list of all connected peers, each with its task (the thread or fibre that serves it). The
//! supervisor thread and the tasks search this list for connections that have to be closed. The
//! task of such a connection may sleep in a system call on its socket. Shutting down the socket
//! wakes the task. Only the receiving direction is shut down if the task may still send replies.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::socket::Stream;

use crate::buffered::is_inactive;
use crate::connection::{Overdue, is_silent};
use crate::connection_table::Slot;
use crate::setup::second;
use crate::transfer::Transfer;

/// A connected peer: its socket, and what its task publishes for the supervisor and other tasks.
///
/// The task writes `is_idle`, `holds_memory`, `active_s`, `waits_elsewhere` and
/// `input_deadline_ns`. The supervisor also clears `input_deadline_ns`. `is_shut` is set by the
/// supervisor, or by any task that closes the connection. All accesses are relaxed: the threads
/// that read these fields do so repeatedly, so they may see a change late.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) stream: Stream,
    /// True while the task waits for the first bytes of a request, or discards input before it
    /// ends. Replies to earlier requests may still be sent meanwhile.
    is_idle: AtomicBool,
    /// True while the task holds memory of the service, for which other connections may wait. False
    /// while `waits_elsewhere` is true, because the peer is then not the cause of the delay.
    holds_memory: AtomicBool,
    /// The second (by [`second`]) in which a byte was last received or sent, or in which the task
    /// last ended a wait for something other than the peer.
    active_s: AtomicU32,
    pub(crate) transfer: Transfer,
    /// True while the task waits for something other than its peer: for memory, or for the result
    /// of a ticket.
    waits_elsewhere: AtomicBool,
    /// The time, in nanoseconds of the monotonic clock, by which the rest of a begun request has to
    /// arrive. `u64::MAX` if there is no such time.
    input_deadline_ns: AtomicU64,
    /// True once both directions of the socket are shut down, or are about to be. The task then has
    /// to end.
    is_shut: AtomicBool,
    /// The bytes that the sum in `connection_tasks/buffered.rs` contains for this task. Changes
    /// only under the lock of that sum.
    buffered: AtomicU64,
}

impl Peer {
    pub(crate) fn new(stream: Stream, now_s: u32) -> Self {
        Self {
            stream,
            is_idle: AtomicBool::new(false),
            holds_memory: AtomicBool::new(false),
            active_s: AtomicU32::new(now_s),
            transfer: Transfer::default(),
            waits_elsewhere: AtomicBool::new(false),
            input_deadline_ns: AtomicU64::new(u64::MAX),
            is_shut: AtomicBool::new(false),
            buffered: AtomicU64::new(0),
        }
    }

    pub(crate) fn set_idle(&self, is_idle: bool) {
        self.is_idle.store(is_idle, Ordering::Relaxed);
    }

    /// Sets whether the task holds memory of the service.
    pub(crate) fn set_holding(&self, holds_memory: bool) {
        self.holds_memory.store(holds_memory, Ordering::Relaxed);
    }

    pub(crate) fn set_active(&self, now_s: u32) {
        self.active_s.store(now_s, Ordering::Relaxed);
    }

    pub(crate) fn set_waiting_elsewhere(&self, waits: bool) {
        self.waits_elsewhere.store(waits, Ordering::Relaxed);
    }

    /// Sets the time by which the rest of a begun request has to arrive.
    pub(crate) fn set_input_deadline(&self, deadline_ns: Option<u64>) {
        let deadline_ns = deadline_ns.unwrap_or(u64::MAX);
        self.input_deadline_ns.store(deadline_ns, Ordering::Relaxed);
    }

    /// Returns `None` if the task has not been waiting for its peer for too long, otherwise which
    /// limit of this wait is exceeded. `idle_s` is the number of seconds that the peer may be
    /// silent.
    pub(crate) fn overdue(&self, idle_s: Option<u32>, now_ns: u64) -> Option<Overdue> {
        if self.waits_elsewhere.load(Ordering::Relaxed) || self.is_shut() {
            return None;
        }
        if now_ns > self.input_deadline_ns.load(Ordering::Relaxed) {
            return Some(Overdue::Deadline);
        }
        let active_s = self.active_s.load(Ordering::Relaxed);
        is_silent(active_s, idle_s, second(now_ns)).then_some(Overdue::Idle)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    /// Returns whether both directions of the socket are shut down. The task then has to end, and
    /// answers no further input.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    /// Returns whether the last activity of the connection (`active_s`) is more than a second ago,
    /// and the task does not wait for something other than its peer. Such a task waits for its
    /// peer, or has been answering requests for more than a second.
    pub(super) fn has_inactive_peer(&self, now_s: u32) -> bool {
        let waits_elsewhere = self.waits_elsewhere.load(Ordering::Relaxed);
        !waits_elsewhere && is_inactive(self.active_s.load(Ordering::Relaxed), now_s)
    }

    /// Returns the bytes that the sum in `connection_tasks/buffered.rs` contains for this task.
    pub(crate) fn buffered(&self) -> u64 {
        self.buffered.load(Ordering::Relaxed)
    }

    /// Sets the bytes that the sum contains for this task, and returns the old value. The caller
    /// holds the lock of the sum, and changes the sum by the difference.
    pub(super) fn set_buffered(&self, bytes: u64) -> u64 {
        self.buffered.swap(bytes, Ordering::Relaxed)
    }

    /// Returns whether the connection is a slow holder: the task holds memory of the service, and
    /// its peer has been too slow for some seconds. Returns false if the socket is already shut
    /// down.
    pub(crate) fn is_slow_holder(&self, now_s: u32) -> bool {
        if !self.holds_memory.load(Ordering::Relaxed) || self.is_shut() {
            self.transfer.end_watch();
            return false;
        }
        self.transfer.is_too_slow(now_s)
    }

    /// Shuts down both directions of the socket. A task that waits for input or for space to send
    /// is woken immediately. A task in another wait notices the shutdown after the timeout of this
    /// wait. Then the task ends.
    pub(crate) fn shut(&self) {
        if self.begin_shut() {
            self.stream.shut();
        }
    }

    /// Records that the connection is closed, for a caller that then shuts down the socket. Returns
    /// false if another caller has recorded this before.
    pub(super) fn begin_shut(&self) -> bool {
        !self.is_shut.swap(true, Ordering::Relaxed)
    }
}

/// The list of all connected peers, and the finished tasks that have not been joined. `T` is the
/// handle of a task.
#[derive(Debug)]
pub(crate) struct Peers<T> {
    list: Mutex<List<T>>,
}

/// The content of [`Peers`].
#[derive(Debug)]
struct List<T> {
    /// The entries. Here, a [`Slot`] is an index into this vector.
    entries: Vec<PeerEntry<T>>,
    /// The slots of the entries that are [`PeerEntry::Free`].
    free: Vec<Slot>,
    /// The handles of tasks to join. Such a task has ended, or is about to end and no longer has an
    /// entry.
    finished: Vec<T>,
}

/// An entry in the list of peers. The acceptor inserts the entry, then starts the task, and then
/// attaches the handle of the task to the entry. The task may finish before the last of these
/// steps.
#[derive(Debug)]
enum PeerEntry<T> {
    /// The entry is unused.
    Free,
    /// A connected peer, and the handle of its task. `None` until the handle is attached.
    Connected(Arc<Peer>, Option<T>),
    /// The task has finished, but its handle has not been attached yet.
    Finished,
}

impl<T> Default for Peers<T> {
    fn default() -> Self {
        let list = List {
            entries: Vec::new(),
            free: Vec::new(),
            finished: Vec::new(),
        };
        Self {
            list: Mutex::new(list),
        }
    }
}

impl<T> Peers<T> {
    /// Inserts an entry for a peer and returns the slot of the entry. `max` is the maximum number
    /// of tasks. Returns `None` if there are as many: each used entry and each finished task counts
    /// as a task.
    pub(crate) fn insert(&self, peer: Arc<Peer>, max: usize) -> Option<Slot> {
        let mut list = self.list();
        let entry = PeerEntry::Connected(peer, None);
        if list.entries.len() - list.free.len() + list.finished.len() >= max {
            return None;
        }
        if let Some(slot) = list.free.pop() {
            list.entries[slot] = entry;
            return Some(slot);
        }
        list.entries.push(entry);
        Some(list.entries.len() - 1)
    }

    /// Attaches the handle of a started task to the entry in this slot. If the task has finished
    /// already, frees the entry instead, and keeps the handle for the supervisor. Returns true if
    /// the supervisor has to be woken, to join this task.
    #[must_use]
    pub(crate) fn attach_task(&self, slot: Slot, task: T) -> bool {
        let mut list = self.list();
        if let PeerEntry::Connected(_, attached) = &mut list.entries[slot] {
            *attached = Some(task);
            return false;
        }
        list.free_entry(slot, Some(task))
    }

    /// Frees an entry whose task could not be started.
    pub(crate) fn remove(&self, slot: Slot) {
        self.list().free_entry(slot, None);
    }

    /// Records that the task of the entry in this slot is about to end. Called by this task. The
    /// list drops its reference to the peer here, under the lock. The task still has a reference,
    /// so the socket is not closed under the lock. Returns true if the supervisor has to be woken,
    /// to join the task.
    #[must_use]
    pub(crate) fn finish(&self, slot: Slot) -> bool {
        let mut list = self.list();
        match std::mem::replace(&mut list.entries[slot], PeerEntry::Finished) {
            PeerEntry::Connected(_, Some(task)) => list.free_entry(slot, Some(task)),
            // The handle is not attached yet. `attach_task` will free the entry.
            _ => false,
        }
    }

    /// Takes the handles of the finished tasks out of the list. The caller joins these tasks.
    pub(crate) fn take_finished(&self) -> Vec<T> {
        std::mem::take(&mut self.list().finished)
    }

    /// Returns the peers for which `filter` returns true. The list is no longer locked when this
    /// call has returned, so the caller may then make system calls on the sockets.
    pub(crate) fn select(&self, filter: impl Fn(&Peer) -> bool) -> Vec<Arc<Peer>> {
        let list = self.list();
        let peers = list.entries.iter().filter_map(|entry| match entry {
            PeerEntry::Connected(peer, _) => Some(peer),
            _ => None,
        });
        peers.filter(|peer| filter(peer)).map(Arc::clone).collect()
    }

    /// Calls `check` for each peer in the `max` entries from slot `start` on. Returns each peer for
    /// which `check` has returned a value, together with this value. Also returns the slot of the
    /// next entry, from which another call can continue, or `None` if there is no further entry.
    pub(crate) fn find<R>(
        &self,
        start: Slot,
        max: usize,
        check: impl Fn(&Peer) -> Option<R>,
    ) -> (Vec<(Arc<Peer>, R)>, Option<Slot>) {
        let list = self.list();
        let len = list.entries.len();
        let (start, end) = (start.min(len), start.saturating_add(max).min(len));
        let found = list.entries[start..end].iter().filter_map(|entry| {
            let PeerEntry::Connected(peer, _) = entry else {
                return None;
            };
            Some((Arc::clone(peer), check(peer)?))
        });
        (found.collect(), (end < len).then_some(end))
    }

    /// Returns true if there is no used entry and no finished task to join.
    pub(crate) fn is_empty(&self) -> bool {
        let list = self.list();
        list.free.len() == list.entries.len() && list.finished.is_empty()
    }

    fn list(&self) -> MutexGuard<'_, List<T>> {
        // A poisoned lock can be used: no code panics between changes of the list that belong
        // together.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> List<T> {
    /// Frees an entry and adds its task to `finished`. Returns true if this is the first task in
    /// `finished`. The supervisor then has to be woken. If `finished` contained tasks before, the
    /// supervisor has been woken for these.
    fn free_entry(&mut self, slot: Slot, task: Option<T>) -> bool {
        self.entries[slot] = PeerEntry::Free;
        self.free.push(slot);
        let is_first = self.finished.is_empty() && task.is_some();
        self.finished.extend(task);
        is_first
    }
}
