//! A server with more items than its memory holds (`--tier`): every command on items that are only
//! in the tier, and what remains of them after a crash.

use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use curtail_tests::client::Client;
use curtail_tests::process::{Server, curtail, server, server_with_key};
use tempfile::TempDir;

const KEYS: u32 = 6000;

fn arguments(folder: &Path) -> Vec<String> {
    let file = folder.join("tier");
    let tier = format!("{}:32m", file.display());
    [
        "-m", "2", "-I", "64k", "-t", "2", "--tier", &tier, "-u", "root",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn started(folder: &Path) -> (Server, Client) {
    let arguments = arguments(folder);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    connected(&arguments)
}

/// Starts a server and connects a client.
fn connected(arguments: &[&str]) -> (Server, Client) {
    let server = server(arguments);
    let client = Client::connect(&server.address).unwrap();
    (server, client)
}

fn value(key: u32, version: u32) -> Vec<u8> {
    let text = format!("{key}:{version}/");
    let len = 1000 + key as usize % 1000;
    let mut value = text.repeat(len / text.len() + 1).into_bytes();
    value.truncate(len);
    value
}

fn fill(client: &mut Client) {
    fill_with(client, 0..KEYS);
}

/// Stores these items, no faster than the device takes what memory evicts: beside other work, the
/// tier would drop some.
fn fill_with(client: &mut Client, keys: Range<u32>) {
    for key in keys {
        client.set(&key.to_string(), &value(key, 0)).unwrap();
        // A segment has more than a hundred of them, and four may wait.
        if key % 64 == 0 {
            client
                .stat_until("tier_segments_waiting", |count| count == 0)
                .unwrap();
        }
    }
}

fn items_beyond_memory_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = started(folder.path());
    fill(&mut client);
    let mut hits = 0;
    for key in 0..KEYS {
        if let Some(found) = client.get(&key.to_string()).unwrap() {
            assert_eq!(found, value(key, 0), "key {key}");
            hits += 1;
        }
    }
    // The tier drops items while its device is behind.
    let dropped = client.stat("tier_dropped_write_behind").unwrap();
    assert!(
        hits + dropped >= u64::from(KEYS),
        "{hits} hits, {dropped} dropped"
    );
    assert!(client.stat("recache_from_extstore").unwrap() > u64::from(KEYS) / 2);
    assert_eq!(client.stat("badcrc_from_extstore").unwrap(), 0);
    assert_eq!(client.stat("get_hits").unwrap(), hits);
}

/// A key that is in the tier and not in memory, unless the device was behind.
fn cold(client: &mut Client, from: u32) -> u32 {
    let read = client.stat("get_extstore").unwrap();
    let mut keys = from..KEYS;
    // Reads one key to see whether its neighbours are in the tier. They were evicted together.
    let found = keys.find(|key| {
        client.get(&key.to_string()).unwrap().is_some()
            && client.stat("get_extstore").unwrap() > read
    });
    found.unwrap() + 1
}

/// A server with the items 10 000 to 10 019 in the tier, of which it dropped none: it drops items
/// that its device writes too slowly, as a machine does that has other work.
fn started_with_numbers() -> (TempDir, Server, Client) {
    const TRIES: usize = 5;
    for _ in 0..TRIES {
        let folder = tempfile::tempdir().unwrap();
        let (server, mut client) = started(folder.path());
        fill(&mut client);
        for key in 10_000..10_020 {
            client.set(&key.to_string(), b"41").unwrap();
        }
        fill_with(&mut client, 20_000..26_000);
        let has_dropped = client.stat("tier_dropped_write_behind").unwrap() > 0;
        if !has_dropped && !are_numbers_in_memory(&mut client) {
            return (folder, server, client);
        }
    }
    panic!("the tier dropped items, or memory kept them, in each of {TRIES} tries");
}

/// Whether memory has one of the items 10 000 to 10 019, which a dump then lists.
fn are_numbers_in_memory(client: &mut Client) -> bool {
    assert_eq!(client.request("lru_crawler metadump all").unwrap(), "OK");
    let lines = std::iter::from_fn(|| Some(client.line().unwrap()).filter(|line| line != "END"));
    // All are read, so that the next reply is that of the next request.
    let keys = lines.filter_map(|line| line.split(['=', ' ']).nth(1)?.parse::<u32>().ok());
    keys.filter(|key| (10_000..10_020).contains(key)).count() > 0
}

fn every_command_sees_an_item_that_is_only_in_the_tier() {
    let (_folder, _server, mut client) = started_with_numbers();
    let before = client.stat("get_extstore").unwrap();
    let mut number = 10_000;
    let mut next = || {
        number += 1;
        number
    };
    let mut ask = |line: String| client.request(&line).unwrap();
    assert_eq!(ask(format!("incr {} 1", next())), "42");
    assert_eq!(ask(format!("touch {} 0", next())), "TOUCHED");
    assert_eq!(ask(format!("add {} 0 0 1\r\n5", next())), "NOT_STORED");
    assert_eq!(ask(format!("replace {} 0 0 1\r\n5", next())), "STORED");
    assert_eq!(ask(format!("append {} 0 0 1\r\n5", next())), "STORED");
    assert_eq!(ask(format!("prepend {} 0 0 1\r\n5", next())), "STORED");
    assert_eq!(ask(format!("delete {}", next())), "DELETED");
    assert_eq!(ask(format!("delete {number}")), "NOT_FOUND", "key {number}");
    assert_eq!(ask(format!("cas {} 0 0 1 999999\r\n5", 10_008)), "EXISTS");
    assert_eq!(ask("mg 10009 s v".to_owned()), "VA 2 s2");
    assert_eq!(client.line().unwrap(), "41");
    let mut ask = |line: &str| client.request(line).unwrap();
    assert_eq!(ask("md 10010 I"), "HD");
    assert_eq!(ask("ma 10011"), "HD");
    assert_eq!(ask("mg 10012 t"), "HD t-1");
    assert_eq!(client.get("10005").unwrap().as_deref(), Some(&b"415"[..]));
    assert_eq!(client.get("10006").unwrap().as_deref(), Some(&b"541"[..]));
    assert_eq!(client.get("10004").unwrap().as_deref(), Some(&b"5"[..]));
    let read = client.stat("get_extstore").unwrap() - before;
    assert!(read >= 11, "only {read} items were in the tier");
}

fn an_item_keeps_its_cas_and_flags_in_the_tier() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = started_for_eviction(folder.path());
    let stored = client.request("ms key 5 F77 c\r\nvalue").unwrap();
    let cas = stored.strip_prefix("HD c").unwrap();
    let with_cas = format!("VALUE key 77 5 {cas}");
    fill(&mut client);
    let before = client.stat("get_extstore").unwrap();
    assert_eq!(client.request("gets key").unwrap(), with_cas);
    assert_eq!(
        [client.line().unwrap(), client.line().unwrap()],
        ["value", "END"]
    );
    assert_eq!(client.stat("get_extstore").unwrap(), before + 1);
    fill(&mut client);
    let stored = client
        .request(&format!("cas key 0 0 3 {cas}\r\nnew"))
        .unwrap();
    assert_eq!(stored, "STORED");
    assert_eq!(client.get("key").unwrap().as_deref(), Some(&b"new"[..]));
}

/// A server whose items are evicted to the tier by [`evict`] or [`fill`], and only then. It has one
/// worker: each has an open segment of its own, and an item in that of an idle worker stays in
/// memory.
fn started_for_eviction(folder: &Path) -> (Server, Client) {
    let tier = format!("{}:32m", folder.join("tier").display());
    connected(&[
        "-m", "2", "-I", "512k", "-t", "1", "-u", "root", "--tier", &tier,
    ])
}

/// Evicts everything to the tier that was not requested again.
fn evict(client: &mut Client) {
    client.evict_others(2 << 20).unwrap();
}

fn a_removed_item_leaves_no_copy_in_the_tier() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = started_for_eviction(folder.path());
    let removals = [
        ("delete k", "DELETED"),
        ("md k", "HD"),
        ("md k q\r\nmn", "MN"),
        ("touch k -1", "TOUCHED"),
        ("mg k T-1", "HD"),
        ("ms k 1 T-1\r\nx", "HD"),
        ("set k 0 -1 1\r\nx", "STORED"),
        ("flush_all", "OK"),
    ];
    // A key that is often requested would stay in memory, so each removal gets a new one.
    for (number, (removal, reply)) in removals.into_iter().enumerate() {
        let key = format!("k{number}");
        let removal = removal.replace(" k", &format!(" {key}"));
        client.set(&key, b"value").unwrap();
        client.evict_to_tier(2 << 20, 1).unwrap();
        assert_eq!(client.request(&removal).unwrap(), reply);
        assert_eq!(client.get(&key).unwrap(), None, "after {removal}");
        evict(&mut client);
        assert_eq!(client.get(&key).unwrap(), None, "later, after {removal}");
        assert_eq!(
            client.request(&format!("delete {key}")).unwrap(),
            "NOT_FOUND"
        );
        let used = client.stat("extstore_objects_used").unwrap();
        assert!(
            removal == "flush_all" || used == 0,
            "after {removal}: {used}"
        );
    }
    let read = client.stat("get_extstore").unwrap();
    // The two touches need the item.
    assert_eq!(read, 2);
}

/// An item whose value was removed, or that is stale or claimed, is so after another eviction too.
fn stale_and_claimed_items_stay_so_in_the_tier() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = started_for_eviction(folder.path());
    client.set("k", b"value").unwrap();
    let mut cold = |line: &str| {
        evict(&mut client);
        client.request(line).unwrap()
    };
    assert_eq!(cold("md k I T1000"), "HD");
    assert_eq!(cold("mg k s"), "HD s5 X W", "the first one recaches");
    assert_eq!(cold("mg k s"), "HD s5 Z X", "the others know that it does");
    assert_eq!(cold("ms k 3 T0\r\nnew"), "HD");
    assert_eq!(cold("mg k s R30"), "HD s3");
    assert_eq!(cold("md k x"), "HD");
    assert_eq!(cold("mg k s f t"), "HD s0 f0 t-1");
    assert!(client.stat("get_extstore").unwrap() >= 1);
}

/// The time to live of an item counts in the tier as it does in memory, and every command that sets
/// it sets it for both.
fn items_of_the_tier_expire() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = started_for_eviction(folder.path());
    client.send(b"set short 0 2 1 noreply\r\nx\r\n").unwrap();
    for key in ["touched", "gat", "mg", "kept", "longer"] {
        client.set(key, b"x").unwrap();
    }
    evict(&mut client);
    assert_eq!(client.request("touch touched 2").unwrap(), "TOUCHED");
    assert_eq!(client.request("gat 2 gat").unwrap(), "VALUE gat 0 1");
    assert_eq!(
        [client.line().unwrap(), client.line().unwrap()],
        ["x", "END"]
    );
    assert_eq!(client.request("mg mg T2").unwrap(), "HD");
    assert_eq!(client.request("touch longer 1000").unwrap(), "TOUCHED");
    evict(&mut client);
    let expiring = ["short", "touched", "gat", "mg"];
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    // Reading one of them would bring it back into memory.
    while expiring.iter().any(|key| {
        evict(&mut client);
        client.get(key).unwrap().is_some()
    }) {
        assert!(std::time::Instant::now() < deadline, "they do not expire");
    }
    assert_eq!(client.request("mg kept t").unwrap(), "HD t-1");
    let left = client.request("mg longer t").unwrap();
    let left: u32 = left.strip_prefix("HD t").unwrap().parse().unwrap();
    assert!((900..=1000).contains(&left), "{left}");
    for key in expiring {
        assert_eq!(
            client.request(&format!("delete {key}")).unwrap(),
            "NOT_FOUND"
        );
    }
}

fn flushed_items_do_not_return() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = started(folder.path());
    fill(&mut client);
    assert_eq!(client.request("flush_all").unwrap(), "OK");
    let read = client.stat("get_extstore").unwrap();
    for key in 0..KEYS {
        assert_eq!(client.get(&key.to_string()).unwrap(), None, "key {key}");
    }
    assert_eq!(client.stat("get_extstore").unwrap(), read);
    fill(&mut client);
    let key = cold(&mut client, 0);
    assert_eq!(client.get(&key.to_string()).unwrap(), Some(value(key, 0)));
}

/// After SIGKILL at any moment, no item has an old value.
fn no_old_value_returns_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    for round in 1..=4_u32 {
        let (server, mut client) = started(folder.path());
        for key in 0..KEYS {
            let found = client.get(&key.to_string()).unwrap();
            assert_eq!(found, None, "round {round}: key {key} outlived a crash");
        }
        for key in 0..KEYS / round {
            client.set(&key.to_string(), &value(key, round)).unwrap();
        }
        // Dropping kills the process.
        drop(server);
    }
}

/// What was overwritten or deleted before an orderly stop does not return, and the rest does.
fn items_outlive_an_orderly_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, mut client) = started(folder.path());
    fill(&mut client);
    let cold = cold(&mut client, 0);
    let used = client.stat("extstore_objects_used").unwrap();
    client.set(&cold.to_string(), b"new").unwrap();
    let deleted = client.request(&format!("delete {}", cold + 1)).unwrap();
    assert_eq!(deleted, "DELETED");
    let expires = client.request(&format!("touch {} 1000", cold + 2)).unwrap();
    assert_eq!(expires, "TOUCHED");
    server.terminate().unwrap();
    assert!(server.wait().unwrap().success());
    drop(server);

    let (server, mut client) = started(folder.path());
    assert_eq!(client.get(&(cold + 1).to_string()).unwrap(), None);
    // The new value was only in memory.
    assert_eq!(client.get(&cold.to_string()).unwrap(), None);
    let mut found = 0;
    for key in 0..KEYS {
        if let Some(present) = client.get(&key.to_string()).unwrap() {
            assert_eq!(present, value(key, 0), "key {key}");
            found += 1;
        }
    }
    assert!(
        found > used / 2,
        "{found} of {used} items outlived the stop"
    );
    assert_eq!(client.stat("badcrc_from_extstore").unwrap(), 0);
    // This run is killed, so nothing remains of either.
    drop(server);
    let (_server, mut client) = started(folder.path());
    assert_eq!(client.stat("extstore_objects_used").unwrap(), 0);
}

fn a_delayed_flush_also_empties_the_tier_of_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, mut client) = started(folder.path());
    fill(&mut client);
    assert_eq!(client.request("flush_all 1000").unwrap(), "OK");
    server.terminate().unwrap();
    assert!(server.wait().unwrap().success());
    let (_server, mut client) = started(folder.path());
    assert_eq!(client.stat("extstore_objects_used").unwrap(), 0);
}

fn a_file_that_another_server_uses_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, _client) = started(folder.path());
    let mut second = curtail();
    second
        .args(arguments(folder.path()))
        .args(["-p", "0", "-s"]);
    second.arg(folder.path().join("socket"));
    let output = second.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("another server uses this file"), "{error}");
    assert!(error.contains("--tier"), "{error}");
}

/// The statistics of memcached 1.6.45 that it has with extstore only.
const EXTSTORE_NAMES: [&str; 27] = [
    "badcrc_from_extstore",
    "extstore_bytes_evicted",
    "extstore_bytes_fragmented",
    "extstore_bytes_read",
    "extstore_bytes_used",
    "extstore_bytes_written",
    "extstore_compact_lost",
    "extstore_compact_resc_cold",
    "extstore_compact_resc_old",
    "extstore_compact_rescues",
    "extstore_compact_skipped",
    "extstore_io_queue",
    "extstore_limit_maxbytes",
    "extstore_memory_pressure",
    "extstore_objects_evicted",
    "extstore_objects_read",
    "extstore_objects_used",
    "extstore_objects_written",
    "extstore_page_allocs",
    "extstore_page_evictions",
    "extstore_page_reclaims",
    "extstore_pages_free",
    "extstore_pages_used",
    "get_aborted_extstore",
    "get_extstore",
    "miss_from_extstore",
    "recache_from_extstore",
];

/// Starts a server with one worker and a memory of 2 MiB.
fn started_with(flags: &[&str]) -> (Server, Client) {
    let memory = ["-m", "2", "-I", "64k", "-t", "1", "-u", "root"];
    connected(&[&memory[..], flags].concat())
}

fn the_keys_and_statistics_of_extstore_are_those_of_memcached() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tier");
    let keys = format!(
        "ext_path={}:32m,ext_page_size=1,ext_threads=2,ext_item_size=1200,ext_low_ttl=100",
        file.display()
    );
    let (_server, mut client) = started_with(&["-o", &keys]);
    let stats = client.stats().unwrap();
    for name in EXTSTORE_NAMES {
        assert!(stats.contains_key(name), "{name} is missing");
    }
    assert_eq!(client.stat("extstore_limit_maxbytes").unwrap(), 32 << 20);
    assert_eq!(client.stat("extstore_pages_free").unwrap(), 32);
    fill(&mut client);
    // A fifth of the values are shorter.
    let (skipped, written) = (
        client.stat("tier_skipped").unwrap(),
        client.stat("extstore_objects_written").unwrap(),
    );
    assert!(
        skipped > u64::from(KEYS) / 10 && written > u64::from(KEYS) / 2,
        "{skipped} skipped, {written} written"
    );
    for key in 0..KEYS {
        let set = format!("set ttl{key} 0 50 1500 noreply\r\n");
        let value = [b'x'; 1500];
        client
            .send(&[set.as_bytes(), &value, b"\r\n"].concat())
            .unwrap();
    }
    assert_eq!(client.request("mn").unwrap(), "MN");
    let later = client.stat("tier_skipped").unwrap();
    assert!(later > skipped + u64::from(KEYS) / 2, "{later} skipped");
}

fn several_files_share_the_items() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["first", "second"].map(|name| folder.path().join(name));
    let tier = files
        .each_ref()
        .map(|file| format!("{}:16m", file.display()));
    let tier = tier.join(",");
    let (mut server, mut client) = started_with(&["--tier", &tier]);
    assert_eq!(client.stat("extstore_limit_maxbytes").unwrap(), 32 << 20);
    fill(&mut client);
    let used = client.stat("extstore_objects_used").unwrap();
    assert!(used > u64::from(KEYS) / 2, "{used} items in the tier");
    server.terminate().unwrap();
    assert!(server.wait().unwrap().success());
    for file in &files {
        let written = file.metadata().unwrap().blocks() * 512;
        assert!(written > 1 << 20, "{}: {written}", file.display());
    }
    // The next run finds the items in both.
    let (_server, mut client) = started_with(&["--tier", &tier]);
    let mut found = 0;
    for key in 0..KEYS {
        if let Some(present) = client.get(&key.to_string()).unwrap() {
            assert_eq!(present, value(key, 0), "key {key}");
            found += 1;
        }
    }
    assert!(found >= used, "{found} of {used} items");
    assert_eq!(client.stat("badcrc_from_extstore").unwrap(), 0);
}

fn without_a_tier_there_are_no_figures_of_it() {
    let (_server, mut client) = server_with_key(&[]);
    let stats = client.stats().unwrap();
    assert!(
        !stats
            .keys()
            .any(|name| name.contains("extstore") || name.contains("tier"))
    );
}

curtail_tests::on_runtimes! {
    [events rings threads fibres fibres_steal]
    items_beyond_memory_are_found,
    every_command_sees_an_item_that_is_only_in_the_tier,
    an_item_keeps_its_cas_and_flags_in_the_tier,
    a_removed_item_leaves_no_copy_in_the_tier,
    stale_and_claimed_items_stay_so_in_the_tier,
    items_of_the_tier_expire,
    flushed_items_do_not_return,
    no_old_value_returns_after_a_crash,
    items_outlive_an_orderly_stop,
    a_delayed_flush_also_empties_the_tier_of_the_next_run,
    a_file_that_another_server_uses_is_refused,
    the_keys_and_statistics_of_extstore_are_those_of_memcached,
    several_files_share_the_items,
    without_a_tier_there_are_no_figures_of_it,
}
