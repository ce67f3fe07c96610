//! Cancellation of fibres.

use std::io;

use crate::fibre::Fibre;
use crate::switch::{current, may_wait};

/// The fibre was cancelled ([`Fibre::cancel`](crate::Fibre::cancel)) before or while it waited for
/// input, output or a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fibre was cancelled")]
pub struct Cancelled;

impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> Self {
        Self::other(cancelled)
    }
}

/// Returns the current fibre, which is about to start an operation and wait for it. Fails if the
/// fibre was cancelled or is unwinding.
///
/// # Panics
/// The caller is not a fibre.
pub(crate) fn begin_wait() -> io::Result<Fibre> {
    let fibre = current();
    if fibre.is_cancelled() {
        return Err(Cancelled.into());
    }
    may_wait()?;
    Ok(fibre)
}

/// The error of a wait that ended early: the fibre was cancelled, or the timeout expired.
pub(crate) fn cancelled_or_timed_out(fibre: &Fibre) -> io::Error {
    match fibre.is_cancelled() {
        true => Cancelled.into(),
        false => io::ErrorKind::TimedOut.into(),
    }
}

/// Whether an I/O error means that the fibre was cancelled.
#[must_use]
pub fn is_cancelled(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Cancelled>)
}
