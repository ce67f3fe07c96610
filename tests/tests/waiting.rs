//! How workers wait: the flags that trade processor time for latency, either way, do what they say.
// Tests all the way down: helpers may do what tests may.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use curtail_tests::process::server_with_key;

#[test]
fn least_time_between_wake_ups_is_kept_and_the_first_request_does_not_wait() {
    let (_server, mut client) = server_with_key(&["-t", "1", "--min-wait", "20ms"]);
    // The quickest of a few: others use the processors too.
    let firsts = (0..5).map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        client.get("key").unwrap();
        start.elapsed()
    });
    let first = firsts.min().unwrap();
    assert!(
        first < Duration::from_millis(19),
        "the first took {first:?}"
    );
    std::thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    for _ in 0..6 {
        client.get("key").unwrap();
    }
    let all = start.elapsed();
    assert!(all >= Duration::from_millis(95), "six took {all:?}");
    // Each was a burst by itself, and so was this.
    assert!(client.stat("bursts_of_1").unwrap() >= 12);
}

#[test]
fn busy_polling_lasts_as_long_as_it_was_told_and_no_longer() {
    let (server, mut client) = server_with_key(&["-t", "1", "--busy-poll", "300ms"]);
    client.get("key").unwrap();
    let busy = server.idle_cost(Duration::from_millis(200)).unwrap();
    // All that others leave it; asleep it needs next to none.
    assert!(
        busy.user_ns + busy.system_ns > 12_000_000,
        "it slept: {busy:?}"
    );
    std::thread::sleep(Duration::from_millis(300));
    let idle = server.idle_cost(Duration::from_millis(300)).unwrap();
    assert!(
        idle.user_ns + idle.system_ns < 10_000_000,
        "it goes on: {idle:?}"
    );
}
