//! Instructions for each GET, in user mode: what a noisy neighbour cannot change.
//!
//! A server runs under valgrind, is filled, answers so many requests and ends; then once more with
//! twice as many. The difference is what those requests took.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::asks::{Asks, Requests, fill};
use crate::client::{Client, Until};
use crate::servers::{Cache, Place};
use crate::{Progress, Settings};

/// Few, since valgrind takes fifty times as long.
const RECORDS: u64 = 1_000;
const DEPTHS: [usize; 2] = [1, 16];

pub(crate) const NAME: &str = "instructions";

/// How long it takes, roughly: programs start slowly under valgrind.
pub(crate) fn expected_ns(settings: &Settings, caches: &[Cache]) -> u64 {
    if !is_installed() {
        return 0;
    }
    let runs = (2 * DEPTHS.len() * caches.len()) as u64;
    runs * (2_000_000_000 + settings.counted_requests * 60_000)
}

/// Prints the table.
pub(crate) fn print(settings: &Settings, caches: &[Cache], _: &Progress) -> Result<()> {
    println!("\ninstructions for each GET, user mode, one connection, {RECORDS} records");
    if !is_installed() {
        println!("  skipped: valgrind is not installed");
        return Ok(());
    }
    let names = DEPTHS.map(|depth| format!("{:>12}", format!("depth {depth}")));
    println!("  {:<27}{}", "server", names.concat());
    for cache in caches {
        if cache.kind == Some(runtime::Kind::Rings) {
            println!("  {:<27}  skipped: valgrind knows no io_uring", cache.name);
            continue;
        }
        let counts = DEPTHS.map(|depth| each(cache, depth, settings));
        let shown = counts.iter().map(|count| match count {
            Ok(count) => format!("{count:>12.0}"),
            Err(_) => format!("{:>12}", "failed"),
        });
        println!("  {:<27}{}", cache.name, shown.collect::<String>());
        for error in counts.iter().filter_map(|count| count.as_ref().err()) {
            println!("    {error:#}");
        }
    }
    Ok(())
}

/// The one number of connections that memcached can ask for there: it sets the hard limit of open
/// files to it, and valgrind, which keeps some files for itself, refuses to change that limit.
fn open_files_under_valgrind() -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["-q", "--tool=none", "sh", "-c", "ulimit -H -n"]);
    let output = command.output().context("start valgrind")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let text = text.trim();
    text.parse()
        .with_context(|| format!("open files under valgrind: {text:?}"))
}

fn is_installed() -> bool {
    let mut version = Command::new("valgrind");
    version.arg("--version").stdout(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}

fn each(cache: &Cache, depth: usize, settings: &Settings) -> Result<f64> {
    let requests = settings.counted_requests;
    let once = counted(cache, depth, requests, settings.place())?;
    let twice = counted(cache, depth, 2 * requests, settings.place())?;
    Ok((twice as f64 - once as f64) / requests as f64)
}

/// Instructions of a server from its start to its end.
fn counted(cache: &Cache, depth: usize, requests: u64, place: Place) -> Result<u64> {
    let folder = TempDir::new().context("make a folder for valgrind")?;
    let log = folder.path().join("log");
    let log_file = format!("--log-file={}", log.display());
    let under = [
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=no",
        "--cachegrind-out-file=/dev/null",
        &log_file,
    ];
    let connections_max = open_files_under_valgrind()?;
    let mut subject = cache.start_under(&under, connections_max, RECORDS, place)?;
    let address = subject.address()?;
    fill(address, RECORDS)?;
    let drawn = Requests::new(Asks::Gets, RECORDS, 1);
    let mut client = Client::new(address, 1, depth, drawn)?;
    client.run(Until::Asked(requests))?;
    drop(client);
    subject.server.terminate()?;
    subject.server.wait()?;
    let text = fs::read_to_string(&log).with_context(|| format!("read {}", log.display()))?;
    // ==123== I refs:        1,234,567
    let line = text
        .lines()
        .find(|line| line.contains("I refs:") || line.contains("I   refs:"));
    let Some((_, number)) = line.and_then(|line| line.rsplit_once(':')) else {
        bail!("valgrind has counted nothing");
    };
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    digits.parse().context("valgrind's count")
}
