//! How a thread that sleeps in the kernel is roused: by its socket, of which one direction or both
//! are shut. So everybody who is connected is known to the attendant.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::limits::SLOW_PEER_S;
use crate::table::Place;
use crate::transport::Transport;

/// A connected peer, as its own thread and the attendant see it. What the thread notes of itself
/// is looked at now and then: a moment's delay does no harm.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) transport: Transport,
    /// Nothing has been begun that is not finished.
    is_idle: AtomicBool,
    /// It keeps memory of the store from others.
    holds_memory: AtomicBool,
    /// The second in which a byte last came or went.
    moved_s: AtomicU32,
    is_shut: AtomicBool,
}

impl Peer {
    pub(super) fn new(transport: Transport, now_s: u32) -> Self {
        Self {
            transport,
            is_idle: AtomicBool::new(false),
            holds_memory: AtomicBool::new(false),
            moved_s: AtomicU32::new(now_s),
            is_shut: AtomicBool::new(false),
        }
    }

    pub(super) fn set_idle(&self, is_idle: bool) {
        self.is_idle.store(is_idle, Ordering::Relaxed);
    }

    pub(super) fn set_holding(&self, holds_memory: bool) {
        self.holds_memory.store(holds_memory, Ordering::Relaxed);
    }

    pub(super) fn moved(&self, now_s: u32) {
        self.moved_s.store(now_s, Ordering::Relaxed);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    /// Whether its thread is to end at once.
    pub(super) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    /// Whether it holds memory and has not moved for long.
    pub(super) fn is_slow_holder(&self, now_s: u32) -> bool {
        let moved_s = self.moved_s.load(Ordering::Relaxed);
        self.holds_memory.load(Ordering::Relaxed)
            && now_s.saturating_sub(moved_s) > SLOW_PEER_S
            && !self.is_shut()
    }

    /// Has its thread end, wherever it sleeps.
    pub(super) fn shut(&self) {
        if !self.is_shut.swap(true, Ordering::Relaxed) {
            self.transport.shut();
        }
    }
}

/// Everybody who is connected, and the threads that are to be joined.
#[derive(Debug, Default)]
pub(super) struct Live {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    entries: Vec<Entry>,
    free: Vec<Place>,
    /// Threads that are done, or will be in a moment.
    over: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
enum Entry {
    Free,
    /// The handle comes when the thread has been started.
    Here(Arc<Peer>, Option<JoinHandle<()>>),
    /// The thread was done before its handle came.
    Gone,
}

impl Live {
    /// A peer is about to have a thread; none: `most` have one.
    pub(super) fn enter(&self, peer: Arc<Peer>, most: usize) -> Option<Place> {
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

    /// The thread runs, or has run. True: the attendant should be roused.
    #[must_use]
    pub(super) fn settle(&self, place: Place, thread: JoinHandle<()>) -> bool {
        let mut list = self.list();
        if let Entry::Here(_, handle) = &mut list.entries[place] {
            *handle = Some(thread);
            return false;
        }
        list.free(place, Some(thread))
    }

    /// There was no thread to be had.
    pub(super) fn withdraw(&self, place: Place) {
        self.list().free(place, None);
    }

    /// The thread is done with its peer, which it still has: nothing is closed here. True: the
    /// attendant should be roused.
    #[must_use]
    pub(super) fn leave(&self, place: Place) -> bool {
        let mut list = self.list();
        match std::mem::replace(&mut list.entries[place], Entry::Gone) {
            Entry::Here(_, Some(thread)) => list.free(place, Some(thread)),
            _ => false,
        }
    }

    /// Threads to be joined.
    pub(super) fn take_over(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.list().over)
    }

    /// Those who are as asked, to be roused when the list is not locked any more.
    pub(super) fn peers(&self, asked: impl Fn(&Peer) -> bool) -> Vec<Arc<Peer>> {
        let list = self.list();
        let peers = list.entries.iter().filter_map(|entry| match entry {
            Entry::Here(peer, _) => Some(peer),
            _ => None,
        });
        peers.filter(|peer| asked(peer)).map(Arc::clone).collect()
    }

    /// Whether every thread has been joined, but for those just taken over.
    pub(super) fn is_empty(&self) -> bool {
        let list = self.list();
        list.free.len() == list.entries.len() && list.over.is_empty()
    }

    fn list(&self) -> MutexGuard<'_, List> {
        // Nothing panics half way through a change of the list.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    fn free(&mut self, place: Place, thread: Option<JoinHandle<()>>) -> bool {
        self.entries[place] = Entry::Free;
        self.free.push(place);
        let is_first = self.over.is_empty() && thread.is_some();
        self.over.extend(thread);
        is_first
    }
}
