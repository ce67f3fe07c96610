//! Lists of items and of connections, and log lines.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use curtail_tests::client::Client;
use curtail_tests::process::{Server, curtail_path, memcached, memcached_command, server, wait};

/// The reply to a walk over all items while another one is in progress.
const BUSY: &str = "BUSY currently processing crawler request";

/// The line with its numbers that differ between servers replaced: time, number, port and
/// descriptor.
fn masked(line: &str) -> String {
    let mask = |word: &str| match word.split_once('=') {
        Some((name @ ("ts" | "gid" | "cfd" | "rport"), _)) => format!("{name}=*"),
        _ => word.to_owned(),
    };
    line.split(' ').map(mask).collect::<Vec<_>>().join(" ")
}

/// The next log line that contains `part`.
fn line_with(watcher: &mut Client, part: &str) -> String {
    loop {
        let line = watcher.line().unwrap();
        if line.contains(part) {
            return masked(&line);
        }
    }
}

/// The masked lines that `commands` cause. The last command must be a `get` of `last`.
fn lines_of(server: &Server, streams: &str, commands: &[&str]) -> Vec<String> {
    let mut watcher = Client::connect(&server.address).unwrap();
    assert_eq!(watcher.request(&format!("watch {streams}")).unwrap(), "OK");
    let mut client = Client::connect(&server.address).unwrap();
    for command in commands {
        client
            .send(format!("{command}\r\nmn\r\n").as_bytes())
            .unwrap();
        while client.line().unwrap() != "MN" {}
    }
    let mut lines = Vec::new();
    loop {
        let line = masked(&watcher.line().unwrap());
        let is_last = line.contains("key=last");
        lines.push(line);
        if is_last {
            return lines;
        }
    }
}

const COMMANDS: [&str; 12] = [
    "get absent",
    "set key 0 0 5\r\nvalue",
    "get key",
    "set key 0 60 3\r\nnew",
    "add key 0 0 1\r\nx",
    "replace other 0 0 1\r\nx",
    "append key 0 0 2\r\nyz",
    "cas key 0 0 1 1\r\nx",
    "ms bWV0YSBr 2 b\r\nab",
    "md bWV0YSBr b",
    "delete key",
    "get last",
];

fn a_watcher_sees_reads_writes_and_deletions() {
    let server = server(&["-m", "64", "-t", "1"]);
    let lines = lines_of(&server, "fetchers mutations deletions", &COMMANDS);
    let expected = [
        "ts=* gid=* type=item_get key=absent status=not_found clsid=0 cfd=* size=0",
        "ts=* gid=* type=item_get key=key status=not_found clsid=0 cfd=* size=0",
        "ts=* gid=* type=item_store key=key status=stored cmd=set ttl=0 clsid=1 cfd=* size=5",
        "ts=* gid=* type=item_get key=key status=found clsid=1 cfd=* size=5",
        "ts=* gid=* type=item_get key=key status=found clsid=1 cfd=* size=5",
        "ts=* gid=* type=item_store key=key status=stored cmd=set ttl=60 clsid=1 cfd=* size=3",
        "ts=* gid=* type=item_get key=key status=found clsid=1 cfd=* size=3",
        "ts=* gid=* type=item_store key=key status=not_stored cmd=add ttl=0 clsid=1 cfd=* size=1",
        "ts=* gid=* type=item_get key=other status=not_found clsid=0 cfd=* size=0",
        "ts=* gid=* type=item_store key=other status=not_stored cmd=replace ttl=0 clsid=1 cfd=* \
         size=1",
        "ts=* gid=* type=item_get key=key status=found clsid=1 cfd=* size=3",
        "ts=* gid=* type=item_store key=key status=stored cmd=append ttl=0 clsid=1 cfd=* size=2",
        "ts=* gid=* type=item_get key=key status=found clsid=1 cfd=* size=5",
        "ts=* gid=* type=item_store key=key status=exists cmd=cas ttl=0 clsid=1 cfd=* size=1",
        "ts=* gid=* type=item_get key=meta%20k status=not_found clsid=0 cfd=* size=0",
        "ts=* gid=* type=item_store key=meta%20k status=stored cmd=set ttl=0 clsid=1 cfd=* size=2",
        "ts=* gid=* type=deleted key=meta%20k cmd=md clsid=1 size=2",
        "ts=* gid=* type=deleted key=key cmd=delete clsid=1 size=5",
        "ts=* gid=* type=item_get key=last status=not_found clsid=0 cfd=* size=0",
    ];
    assert_eq!(lines, expected);
}

/// Not all lines: memcached logs further reads, as of a deletion.
fn an_installed_memcached_logs_the_same_lines() {
    let Some(path) = memcached() else {
        eprintln!("skipped: memcached not installed");
        return;
    };
    let other = Server::tcp(|| {
        let mut command = memcached_command(&path);
        command.args(["-t", "1"]);
        command
    })
    .unwrap();
    let ours = server(&["-m", "64", "-t", "1"]);
    for streams in ["fetchers", "mutations"] {
        let commands: Vec<&str> = match streams {
            "fetchers" => vec![
                "get absent",
                "set key 0 0 5\r\nvalue",
                "get key",
                "get last",
            ],
            _ => vec![
                "set key 0 0 5\r\nvalue",
                "set key 0 60 3\r\nnew",
                "add key 0 0 1\r\nx",
                "cas key 0 0 1 1\r\nx",
                "set last 0 0 1\r\nx",
            ],
        };
        let expected = lines_of(&other, streams, &commands);
        assert_eq!(lines_of(&ours, streams, &commands), expected, "{streams}");
    }
}

/// Waits until the connection that checked that the server was ready is closed.
fn alone(client: &mut Client) {
    client
        .stat_until("curr_connections", |count| count == 1)
        .unwrap();
}

fn a_watcher_sees_connections_and_evictions() {
    let server = server(&["-m", "8", "-t", "2"]);
    let mut watcher = Client::connect(&server.address).unwrap();
    alone(&mut watcher);
    let command = "watch connevents evictions";
    assert_eq!(watcher.request(command).unwrap(), "OK");
    let mut client = Client::connect(&server.address).unwrap();
    client.request("mn").unwrap();
    assert_eq!(
        line_with(&mut watcher, "conn_new"),
        "ts=* gid=* type=conn_new rip=127.0.0.1 rport=* transport=tcp cfd=*"
    );
    client.evict_others(8 << 20).unwrap();
    let eviction = line_with(&mut watcher, "type=eviction");
    assert!(eviction.contains(" fetch=no ttl=-1 la=") && eviction.contains(" clsid="));
    drop(client);
    let closed = |reason| {
        format!(
            "ts=* gid=* type=conn_close rip=127.0.0.1 rport=* transport=tcp reason={reason} cfd=*"
        )
    };
    assert_eq!(line_with(&mut watcher, "conn_close"), closed("normal"));
    // A line that is not of the protocol, and a frame of a `get` without a key.
    let mut frame = [0; 24];
    frame[0] = 0x80;
    for input in [b"GET / HTTP/1.1\r\n".as_slice(), &frame] {
        let mut client = Client::connect(&server.address).unwrap();
        client.send(input).unwrap();
        assert_eq!(line_with(&mut watcher, "conn_close"), closed("error"));
    }
}

/// A client that does not read its lines loses some of them, and others lose nothing.
fn a_slow_watcher_skips_lines() {
    let server = server(&[
        "-m",
        "64",
        "-o",
        "watcher_logbuf_size=8,worker_logbuf_size=16",
    ]);
    let mut watcher = Client::connect(&server.address).unwrap();
    assert_eq!(watcher.request("watch fetchers").unwrap(), "OK");
    let mut client = Client::connect(&server.address).unwrap();
    assert_eq!(client.stat("log_watchers").unwrap(), 1);
    let gets = format!("get {}\r\n", "absent ".repeat(200)).repeat(50);
    let lost = |client: &mut Client| {
        client.stat("log_worker_dropped").unwrap() + client.stat("log_watcher_skipped").unwrap()
    };
    while lost(&mut client) == 0 {
        client.send(gets.as_bytes()).unwrap();
        for _ in 0..50 {
            assert_eq!(client.line().unwrap(), "END");
        }
    }
    assert!(client.stat("log_worker_written").unwrap() > 0);
    drop(watcher);
    client
        .stat_until("log_watchers", |watchers| watchers == 0)
        .unwrap();
}

fn connections_are_listed() {
    let server = server(&["-m", "64"]);
    let mut first = Client::connect(&server.address).unwrap();
    alone(&mut first);
    let mut clients = vec![first];
    clients.extend((1..100).map(|_| Client::connect(&server.address).unwrap()));
    for client in &mut clients {
        assert_eq!(client.request("mn").unwrap(), "MN");
    }
    let mut names = BTreeSet::new();
    let mut states = BTreeMap::<String, usize>::new();
    let mut line = clients[0].request("stats conns").unwrap();
    while line != "END" {
        let (name, value) = line.strip_prefix("STAT ").unwrap().split_once(' ').unwrap();
        let (number, name) = name.split_once(':').unwrap();
        assert!(number.parse::<u32>().is_ok(), "{line}");
        match name {
            "addr" | "listen_addr" => assert!(value.starts_with("tcp:127.0.0.1:"), "{line}"),
            "state" => *states.entry(value.to_owned()).or_default() += 1,
            _ => assert_eq!(name, "secs_since_last_cmd"),
        }
        names.insert((number.to_owned(), name.to_owned()));
        line = clients[0].line().unwrap();
    }
    // The socket that listens has no `listen_addr`.
    assert_eq!(names.len(), 4 * clients.len() + 3);
    let states: Vec<_> = states.iter().map(|(state, n)| (&**state, *n)).collect();
    let expected = [
        ("conn_listening", 1),
        ("conn_parse_cmd", 1),
        ("conn_read", clients.len() - 1),
    ];
    assert_eq!(states, expected);
}

fn sizes_are_counted_if_they_are_tracked() {
    let untracked = server(&["-m", "64"]);
    let mut client = Client::connect(&untracked.address).unwrap();
    let disabled = "STAT sizes_status disabled";
    assert_eq!(client.request("stats sizes").unwrap(), disabled);
    assert_eq!(client.line().unwrap(), "END");
    let tracked = server(&["-m", "64", "-o", "track_sizes"]);
    let mut client = Client::connect(&tracked.address).unwrap();
    for number in 0..1000 {
        let value = vec![b'x'; if number < 990 { 20 } else { 60 }];
        client.set(&format!("{number:04}"), &value).unwrap();
    }
    assert_eq!(client.request("stats sizes").unwrap(), "STAT 96 990");
    assert_eq!(client.line().unwrap(), "STAT 128 10");
    assert_eq!(client.line().unwrap(), "END");
}

/// A dump whose reader waits delays no other client, and lists every item.
fn a_dump_waits_for_its_reader_and_lists_every_item() {
    const ITEMS: usize = 20_000;
    let server = server(&["-m", "64"]);
    let mut client = Client::connect(&server.address).unwrap();
    for number in 0..ITEMS {
        client.set(&format!("key_{number:05}"), b"value").unwrap();
    }
    let mut reader = Client::connect(&server.address).unwrap();
    reader.send(b"lru_crawler metadump all\r\n").unwrap();
    assert_eq!(reader.line().unwrap(), "OK");
    // The reader reads no further for now.
    assert_eq!(client.get("key_00000").unwrap(), Some(b"value".to_vec()));
    assert!(client.stat("conn_buffer_bytes").unwrap() < 1 << 20);
    let (mut keys, mut line) = (BTreeSet::new(), String::new());
    while line != "END" {
        line = reader.line().unwrap();
        if let Some(rest) = line.strip_prefix("key=") {
            keys.insert(rest.split(' ').next().unwrap().to_owned());
        }
    }
    assert_eq!(keys.len(), ITEMS);
    assert_eq!(reader.request("mn").unwrap(), "MN");
}

/// Requests that follow in the same packet see the change too.
fn clients_move_the_clock_where_the_operator_allows_it() {
    let server = server(&["-m", "64", "--debug-time"]);
    let mut client = Client::connect(&server.address).unwrap();
    let mut other = Client::connect(&server.address).unwrap();
    assert_eq!(client.request("debugtime p").unwrap(), "OK");
    client
        .send(b"set key 0 1000 1\r\nx\r\nmg key t\r\n")
        .unwrap();
    assert_eq!(client.line().unwrap(), "STORED");
    assert_eq!(client.line().unwrap(), "HD t1000");
    client.send(b"debugtime 990\r\nmg key t\r\n").unwrap();
    assert_eq!(client.line().unwrap(), "OK");
    assert_eq!(client.line().unwrap(), "HD t10");
    assert_eq!(other.request("mg key t").unwrap(), "HD t10");
    let started = client.stat("uptime").unwrap();
    assert!((990..1990).contains(&started), "{started}");
    assert_eq!(other.request("debugtime 10").unwrap(), "OK");
    assert_eq!(client.request("mg key t").unwrap(), "EN");
    assert_eq!(client.stat("uptime").unwrap(), started + 10);
    assert_eq!(client.request("debugtime r").unwrap(), "OK");
    assert!(client.stat("uptime").unwrap() >= started + 10);
    let refused = "CLIENT_ERROR the clock moves forward only, by at most 2147483647 seconds";
    for seconds in ["-1", "2147483648"] {
        let reply = client.request(&format!("debugtime {seconds}")).unwrap();
        assert_eq!(reply, refused);
    }
    for invalid in ["debugtime", "debugtime x", "debugtime 1x"] {
        assert_eq!(client.request(invalid).unwrap(), "ERROR");
    }
}

fn clients_cannot_move_the_clock_of_other_servers() {
    let server = server(&["-m", "64"]);
    let mut client = Client::connect(&server.address).unwrap();
    client.set("key", b"value").unwrap();
    for command in ["debugtime p", "debugtime r", "debugtime 9", "debugtime -1"] {
        assert_eq!(client.request(command).unwrap(), "ERROR");
    }
}

/// The value of a row of `stats latency`.
fn latency(client: &mut Client, name: &str) -> Option<u64> {
    let rows = client.stats_of("stats latency").unwrap();
    let row = rows.get(&format!("latency:{name}"));
    row.map(|number| number.parse().unwrap())
}

fn percentiles_of_each_command_class_are_shown_and_reset() {
    let server = server(&["-m", "64", "-t", "1"]);
    let mut client = Client::connect(&server.address).unwrap();
    let interval = latency(&mut client, "burst_interval").unwrap();
    assert!(interval > 1);
    // Each request is at least one burst.
    let requests = 4 * interval;
    for _ in 0..requests {
        client.set("key", b"value").unwrap();
        client.get("key").unwrap();
    }
    let of = |client: &mut Client, name: &str| latency(client, name).unwrap_or(0);
    let recorded = of(&mut client, "get:count") + of(&mut client, "set:count");
    // A runtime may make several bursts of a request.
    assert!((4..=2 * requests).contains(&recorded), "{recorded}");
    for class in ["get", "set"] {
        let row = |name: &str| format!("{class}:{name}");
        let Some(p50) = latency(&mut client, &row("p50_ns")) else {
            continue;
        };
        let p99 = of(&mut client, &row("p99_ns"));
        let p999 = of(&mut client, &row("p999_ns"));
        let max = of(&mut client, &row("max_ns"));
        assert!(
            0 < p50 && p50 <= p99 && p99 <= p999 && p999 <= max,
            "{class}"
        );
    }
    assert_eq!(client.request("stats reset").unwrap(), "RESET");
    assert_eq!(latency(&mut client, "get:count"), None);

    let silent = self::server(&["-m", "64", "--no-latency"]);
    let mut client = Client::connect(&silent.address).unwrap();
    assert_eq!(latency(&mut client, "burst_interval"), Some(0));
}

/// Starts a dump, which supersedes the walk that is in progress: moves the clock by a minute
/// between two steps of the walk.
fn supersede(client: &mut Client) {
    loop {
        assert_eq!(client.request("debugtime 61").unwrap(), "OK");
        let reply = client.request("lru_crawler mgdump all").unwrap();
        if reply != BUSY {
            assert_eq!(reply, "OK");
            return;
        }
        // The walk has made a step meanwhile. A dump makes one when the kernel takes further lines.
    }
}

/// The next dump supersedes one that has made no step for a minute.
fn a_dump_whose_reader_waits_is_superseded_after_a_minute() {
    const ITEMS: usize = 60_000;
    let server = server(&["-m", "64", "--debug-time"]);
    let mut client = Client::connect(&server.address).unwrap();
    let filler = "x".repeat(200);
    for number in 0..ITEMS {
        let set = format!("set {filler}{number:05} 0 0 1 noreply\r\nx\r\n");
        client.send(set.as_bytes()).unwrap();
    }
    assert_eq!(client.request("mn").unwrap(), "MN");
    let mut reader = Client::connect(&server.address).unwrap();
    reader.send(b"lru_crawler metadump all\r\n").unwrap();
    assert_eq!(reader.line().unwrap(), "OK");
    // The reader reads no further. Its dump, of 15 MB, does not end.
    assert_eq!(client.request("lru_crawler mgdump all").unwrap(), BUSY);
    let mut lines = 0;
    supersede(&mut client);
    while client.line().unwrap() != "EN" {
        lines += 1;
    }
    assert_eq!(lines, ITEMS);
    let mut last = String::new();
    while !last.starts_with("ERROR") {
        last = reader.line().unwrap();
        assert!(
            last.starts_with("key=") || last.starts_with("ERROR"),
            "{last}"
        );
    }
    assert_eq!(last, "ERROR locked try again later");
    assert_eq!(reader.request("mn").unwrap(), "MN");
}

/// Without a line for it.
fn a_watcher_that_closes_its_connection_is_noticed() {
    let server = server(&["-m", "64"]);
    let mut client = Client::connect(&server.address).unwrap();
    let mut watcher = Client::connect(&server.address).unwrap();
    assert_eq!(watcher.request("watch evictions").unwrap(), "OK");
    assert_eq!(client.stat("log_watchers").unwrap(), 1);
    drop(watcher);
    client
        .stat_until("log_watchers", |watchers| watchers == 0)
        .unwrap();
}

/// The value of `items` in the reply to `prefix count` or `prefix delete`.
fn prefix_items(client: &mut Client, command: &str) -> usize {
    let line = client.request(command).unwrap();
    let items = line.strip_prefix("STAT items ").unwrap().parse().unwrap();
    assert!(client.line().unwrap().starts_with("STAT bytes "));
    assert_eq!(client.line().unwrap(), "END");
    items
}

fn items_are_listed_counted_and_deleted_by_prefix() {
    const ITEMS: usize = 3_000;
    let server = server(&["-m", "64", "--prefix-commands", "10000000"]);
    let mut client = Client::connect(&server.address).unwrap();
    for number in 0..ITEMS {
        client.set(&format!("a:{number}"), b"value").unwrap();
        client.set(&format!("b:{number}"), b"value").unwrap();
    }
    client.set("a", b"value").unwrap();
    assert_eq!(prefix_items(&mut client, "prefix count a:"), ITEMS);
    assert_eq!(prefix_items(&mut client, "prefix count a"), ITEMS + 1);
    assert_eq!(prefix_items(&mut client, "prefix count c:"), 0);
    let (mut keys, mut line) = (BTreeSet::new(), client.request("prefix list b:12").unwrap());
    while line != "END" {
        keys.insert(line.split(' ').next().unwrap().to_owned());
        line = client.line().unwrap();
    }
    // 12, 120 to 129, and 1200 to 1299.
    assert_eq!(keys.len(), 111);
    assert!(
        keys.iter().all(|key| key.starts_with("key=b%3A12")),
        "{keys:?}"
    );
    assert_eq!(prefix_items(&mut client, "prefix delete a:"), ITEMS);
    assert_eq!(client.get("a:7").unwrap(), None);
    assert_eq!(client.get("a").unwrap(), Some(b"value".to_vec()));
    assert_eq!(client.get("b:7").unwrap(), Some(b"value".to_vec()));
    assert_eq!(client.stat("curr_items").unwrap(), ITEMS as u64 + 1);
    for invalid in ["prefix", "prefix count", "prefix cut a", "prefix count a b"] {
        assert_eq!(client.request(invalid).unwrap(), "ERROR");
    }
}

/// Others are served meanwhile, but no other walk. The rate is small enough that the walk lasts
/// longer than a second.
fn a_prefix_command_takes_at_least_the_time_that_its_rate_says() {
    const RATE: u64 = 12_800;
    let rate = RATE.to_string();
    let server = server(&["-m", "8", "-t", "1", "--prefix-commands", &rate]);
    let mut walker = Client::connect(&server.address).unwrap();
    for number in 0..3_000 {
        walker.set(&format!("a:{number}"), b"value").unwrap();
    }
    // The index has its least size, so that it does not shrink.
    let entries = walker.stat("hash_bytes").unwrap() / 8;
    assert!(entries > RATE, "{entries}");
    let mut other = Client::connect(&server.address).unwrap();
    assert_eq!(other.request("mn").unwrap(), "MN");
    let started = Instant::now();
    walker.send(b"prefix delete a:\r\n").unwrap();
    other.send(b"prefix delete a:\r\n").unwrap();
    // Both requests are with the server long before a walk ends, so one of them is refused at once.
    let replies = [walker.line().unwrap(), other.line().unwrap()];
    let elapsed = started.elapsed();
    let deleted = "STAT items 3000";
    assert!(
        replies == [deleted, BUSY] || replies == [BUSY, deleted],
        "{replies:?}"
    );
    // It begins with the share of a pause, and may exceed its last share by a step.
    let least_ms = (entries - 64) * 1_000 / RATE - 10;
    let least = Duration::from_millis(least_ms);
    assert!(elapsed >= least, "{elapsed:?} for {entries} entries");
    let mut client = Client::connect(&server.address).unwrap();
    assert_eq!(client.stat("curr_items").unwrap(), 0);
}

/// The walk is superseded, because the clock is moved by a minute between two of its steps.
fn a_prefix_command_that_is_incomplete_replies_with_its_counts() {
    let server = server(&["-m", "64", "--prefix-commands", "100", "--debug-time"]);
    let mut client = Client::connect(&server.address).unwrap();
    client.set("a", b"value").unwrap();
    let mut walker = Client::connect(&server.address).unwrap();
    // Both are executed before a reply is sent. The walk takes 20 minutes, with a step in 0.64 s.
    walker.send(b"mn\r\nprefix count a\r\n").unwrap();
    assert_eq!(walker.line().unwrap(), "MN");
    assert_eq!(client.request("lru_crawler mgdump all").unwrap(), BUSY);
    supersede(&mut client);
    let items = walker.line().unwrap();
    assert!(
        items == "STAT items 0" || items == "STAT items 1",
        "{items}"
    );
    assert!(walker.line().unwrap().starts_with("STAT bytes "));
    assert_eq!(walker.line().unwrap(), "ERROR locked try again later");
    assert_eq!(walker.request("mn").unwrap(), "MN");
}

fn prefix_commands_are_refused_unless_the_operator_allows_them() {
    let without = server(&["-m", "64"]);
    let mut client = Client::connect(&without.address).unwrap();
    for command in ["prefix list a", "prefix count a", "prefix delete a"] {
        assert_eq!(client.request(command).unwrap(), "ERROR");
    }
    let restricted = server(&["-m", "64", "-F", "-X", "--prefix-commands", "1000000"]);
    let mut client = Client::connect(&restricted.address).unwrap();
    for (command, reply) in [
        ("prefix list a", "CLIENT_ERROR prefix list not allowed"),
        ("prefix delete a", "CLIENT_ERROR prefix delete not allowed"),
        ("prefix count a", "STAT items 0"),
    ] {
        assert_eq!(client.request(command).unwrap(), reply);
    }
}

fn administration_that_a_pool_or_a_tier_cannot_serve_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let tier = format!("{}:32m", folder.path().join("tier").display());
    let pool = ["--pool", "127.0.0.1"];
    let tier = ["--tier", tier.as_str()];
    let debug_time = ["--debug-time"];
    let prefix_commands = ["--prefix-commands", "100"];
    let cases: [[&[&str]; 2]; 3] = [
        [&pool, &debug_time],
        [&pool, &prefix_commands],
        [&tier, &debug_time],
    ];
    for flags in cases {
        let mut command = Command::new(curtail_path());
        command.args(["serve", "-m", "2", "-I", "64k", "-p", "0"]);
        command.args(flags.concat()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let status = wait(&mut child);
        // A server that has started ends with the test. Otherwise this fails.
        let _ = child.kill();
        let status = status.unwrap();
        let mut error = String::new();
        let mut stderr = child.stderr.take().unwrap();
        stderr.read_to_string(&mut error).unwrap();
        assert_eq!(status.code(), Some(1), "{error}");
        for flag in flags.map(|words| words[0]) {
            assert!(error.contains(flag), "{flag}: {error}");
        }
    }
}

curtail_tests::on_runtimes! {
    [events rings threads fibres]
    a_watcher_sees_reads_writes_and_deletions,
    an_installed_memcached_logs_the_same_lines,
    a_watcher_sees_connections_and_evictions,
    a_slow_watcher_skips_lines,
    connections_are_listed,
    sizes_are_counted_if_they_are_tracked,
    a_dump_waits_for_its_reader_and_lists_every_item,
    clients_move_the_clock_where_the_operator_allows_it,
    clients_cannot_move_the_clock_of_other_servers,
    percentiles_of_each_command_class_are_shown_and_reset,
    a_dump_whose_reader_waits_is_superseded_after_a_minute,
    a_watcher_that_closes_its_connection_is_noticed,
    items_are_listed_counted_and_deleted_by_prefix,
    a_prefix_command_takes_at_least_the_time_that_its_rate_says,
    a_prefix_command_that_is_incomplete_replies_with_its_counts,
    prefix_commands_are_refused_unless_the_operator_allows_them,
    administration_that_a_pool_or_a_tier_cannot_serve_is_refused,
}
