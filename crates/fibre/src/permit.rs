//! The state word of a fibre. To park or wake a fibre is to change this word. The old value tells a
//! waker whether it must put the fibre in a queue of ready fibres.
//!
//! ```text
//!             unpark                      park
//! RUNNING ───────────► PERMITTED ───────────────► RUNNING     the permit is consumed
//!    │ park, after the fibre has left its stack
//!    ▼       unpark
//! PARKED ────────────► RUNNING, and the waker puts the fibre in a queue
//! ```
//!
//! A fibre that parks first leaves its stack. Only then does its processor set the word to
//! `PARKED`. Until the word is `PARKED`, no other processor can run the fibre, so two processors
//! never run the same fibre. If a waker finds the word still at `RUNNING`, the waker leaves a
//! *permit*: it sets the word to `PERMITTED`. The processor then finds the permit, and runs the
//! fibre again instead of parking it. So no wake-up is lost.

use crate::sync::atomic::{AtomicU8, Ordering};

/// The fibre runs or is ready to run, and has no permit.
const RUNNING: u8 = 0;
/// The fibre runs or is ready to run, and has a permit.
const PERMITTED: u8 = 1;
/// The fibre is parked.
const PARKED: u8 = 2;

/// The state word of a fibre: running, running with a permit, or parked. *Running* includes ready
/// to run.
#[derive(Debug)]
pub(crate) struct Permit {
    word: AtomicU8,
}

impl Permit {
    /// The state of a new fibre: running, without a permit.
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU8::new(RUNNING),
        }
    }

    /// Consumes the permit and returns true, if there is a permit. Called by the fibre before it
    /// parks; if this returns true, the fibre does not park.
    pub(crate) fn take(&self) -> bool {
        if self.word.load(Ordering::Relaxed) == PERMITTED {
            // Acquire: pairs with the release in `give`, so that the fibre sees the waker's writes.
            self.word.swap(RUNNING, Ordering::Acquire);
            return true;
        }
        false
    }

    /// Parks the fibre, and returns true. Called by the fibre's processor once the fibre has left
    /// its stack. If there is a permit, consumes it instead and returns false; the processor then
    /// runs the fibre again.
    pub(crate) fn park(&self) -> bool {
        // Release: pairs with `give` and `give_if_parked`, so that the next processor to run the
        // fibre sees its stack as the fibre left it.
        // Acquire on failure: pairs with `give`, so that the fibre sees the waker's writes.
        let parked =
            self.word
                .compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Acquire);
        if parked.is_err() {
            // Acquire: pairs with `give`, including the `give` of another waker since the failed
            // exchange.
            self.word.swap(RUNNING, Ordering::Acquire);
        }
        parked.is_ok()
    }

    /// Unparks the fibre if it is parked, and returns true; the caller must then put the fibre in a
    /// queue. Returns false if the fibre is not parked. Unlike [`Permit::give`], leaves no permit
    /// then. Callable from any thread.
    #[must_use]
    pub(crate) fn give_if_parked(&self) -> bool {
        // Acquire: pairs with `park`. No release is needed: the caller puts the fibre in a queue,
        // which makes the caller's writes visible to the processor that takes the fibre.
        self.word
            .compare_exchange(PARKED, RUNNING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Unparks the fibre if it is parked, and returns true; the caller must then put the fibre in a
    /// queue. If the fibre is not parked, leaves a permit and returns false. Callable from any
    /// thread.
    #[must_use]
    pub(crate) fn give(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let is_parked = word == PARKED;
            let next = if is_parked { RUNNING } else { PERMITTED };
            // Release: pairs with `take` and `park`, so that the fibre sees this waker's writes. If
            // an earlier waker has left a permit, the fibre sees the writes of both wakers, because
            // this is a read-modify-write. Acquire: pairs with `park`.
            let given =
                self.word
                    .compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed);
            match given {
                Ok(_) => return is_parked,
                Err(now) => word = now,
            }
        }
    }
}
