//! Context switches between the thread of a processor and the stacks of fibres.
//!
//! A fibre leaves its stack when its closure returns, or when it calls [`leave`] with a
//! [`LeaveReason`]. It never calls `leave` while it unwinds from a panic: the standard library
//! counts panics per thread, and the fibre may resume on another thread.
//!
//! The address of a thread-local variable is taken only in functions that are not inlined. After a
//! switch, the fibre may be on another thread, but the compiler does not know this. In an inlined
//! function, it could keep the address of the previous thread's variable across the switch.

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;
use std::thread;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::fibre::{Fibre, Record};
use crate::local::Local;
use crate::shared::Shared;
use crate::stack::Stack;

/// Why a fibre left its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaveReason {
    /// The fibre is ready, and lets other ready fibres run ([`yield_now`]).
    Yielded,
    /// As `Yielded`, but if no other fibre is ready, the processor first polls the kernel, which
    /// may make fibres ready ([`yield_to_all`]).
    YieldedToAll,
    /// As `Yielded`, but the processor polls the kernel in any case ([`yield_after_long_run`]).
    YieldedAfterLongRun,
    /// The fibre waits for a wake-up.
    Parked,
    /// The closure of the fibre has returned.
    Ended,
}

/// A fibre's stack, and the suspended execution of the fibre on it.
pub(crate) struct Body {
    coroutine: ManuallyDrop<Coroutine<(), LeaveReason, (), Stack>>,
}

impl Body {
    /// Creates a suspended execution of `run` on `stack`. `run` must not panic.
    pub(crate) fn new(stack: Stack, run: impl FnOnce() + Send + 'static) -> Self {
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Suspend, ()| {
            // SAFETY: the pointer is to a thread-local of the current thread.
            let record = unsafe { (*thread_context()).record.get() };
            // SAFETY: `processor::run_one` holds a reference to the record of the fibre that it
            // runs.
            let record = unsafe { &*record };
            let yielder = ptr::from_ref(yielder).cast_mut();
            record.yielder.store(yielder, Ordering::Relaxed);
            run();
        });
        Self {
            coroutine: ManuallyDrop::new(coroutine),
        }
    }

    /// Returns the stack of a fibre that has ended.
    pub(crate) fn into_stack(mut self) -> Stack {
        // SAFETY: the coroutine is not used again, because `self` is forgotten.
        let coroutine = unsafe { ManuallyDrop::take(&mut self.coroutine) };
        std::mem::forget(self);
        coroutine.into_stack()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if !self.coroutine.started() || self.coroutine.done() {
            // SAFETY: the coroutine is not used again.
            unsafe { ManuallyDrop::drop(&mut self.coroutine) };
        }
        // Otherwise the fibre was abandoned: it has started and has not ended. Its stack is leaked,
        // because other threads and the kernel may have pointers into it.
    }
}

/// The handle with which a fibre suspends itself. It is stored on the fibre's own stack.
pub(crate) type Suspend = Yielder<(), LeaveReason>;

/// The fibre that a thread is running, and the processor to which the thread belongs.
pub(crate) struct ThreadContext {
    /// The record of the current fibre; null while the thread runs no fibre.
    record: Cell<*const Record>,
    /// The processor; null if the thread is not a processor.
    local: Cell<*const Local>,
}

thread_local! {
    static THREAD_CONTEXT: ThreadContext = const {
        ThreadContext {
            record: Cell::new(ptr::null()),
            local: Cell::new(ptr::null()),
        }
    };
}

/// Returns the context of the current thread. The caller must not keep the pointer across a switch,
/// because the fibre may resume on another thread.
#[inline(never)]
fn thread_context() -> *const ThreadContext {
    // `black_box` prevents the compiler from merging two calls.
    THREAD_CONTEXT.with(|thread_context| std::hint::black_box(ptr::from_ref(thread_context)))
}

/// Calls `run`. During the call, the current thread counts as the processor with the state `local`.
pub(crate) fn as_processor(local: &Local, run: impl FnOnce(&ThreadContext)) {
    // SAFETY: the pointer is to a thread-local of the current thread, and `run` stays on this
    // thread.
    let thread_context = unsafe { &*thread_context() };
    thread_context.local.set(local);
    run(thread_context);
    thread_context.local.set(ptr::null());
}

/// Calls `read` with the state of the processor that the current thread is, or with `None` if the
/// thread is not a processor.
#[inline]
pub(crate) fn local<R>(read: impl FnOnce(Option<&Local>) -> R) -> R {
    // SAFETY: the pointer is to a thread-local of the current thread. It is used only during this
    // call, and `read` does not switch.
    let local = unsafe { (*thread_context()).local.get() };
    // SAFETY: the pointer is set only during `as_processor`, whose argument outlives the reference
    // made here.
    read(unsafe { local.as_ref() })
}

/// Whether the current thread is a processor of the runtime whose shared state is `shared`.
pub(crate) fn is_processor_of(shared: &Shared) -> bool {
    local(|local| local.is_some_and(|local| ptr::eq(local.shared(), shared)))
}

/// Called before a wait, to decide how to wait. Returns true if the caller is a fibre, and false if
/// it is a thread that is not a processor.
///
/// # Panics
/// The caller is neither: it runs on the stack of a processor's thread, where a wait would block
/// all fibres of the processor.
pub(crate) fn is_fibre() -> bool {
    // SAFETY: the pointer is to a thread-local of the current thread, and is used only in this
    // call.
    let thread_context = unsafe { &*thread_context() };
    let is_fibre = !thread_context.record.get().is_null();
    assert!(
        is_fibre || thread_context.local.get().is_null(),
        "a wait on the stack of a processor: in the callback of a `Watch`, or in \
         `on_processor_stack`"
    );
    is_fibre
}

/// The current fibre. `None` if the caller is not a fibre.
#[must_use]
pub fn try_current() -> Option<Fibre> {
    // SAFETY: the pointer is to a thread-local of the current thread.
    let record = unsafe { (*thread_context()).record.get() };
    // SAFETY: `processor::run_one` holds a reference to the record of the fibre that it runs.
    (!record.is_null()).then(|| unsafe { Fibre::from_record(record) })
}

/// The current fibre.
///
/// # Panics
/// The caller is not a fibre.
#[must_use]
pub fn current() -> Fibre {
    try_current().unwrap_or_else(|| no_fibre())
}

/// Panics because the caller is not a fibre.
#[cold]
pub(crate) fn no_fibre() -> ! {
    panic!("the caller is not a fibre (fibres are started by fibre::spawn and Runtime::run)")
}

/// Runs a fibre until it leaves its stack, and returns the reason.
///
/// # Safety
/// The caller has the right to run the fibre, that is, its [`Ready`](crate::fibre::Ready). Only one
/// thread has this right at a time.
pub(crate) unsafe fn resume(thread_context: &ThreadContext, record: &Record) -> LeaveReason {
    // SAFETY: guaranteed by the caller.
    let body = unsafe { &mut *record.body.get() };
    // The body of an ended fibre has been taken (`reclaim`).
    let Some(body) = body else {
        return LeaveReason::Ended;
    };
    thread_context.record.set(record);
    let reason = match body.coroutine.resume(()) {
        CoroutineResult::Yield(reason) => reason,
        CoroutineResult::Return(()) => LeaveReason::Ended,
    };
    thread_context.record.set(ptr::null());
    reason
}

/// Suspends the current fibre: leaves its stack. Returns when a processor resumes the fibre.
fn leave(record: &Record, reason: LeaveReason) {
    let yielder = record.yielder.load(Ordering::Relaxed);
    // The address of the local variable `yielder` is close to the stack pointer. It is stored, so
    // that a processor can prefetch this part of the stack before it resumes the fibre.
    let stack_pointer = (&raw const yielder).cast_mut().cast::<u8>();
    record.suspended_sp.store(stack_pointer, Ordering::Relaxed);
    // SAFETY: the yielder was set when the fibre started, and lies on its stack.
    let yielder = unsafe { &*yielder };
    yielder.suspend(reason);
}

/// The number of the processor that the current thread is, from 0. `None` if the thread is not a
/// processor. After each wait or yield, a fibre may be on another processor.
#[must_use]
pub fn processor() -> Option<usize> {
    local(|local| local.map(|local| local.number))
}

/// Calls `run` on the stack of the thread of the current processor. That stack is large, and is
/// probably in the CPU's cache. A fibre with a small stack can use this for a function that needs a
/// large stack and does not wait. If `run` waits, it panics. If the caller is not a fibre, `run`
/// runs on the caller's own stack.
pub fn on_processor_stack<R>(run: impl FnOnce() -> R + Send) -> R {
    /// A guard that makes the fibre the current fibre again when `run` returns or panics.
    struct RestoreRecord(*const Record);

    impl Drop for RestoreRecord {
        fn drop(&mut self) {
            // SAFETY: the pointer is to a thread-local of the current thread, which is the same as
            // before, because `run` did not wait.
            unsafe { (*thread_context()).record.set(self.0) };
        }
    }

    // SAFETY: the pointer is to a thread-local of the current thread.
    let thread_context = unsafe { &*thread_context() };
    let record = thread_context.record.replace(ptr::null());
    if record.is_null() {
        return run();
    }
    let _restore = RestoreRecord(record);
    // SAFETY: `processor::run_one` holds a reference to the record of the fibre that it runs.
    let yielder = unsafe { (*record).yielder.load(Ordering::Relaxed) };
    // SAFETY: the yielder was set when the fibre started, and lies on its stack.
    let yielder = unsafe { &*yielder };
    yielder.on_parent_stack(run)
}

/// Lets other ready fibres run before the current fibre continues. On a thread that runs no fibre,
/// yields to other threads.
///
/// Does nothing in a fibre that is unwinding from a panic.
pub fn yield_now() {
    yield_as(LeaveReason::Yielded);
}

/// As [`yield_now`], but if no other fibre is ready, the processor first polls the kernel, which
/// may make fibres ready. Use this in a fibre that runs for a long time and yields now and then.
/// With `yield_now`, the processor polls the kernel only once in
/// [`RUNS_PER_POLL`](crate::limits::RUNS_PER_POLL) runs of fibres.
pub fn yield_to_all() {
    yield_as(LeaveReason::YieldedToAll);
}

/// As [`yield_now`], but the processor first polls the kernel, even if other fibres are ready. Use
/// this in a fibre that has run for tens of microseconds. If all ready fibres run as long, a fibre
/// that waits for an event would wait for 61 of these runs otherwise
/// ([`RUNS_PER_POLL`](crate::limits::RUNS_PER_POLL)).
pub fn yield_after_long_run() {
    yield_as(LeaveReason::YieldedAfterLongRun);
}

/// Yields, with one of the reasons `Yielded…`.
fn yield_as(reason: LeaveReason) {
    // SAFETY: the pointer is to a thread-local of the current thread.
    let record = unsafe { (*thread_context()).record.get() };
    // SAFETY: `processor::run_one` holds a reference to the record of the fibre that it runs.
    let Some(record) = (unsafe { record.as_ref() }) else {
        thread::yield_now();
        return;
    };
    if !thread::panicking() {
        leave(record, reason);
    }
}

/// Checks that the current fibre may wait. Fails if it is unwinding from a panic. Called before a
/// pointer to the fibre or into its stack is stored for another thread or passed to the kernel,
/// because such a pointer is valid only while the fibre waits.
pub(crate) fn may_wait() -> io::Result<()> {
    match thread::panicking() {
        false => Ok(()),
        true => Err(io::Error::other(UNWINDS)),
    }
}

/// The error of a wait in a fibre that is unwinding from a panic.
pub(crate) const UNWINDS: &str = "a fibre must not wait while it unwinds";

/// Waits until the current fibre is [unparked](Fibre::unpark). Returns immediately if the fibre was
/// unparked since its last wait. May return spuriously, so callers must check their condition
/// again.
///
/// # Panics
/// The caller is not a fibre, or it is unwinding from a panic. (It could resume on another thread
/// in the middle of unwinding.)
pub fn park() {
    // SAFETY: the pointer is to a thread-local of the current thread.
    let record = unsafe { (*thread_context()).record.get() };
    // SAFETY: `processor::run_one` holds a reference to the record of the fibre that it runs.
    let Some(record) = (unsafe { record.as_ref() }) else {
        no_fibre()
    };
    assert!(!thread::panicking(), "{UNWINDS}");
    park_as(record);
}

/// As [`park`], for a caller that has the record of the current fibre, and knows that the fibre is
/// not unwinding.
pub(crate) fn park_as(record: &Record) {
    // Does not leave the stack if the fibre was unparked since its last wait.
    if !record.permit.take() {
        leave(record, LeaveReason::Parked);
    }
}

/// Returns the record of the current fibre, which is about to wait. `None` if the caller is not a
/// fibre.
///
/// # Panics
/// The fibre is unwinding from a panic, or the caller runs on the stack of a processor's thread.
pub(crate) fn waiting_record() -> Option<NonNull<Record>> {
    if !is_fibre() {
        return None;
    }
    assert!(!thread::panicking(), "{UNWINDS}");
    // SAFETY: the pointer is to a thread-local of the current thread.
    NonNull::new(unsafe { (*thread_context()).record.get() }.cast_mut())
}
