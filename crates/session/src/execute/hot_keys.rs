//! `stats hotkeys`: the most frequently read keys.

use protocol::reply::uri_encoded;
use store::Read;

use crate::control::StatWriter;
use crate::session::RequestContext;

/// Writes the most frequently read keys, in descending order of their numbers of reads. The store
/// estimates these numbers from samples of the recent reads. Also writes the length of the present
/// value of each key. Keys are percent-encoded, as in the output of memcached's `lru_crawler
/// metadump`.
pub(super) fn write(context: &mut RequestContext<'_>, stats: &mut impl StatWriter) {
    let now_s = context.now.elapsed_s;
    let hot = context.worker.store().hot_keys(now_s);
    // The recent reads of all keys, not only of the hot ones.
    stats.number(b"hotkeys:gets", hot.reads);
    for (rank, hot_key) in hot.keys.iter().enumerate() {
        let name = |suffix| format!("hotkeys:{}:{suffix}", rank + 1).into_bytes();
        let mut text = Vec::with_capacity(hot_key.key.len());
        uri_encoded(&mut text, &hot_key.key);
        stats.text(&name("key"), &text);
        stats.number(&name("gets"), hot_key.reads);
        stats.number(&name("gets_error_max"), hot_key.overestimate);
        stats.number(&name("gets_per_second"), hot_key.reads_per_s);
        if let Some(value_len) = value_len(&hot_key.key, context) {
            stats.number(&name("value_bytes"), value_len);
        }
    }
}

/// The length of the value of a key in bytes. `None`: the key has no item in memory.
fn value_len(key: &[u8], context: &mut RequestContext<'_>) -> Option<u64> {
    let (hash, now_s) = (context.worker.hash(key), context.now.elapsed_s);
    // This read is not a client's, so it must not affect eviction or the item's access time.
    let options = Read {
        untracked: true,
        ..Read::default()
    };
    let len = |item: &store::Item<'_>| Some(item.value_len() as u64);
    let read = context.worker.read(key, hash, now_s, options, len);
    // `Ok(None)` would mean that the read has to wait. A read waits only for a touch or a pin, and
    // this one has neither.
    read.ok().flatten()
}
