//! Our own store as the benches use it.

use store::{Expiry, Mode, Worker, Write};

/// Sets a value that is at hand; one that finds no room is let go.
pub fn set(worker: &Worker, key: &[u8], value: &[u8], expiry: Expiry, now_s: u32) {
    let hash = worker.hash(key);
    // One that is refused is not there afterwards, as in every cache.
    let _ = worker.put(key, hash, value, &Write::plain(Mode::Set, expiry), now_s);
}
