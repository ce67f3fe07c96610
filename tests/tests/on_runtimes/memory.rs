//! The promises about memory: a full server stays within `-m` plus a constant, whatever is stored;
//! the limit can be raised and lowered at run time; no item is refused if eviction can make space,
//! unless evictions are disabled (`-M`).

use curtail_tests::client::Client;
use curtail_tests::process::{server, server_with_key};

const MIB: u64 = 1 << 20;
/// Memory that a server uses in addition to `-m`: its threads' buffers and the store's tables.
const CONSTANT: u64 = 4 * MIB;

/// A pseudo-random number; the same sequence in every run.
fn random(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// Sends pipelined sets and then counts their answers. Returns how many items were stored.
fn fill(
    client: &mut Client,
    count: usize,
    mut item: impl FnMut(usize) -> (String, u64, usize),
) -> usize {
    let value = vec![b'v'; 600_000];
    let mut stored = 0;
    let mut out = Vec::new();
    let mut waiting = 0;
    for number in 0..count {
        let (key, expiry, len) = item(number);
        out.extend_from_slice(format!("set {key} 0 {expiry} {len}\r\n").as_bytes());
        out.extend_from_slice(&value[..len]);
        out.extend_from_slice(b"\r\n");
        waiting += 1;
        if out.len() > 50_000 || number + 1 == count {
            client.send(&out).unwrap();
            out.clear();
            for _ in 0..waiting {
                stored += usize::from(client.line().unwrap() == "STORED");
            }
            waiting = 0;
        }
    }
    stored
}

fn any_size(seed: &mut u64) -> usize {
    let bits = 3 + random(seed) % 17;
    (random(seed) % (1 << bits)) as usize
}

fn eight_megabytes_accept_items_of_any_size() {
    // Some forty times the memory.
    const ITEMS: usize = 10_000;
    let (server, mut client) = server_with_key(&["-m", "8", "-t", "2"]);
    let before = server.resident_bytes().unwrap();
    let mut seed = 1;
    let stored = fill(&mut client, ITEMS, |_| {
        let key = format!("key{}", random(&mut seed) % 7_000);
        (key, 0, any_size(&mut seed))
    });
    assert_eq!(stored, ITEMS);
    let growth = server.resident_bytes().unwrap() - before;
    assert!(growth < 8 * MIB + CONSTANT, "grown by {growth} bytes");
    assert!(client.stat("evictions").unwrap() > 1_000);
    assert!(client.stat("bytes_resident").unwrap() <= 8 * MIB);
}

fn ten_thousand_lifetimes_share_sixty_four_megabytes() {
    let (server, mut client) = server_with_key(&["-m", "64", "-t", "2"]);
    let before = server.resident_bytes().unwrap();
    let mut seed = 2;
    let stored = fill(&mut client, 60_000, |number| {
        let expiry = 1 + number as u64 % 10_000 * 7;
        (
            format!("key{number}"),
            expiry,
            (random(&mut seed) % 4_000) as usize,
        )
    });
    assert_eq!(stored, 60_000);
    let growth = server.resident_bytes().unwrap() - before;
    assert!(growth < 64 * MIB + CONSTANT, "grown by {growth} bytes");
    let (live, limit) = (
        client.stat("bytes").unwrap(),
        client.stat("limit_maxbytes").unwrap(),
    );
    assert!(live > limit * 8 / 10, "{live} bytes of {limit} hold items");
}

fn the_memory_limit_moves_both_ways_while_the_server_runs() {
    let server = server(&["-m", "16", "-t", "1"]);
    let mut client = Client::connect(&server.address).unwrap();
    let add = |client: &mut Client, name: &str, count: usize| {
        let stored = fill(client, count, |number| {
            (format!("{name}{number}"), 0, 1_000)
        });
        assert_eq!(stored, count);
    };
    add(&mut client, "a", 40_000);
    assert!(client.stat("bytes").unwrap() < 16 * MIB);
    assert_eq!(client.request("cache_memlimit 48").unwrap(), "OK");
    add(&mut client, "b", 60_000);
    let most = server.resident_bytes().unwrap();
    assert!(client.stat("bytes").unwrap() > 40 * MIB);
    assert_eq!(client.request("cache_memlimit 10").unwrap(), "OK");
    assert_eq!(client.stat("limit_maxbytes").unwrap(), 10 * MIB);
    add(&mut client, "c", 30_000);
    client
        .stat_until("bytes_resident", |bytes| bytes <= 10 * MIB)
        .unwrap();
    let resident = server.resident_bytes().unwrap();
    assert!(
        resident < most - 30 * MIB,
        "{resident} bytes resident of {most}"
    );
    // The limit can be raised to sixteen times its initial value.
    let answer = client.request("cache_memlimit 257").unwrap();
    assert_eq!(
        answer,
        "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust"
    );
    assert_eq!(client.request("cache_memlimit 256").unwrap(), "OK");
}

fn without_evictions_items_that_do_not_fit_are_refused() {
    let server = server(&["-m", "8", "-M", "-t", "1"]);
    let mut client = Client::connect(&server.address).unwrap();
    let stored = fill(&mut client, 12_000, |number| {
        (format!("key{number}"), 0, 1_000)
    });
    assert!((6_000..8_000).contains(&stored), "{stored} stored");
    let answer = {
        client.send(b"set more 0 0 1000\r\n").unwrap();
        client.send(&[b'v'; 1_000]).unwrap();
        client.send(b"\r\n").unwrap();
        client.line().unwrap()
    };
    assert_eq!(answer, "SERVER_ERROR out of memory storing object");
    assert_eq!(client.stat("evictions").unwrap(), 0);
    let keys = (0..12_000).map(|number| format!("key{number}"));
    let there: Vec<String> = keys
        .filter(|key| {
            client
                .get(key)
                .unwrap()
                .is_some_and(|value| value.len() == 1_000)
        })
        .collect();
    assert_eq!(there.len(), stored);
    // Deleting items makes space.
    for key in &there[..stored / 2] {
        assert_eq!(client.request(&format!("delete {key}")).unwrap(), "DELETED");
    }
    let again = fill(&mut client, stored / 3, |number| {
        (format!("new{number}"), 0, 1_000)
    });
    assert_eq!(again, stored / 3);
}

fn it_starts_when_huge_pages_are_not_available() {
    let server = server(&["-m", "32", "-L", "-t", "1"]);
    let mut client = Client::connect(&server.address).unwrap();
    let stored = fill(&mut client, 2_000, |number| {
        (format!("key{number}"), 0, 10_000)
    });
    assert_eq!(stored, 2_000);
    assert_eq!(client.get("key1999").unwrap().unwrap().len(), 10_000);
}

curtail_tests::on_runtimes! {
    [events rings threads fibres fibres_steal]
    eight_megabytes_accept_items_of_any_size,
    ten_thousand_lifetimes_share_sixty_four_megabytes,
    the_memory_limit_moves_both_ways_while_the_server_runs,
    without_evictions_items_that_do_not_fit_are_refused,
    it_starts_when_huge_pages_are_not_available,
}
