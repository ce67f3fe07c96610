//! Joining a fibre: how its result passes to the fibre or thread that waits for it.

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

/// The fibre has not ended, and the joiner does not wait yet.
const RUNNING: u8 = 0;
/// The fibre has not ended, and the joiner waits.
const AWAITED: u8 = 1;
/// The fibre has ended, and its result is stored.
const DONE: u8 = 2;

/// Memory through which a fibre passes its result to the *joiner*: the fibre or thread that waits
/// for the result.
struct Packet<T> {
    /// [`RUNNING`] at first, [`AWAITED`] from when the joiner waits, and [`DONE`] at the end.
    state: AtomicU8,
    /// Written by the fibre before it sets `state` to DONE; read by the joiner after it has seen
    /// DONE.
    result: UnsafeCell<Option<Result<T, Panic>>>,
    /// Written by the joiner before it sets `state` to AWAITED; read by the fibre after it has seen
    /// AWAITED.
    waiter: UnsafeCell<Option<Waiter>>,
}

// SAFETY: the fibre writes `result` and the joiner reads it; the joiner writes `waiter` and the
// fibre reads it. Each reads only after it has seen the `state` that the writer sets after writing.
// From then on, the writer does not use the cell again.
unsafe impl<T: Send> Send for Packet<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for Packet<T> {}

/// The fibre's end of a packet.
pub(crate) struct Writer<T>(Arc<Packet<T>>);

/// The joiner's end of a packet.
pub(crate) struct Reader<T>(Arc<Packet<T>>);

/// Creates a packet for one result.
pub(crate) fn packet<T>() -> (Writer<T>, Reader<T>) {
    let packet = Arc::new(Packet {
        state: AtomicU8::new(RUNNING),
        result: UnsafeCell::new(None),
        waiter: UnsafeCell::new(None),
    });
    (Writer(Arc::clone(&packet)), Reader(packet))
}

impl<T> Writer<T> {
    /// Runs `run`, the fibre's closure. Stores the result of the closure, or the payload of its
    /// panic, and wakes the joiner if it waits.
    pub(crate) fn fill(self, run: impl FnOnce() -> T) {
        let result = catch_unwind(AssertUnwindSafe(run));
        let packet = &*self.0;
        // SAFETY: the joiner does not read the result before DONE.
        unsafe { *packet.result.get() = Some(result) };
        // Release: pairs with the load in `is_done`, so that the joiner sees the result.
        // Acquire: pairs with the store of AWAITED in `Reader::wait`, so that this fibre sees the
        // waiter.
        if packet.state.swap(DONE, Ordering::AcqRel) == AWAITED {
            // SAFETY: the joiner wrote the waiter before AWAITED and does not use it afterwards.
            let waiter = unsafe { (*packet.waiter.get()).take() };
            if let Some(waiter) = waiter {
                waiter.wake();
            }
        }
        // If the join handle was dropped, `self.0` is the last reference to the packet, and
        // dropping it drops the result. If this drop panics, the panic must not reach the
        // processor, so it is caught. Dropping the payload of this panic may panic, too; the
        // payload of the second panic is leaked.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(self.0))) {
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(panic)));
            dropped.unwrap_or_else(std::mem::forget);
        }
    }
}

impl<T> Reader<T> {
    /// Whether the fibre has ended.
    fn is_done(&self) -> bool {
        // Acquire: pairs with the store of DONE in `Writer::fill`.
        self.0.state.load(Ordering::Acquire) == DONE
    }

    /// Waits for the result.
    pub(crate) fn wait(self) -> Result<T, Panic> {
        let packet = &*self.0;
        if !self.is_done() {
            // SAFETY: the fibre does not read the waiter before AWAITED.
            unsafe { *packet.waiter.get() = Some(Waiter::current()) };
            // Release: pairs with `Writer::fill`, which reads the waiter after AWAITED. Acquire on
            // failure: the state is DONE already, and this pairs with the store in `Writer::fill`,
            // so that the result is visible.
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
        // SAFETY: after DONE the fibre does not use the result any more.
        let result = unsafe { (*packet.result.get()).take() };
        // Unreachable, because `wait` consumes the only reader.
        result.unwrap_or_else(|| Err(Box::new("the result was taken already")))
    }
}

/// A handle to a spawned fibre, with which another fibre or a thread waits for the result of the
/// fibre. If the handle is dropped, the fibre continues to run, and its result is dropped.
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

/// Spawns a fibre in the runtime of the calling fibre. The new fibre is put in a queue of ready
/// fibres, and the caller continues to run.
///
/// The closure and its result must be [`Send`], because a fibre may resume on any thread of the
/// runtime. What it holds on its stack during a wait (in any function of this crate that waits, and
/// in [`yield_now`]) is bounded by the contract of [`Builder::start`](crate::Builder::start). It
/// should not hold a guard of a `std::sync::Mutex` or `RwLock` either: a second fibre that locks
/// the same lock blocks the processor on which it runs, for ever if the first one can run only
/// there. Use [`Mutex`](crate::Mutex) instead.
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
