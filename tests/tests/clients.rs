//! Third-party client libraries, with their own tests.
// The helpers of tests may panic and print, as tests may.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use curtail_tests::peer::Address;
use curtail_tests::process::{Server, curtail, runtime, target_folder};

/// The exit code of a script that cannot run here and has printed the reason.
const SKIPPED: i32 = 77;

/// Tests of pymemcache 4.0.0 that run, and pass against memcached 1.6.45 (six it skips itself).
const PYMEMCACHE_COUNT: usize = 200;

/// Tests of commands that are not served yet: `stats cachedump` and `cache_memlimit`.
const PYMEMCACHE_UNSERVED: &str = "::test_misc[";

#[test]
fn pymemcache_passes_its_own_integration_tests() {
    if runtime() == "bypass" {
        // Downloads what it needs, for which there is no network where the server can be reached.
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        pymemcache(nowhere, &["--collect-only"]);
    }
    let server = Server::tcp(curtail).unwrap();
    let Address::Tcp(address) = server.address else {
        panic!("{:?}", server.address);
    };
    let output = pymemcache(address, &[]);
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

/// Runs pymemcache's tests against a server, with further arguments of pytest.
fn pymemcache(address: SocketAddr, arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/pymemcache.sh");
    Command::new(script)
        .arg(address.ip().to_string())
        .arg(address.port().to_string())
        .arg(folder("pymemcache"))
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

/// Where a client's download is kept.
fn folder(client: &str) -> PathBuf {
    target_folder().unwrap().join("clients").join(client)
}
