//! Our own store as the benches use it.

use store::{Expiry, Mode, Reserve, Worker, Write};

/// Sets a value that is at hand; one that finds no room is let go.
pub fn set(worker: &Worker, key: &[u8], value: &[u8], expiry: Expiry, now_s: u32) {
    let hash = worker.hash(key);
    let asked = Reserve {
        value_len: value.len(),
        flags: 0,
        expiry,
        whole: true,
    };
    if let Ok(mut upload) = worker.reserve(key, hash, &asked, now_s)
        && worker.fill(&mut upload, value, now_s).is_ok()
    {
        worker.publish(upload, &Write::plain(Mode::Set, expiry), now_s);
    }
}
