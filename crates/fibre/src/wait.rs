//! How a fibre or a thread waits until another fibre or thread wakes it. A waiting fibre parks, and
//! its processor runs other fibres. A waiting thread sleeps in the kernel.
//!
//! There are two ways to wait. With a [`Waiter`], any wake-up ends the wait, and the woken fibre or
//! thread checks again whether what it waits for has happened. In a [`WaitList`], the FIFO queue of
//! a semaphore, a condition variable or a channel, only a *grant* ends the wait. To grant a wait, a
//! thread removes the waiter from the list, sets a flag of the waiter and wakes it. After any other
//! wake-up, the waiter continues to wait.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::Duration;

use crate::clock::{deadline_ns, monotonic_ns};
use crate::fibre::{Fibre, Record};
use crate::switch::{current, is_fibre, park, park_as, waiting_record};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, Thread};
use crate::sync::thread_local;
use crate::time::Timer;

/// A handle that wakes a fibre or a thread.
#[derive(Debug, Clone)]
pub(crate) enum Waiter {
    Fibre(Fibre),
    Thread(Arc<ThreadWaiter>),
}

/// A thread that can wait in a [`WaitList`]. It is not a *processor* (a kernel thread of the
/// runtime, which runs fibres), because a waiting processor could not run its fibres.
#[derive(Debug)]
pub(crate) struct ThreadWaiter {
    thread: Thread,
    /// The thread's wait in a [`WaitList`] has been granted.
    is_granted: AtomicBool,
}

thread_local! {
    static THREAD_WAITER: OnceCell<Arc<ThreadWaiter>> = const { OnceCell::new() };
}

impl Waiter {
    /// Returns the current fibre, or the current thread if the caller is not a fibre.
    pub(crate) fn current() -> Self {
        match is_fibre() {
            true => Self::Fibre(current()),
            false => Self::Thread(thread_waiter()),
        }
    }

    /// Blocks the calling fibre or thread until it is woken. Returns immediately if it was woken
    /// since its last wait. May return spuriously.
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

/// Returns the `ThreadWaiter` of the current thread.
// Not inlined, because it takes the address of a thread-local. In an inlined copy, the compiler
// could keep this address while a fibre waits. The fibre may then resume on another thread, where
// the address is wrong.
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

/// A fibre or a thread that is in a [`WaitList`], or that another thread has removed from the list
/// in order to grant its wait.
///
/// A fibre is stored as a pointer to its record, without a counted reference. The pointer is valid
/// because the fibre itself holds a reference until it ends. The fibre cannot end while the pointer
/// is in use: the fibre continues only after its wait was granted, or after it has removed itself
/// from the list.
#[derive(Debug, Clone)]
pub(crate) enum ListWaiter {
    Fibre(NonNull<Record>),
    Thread(Arc<ThreadWaiter>),
}

// SAFETY: a record is thread-safe, and exists while this value is used: see `ListWaiter`.
unsafe impl Send for ListWaiter {}
// SAFETY: as for `Send`.
unsafe impl Sync for ListWaiter {}

impl ListWaiter {
    /// Returns the current fibre, or the current thread if the caller is not a fibre.
    ///
    /// # Panics
    /// The fibre is unwinding from a panic, and so must not wait.
    fn current() -> Self {
        waiting_record().map_or_else(|| Self::Thread(thread_waiter()), Self::Fibre)
    }

    /// Returns the flag that is true once the wait has been granted. Called only by this waiter
    /// itself.
    fn granted_flag(&self) -> &AtomicBool {
        match self {
            // SAFETY: the calling fibre is the owner of the record, and keeps it alive by running.
            Self::Fibre(record) => unsafe { &record.as_ref().is_granted },
            Self::Thread(thread_waiter) => &thread_waiter.is_granted,
        }
    }

    /// Blocks the caller, which is this waiter, until its wait is granted ([`ListWaiter::grant`]).
    /// The caller has entered one list, and no other.
    pub(crate) fn wait_for_grant(&self) {
        while !self.is_granted() {
            self.wait_here();
        }
    }

    /// As [`ListWaiter::wait_for_grant`], but waits no longer than `timeout`. Returns true if the
    /// wait was granted.
    ///
    /// After the timeout, this calls `remove`, which must remove the waiter from its list, and
    /// return false if the waiter is not in the list. In that case, another thread has removed the
    /// waiter in order to grant its wait. That grant cannot be refused, so this function waits for
    /// it and returns true.
    pub(crate) fn wait_for_grant_within(
        &self,
        timeout: Duration,
        remove: impl FnOnce(&Self) -> bool,
    ) -> bool {
        if self.times_out(deadline_ns(timeout)) && remove(self) {
            return false;
        }
        self.wait_for_grant();
        true
    }

    /// Blocks the caller until its wait is granted, or until the time `deadline_ns` of the
    /// monotonic clock. Returns true if the deadline passed without a grant.
    fn times_out(&self, deadline_ns: u64) -> bool {
        // A fibre needs a timer that wakes it at the deadline. A thread sleeps with a timeout.
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

    /// Blocks the caller, which is this waiter, until it is woken. May return spuriously.
    fn wait_here(&self) {
        match self {
            // SAFETY: the calling fibre is the owner of the record, and keeps it alive by running.
            Self::Fibre(record) => park_as(unsafe { record.as_ref() }),
            Self::Thread(_) => thread::park(),
        }
    }

    /// Whether the wait has been granted. Called only by this waiter itself.
    pub(crate) fn is_granted(&self) -> bool {
        // Acquire: pairs with `grant`.
        self.granted_flag().load(Ordering::Acquire)
    }

    /// Grants the wait of this waiter, and wakes it. The caller has removed the waiter from its
    /// list.
    pub(crate) fn grant(self) {
        match self {
            // SAFETY: the caller has just removed the fibre from a list, so the fibre is waiting,
            // and does not continue before this grant.
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

    /// Appends the current fibre or thread, and returns it as a waiter. The caller then releases
    /// the lock that guards the list, and waits.
    pub(crate) fn push_current(&mut self) -> ListWaiter {
        self.push(ListWaiter::current())
    }

    /// Appends a waiter that is about to wait, and returns it.
    pub(crate) fn push(&mut self, waiter: ListWaiter) -> ListWaiter {
        // Relaxed: no other thread uses the flag before the waiter is in the list.
        waiter.granted_flag().store(false, Ordering::Relaxed);
        self.waiters.push_back(waiter.clone());
        waiter
    }

    /// Removes the first waiter and returns it. The caller must then grant its wait.
    pub(crate) fn pop(&mut self) -> Option<ListWaiter> {
        self.waiters.pop_front()
    }

    /// Grants the waits of all waiters. The caller has moved the list out of the mutex that guarded
    /// it, and has unlocked this mutex, because to wake many waiters takes long.
    pub(crate) fn grant_all(self) {
        self.waiters.into_iter().for_each(ListWaiter::grant);
    }

    /// Removes a waiter that gives up waiting. Returns false if the waiter is not in the list,
    /// because another thread has removed it to grant its wait.
    pub(crate) fn remove(&mut self, waiter: &ListWaiter) -> bool {
        let index = self.waiters.iter().position(|other| other == waiter);
        index.is_some_and(|index| self.waiters.remove(index).is_some())
    }
}
