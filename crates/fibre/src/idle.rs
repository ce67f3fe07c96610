//! Idle processors: how a processor announces that it has no work, and how it is woken.
//!
//! A processor without work first announces itself as idle, then searches every *lane* (a queue of
//! ready fibres) once more, then sleeps. A waker first puts a fibre in a lane, then checks for idle
//! processors, and wakes the one that announced itself last.
//!
//! No wake-up is lost, because both the search and the insertion lock the lane. If the insertion
//! comes first, the search finds the fibre. If the search comes first, the processor has announced
//! itself before it unlocks the lane, and the waker locks the lane after that; so the waker sees
//! the announcement. No further fence is needed.
//!
//! The stealing scheduler may put a fibre in a *handoff slot* (it holds one fibre) instead of a
//! lane. In that case, the processor and the waker both do a read-modify-write of the slot, which
//! orders them as the lock does.
//!
//! Each processor has a state word, so that a waker makes a system call only if the processor is
//! asleep:
//!
//! ```text
//!  AWAKE ── begin_sleep ──► ASLEEP
//!    │                        │
//!   wake          wake, which also sets the event
//!    │                        │
//!    └─────► NOTIFIED ◄───────┘
//! ```
//!
//! `NOTIFIED` means that the processor must not sleep, and that it wakes if it was asleep. After a
//! sleep, and when a notification has kept it from sleeping, the processor sets its word to `AWAKE`
//! again.

use std::io;

use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

/// The processor is awake.
const AWAKE: u32 = 0;
/// A waker has notified the processor, which must not go to sleep before it has seen the
/// notification.
const NOTIFIED: u32 = 1;
/// The processor sleeps or is about to sleep. To wake it, a waker must set its event.
const ASLEEP: u32 = 2;

/// The list of idle processors, and a [`Parker`] for each processor of the runtime.
#[derive(Debug)]
pub(crate) struct IdleProcessors {
    parkers: Box<[Parker]>,
    /// The processors that have announced themselves as idle. The latest is at the end.
    lifo: Mutex<Vec<usize>>,
    /// The length of `lifo`, readable without its lock.
    count: AtomicUsize,
}

/// The means by which one processor sleeps and is woken.
// The alignment gives each parker cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Parker {
    /// [`AWAKE`], [`NOTIFIED`] or [`ASLEEP`].
    word: AtomicU32,
    /// Wakes the processor if it is asleep.
    event: Event,
}

impl IdleProcessors {
    pub(crate) fn new(processors: usize) -> io::Result<Self> {
        let parker = |_| {
            Ok(Parker {
                word: AtomicU32::new(AWAKE),
                event: Event::new()?,
            })
        };
        Ok(Self {
            parkers: (0..processors).map(parker).collect::<io::Result<_>>()?,
            lifo: Mutex::new(Vec::with_capacity(processors)),
            count: AtomicUsize::new(0),
        })
    }

    /// The event that wakes a sleeping processor.
    pub(crate) fn event(&self, processor: usize) -> &Event {
        &self.parkers[processor].event
    }

    /// Announces a processor as idle. The processor must search all lanes once more before it
    /// sleeps.
    pub(crate) fn announce(&self, processor: usize) {
        let mut lifo = lock(&self.lifo);
        lifo.push(processor);
        self.count.store(lifo.len(), Ordering::Relaxed);
    }

    /// Withdraws an announcement: removes the processor from the list. Returns false if a waker
    /// has already removed it; that waker has woken the processor or is about to.
    pub(crate) fn withdraw(&self, processor: usize) -> bool {
        let mut lifo = lock(&self.lifo);
        let len_before = lifo.len();
        lifo.retain(|&other| other != processor);
        self.count.store(lifo.len(), Ordering::Relaxed);
        lifo.len() < len_before
    }

    /// Removes the processor that announced itself last from the list, and returns it. The caller
    /// then wakes the returned processor, unless the caller runs on this processor itself. If the
    /// new fibre is not in a lane yet, the caller first puts it in this processor's handoff slot.
    pub(crate) fn take_one(&self) -> Option<usize> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut lifo = lock(&self.lifo);
        let taken = lifo.pop();
        self.count.store(lifo.len(), Ordering::Relaxed);
        taken
    }

    /// Whether any processor is announced as idle. Takes no lock, and may miss a processor that
    /// announces itself at the same time. But if a processor announced itself and then searched a
    /// lane, and the caller has locked that lane later, the caller sees the processor.
    pub(crate) fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Wakes a processor if it is asleep. There are two kinds of calls:
    ///
    /// - To let the processor run a fibre. The caller has removed the processor from the list.
    /// - To let the processor stop, or submit the cancellation of an I/O request. The processor may
    ///   or may not be in the list, and the list does not change.
    ///
    /// Returns false if the processor was not asleep; it may then be running a fibre already.
    pub(crate) fn wake(&self, processor: usize) -> bool {
        let parker = &self.parkers[processor];
        // Release: pairs with `begin_sleep` and `end_sleep`; after either, the processor sees what
        // the caller wrote before this call. Of the processor, this thread uses only the word.
        let was_asleep = parker.word.swap(NOTIFIED, Ordering::Release) == ASLEEP;
        if was_asleep {
            parker.event.set();
        }
        was_asleep
    }

    /// Wakes the processor that announced itself last, if any is idle.
    pub(crate) fn wake_one(&self) {
        if let Some(processor) = self.take_one() {
            self.wake(processor);
        }
    }

    /// Called by the processor before it sleeps. Returns false if a waker has notified the
    /// processor. The processor then must not sleep, and the notification is cleared.
    pub(crate) fn begin_sleep(&self, processor: usize) -> bool {
        let word = &self.parkers[processor].word;
        // Relaxed: a failed exchange is followed by the swap.
        let is_asleep = word
            .compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if !is_asleep {
            // Acquire: pairs with `wake`, including a second `wake` since the failed exchange.
            word.swap(AWAKE, Ordering::Acquire);
        }
        is_asleep
    }

    /// Called by the processor when its sleep has ended, by a waker or otherwise. Clears a
    /// notification.
    pub(crate) fn end_sleep(&self, processor: usize) {
        // Acquire: pairs with `wake`.
        self.parkers[processor].word.swap(AWAKE, Ordering::Acquire);
    }
}

/// The event that a sleeping processor waits for: an eventfd.
#[cfg(not(shuttle))]
#[derive(Debug)]
pub(crate) struct Event {
    fd: std::os::fd::OwnedFd,
}

#[cfg(not(shuttle))]
impl Event {
    fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Self {
            fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Wakes the processor if it waits for the event, or else lets its next wait return
    /// immediately.
    fn set(&self) {
        // The write can only fail if the counter of the eventfd is at its maximum. The event is set
        // in that case, too.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }
}

#[cfg(not(shuttle))]
impl std::os::fd::AsFd for Event {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(shuttle)]
impl std::os::fd::AsFd for Event {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        // Under the model checker, no reactor is created, so nothing needs the descriptor.
        unreachable!("models make no system calls")
    }
}

/// The event under the model checker: a flag with a condition variable. Under the checker, a
/// sleeping processor waits only for this event, not for the kernel.
#[cfg(shuttle)]
#[derive(Debug)]
pub(crate) struct Event {
    is_set: Mutex<bool>,
    condition: shuttle::sync::Condvar,
}

#[cfg(shuttle)]
impl Event {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the signature of the real `Event::new`"
    )]
    fn new() -> io::Result<Self> {
        Ok(Self {
            is_set: Mutex::new(false),
            condition: shuttle::sync::Condvar::new(),
        })
    }

    /// Wakes the processor if it waits for the event, or else lets its next wait return
    /// immediately.
    fn set(&self) {
        *lock(&self.is_set) = true;
        self.condition.notify_all();
    }

    /// Waits until the event is set, and clears it.
    pub(crate) fn wait(&self) {
        let mut is_set = lock(&self.is_set);
        while !*is_set {
            is_set = self.condition.wait(is_set).unwrap();
        }
        *is_set = false;
    }
}
