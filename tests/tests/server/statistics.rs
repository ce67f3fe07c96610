//! Every form of `stats` has the names that memcached has.

use std::collections::BTreeSet;

use curtail_tests::client::Client;
use curtail_tests::process::{Server, memcached, memcached_command, server, server_with_key};

/// The names of `stats` in memcached 1.6.45 without TLS, tier and proxy.
const GENERAL: &str = "pid uptime time version libevent pointer_size rusage_user rusage_system \
    max_connections curr_connections total_connections rejected_connections \
    connection_structures response_obj_oom response_obj_count response_obj_bytes read_buf_count \
    read_buf_bytes read_buf_bytes_free read_buf_oom reserved_fds cmd_get cmd_set cmd_flush \
    cmd_touch cmd_meta get_hits get_misses get_expired get_flushed delete_misses delete_hits \
    incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits \
    touch_misses store_too_large store_no_memory auth_cmds auth_errors bytes_read bytes_written \
    limit_maxbytes accepting_conns listen_disabled_num time_in_listen_disabled_us threads \
    conn_yields hash_power_level hash_bytes hash_is_expanding slab_reassign_rescues \
    slab_reassign_chunk_rescues slab_reassign_inline_reclaim slab_reassign_busy_items \
    slab_reassign_busy_deletes slab_reassign_busy_nomem slab_reassign_last_busy_status \
    slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts \
    lru_maintainer_juggles malloc_fails log_worker_dropped log_worker_written \
    log_watcher_skipped log_watcher_sent log_watchers unexpected_napi_ids round_robin_fallback \
    bytes curr_items total_items slab_global_page_pool expired_unfetched evicted_unfetched \
    evicted_active evictions reclaimed crawler_reclaimed crawler_items_checked lrutail_reflocked \
    moves_to_cold moves_to_warm moves_within_lru direct_reclaims lru_bumps_dropped";

/// The names of `stats settings` in memcached 1.6.45, with those of TLS, tier and proxy.
const SETTINGS: &str = "maxbytes maxconns tcpport udpport inter verbosity oldest evictions \
    domain_socket umask shutdown_command growth_factor chunk_size num_threads \
    num_threads_per_udp stat_key_prefix detail_enabled reqs_per_event cas_enabled tcp_backlog \
    binding_protocol auth_enabled_sasl auth_enabled_ascii item_size_max maxconns_fast \
    hashpower_init slab_reassign slab_automove slab_automove_ratio slab_automove_window \
    slab_chunk_max lru_crawler lru_crawler_sleep lru_crawler_tocrawl tail_repair_time \
    flush_enabled dump_enabled hash_algorithm lru_maintainer_thread lru_segmented hot_lru_pct \
    warm_lru_pct hot_max_factor warm_max_factor temp_lru temporary_ttl idle_timeout \
    watcher_logbuf_size worker_logbuf_size read_buf_mem_limit track_sizes \
    inline_ascii_response ext_item_size ext_item_age ext_low_ttl ext_recache_rate ext_wbuf_size \
    ext_compact_under ext_drop_under ext_max_sleep ext_max_frag slab_automove_freeratio \
    ext_drop_unread ssl_enabled ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers \
    ssl_ca_cert ssl_wbuf_size ssl_session_cache ssl_kernel_tls ssl_min_version proxy_enabled \
    proxy_uring_enabled num_napi_ids memory_file client_flags_size";

/// The names that a reply to `command` contains, with any number of a class or a connection
/// replaced by `N`, so that those of two servers can be compared.
fn names(client: &mut Client, command: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut line = client.request(command).unwrap();
    while line != "END" {
        let name = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line}"));
        let parts: Vec<&str> = name.split(':').collect();
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let parts: Vec<&str> = parts
            .into_iter()
            .map(|part| if is_number(part) { "N" } else { part })
            .collect();
        let is_new = names.insert(parts.join(":"));
        assert!(is_new || parts.len() > 1, "{line} occurs twice");
        line = client.line().unwrap();
    }
    names
}

fn listed(names: &str) -> BTreeSet<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

/// The names of `stats items`.
const ITEMS: &str = "items:N:number items:N:number_hot items:N:number_warm items:N:number_cold \
    items:N:number_temp items:N:age_hot items:N:age_warm items:N:age items:N:mem_requested \
    items:N:evicted items:N:evicted_nonzero items:N:evicted_time items:N:outofmemory \
    items:N:tailrepairs items:N:reclaimed items:N:expired_unfetched items:N:evicted_unfetched \
    items:N:evicted_active items:N:crawler_reclaimed items:N:crawler_items_checked \
    items:N:lrutail_reflocked items:N:moves_to_cold items:N:moves_to_warm \
    items:N:moves_within_lru items:N:direct_reclaims items:N:hits_to_hot items:N:hits_to_warm \
    items:N:hits_to_cold items:N:hits_to_temp";

/// The names of `stats slabs`.
const SLABS: &str = "N:chunk_size N:chunks_per_page N:total_pages N:total_chunks N:used_chunks \
    N:free_chunks N:free_chunks_end N:get_hits N:cmd_set N:delete_hits N:incr_hits N:decr_hits \
    N:cas_hits N:cas_badval N:touch_hits active_slabs total_malloced";

/// The commands, with the names that each must have.
const FORMS: [(&str, &str); 4] = [
    ("stats", GENERAL),
    ("stats settings", SETTINGS),
    ("stats items", ITEMS),
    ("stats slabs", SLABS),
];

#[test]
fn every_name_of_memcached_is_there_once() {
    assert_eq!(listed(SETTINGS).len(), 79);
    let (_server, mut client) = server_with_key(&["-m", "64"]);
    for (command, expected) in FORMS {
        let ours = names(&mut client, command);
        let expected = listed(expected);
        let missing: Vec<_> = expected.difference(&ours).collect();
        assert!(missing.is_empty(), "{command} lacks {missing:?}");
        if command == "stats" {
            assert_eq!(ours, expected);
        }
    }
}

/// As in memcached, statistics of parts that a flag turns off are not in `stats`. No statistic is
/// lost.
#[test]
fn stats_has_what_memcached_has_with_the_same_flags_and_stats_curtail_the_rest() {
    let off = [
        ("no_lru_crawler", 91),
        ("no_lru_maintainer", 86),
        ("no_slab_reassign", 84),
        ("modern", 93),
    ];
    for (option, count) in off {
        let (_server, mut client) = server_with_key(&["-m", "64", "-o", option]);
        let general = names(&mut client, "stats");
        assert_eq!(general.len(), count, "{option}");
        let own = names(&mut client, "stats curtail");
        assert_eq!(own.intersection(&general).count(), 0, "{option}");
        assert!(own.contains("segments") && own.contains("curtail"));
        let all: BTreeSet<String> = own.union(&general).cloned().collect();
        assert!(listed(GENERAL).is_subset(&all), "{option}");
    }
    let Some(path) = memcached() else {
        eprintln!("skipped: memcached not installed");
        return;
    };
    for (option, _) in off {
        let other = Server::tcp(|| {
            let mut command = memcached_command(&path);
            command.args(["-o", option]);
            command
        });
        let other = other.unwrap();
        let theirs = names(&mut Client::connect(&other.address).unwrap(), "stats");
        let (_server, mut client) = server_with_key(&["-m", "64", "-o", option]);
        let ours = names(&mut client, "stats");
        // An older memcached has fewer, and some that were removed since.
        let both: BTreeSet<String> = theirs.intersection(&listed(GENERAL)).cloned().collect();
        let missing: Vec<_> = both.difference(&ours).collect();
        assert!(missing.is_empty(), "{option}: lacks {missing:?}");
    }
}

/// The list above may be incomplete, and an older memcached may have other names.
#[test]
fn every_name_of_an_installed_memcached_is_there() {
    let Some(path) = memcached() else {
        eprintln!("skipped: memcached not installed");
        return;
    };
    let other = Server::tcp(|| memcached_command(&path)).unwrap();
    let mut other = Client::connect(&other.address).unwrap();
    let (_server, mut client) = server_with_key(&["-m", "64"]);
    other.set("key", b"value").unwrap();
    other.get("key").unwrap();
    for (command, _) in FORMS {
        let mut ours = names(&mut client, command);
        if command == "stats" {
            // Those that only an older memcached has.
            ours.extend(names(&mut client, "stats curtail"));
        }
        let theirs = names(&mut other, command);
        assert!(theirs.len() >= 12, "{command}: {theirs:?}");
        let missing: Vec<_> = theirs.difference(&ours).collect();
        assert!(missing.is_empty(), "{command} lacks {missing:?}");
    }
}

/// Stores, reads and changes items of several sizes.
fn use_items_of_several_sizes(client: &mut Client) {
    for len in [1, 40, 100, 1000, 2500, 40_000] {
        let key = format!("of_{len}");
        client.set(&key, &vec![b'x'; len]).unwrap();
        for _ in 0..len % 7 {
            client.get(&key).unwrap().unwrap();
        }
        client.get("absent").unwrap();
    }
    client.set("number", b"10").unwrap();
    for line in [
        "incr number 5",
        "decr number 1",
        "touch number 0",
        "touch absent 0",
        "delete of_1000",
        "delete absent",
    ] {
        client.request(line).unwrap();
    }
    client.send(b"cas number 0 0 1 1000000\r\n1\r\n").unwrap();
    assert_eq!(client.line().unwrap(), "EXISTS");
}

/// A size class is memcached's, so the same commands give the same counts.
#[test]
fn size_classes_are_those_of_memcached() {
    let expected = [
        ("1:chunk_size", "96"),
        ("1:get_hits", "1"),
        ("1:cmd_set", "3"),
        ("1:incr_hits", "1"),
        ("1:decr_hits", "1"),
        ("1:touch_hits", "1"),
        ("1:cas_badval", "1"),
        ("2:chunk_size", "120"),
        ("2:get_hits", "5"),
        ("4:get_hits", "2"),
        ("active_slabs", "5"),
    ];
    let server = server(&["-m", "64"]);
    let mut client = Client::connect(&server.address).unwrap();
    use_items_of_several_sizes(&mut client);
    let slabs = client.stats_of("stats slabs").unwrap();
    for (name, value) in expected {
        assert_eq!(slabs.get(name).map(String::as_str), Some(value), "{name}");
    }
    let items = client.stats_of("stats items").unwrap();
    assert_eq!(items["items:1:number"], "2");
    let Some(path) = memcached() else {
        eprintln!("skipped: memcached not installed");
        return;
    };
    let other = Server::tcp(|| memcached_command(&path)).unwrap();
    let mut other = Client::connect(&other.address).unwrap();
    use_items_of_several_sizes(&mut other);
    let theirs = other.stats_of("stats slabs").unwrap();
    for (name, value) in slabs {
        let (_, kind) = name.split_once(':').unwrap_or_default();
        // memcached keeps the page of a class whose items have been deleted. Its pages are not
        // returned, so the sums differ too.
        if kind.ends_with("hits") || kind.starts_with("c") || kind == "used_chunks" {
            assert_eq!(theirs.get(&name), Some(&value), "{name}");
        }
    }
    let theirs = other.stats_of("stats items").unwrap();
    for (name, value) in items {
        if name.ends_with(":number") || name.ends_with(":mem_requested") {
            assert_eq!(theirs.get(&name), Some(&value), "{name}");
        }
    }
}
