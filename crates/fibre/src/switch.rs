//! Switching: from a processor's thread onto a fibre's stack and back.
//!
//! A fibre leaves its stack in one place only, [`leave`], and says what for. It never does while it
//! unwinds: the standard library counts panics by thread, and the fibre may come back on another.
//! Whatever is looked up by thread is looked up in functions of their own that are not inlined: a
//! compiler that sees no switch may keep a thread's address across one.

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

/// Why a fibre has left its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Others are to run first.
    Yielded,
    /// Others are to run first, those among them whose wait may be over.
    YieldedToAll,
    /// It waits to be roused.
    Parked,
    /// It has nothing more to do.
    Ended,
}

/// A fibre's stack, and what runs there.
pub(crate) struct Body {
    coroutine: ManuallyDrop<Coroutine<(), Left, (), Stack>>,
}

impl Body {
    /// On `stack`, `run`, which must not panic.
    pub(crate) fn new(stack: Stack, run: impl FnOnce() + Send + 'static) -> Self {
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Suspend, ()| {
            // SAFETY: this thread's own.
            let record = unsafe { (*here()).record.get() };
            // SAFETY: whoever runs has a reference to itself, in `processor::run_one`.
            let record = unsafe { &*record };
            let yielder = ptr::from_ref(yielder).cast_mut();
            record.yielder.store(yielder, Ordering::Relaxed);
            run();
        });
        Self {
            coroutine: ManuallyDrop::new(coroutine),
        }
    }

    /// The stack of one that has ended.
    pub(crate) fn into_stack(mut self) -> Stack {
        // SAFETY: not used again: `self` is forgotten.
        let coroutine = unsafe { ManuallyDrop::take(&mut self.coroutine) };
        std::mem::forget(self);
        coroutine.into_stack()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if !self.coroutine.started() || self.coroutine.done() {
            // SAFETY: not used again.
            unsafe { ManuallyDrop::drop(&mut self.coroutine) };
        }
        // Else it was given up half way: others may still point to what lies on its stack.
    }
}

/// Where a fibre leaves its stack: it lies there.
pub(crate) type Suspend = Yielder<(), Left>;

/// What a thread is doing.
pub(crate) struct Here {
    /// The fibre it runs.
    record: Cell<*const Record>,
    /// Its own, if it is a processor.
    local: Cell<*const Local>,
}

thread_local! {
    static HERE: Here = const {
        Here {
            record: Cell::new(ptr::null()),
            local: Cell::new(ptr::null()),
        }
    };
}

/// This thread's, now: not to be kept across a switch.
#[inline(never)]
fn here() -> *const Here {
    // Opaque: two calls are not one.
    HERE.with(|here| std::hint::black_box(ptr::from_ref(here)))
}

/// The processor's thread: says that it is one, for as long as `run` takes.
pub(crate) fn as_processor(local: &Local, run: impl FnOnce(&Here)) {
    // SAFETY: this thread's own; `run` never leaves it.
    let here = unsafe { &*here() };
    here.local.set(local);
    run(here);
    here.local.set(ptr::null());
}

/// The processor this thread is, now; none: it is another thread.
#[inline]
pub(crate) fn local<R>(look: impl FnOnce(Option<&Local>) -> R) -> R {
    // SAFETY: this thread's own, for the length of the call alone: `look` does not leave.
    let local = unsafe { (*here()).local.get() };
    // SAFETY: set while the processor runs, and nobody outlives that on its thread.
    look(unsafe { local.as_ref() })
}

/// Whether this thread is a processor of that runtime.
pub(crate) fn is_of(shared: &Shared) -> bool {
    local(|local| local.is_some_and(|local| ptr::eq(local.shared(), shared)))
}

/// Whether a fibre runs here, about to wait; false: a thread.
///
/// # Panics
/// A processor is at work for itself: all its fibres would wait.
pub(crate) fn is_fibre() -> bool {
    // SAFETY: this thread's own, for as long as this takes.
    let here = unsafe { &*here() };
    let is_fibre = !here.record.get().is_null();
    assert!(
        is_fibre || here.local.get().is_null(),
        "a processor must not wait: neither in a `Watch` nor in `on_processor_stack`"
    );
    is_fibre
}

/// The fibre that runs here; none: this is a thread.
#[must_use]
pub fn try_current() -> Option<Fibre> {
    // SAFETY: this thread's own.
    let record = unsafe { (*here()).record.get() };
    // SAFETY: whoever runs has a reference to itself, in `processor::run_one`.
    (!record.is_null()).then(|| unsafe { Fibre::of(record) })
}

/// The fibre that runs here.
///
/// # Panics
/// Not in a fibre.
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
/// The caller alone runs it: it has the fibre's own reference.
pub(crate) unsafe fn resume(here: &Here, record: &Record) -> Left {
    // SAFETY: the caller's.
    let body = unsafe { &mut *record.body.get() };
    let Some(body) = body else {
        return Left::Ended;
    };
    here.record.set(record);
    let left = match body.coroutine.resume(()) {
        CoroutineResult::Yield(left) => left,
        CoroutineResult::Return(()) => Left::Ended,
    };
    here.record.set(ptr::null());
    left
}

/// Leaves the stack of the fibre that runs here; comes back when a processor resumes it.
fn leave(record: &Record, left: Left) {
    let yielder = record.yielder.load(Ordering::Relaxed);
    // What is pushed last lies just below this.
    let here = (&raw const yielder).cast_mut().cast::<u8>();
    record.left_at.store(here, Ordering::Relaxed);
    // SAFETY: set when it began, on whose stack it lies.
    let yielder = unsafe { &*yielder };
    yielder.suspend(left);
}

/// The number of the processor this runs on, from 0; none: it is another thread. A fibre may be on
/// another after each wait.
#[must_use]
pub fn processor() -> Option<usize> {
    local(|local| local.map(|local| local.number))
}

/// Runs `run` on the stack of the processor's own thread, which is large and near: so a fibre whose
/// own is small may do deep things between its waits. `run` itself must not wait: what does panics.
/// In a thread: on its own stack.
pub fn on_processor_stack<R>(run: impl FnOnce() -> R + Send) -> R {
    /// Puts back whose fibre runs here, however `run` ends.
    struct Absent(*const Record);

    impl Drop for Absent {
        fn drop(&mut self) {
            // SAFETY: this thread's own, and the same as before: nobody has waited.
            unsafe { (*here()).record.set(self.0) };
        }
    }

    // SAFETY: this thread's own.
    let here = unsafe { &*here() };
    let record = here.record.replace(ptr::null());
    if record.is_null() {
        return run();
    }
    let _absent = Absent(record);
    // SAFETY: whoever runs has a reference to itself, in `processor::run_one`.
    let yielder = unsafe { (*record).yielder.load(Ordering::Relaxed) };
    // SAFETY: set when it began, on whose stack it lies.
    let yielder = unsafe { &*yielder };
    yielder.on_parent_stack(run)
}

/// Lets fibres that are ready run first. In a thread: other threads.
///
/// Does nothing while a panic unwinds.
pub fn yield_now() {
    yield_as(Left::Yielded);
}

/// As [`yield_now`]; and where nobody else is ready, the kernel is asked first whose wait is over.
/// For who has run for long, or has much to do: a yield alone asks it now and then only.
pub fn yield_to_all() {
    yield_as(Left::YieldedToAll);
}

fn yield_as(left: Left) {
    // SAFETY: this thread's own.
    let record = unsafe { (*here()).record.get() };
    // SAFETY: whoever runs has a reference to itself, in `processor::run_one`.
    let Some(record) = (unsafe { record.as_ref() }) else {
        thread::yield_now();
        return;
    };
    if !thread::panicking() {
        leave(record, left);
    }
}

/// Whether a fibre may wait now: not while it unwinds. To be asked before anything is put where
/// others find it, such as a place in a list or a buffer for the kernel.
pub(crate) fn may_wait() -> io::Result<()> {
    match thread::panicking() {
        false => Ok(()),
        true => Err(io::Error::other(UNWINDS)),
    }
}

pub(crate) const UNWINDS: &str = "a fibre must not wait while it unwinds";

/// Waits until somebody [unparks](Fibre::unpark) this fibre, or has since it last waited. May
/// return for no reason: what is waited for is to be looked at again.
///
/// # Panics
/// Not in a fibre, or while a panic unwinds: who waited would come back on another thread, half
/// unwound.
pub fn park() {
    // SAFETY: this thread's own.
    let record = unsafe { (*here()).record.get() };
    // SAFETY: whoever runs has a reference to itself, in `processor::run_one`.
    let Some(record) = (unsafe { record.as_ref() }) else {
        no_fibre()
    };
    assert!(!thread::panicking(), "{UNWINDS}");
    park_as(record);
}

/// As [`park`], of the fibre that runs here and does not unwind.
pub(crate) fn park_as(record: &Record) {
    if !record.permit.take() {
        leave(record, Left::Parked);
    }
}

/// The fibre that runs here, about to wait.
///
/// # Panics
/// It unwinds, or a processor is at work for itself.
pub(crate) fn waiting_record() -> Option<NonNull<Record>> {
    if !is_fibre() {
        return None;
    }
    assert!(!thread::panicking(), "{UNWINDS}");
    // SAFETY: this thread's own.
    NonNull::new(unsafe { (*here()).record.get() }.cast_mut())
}
