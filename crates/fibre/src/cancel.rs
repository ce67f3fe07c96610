//! Cancellation of fibres.

use std::io;

use crate::fibre::Fibre;
use crate::switch::{current, may_wait};

/// The error of a wait for input, output or a timer if the fibre was cancelled before or during the
/// wait ([`Fibre::cancel`](crate::Fibre::cancel)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fibre was cancelled")]
pub struct Cancelled;

impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> Self {
        Self::other(cancelled)
    }
}

/// Checks that the current fibre may wait, and returns it. The fibre calls this before it starts an
/// operation whose end it will wait for.
///
/// # Errors
/// The fibre was cancelled, or it is unwinding from a panic.
///
/// # Panics
/// The caller is not a fibre.
pub(crate) fn begin_wait() -> io::Result<Fibre> {
    let fibre = current();
    if fibre.is_cancelled() {
        return Err(Cancelled.into());
    }
    // Fails if the fibre is unwinding.
    may_wait()?;
    Ok(fibre)
}

/// Returns the error of a wait whose operation did not complete: `Cancelled` if the fibre was
/// cancelled, and a timeout otherwise.
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
