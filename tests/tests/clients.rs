//! Third-party client libraries, with their own tests.
// The helpers of tests may panic and print, as tests may.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use curtail_tests::peer::Address;
use curtail_tests::process::{Server, curtail, runtime, target_folder};

/// The exit code of a script that cannot run here and has printed the reason.
const SKIPPED: i32 = 77;

/// Tests of pymemcache 4.0.0 that run, and pass against memcached 1.6.45 (six it skips itself).
const PYMEMCACHE_COUNT: usize = 200;

/// Tests of commands that are not served yet: `stats cachedump` and `cache_memlimit`.
const PYMEMCACHE_UNSERVED: &str = "::test_misc[";

/// Tests of python-binary-memcached 0.31.4 that need no TLS. All pass against memcached 1.6.45.
const PYTHON_BINARY_MEMCACHED_COUNT: usize = 181;

/// Tests of `memccapable -b` of libmemcached 1.1.4. All pass against memcached 1.6.45.
const MEMCCAPABLE_COUNT: usize = 27;

#[test]
fn pymemcache_passes_its_own_integration_tests() {
    if runtime() == "bypass" {
        // Downloads what it needs, for which there is no network where the server can be reached.
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        own_tests("pymemcache", nowhere, &["--collect-only"]);
    }
    let server = Server::tcp(curtail).unwrap();
    let output = own_tests("pymemcache", tcp_address(&server), &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = said.lines().last().unwrap_or_default();
    eprintln!("pymemcache: {last}");
    if output.status.code() == Some(SKIPPED) {
        return;
    }
    let failed: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("FAILED") || line.starts_with("ERROR"))
        .collect();
    assert!(
        failed.iter().all(|line| line.contains(PYMEMCACHE_UNSERVED)),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        count(last, "passed") + failed.len(),
        PYMEMCACHE_COUNT,
        "{last}"
    );
}

#[test]
fn python_binary_memcached_passes_its_own_tests() {
    if runtime() == "bypass" {
        eprintln!("skipped: its tests connect to themselves on the address of the server");
        return;
    }
    let server = Server::tcp(curtail).unwrap();
    let output = own_tests("python-binary-memcached", tcp_address(&server), &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = said.lines().last().unwrap_or_default();
    eprintln!("python-binary-memcached: {last}");
    if output.status.code() != Some(SKIPPED) {
        assert!(output.status.success(), "{said}");
        assert_eq!(count(last, "passed"), PYTHON_BINARY_MEMCACHED_COUNT);
    }
}

#[test]
fn memccapable_finds_the_binary_protocol() {
    let server = Server::tcp(curtail).unwrap();
    let address = tcp_address(&server);
    let command = Command::new("memccapable")
        .args(["-b", "-h", &address.ip().to_string()])
        .args(["-p", &address.port().to_string()])
        .output();
    let Ok(output) = command else {
        eprintln!("skipped: memccapable is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_pass = |line: &&str| line.ends_with("[pass]");
    let passed = said.lines().filter(is_pass).count();
    eprintln!("memccapable: {passed} passed");
    assert!(said.contains("All tests passed"), "{said}");
    assert_eq!(passed, MEMCCAPABLE_COUNT, "{said}");
}

fn tcp_address(server: &Server) -> SocketAddr {
    let Address::Tcp(address) = server.address else {
        panic!("{:?}", server.address);
    };
    address
}

/// Runs a client's own tests against a server, with further arguments of pytest.
fn own_tests(client: &str, address: SocketAddr, arguments: &[&str]) -> Output {
    let script = format!("clients/{client}.sh");
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
        .arg(address.ip().to_string())
        .arg(address.port().to_string())
        .arg(target_folder().unwrap().join("clients").join(client))
        .args(arguments)
        .output()
        .unwrap()
}

/// The number before a word in pytest's last line.
fn count(line: &str, word: &str) -> usize {
    let words: Vec<&str> = line.split([' ', ',']).collect();
    let place = words.iter().position(|some| *some == word);
    place.map_or(0, |place| words[place - 1].parse().unwrap())
}
