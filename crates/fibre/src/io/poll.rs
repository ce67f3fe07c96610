//! Readiness: an epoll a processor, edge-triggered. A socket is registered once, with the processor
//! its fibre is on then; a fibre tries, and waits only where there was nothing, or less than it had
//! room for: no call is made that only learns that.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::cancel::{begin_wait, given_up};
use crate::fibre::{Fibre, Record};
use crate::limits::EVENTS_PER_POLL;
use crate::switch::park;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::time::Alarm;

/// The processor is called.
const EVENT: u64 = 0;

/// A processor's epoll.
pub(crate) struct Poller {
    epoll: OwnedFd,
    /// What the last wait returned: the processor's own thread's.
    events: UnsafeCell<Vec<epoll::Event>>,
    /// Sockets that are no more, which the last wait may still have returned.
    gone: Mutex<Vec<Arc<Source>>>,
}

// SAFETY: an event holds a number, which `epoll::Event` keeps in the place of a pointer.
unsafe impl Send for Poller {}
// SAFETY: `events` is touched by the processor's own thread alone.
unsafe impl Sync for Poller {}

/// Whether a socket is ready.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) reading: Gate,
    pub(crate) writing: Gate,
}

/// One direction: closed, open, open for ever, or closed with a fibre before it.
#[derive(Debug)]
pub(crate) struct Gate {
    word: AtomicPtr<Record>,
}

const CLOSED: *mut Record = ptr::null_mut();
const OPEN: *mut Record = ptr::without_provenance_mut(1);
const ENDED: *mut Record = ptr::without_provenance_mut(2);

impl Poller {
    /// `event`: what is set to call the processor.
    pub(crate) fn new(event: BorrowedFd<'_>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, event, EventData::new_u64(EVENT), flags)?;
        Ok(Self {
            epoll,
            events: UnsafeCell::new(Vec::with_capacity(EVENTS_PER_POLL)),
            gone: Mutex::default(),
        })
    }

    /// Registers a socket.
    pub(crate) fn register(&self, fd: BorrowedFd<'_>) -> io::Result<Arc<Source>> {
        let source = Arc::new(Source {
            reading: Gate::new(),
            writing: Gate::new(),
        });
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let data = EventData::new_u64(Arc::as_ptr(&source) as u64);
        epoll::add(&self.epoll, fd, data, flags)?;
        Ok(source)
    }

    /// Ends a registration, before the socket is closed.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>, source: Arc<Source>) {
        // It is registered.
        let _ = epoll::delete(&self.epoll, fd);
        self.gone().push(source);
    }

    fn gone(&self) -> MutexGuard<'_, Vec<Arc<Source>>> {
        lock(&self.gone)
    }

    pub(crate) fn poll(&self) -> usize {
        self.wait(Some(0));
        self.after_sleep()
    }

    pub(crate) fn sleep(&self, timeout_ns: Option<u64>) {
        self.wait(timeout_ns);
    }

    fn wait(&self, timeout_ns: Option<u64>) {
        // SAFETY: this is the processor's own thread.
        let events = unsafe { &mut *self.events.get() };
        events.clear();
        // What the last wait returned has been looked at: nothing leads to these any more.
        // The lock is let go before it sleeps: others drop sockets meanwhile.
        let gone = std::mem::take(&mut *self.gone());
        drop(gone);
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        });
        // A signal: the loop looks again.
        let _ = epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(events),
            timeout.as_ref(),
        );
    }

    /// Opens the gates of what is ready: how many fibres were roused.
    pub(crate) fn after_sleep(&self) -> usize {
        // SAFETY: this is the processor's own thread.
        let events = unsafe { &mut *self.events.get() };
        let mut count = 0;
        for event in events.drain(..) {
            let data = event.data.u64();
            if data == EVENT {
                continue;
            }
            // SAFETY: registered, and kept until the wait after its removal.
            let source = unsafe { &*(data as *const Source) };
            let flags = event.flags;
            let is_over = flags.contains(EventFlags::HUP);
            let is_last = is_over || flags.contains(EventFlags::RDHUP);
            // An error is told once: a socket without connections goes on after it.
            let is_wrong = flags.contains(EventFlags::ERR);
            if is_last || is_wrong || flags.contains(EventFlags::IN) {
                count += usize::from(source.reading.open(is_last));
            }
            if is_over || is_wrong || flags.contains(EventFlags::OUT) {
                count += usize::from(source.writing.open(is_over));
            }
        }
        count
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Gate {
    fn new() -> Self {
        Self {
            word: AtomicPtr::new(CLOSED),
        }
    }

    /// Closes it, before a call that may find nothing more: what comes after that opens it again.
    pub(crate) fn close(&self) {
        let _ = self
            .word
            // Acquire: pairs with `open`: what is ready is seen by the call that follows.
            .compare_exchange(OPEN, CLOSED, Ordering::Acquire, Ordering::Relaxed);
    }

    /// A call found nothing: takes back that it was open for ever, as before a socket is connected.
    /// True: it was, and the call is to be made again before it is waited.
    pub(crate) fn take_back(&self) -> bool {
        self.word
            // Acquire: pairs with `open`.
            .compare_exchange(ENDED, CLOSED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Opens it: a call found all it had room for, and there may be more.
    pub(crate) fn reopen(&self) {
        let _ = self
            .word
            // Release: pairs with `close`, which the next call begins with.
            .compare_exchange(CLOSED, OPEN, Ordering::Release, Ordering::Relaxed);
    }

    /// Opens it; `is_last`: for ever. True: a fibre was roused.
    fn open(&self, is_last: bool) -> bool {
        let mut before = self.word.load(Ordering::Relaxed);
        loop {
            if before == ENDED {
                return false;
            }
            let after = if is_last { ENDED } else { OPEN };
            // Release: pairs with `wait`. Acquire: pairs with its putting the fibre there.
            let opened =
                self.word
                    .compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Relaxed);
            match opened {
                Ok(_) => break,
                Err(now) => before = now,
            }
        }
        if before == CLOSED || before == OPEN {
            return false;
        }
        // SAFETY: put here by `wait`, which counted it, and taken out by the exchange.
        let record = unsafe { Arc::from_raw(before) };
        Fibre { record }.unpark();
        true
    }

    /// Waits before it until it is open, until `due_ns`, or until the fibre is told to end.
    pub(crate) fn wait(&self, due_ns: Option<u64>) -> io::Result<()> {
        let fibre = begin_wait()?;
        let raw = Arc::into_raw(Arc::clone(&fibre.record)).cast_mut();
        // Release: pairs with `open`.
        let put = self
            .word
            .compare_exchange(CLOSED, raw, Ordering::AcqRel, Ordering::Acquire);
        if let Err(before) = put {
            // SAFETY: counted above, and not put anywhere.
            drop(unsafe { Arc::from_raw(raw) });
            return match before {
                OPEN | ENDED => Ok(()),
                _ => Err(io::ErrorKind::ResourceBusy.into()),
            };
        }
        let alarm = due_ns.map(|due_ns| Alarm::set(&fibre, due_ns));
        // Acquire: pairs with `open`.
        while self.word.load(Ordering::Acquire) == raw {
            let is_late = alarm.as_ref().is_some_and(Alarm::is_due);
            if is_late || fibre.is_cancelled() {
                // AcqRel: pairs with `open`: it, or this, takes the fibre out.
                let taken =
                    self.word
                        .compare_exchange(raw, CLOSED, Ordering::AcqRel, Ordering::Relaxed);
                if taken.is_err() {
                    break;
                }
                // SAFETY: counted above, and taken out again.
                drop(unsafe { Arc::from_raw(raw) });
                return Err(given_up(&fibre));
            }
            park();
        }
        Ok(())
    }
}
