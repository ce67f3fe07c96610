//! Being told to end.

use std::io;

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

/// Whether an error of input or output says that the fibre was told to end.
#[must_use]
pub fn is_cancelled(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Cancelled>)
}
