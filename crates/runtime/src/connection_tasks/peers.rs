//! Everybody who is connected, as the attendant knows them. A conversation that sleeps is roused by
//! its socket, of which one direction or both are shut.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffered::is_inactive;
use crate::connection_table::Slot;
use crate::transport::Transport;

/// A connected peer, as its own task and the attendant see it. What the task notes of itself
/// is looked at now and then: a moment's delay does no harm.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) transport: Transport,
    /// It waits for its peer to say something; its last answers may be on their way.
    is_idle: AtomicBool,
    /// It keeps memory of the store from others.
    holds_memory: AtomicBool,
    /// The second in which a byte last came or went.
    active_s: AtomicU32,
    is_shut: AtomicBool,
    /// What is counted of what its task keeps (`tasks/buffered.rs`).
    buffered: AtomicU64,
}

impl Peer {
    pub(crate) fn new(transport: Transport, now_s: u32) -> Self {
        Self {
            transport,
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

    /// Whether its task is to end at once.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    /// Whether it has not moved for long.
    pub(super) fn is_inactive(&self, now_s: u32) -> bool {
        is_inactive(self.active_s.load(Ordering::Relaxed), now_s)
    }

    pub(crate) fn buffered(&self) -> u64 {
        self.buffered.load(Ordering::Relaxed)
    }

    /// Only with the sum locked that it is part of. Returns what it was.
    pub(super) fn set_buffered(&self, bytes: u64) -> u64 {
        self.buffered.swap(bytes, Ordering::Relaxed)
    }

    /// Whether it holds memory and has not moved for long.
    pub(crate) fn is_slow_holder(&self, now_s: u32) -> bool {
        let active_s = self.active_s.load(Ordering::Relaxed);
        self.holds_memory.load(Ordering::Relaxed) && is_inactive(active_s, now_s) && !self.is_shut()
    }

    /// Has its task end, wherever it sleeps.
    pub(crate) fn shut(&self) {
        if !self.is_shut.swap(true, Ordering::Relaxed) {
            self.transport.shut();
        }
    }
}

/// Everybody who is connected, and the tasks (threads or fibres) that are to be joined.
#[derive(Debug)]
pub(crate) struct Peers<T> {
    list: Mutex<List<T>>,
}

#[derive(Debug)]
struct List<T> {
    entries: Vec<PeerEntry<T>>,
    free: Vec<Slot>,
    /// Tasks that are done, or will be in a moment.
    finished: Vec<T>,
}

#[derive(Debug)]
enum PeerEntry<T> {
    Free,
    /// The task comes when it has been started.
    Here(Arc<Peer>, Option<T>),
    /// The task was done before it came here.
    Complete,
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
    /// A peer is about to have a task; none: `most` have one.
    pub(crate) fn insert(&self, peer: Arc<Peer>, most: usize) -> Option<Slot> {
        let mut list = self.list();
        let entry = PeerEntry::Here(peer, None);
        if list.entries.len() - list.free.len() + list.finished.len() >= most {
            return None;
        }
        if let Some(slot) = list.free.pop() {
            list.entries[slot] = entry;
            return Some(slot);
        }
        list.entries.push(entry);
        Some(list.entries.len() - 1)
    }

    /// The task runs, or has run. True: the attendant should be roused.
    #[must_use]
    pub(crate) fn attach_task(&self, slot: Slot, task: T) -> bool {
        let mut list = self.list();
        if let PeerEntry::Here(_, held) = &mut list.entries[slot] {
            *held = Some(task);
            return false;
        }
        list.free(slot, Some(task))
    }

    /// There was none to be had.
    pub(crate) fn remove(&self, slot: Slot) {
        self.list().free(slot, None);
    }

    /// The task is done with its peer, which it still has: nothing is closed here. True: the
    /// attendant should be roused.
    #[must_use]
    pub(crate) fn leave(&self, slot: Slot) -> bool {
        let mut list = self.list();
        match std::mem::replace(&mut list.entries[slot], PeerEntry::Complete) {
            PeerEntry::Here(_, Some(task)) => list.free(slot, Some(task)),
            _ => false,
        }
    }

    /// Tasks to be joined.
    pub(crate) fn take_finished(&self) -> Vec<T> {
        std::mem::take(&mut self.list().finished)
    }

    /// Those who are as asked, to be roused when the list is not locked any more.
    pub(crate) fn peers(&self, asked: impl Fn(&Peer) -> bool) -> Vec<Arc<Peer>> {
        let list = self.list();
        let peers = list.entries.iter().filter_map(|entry| match entry {
            PeerEntry::Here(peer, _) => Some(peer),
            _ => None,
        });
        peers.filter(|peer| asked(peer)).map(Arc::clone).collect()
    }

    /// Whether every task has been joined, but for those just taken over.
    pub(crate) fn is_empty(&self) -> bool {
        let list = self.list();
        list.free.len() == list.entries.len() && list.finished.is_empty()
    }

    fn list(&self) -> MutexGuard<'_, List<T>> {
        // Nothing panics half way through a change of the list.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> List<T> {
    fn free(&mut self, slot: Slot, task: Option<T>) -> bool {
        self.entries[slot] = PeerEntry::Free;
        self.free.push(slot);
        let is_first = self.finished.is_empty() && task.is_some();
        self.finished.extend(task);
        is_first
    }
}
