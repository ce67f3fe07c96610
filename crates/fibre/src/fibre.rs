//! A fibre: its record, and the handle by which others unpark it.

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr as StdPtr;

use crate::permit::Permit;
use crate::runtime::Anchor;
use crate::switch::{Body, Suspend, is_of};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The record of a fibre.
///
/// One reference is the fibre's own ([`Ready`]). The processor that runs the fibre holds it, or its
/// lane. While the fibre is parked, the reference is leaked ([`Ready::park`]); the waker takes it
/// back.
pub(crate) struct Record {
    pub(crate) permit: Permit,
    /// Its wait in a [`WaitList`](crate::wait::WaitList) has been granted.
    pub(crate) granted: AtomicBool,
    cancelled: AtomicBool,
    /// The processor that ran it last.
    pub(crate) processor: AtomicU32,
    /// Its index in the runtime's registry.
    pub(crate) registry_index: AtomicU32,
    /// The next record in its lane, and the time of its enqueueing in ticks; guarded by the lane's
    /// lock.
    pub(crate) link: AtomicPtr<Record>,
    pub(crate) since: AtomicU64,
    /// About where on its stack it left off: to be asked for before it runs again.
    pub(crate) left_at: StdPtr<u8>,
    /// Where it leaves its stack, once it has begun.
    pub(crate) yielder: StdPtr<Suspend>,
    /// The stack and what runs there; whoever runs it has it alone.
    pub(crate) body: UnsafeCell<Option<Body>>,
    pub(crate) anchor: Arc<Anchor>,
}

// SAFETY: `body` is touched by the processor that runs the fibre, and `Permit` and the lanes give
// it from one to the next (`switch.rs`). What lies on the stack came there from a closure that may
// be sent, and is bound by what `spawn` says may cross a wait. All else is shared by its nature.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

impl Record {
    pub(crate) fn new(anchor: Arc<Anchor>, body: Option<Body>) -> Self {
        Self {
            permit: Permit::new(),
            granted: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            processor: AtomicU32::new(0),
            registry_index: AtomicU32::new(u32::MAX),
            link: AtomicPtr::new(ptr::null_mut()),
            since: AtomicU64::new(0),
            left_at: StdPtr::new(ptr::null_mut()),
            yielder: StdPtr::new(ptr::null_mut()),
            body: UnsafeCell::new(body),
            anchor,
        }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("permit", &self.permit)
            .finish_non_exhaustive()
    }
}

/// A fibre's own reference: the right to run it. Each fibre has exactly one.
#[derive(Debug)]
pub(crate) struct Ready(Arc<Record>);

impl Ready {
    pub(crate) fn new(record: Arc<Record>) -> Self {
        Self(record)
    }

    pub(crate) fn record(&self) -> &Arc<Record> {
        &self.0
    }

    pub(crate) fn into_raw(self) -> *const Record {
        Arc::into_raw(self.0)
    }

    /// # Safety
    /// `raw` comes from [`Ready::into_raw`], and this is the only call for it.
    pub(crate) unsafe fn from_raw(raw: *const Record) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { Arc::from_raw(raw) })
    }

    /// Parks the fibre, which is off its stack; or returns it if it has a permit and must run
    /// again.
    pub(crate) fn park(self) -> Option<Self> {
        // The reference is released first: a waker may take it as soon as the fibre is parked.
        let raw = self.into_raw();
        // SAFETY: not taken up before it is parked.
        let record = unsafe { &*raw };
        if record.permit.park() {
            return None;
        }
        // SAFETY: it was not parked, so nobody has taken it up.
        Some(unsafe { Self::from_raw(raw) })
    }
}

impl Record {
    /// Gives a fibre that stands in a [`WaitList`](crate::wait::WaitList), and has been taken out,
    /// what it waits for there.
    ///
    /// # Safety
    /// `record` is that of a fibre that does not go on before it is granted what it waits for.
    pub(crate) unsafe fn grant(record: *const Self) {
        // SAFETY: it has its own reference to itself until it goes on.
        let fibre = unsafe { &*record };
        if fibre.permit.give_if_parked() {
            // Relaxed: the lane's lock shows it to who runs the fibre.
            fibre.granted.store(true, Ordering::Relaxed);
            // SAFETY: it gave up its own reference when it parked, and this takes it up, once.
            let ready = unsafe { Ready::from_raw(record) };
            let shared = &*fibre.anchor.shared;
            if is_of(shared) {
                shared.schedule(ready);
            } else {
                // As soon as it is in a lane it may end, and its runtime with it.
                let shared = Arc::clone(&fibre.anchor.shared);
                shared.schedule(ready);
            }
            return;
        }
        // It is about to park, or to look: as soon as it sees the grant it may end.
        // SAFETY: not before the next line.
        let handle = unsafe { Fibre::of(record) };
        // Release: pairs with the acquire of who looks.
        handle.record.granted.store(true, Ordering::Release);
        handle.unpark();
    }
}

/// A handle to a fibre, which unparks or cancels it. Its [`JoinHandle`](crate::JoinHandle) waits
/// for it. A clone is another handle to the same fibre.
#[derive(Clone, Debug)]
pub struct Fibre {
    pub(crate) record: Arc<Record>,
}

impl Fibre {
    /// Another handle to a fibre.
    ///
    /// # Safety
    /// Somebody has a reference to it, and keeps it meanwhile.
    pub(crate) unsafe fn of(record: *const Record) -> Self {
        // SAFETY: the caller's.
        unsafe { Arc::increment_strong_count(record) };
        // SAFETY: counted above.
        let record = unsafe { Arc::from_raw(record) };
        Self { record }
    }

    /// Wakes the fibre if it is [parked](crate::park); otherwise its next park returns at once. As
    /// with threads, permits do not accumulate.
    pub fn unpark(&self) {
        if self.record.permit.give() {
            // SAFETY: `park` gave up the fibre's own reference, and only one who rouses it is told
            // so: this takes it up again, once.
            let ready = unsafe { Ready::from_raw(Arc::as_ptr(&self.record)) };
            self.record.anchor.shared.schedule(ready);
        }
    }

    /// Cancels the fibre: its waits for input, output or sleep, current and later, fail with
    /// [`Cancelled`](crate::Cancelled). Cancellation is cooperative: the fibre's code must return.
    pub fn cancel(&self) {
        // Release: pairs with `is_cancelled`.
        self.record.cancelled.store(true, Ordering::Release);
        self.unpark();
    }

    /// Whether the fibre has been cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        // Acquire: pairs with `cancel`.
        self.record.cancelled.load(Ordering::Acquire)
    }
}

impl PartialEq for Fibre {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.record, &other.record)
    }
}

impl Eq for Fibre {}
