//! Our own store as the benches use it.

use std::thread;

use store::{Expiry, KeyHash, Mode, Rejected, Worker, Write};

/// Sets a value that is at hand; one that finds no room is let go.
pub fn set(worker: &mut Worker, key: &[u8], value: &[u8], expiry: Expiry, now_s: u32) {
    let hash = worker.hash(key);
    set_hashed(worker, key, hash, value, expiry, now_s);
}

/// The same, of a key whose hash is known.
pub fn set_hashed(
    worker: &mut Worker,
    key: &[u8],
    hash: KeyHash,
    value: &[u8],
    expiry: Expiry,
    now_s: u32,
) {
    let write = Write::plain(Mode::Set, expiry);
    // One that is refused is not there afterwards, as in every cache.
    while worker.put(key, hash, value, &write, now_s) == Err(Rejected::Deferred) {
        thread::yield_now();
    }
}
