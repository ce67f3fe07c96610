//! Context switches between a processor's thread and the stacks of fibres.
//!
//! A fibre leaves its stack only in [`leave`], whose argument is the reason. It never leaves while
//! it unwinds: the standard library counts panics per thread, and the fibre may resume on another
//! thread. Thread-locals are read only in functions that are not inlined: the compiler does not
//! know about the switch, and could otherwise keep the address of a thread-local across it.

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;
use std::thread;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::fibre::{Fibre, Record};
use crate::processor::Local;
use crate::runtime::Shared;
use crate::stack::Stack;

/// Why a fibre left its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaveReason {
    /// To let other ready fibres run.
    Yielded,
    /// To let other fibres run, including those whose wait is over but which are not ready yet.
    YieldedToAll,
    /// To wait for a wake-up.
    Parked,
    /// Because it has finished.
    Ended,
}

/// A fibre's stack and its suspended execution.
pub(crate) struct Body {
    coroutine: ManuallyDrop<Coroutine<(), LeaveReason, (), Stack>>,
}

impl Body {
    /// Creates an execution of `run`, which must not panic, on `stack`.
    pub(crate) fn new(stack: Stack, run: impl FnOnce() + Send + 'static) -> Self {
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Suspend, ()| {
            // SAFETY: the pointer is to a thread-local of the current thread.
            let record = unsafe { (*thread_context()).record.get() };
            // SAFETY: a running fibre has a reference to itself, in `processor::run_one`.
            let record = unsafe { &*record };
            let yielder = ptr::from_ref(yielder).cast_mut();
            record.yielder.store(yielder, Ordering::Relaxed);
            run();
        });
        Self {
            coroutine: ManuallyDrop::new(coroutine),
        }
    }

    /// Takes back the stack of a finished fibre.
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
        // A fibre abandoned before its end keeps its stack: other threads and the kernel may have
        // pointers into it.
    }
}

/// The handle with which a fibre suspends itself. It lies on the fibre's own stack.
pub(crate) type Suspend = Yielder<(), LeaveReason>;

/// What a thread is running: a fibre, and the processor whose thread it is.
pub(crate) struct ThreadContext {
    /// The current fibre.
    record: Cell<*const Record>,
    /// The processor, if the thread is one.
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

/// The state of the current thread. Must not be kept across a switch.
#[inline(never)]
fn thread_context() -> *const ThreadContext {
    // `black_box` prevents the compiler from merging two calls.
    THREAD_CONTEXT.with(|thread_context| std::hint::black_box(ptr::from_ref(thread_context)))
}

/// Marks the current thread as a processor while `run` runs.
pub(crate) fn as_processor(local: &Local, run: impl FnOnce(&ThreadContext)) {
    // SAFETY: the pointer is to a thread-local of the current thread, which `run` never leaves.
    let thread_context = unsafe { &*thread_context() };
    thread_context.local.set(local);
    run(thread_context);
    thread_context.local.set(ptr::null());
}

/// Calls `look` with the processor of the current thread, or `None` on other threads.
#[inline]
pub(crate) fn local<R>(look: impl FnOnce(Option<&Local>) -> R) -> R {
    // SAFETY: the pointer is to a thread-local of the current thread, used only during the call:
    // `look` does not switch.
    let local = unsafe { (*thread_context()).local.get() };
    // SAFETY: the pointer is set only while the processor runs, and no reference made here outlives
    // that run.
    look(unsafe { local.as_ref() })
}

/// Whether the current thread is a processor of the runtime with this state.
pub(crate) fn is_processor_of(shared: &Shared) -> bool {
    local(|local| local.is_some_and(|local| ptr::eq(local.shared(), shared)))
}

/// Whether the caller is a fibre. Called before a wait. Returns false on a thread that is not a
/// processor.
///
/// # Panics
/// The processor itself is running: a wait would block all its fibres.
pub(crate) fn is_fibre() -> bool {
    // SAFETY: the pointer is to a thread-local of the current thread, and used only in this call.
    let thread_context = unsafe { &*thread_context() };
    let is_fibre = !thread_context.record.get().is_null();
    assert!(
        is_fibre || thread_context.local.get().is_null(),
        "a processor must not wait: neither in a `Watch` nor in `on_processor_stack`"
    );
    is_fibre
}

/// The current fibre. `None` if the caller is not a fibre.
#[must_use]
pub fn try_current() -> Option<Fibre> {
    // SAFETY: the pointer is to a thread-local of the current thread.
    let record = unsafe { (*thread_context()).record.get() };
    // SAFETY: a running fibre has a reference to itself, in `processor::run_one`.
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

#[cold]
pub(crate) fn no_fibre() -> ! {
    panic!("not in a fibre: this can be done only in one (fibre::spawn, Runtime::run)")
}

/// Runs a fibre until it leaves its stack.
///
/// # Safety
/// The caller has the fibre's own reference, so no other thread runs it.
pub(crate) unsafe fn resume(thread_context: &ThreadContext, record: &Record) -> LeaveReason {
    // SAFETY: guaranteed by the caller.
    let body = unsafe { &mut *record.body.get() };
    let Some(body) = body else {
        return LeaveReason::Ended;
    };
    thread_context.record.set(record);
    let left = match body.coroutine.resume(()) {
        CoroutineResult::Yield(left) => left,
        CoroutineResult::Return(()) => LeaveReason::Ended,
    };
    thread_context.record.set(ptr::null());
    left
}

/// Leaves the stack of the current fibre. Returns when a processor resumes the fibre.
fn leave(record: &Record, reason: LeaveReason) {
    let yielder = record.yielder.load(Ordering::Relaxed);
    // The most recent stack content lies just below this variable.
    let stack_pointer = (&raw const yielder).cast_mut().cast::<u8>();
    record.suspended_sp.store(stack_pointer, Ordering::Relaxed);
    // SAFETY: the yielder was set when the fibre started, and lies on its stack.
    let yielder = unsafe { &*yielder };
    yielder.suspend(reason);
}

/// The number of the current processor, from 0. `None` on other threads. After each wait a fibre
/// may be on another processor.
#[must_use]
pub fn processor() -> Option<usize> {
    local(|local| local.map(|local| local.number))
}

/// Runs `run` on the stack of the processor's thread, which is large and cached. A fibre with a
/// small stack can thus run deep calls between its waits. `run` must not wait; a wait panics. On a
/// thread that is not running a fibre, `run` uses the thread's own stack.
pub fn on_processor_stack<R>(run: impl FnOnce() -> R + Send) -> R {
    /// Restores the current fibre, however `run` ends.
    struct RestoreRecord(*const Record);

    impl Drop for RestoreRecord {
        fn drop(&mut self) {
            // SAFETY: the pointer is to a thread-local of the same thread as before, because `run`
            // did not wait.
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
    // SAFETY: a running fibre has a reference to itself, in `processor::run_one`.
    let yielder = unsafe { (*record).yielder.load(Ordering::Relaxed) };
    // SAFETY: the yielder was set when the fibre started, and lies on its stack.
    let yielder = unsafe { &*yielder };
    yielder.on_parent_stack(run)
}

/// Lets other ready fibres run first. On a thread that runs no fibre, yields to other threads.
///
/// Does nothing while a panic unwinds.
pub fn yield_now() {
    yield_as(LeaveReason::Yielded);
}

/// As [`yield_now`], but if no other fibre is ready, first polls the kernel for events. Meant for
/// fibres that run for long: after a plain yield, the processor polls only occasionally.
pub fn yield_to_all() {
    yield_as(LeaveReason::YieldedToAll);
}

fn yield_as(reason: LeaveReason) {
    // SAFETY: the pointer is to a thread-local of the current thread.
    let record = unsafe { (*thread_context()).record.get() };
    // SAFETY: a running fibre has a reference to itself, in `processor::run_one`.
    let Some(record) = (unsafe { record.as_ref() }) else {
        thread::yield_now();
        return;
    };
    if !thread::panicking() {
        leave(record, reason);
    }
}

/// Fails if the fibre is unwinding, and so must not wait. Call this before a pointer to the fibre
/// or its stack is stored in a wait list or passed to the kernel.
pub(crate) fn may_wait() -> io::Result<()> {
    match thread::panicking() {
        false => Ok(()),
        true => Err(io::Error::other(UNWINDS)),
    }
}

pub(crate) const UNWINDS: &str = "a fibre must not wait while it unwinds";

/// Waits until the current fibre is [unparked](Fibre::unpark). Returns at once if the fibre was
/// unparked since its last wait. May return spuriously: callers check their condition again.
///
/// # Panics
/// The caller is not a fibre, or a panic unwinds: the fibre could resume on another thread in the
/// middle of unwinding.
pub fn park() {
    // SAFETY: the pointer is to a thread-local of the current thread.
    let record = unsafe { (*thread_context()).record.get() };
    // SAFETY: a running fibre has a reference to itself, in `processor::run_one`.
    let Some(record) = (unsafe { record.as_ref() }) else {
        no_fibre()
    };
    assert!(!thread::panicking(), "{UNWINDS}");
    park_as(record);
}

/// As [`park`], for a fibre that is known not to unwind.
pub(crate) fn park_as(record: &Record) {
    if !record.permit.take() {
        leave(record, LeaveReason::Parked);
    }
}

/// The record of the current fibre, which is about to wait. `None` if the caller is not a fibre.
///
/// # Panics
/// The fibre unwinds, or the processor itself is running.
pub(crate) fn waiting_record() -> Option<NonNull<Record>> {
    if !is_fibre() {
        return None;
    }
    assert!(!thread::panicking(), "{UNWINDS}");
    // SAFETY: the pointer is to a thread-local of the current thread.
    NonNull::new(unsafe { (*thread_context()).record.get() }.cast_mut())
}
