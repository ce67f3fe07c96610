//! The I/O backend *readiness*: one edge-triggered epoll per processor.
//!
//! A socket is registered once, with the epoll of the processor on which the socket is created. To
//! read or write, a fibre first makes a non-blocking call. It waits only if this call fails because
//! the socket is not ready; then it repeats the call. Two kinds of read wait before the first call,
//! because the call would probably find nothing: the first read of a socket, and a read of a stream
//! after one that returned fewer bytes than requested.

use std::cell::UnsafeCell;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::cancel::{begin_wait, cancelled_or_timed_out};
use crate::fibre::{Fibre, Record};
use crate::limits::EVENTS_PER_POLL;
use crate::switch::park;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::time::Timer;

/// epoll returns a number, the *user data*, with each event. This is the number for the eventfd
/// that wakes the processor. The number for a socket is the address of its [`Source`].
const EVENT_TOKEN: u64 = 0;

/// The epoll of a processor.
pub(crate) struct Poller {
    epoll: OwnedFd,
    /// The events that the last `epoll_wait` returned. Used only by the processor's own thread.
    events: UnsafeCell<Vec<epoll::Event>>,
    /// The sources whose registration was removed. They are kept until the next `epoll_wait`,
    /// because `events` may still contain their addresses.
    removed: Mutex<Vec<Arc<Source>>>,
}

// SAFETY: `epoll::Event` is not `Send`, because its data may be a pointer. Here the data is a
// number.
unsafe impl Send for Poller {}
// SAFETY: only the processor's own thread uses `events`.
unsafe impl Sync for Poller {}

/// The readiness of a registered socket.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) reading: Gate,
    pub(crate) writing: Gate,
}

/// The readiness of a socket in one direction. A fibre waits at a closed gate (one fibre at a
/// time), and an epoll event opens the gate.
#[derive(Debug)]
pub(crate) struct Gate {
    /// [`CLOSED`], [`OPEN`] or [`OPEN_FOREVER`]; or, if a fibre waits at the closed gate, a counted
    /// reference to the record of that fibre.
    word: AtomicPtr<Record>,
}

/// The socket is not known to be ready: no event has been handled since the gate was closed.
const CLOSED: *mut Record = ptr::null_mut();
/// The socket is probably ready, so a fibre calls without a wait.
const OPEN: *mut Record = ptr::without_provenance_mut(1);
/// The connection has ended in this direction, so calls fail or return at once and need not wait
/// any more. Later events do not change this value.
const OPEN_FOREVER: *mut Record = ptr::without_provenance_mut(2);

impl Poller {
    /// Creates a poller. `event` is the eventfd that other threads set to wake the processor.
    pub(crate) fn new(event: BorrowedFd<'_>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, event, EventData::new_u64(EVENT_TOKEN), flags)?;
        Ok(Self {
            epoll,
            events: UnsafeCell::new(Vec::with_capacity(EVENTS_PER_POLL)),
            removed: Mutex::default(),
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

    /// Removes the registration of a socket. Called before the socket is closed.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>, source: Arc<Source>) {
        match epoll::delete(&self.epoll, fd) {
            Ok(()) => self.removed().push(source),
            // Not the registered descriptor: epoll still has the address, so the source stays.
            Err(_) => mem::forget(source),
        }
    }

    fn removed(&self) -> MutexGuard<'_, Vec<Arc<Source>>> {
        lock(&self.removed)
    }

    /// Handles the events that are available now. Returns the number of fibres that were woken.
    pub(crate) fn poll(&self) -> usize {
        let no_sleep = Some(0);
        self.wait(no_sleep);
        self.handle_events()
    }

    /// Sleeps until there is an event or the timeout has passed.
    pub(crate) fn sleep(&self, timeout_ns: Option<u64>) {
        self.wait(timeout_ns);
    }

    /// Calls `epoll_wait`. `None` means no timeout.
    fn wait(&self, timeout_ns: Option<u64>) {
        // SAFETY: this is the processor's own thread.
        let events = unsafe { &mut *self.events.get() };
        events.clear();
        // The events of the last wait were handled and cleared, so none refers to the removed
        // sources any more. The lock is released before the sleep, because other threads may remove
        // sockets during the sleep.
        let removed = mem::take(&mut *self.removed());
        drop(removed);
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        });
        // The only error is an interruption by a signal. There are no events then, and the loop of
        // the processor polls again.
        let _ = epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(events),
            timeout.as_ref(),
        );
    }

    /// Handles the events of the last wait: opens the gates of ready sockets. Returns the number of
    /// fibres that were woken.
    pub(crate) fn handle_events(&self) -> usize {
        // SAFETY: this is the processor's own thread.
        let events = unsafe { &mut *self.events.get() };
        let mut count = 0;
        for event in events.drain(..) {
            let data = event.data.u64();
            if data == EVENT_TOKEN {
                continue;
            }
            // SAFETY: the data is the address of a registered source. `remove` keeps a source until
            // the first wait after its removal, so it still exists.
            let source = unsafe { &*(data as *const Source) };
            let flags = event.flags;
            // `HUP`: both directions have ended. `RDHUP`: the peer will send nothing more.
            let is_hangup = flags.contains(EventFlags::HUP);
            let is_forever = is_hangup || flags.contains(EventFlags::RDHUP);
            // An error does not open the gates forever: epoll reports it once, and a datagram
            // socket can still be used after an error.
            let is_error = flags.contains(EventFlags::ERR);
            if is_forever || is_error || flags.contains(EventFlags::IN) {
                count += usize::from(source.reading.open(is_forever));
            }
            if is_hangup || is_error || flags.contains(EventFlags::OUT) {
                count += usize::from(source.writing.open(is_hangup));
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

    /// Closes an open gate; a gate that is open forever stays open. Called before a non-blocking
    /// call. If an event occurs during or after the call, it opens the gate again, and the fibre
    /// does not wait in vain.
    pub(crate) fn close(&self) {
        let _ = self
            .word
            // Acquire: pairs with `open`, so that the system call that follows sees the data that
            // made the socket ready.
            .compare_exchange(OPEN, CLOSED, Ordering::Acquire, Ordering::Relaxed);
    }

    /// Closes a gate that is open forever. Called after a system call that found the socket not
    /// ready. Such a call means that the connection has not ended, so the gate was opened forever
    /// by mistake. This happens because epoll also reports a hang-up for a socket that is not
    /// connected yet.
    ///
    /// Returns true if the gate was open forever. The caller then repeats the system call before it
    /// waits: the socket may have become ready after the first call, and a gate that is open
    /// forever does not record such an event.
    pub(crate) fn close_if_forever(&self) -> bool {
        self.word
            // Acquire: pairs with `open`.
            .compare_exchange(OPEN_FOREVER, CLOSED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Opens the gate again after a system call that may have left the socket ready. epoll is
    /// edge-triggered, so it would not report this readiness again.
    pub(crate) fn reopen(&self) {
        let _ = self
            .word
            // Release: pairs with `close`, which precedes the next system call.
            .compare_exchange(CLOSED, OPEN, Ordering::Release, Ordering::Relaxed);
    }

    /// Opens the gate because of an event; opens it forever if `is_forever` is true. If a fibre
    /// waits at the gate, wakes it and returns true.
    fn open(&self, is_forever: bool) -> bool {
        let new = if is_forever { OPEN_FOREVER } else { OPEN };
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            if old == OPEN_FOREVER {
                return false;
            }
            // Release: pairs with the load in `wait`. Acquire: pairs with the exchange by which
            // `wait` stores the fibre.
            let opened =
                self.word
                    .compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed);
            match opened {
                Ok(_) => break,
                Err(current) => old = current,
            }
        }
        if old == CLOSED || old == OPEN {
            return false;
        }
        // SAFETY: `wait` counted this reference and stored the pointer. The exchange removed the
        // pointer, so the reference is recovered only here.
        let record = unsafe { Arc::from_raw(old) };
        Fibre { record }.unpark();
        true
    }

    /// Waits until the gate is open. Fails at the time `due_ns` of the monotonic clock, when the
    /// fibre is cancelled, or with `ResourceBusy` if another fibre waits at the gate.
    pub(crate) fn wait(&self, due_ns: Option<u64>) -> io::Result<()> {
        let fibre = begin_wait()?;
        let raw = Arc::into_raw(Arc::clone(&fibre.record)).cast_mut();
        // Release: pairs with `open`, which reads the record. Acquire on failure: pairs with
        // `open`, so that the system call that follows sees the data that made the socket ready.
        let stored = self
            .word
            .compare_exchange(CLOSED, raw, Ordering::AcqRel, Ordering::Acquire);
        if let Err(current) = stored {
            // SAFETY: the reference was counted above, and the pointer was not stored.
            drop(unsafe { Arc::from_raw(raw) });
            return match current {
                OPEN | OPEN_FOREVER => Ok(()),
                _ => Err(io::ErrorKind::ResourceBusy.into()),
            };
        }
        let timer = due_ns.map(|due_ns| Timer::start(&fibre, due_ns));
        // Acquire: pairs with `open`.
        while self.word.load(Ordering::Acquire) == raw {
            let is_late = timer.as_ref().is_some_and(Timer::is_due);
            if is_late || fibre.is_cancelled() {
                // AcqRel: pairs with `open`. Either `open` or this exchange removes the pointer;
                // the one that does then recovers the reference.
                let taken =
                    self.word
                        .compare_exchange(raw, CLOSED, Ordering::AcqRel, Ordering::Relaxed);
                if taken.is_err() {
                    break;
                }
                // SAFETY: the reference was counted above, and the pointer was removed again.
                drop(unsafe { Arc::from_raw(raw) });
                return Err(cancelled_or_timed_out(&fibre));
            }
            park();
        }
        Ok(())
    }
}
