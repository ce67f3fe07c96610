//! Third-party client libraries, with their own tests where they have such for a server, and
//! otherwise with a script of ours that uses every command of the library.
//!
//! `cargo xtask clients` runs the slow ones too. It also runs each against the installed memcached,
//! whose count must be the same, and a client that is skipped is an error there.

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use curtail_tests::peer::Address;
use curtail_tests::process::{Server, curtail, memcached, memcached_command, target_folder};
use curtail_tests::runtimes::{Runtime, runtime};

/// The exit code of a script that cannot run here and has printed the reason.
const SKIPPED: i32 = 77;

/// Set by `cargo xtask clients`: every client must run, against memcached too.
const ALL: &str = "CURTAIL_CLIENTS_ALL";

/// A client, and what it must pass. Each number is memcached 1.6.45's on the same machine.
struct Client {
    /// The name of its script in `tests/clients`.
    name: &'static str,
    /// The tests or checks that pass.
    count: usize,
    /// Of those that pass, the ones that memcached does not have.
    more: usize,
}

const fn client(name: &'static str, count: usize) -> Client {
    Client {
        name,
        count,
        more: 0,
    }
}

/// Version 4.0.0; six tests skip themselves.
const PYMEMCACHE: Client = client("pymemcache", 200);

/// Version 0.31.4, the tests that need no TLS.
const PYTHON_BINARY_MEMCACHED: Client = client("python-binary-memcached", 181);

/// Version 1.62, its own tests.
const PYTHON_MEMCACHED: Client = client("python-memcached", 26);

/// Version 1.6.3, in text and in binary.
const PYLIBMC: Client = client("pylibmc", 86);

/// Version 0.8.2.
const AIOMCACHE: Client = client("aiomcache", 27);

/// The one test of its own that needs a server and does not start it. It has some fifty steps.
const GOMEMCACHE: Client = client("gomemcache", 1);

/// Version 1.3.2, in binary.
const MEMJS: Client = client("memjs", 27);

/// Debian's version, in binary and in meta.
const DALLI: Client = client("dalli", 66);

/// twemproxy between client and server.
const NUTCRACKER: Client = client("nutcracker", 21);

/// Metrics with a value that Prometheus's exporter reads. memcached reports the items of its
/// temporary list only with `-o temporary_ttl`.
const EXPORTER: Client = Client {
    more: 1,
    ..client("memcached-exporter", 71)
};

/// Tests of `memccapable -b` of libmemcached 1.1.4. All pass against memcached 1.6.45.
const MEMCCAPABLE_COUNT: usize = 27;

/// Requests of `memcslap`.
const MEMCSLAP_REQUESTS: u64 = 4 * 500;

fn pymemcache_passes_its_own_integration_tests() {
    if runtime() == Runtime::Bypass {
        // Downloads what it needs, for which there is no network where the server can be reached.
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        script(PYMEMCACHE.name, nowhere, &["--collect-only"]);
    }
    run(&PYMEMCACHE);
}

fn python_binary_memcached_passes_its_own_tests() {
    run(&PYTHON_BINARY_MEMCACHED);
}

fn python_memcached_passes_its_own_tests() {
    run(&PYTHON_MEMCACHED);
}

fn pylibmc_works_in_text_and_in_binary() {
    run(&PYLIBMC);
}

fn aiomcache_works() {
    run(&AIOMCACHE);
}

fn gomemcache_passes_its_own_test() {
    run(&GOMEMCACHE);
}

fn memjs_works() {
    run(&MEMJS);
}

fn dalli_works_in_binary_and_in_meta() {
    run(&DALLI);
}

fn twemproxy_forwards_every_command() {
    run(&NUTCRACKER);
}

fn exporter_of_prometheus_meets_no_error() {
    run(&EXPORTER);
}

fn memccapable_finds_the_binary_protocol() {
    let server = Server::tcp(curtail).unwrap();
    let address = tcp_address(&server);
    let command = Command::new("memccapable")
        .args(["-b", "-h", &address.ip().to_string()])
        .args(["-p", &address.port().to_string()])
        .output();
    let Ok(output) = command else {
        return skip("memccapable", "not installed");
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_pass = |line: &&str| line.ends_with("[pass]");
    let passed = said.lines().filter(is_pass).count();
    eprintln!("memccapable: {passed} passed");
    assert!(said.contains("All tests passed"), "{said}");
    assert_eq!(passed, MEMCCAPABLE_COUNT, "{said}");
}

fn memcslap_loses_no_request_in_text_and_in_binary() {
    let server = Server::tcp(curtail).unwrap();
    let mut counted = statistic(&server, "cmd_set");
    for mode in [&[][..], &["--binary"]] {
        let command = Command::new("memcslap")
            .arg(format!("--servers={}", tcp_address(&server)))
            .args(["--concurrency=4", "--execute-number=500", "--test=set"])
            .args(mode)
            .output();
        let Ok(output) = command else {
            return skip("memcslap", "not installed");
        };
        assert!(output.status.success(), "{output:?}");
        let sets = statistic(&server, "cmd_set") - counted;
        assert_eq!(sets, MEMCSLAP_REQUESTS, "{mode:?}");
        counted += sets;
    }
}

/// Runs a client against the server.
fn run(client: &Client) {
    let server = Server::tcp(curtail).unwrap();
    let Some((passed, failed)) = result(client, &server) else {
        return;
    };
    assert!(failed.is_empty(), "{}: {failed:#?}", client.name);
    assert_eq!(passed, client.count, "{}", client.name);
    if env::var_os(ALL).is_none() {
        return;
    }
    let Some(path) = memcached() else {
        return skip(client.name, "memcached is not installed, to compare with");
    };
    let theirs = Server::tcp(|| memcached_command(&path)).unwrap();
    let (their_count, their_failed) = result(client, &theirs).unwrap();
    eprintln!("  memcached: {their_count} passed, failed: {their_failed:?}");
    assert_eq!(their_count + client.more, passed, "{}", client.name);
}

/// The number of tests that pass, and the lines of those that fail. `None` if it cannot run here.
fn result(client: &Client, server: &Server) -> Option<(usize, Vec<String>)> {
    let output = script(client.name, tcp_address(server), &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = said.lines().last().unwrap_or_default();
    if output.status.code() == Some(SKIPPED) {
        skip(client.name, last.trim_start_matches("skipped: "));
        return None;
    }
    eprintln!("{}: {last}", client.name);
    let is_failed = |line: &&str| line.starts_with("FAILED") || line.starts_with("ERROR");
    let failed: Vec<String> = said.lines().filter(is_failed).map(str::to_owned).collect();
    assert!(
        output.status.success() || !failed.is_empty(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some((count(last, "passed"), failed))
}

/// Says that a client cannot run here. Where all have to, that is an error.
fn skip(client: &str, why: &str) {
    assert!(env::var_os(ALL).is_none(), "{client} cannot run: {why}");
    eprintln!("skipped: {client}: {why}");
}

fn tcp_address(server: &Server) -> SocketAddr {
    let Address::Tcp(address) = server.address else {
        panic!("{:?}", server.address);
    };
    address
}

/// Runs a client's script against a server, with further arguments of pytest.
fn script(client: &str, address: SocketAddr, arguments: &[&str]) -> Output {
    let script = format!("clients/{client}.sh");
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
        .arg(address.ip().to_string())
        .arg(address.port().to_string())
        .arg(target_folder().unwrap().join("clients").join(client))
        .args(arguments)
        .output()
        .unwrap()
}

/// The number before a word in the last line.
fn count(line: &str, word: &str) -> usize {
    let words: Vec<&str> = line.split([' ', ',']).collect();
    let place = words.iter().position(|some| *some == word);
    place.map_or(0, |place| words[place - 1].parse().unwrap())
}

/// A number of `stats`.
fn statistic(server: &Server, name: &str) -> u64 {
    let mut client = curtail_tests::client::Client::connect(&server.address).unwrap();
    client.stat(name).unwrap()
}
curtail_tests::on_runtimes! {
    [events bypass]
    pymemcache_passes_its_own_integration_tests,
    memccapable_finds_the_binary_protocol,
}

// These need the network, or close their connections in seconds, where `bypass` is.
curtail_tests::on_runtimes! {
    [events]
    python_binary_memcached_passes_its_own_tests,
    python_memcached_passes_its_own_tests,
    #[ignore = "slow; cargo xtask clients"] pylibmc_works_in_text_and_in_binary,
    aiomcache_works,
    #[ignore = "compiles; cargo xtask clients"] gomemcache_passes_its_own_test,
    memjs_works,
    dalli_works_in_binary_and_in_meta,
    twemproxy_forwards_every_command,
    #[ignore = "compiles; cargo xtask clients"] exporter_of_prometheus_meets_no_error,
    memcslap_loses_no_request_in_text_and_in_binary,
}
