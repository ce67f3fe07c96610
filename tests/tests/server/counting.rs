//! What the general statistics count, for each command, on this server and on memcached if it is
//! installed. Transcripts do not cover that.

use curtail_tests::client::Client;
use curtail_tests::process::{Server, curtail, memcached_command, reference_memcached};

/// The statistics that are compared.
const NAMES: [&str; 19] = [
    "cmd_get",
    "cmd_set",
    "cmd_flush",
    "cmd_touch",
    "cmd_meta",
    "get_hits",
    "get_misses",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
    "cas_hits",
    "cas_badval",
    "cas_misses",
    "touch_hits",
    "touch_misses",
    "store_too_large",
];

/// Requests in order, each with the statistics that it increments, by one unless a number follows.
const COUNTED: &[(&str, &str)] = &[
    ("set n 0 0 1\r\n5", "cmd_set"),
    ("get n missing", "cmd_get 2 get_hits get_misses"),
    // A get-and-touch counts as a touch only, hit or miss.
    ("gat 0 n", "cmd_touch touch_hits"),
    ("gats 0 n", "cmd_touch touch_hits"),
    ("gat 0 missing", "cmd_touch touch_misses"),
    ("gat 0 n n missing", "cmd_touch 3 touch_hits 2 touch_misses"),
    ("touch n 0", "cmd_touch touch_hits"),
    ("touch missing 0", "cmd_touch touch_misses"),
    ("mg n v", "cmd_get get_hits"),
    ("mg missing v", "cmd_get get_misses"),
    // A meta get with `T` counts as a touch if it hits, and as a get if it misses.
    ("mg n T0 v", "cmd_touch touch_hits"),
    ("mg missing T0", "cmd_get get_misses"),
    ("mg n R30", "cmd_get get_hits"),
    // A meta get that creates its item counts as a hit.
    ("mg vivified N60", "cmd_get get_hits"),
    ("mg vivified-too N60 T30", "cmd_touch touch_hits"),
    ("me n", "cmd_meta"),
    ("me missing", "cmd_meta"),
    ("me", ""),
    ("incr n 1", "incr_hits"),
    ("incr missing 1", "incr_misses"),
    ("decr n 1", "decr_hits"),
    ("decr missing 1", "decr_misses"),
    ("ma n", "incr_hits"),
    ("ma missing", "incr_misses"),
    ("ma missing MD", "decr_misses"),
    ("ma n C99", ""),
    // Arithmetic that creates its item counts neither as a hit or miss nor as a set.
    ("ma made N0 J5", ""),
    ("ma made-down N0 MD", ""),
    ("ma made", "incr_hits"),
    ("set text 0 0 1\r\nx", "cmd_set"),
    ("incr text 1", ""),
    ("ms a 1\r\n1", "cmd_set"),
    ("ms a 1 C9999\r\n1", "cmd_set cas_badval"),
    ("ms missing 1 C9\r\n1", "cmd_set cas_misses"),
    ("ms a 1 ME C9\r\n1", "cmd_set"),
    ("ms missing 1 MA\r\n1", "cmd_set"),
    ("ms appended 1 MA N0\r\n1", "cmd_set"),
    ("ms appended 1 MA C9999\r\n1", "cmd_set"),
    ("md a C9999", "delete_misses"),
    // Marking stale does not count as a deletion; removing the value does.
    ("md a I", ""),
    ("md a x", "delete_hits"),
    ("md a x I", ""),
    ("md a C9999 I", "delete_misses"),
    ("md missing I", "delete_misses"),
    ("md missing", "delete_misses"),
    ("md a", "delete_hits"),
    ("delete a", "delete_misses"),
    ("flush_all", "cmd_flush"),
];

#[test]
fn statistics_count_as_in_memcached() {
    check(&Server::tcp(curtail).unwrap());
}

#[test]
fn an_installed_memcached_has_the_same_counts() {
    let Some(path) = reference_memcached() else {
        return;
    };
    check(&Server::tcp(|| memcached_command(&path)).unwrap());
}

fn check(server: &Server) {
    let mut client = Client::connect(&server.address).unwrap();
    let mut failed = Vec::new();
    for (request, expected) in COUNTED {
        let before = counts(&mut client);
        client.send(format!("{request}\r\n").as_bytes()).unwrap();
        let mut line = client.request("mn").unwrap();
        while line != "MN" {
            line = client.line().unwrap();
        }
        let after = counts(&mut client);
        let mut got = Vec::new();
        for ((name, before), after) in NAMES.iter().zip(before).zip(after) {
            match after - before {
                0 => {}
                1 => got.push((*name).to_owned()),
                more => got.push(format!("{name} {more}")),
            }
        }
        got.sort();
        let mut wanted: Vec<String> = Vec::new();
        for word in expected.split(' ').filter(|word| !word.is_empty()) {
            match word.parse::<u64>() {
                Ok(_) => wanted.last_mut().unwrap().push_str(&format!(" {word}")),
                Err(_) => wanted.push(word.to_owned()),
            }
        }
        wanted.sort();
        if got != wanted {
            failed.push(format!("{request:?}: expected {wanted:?}, counted {got:?}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn counts(client: &mut Client) -> [u64; NAMES.len()] {
    let stats = client.stats().unwrap();
    NAMES.map(|name| stats[name].parse().unwrap())
}
