//! Servers whose items are in a pool of memory: memory node, metadata service and two servers as
//! processes.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use curtail_tests::client::Client;
use curtail_tests::peer::{Address, Peer, Trickle};
use curtail_tests::play;
use curtail_tests::pool_cases::NOT_APPLICABLE;
use curtail_tests::pool_peer::PoolPeer;
use curtail_tests::process::{Server, target_folder};
use curtail_tests::served_pool::Pool;
use curtail_tests::transcript::read_folder;
use sys::clock::unix_ns;

/// The exit code of a script that cannot run here and has printed the reason.
const SKIPPED: i32 = 77;
/// How long a condition may take to hold on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long a reply may take that is not expected to come.
const BRIEF: Duration = Duration::from_millis(300);

fn connect(server: &Server) -> Client {
    Client::connect(&server.address).unwrap()
}

/// Sends a request and returns as many lines of the reply as are expected.
fn ask(client: &mut Client, request: &str, lines: usize) -> Vec<String> {
    client.send(request.as_bytes()).unwrap();
    (0..lines).map(|_| client.line().unwrap()).collect()
}

/// Sends a request and compares the reply.
#[track_caller]
fn expect(client: &mut Client, request: &str, reply: &[&str]) {
    assert_eq!(ask(client, request, reply.len()), reply, "{request:?}");
}

/// The CAS of the key.
fn cas(client: &mut Client, key: &str) -> String {
    let lines = ask(client, &format!("gets {key}\r\n"), 3);
    lines[0].rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn what_one_server_stores_the_other_one_reads() {
    let pool = Pool::start("32MiB");
    let (server_a, server_b) = (pool.server(), pool.server());
    let (a, b) = (&mut connect(&server_a), &mut connect(&server_b));
    expect(a, "set k 7 0 3\r\nabc\r\n", &["STORED"]);
    expect(b, "get k\r\n", &["VALUE k 7 3", "abc", "END"]);
    expect(b, "add k 0 0 1\r\nx\r\n", &["NOT_STORED"]);
    expect(b, "replace k 1 0 2\r\nxy\r\n", &["STORED"]);
    expect(a, "append k 0 0 1\r\nz\r\n", &["STORED"]);
    expect(b, "prepend k 0 0 1\r\nw\r\n", &["STORED"]);
    expect(a, "get k\r\n", &["VALUE k 1 4", "wxyz", "END"]);
    expect(a, "set n 0 0 2\r\n10\r\n", &["STORED"]);
    expect(b, "incr n 5\r\n", &["15"]);
    expect(a, "decr n 20\r\n", &["0"]);
    expect(
        b,
        "incr k 1\r\n",
        &["CLIENT_ERROR cannot increment or decrement non-numeric value"],
    );
    let values = [
        "VALUE k 1 4",
        "wxyz",
        "VALUE n 0 1",
        "0",
        "VALUE k 1 4",
        "wxyz",
        "END",
    ];
    expect(b, "get k missing n k\r\n", &values);
    expect(b, "delete n\r\n", &["DELETED"]);
    expect(a, "delete n\r\n", &["NOT_FOUND"]);
    expect(a, "incr n 1\r\n", &["NOT_FOUND"]);
    expect(a, "append n 0 0 1\r\nx\r\n", &["NOT_STORED"]);
    expect(a, "set quiet 0 0 1 noreply\r\nq\r\nmn\r\n", &["MN"]);
    expect(b, "get quiet\r\n", &["VALUE quiet 0 1", "q", "END"]);
    let key = "k".repeat(250);
    expect(a, &format!("set {key} 0 0 1\r\nl\r\n"), &["STORED"]);
    expect(b, &format!("mg {key} v\r\n"), &["VA 1", "l"]);
    expect(
        b,
        &format!("get {key}k\r\n"),
        &["CLIENT_ERROR bad command line format"],
    );
}

#[test]
fn cas_values_are_the_same_at_all_servers() {
    let pool = Pool::start("32MiB");
    let (server_a, server_b) = (pool.server(), pool.server());
    let (a, b) = (&mut connect(&server_a), &mut connect(&server_b));
    expect(a, "set k 0 0 1\r\n1\r\n", &["STORED"]);
    let first = cas(a, "k");
    assert_eq!(cas(b, "k"), first);
    expect(b, &format!("cas k 0 0 1 {first}\r\n2\r\n"), &["STORED"]);
    expect(a, &format!("cas k 0 0 1 {first}\r\n3\r\n"), &["EXISTS"]);
    assert_ne!(cas(a, "k"), first);
    expect(a, "get k\r\n", &["VALUE k 0 1", "2", "END"]);
    expect(a, &format!("md k C{first}\r\n"), &["EX"]);
    let second = cas(b, "k");
    expect(a, &format!("md k C{second}\r\n"), &["HD"]);
    expect(b, "get k\r\n", &["END"]);
    expect(b, &format!("cas k 0 0 1 {second}\r\n4\r\n"), &["NOT_FOUND"]);
}

#[test]
fn times_to_live_are_kept_and_end() {
    let pool = Pool::start("32MiB");
    let (server_a, server_b) = (pool.server(), pool.server());
    let (a, b) = (&mut connect(&server_a), &mut connect(&server_b));
    expect(a, "set k 3 100 1\r\nv\r\n", &["STORED"]);
    expect(b, "touch k 200\r\n", &["TOUCHED"]);
    expect(b, "touch missing 200\r\n", &["NOT_FOUND"]);
    let left_s = |client: &mut Client| {
        let reply = client.request("mg k t").unwrap();
        reply.strip_prefix("HD t").unwrap().parse::<u32>().unwrap()
    };
    assert!((195..=200).contains(&left_s(a)));
    expect(a, "gat 300 k\r\n", &["VALUE k 3 1", "v", "END"]);
    assert!((295..=300).contains(&left_s(b)));
    expect(a, "gat -1 k\r\n", &["VALUE k 3 1", "v", "END"]);
    expect(b, "get k\r\n", &["END"]);
    expect(b, "add k 0 1 1\r\nw\r\n", &["STORED"]);
    // The time of the pool is that of the machine, so it cannot be advanced.
    let deadline = Instant::now() + TIMEOUT;
    while b.get("k").unwrap().is_some() {
        assert!(Instant::now() < deadline, "the item does not expire");
        thread::sleep(Duration::from_millis(20));
    }
    expect(a, "get k\r\n", &["END"]);
}

#[test]
fn what_a_pool_cannot_do_has_an_error_and_the_connection_goes_on() {
    let pool = Pool::start("32MiB");
    let server = pool.server();
    let client = &mut connect(&server);
    for (request, needed) in [
        (
            "flush_all\r\n",
            "SERVER_ERROR a memory pool cannot be flushed",
        ),
        (
            "cache_memlimit 64\r\n",
            "SERVER_ERROR the memory limit is that of",
        ),
        ("me k\r\n", "CLIENT_ERROR a memory pool records no reads"),
        ("mg k h\r\n", "CLIENT_ERROR a memory pool records no reads"),
        ("mg k N60\r\n", "CLIENT_ERROR a memory pool has no stale"),
        ("md k I\r\n", "CLIENT_ERROR a memory pool has no stale"),
        (
            "ms k 1 E5\r\nv\r\n",
            "CLIENT_ERROR a memory pool gives items their CAS",
        ),
        (
            "ma k C5\r\n",
            "CLIENT_ERROR a memory pool compares the CAS only",
        ),
        ("ma k T5\r\n", "CLIENT_ERROR arithmetic in a memory pool"),
    ] {
        let reply = ask(client, request, 1).remove(0);
        assert!(reply.starts_with(needed), "{request:?}: {reply}");
        expect(client, "mn\r\n", &["MN"]);
    }
    // The slab is shorter than the first value, and no pool takes the second one.
    expect(client, "set k 0 0 1\r\nv\r\n", &["STORED"]);
    for len in [300_000, 1 << 20] {
        let value = "x".repeat(len);
        let request = format!("set k 0 0 {len}\r\n{value}\r\nmn\r\n");
        expect(
            client,
            &request,
            &["SERVER_ERROR object too large for cache", "MN"],
        );
        // As in memcached, the value that it was to replace is gone.
        expect(client, "get k\r\n", &["END"]);
        expect(client, "set k 0 0 1\r\nv\r\n", &["STORED"]);
    }
    assert!(client.stat("pool_operations").unwrap() > 0);
    assert_eq!(client.stat("pool_operations_failed").unwrap(), 0);
}

/// Reads that the pool cannot do have their error in their turn.
#[test]
fn refused_reads_are_answered_in_order() {
    let pool = Pool::start("32MiB");
    let server = pool.server();
    let client = &mut connect(&server);
    expect(client, "set a 0 0 1\r\n1\r\n", &["STORED"]);
    let refused = "CLIENT_ERROR a memory pool records no reads (me, flags h and l)";
    let states = "CLIENT_ERROR a memory pool has no stale or claimed items (flags I, N and R)";
    for (request, reply) in [
        ("mg b h v", refused),
        ("me a", refused),
        ("mg b N30 v", states),
    ] {
        let requests = format!("mg a v\r\n{request}\r\n").repeat(3);
        let replies = ["VA 1", "1", reply].repeat(3);
        expect(client, &requests, &replies);
    }
    let requests = "mg a v\r\nversion\r\n";
    expect(client, requests, &["VA 1", "1", "VERSION 1.6.45"]);
}

#[test]
fn a_line_of_many_keys_is_answered_whatever_its_length() {
    let pool = Pool::start("32MiB");
    let server = pool.server();
    let client = &mut connect(&server);
    expect(client, "set k 0 0 1\r\nx\r\n", &["STORED"]);
    // 200 kB, of which the server keeps 64 KiB at once.
    let keys: String = (0..20_000)
        .map(|number| format!(" absent{number}"))
        .collect();
    for (command, value) in [("get", "VALUE k 0 1"), ("gat 0", "VALUE k 0 1")] {
        let line = format!("{command} k{keys} k\r\n");
        expect(client, &line, &[value, "x", value, "x", "END"]);
    }
}

/// One clock decides when an item is stored and when it expires.
#[test]
fn an_item_that_lives_for_a_second_is_there_within_it() {
    let pool = Pool::start("32MiB");
    for server in [pool.server(), pool.server(), pool.server()] {
        let client = &mut connect(&server);
        // Early in a second of Unix time.
        while !(20_000_000..200_000_000).contains(&(unix_ns() % 1_000_000_000)) {
            thread::sleep(Duration::from_millis(5));
        }
        expect(client, "set k 0 1 1\r\nv\r\n", &["STORED"]);
        expect(client, "get k\r\n", &["VALUE k 0 1", "v", "END"]);
    }
}

#[test]
fn pymemcache_uses_two_servers_of_one_pool() {
    let pool = Pool::start("64MiB");
    let servers = [pool.server(), pool.server()];
    let ports = servers.each_ref().map(|server| match server.address {
        Address::Tcp(address) => address.port().to_string(),
        Address::Unix(_) => panic!("{:?}", server.address),
    });
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
    let output = Command::new(clients.join("pymemcache.sh"))
        .args(["127.0.0.1", &ports[0]])
        .arg(target_folder().unwrap().join("clients/pymemcache"))
        .arg("--program")
        .arg(clients.join("pool.py"))
        .arg(&ports[1])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    eprintln!("pymemcache: {}", said.trim_end());
    if output.status.code() == Some(SKIPPED) {
        return;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
}

#[test]
fn a_full_pool_refuses_values_and_still_answers() {
    let pool = Pool::start("4MiB");
    let server = pool.server();
    let client = &mut connect(&server);
    let value = "x".repeat(10_000);
    let mut stored = 0;
    let refused = loop {
        let reply = client.request(&format!("set k{stored} 0 0 10000\r\n{value}"));
        match reply.unwrap() {
            reply if reply == "STORED" => stored += 1,
            reply => break reply,
        }
        assert!(stored < 1000, "the pool is never full");
    };
    assert_eq!(refused, "SERVER_ERROR out of memory storing object");
    assert!(stored > 100, "{stored}");
    for number in [0, stored - 1] {
        let found = client.get(&format!("k{number}")).unwrap();
        assert_eq!(found.as_deref(), Some(value.as_bytes()));
    }
    let longest = longest_get_beside_refused_writers(&server, client, &value);
    eprintln!("the longest get beside refused writers took {longest:?}");
    assert!(longest < Duration::from_millis(500), "{longest:?}");
}

/// Starts 40 writers. When the memory of every client of the pool is full, reads 50 times.
fn longest_get_beside_refused_writers(
    server: &Server,
    reader: &mut Client,
    value: &str,
) -> Duration {
    let writers: Vec<Client> = (0..40).map(|_| connect(server)).collect();
    let (is_over, refused) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for (writer, mut client) in writers.into_iter().enumerate() {
            let (is_over, refused) = (&is_over, &refused);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let set = format!("set w{writer}-{number} 0 0 10000\r\n{value}");
                    let reply = client.request(&set).unwrap();
                    let is_refused = reply.starts_with("SERVER_ERROR out of memory");
                    assert!(is_refused || reply == "STORED", "{reply}");
                    refused.fetch_add(u64::from(is_refused), Ordering::Relaxed);
                }
            });
        }
        let deadline = Instant::now() + TIMEOUT;
        while refused.load(Ordering::Relaxed) < 200 {
            assert!(Instant::now() < deadline, "the writers are not refused");
            thread::sleep(Duration::from_millis(5));
        }
        let mut longest = Duration::ZERO;
        for _ in 0..50 {
            let before = Instant::now();
            assert!(reader.get("k1").unwrap().is_some());
            longest = longest.max(before.elapsed());
        }
        is_over.store(true, Ordering::Relaxed);
        longest
    })
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let pool = Pool::start("32MiB");
    let server = pool.server();
    let client = &mut connect(&server);
    let (mut requests, mut replies) = (String::new(), Vec::new());
    for number in 0..100 {
        let key = number % 7;
        requests +=
            &format!("set k{key} 0 0 3\r\n{number:03}\r\nget k{key}\r\nget k{key} none\r\n");
        replies.push("STORED".to_owned());
        for _ in 0..2 {
            let value = [
                format!("VALUE k{key} 0 3"),
                format!("{number:03}"),
                "END".to_owned(),
            ];
            replies.extend(value);
        }
        requests += &format!("incr k{key} 1\r\nmn\r\n");
        replies.extend([(number + 1).to_string(), "MN".to_owned()]);
    }
    // Many keys: more than a connection reads at once.
    let keys: Vec<String> = (0..500).map(|number| format!("k{}", number % 9)).collect();
    requests += &format!("get {}\r\nquit\r\n", keys.join(" "));
    client.send(requests.as_bytes()).unwrap();
    for (place, reply) in replies.iter().enumerate() {
        assert_eq!(&client.line().unwrap(), reply, "reply {place}");
    }
    let rest = String::from_utf8(client.rest().unwrap()).unwrap();
    let found = keys
        .iter()
        .filter(|key| !matches!(key.as_str(), "k7" | "k8"))
        .count();
    assert_eq!(rest.matches("VALUE ").count(), found);
    assert!(rest.ends_with("END\r\n"), "{rest}");
}

/// Later cases of a transcript would find the items.
#[test]
fn nothing_that_was_sent_before_a_reset_is_stored_after_it() {
    let pool = Pool::with_slabs("128MiB", "1MiB");
    let server = pool.server();
    let mut peer = PoolPeer::new(server.address.clone()).unwrap();
    for _ in 0..20 {
        let client = peer.connect().unwrap();
        let sets = "set a 0 0 1 noreply\r\n1\r\n".repeat(100);
        peer.send(client, sets.as_bytes()).unwrap();
        peer.reset().unwrap();
        let mut after = connect(&server);
        assert_eq!(after.get("a").unwrap(), None);
    }
}

#[test]
fn a_server_with_a_pool_knows_the_transcripts() {
    let pool = Pool::with_slabs("128MiB", "1MiB");
    let server = pool.server();
    check_transcripts(&mut PoolPeer::new(server.address.clone()).unwrap());
}

#[test]
fn a_server_with_a_pool_knows_the_transcripts_byte_by_byte() {
    let pool = Pool::with_slabs("128MiB", "1MiB");
    let server = pool.server();
    let peer = PoolPeer::new(server.address.clone()).unwrap();
    check_transcripts(&mut Trickle(peer));
}

fn check_transcripts(peer: &mut dyn Peer) {
    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), Vec::new());
    for case in read_folder(&play::folder()).unwrap() {
        if case.needs_clock() {
            skipped.push(format!("{}: time cannot be advanced", case.name));
            continue;
        }
        let is_it = |(_, names): &&(_, &[&str])| names.contains(&case.name.as_str());
        let known = NOT_APPLICABLE.iter().find(is_it);
        peer.set_patience(if known.is_some() { BRIEF } else { TIMEOUT });
        match (play::one(peer, &case), known) {
            (Ok(()), None) => passed += 1,
            (Err(_), Some((reason, _))) => skipped.push(format!("{}: {reason}", case.name)),
            (Ok(()), Some(_)) => failed.push(format!("{} passes, but is listed", case.name)),
            (Err(error), None) => failed.push(format!("{}\n{error:#}", case.name)),
        }
    }
    eprintln!(
        "{passed} cases passed\nnot applicable: {}",
        skipped.join("\nnot applicable: ")
    );
    assert!(
        failed.is_empty(),
        "{} failed\n\n{}",
        failed.len(),
        failed.join("\n\n")
    );
    let listed: usize = NOT_APPLICABLE.iter().map(|(_, names)| names.len()).sum();
    let without_clock = skipped.iter().filter(|it| it.ends_with("advanced")).count();
    assert_eq!(
        skipped.len() - without_clock,
        listed,
        "a listed case does not exist"
    );
    assert!(passed > 0);
}
