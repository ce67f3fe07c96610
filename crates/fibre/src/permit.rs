//! The word on which a fibre parks, and whoever rouses it finds out whether it has to.
//!
//! ```text
//!             unpark                      park
//! RUNNING ───────────► PERMITTED ───────────────► RUNNING     the permit is used up
//!    │ park, once off its stack
//!    ▼       unpark
//! PARKED ────────────► RUNNING, and it is the rouser who puts it in a lane
//! ```
//!
//! A fibre that parks is taken off its stack *first*; the processor then says so here. Until it
//! has, nobody else runs it: who rouses it meanwhile leaves a permit, and the processor, which
//! finds it, runs the fibre again. So a fibre is never in two places, and no rousing is lost.

use crate::sync::atomic::{AtomicU8, Ordering};

const RUNNING: u8 = 0;
const PERMITTED: u8 = 1;
const PARKED: u8 = 2;

/// Whether a fibre runs, may go on, or is parked.
#[derive(Debug)]
pub(crate) struct Permit {
    word: AtomicU8,
}

impl Permit {
    /// Of a fibre that runs, or is about to.
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU8::new(RUNNING),
        }
    }

    /// The fibre, before it parks: uses up the permit, if there is one. It need not park then.
    pub(crate) fn take(&self) -> bool {
        if self.word.load(Ordering::Relaxed) == PERMITTED {
            // Acquire: pairs with `give`: what the rouser did before is seen.
            self.word.swap(RUNNING, Ordering::Acquire);
            return true;
        }
        false
    }

    /// The processor, with the fibre off its stack: parks it. False: there is a permit, which is
    /// used up; the fibre has to go on.
    pub(crate) fn park(&self) -> bool {
        // Release: pairs with `give` and `give_if_parked`: whoever runs the fibre next finds its
        // stack as it left it.
        // Acquire, in failing: as in `take`.
        let parked =
            self.word
                .compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Acquire);
        if parked.is_err() {
            // Acquire: pairs with `give`: of whoever left another permit since, too.
            self.word.swap(RUNNING, Ordering::Acquire);
        }
        parked.is_ok()
    }

    /// Anybody: as [`Permit::give`], but only if it is parked; then true, and the caller alone has
    /// to put it in a lane.
    #[must_use]
    pub(crate) fn give_if_parked(&self) -> bool {
        // Acquire: pairs with `park`. Who runs the fibre next sees what is done before it is put in
        // a lane.
        self.word
            .compare_exchange(PARKED, RUNNING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Anybody: lets the fibre go on. True: it was parked, and the caller alone has to put it in a
    /// lane.
    #[must_use]
    pub(crate) fn give(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let is_parked = word == PARKED;
            let next = if is_parked { RUNNING } else { PERMITTED };
            // Release: pairs with `take` and `park`: what the rouser did before is seen, and where
            // a permit was there already, that of both. Acquire: pairs with `park`.
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
