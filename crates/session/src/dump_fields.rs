//! The fields of an item that the lists of `lru_crawler`, `stats cachedump` and `prefix` show.

use protocol::reply::DumpFields;
use store::{Expiry, Item, item_len};

use crate::now::Now;

/// Returns all fields of an item that any of these lists shows.
pub(crate) fn fields<'k>(key: &'k [u8], item: &Item<'_>, now: Now) -> DumpFields<'k> {
    let left_s = match item.expiry {
        Expiry::NEVER => None,
        expiry => expiry.seconds_left(now.elapsed_s),
    };
    let now_unix_s = u64::from(now.elapsed_s) + now.epoch_unix_s;
    let idle_s = now.elapsed_s.saturating_sub(item.last_access_s);
    DumpFields {
        key,
        expires_s: left_s.map(|left_s| now_unix_s + u64::from(left_s)),
        accessed_s: now_unix_s.saturating_sub(idle_s.into()),
        cas: item.cas,
        fetched: item.fetched,
        class: item.size_class().number(),
        // The length as memcached counts it: with memcached's overhead per item.
        item_len: item_len(key.len(), item.flags, item.value_len()) as u64,
        client_flags: item.flags,
        base64_key: item.base64_key,
        value_len: item.value_len() as u64,
    }
}
