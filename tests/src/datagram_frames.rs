//! Properties of the replies to any datagrams, with a cache behind them.

#![expect(clippy::unwrap_used, reason = "a check panics when it fails")]

use datagrams::ReplyLimit;
use datagrams::fuzzing::{Exchanges, check_datagrams};

use crate::peer::cache_service;

/// Checks [`check_datagrams`] with two caches.
///
/// # Panics
/// One of its properties does not hold.
pub fn check(input: &[u8]) {
    let [mut together, mut alone] = [(); 2].map(|()| {
        let service = cache_service().unwrap();
        Exchanges::new(&service, ReplyLimit::default()).unwrap()
    });
    check_datagrams(input, &mut together, &mut alone);
}
