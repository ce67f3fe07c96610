//! Where processors rest that have nothing to do, and how one of them is called back.
//!
//! Who finds nothing announces itself, *then* looks everywhere once more, then sleeps. Who makes a
//! fibre ready puts it in a lane, *then* looks whether anybody rests, and calls the one that came
//! last. Both take the lane's lock in between: if the look came first, its letting the lock go
//! shows the announcement to the other; if not, it finds the fibre. So one of the two sees the
//! other, and no fence is needed. (What is put into a processor's hand passes no lane: there each
//! reads and writes the hand in one step, which orders the two as well.) A word of three states for
//! each processor spares the caller a system call when the other has not gone to sleep yet:
//!
//! ```text
//! AWAKE ── sleep ──► ASLEEP       NOTIFIED: do not sleep, or not again
//!   └─ call ► NOTIFIED ◄─ call, and the event is set
//! ```

use std::io;

use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

const AWAKE: u32 = 0;
const NOTIFIED: u32 = 1;
const ASLEEP: u32 = 2;

/// The parkers of all processors.
#[derive(Debug)]
pub(crate) struct IdleProcessors {
    parkers: Box<[Parker]>,
    /// Those who have announced that they have nothing to do; the last came last.
    lifo: Mutex<Vec<usize>>,
    /// How many they are.
    count: AtomicUsize,
}

/// One processor's.
#[derive(Debug)]
#[repr(align(128))]
struct Parker {
    word: AtomicU32,
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

    /// What is set when a processor that sleeps is called.
    pub(crate) fn event(&self, processor: usize) -> &Event {
        &self.parkers[processor].event
    }

    /// Says that a processor has nothing to do. It looks everywhere once more before it sleeps.
    pub(crate) fn announce(&self, processor: usize) {
        let mut lifo = lock(&self.lifo);
        lifo.push(processor);
        self.count.store(lifo.len(), Ordering::Relaxed);
    }

    /// Takes an announcement back. False: somebody has called, or is about to.
    pub(crate) fn withdraw(&self, processor: usize) -> bool {
        let mut lifo = lock(&self.lifo);
        let before = lifo.len();
        lifo.retain(|&other| other != processor);
        self.count.store(lifo.len(), Ordering::Relaxed);
        lifo.len() < before
    }

    /// Takes the processor off that announced itself last, for the caller to call. To be used when
    /// what it is to find has been put where it will look.
    pub(crate) fn take_one(&self) -> Option<usize> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut lifo = lock(&self.lifo);
        let taken = lifo.pop();
        self.count.store(lifo.len(), Ordering::Relaxed);
        taken
    }

    /// Whether anybody rests. Who asks after it has held a lane's lock sees whoever announced
    /// itself and searched that lane before.
    pub(crate) fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Calls a processor that was taken off, or all of whose parkers are to be looked at anew.
    /// False: it was not asleep, and may have found something else meanwhile.
    pub(crate) fn wake(&self, processor: usize) -> bool {
        let parker = &self.parkers[processor];
        // Release: pairs with `begin_sleep` and `end_sleep`: what the caller did is seen.
        let was_asleep = parker.word.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP;
        if was_asleep {
            parker.event.set();
        }
        was_asleep
    }

    /// Calls the processor that announced itself last, if one has.
    pub(crate) fn wake_one(&self) {
        if let Some(processor) = self.take_one() {
            self.wake(processor);
        }
    }

    /// The processor, about to sleep. False: it was called and must not.
    pub(crate) fn begin_sleep(&self, processor: usize) -> bool {
        let word = &self.parkers[processor].word;
        // Acquire: pairs with `call`.
        let is_asleep = word
            .compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if !is_asleep {
            // Acquire: pairs with `call`: with that of whoever called again since, too.
            word.swap(AWAKE, Ordering::Acquire);
        }
        is_asleep
    }

    /// The processor, awake again for whatever reason.
    pub(crate) fn end_sleep(&self, processor: usize) {
        // Acquire: pairs with `call`.
        self.parkers[processor].word.swap(AWAKE, Ordering::AcqRel);
    }
}

/// What is set for a processor that sleeps: an eventfd.
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

    fn set(&self) {
        // The write can only fail with EAGAIN, when the event is set 2^64 - 2 times already.
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
        unreachable!("a model asks no kernel")
    }
}

/// The same in a model, where a processor waits for nothing else.
#[cfg(shuttle)]
#[derive(Debug)]
pub(crate) struct Event {
    is_set: Mutex<bool>,
    condition: shuttle::sync::Condvar,
}

#[cfg(shuttle)]
impl Event {
    #[expect(clippy::unnecessary_wraps, reason = "as the other")]
    fn new() -> io::Result<Self> {
        Ok(Self {
            is_set: Mutex::new(false),
            condition: shuttle::sync::Condvar::new(),
        })
    }

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
