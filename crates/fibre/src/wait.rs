//! Waiting for a grant or a notification: a fibre parks, a thread sleeps.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::Duration;

use crate::fibre::{Fibre, Record};
use crate::switch::{current, is_fibre, park, park_as, waiting_record};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, Thread};
use crate::sync::thread_local;
use crate::time::{Timer, deadline_ns, monotonic_ns};

/// A handle that wakes a waiting fibre or thread.
#[derive(Debug, Clone)]
pub(crate) enum Waiter {
    Fibre(Fibre),
    Thread(Arc<ThreadWaiter>),
}

/// A waiting thread that is not a processor.
#[derive(Debug)]
pub(crate) struct ThreadWaiter {
    thread: Thread,
    is_granted: AtomicBool,
}

thread_local! {
    static THREAD_WAITER: OnceCell<Arc<ThreadWaiter>> = const { OnceCell::new() };
}

impl Waiter {
    /// The current fibre, or else the current thread.
    pub(crate) fn current() -> Self {
        match is_fibre() {
            true => Self::Fibre(current()),
            false => Self::Thread(thread_waiter()),
        }
    }

    /// Blocks the calling fibre or thread until it is woken. May return spuriously.
    pub(crate) fn wait_here() {
        match is_fibre() {
            true => park(),
            false => thread::park(),
        }
    }

    /// Wakes the fibre or thread.
    pub(crate) fn wake(&self) {
        match self {
            Self::Fibre(fibre) => fibre.unpark(),
            Self::Thread(thread_waiter) => thread_waiter.thread.unpark(),
        }
    }
}

#[inline(never)]
fn thread_waiter() -> Arc<ThreadWaiter> {
    let new = || {
        Arc::new(ThreadWaiter {
            thread: thread::current(),
            is_granted: AtomicBool::new(false),
        })
    };
    THREAD_WAITER.with(|thread_waiter| Arc::clone(thread_waiter.get_or_init(new)))
}

/// A fibre or thread that is or was in a [`WaitList`]. A fibre's record is not counted as
/// referenced here. It exists nevertheless, because the fibre does not continue, and so not end,
/// before its wait is granted or it is removed from the list.
#[derive(Debug, Clone)]
pub(crate) enum ListWaiter {
    Fibre(NonNull<Record>),
    Thread(Arc<ThreadWaiter>),
}

// SAFETY: a record is thread-safe, and exists while it is used here: see above.
unsafe impl Send for ListWaiter {}
// SAFETY: as above.
unsafe impl Sync for ListWaiter {}

impl ListWaiter {
    /// The current fibre, or else the current thread.
    ///
    /// # Panics
    /// The fibre unwinds, so it could not wait for the grant.
    fn current() -> Self {
        waiting_record().map_or_else(|| Self::Thread(thread_waiter()), Self::Fibre)
    }

    fn granted_flag(&self) -> &AtomicBool {
        match self {
            // SAFETY: the fibre does not continue before the grant, and the caller is the fibre
            // itself.
            Self::Fibre(record) => unsafe { &record.as_ref().is_granted },
            Self::Thread(thread_waiter) => &thread_waiter.is_granted,
        }
    }

    /// Waits until [`ListWaiter::grant`] is called. Called by the waiter itself, which must be in
    /// no other list.
    pub(crate) fn wait_for_grant(&self) {
        while !self.is_granted() {
            self.wait_here();
        }
    }

    /// As [`wait_for_grant`](Self::wait_for_grant), with a timeout. After the timeout, `remove` is
    /// called, which removes the waiter from its list, or returns false if it is not there any
    /// more: its wait has then been granted, or is about to be. Returns whether the wait was
    /// granted.
    pub(crate) fn wait_for_grant_within(
        &self,
        timeout: Duration,
        remove: impl FnOnce(&Self) -> bool,
    ) -> bool {
        if !self.times_out(deadline_ns(timeout)) || !remove(self) {
            self.wait_for_grant();
            return true;
        }
        false
    }

    /// Waits for a grant until `deadline_ns`. Returns true if the deadline passed without a grant.
    fn times_out(&self, deadline_ns: u64) -> bool {
        let _timer = match self {
            Self::Fibre(_) => Some(Timer::start(&current(), deadline_ns)),
            Self::Thread(_) => None,
        };
        while !self.is_granted() {
            let remaining_ns = deadline_ns.saturating_sub(monotonic_ns());
            if remaining_ns == 0 {
                return true;
            }
            match self {
                Self::Fibre(_) => self.wait_here(),
                Self::Thread(_) => park_timeout(Duration::from_nanos(remaining_ns)),
            }
        }
        false
    }

    fn wait_here(&self) {
        match self {
            // SAFETY: called by the waiter itself, which is running.
            Self::Fibre(record) => park_as(unsafe { record.as_ref() }),
            Self::Thread(_) => thread::park(),
        }
    }

    /// Whether the wait has been granted. Only the waiter itself calls this.
    pub(crate) fn is_granted(&self) -> bool {
        // Acquire: pairs with `grant`.
        self.granted_flag().load(Ordering::Acquire)
    }

    /// Grants the wait. The waiter has been removed from the list.
    pub(crate) fn grant(self) {
        match self {
            // SAFETY: the fibre was in a list until now, and does not continue before this grant.
            Self::Fibre(record) => unsafe { Record::grant(record.as_ptr()) },
            Self::Thread(thread_waiter) => {
                // Release: pairs with `is_granted`.
                thread_waiter.is_granted.store(true, Ordering::Release);
                thread_waiter.thread.unpark();
            }
        }
    }
}

impl PartialEq for ListWaiter {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fibre(record), Self::Fibre(other)) => record == other,
            (Self::Thread(thread_waiter), Self::Thread(other)) => Arc::ptr_eq(thread_waiter, other),
            _ => false,
        }
    }
}

/// A FIFO list of waiters.
#[derive(Debug, Default)]
pub(crate) struct WaitList {
    waiters: VecDeque<ListWaiter>,
}

impl WaitList {
    pub(crate) const fn new() -> Self {
        Self {
            waiters: VecDeque::new(),
        }
    }

    /// Appends the caller, which must release the lock that guards the list before it waits.
    pub(crate) fn push_current(&mut self) -> ListWaiter {
        self.push(ListWaiter::current())
    }

    /// Appends a waiter that is about to wait.
    pub(crate) fn push(&mut self, waiter: ListWaiter) -> ListWaiter {
        // Relaxed: the waiter is not in the list yet, so no other thread can grant its wait.
        waiter.granted_flag().store(false, Ordering::Relaxed);
        self.waiters.push_back(waiter.clone());
        waiter
    }

    /// Removes the first waiter.
    pub(crate) fn pop(&mut self) -> Option<ListWaiter> {
        self.waiters.pop_front()
    }

    /// Grants all waits. The caller must have released the lock that guarded the list.
    pub(crate) fn grant_all(self) {
        self.waiters.into_iter().for_each(ListWaiter::grant);
    }

    /// Removes a waiter that does not wait any longer. Returns false if the waiter was not in the
    /// list: its wait then has been granted or is about to be.
    pub(crate) fn remove(&mut self, waiter: &ListWaiter) -> bool {
        let index = self.waiters.iter().position(|other| other == waiter);
        index.is_some_and(|index| self.waiters.remove(index).is_some())
    }
}
