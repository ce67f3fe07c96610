//! The interface of an encoder, which writes replies in the format of one protocol.
//!
//! The code that executes requests is generic over [`Encode`], so the compiler makes a copy of this
//! code for each protocol, with the encoder of that protocol inlined. An encoder copies a value
//! from the store's memory directly into the output.
//!
//! The methods `item` and `outcome` of the text and the meta encoder are always inlined. In most
//! calls the variant of the outcome is a constant, so the compiler keeps only the code that writes
//! this variant. Without inlining, a `get` takes 4 % more instructions.

use service::{Output, Pin};
use store::{Expiry, Item};

use crate::cache::ValuePin;
use crate::control::StatWriter;
use crate::limits::COPY_MAX;
use crate::outcome::{FoundItem, Outcome};
use crate::prefixes::PrefixSums;

/// The key that is passed to the encoder if the request has no key, or has several.
pub(crate) const NO_KEY: &[u8] = b"";

/// Writes the replies to one request. Each protocol has a type that implements this trait, and a
/// variant of [`Encoder`](crate::protocols::Encoder) that contains this type.
pub(crate) trait Encode {
    /// The bytes that a client sends after a value in a request of this protocol. Replies do not
    /// use this constant: the bytes after a value in a reply are an argument of [`push_value`].
    const VALUE_END: &'static [u8];

    /// Whether a read of this protocol can have options besides a new time to live. If false, the
    /// options of all its reads are [`ReadOptions::plain`](crate::operation::ReadOptions::plain).
    const HAS_READ_OPTIONS: bool;

    /// The type that formats statistics.
    type Stats<'o>: StatWriter;

    /// Writes an item. An item of the store may be used only in the closure to which
    /// [`store::Worker::read`] passes it, so this method is called there. A long value is not
    /// copied but *pinned*: the store does not reuse the value's memory until the value has been
    /// sent. Returns `None` and writes nothing if the value has to be pinned but cannot be, because
    /// pins hold too much memory already.
    fn item<I: EncodedItem>(
        &self,
        found: &FoundItem<'_, I>,
        out: &mut Output<I::Pin>,
    ) -> Option<()>;

    /// Writes the reply to a request with this outcome. The items that a read found have been
    /// written before, by [`item`](Self::item). `key` is the decoded key, or [`NO_KEY`].
    fn outcome(&self, key: &[u8], outcome: Outcome, out: &mut Vec<u8>);

    /// The command that log lines show for a deletion in this protocol.
    fn delete_name(&self) -> &'static str {
        "delete"
    }

    /// Returns a writer that appends statistics to `out`. After the last statistic the caller
    /// passes [`ServerOutcome::StatsEnd`] to [`outcome`](Self::outcome).
    ///
    /// [`ServerOutcome::StatsEnd`]: crate::outcome::ServerOutcome::StatsEnd
    fn stats<'o>(&self, out: &'o mut Vec<u8>) -> Self::Stats<'o>;

    /// Writes the counts of accesses by key prefix, for `stats detail dump`. After this call the
    /// caller passes [`ServerOutcome::StatsEnd`] to [`outcome`](Self::outcome).
    ///
    /// [`ServerOutcome::StatsEnd`]: crate::outcome::ServerOutcome::StatsEnd
    fn prefixes(&self, sums: &PrefixSums, out: &mut Vec<u8>);
}

/// An item that an encoder writes. It comes from the store or from a memory pool.
pub(crate) trait EncodedItem {
    /// A pin of the item's value.
    type Pin: Pin;

    /// Maximum length in bytes of a value that is copied. A longer value is pinned.
    const COPY_MAX: usize;

    /// The client flags.
    fn flags(&self) -> u32;

    /// The CAS: a number that changes with every write of the item.
    fn cas(&self) -> u64;

    /// The expiry that the item had before this read. The read may set a new one.
    fn expiry(&self) -> Expiry;

    /// The length of the value in bytes.
    fn value_len(&self) -> usize;

    /// The value as slices in order.
    fn value(&self) -> impl Iterator<Item = &[u8]>;

    /// Pins the value. Returns `None` if pins hold too much memory already.
    fn pin(&self) -> Option<Self::Pin>;

    /// What the item records of earlier reads and writes.
    fn history(&self) -> ItemHistory;

    /// The bytes of memory that the item takes.
    fn memory_len(&self) -> usize;
}

/// What an item records of earlier reads and writes, for the meta commands that show it.
///
/// A read by a meta command *claims* an item that is stale, or that expires soon if the client
/// requests this. The first such read wins, and its client should renew the value.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ItemHistory {
    /// The second of the last read or write before this read, on the server's clock.
    pub(crate) last_access_s: u32,
    /// Whether an earlier read has found the item since the item was last written.
    pub(crate) fetched: bool,
    /// Whether the item is marked stale, because a client has invalidated it. Reads still return
    /// its value.
    pub(crate) stale: bool,
    /// Whether this read has claimed the item, and so won.
    pub(crate) won: bool,
    /// Whether an earlier read had claimed the item.
    pub(crate) claimed: bool,
    /// Whether the last command that wrote a complete value sent the key in base64. An append, for
    /// example, does not write a complete value.
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

/// Appends to `out` what `header` writes, the item's value, and the bytes `end`. Copies a value of
/// at most [`EncodedItem::COPY_MAX`] bytes, and pins a longer value. Returns `None` and appends
/// nothing if the value has to be pinned but cannot be.
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
