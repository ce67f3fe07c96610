//! The desks, and who has one: each is lent for the length of a burst.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::desk::Desk;
use crate::hall::Which;

/// The desks.
pub(super) struct Desks {
    all: Box<[Mutex<Desk>]>,
    free: Mutex<Free>,
    is_free: Condvar,
}

struct Free {
    /// Numbers of desks; the last was used last.
    numbers: VecDeque<usize>,
    waiting: usize,
}

/// A desk that is lent. Dropped, it sleeps and is another's.
pub(super) struct Lent<'a> {
    // Dropped in this order: nobody is given a desk that is still locked.
    desk: MutexGuard<'a, Desk>,
    _return: Return<'a>,
}

struct Return<'a> {
    desks: &'a Desks,
    number: usize,
}

impl Desks {
    pub(super) fn new(desks: impl Iterator<Item = Desk>) -> Self {
        let all: Box<[_]> = desks.map(Mutex::new).collect();
        let numbers = (0..all.len()).collect();
        Self {
            all,
            free: Mutex::new(Free {
                numbers,
                waiting: 0,
            }),
            is_free: Condvar::new(),
        }
    }

    /// Borrows the desk that was used last, whose memory is nearest; waits if all are lent.
    pub(super) fn borrow(&self) -> Lent<'_> {
        let mut free = self.free();
        let number = loop {
            if let Some(number) = free.numbers.pop_back() {
                break number;
            }
            free.waiting += 1;
            free = self
                .is_free
                .wait(free)
                .unwrap_or_else(PoisonError::into_inner);
            free.waiting -= 1;
        };
        drop(free);
        self.lend(number)
    }

    /// Borrows a desk, if one is free.
    pub(super) fn borrow_if_free(&self, which: Which) -> Option<Lent<'_>> {
        let mut free = self.free();
        let number = match which {
            Which::UsedLast => free.numbers.pop_back(),
            Which::UsedFirst => free.numbers.pop_front(),
        }?;
        drop(free);
        Some(self.lend(number))
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    fn lend(&self, number: usize) -> Lent<'_> {
        let kept = &self.all[number];
        let mut desk = kept.lock().unwrap_or_else(|poisoned| {
            // Whoever had it panicked.
            kept.clear_poison();
            let mut desk = poisoned.into_inner();
            desk.renew();
            desk
        });
        desk.store.online();
        Lent {
            desk,
            _return: Return {
                desks: self,
                number,
            },
        }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        // Nothing panics half way through a change of the list.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Lent<'_> {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Desk {
        &mut self.desk
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.desk.store.offline();
    }
}

impl Drop for Return<'_> {
    fn drop(&mut self) {
        let mut free = self.desks.free();
        free.numbers.push_back(self.number);
        let is_awaited = free.waiting > 0;
        drop(free);
        if is_awaited {
            self.desks.is_free.notify_one();
        }
    }
}
