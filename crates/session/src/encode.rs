//! The interface of an encoder, which writes replies in a protocol.
//!
//! Execution is generic over [`Encode`], so each protocol has a copy of it with its own encoder
//! inlined. A value thus goes from the store's memory straight into the output.
//!
//! `item` and `outcome` of the protocols in use are always inlined: where an outcome is known, only
//! the code that writes it remains. Without that a `get` takes 4 % more instructions.

use store::Item;

use crate::cache::ValuePin;
use crate::control::StatWriter;
use crate::limits::COPY_MAX;
use crate::outcome::{Found, Outcome};
use crate::prefixes::PrefixCount;
use crate::session::Output;

/// Writes the replies to one request. The implementor is the protocol's echo: the parts of the
/// request that its replies repeat or depend on.
pub(crate) trait Encode {
    /// The bytes that follow a value sent by the client.
    const VALUE_END: &'static [u8];

    /// Writes statistics.
    type Stats<'o>: StatWriter;

    /// Writes an item. Called within the store's visit. Returns none, and writes nothing, if the
    /// value has to be pinned and no pin is available.
    fn item(&self, found: &Found<'_>, out: &mut Output) -> Option<()>;

    /// Writes the outcome of a request for `key`, which is decoded. It is empty if the request has
    /// no key or several.
    fn outcome(&self, key: &[u8], outcome: Outcome, out: &mut Vec<u8>);

    /// A writer of statistics. [`ServerOutcome::StatsEnd`] follows the last one.
    ///
    /// [`ServerOutcome::StatsEnd`]: crate::outcome::ServerOutcome::StatsEnd
    fn stats<'o>(&self, out: &'o mut Vec<u8>) -> Self::Stats<'o>;

    /// Writes the counts of one key prefix, which are statistics too.
    fn prefix(&self, prefix: &[u8], count: &PrefixCount, out: &mut Vec<u8>);
}

/// Appends a header and the item's value, which is copied if small and pinned if large, and the
/// bytes that follow it. Returns none, and appends nothing, if the value could not be pinned.
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
