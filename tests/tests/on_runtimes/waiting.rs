//! How workers wait: the effects of the flags that trade processor time for latency.

use std::time::{Duration, Instant};

use curtail_tests::process::server_with_key;

fn wake_ups_keep_the_minimum_distance_and_the_first_request_does_not_wait() {
    let (_server, mut client) = server_with_key(&["-t", "1", "--min-wait", "20ms"]);
    // The fastest of a few rounds, because other processes use the CPUs too.
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
    // Each request was its own burst, including this one.
    assert!(client.stat("bursts_of_1").unwrap() >= 12);
}

fn busy_polling_lasts_as_long_as_configured() {
    let (server, mut client) = server_with_key(&["-t", "1", "--busy-poll", "300ms"]);
    client.get("key").unwrap();
    let busy = server.idle_cost(Duration::from_millis(200)).unwrap();
    // It uses all CPU time that other processes leave; asleep it uses almost none.
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

curtail_tests::on_runtimes! {
    [events rings bypass]
    wake_ups_keep_the_minimum_distance_and_the_first_request_does_not_wait,
    busy_polling_lasts_as_long_as_configured,
}
