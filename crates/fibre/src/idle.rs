//! Idle processors: how a processor announces that it has no work, and how it is woken.
//!
//! A processor without work first announces itself as idle, then searches every lane once more,
//! then sleeps. A waker first puts a fibre in a lane, then checks for idle processors, and wakes
//! the one that announced itself last.
//!
//! No wake-up is lost, because the search and the insertion both take the lane's lock. If the
//! insertion comes first, the search finds the fibre. If the search comes first, its unlock and the
//! waker's lock make the announcement visible to the waker. No further fence is needed.
//!
//! The stealing scheduler may put a fibre in a handoff slot instead of a lane. In that case the
//! processor and the waker both use a read-modify-write of the slot, which orders them as the lock
//! does.
//!
//! Each processor has a state word, so that a waker makes a system call only if the processor is
//! asleep:
//!
//! ```text
//! AWAKE ── sleep ──► ASLEEP       NOTIFIED: the processor must not sleep, and wakes if asleep
//!   └─ wake ► NOTIFIED ◄─ wake, and the event is set
//! ```

use std::io;

use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

/// The processor is awake.
const AWAKE: u32 = 0;
/// A waker has notified the processor, which must not go to sleep before it has seen the
/// notification.
const NOTIFIED: u32 = 1;
/// The processor sleeps or is about to, and only the event wakes it.
const ASLEEP: u32 = 2;

/// The list of idle processors, and for each processor a [`Parker`], in which it sleeps.
#[derive(Debug)]
pub(crate) struct IdleProcessors {
    parkers: Box<[Parker]>,
    /// The processors that have announced themselves as idle, in the order of announcement.
    lifo: Mutex<Vec<usize>>,
    /// The length of `lifo`, readable without its lock.
    count: AtomicUsize,
}

/// The means by which one processor sleeps and is woken.
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

    /// Withdraws an announcement. Returns false if a waker has removed the processor from the list;
    /// that waker has woken the processor or is about to.
    pub(crate) fn withdraw(&self, processor: usize) -> bool {
        let mut lifo = lock(&self.lifo);
        let len_before = lifo.len();
        lifo.retain(|&other| other != processor);
        self.count.store(lifo.len(), Ordering::Relaxed);
        lifo.len() < len_before
    }

    /// Removes the processor that announced itself last from the list, and returns it. The caller
    /// wakes this processor, after it has enqueued the fibre for it.
    pub(crate) fn take_one(&self) -> Option<usize> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut lifo = lock(&self.lifo);
        let taken = lifo.pop();
        self.count.store(lifo.len(), Ordering::Relaxed);
        taken
    }

    /// Whether any processor is announced as idle. Takes no lock. A caller that has held the lock
    /// of a lane sees every processor that announced itself and then searched the lane before the
    /// caller locked it.
    pub(crate) fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Wakes a processor: one that the caller has removed from the list, or any processor that must
    /// check for a stop or for cancellations. Returns false if the processor was not asleep; it may
    /// then be running a fibre already.
    pub(crate) fn wake(&self, processor: usize) -> bool {
        let parker = &self.parkers[processor];
        // Release: pairs with `begin_sleep` and `end_sleep`, after which the processor sees the
        // caller's writes.
        let was_asleep = parker.word.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP;
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
    /// processor, which then must not sleep.
    pub(crate) fn begin_sleep(&self, processor: usize) -> bool {
        let word = &self.parkers[processor].word;
        // Acquire: pairs with `wake`.
        let is_asleep = word
            .compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if !is_asleep {
            // Acquire: pairs with `wake`, including a second `wake` since the failed exchange.
            word.swap(AWAKE, Ordering::Acquire);
        }
        is_asleep
    }

    /// Called by the processor when its sleep has ended, whether or not a waker ended it.
    pub(crate) fn end_sleep(&self, processor: usize) {
        // Acquire: pairs with `wake`.
        self.parkers[processor].word.swap(AWAKE, Ordering::AcqRel);
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
        unreachable!("models make no system calls")
    }
}

/// The event under the model checker. Under the checker, a sleeping processor waits for nothing
/// else.
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

    pub(crate) fn wait(&self) {
        let mut is_set = lock(&self.is_set);
        while !*is_set {
            is_set = self.condition.wait(is_set).unwrap();
        }
        *is_set = false;
    }
}
