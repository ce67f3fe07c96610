//! The interface of an encoder, which writes replies in the format of one protocol.
//!
//! Execution is generic over [`Encode`], so each protocol has a copy of the code with its own
//! encoder inlined. An encoder copies a value from the store's memory directly into the output.
//!
//! The text and the meta encoder always inline `item` and `outcome`. The caller usually knows
//! which outcome it passes, so the compiler keeps only the code that writes this outcome. Without
//! inlining, a `get` takes 4 % more instructions.

use service::{Output, Pin};
use store::{Expiry, Item};

use crate::cache::ValuePin;
use crate::control::StatWriter;
use crate::limits::COPY_MAX;
use crate::outcome::{FoundItem, Outcome};
use crate::prefixes::PrefixSums;

/// Writes the replies to one request. Each protocol has a type that implements this trait, and a
/// variant of [`Encoder`](crate::protocols::Encoder) that contains this type.
pub(crate) trait Encode {
    /// The bytes that a client sends after a value in a request of this protocol. This is not used
    /// for replies; there the bytes after a value are an argument of [`push_value`].
    const VALUE_END: &'static [u8];

    /// Whether the protocol's reads have options other than a new time to live (a touch). If false,
    /// all its reads use [`ReadOptions::plain`](crate::operation::ReadOptions::plain).
    const HAS_READ_OPTIONS: bool;

    /// The type that formats statistics.
    type Stats<'o>: StatWriter;

    /// Writes an item. For the store, this is called in the closure to which
    /// [`store::Worker::read`] passes the item. A long value is not copied but pinned: its memory
    /// stays in use until the value has been sent. Returns `None` and writes nothing if the value
    /// has to be pinned and no pin is available.
    fn item<I: EncodedItem>(
        &self,
        found: &FoundItem<'_, I>,
        out: &mut Output<I::Pin>,
    ) -> Option<()>;

    /// Writes the outcome of a request. `key` is the decoded key. It is empty if the request has no
    /// key, or has several.
    fn outcome(&self, key: &[u8], outcome: Outcome, out: &mut Vec<u8>);

    /// The name of the protocol's delete command in log lines.
    fn delete_name(&self) -> &'static str {
        "delete"
    }

    /// Returns a writer that appends statistics to `out`. After the last statistic the caller
    /// passes [`ServerOutcome::StatsEnd`] to [`outcome`](Self::outcome).
    ///
    /// [`ServerOutcome::StatsEnd`]: crate::outcome::ServerOutcome::StatsEnd
    fn stats<'o>(&self, out: &'o mut Vec<u8>) -> Self::Stats<'o>;

    /// Writes the counts by key prefix, for `stats detail dump`. After it the caller passes
    /// [`ServerOutcome::StatsEnd`] to [`outcome`](Self::outcome).
    ///
    /// [`ServerOutcome::StatsEnd`]: crate::outcome::ServerOutcome::StatsEnd
    fn prefixes(&self, sums: &PrefixSums, out: &mut Vec<u8>);
}

/// An item of the store or of a memory pool, as an encoder reads it.
pub(crate) trait EncodedItem {
    /// A pin of its value.
    type Pin: Pin;

    /// Maximum length in bytes of a value that is copied. A longer value is pinned.
    const COPY_MAX: usize;

    /// The client flags.
    fn flags(&self) -> u32;

    /// The CAS.
    fn cas(&self) -> u64;

    /// The expiry before this read.
    fn expiry(&self) -> Expiry;

    /// The length of the value in bytes.
    fn value_len(&self) -> usize;

    /// The value as slices in order.
    fn value(&self) -> impl Iterator<Item = &[u8]>;

    /// Pins the value. `None` if no pin is available.
    fn pin(&self) -> Option<Self::Pin>;

    /// The record of earlier reads and writes of the item.
    fn history(&self) -> ItemHistory;

    /// The bytes of memory that the item takes.
    fn memory_len(&self) -> usize;
}

/// The record of earlier reads and writes of an item, as far as flags of meta commands show it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ItemHistory {
    /// The second of the last read or write before this one.
    pub(crate) last_access_s: u32,
    /// Whether there was another read between the item's last write and this read.
    pub(crate) fetched: bool,
    /// Whether the item was invalidated.
    pub(crate) stale: bool,
    /// Whether this read has claimed the item.
    pub(crate) won: bool,
    /// Whether an earlier read had claimed the item.
    pub(crate) claimed: bool,
    /// Whether the last write of a complete value gave the key in base64.
    pub(crate) base64_key: bool,
}

impl EncodedItem for Item<'_> {
    type Pin = ValuePin;

    const COPY_MAX: usize = COPY_MAX;

    #[inline(always)]
    fn flags(&self) -> u32 {
        self.flags
    }

    #[inline(always)]
    fn cas(&self) -> u64 {
        self.cas
    }

    #[inline(always)]
    fn expiry(&self) -> Expiry {
        self.expiry
    }

    #[inline(always)]
    fn value_len(&self) -> usize {
        Item::value_len(self)
    }

    #[inline(always)]
    fn value(&self) -> impl Iterator<Item = &[u8]> {
        Item::value(self)
    }

    #[inline(always)]
    fn pin(&self) -> Option<ValuePin> {
        Item::pin(self).map(ValuePin)
    }

    #[inline(always)]
    fn history(&self) -> ItemHistory {
        ItemHistory {
            last_access_s: self.last_access_s,
            fetched: self.fetched,
            stale: self.stale,
            won: self.won,
            claimed: self.claimed,
            base64_key: self.base64_key,
        }
    }

    fn memory_len(&self) -> usize {
        Item::memory_len(self)
    }
}

/// Appends a header, the item's value, and the bytes `end`. Copies a value of at most
/// [`EncodedItem::COPY_MAX`] bytes and pins a longer value. Returns `None` and appends nothing if
/// the value cannot be pinned.
#[inline(always)]
pub(crate) fn push_value<I: EncodedItem>(
    item: &I,
    header: impl FnOnce(&mut Vec<u8>),
    end: &[u8],
    out: &mut Output<I::Pin>,
) -> Option<()> {
    if item.value_len() <= I::COPY_MAX {
        let bytes = out.bytes_mut();
        header(bytes);
        item.value()
            .for_each(|piece| bytes.extend_from_slice(piece));
        bytes.extend_from_slice(end);
        return Some(());
    }
    let pin = item.pin()?;
    header(out.bytes_mut());
    out.push_pin(pin);
    out.bytes_mut().extend_from_slice(end);
    Some(())
}
