//! The interface of an encoder, which writes replies in a protocol.
//!
//! Execution is generic over [`Encode`], so each protocol has a copy of the code with its own
//! encoder inlined. A value thus goes from the store's memory straight into the output.
//!
//! `item` and `outcome` of the protocols in use are always inlined: where an outcome is known, only
//! the code that writes it remains. Without inlining, a `get` takes 4 % more instructions.

use store::Item;

use crate::cache::ValuePin;
use crate::control::StatWriter;
use crate::limits::COPY_MAX;
use crate::outcome::{FoundItem, Outcome};
use crate::prefixes::PrefixCount;
use crate::session::Output;

/// Writes the replies to one request. Each protocol implements this for its
/// [echo](crate::protocols::Encoder): the parts of a request that its replies repeat or depend on.
pub(crate) trait Encode {
    /// The bytes that have to follow a value in the input. (Those after a value in the output are
    /// an argument of [`push_value`].)
    const VALUE_END: &'static [u8];

    /// Whether reads have other options than a touch. Without any, every read is that of
    /// [`ReadOptions::plain`](crate::operation::ReadOptions::plain).
    const HAS_READ_OPTIONS: bool;

    /// The type that formats statistics.
    type Stats<'o>: StatWriter;

    /// Writes an item. Called in the closure that [`store::Worker::read`] passes the item to.
    /// Returns `None`, and writes nothing, if the value has to be pinned and no pin is available.
    fn item(&self, found: &FoundItem<'_>, out: &mut Output) -> Option<()>;

    /// Writes the outcome of a request. `key` is the decoded key, or empty if the request has no
    /// key or several.
    fn outcome(&self, key: &[u8], outcome: Outcome, out: &mut Vec<u8>);

    /// A writer of statistics into `out`. The caller writes [`ServerOutcome::StatsEnd`] after the
    /// last statistic.
    ///
    /// [`ServerOutcome::StatsEnd`]: crate::outcome::ServerOutcome::StatsEnd
    fn stats<'o>(&self, out: &'o mut Vec<u8>) -> Self::Stats<'o>;

    /// Writes the counts of one key prefix, for `stats detail dump`.
    fn prefix(&self, prefix: &[u8], count: &PrefixCount, out: &mut Vec<u8>);
}

/// Appends a header, the item's value, and the bytes `end`. A value of at most [`COPY_MAX`] bytes
/// is copied, a longer one is pinned. Returns `None`, and appends nothing, if the value cannot be
/// pinned.
#[inline(always)]
pub(crate) fn push_value(
    item: &Item<'_>,
    header: impl FnOnce(&mut Vec<u8>),
    end: &[u8],
    out: &mut Output,
) -> Option<()> {
    if item.value_len() <= COPY_MAX {
        let bytes = out.bytes_mut();
        header(bytes);
        item.value()
            .for_each(|piece| bytes.extend_from_slice(piece));
        bytes.extend_from_slice(end);
        return Some(());
    }
    let pin = item.pin()?;
    header(out.bytes_mut());
    out.push_pin(ValuePin(pin));
    out.bytes_mut().extend_from_slice(end);
    Some(())
}
