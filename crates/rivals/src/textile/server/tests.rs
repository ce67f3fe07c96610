use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use super::limits::{DATAGRAM_LEN_MAX, REQUEST_LEN_MAX};
use super::*;

/// Servers of every kind that this machine can run.
fn servers() -> Vec<(&'static str, Server)> {
    let pools = Pool::ALL.into_iter();
    let can_run = |pool: &Pool| *pool != Pool::Rings || Kind::Rings.probe().is_ok();
    pools
        .filter(can_run)
        .map(|pool| (pool.name(), start(pool, 1 << 20)))
        .collect()
}

use runtime::Kind;

fn start(pool: Pool, maxmem: u64) -> Server {
    let local: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Server::start(&Config {
        design: Design::Global,
        maxmem,
        pool,
        workers: 2,
        tcp: local,
        udp: local,
        allows_shutdown: true,
    })
    .unwrap()
}

/// Sends the bytes, and receives until the server closes.
fn exchange(server: &Server, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.tcp()).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn ask(server: &Server, request: &str) -> String {
    let answer = exchange(server, format!("{request}\0").as_bytes());
    String::from_utf8(answer).unwrap()
}

/// The datagrams of an answer, which ends with NUL.
fn get_datagrams(server: &Server, key: &str) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let request = format!("GET /{key}\0");
    socket.send_to(request.as_bytes(), server.udp()).unwrap();
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    while datagrams.last().and_then(|it| it.last()) != Some(&0) {
        let mut datagram = [0; 2 * DATAGRAM_LEN_MAX];
        match socket.recv(&mut datagram) {
            Ok(len) => datagrams.push(datagram[..len].to_vec()),
            // A receive with a time limit is not restarted. An io_uring that this thread has set up
            // may interrupt it.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
    datagrams
}

fn get(server: &Server, key: &str) -> String {
    String::from_utf8(get_datagrams(server, key).concat()).unwrap()
}

#[test]
fn every_pool_answers_as_the_published_server() {
    for (name, server) in servers() {
        for (request, answer) in [
            ("PUT /k/value", "Value set in cache.\n\0"),
            ("PUT /other/1/2", "Value set in cache.\n\0"),
            ("POST /memsize/100", "400\0"),
            ("GET /k", "Malformed requested.\n\0"),
            ("nonsense", "Malformed requested.\n\0"),
        ] {
            assert_eq!(ask(&server, request), answer, "{name}: {request}");
        }
        assert_eq!(
            get(&server, "k"),
            "{ \"key\" : \"k\", \"val\" : \"value\" }\0",
            "{name}"
        );
        assert_eq!(
            get(&server, "other"),
            "{ \"key\" : \"other\", \"val\" : \"1/2\" }\0",
            "{name}"
        );
        assert_eq!(ask(&server, "DELETE /k"), "Value deleted.\n\0", "{name}");
        assert_eq!(
            get(&server, "k"),
            "{ \"key\" : \"k\", \"val\" : \"NULL\" }\0",
            "{name}"
        );
        let head = ask(&server, "HEAD");
        assert!(head.ends_with("Space Used: 3\n\0"), "{name}: {head}");
        assert_eq!(
            ask(&server, "DELETE /other"),
            "Value deleted.\n\0",
            "{name}"
        );
        let created = ask(&server, "POST /memsize/100");
        assert_eq!(created, "Cache created with maxmem of 100.\n\0", "{name}");
        let large = format!("PUT /k/{}", "v".repeat(101));
        assert_eq!(
            ask(&server, &large),
            "Value is larger than the cache; not set.\n\0",
            "{name}"
        );
        let counters = server.stop().unwrap();
        let counts = [
            counters.sets,
            counters.rejected,
            counters.gets,
            counters.hits,
        ];
        assert_eq!(counts, [3, 1, 3, 2], "{name}");
        assert_eq!((counters.malformed, counters.lost), (2, 0), "{name}");
    }
}

#[test]
fn a_long_answer_comes_in_datagrams_of_the_published_length() {
    for (name, server) in servers() {
        let value: String = (0..3000_u32)
            .map(|it| char::from(b'a' + (it % 26) as u8))
            .collect();
        assert_eq!(
            ask(&server, &format!("PUT /k/{value}")),
            "Value set in cache.\n\0",
            "{name}"
        );
        let datagrams = get_datagrams(&server, "k");
        let lens: Vec<usize> = datagrams.iter().map(Vec::len).collect();
        assert_eq!(lens[..2], [DATAGRAM_LEN_MAX; 2], "{name}");
        let text = String::from_utf8(datagrams.concat()).unwrap();
        assert_eq!(
            text,
            format!("{{ \"key\" : \"k\", \"val\" : \"{value}\" }}\0"),
            "{name}"
        );
        server.stop().unwrap();
    }
}

#[test]
fn a_request_may_come_in_pieces_and_with_several_nuls() {
    for (name, server) in servers() {
        // As the published clients send it.
        assert_eq!(
            exchange(&server, b"PUT /k/v\0\0\0\0"),
            b"Value set in cache.\n\0",
            "{name}"
        );
        let mut stream = TcpStream::connect(server.tcp()).unwrap();
        stream.set_nodelay(true).unwrap();
        for byte in b"DELETE /k\0" {
            stream.write_all(&[*byte]).unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "Value deleted.\n\0", "{name}");
        server.stop().unwrap();
    }
}

#[test]
fn hostile_peers_cost_a_bounded_time() {
    for (name, server) in servers() {
        // Silent, closed at once, ended early, and datagrams without a request.
        let silent: Vec<TcpStream> = (0..3)
            .map(|_| TcpStream::connect(server.tcp()).unwrap())
            .collect();
        drop(TcpStream::connect(server.tcp()).unwrap());
        let mut half = TcpStream::connect(server.tcp()).unwrap();
        half.write_all(b"PUT /k").unwrap();
        half.shutdown(Shutdown::Write).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for datagram in [
            b"GET /k".as_slice(),
            b"",
            b"\0",
            &[b'x'; 4000],
            b"PUT /k/v\0",
        ] {
            socket.send_to(datagram, server.udp()).unwrap();
        }
        assert_eq!(
            ask(&server, "PUT /k/v"),
            "Value set in cache.\n\0",
            "{name}"
        );
        assert_eq!(
            get(&server, "k"),
            "{ \"key\" : \"k\", \"val\" : \"v\" }\0",
            "{name}"
        );
        drop(silent);
        let counters = server.stop().unwrap();
        assert_eq!((counters.gets, counters.sets), (1, 1), "{name}");
        assert_eq!(counters.malformed, 5, "{name}");
    }
}

#[test]
fn a_request_that_does_not_end_is_malformed() {
    for (name, server) in servers() {
        let mut stream = TcpStream::connect(server.tcp()).unwrap();
        let sender = stream.try_clone().unwrap();
        let sends = thread::spawn(move || {
            // The server resets the connection, because it does not receive the rest.
            let mut sender = sender;
            let chunk = vec![b'x'; 1 << 16];
            for _ in 0..(2 * REQUEST_LEN_MAX / chunk.len()) {
                if sender.write_all(&chunk).is_err() {
                    break;
                }
            }
        });
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        sends.join().unwrap();
        assert_eq!(
            ask(&server, "PUT /k/v"),
            "Value set in cache.\n\0",
            "{name}"
        );
        assert_eq!(server.stop().unwrap().malformed, 1, "{name}");
    }
}

#[test]
fn shutdown_must_be_allowed() {
    let signals = Signals::block().unwrap();
    for (name, server) in servers() {
        assert_eq!(
            ask(&server, "POST /shutdown"),
            format!("{}\0", crate::textile::wire::SHUTDOWN)
        );
        // Returns only because of the request.
        server.wait(&signals).unwrap();
        server
            .stop()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let local: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let config = Config {
        design: Design::Unthreaded,
        maxmem: 100,
        pool: Pool::OneThread,
        workers: 1,
        tcp: local,
        udp: local,
        allows_shutdown: false,
    };
    let server = Server::start(&config).unwrap();
    assert_eq!(
        ask(&server, "POST /shutdown"),
        "Shutdown is not enabled.\n\0"
    );
    assert_eq!(ask(&server, "PUT /k/v"), "Value set in cache.\n\0");
    server.stop().unwrap();
    let threaded = Config {
        pool: Pool::QueueSleep,
        ..config
    };
    let error = Server::start(&threaded).err().unwrap().to_string();
    assert!(error.contains("give --pool one-thread"), "{error}");
}

#[test]
fn counters_can_be_reset() {
    for (name, server) in servers() {
        ask(&server, "PUT /k/v");
        assert_eq!(
            ask(&server, "POST /counters"),
            "Counters reset.\n\0",
            "{name}"
        );
        get(&server, "k");
        let counters = server.stop().unwrap();
        let counts = [counters.sets, counters.others, counters.gets, counters.hits];
        assert_eq!(counts, [0, 0, 1, 1], "{name}");
        assert!(counters.cache_ns > 0, "{name}");
    }
}
