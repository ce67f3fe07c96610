//! A fibre: its record, and the handle by which others unpark it.

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr as StdPtr;

use crate::permit::Permit;
use crate::runtime::Anchor;
use crate::switch::{Body, Suspend, is_processor_of};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The record of a fibre.
///
/// One of the references to a record is the fibre's own ([`Ready`]). The processor that runs the
/// fibre holds this reference, or the lane that contains the fibre. While the fibre is parked, the
/// reference is leaked ([`Ready::park`]), and the waker that schedules the fibre takes it over.
pub(crate) struct Record {
    pub(crate) permit: Permit,
    /// The fibre's wait in a [`WaitList`](crate::wait::WaitList) has been granted.
    pub(crate) is_granted: AtomicBool,
    is_cancelled: AtomicBool,
    /// The processor that ran the fibre last.
    pub(crate) processor: AtomicU32,
    /// Index in the runtime's registry.
    pub(crate) registry_index: AtomicU32,
    /// The next record in the lane that contains the fibre; guarded by the lane's lock.
    pub(crate) link: AtomicPtr<Record>,
    /// When the fibre was enqueued in that lane, in ticks; guarded by the lane's lock.
    pub(crate) enqueued_at: AtomicU64,
    /// Approximate stack pointer of the fibre when it was last suspended. The stack is prefetched
    /// from here before the fibre runs again.
    pub(crate) suspended_sp: StdPtr<u8>,
    /// The handle with which the fibre suspends itself, on its stack. Null before it has started.
    pub(crate) yielder: StdPtr<Suspend>,
    /// The stack and its execution. Only the processor that runs the fibre uses it.
    pub(crate) body: UnsafeCell<Option<Body>>,
    pub(crate) anchor: Arc<Anchor>,
}

// SAFETY: only the processor that runs the fibre uses `body`; `Permit` and the lanes pass it on
// (`switch.rs`). The content of the stack comes from a closure that is `Send`, under the rules of
// `spawn` for what may be kept across a wait. The other fields are thread-safe.
unsafe impl Send for Record {}
// SAFETY: as above.
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
        // SAFETY: guaranteed by the caller.
        Self(unsafe { Arc::from_raw(raw) })
    }

    /// Parks the fibre, which has left its stack. Returns it if it has a permit and must run again.
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
    /// Grants the wait of a fibre that was removed from a [`WaitList`](crate::wait::WaitList).
    ///
    /// # Safety
    /// `record` belongs to a fibre that does not continue before the grant.
    pub(crate) unsafe fn grant(record: *const Self) {
        // SAFETY: the fibre has its own reference until it continues.
        let fibre = unsafe { &*record };
        if fibre.permit.give_if_parked() {
            // Relaxed: the lane's lock makes the grant visible to the processor that runs the
            // fibre.
            fibre.is_granted.store(true, Ordering::Relaxed);
            // SAFETY: the fibre leaked its own reference when it parked, and this call takes it,
            // once.
            let ready = unsafe { Ready::from_raw(record) };
            let shared = &*fibre.anchor.shared;
            if is_processor_of(shared) {
                shared.schedule(ready);
            } else {
                // As soon as the fibre is in a lane, it may end, and the runtime may be dropped.
                let shared = Arc::clone(&fibre.anchor.shared);
                shared.schedule(ready);
            }
            return;
        }
        // The fibre runs, and is about to park or to check for the grant. Once it sees the grant it
        // may end.
        // SAFETY: the grant is stored below, so the fibre has not ended yet.
        let handle = unsafe { Fibre::from_record(record) };
        // Release: pairs with the acquire in the check.
        handle.record.is_granted.store(true, Ordering::Release);
        handle.unpark();
    }
}

/// A handle with which others unpark or cancel a fibre. A clone is another handle to the same
/// fibre. To wait for a fibre, use its [`JoinHandle`](crate::JoinHandle).
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
        // SAFETY: counted above.
        let record = unsafe { Arc::from_raw(record) };
        Self { record }
    }

    /// Wakes the fibre if it is [parked](crate::park). Otherwise leaves a permit, with which the
    /// fibre's next park returns at once. As with `std::thread::park`, permits do not accumulate.
    pub fn unpark(&self) {
        if self.record.permit.give() {
            // SAFETY: `park` leaked the fibre's own reference, and exactly one waker gets this
            // result; it takes the reference, once.
            let ready = unsafe { Ready::from_raw(Arc::as_ptr(&self.record)) };
            self.record.anchor.shared.schedule(ready);
        }
    }

    /// Cancels the fibre: its waits for input, output or sleep, current and later, fail with
    /// [`Cancelled`](crate::Cancelled). Cancellation is cooperative: the fibre's code must return.
    pub fn cancel(&self) {
        // Release: pairs with `is_cancelled`.
        self.record.is_cancelled.store(true, Ordering::Release);
        self.unpark();
    }

    /// Whether the fibre has been cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        // Acquire: pairs with `cancel`.
        self.record.is_cancelled.load(Ordering::Acquire)
    }
}

impl PartialEq for Fibre {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.record, &other.record)
    }
}

impl Eq for Fibre {}
