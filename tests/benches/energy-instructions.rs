//! Instructions of a server for each request, at user level, by callgrind: the library OS's path in
//! a process (`bypass`) beside servers over the kernel's sockets.
//!
//! ```text
//! client's namespace: curtail load ═══ pair of devices ═══ server's namespace: valgrind, server
//! ```
//!
//! `cargo bench -p curtail-tests --bench energy-instructions -- [--quick]`, as root, with valgrind.
//! A server runs under callgrind, is filled, answers a closed loop for a time and ends; then once
//! more for twice the time. The difference of the instructions, divided by that of the answers, is
//! what a request took, together with what the server does by the clock. The kernel's instructions
//! are not in it: for `bypass` they are the driver's and the packet socket's, for the others the
//! whole of TCP/IP too. The whole path, kernel included, is not claimed.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss
)]

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use curtail_tests::agents::{Run, add_words};
use curtail_tests::callgrind::{self, memcached_for_callgrind, under_callgrind};
use curtail_tests::host_server::{HostServer, add_flags};
use curtail_tests::process::{curtail_path, installed, memcached};
use hosts::{Hosts, Layout};
use tempfile::TempDir;

/// A server starts slowly under valgrind.
const TIMEOUT: Duration = Duration::from_secs(60);
const CONNECTIONS: &str = "8";
const RECORDS: &str = "500";
const DEPTHS: [&str; 2] = ["1", "4"];
/// What the study has published: Linux ÷ library OS, of the whole path.
const PUBLISHED: f64 = 2.5;

const SUBJECTS: [&str; 3] = [BYPASS, "events", MEMCACHED];
const BYPASS: &str = "bypass";
const MEMCACHED: &str = "memcached";

fn main() -> Result<()> {
    if installed("valgrind", "VALGRIND").is_none() {
        println!("skipped: valgrind is not installed");
        return Ok(());
    }
    if !sys::privileges::is_root() {
        println!("skipped: namespaces need root");
        return Ok(());
    }
    let (rounds, time) = match env::args().any(|it| it == "--quick") {
        true => (1, Duration::from_secs(2)),
        false => (3, Duration::from_secs(4)),
    };
    let layout = Layout {
        clients: 1,
        link: None,
    };
    let hosts = Hosts::open(&layout, &[], &[])?;
    println!(
        "instructions for each request, user level, {CONNECTIONS} connections in closed loop, 75 % GETs"
    );
    println!("rings: skipped, because a server over io_uring does not answer under valgrind");
    println!(
        "{:<12} {:>8} {:>28}",
        "server", "depth", "median [min, max]"
    );
    for depth in DEPTHS {
        let mut medians = Vec::new();
        for name in SUBJECTS {
            if name == MEMCACHED && memcached().is_none() {
                println!("{name:<12} {depth:>8} {:>28}", "skipped: not installed");
                continue;
            }
            let counts: Result<Vec<f64>> = (0..rounds)
                .map(|_| each(&hosts, name, depth, time))
                .collect();
            let mut counts = counts.with_context(|| format!("{name}, depth {depth}"))?;
            counts.sort_by(f64::total_cmp);
            let [least, median, most] =
                [0, counts.len() / 2, counts.len() - 1].map(|it| counts[it]);
            let shown = format!("{median:.0} [{least:.0}, {most:.0}]");
            println!("{name:<12} {depth:>8} {shown:>28}");
            medians.push((name, median));
        }
        ratios(&medians);
    }
    Ok(())
}

/// User-level instructions of each server ÷ those of `bypass`. The published ratio is of another
/// thing: it has the kernel in it.
fn ratios(medians: &[(&str, f64)]) {
    let Some((_, own)) = medians.iter().find(|it| it.0 == BYPASS) else {
        return;
    };
    for (name, median) in medians.iter().filter(|it| it.0 != BYPASS) {
        println!(
            "  {name} ÷ bypass, user level: {:.2} (published, whole path, Linux ÷ library OS: \
             {PUBLISHED})",
            median / own
        );
    }
}

/// Instructions for each request.
fn each(hosts: &Hosts, name: &str, depth: &str, time: Duration) -> Result<f64> {
    let once = counted(hosts, name, depth, time)?;
    let twice = counted(hosts, name, depth, 2 * time)?;
    let answers = twice.answers - once.answers;
    if answers < 1_000.0 {
        bail!("only {answers} more requests were answered in twice the time");
    }
    Ok((twice.instructions - once.instructions) / answers)
}

/// What a server did from its start to its end.
struct Counted {
    instructions: f64,
    answers: f64,
}

fn counted(hosts: &Hosts, name: &str, depth: &str, time: Duration) -> Result<Counted> {
    let folder = TempDir::new().context("make a folder")?;
    let log = folder.path().join("log");
    let (mut server, address) = start(hosts, name, &log)?;
    let duration = format!("{}ms", time.as_millis());
    let words = [
        "--rate",
        "max",
        "-c",
        CONNECTIONS,
        "-d",
        depth,
        "-w",
        "0",
        "-t",
        &duration,
        "-r",
        RECORDS,
        "-u",
        "0.25",
        "--prefill",
        "--no-spin",
        "-q",
    ];
    let mut command = hosts.in_client(0, Command::new(curtail_path()));
    add_words(&mut command, &address.to_string(), &[], &words);
    let run = Run::of(command, folder.path())?;
    let summary = run.summary.as_ref();
    let summary = summary.with_context(|| format!("the load: {:?}", run.verdict()))?;
    server.end()?;
    Ok(Counted {
        instructions: callgrind::instructions(&log)?,
        answers: summary.answered as f64,
    })
}

/// Starts a server under callgrind, and waits until it accepts a connection.
fn start(hosts: &Hosts, name: &str, log: &Path) -> Result<(HostServer, SocketAddr)> {
    let mut own = match memcached() {
        Some(path) if name == MEMCACHED => memcached_for_callgrind(&path)?,
        _ => {
            let mut command = Command::new(curtail_path());
            command.args(["serve", "-u", "root", "--runtime", name]);
            command
        }
    };
    let address = add_flags(&mut own, hosts, name == BYPASS);
    let command = under_callgrind(&own, log);
    let server = HostServer::start(hosts.in_server(command), hosts, address, TIMEOUT);
    let server = server.with_context(|| fs::read_to_string(log).unwrap_or_default())?;
    Ok((server, address))
}
