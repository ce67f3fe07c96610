//! The view of an item of the pool that an encoder uses, and conversions between the pool's and the
//! server's times of expiry.

use pool::Item;
use service::NoPin;
use store::Expiry;

use crate::encode::{EncodedItem, ItemHistory};
use crate::now::Now;

/// An item that a client of the pool has read. Its value has been copied from the pool to this
/// process.
pub(super) struct PooledItem<'a> {
    pub(super) item: &'a Item,
    pub(super) now: Now,
}

impl EncodedItem for PooledItem<'_> {
    type Pin = NoPin;

    // Every value is copied into the output: the pool's items cannot be pinned.
    const COPY_MAX: usize = usize::MAX;

    fn flags(&self) -> u32 {
        self.item.content.client_flags
    }

    fn cas(&self) -> u64 {
        self.item.unique
    }

    fn expiry(&self) -> Expiry {
        expiry(self.item.content.expiry_s, self.now)
    }

    fn value_len(&self) -> usize {
        self.item.content.value.len()
    }

    fn value(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.item.content.value[..])
    }

    fn pin(&self) -> Option<NoPin> {
        None
    }

    /// A pool records no reads. So requests for data about earlier reads are rejected (`plan.rs`),
    /// and no reply shows this history.
    fn history(&self) -> ItemHistory {
        ItemHistory {
            last_access_s: self.now.elapsed_s,
            ..ItemHistory::default()
        }
    }

    fn memory_len(&self) -> usize {
        self.value_len()
    }
}

/// Converts an expiry of the pool, a Unix time in seconds, to the server's clock. 0 means never.
pub(super) fn expiry(expiry_s: u32, now: Now) -> Expiry {
    match expiry_s {
        0 => Expiry::NEVER,
        unix_s => Expiry::at(now.since_epoch(unix_s)),
    }
}

/// Returns the expiry that the pool stores for an item whose client sent `exptime`: a Unix time in
/// seconds, or 0 for never.
pub(super) fn expiry_s(exptime: i32, now: Now) -> u32 {
    /// A second that is past for every client of the pool, however much their clocks differ.
    const PAST_S: u32 = 1;
    match now.expiry(exptime).seconds_left(now.elapsed_s) {
        None => 0,
        Some(0) => PAST_S,
        Some(left_s) => {
            let now_s = now.epoch_unix_s + u64::from(now.elapsed_s);
            u32::try_from(now_s + u64::from(left_s)).unwrap_or(u32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now {
        elapsed_s: 100,
        epoch_unix_s: 1_700_000_000,
    };

    #[test]
    fn exptime_becomes_a_unix_time_in_the_pool_and_back() {
        assert_eq!(expiry_s(0, NOW), 0);
        assert_eq!(expiry_s(-1, NOW), 1);
        assert_eq!(expiry_s(5, NOW), 1_700_000_105);
        assert_eq!(expiry_s(1_700_000_150, NOW), 1_700_000_150);
        assert_eq!(expiry_s(1_600_000_000, NOW), 1);
        for exptime in [0, 5, 1_700_000_150] {
            let stored = expiry(expiry_s(exptime, NOW), NOW);
            assert_eq!(stored, NOW.expiry(exptime), "{exptime}");
        }
    }
}
