//! Being told to end.

use std::io;

use crate::fibre::Fibre;
use crate::switch::{current, may_wait};

/// The fibre was told to end ([`Fibre::cancel`](crate::Fibre::cancel)) while, or before, it waited
/// for input, output or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fibre was told to end")]
pub struct Cancelled;

impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> Self {
        Self::other(cancelled)
    }
}

/// The fibre that runs here, about to ask for what it waits for: it could not, had it been told to
/// end, or while it unwinds.
///
/// # Panics
/// Not in a fibre.
pub(crate) fn begin_wait() -> io::Result<Fibre> {
    let fibre = current();
    if fibre.is_cancelled() {
        return Err(Cancelled.into());
    }
    may_wait()?;
    Ok(fibre)
}

/// Why a fibre gave up what it waited for: it was told to end, or its time was over.
pub(crate) fn given_up(fibre: &Fibre) -> io::Error {
    match fibre.is_cancelled() {
        true => Cancelled.into(),
        false => io::ErrorKind::TimedOut.into(),
    }
}

/// Whether an error of input or output says that the fibre was told to end.
#[must_use]
pub fn is_cancelled(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Cancelled>)
}
