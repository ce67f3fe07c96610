//! A fibre: its record, and the handle with which other fibres and threads unpark (wake) or cancel
//! it.

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr as StdPtr;

use crate::permit::Permit;
use crate::shared::Anchor;
use crate::switch::{Body, Suspend, is_processor_of};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The record of a fibre.
///
/// One of the references to a record is the fibre's own, of type [`Ready`]. This reference is held
/// by the processor that runs the fibre, or by the lane that contains it. While the fibre is
/// parked, the reference has no holder: [`Ready::park`] leaks it, and the waker that schedules the
/// fibre recovers it.
pub(crate) struct Record {
    /// Whether the fibre is parked, and whether a wake-up has left it a permit.
    pub(crate) permit: Permit,
    /// The fibre's wait in a [`WaitList`](crate::wait::WaitList) has been *granted*: the fibre may
    /// continue.
    pub(crate) is_granted: AtomicBool,
    is_cancelled: AtomicBool,
    /// The processor that ran the fibre last.
    pub(crate) processor: AtomicU32,
    /// The index of the fibre in the runtime's registry of live fibres.
    pub(crate) registry_index: AtomicU32,
    /// The next record in the lane that contains the fibre; guarded by the lane's lock.
    pub(crate) link: AtomicPtr<Record>,
    /// The time at which the fibre was enqueued in its lane, in ticks; guarded by the lane's lock.
    pub(crate) enqueued_at: AtomicU64,
    /// The approximate stack pointer of the fibre when it was last suspended. The memory at this
    /// address is prefetched before the fibre runs again.
    pub(crate) suspended_sp: StdPtr<u8>,
    /// A pointer to the handle with which the fibre suspends itself. The handle lies on the fibre's
    /// stack. Null before the fibre has started.
    pub(crate) yielder: StdPtr<Suspend>,
    /// The stack and the suspended execution on it. Only the processor that runs the fibre uses
    /// this.
    pub(crate) body: UnsafeCell<Option<Body>>,
    /// Refers to the state that all processors of the fibre's runtime share.
    pub(crate) anchor: Arc<Anchor>,
}

// SAFETY: only the processor that runs the fibre uses `body`. `Permit` and the lanes pass the fibre
// from one processor to the next, with acquire and release. The values on the stack come from a
// closure that is `Send`; for values that the compiler cannot check, `spawn` has rules. The other
// fields are thread-safe.
unsafe impl Send for Record {}
// SAFETY: as for `Send`.
unsafe impl Sync for Record {}

impl Record {
    pub(crate) fn new(anchor: Arc<Anchor>, body: Option<Body>) -> Self {
        Self {
            permit: Permit::new(),
            is_granted: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
            processor: AtomicU32::new(0),
            registry_index: AtomicU32::new(u32::MAX),
            link: AtomicPtr::new(ptr::null_mut()),
            enqueued_at: AtomicU64::new(0),
            suspended_sp: StdPtr::new(ptr::null_mut()),
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

/// A fibre's own reference to its record. It is the right to run the fibre, so each fibre has
/// exactly one.
#[derive(Debug)]
pub(crate) struct Ready(Arc<Record>);

impl Ready {
    pub(crate) fn new(record: Arc<Record>) -> Self {
        Self(record)
    }

    pub(crate) fn record(&self) -> &Arc<Record> {
        &self.0
    }

    /// Leaks the reference. [`Ready::from_raw`] recovers it.
    pub(crate) fn into_raw(self) -> *const Record {
        Arc::into_raw(self.0)
    }

    /// Recovers a reference that [`Ready::into_raw`] leaked.
    ///
    /// # Safety
    /// `raw` was returned by [`Ready::into_raw`], and is passed to this function only once.
    pub(crate) unsafe fn from_raw(raw: *const Record) -> Self {
        // SAFETY: guaranteed by the caller.
        Self(unsafe { Arc::from_raw(raw) })
    }

    /// Parks the fibre, which has left its stack. Returns the fibre if it has a permit and so must
    /// run again.
    pub(crate) fn park(self) -> Option<Self> {
        // The reference is leaked first, because a waker may take it as soon as the fibre is
        // parked.
        let raw = self.into_raw();
        // SAFETY: no waker takes the reference before the fibre is parked.
        let record = unsafe { &*raw };
        if record.permit.park() {
            return None;
        }
        // SAFETY: the fibre was not parked, so no waker has taken the reference.
        Some(unsafe { Self::from_raw(raw) })
    }
}

impl Record {
    /// Grants the wait of a fibre that was removed from a [`WaitList`](crate::wait::WaitList), and
    /// wakes the fibre.
    ///
    /// # Safety
    /// The fibre of `record` does not return from its wait before this grant.
    pub(crate) unsafe fn grant(record: *const Self) {
        // SAFETY: the fibre waits, so it still has a reference to its own record.
        let fibre = unsafe { &*record };
        if fibre.permit.give_if_parked() {
            // Relaxed: the lane's lock makes the grant visible to the processor that runs the
            // fibre.
            fibre.is_granted.store(true, Ordering::Relaxed);
            // SAFETY: `park` leaked the fibre's own reference. Only this call recovers it, because
            // `give_if_parked` returns true to one caller.
            let ready = unsafe { Ready::from_raw(record) };
            let shared = &*fibre.anchor.shared;
            if is_processor_of(shared) {
                shared.schedule(ready);
            } else {
                // As soon as the fibre is in a lane, it may run and end, and the runtime may be
                // dropped. So this thread keeps the shared state alive during the call. (A
                // processor of the runtime has a reference already.)
                let shared = Arc::clone(&fibre.anchor.shared);
                shared.schedule(ready);
            }
            return;
        }
        // The fibre runs, and is about to park or to check for the grant. As soon as the fibre sees
        // the grant, it may end. So this call counts a reference to the record before it stores the
        // grant.
        // SAFETY: the fibre has not ended, because its wait is not granted yet.
        let handle = unsafe { Fibre::from_record(record) };
        // Release: pairs with the acquire in `ListWaiter::is_granted`.
        handle.record.is_granted.store(true, Ordering::Release);
        handle.unpark();
    }
}

/// A handle with which other fibres and threads unpark or cancel a fibre. A clone is another handle
/// to the same fibre. To wait for a fibre, use its [`JoinHandle`](crate::JoinHandle).
#[derive(Clone, Debug)]
pub struct Fibre {
    pub(crate) record: Arc<Record>,
}

impl Fibre {
    /// Creates a handle to a fibre.
    ///
    /// # Safety
    /// The record has at least one reference during the call.
    pub(crate) unsafe fn from_record(record: *const Record) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Arc::increment_strong_count(record) };
        // SAFETY: the reference was counted in the statement above.
        let record = unsafe { Arc::from_raw(record) };
        Self { record }
    }

    /// Wakes the fibre if it is [parked](crate::park). Otherwise leaves a permit, and the fibre's
    /// next `park` returns immediately. As with `std::thread::park`, a fibre has at most one
    /// permit.
    pub fn unpark(&self) {
        if self.record.permit.give() {
            // SAFETY: `park` leaked the fibre's own reference. Only this call recovers it, because
            // `give` returns true to one caller for each park.
            let ready = unsafe { Ready::from_raw(Arc::as_ptr(&self.record)) };
            self.record.anchor.shared.schedule(ready);
        }
    }

    /// Cancels the fibre: its current wait for input, output or a timer, and all later ones, fail
    /// with [`Cancelled`](crate::Cancelled). Cancellation is cooperative: the fibre ends only when
    /// its own code returns.
    pub fn cancel(&self) {
        // Release: pairs with the load in `is_cancelled`.
        self.record.is_cancelled.store(true, Ordering::Release);
        self.unpark();
    }

    /// Whether the fibre has been cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the store in `cancel`.
        self.record.is_cancelled.load(Ordering::Acquire)
    }
}

impl PartialEq for Fibre {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.record, &other.record)
    }
}

impl Eq for Fibre {}
