//! The roll of all fibres that live, so that they can be told to end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::fibre::{Fibre, Record};
use crate::sync::{Mutex, MutexGuard, lock};

/// The roll, a page for each processor that spawns.
#[derive(Debug)]
pub(crate) struct Roll {
    pages: Box<[Page]>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Page {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

/// A fibre that lives: it is struck off before its own reference goes.
#[derive(Debug)]
struct Entry(*const Record);

// SAFETY: a pointer to what may be shared, valid while it is not null.
unsafe impl Send for Entry {}

impl Roll {
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            pages: (0..processors).map(|_| Page::default()).collect(),
        }
    }

    fn page(&self, number: usize) -> MutexGuard<'_, List> {
        lock(&self.pages[number].list)
    }

    /// Puts a new fibre on a processor's page.
    pub(crate) fn enter(&self, processor: usize, record: &Arc<Record>) {
        let mut page = self.page(processor);
        let entry = Entry(Arc::as_ptr(record));
        let place = match page.free.pop() {
            Some(place) => {
                page.entries[place as usize] = entry;
                place
            }
            None => {
                page.entries.push(entry);
                page.entries.len() as u32 - 1
            }
        };
        let place = place * self.pages.len() as u32 + processor as u32;
        record.place.store(place, Ordering::Relaxed);
    }

    /// Strikes off a fibre that has ended.
    pub(crate) fn strike(&self, record: &Record) {
        let place = record.place.load(Ordering::Relaxed);
        let count = self.pages.len() as u32;
        let mut page = self.page((place % count) as usize);
        let place = place / count;
        page.entries[place as usize] = Entry(std::ptr::null());
        page.free.push(place);
    }

    /// How many live.
    pub(crate) fn len(&self) -> usize {
        let pages = 0..self.pages.len();
        pages
            .map(|number| {
                let page = self.page(number);
                page.entries.len() - page.free.len()
            })
            .sum()
    }

    /// Those who live, a page at a time.
    pub(crate) fn fibres(&self, number: usize) -> Vec<Fibre> {
        let page = self.page(number);
        let live = page.entries.iter().filter(|entry| !entry.0.is_null());
        // SAFETY: on the roll, so its own reference is still there.
        live.map(|entry| unsafe { Fibre::of(entry.0) }).collect()
    }
}
