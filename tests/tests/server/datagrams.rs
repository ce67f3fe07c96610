//! Requests in UDP datagrams (`-U`), over real sockets.

mod clients;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use clients::{Served, Udp, udp_port};
use curtail_tests::binary_frame::binary_frame;
use curtail_tests::client::Client;
use curtail_tests::pattern::show;
use curtail_tests::process::{Server, memcached_command, reference_memcached};
use curtail_tests::runtimes::{Runtime, runtime};
use curtail_tests::served_pool::{Pool, wait_until_ready};
use protocol::binary::reply::Reply;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sys::namespace::NetworkNamespace;

/// Requests of one datagram, and their replies, of memcached too.
const EXCHANGES: [(&str, &str); 10] = [
    ("set foo 0 0 6\r\nfooval\r\n", "STORED\r\n"),
    ("get foo\r\n", "VALUE foo 0 6\r\nfooval\r\nEND\r\n"),
    ("get absent\r\n", "END\r\n"),
    ("set n 0 0 1\r\n7\r\n", "STORED\r\n"),
    ("incr n 5\r\n", "12\r\n"),
    ("delete foo\r\n", "DELETED\r\n"),
    ("touch absent 0\r\n", "NOT_FOUND\r\n"),
    ("mg n v\r\n", "VA 2\r\n12\r\n"),
    ("mn\r\n", "MN\r\n"),
    (
        "set foo 0 0 x\r\n",
        "CLIENT_ERROR bad command line format\r\n",
    ),
];

fn exchange_all(served: &mut Served) {
    for (request, reply) in EXCHANGES {
        assert_eq!(
            served.udp.text(request),
            reply,
            "{}",
            show(request.as_bytes())
        );
    }
    let value = "0123456789".repeat(9_000);
    served.tcp.set("big", value.as_bytes()).unwrap();
    let expected = format!("VALUE big 0 {}\r\n{value}\r\nEND\r\n", value.len());
    assert_eq!(served.udp.text("get big\r\n"), expected, "66 datagrams");
    assert_eq!(served.udp.text("get n\r\n"), "VALUE n 0 2\r\n12\r\nEND\r\n");
    // A datagram that is one of several is dropped.
    for count in [0, 2] {
        served
            .udp
            .send_raw(&[b"\0\x01\0\0\0", &[count][..], b"\0\0get n\r\n"].concat());
    }
    served.udp.assert_silent();
}

#[test]
fn requests_of_text_are_answered() {
    exchange_all(&mut Served::start(&[]));
}

#[test]
fn requests_of_text_are_answered_as_by_memcached() {
    let Some(path) = reference_memcached() else {
        return;
    };
    let server = Server::tcp(|| {
        let mut command = memcached_command(&path);
        command.args(["-U", &free_udp_port().to_string()]);
        command
    });
    let server = server.unwrap();
    let mut tcp = Client::connect(&server.address).unwrap();
    let port = udp_port(&mut tcp);
    let udp = Udp::new(Ipv4Addr::LOCALHOST, port);
    exchange_all(&mut Served { server, tcp, udp });
}

fn free_udp_port() -> u16 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.local_addr().unwrap().port()
}

#[test]
fn frames_of_the_binary_protocol_are_answered() {
    let mut served = Served::start(&[]);
    let value = vec![b'v'; 5000];
    let set = binary_frame(0x01, &[0; 8], b"key", &value);
    let reply = served.udp.request(&set);
    assert_eq!(Reply::read(&reply).unwrap().unwrap().0.header.status, 0);
    let reply = served.udp.request(&binary_frame(0x00, b"", b"key", b""));
    let (found, len) = Reply::read(&reply).unwrap().unwrap();
    assert_eq!((found.value, len), (&*value, reply.len()));
    let reply = served.udp.request(&binary_frame(0x00, b"", b"absent", b""));
    assert_eq!(Reply::read(&reply).unwrap().unwrap().0.header.status, 1);
    // A quiet request that succeeds has no reply.
    served
        .udp
        .send(&binary_frame(0x11, &[0; 8], b"quiet", b"1"));
    served.udp.assert_silent();
    assert_eq!(
        served.udp.text("get quiet\r\n"),
        "VALUE quiet 0 1\r\n1\r\nEND\r\n"
    );
}

/// As the specification has it. memcached 1.6.45 sends a message for each, and no `END`.
#[test]
fn replies_to_all_requests_of_a_datagram_are_one_message() {
    let mut served = Served::start(&[]);
    served.tcp.set("b", &[b'x'; 2000]).unwrap();
    let value = "x".repeat(2000);
    let request = "set a 0 0 1\r\n1\r\nget a b absent\r\nset c 0 0 1 noreply\r\n2\r\nget c\r\n";
    let expected = format!(
        "STORED\r\nVALUE a 0 1\r\n1\r\nVALUE b 0 2000\r\n{value}\r\nEND\r\n\
         VALUE c 0 1\r\n2\r\nEND\r\n"
    );
    assert_eq!(served.udp.text(request), expected);
    let many = "get a\r\n".repeat(1000);
    assert_eq!(
        served.udp.text(&many),
        "VALUE a 0 1\r\n1\r\nEND\r\n".repeat(1000)
    );
}

#[test]
fn datagrams_that_are_no_whole_request_are_dropped_and_counted() {
    let mut served = Served::start(&[]);
    let malformed: [&[u8]; 9] = [
        b"",
        b"\0",
        b"\0\x01\0\0\0\x01\0",
        b"\0\x01\0\0\0\x01\0\0",
        b"\0\x01\0\0\0\0\0\0mn\r\n",
        b"\0\x01\0\0\0\x02\0\0mn\r\n",
        b"\0\x01\0\x01\0\x02\0\0mn\r\n",
        b"\0\x01\0\x01\0\x01\0\0mn\r\n",
        b"\0\x01\x01\0\x01\0\0\0mn\r\n",
    ];
    for datagram in malformed {
        served.udp.send_raw(datagram);
    }
    // The rest of these requests does not come in another datagram.
    for incomplete in [
        "get foo",
        "set c 0 0 5\r\nhel",
        "set c 0 0 99999\r\nhel",
        "\u{80}",
    ] {
        served.udp.send(incomplete.as_bytes());
    }
    served
        .udp
        .send(&binary_frame(0x01, &[0; 8], b"c", b"12345")[..34]);
    served.udp.assert_silent();
    assert_eq!(served.count("udp_malformed"), malformed.len() as u64);
    assert_eq!(served.count("udp_incomplete"), 5);
    assert_eq!(served.tcp.get("c").unwrap(), None);
    // What is complete before it is executed and answered.
    assert_eq!(
        served.udp.text("set d 0 0 1\r\n1\r\nset e 0 0 9\r\n1"),
        "STORED\r\n"
    );
    assert_eq!(served.count("udp_incomplete"), 6);
}

/// Otherwise two servers could send each other errors without end.
#[test]
fn unknown_commands_are_not_answered() {
    let mut served = Served::start(&[]);
    for reply in ["ERROR\r\n", "END\r\n", "STORED\r\n", "quit\r\n"] {
        served.udp.send(reply.as_bytes());
    }
    served.udp.assert_silent();
    assert_eq!(served.count("udp_unanswered"), 3);
    // Lines of a value may be requests.
    let value = "get k\r\nquit";
    served.tcp.set("k", value.as_bytes()).unwrap();
    let reply = served.udp.text("get k\r\n");
    assert!(reply.contains(value), "{reply}");
    served.udp.send(reply.as_bytes());
    served.udp.assert_silent();
    assert_eq!(served.count("udp_unanswered"), 4);
}

/// A server that is sent a reply, because the sender was forged, must not answer it.
#[test]
fn replies_are_not_answered() {
    let mut served = Served::start(&["-A"]);
    served.tcp.set("key", b"get key\r\nmg key v").unwrap();
    served.tcp.set("n", b"1").unwrap();
    let requests = [
        "get key\r\n",
        "get absent\r\n",
        "gat 0 key\r\n",
        "mg key v k f t s\r\n",
        "mg key k\r\n",
        "mg absent v\r\n",
        "me key\r\n",
        "mn\r\n",
        "ma n v\r\n",
        "ms s 1\r\n1\r\n",
        "md s\r\n",
        "incr key 1\r\n",
        "set s 0 0 1\r\n1\r\n",
        "set s 0 0 x\r\n",
        "add s 0 0 1\r\n1\r\n",
        "touch s 0\r\n",
        "delete s\r\n",
        "delete s\r\n",
        "version\r\n",
        "verbosity 0\r\n",
        "stats items\r\n",
        "stats reset\r\n",
        "cache_memlimit 1\r\n",
        "shutdown now\r\n",
        "flush_all\r\n",
    ];
    for request in requests {
        let reply = served.udp.text(request);
        served.udp.send(reply.as_bytes());
        served.udp.assert_silent();
    }
    let reply = served.udp.request(&binary_frame(0x0b, b"", b"", b""));
    served.udp.send(&reply);
    served.udp.assert_silent();
    // A number of one digit has another error, which is not answered.
    served.tcp.set("key", b"get key").unwrap();
    served.tcp.set("n", b"1").unwrap();
    let number = served.udp.text("incr n 1\r\nget key\r\n");
    let error = served.udp.text(&number);
    assert!(error.starts_with("CLIENT_ERROR"), "{error}");
    served.udp.send(error.as_bytes());
    served.udp.assert_silent();
}

/// All other datagrams would wait for them.
#[test]
fn lists_that_take_long_are_refused() {
    let mut served = Served::start(&["-o", "track_sizes", "--prefix-commands", "1000000"]);
    served.tcp.set("key", b"value").unwrap();
    let refused = [
        "lru_crawler metadump all\r\n",
        "lru_crawler metadump hash\r\n",
        "lru_crawler mgdump all\r\n",
        "lru_crawler crawl all\r\n",
        "stats cachedump 1 0\r\n",
        "stats sizes\r\n",
        "stats conns\r\n",
        "watch\r\n",
        "watch fetchers\r\n",
        "prefix list k\r\n",
        "prefix count k\r\n",
        "prefix delete k\r\n",
    ];
    for request in refused {
        let expected = "SERVER_ERROR not allowed in datagrams\r\n";
        assert_eq!(served.udp.text(request), expected, "{request}");
    }
    let list = binary_frame(0x10, b"", b"sizes", b"");
    let reply = served.udp.request(&list);
    assert_ne!(Reply::read(&reply).unwrap().unwrap().0.header.status, 0);
    assert!(served.udp.text("stats items\r\n").ends_with("END\r\n"));
    let over_tcp = served.tcp.request("lru_crawler metadump all").unwrap();
    assert_eq!(over_tcp, "OK");
}

/// No reply begins with an error for an unknown command.
#[test]
fn prefix_commands_that_are_not_served_are_unknown_commands() {
    let mut served = Served::start(&[]);
    assert_eq!(served.tcp.request("prefix count k").unwrap(), "ERROR");
    served.udp.send(b"prefix count k\r\n");
    served.udp.assert_silent();
}

#[test]
fn reply_beyond_the_bound_is_an_error() {
    let mut served = Served::start(&["-I", "4m", "-m", "64"]);
    served.tcp.set("huge", &vec![b'x'; 3 << 20]).unwrap();
    served.tcp.set("big", &vec![b'x'; 1 << 20]).unwrap();
    assert_eq!(
        served.udp.text("get huge\r\n"),
        "SERVER_ERROR reply too long\r\n"
    );
    let reply = served.udp.request(&binary_frame(0x00, b"", b"huge", b""));
    assert_eq!(Reply::read(&reply).unwrap().unwrap().0.header.status, 3);
    assert_eq!(served.count("udp_replies_limited"), 2);
    served.udp.assert_silent();
}

/// A peer with an address of the internet is sent three times as much as it has sent, since its
/// address may be forged.
#[test]
fn strangers_get_short_replies() {
    let tested = thread::spawn(|| {
        let Ok(namespace) = NetworkNamespace::new() else {
            eprintln!("skipped: no network namespace");
            return;
        };
        namespace.enter().unwrap();
        let stranger = Ipv4Addr::new(203, 0, 113, 9);
        for words in [
            "link set lo up",
            &format!("address add {stranger}/32 dev lo"),
        ] {
            let status = Command::new("ip").args(words.split(' ')).status();
            if !status.is_ok_and(|status| status.success()) {
                eprintln!("skipped: ip {words}");
                return;
            }
        }
        let started = |factor: &str| {
            Served::start_at(stranger, || {
                let mut command = Command::new(curtail_tests::process::curtail_path());
                command.args(["serve", "-U", "-1"]);
                command.args(["--udp-reply-limit", factor]);
                command
            })
        };
        let mut served = started("3");
        served.tcp.set("a", &[b'x'; 100]).unwrap();
        served.tcp.set("b", b"1").unwrap();
        // 15 bytes may be answered with 45, 36 with 108, and 51 with 153.
        assert_eq!(served.udp.text("get b\r\n"), "VALUE b 0 1\r\n1\r\nEND\r\n");
        assert_eq!(
            served.udp.text("get a\r\n"),
            "SERVER_ERROR reply too long\r\n"
        );
        let padded = format!("get a{}\r\n", " ".repeat(36));
        let value = format!("VALUE a 0 100\r\n{}\r\nEND\r\n", "x".repeat(100));
        assert_eq!(served.udp.text(&padded), value);
        // Not even the error may be sent.
        served.udp.send(b"mg\r\n");
        assert_eq!(served.udp.text("get b\r\n"), "VALUE b 0 1\r\n1\r\nEND\r\n");
        let mut open = started("0");
        open.tcp.set("a", &[b'x'; 100_000]).unwrap();
        assert_eq!(open.udp.text("get a\r\n").len(), 100_000 + 18 + 7);
    });
    tested.join().unwrap();
}

#[test]
fn items_of_the_tier_are_found() {
    const MEMORY: usize = 2 << 20;
    let folder = tempfile::tempdir().unwrap();
    let tier = format!("{}:32m", folder.path().join("tier").display());
    let flags = [
        "-m", "2", "-I", "512k", "-t", "1", "--tier", &tier, "-u", "root",
    ];
    let mut served = Served::start(&flags);
    served.tcp.set("key", b"value").unwrap();
    served.tcp.evict_to_tier(MEMORY, 1).unwrap();
    let before = served.count("get_extstore");
    let expected = "VALUE key 0 5\r\nvalue\r\nEND\r\nEND\r\n";
    assert_eq!(served.udp.text("get key\r\nget absent\r\n"), expected);
    assert_eq!(
        served.count("get_extstore"),
        before + 1,
        "it was in the tier"
    );
}

#[test]
fn items_of_the_tier_are_found_by_all_datagrams_of_a_burst() {
    const MEMORY: usize = 2 << 20;
    const KEYS: u64 = 16;
    let folder = tempfile::tempdir().unwrap();
    let tier = format!("{}:32m", folder.path().join("tier").display());
    let flags = [
        "-m", "2", "-I", "512k", "-t", "1", "--tier", &tier, "-u", "root",
    ];
    let mut served = Served::start(&flags);
    for key in 0..KEYS {
        served.tcp.set(&format!("key{key}"), b"value").unwrap();
    }
    served.tcp.evict_to_tier(MEMORY, KEYS).unwrap();
    let before = served.count("get_extstore");
    let requests: Vec<String> = (0..KEYS).map(|key| format!("get key{key}\r\n")).collect();
    let expected: Vec<String> = (0..KEYS)
        .map(|key| format!("VALUE key{key} 0 5\r\nvalue\r\nEND\r\n"))
        .collect();
    assert_eq!(served.burst(&requests), expected);
    assert_eq!(served.count("get_extstore"), before + KEYS);
    assert_eq!(served.count("udp_timed_out"), 0);
}

#[test]
fn items_of_a_pool_are_stored_and_found_by_all_datagrams_of_a_burst() {
    const KEYS: u32 = 16;
    if runtime() == Runtime::Bypass {
        eprintln!("skipped: a pool needs kernel sockets");
        return;
    }
    let pool = Pool::start("16MiB");
    let mut served = Served::start(&["-t", "1", "--pool", &pool.address()]);
    wait_until_ready(&served.server);
    let requests_of = |request: fn(u32) -> String| (0..KEYS).map(request).collect::<Vec<_>>();
    let sets = requests_of(|key| format!("set key{key} 0 0 5\r\nvalue\r\n"));
    let gets = requests_of(|key| format!("get key{key}\r\n"));
    let found = requests_of(|key| format!("VALUE key{key} 0 5\r\nvalue\r\nEND\r\n"));
    let stored = requests_of(|_| "STORED\r\n".to_owned());
    assert_eq!(served.burst(&sets), stored);
    assert_eq!(served.burst(&gets), found);
    assert_eq!(served.count("udp_timed_out"), 0);
}

#[test]
fn hostile_datagrams_leave_others_served() {
    const DATAGRAMS: u32 = 5000;
    let mut served = Served::start(&[]);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(34);
    let port = served.udp.socket.peer_addr().unwrap().port();
    let hostile = Udp::new(Ipv4Addr::LOCALHOST, port);
    let pieces: [&[u8]; 12] = [
        b"get ",
        b"set k 0 0 ",
        b"5",
        b"\r\n",
        b"hello",
        b"\x80",
        b"\0",
        b"mg k v\r\n",
        b"gat 0 ",
        b" noreply",
        b"stats\r\n",
        b"k",
    ];
    for number in 0..DATAGRAMS {
        let mut datagram = vec![0, 1, 0, 0, 0, 1, 0, 0];
        for _ in 0..rng.random_range(0..12) {
            datagram.extend_from_slice(pieces[rng.random_range(0..pieces.len())]);
        }
        if number % 4 == 0 {
            let at = rng.random_range(0..datagram.len());
            datagram[at] = rng.random();
        }
        if number % 64 == 0 {
            datagram.resize(60_000, b'x');
        }
        hostile.send_raw(&datagram);
        if number % 100 == 0 {
            served.udp.assert_silent();
        }
    }
    served.udp.assert_silent();
    assert_eq!(served.count("udp_panics"), 0);
    assert_eq!(served.tcp.request("mn").unwrap(), "MN");
}

#[test]
fn datagrams_count_as_traffic() {
    let mut served = Served::start(&[]);
    served.tcp.set("key", b"value").unwrap();
    let before = served.tcp.stats().unwrap();
    let of = |stats: &BTreeMap<String, String>, name: &str| -> u64 { stats[name].parse().unwrap() };
    for _ in 0..10 {
        served.udp.text("get key\r\n");
    }
    // They are counted after the client has them.
    let written = of(&before, "udp_bytes_written") + 10 * (8 + 27);
    let is_counted = |bytes| bytes == written;
    served
        .tcp
        .stat_until("udp_bytes_written", is_counted)
        .unwrap();
    let after = served.tcp.stats().unwrap();
    let grown = |name: &str| of(&after, name) - of(&before, name);
    assert_eq!((grown("get_hits"), grown("udp_datagrams_read")), (10, 10));
    assert_eq!(grown("udp_bytes_read"), 10 * (8 + 9));
    assert_eq!(grown("udp_datagrams_written"), 10);
    assert!(
        grown("bytes_read") > 10 * (8 + 9),
        "the bytes of all clients"
    );
}

#[test]
fn server_that_cannot_receive_does_not_start() {
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut command = Command::new(curtail_tests::process::curtail_path());
    command.args(["serve", "-l", "127.0.0.1", "-p", "0", "-U", &port]);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("datagrams") && error.contains("-U"),
        "{error}"
    );
}

/// A server may have no other clients.
#[test]
fn datagrams_may_be_all_that_is_served() {
    let port = free_udp_port();
    let mut command = Command::new(curtail_tests::process::curtail_path());
    command.args([
        "serve",
        "-l",
        "127.0.0.1",
        "-p",
        "0",
        "-U",
        &port.to_string(),
    ]);
    command.args(runtime().flags());
    let mut server = command.spawn().unwrap();
    let udp = Udp::new(Ipv4Addr::LOCALHOST, port);
    udp.socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let mut is_answered = false;
    for _ in 0..400 {
        let _ = udp.socket.send(b"\0\x01\0\0\0\x01\0\0mn\r\n");
        if udp.socket.recv(&mut [0; 64]).is_ok() {
            is_answered = true;
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    sys::child::terminate(server.id()).unwrap();
    assert!(server.wait().unwrap().success());
    assert!(is_answered);
}
