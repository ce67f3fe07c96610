//! The word on which a fibre parks, and which tells a waker whether it must schedule the fibre.
//!
//! ```text
//!             unpark                      park
//! RUNNING ───────────► PERMITTED ───────────────► RUNNING     the permit is consumed
//!    │ park, after it has left its stack
//!    ▼       unpark
//! PARKED ────────────► RUNNING, and the waker puts the fibre in a lane
//! ```
//!
//! A fibre that parks leaves its stack *first*; then its processor sets the word to `PARKED`. No
//! other processor runs the fibre before that. A waker that comes earlier leaves a permit; the
//! processor finds the permit and runs the fibre again. So two processors never run the same fibre,
//! and no wake-up is lost.

use crate::sync::atomic::{AtomicU8, Ordering};

const RUNNING: u8 = 0;
const PERMITTED: u8 = 1;
const PARKED: u8 = 2;

/// The state of a fibre: running, running with a permit, or parked.
#[derive(Debug)]
pub(crate) struct Permit {
    word: AtomicU8,
}

impl Permit {
    /// The state of a fibre that runs or is about to run.
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU8::new(RUNNING),
        }
    }

    /// Called by the fibre before it parks. Returns true if there was a permit, which is consumed:
    /// the fibre then does not park.
    pub(crate) fn take(&self) -> bool {
        if self.word.load(Ordering::Relaxed) == PERMITTED {
            // Acquire: pairs with `give`, which makes the waker's writes visible.
            self.word.swap(RUNNING, Ordering::Acquire);
            return true;
        }
        false
    }

    /// Parks the fibre. Called by its processor once the fibre has left its stack. Returns false if
    /// there was a permit, which is consumed: the fibre then must run again.
    pub(crate) fn park(&self) -> bool {
        // Release: pairs with `give` and `give_if_parked`: the next processor sees the fibre's
        // stack as it was left.
        // Acquire on failure: as in `take`.
        let parked =
            self.word
                .compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Acquire);
        if parked.is_err() {
            // Acquire: pairs with `give`, including a call that left another permit since the
            // exchange.
            self.word.swap(RUNNING, Ordering::Acquire);
        }
        parked.is_ok()
    }

    /// As [`Permit::give`], but leaves no permit if the fibre is not parked. Returns true if the
    /// fibre was parked: this caller, and no other, then has to enqueue it. Callable from any
    /// thread.
    #[must_use]
    pub(crate) fn give_if_parked(&self) -> bool {
        // Acquire: pairs with `park`. The lane's lock makes the waker's writes visible to the next
        // processor.
        self.word
            .compare_exchange(PARKED, RUNNING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Unparks the fibre, or leaves a permit. Returns true if the fibre was parked: this caller,
    /// and no other, then has to enqueue it. Callable from any thread.
    #[must_use]
    pub(crate) fn give(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let is_parked = word == PARKED;
            let next = if is_parked { RUNNING } else { PERMITTED };
            // Release: pairs with `take` and `park`, which make the waker's writes visible, and if
            // an earlier waker left the permit, the writes of both. Acquire: pairs with `park`.
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
