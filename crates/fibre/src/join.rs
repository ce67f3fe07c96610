//! A fibre's result, and the wait for it.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::fibre::{Fibre, Record};
use crate::switch::{local, no_fibre};
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::wait::Waiter;

/// The payload of a fibre's panic.
pub type Panic = Box<dyn Any + Send + 'static>;

const RUNNING: u8 = 0;
const AWAITED: u8 = 1;
const DONE: u8 = 2;

/// The slot of one result, shared by the fibre and its joiner.
struct Packet<T> {
    state: AtomicU8,
    /// Written by the fibre before it sets DONE, read by the joiner after it has seen DONE.
    result: UnsafeCell<Option<Result<T, Panic>>>,
    /// Written by the joiner before it sets AWAITED, read by the fibre after it has seen AWAITED.
    waiter: UnsafeCell<Option<Waiter>>,
}

// SAFETY: `state` determines which side may use each cell. A cell has one writer and one reader,
// and passes from the writer to the reader once.
unsafe impl<T: Send> Send for Packet<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Packet<T> {}

/// The fibre's end of a packet.
pub(crate) struct Writer<T>(Arc<Packet<T>>);

/// The joiner's end of a packet.
pub(crate) struct Reader<T>(Arc<Packet<T>>);

/// A packet for one result.
pub(crate) fn packet<T>() -> (Writer<T>, Reader<T>) {
    let packet = Arc::new(Packet {
        state: AtomicU8::new(RUNNING),
        result: UnsafeCell::new(None),
        waiter: UnsafeCell::new(None),
    });
    (Writer(Arc::clone(&packet)), Reader(packet))
}

impl<T> Writer<T> {
    /// Runs a fibre's closure, and stores its result or its panic.
    pub(crate) fn fill(self, run: impl FnOnce() -> T) {
        let result = catch_unwind(AssertUnwindSafe(run));
        let packet = &*self.0;
        // SAFETY: the joiner does not read before DONE.
        unsafe { *packet.result.get() = Some(result) };
        // Release: pairs with `Reader::wait`, which then sees the result. Acquire: pairs with
        // `Reader::wait`, whose waiter is read below.
        if packet.state.swap(DONE, Ordering::AcqRel) == AWAITED {
            // SAFETY: the joiner wrote the waiter before AWAITED and does not use it afterwards.
            let waiter = unsafe { (*packet.waiter.get()).take() };
            if let Some(waiter) = waiter {
                waiter.wake();
            }
        }
        // Without a joiner the result is dropped here. If that drop panics, only the fibre ends.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(self.0))) {
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(panic)));
            dropped.unwrap_or_else(std::mem::forget);
        }
    }
}

impl<T> Reader<T> {
    /// Whether the fibre has ended.
    fn is_done(&self) -> bool {
        // Acquire: pairs with `Writer::fill`.
        self.0.state.load(Ordering::Acquire) == DONE
    }

    /// Waits for the result.
    pub(crate) fn wait(self) -> Result<T, Panic> {
        let packet = &*self.0;
        if !self.is_done() {
            // SAFETY: the fibre does not read before AWAITED.
            unsafe { *packet.waiter.get() = Some(Waiter::current()) };
            // Release: pairs with `Writer::fill`, which reads the waiter. Acquire on failure: also
            // pairs with `Writer::fill`, which has written the result.
            let awaited = packet.state.compare_exchange(
                RUNNING,
                AWAITED,
                Ordering::Release,
                Ordering::Acquire,
            );
            if awaited.is_ok() {
                while !self.is_done() {
                    Waiter::wait_here();
                }
            }
        }
        // SAFETY: after DONE the fibre does not use the result.
        let result = unsafe { (*packet.result.get()).take() };
        result.unwrap_or_else(|| Err(Box::new("the result was taken already")))
    }
}

/// A spawned fibre and its result. Dropping the handle detaches the fibre.
pub struct JoinHandle<T> {
    reader: Reader<T>,
    fibre: Fibre,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(reader: Reader<T>, record: Arc<Record>) -> Self {
        Self {
            reader,
            fibre: Fibre { record },
        }
    }

    /// Waits for the fibre's result. Callable from a fibre or a thread.
    ///
    /// # Errors
    /// The payload of the fibre's panic.
    pub fn join(self) -> Result<T, Panic> {
        self.reader.wait()
    }

    /// Whether the fibre has ended and its result is available.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.reader.is_done()
    }

    /// The fibre.
    #[must_use]
    pub fn fibre(&self) -> &Fibre {
        &self.fibre
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

/// Spawns a fibre from a fibre, in the same runtime. The new fibre is enqueued behind the fibres
/// that are ready.
///
/// The closure and its result must be [`Send`], because a fibre may resume on any thread of the
/// runtime. The compiler does not check what a fibre keeps on its stack across a wait. Therefore,
/// across each wait (every function of this crate that waits, and [`yield_now`])
///
/// - keep no reference into a `thread_local!`, and nothing cloned from one (such as an `Rc`);
/// - hold no guard of a `std::sync::Mutex` or `RwLock`: a fibre that contends for it blocks its
///   processor, forever if the holder has to run there. Use [`Mutex`](crate::Mutex).
///
/// [`yield_now`]: crate::yield_now
///
/// # Panics
/// The caller is not a fibre, or there is no memory for the stack.
pub fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let spawned = local(|local| match local {
        Some(local) => local.anchor.spawn(run),
        None => no_fibre(),
    });
    spawned.unwrap_or_else(|error| panic!("no stack for another fibre: {error}"))
}
