//! The interface of an encoder, which writes replies in the format of one protocol.
//!
//! Execution is generic over [`Encode`], so each protocol has a copy of the code with its own
//! encoder inlined. An encoder copies a value from the store's memory directly into the output.
//!
//! The text and the meta encoder always inline `item` and `outcome`. The caller usually knows
//! which outcome it passes, so the compiler keeps only the code that writes this outcome. Without
//! inlining, a `get` takes 4 % more instructions.

use store::Item;

use crate::cache::ValuePin;
use crate::control::StatWriter;
use crate::limits::COPY_MAX;
use crate::outcome::{FoundItem, Outcome};
use crate::prefixes::PrefixCount;
use crate::session::Output;

/// Writes the replies to one request. Each protocol has a type that implements this trait, and a
/// variant of [`Encoder`](crate::protocols::Encoder) that contains this type.
pub(crate) trait Encode {
    /// The bytes that a client sends after a value in a request of this protocol. This is not used
    /// for replies; there the bytes after a value are an argument of [`push_value`].
    const VALUE_END: &'static [u8];

    /// Whether the protocol's reads have options other than a touch. If false, all its reads use
    /// [`ReadOptions::plain`](crate::operation::ReadOptions::plain).
    const HAS_READ_OPTIONS: bool;

    /// The type that formats statistics.
    type Stats<'o>: StatWriter;

    /// Writes an item. This is called in the closure to which [`store::Worker::read`] passes the
    /// item. Returns `None` and writes nothing if the value has to be pinned and no pin is
    /// available.
    fn item(&self, found: &FoundItem<'_>, out: &mut Output) -> Option<()>;

    /// Writes the outcome of a request. `key` is the decoded key. It is empty if the request has no
    /// key, or has several.
    fn outcome(&self, key: &[u8], outcome: Outcome, out: &mut Vec<u8>);

    /// Returns a writer that appends statistics to `out`. After the last statistic the caller
    /// passes [`ServerOutcome::StatsEnd`] to [`outcome`](Self::outcome).
    ///
    /// [`ServerOutcome::StatsEnd`]: crate::outcome::ServerOutcome::StatsEnd
    fn stats<'o>(&self, out: &'o mut Vec<u8>) -> Self::Stats<'o>;

    /// Writes the counts of one key prefix, for `stats detail dump`.
    fn prefix(&self, prefix: &[u8], count: &PrefixCount, out: &mut Vec<u8>);
}

/// Appends a header, the item's value, and the bytes `end`. Copies a value of at most [`COPY_MAX`]
/// bytes and pins a longer value. Returns `None` and appends nothing if the value cannot be pinned.
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
