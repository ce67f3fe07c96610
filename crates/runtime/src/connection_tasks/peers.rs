//! All connected peers, for the supervisor, which wakes a sleeping task by shutting down one or
//! both directions of the task's socket.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::socket::Stream;

use crate::buffered::is_inactive;
use crate::connection_table::Slot;

/// A connected peer, shared by its task and the supervisor. The task writes these fields, and the
/// supervisor reads them periodically, so it may see a change late.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) stream: Stream,
    /// The task waits for input. Its last replies may still be in flight.
    is_idle: AtomicBool,
    /// The task holds memory of the service that others may wait for.
    holds_memory: AtomicBool,
    /// The second in which a byte was last received or sent.
    active_s: AtomicU32,
    is_shut: AtomicBool,
    /// The bytes counted for its task (`connection_tasks/buffered.rs`).
    buffered: AtomicU64,
}

impl Peer {
    pub(crate) fn new(stream: Stream, now_s: u32) -> Self {
        Self {
            stream,
            is_idle: AtomicBool::new(false),
            holds_memory: AtomicBool::new(false),
            active_s: AtomicU32::new(now_s),
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

    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    /// Whether its task has to end at once.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    /// Whether the peer has been inactive for long.
    pub(super) fn is_inactive(&self, now_s: u32) -> bool {
        is_inactive(self.active_s.load(Ordering::Relaxed), now_s)
    }

    pub(crate) fn buffered(&self) -> u64 {
        self.buffered.load(Ordering::Relaxed)
    }

    /// Sets the counted bytes and returns the old value. The caller holds the lock of the sum.
    pub(super) fn set_buffered(&self, bytes: u64) -> u64 {
        self.buffered.swap(bytes, Ordering::Relaxed)
    }

    /// Whether the task holds memory of the service and the peer has been inactive for long.
    pub(crate) fn is_slow_holder(&self, now_s: u32) -> bool {
        let active_s = self.active_s.load(Ordering::Relaxed);
        self.holds_memory.load(Ordering::Relaxed) && is_inactive(active_s, now_s) && !self.is_shut()
    }

    /// Makes its task end, wherever it sleeps.
    pub(crate) fn shut(&self) {
        if !self.is_shut.swap(true, Ordering::Relaxed) {
            self.stream.shut();
        }
    }
}

/// All connected peers, and the finished tasks (threads or fibres) to be joined.
#[derive(Debug)]
pub(crate) struct Peers<T> {
    list: Mutex<List<T>>,
}

#[derive(Debug)]
struct List<T> {
    entries: Vec<PeerEntry<T>>,
    free: Vec<Slot>,
    /// Tasks that have finished or are about to.
    finished: Vec<T>,
}

#[derive(Debug)]
enum PeerEntry<T> {
    Free,
    /// A connected peer. Its task is attached once it has been started.
    Connected(Arc<Peer>, Option<T>),
    /// The task finished before it was attached.
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
    /// Reserves an entry for a peer. `None` if there are `max` entries and finished tasks already.
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

    /// Attaches the started task to its entry. Returns true if the supervisor has to be woken.
    #[must_use]
    pub(crate) fn attach_task(&self, slot: Slot, task: T) -> bool {
        let mut list = self.list();
        if let PeerEntry::Connected(_, attached) = &mut list.entries[slot] {
            *attached = Some(task);
            return false;
        }
        list.free(slot, Some(task))
    }

    /// Removes the entry of a task that could not be started.
    pub(crate) fn remove(&self, slot: Slot) {
        self.list().free(slot, None);
    }

    /// Removes the entry of a finishing task. The task still owns the peer, so nothing is closed
    /// here. Returns true if the supervisor has to be woken.
    #[must_use]
    pub(crate) fn finish(&self, slot: Slot) -> bool {
        let mut list = self.list();
        match std::mem::replace(&mut list.entries[slot], PeerEntry::Finished) {
            PeerEntry::Connected(_, Some(task)) => list.free(slot, Some(task)),
            _ => false,
        }
    }

    /// The finished tasks, to be joined.
    pub(crate) fn take_finished(&self) -> Vec<T> {
        std::mem::take(&mut self.list().finished)
    }

    /// The peers for which `filter` returns true. The caller wakes them after the list is unlocked.
    pub(crate) fn peers(&self, filter: impl Fn(&Peer) -> bool) -> Vec<Arc<Peer>> {
        let list = self.list();
        let peers = list.entries.iter().filter_map(|entry| match entry {
            PeerEntry::Connected(peer, _) => Some(peer),
            _ => None,
        });
        peers.filter(|peer| filter(peer)).map(Arc::clone).collect()
    }

    /// Whether there are no entries and no finished tasks.
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
    /// Frees an entry, and adds its task to the finished ones. Returns true if no other finished
    /// task was in the list.
    fn free(&mut self, slot: Slot, task: Option<T>) -> bool {
        self.entries[slot] = PeerEntry::Free;
        self.free.push(slot);
        let is_first = self.finished.is_empty() && task.is_some();
        self.finished.extend(task);
        is_first
    }
}
