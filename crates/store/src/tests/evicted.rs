//! Records of evicted items are bounded, and no eviction goes uncounted.

use crate::{Config, Expiry, Mode, Store, Write};

#[test]
fn evictions_beyond_the_recorded_ones_are_counted() {
    const VALUE: [u8; 500] = [1; 500];
    let store = Store::new(Config {
        memory_bytes: 8 << 20,
        hash_seed: 7,
        ..Config::DEFAULT
    })
    .unwrap();
    store.record_evicted(true);
    let mut worker = store.worker();
    let write = Write::plain(Mode::Set, Expiry::NEVER);
    for key in 0..40_000_u64 {
        let name = key.to_le_bytes();
        let hash = worker.hash(&name);
        worker.put(&name, hash, &VALUE, &write, 1).unwrap();
        worker.quiescent();
    }
    let mut recorded = 0;
    let unrecorded = worker.drain_evicted(|_| recorded += 1);
    // `EVICTED_MAX` in `limits.rs`.
    assert_eq!(recorded, 256);
    assert_eq!(recorded + unrecorded, store.statistics().evicted);
    assert_eq!(worker.drain_evicted(|_| ()), 0);
}
