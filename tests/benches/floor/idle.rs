//! What a connection costs that says nothing: memory of the server's process, after each has had
//! one answer.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use measure::{Estimate, median_of_trials, verdict};

use crate::asks::{Asks, Requests, fill};
use crate::client::{Client, Until};
use crate::servers::{Cache, Role};
use crate::table::{CONFIDENCE, shown_whole};
use crate::{Progress, Settings};

pub(crate) const NAME: &str = "idle connections";
const CONNECTIONS: usize = 15_360;
/// Where each has a thread: more than some fifteen thousand the kernel does not allow.
const THREADS: usize = 2_000;
/// Those that come and go first, so that what a worker needs for itself is not counted.
const FIRST: usize = 64;
const RECORDS: u64 = 1_000;
/// Servers started anew.
const RUNS: usize = 3;
/// For what has been closed to be closed, and what is under way to end.
const SETTLE: Duration = Duration::from_millis(300);
const RUN_NS: u64 = 3_000_000_000;
const TARGET_BYTES: f64 = 1024.0;
/// With a stack for each.
const TARGET_FIBRE_BYTES: f64 = 8192.0;

pub(crate) fn expected_ns(_: &Settings, caches: &[Cache]) -> u64 {
    (RUNS * caches.len()) as u64 * RUN_NS
}

/// Prints the table.
pub(crate) fn print(settings: &Settings, caches: &[Cache], progress: &Progress) -> Result<()> {
    let mut rows = Vec::new();
    for cache in caches {
        let connections = match cache.kind {
            Some(runtime::Kind::Threads) => THREADS,
            _ => CONNECTIONS,
        };
        let mut each = Vec::new();
        for run in 0..RUNS {
            progress.say(NAME, run);
            let bytes = measure(cache, connections, settings);
            each.push(bytes.with_context(|| cache.name.clone())?);
        }
        rows.push((cache, connections, median_of_trials(&each, CONFIDENCE)));
    }
    progress.clear();
    let memcached = rows.iter().find(|row| row.0.role == Role::Memcached);
    let memcached = memcached.and_then(|row| row.2);
    println!("\n{NAME}, after one request each; {RUNS} servers started anew");
    println!(
        "  {:<27}{:>12}{:>24}   target",
        "server", "connections", "bytes each [range]"
    );
    for (cache, connections, bytes) in &rows {
        let target = match cache.role {
            Role::Curtail => judged(*bytes, memcached),
            Role::Fibres => {
                let is_small = bytes.map(|bytes| bytes.interval.high <= TARGET_FIBRE_BYTES);
                verdict(&format!("≤ {TARGET_FIBRE_BYTES}"), is_small)
            }
            _ => String::new(),
        };
        let line = format!(
            "  {:<27}{connections:>12}{:>24}   {target}",
            cache.name,
            shown_whole(*bytes)
        );
        println!("{}", line.trim_end());
    }
    Ok(())
}

fn judged(bytes: Option<Estimate>, memcached: Option<Estimate>) -> String {
    let is_small = bytes.is_some_and(|bytes| bytes.interval.high <= TARGET_BYTES);
    let is_below = match (bytes, memcached) {
        (Some(ours), Some(theirs)) => ours.value <= theirs.value,
        // Nothing to compare with.
        _ => true,
    };
    let beside = match memcached {
        Some(_) => " and memcached's",
        None => "",
    };
    verdict(
        &format!("≤ {TARGET_BYTES}{beside}"),
        Some(is_small && is_below),
    )
}

fn measure(cache: &Cache, connections: usize, settings: &Settings) -> Result<f64> {
    let most = (connections + 2 * FIRST) as u64;
    let subject = cache.start_under(&[], most, RECORDS, settings.place())?;
    let address = subject.address()?;
    fill(address, RECORDS)?;
    let ask_once = |connections| {
        let requests = Requests::new(Asks::Gets, RECORDS, 1);
        let mut client = Client::new(address, connections, 1, requests)?;
        client.run(Until::Asked(connections as u64))?;
        thread::sleep(SETTLE);
        anyhow::Ok(client)
    };
    drop(ask_once(FIRST)?);
    thread::sleep(SETTLE);
    let before = subject.server.resident_bytes()? as f64;
    let client = ask_once(connections)?;
    let after = subject.server.resident_bytes()? as f64;
    drop(client);
    Ok((after - before) / connections as f64)
}
