//! The list of all connected peers, each with its task (the thread or fibre that serves it). The
//! supervisor thread uses this list to find the tasks that have to end. A task may sleep in a
//! system call on its socket, so the supervisor wakes the task by shutting down one or both
//! directions of that socket.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::socket::Stream;

use crate::buffered::is_inactive;
use crate::connection::{Overdue, is_silent};
use crate::connection_table::Slot;
use crate::setup::second;

/// A connected peer, shared by its task and the supervisor.
///
/// The task writes `is_idle`, `holds_memory`, `active_s`, `waits_elsewhere` and
/// `input_deadline_ns`, and the supervisor reads them. The supervisor, or any task that closes the
/// connection, sets `is_shut`. All accesses are relaxed: the readers check repeatedly, so they may
/// see a change late.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) stream: Stream,
    /// The task waits for input. Its last replies may still be in flight.
    is_idle: AtomicBool,
    /// The task holds memory of the service for which other connections may wait.
    holds_memory: AtomicBool,
    /// The second in which a byte was last received or sent.
    active_s: AtomicU32,
    /// The task waits for something other than its peer: for memory, or for the result of a ticket
    /// (a result that another thread produces).
    waits_elsewhere: AtomicBool,
    /// When the input that has begun has to be complete, in nanoseconds. `u64::MAX` if there is no
    /// such time.
    input_deadline_ns: AtomicU64,
    /// Both directions of the socket have been shut down, so the task has to end.
    is_shut: AtomicBool,
    /// The bytes that are counted for the task in the sum of `connection_tasks/buffered.rs`.
    /// Changes only under the lock of that sum.
    buffered: AtomicU64,
}

impl Peer {
    pub(crate) fn new(stream: Stream, now_s: u32) -> Self {
        Self {
            stream,
            is_idle: AtomicBool::new(false),
            holds_memory: AtomicBool::new(false),
            active_s: AtomicU32::new(now_s),
            waits_elsewhere: AtomicBool::new(false),
            input_deadline_ns: AtomicU64::new(u64::MAX),
            is_shut: AtomicBool::new(false),
            buffered: AtomicU64::new(0),
        }
    }

    pub(crate) fn set_idle(&self, is_idle: bool) {
        self.is_idle.store(is_idle, Ordering::Relaxed);
    }

    pub(crate) fn set_holding(&self, holds_memory: bool) {
        self.holds_memory.store(holds_memory, Ordering::Relaxed);
    }

    pub(crate) fn set_active(&self, now_s: u32) {
        self.active_s.store(now_s, Ordering::Relaxed);
    }

    pub(crate) fn set_waiting_elsewhere(&self, waits: bool) {
        self.waits_elsewhere.store(waits, Ordering::Relaxed);
    }

    /// Sets when the input that has begun has to be complete.
    pub(crate) fn set_input_deadline(&self, deadline_ns: Option<u64>) {
        let deadline_ns = deadline_ns.unwrap_or(u64::MAX);
        self.input_deadline_ns.store(deadline_ns, Ordering::Relaxed);
    }

    /// Returns why the task has been waiting for its peer for too long, or `None` if it has not.
    /// `idle_s` is the number of seconds that the peer may be silent.
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

    /// Returns whether the socket has been shut down, so that the task has to end without answering
    /// further input.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    /// Returns whether the peer has neither sent nor received a byte for more than a second.
    pub(super) fn is_inactive(&self, now_s: u32) -> bool {
        is_inactive(self.active_s.load(Ordering::Relaxed), now_s)
    }

    pub(crate) fn buffered(&self) -> u64 {
        self.buffered.load(Ordering::Relaxed)
    }

    /// Sets the counted bytes and returns the old value. The caller holds the lock of the sum, and
    /// changes the sum by the difference.
    pub(super) fn set_buffered(&self, bytes: u64) -> u64 {
        self.buffered.swap(bytes, Ordering::Relaxed)
    }

    /// Returns whether the task holds memory of the service, the peer has been inactive for more
    /// than a second, and the socket is not shut down yet.
    pub(crate) fn is_slow_holder(&self, now_s: u32) -> bool {
        let active_s = self.active_s.load(Ordering::Relaxed);
        self.holds_memory.load(Ordering::Relaxed) && is_inactive(active_s, now_s) && !self.is_shut()
    }

    /// Shuts down both directions of the socket. The call in which the task sleeps then returns,
    /// immediately or after its timeout, and the task ends.
    pub(crate) fn shut(&self) {
        if !self.is_shut.swap(true, Ordering::Relaxed) {
            self.stream.shut();
        }
    }
}

/// All connected peers, and the finished tasks that have not been joined. `T` is the handle of a
/// task.
#[derive(Debug)]
pub(crate) struct Peers<T> {
    list: Mutex<List<T>>,
}

#[derive(Debug)]
struct List<T> {
    entries: Vec<PeerEntry<T>>,
    /// The slots of entries that are [`PeerEntry::Free`].
    free: Vec<Slot>,
    /// The tasks to join. They have ended, or have removed their entry and are about to end.
    finished: Vec<T>,
}

/// An entry in the list of peers. An entry is inserted before its task is started, and the task may
/// finish before the acceptor has attached the task's handle to the entry.
#[derive(Debug)]
enum PeerEntry<T> {
    /// The entry is unused.
    Free,
    /// A connected peer, and the handle of its task if it has been attached.
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
    /// Inserts an entry for a peer and returns its slot. Returns `None` if the number of used
    /// entries plus the number of finished tasks is already `max`.
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

    /// Attaches the handle of a started task to its entry. If the task has finished already, frees
    /// the entry instead. Returns true if the supervisor has to be woken to join a task.
    #[must_use]
    pub(crate) fn attach_task(&self, slot: Slot, task: T) -> bool {
        let mut list = self.list();
        if let PeerEntry::Connected(_, attached) = &mut list.entries[slot] {
            *attached = Some(task);
            return false;
        }
        list.free(slot, Some(task))
    }

    /// Frees the entry of a task that could not be started.
    pub(crate) fn remove(&self, slot: Slot) {
        self.list().free(slot, None);
    }

    /// Records that the task of an entry is about to end. Called by this task, which still owns the
    /// peer, so no socket is closed under the list's lock. Returns true if the supervisor has to be
    /// woken to join the task.
    #[must_use]
    pub(crate) fn finish(&self, slot: Slot) -> bool {
        let mut list = self.list();
        match std::mem::replace(&mut list.entries[slot], PeerEntry::Finished) {
            PeerEntry::Connected(_, Some(task)) => list.free(slot, Some(task)),
            _ => false,
        }
    }

    /// Takes the finished tasks. The caller joins them.
    pub(crate) fn take_finished(&self) -> Vec<T> {
        std::mem::take(&mut self.list().finished)
    }

    /// Returns the peers for which `filter` returns true. The list is locked only during this call,
    /// so that the caller can make system calls on the sockets.
    pub(crate) fn peers(&self, filter: impl Fn(&Peer) -> bool) -> Vec<Arc<Peer>> {
        let list = self.list();
        let peers = list.entries.iter().filter_map(|entry| match entry {
            PeerEntry::Connected(peer, _) => Some(peer),
            _ => None,
        });
        peers.filter(|peer| filter(peer)).map(Arc::clone).collect()
    }

    /// Calls `find` for the peers in at most `max` entries, from slot `start` on. Returns each peer
    /// for which `find` returned a value, with this value, and the slot from which the next call
    /// has to continue; `None` instead of the slot after the last entry.
    pub(crate) fn find<R>(
        &self,
        start: Slot,
        max: usize,
        find: impl Fn(&Peer) -> Option<R>,
    ) -> (Vec<(Arc<Peer>, R)>, Option<Slot>) {
        let list = self.list();
        let len = list.entries.len();
        let (start, end) = (start.min(len), start.saturating_add(max).min(len));
        let found = list.entries[start..end].iter().filter_map(|entry| {
            let PeerEntry::Connected(peer, _) = entry else {
                return None;
            };
            Some((Arc::clone(peer), find(peer)?))
        });
        (found.collect(), (end < len).then_some(end))
    }

    /// Returns whether there are no used entries and no finished tasks.
    pub(crate) fn is_empty(&self) -> bool {
        let list = self.list();
        list.free.len() == list.entries.len() && list.finished.is_empty()
    }

    fn list(&self) -> MutexGuard<'_, List<T>> {
        // No code panics while the list is inconsistent.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> List<T> {
    /// Frees an entry and adds its task to `finished`. Returns true if this is the first task in
    /// `finished`: the supervisor then has to be woken. If `finished` contained tasks before, the
    /// supervisor has been woken already.
    fn free(&mut self, slot: Slot, task: Option<T>) -> bool {
        self.entries[slot] = PeerEntry::Free;
        self.free.push(slot);
        let is_first = self.finished.is_empty() && task.is_some();
        self.finished.extend(task);
        is_first
    }
}
