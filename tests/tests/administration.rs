//! Lists of items and of connections, and log lines.
// The helpers of tests may panic and print, as tests may.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::collections::BTreeSet;

use curtail_tests::client::Client;
use curtail_tests::process::{Server, memcached, memcached_command, runtime, server};

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

#[test]
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
#[test]
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

#[test]
fn a_watcher_sees_connections_and_evictions() {
    if runtime() == "bypass" {
        eprintln!("skipped: connections have no descriptors");
        return;
    }
    let server = server(&["-m", "8", "-t", "2"]);
    let mut watcher = Client::connect(&server.address).unwrap();
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
    assert_eq!(
        line_with(&mut watcher, "conn_close"),
        "ts=* gid=* type=conn_close rip=127.0.0.1 rport=* transport=tcp reason=normal cfd=*"
    );
}

/// A client that does not read its lines loses some of them, and others lose nothing.
#[test]
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

#[test]
fn connections_are_listed() {
    if runtime() == "bypass" {
        eprintln!("skipped: connections have no descriptors");
        return;
    }
    let server = server(&["-m", "64"]);
    let mut clients: Vec<Client> = (0..100)
        .map(|_| Client::connect(&server.address).unwrap())
        .collect();
    for client in &mut clients {
        assert_eq!(client.request("mn").unwrap(), "MN");
    }
    let mut names = BTreeSet::new();
    let mut line = clients[0].request("stats conns").unwrap();
    while line != "END" {
        let (name, value) = line.strip_prefix("STAT ").unwrap().split_once(' ').unwrap();
        let (number, name) = name.split_once(':').unwrap();
        assert!(number.parse::<u32>().is_ok(), "{line}");
        match name {
            "addr" | "listen_addr" => assert!(value.starts_with("tcp:127.0.0.1:"), "{line}"),
            "state" => assert!(value.starts_with("conn_"), "{line}"),
            _ => assert_eq!(name, "secs_since_last_cmd"),
        }
        names.insert((number.to_owned(), name.to_owned()));
        line = clients[0].line().unwrap();
    }
    assert_eq!(names.len(), 4 * clients.len());
}

#[test]
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
#[test]
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
