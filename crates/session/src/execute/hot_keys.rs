//! `stats hotkeys`: the most frequently read keys.

use protocol::reply::uri_encoded;
use store::Read;

use crate::control::StatWriter;
use crate::session::RequestContext;

/// Writes the keys in descending order of their numbers of reads, with the lengths of their present
/// values. Keys are encoded as in the output of memcached's `lru_crawler metadump`.
pub(super) fn write(context: &mut RequestContext<'_>, stats: &mut impl StatWriter) {
    let now_s = context.now.elapsed_s;
    let hot = context.worker.store().hot_keys(now_s);
    stats.number(b"hotkeys:gets", hot.reads);
    for (rank, key) in hot.keys.iter().enumerate() {
        let name = |what| format!("hotkeys:{}:{what}", rank + 1).into_bytes();
        let mut text = Vec::with_capacity(key.key.len());
        uri_encoded(&mut text, &key.key);
        stats.text(&name("key"), &text);
        stats.number(&name("gets"), key.reads);
        stats.number(&name("gets_error_max"), key.overestimate);
        stats.number(&name("gets_per_second"), key.reads_per_s);
        if let Some(value_len) = value_len(&key.key, context) {
            stats.number(&name("value_bytes"), value_len);
        }
    }
}

/// The length of the value of a key. `None`: the key has no item in memory.
fn value_len(key: &[u8], context: &mut RequestContext<'_>) -> Option<u64> {
    let (hash, now_s) = (context.worker.hash(key), context.now.elapsed_s);
    let options = Read {
        untracked: true,
        ..Read::default()
    };
    let len = |item: &store::Item<'_>| Some(item.value_len() as u64);
    let read = context.worker.read(key, hash, now_s, options, len);
    read.ok().flatten()
}
