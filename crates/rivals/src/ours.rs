//! Our own store as the benches use it.

use std::thread;

use store::{Expiry, Mode, Refused, Worker, Write};

/// Sets a value that is at hand; one that finds no room is let go.
pub fn set(worker: &Worker, key: &[u8], value: &[u8], expiry: Expiry, now_s: u32) {
    let (hash, write) = (worker.hash(key), Write::plain(Mode::Set, expiry));
    // One that is refused is not there afterwards, as in every cache.
    while worker.put(key, hash, value, &write, now_s) == Err(Refused::NotYet) {
        thread::yield_now();
    }
}
