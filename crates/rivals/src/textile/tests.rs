//! The caches of the multithreaded-cache study: each against a model, and all under threads.

mod hostile;
mod model;
mod threads;

use std::sync::Arc;

use super::{Created, Design, SharedCache, SmallCache};

/// The designs for several threads.
const SHARED: [Design; 5] = [
    Design::PerEntry,
    Design::Presized,
    Design::Striped,
    Design::Global,
    Design::Store,
];

fn single(design: Design, maxmem: u64) -> Box<dyn SmallCache> {
    match design.create(maxmem).unwrap() {
        Created::Single(cache) => cache,
        Created::Shared(cache) => cache.handle(),
    }
}

fn shared(design: Design, maxmem: u64) -> Arc<dyn SharedCache> {
    match design.create(maxmem).unwrap() {
        Created::Single(_) => panic!("{design} is for one thread"),
        Created::Shared(cache) => cache,
    }
}

fn value_of(cache: &mut dyn SmallCache, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = b"before".to_vec();
    let is_found = cache.get(key, &mut value);
    assert!(value.starts_with(b"before"), "what `out` held is gone");
    assert!(is_found || value.len() == 6, "a miss changed `out`");
    is_found.then(|| value.split_off(6))
}
