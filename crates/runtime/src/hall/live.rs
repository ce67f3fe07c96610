//! Everybody who is connected, as the attendant knows them. A conversation that sleeps is roused by
//! its socket, of which one direction or both are shut.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffered::is_still;
use crate::table::Place;
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
    moved_s: AtomicU32,
    is_shut: AtomicBool,
    /// What is counted of what its task keeps (`hall/buffered.rs`).
    buffered: AtomicU64,
}

impl Peer {
    pub(crate) fn new(transport: Transport, now_s: u32) -> Self {
        Self {
            transport,
            is_idle: AtomicBool::new(false),
            holds_memory: AtomicBool::new(false),
            moved_s: AtomicU32::new(now_s),
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

    pub(crate) fn moved(&self, now_s: u32) {
        self.moved_s.store(now_s, Ordering::Relaxed);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    /// Whether its task is to end at once.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    /// Whether it has not moved for long.
    pub(super) fn is_still(&self, now_s: u32) -> bool {
        is_still(self.moved_s.load(Ordering::Relaxed), now_s)
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
        let moved_s = self.moved_s.load(Ordering::Relaxed);
        self.holds_memory.load(Ordering::Relaxed) && is_still(moved_s, now_s) && !self.is_shut()
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
pub(crate) struct Live<T> {
    list: Mutex<List<T>>,
}

#[derive(Debug)]
struct List<T> {
    entries: Vec<Entry<T>>,
    free: Vec<Place>,
    /// Tasks that are done, or will be in a moment.
    over: Vec<T>,
}

#[derive(Debug)]
enum Entry<T> {
    Free,
    /// The task comes when it has been started.
    Here(Arc<Peer>, Option<T>),
    /// The task was done before it came here.
    Gone,
}

impl<T> Default for Live<T> {
    fn default() -> Self {
        let list = List {
            entries: Vec::new(),
            free: Vec::new(),
            over: Vec::new(),
        };
        Self {
            list: Mutex::new(list),
        }
    }
}

impl<T> Live<T> {
    /// A peer is about to have a task; none: `most` have one.
    pub(crate) fn enter(&self, peer: Arc<Peer>, most: usize) -> Option<Place> {
        let mut list = self.list();
        let entry = Entry::Here(peer, None);
        if list.entries.len() - list.free.len() + list.over.len() >= most {
            return None;
        }
        if let Some(place) = list.free.pop() {
            list.entries[place] = entry;
            return Some(place);
        }
        list.entries.push(entry);
        Some(list.entries.len() - 1)
    }

    /// The task runs, or has run. True: the attendant should be roused.
    #[must_use]
    pub(crate) fn settle(&self, place: Place, task: T) -> bool {
        let mut list = self.list();
        if let Entry::Here(_, held) = &mut list.entries[place] {
            *held = Some(task);
            return false;
        }
        list.free(place, Some(task))
    }

    /// There was none to be had.
    pub(crate) fn withdraw(&self, place: Place) {
        self.list().free(place, None);
    }

    /// The task is done with its peer, which it still has: nothing is closed here. True: the
    /// attendant should be roused.
    #[must_use]
    pub(crate) fn leave(&self, place: Place) -> bool {
        let mut list = self.list();
        match std::mem::replace(&mut list.entries[place], Entry::Gone) {
            Entry::Here(_, Some(task)) => list.free(place, Some(task)),
            _ => false,
        }
    }

    /// Tasks to be joined.
    pub(crate) fn take_over(&self) -> Vec<T> {
        std::mem::take(&mut self.list().over)
    }

    /// Those who are as asked, to be roused when the list is not locked any more.
    pub(crate) fn peers(&self, asked: impl Fn(&Peer) -> bool) -> Vec<Arc<Peer>> {
        let list = self.list();
        let peers = list.entries.iter().filter_map(|entry| match entry {
            Entry::Here(peer, _) => Some(peer),
            _ => None,
        });
        peers.filter(|peer| asked(peer)).map(Arc::clone).collect()
    }

    /// Whether every task has been joined, but for those just taken over.
    pub(crate) fn is_empty(&self) -> bool {
        let list = self.list();
        list.free.len() == list.entries.len() && list.over.is_empty()
    }

    fn list(&self) -> MutexGuard<'_, List<T>> {
        // Nothing panics half way through a change of the list.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> List<T> {
    fn free(&mut self, place: Place, task: Option<T>) -> bool {
        self.entries[place] = Entry::Free;
        self.free.push(place);
        let is_first = self.over.is_empty() && task.is_some();
        self.over.extend(task);
        is_first
    }
}
