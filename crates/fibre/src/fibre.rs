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
/// A record is reference-counted. One of the references is the fibre's own, of type [`Ready`]. A
/// running fibre's own reference is held by its processor; that of a fibre that is ready to run, by
/// the queue that contains the fibre (a *lane*, or the handoff slot of the stealing scheduler).
/// While the fibre is parked, its own reference has no holder: [`Ready::park`] leaks it, and the
/// waker that puts the fibre in a queue recovers it.
pub(crate) struct Record {
    /// The state word: whether the fibre is parked, and whether it has a *permit*. A waker leaves a
    /// permit to a fibre that is not parked; the fibre's next wait then returns immediately.
    pub(crate) permit: Permit,
    /// The fibre's wait in a [`WaitList`](crate::wait::WaitList) has been *granted*: another thread
    /// has removed the fibre from the list, and lets the fibre continue.
    pub(crate) is_granted: AtomicBool,
    is_cancelled: AtomicBool,
    /// The processor that ran the fibre last.
    pub(crate) processor: AtomicU32,
    /// The index of the fibre in the runtime's registry of live fibres.
    pub(crate) registry_index: AtomicU32,
    /// The next record in the lane that contains the fibre; guarded by the lane's lock.
    pub(crate) link: AtomicPtr<Record>,
    /// The time at which the fibre was enqueued in its lane, in [`ticks`](crate::sync::ticks);
    /// guarded by the lane's lock.
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
    /// The record's reference to the state that all processors of the runtime share. It goes
    /// through the [`Anchor`] of the processor that spawned the fibre.
    pub(crate) anchor: Arc<Anchor>,
}

// SAFETY: only the processor that runs the fibre uses `body`. When the next processor runs the
// fibre, it sees what the previous one wrote: `Permit` and the queues synchronise the two. The
// values on the stack come from a closure that is `Send`; for values that the compiler cannot
// check, `spawn` has rules. The other fields are thread-safe.
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

/// A fibre's own reference to its record. A thread that holds it has the right to run the fibre, so
/// there is exactly one for each fibre.
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

    /// Parks the fibre, which has left its stack. If the fibre has a permit, consumes the permit
    /// and returns the fibre instead, which must then run again.
    pub(crate) fn park(self) -> Option<Self> {
        // The reference is leaked first, because a waker may recover it as soon as the fibre is
        // parked.
        let raw = self.into_raw();
        // SAFETY: no waker recovers the reference before the fibre is parked.
        let record = unsafe { &*raw };
        if record.permit.park() {
            return None;
        }
        // SAFETY: the fibre was not parked, so no waker has recovered the reference.
        Some(unsafe { Self::from_raw(raw) })
    }
}

impl Record {
    /// Grants the wait of a fibre that was removed from a [`WaitList`](crate::wait::WaitList), and
    /// wakes the fibre.
    ///
    /// # Safety
    /// The caller has removed the fibre of `record` from a wait list, so the fibre cannot return
    /// from its wait before this grant.
    pub(crate) unsafe fn grant(record: *const Self) {
        // SAFETY: the fibre waits, so it still has a reference to its own record.
        let fibre = unsafe { &*record };
        if fibre.permit.give_if_parked() {
            // Relaxed: this thread puts the fibre in a queue below, which makes the grant visible
            // to the processor that takes the fibre.
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
        // The fibre is not parked: it is about to park, or to check for the grant. As soon as it
        // sees the grant, it may end. So this call counts a reference of its own to the record
        // before it stores the grant.
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
