//! What a request costs on the runtime `bypass` beside others and memcached, each over the same
//! pair of devices: `cargo bench -p curtail-tests --bench bypass -- [--quick] [--closed]`.
//!
//! ```text
//! processor 0: generator, its softirq      processor 1: server, its softirq
//! client's namespace ══════════════════════ server's namespace
//! ```
//!
//! Needs root and two processors, and a machine that does nothing else: a trial during which tasks
//! waited for a processor for more than a tenth of the time (`/proc/pressure/cpu`) is made again,
//! within bounds, and a table with such trials says so. Server and generator have priority over
//! other programs. The first table is of an offered rate, of which each request is alone: the busy
//! time of the server's whole processor, interrupts and softirq included, for each request, and
//! that of the server's process alone. A server that polls is always busy; what it can do is in the
//! second table, of a closed loop of one request for each connection.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss
)]

use std::env;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use curtail_tests::agents::{Run, add_words};
use curtail_tests::host_server::{HostServer, add_flags};
use curtail_tests::process::{curtail_path, memcached, memcached_command};
use hosts::{Hosts, Layout};
use sys::child::{Bounds, bind};

const GENERATOR_CPU: usize = 0;
const SERVER_CPU: usize = 1;
const RATES: [u32; 2] = [5_000, 20_000];
const CONNECTIONS: &str = "64";
/// The greatest share of a window in which any task may wait for a processor.
const DISTURBED: f64 = 0.1;
/// How often a trial may be made again, and the pause before.
const REPEATS: usize = 4;
const PAUSE: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(20);
/// When the measured window begins after the start of the generator.
const WINDOW_DELAY: Duration = Duration::from_millis(700);

/// A server to measure.
struct Subject {
    name: &'static str,
    flags: &'static [&'static str],
}

const SUBJECTS: [Subject; 5] = [
    Subject {
        name: "bypass",
        flags: &["--runtime", "bypass"],
    },
    Subject {
        name: "bypass, polling",
        flags: &["--runtime", "bypass", "--busy-poll", "1s"],
    },
    Subject {
        name: "rings",
        flags: &["--runtime", "rings"],
    },
    Subject {
        name: "events",
        flags: &["--runtime", "events"],
    },
    Subject {
        name: MEMCACHED,
        flags: &[],
    },
];
const MEMCACHED: &str = "memcached";

fn main() -> Result<()> {
    let has = |flag: &str| env::args().any(|argument| argument == flag);
    let is_quick = has("--quick");
    let rates: &[u32] = if has("--closed") { &[] } else { &RATES };
    let (rounds, window) = match is_quick {
        true => (2, Duration::from_secs(1)),
        false => (7, Duration::from_secs(2)),
    };
    let layout = Layout {
        clients: 1,
        link: None,
    };
    let hosts = Hosts::open(&layout, &[SERVER_CPU], &[GENERATOR_CPU])?;
    let subjects: Vec<&Subject> = SUBJECTS
        .iter()
        .filter(|it| it.name != MEMCACHED || memcached().is_some())
        .collect();
    for rate in rates.iter().copied().map(Some).chain([None]) {
        let mut results: Vec<Vec<Trial>> = subjects.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds {
            // Another server is first in each round.
            for at in 0..subjects.len() {
                let index = (at + round) % subjects.len();
                let mut trial = measure(&hosts, subjects[index], rate, window)?;
                for _ in 0..REPEATS {
                    if trial.waited <= DISTURBED {
                        break;
                    }
                    thread::sleep(PAUSE);
                    trial = measure(&hosts, subjects[index], rate, window)?;
                }
                results[index].push(trial);
            }
        }
        print(rate, &subjects, &mut results);
    }
    Ok(())
}

/// What one trial has measured.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// Busy time of the server's processor for each request, in microseconds.
    busy_us: f64,
    /// Processor time of the server's process for each request, in microseconds.
    process_us: f64,
    /// Busy time of the generator's processor for each request, in microseconds.
    generator_us: f64,
    /// The share of the window in which a task waited for a processor.
    waited: f64,
    /// Achieved requests a second.
    achieved_rps: f64,
    /// The 99th percentile of the service time, in microseconds.
    p99_us: f64,
}

fn print(rate: Option<u32>, subjects: &[&Subject], results: &mut [Vec<Trial>]) {
    match rate {
        Some(rate) => println!("\noffered {rate} requests/s over {CONNECTIONS} connections"),
        None => println!("\nclosed loop, one request for each of {CONNECTIONS} connections"),
    }
    println!(
        "{:<16} {:>24} {:>24} {:>12} {:>12} {:>10}",
        "median [min, max]",
        "processor us/request",
        "process us/request",
        "client us",
        "requests/s",
        "p99 us"
    );
    let all = || results.iter().flatten();
    let disturbed = all().filter(|trial| trial.waited > DISTURBED).count();
    if disturbed > 0 {
        println!(
            "{disturbed} of {} trials were disturbed by other programs",
            all().count()
        );
    }
    for (subject, trials) in subjects.iter().zip(results) {
        let mut of = |value: fn(&Trial) -> f64| {
            trials.sort_by(|one, other| value(one).total_cmp(&value(other)));
            let all = [0, trials.len() / 2, trials.len() - 1];
            all.map(|index| value(&trials[index]))
        };
        let (busy, process) = (of(|it| it.busy_us), of(|it| it.process_us));
        let (client, rps, p99) = (
            of(|it| it.generator_us),
            of(|it| it.achieved_rps),
            of(|it| it.p99_us),
        );
        let range = |[min, median, max]: [f64; 3]| format!("{median:.2} [{min:.2}, {max:.2}]");
        println!(
            "{:<16} {:>24} {:>24} {:>12.2} {:>12.0} {:>10.0}",
            subject.name,
            range(busy),
            range(process),
            client[1],
            rps[1],
            p99[1]
        );
    }
}

/// Starts a server, offers load, and measures a window in the middle.
fn measure(hosts: &Hosts, subject: &Subject, rate: Option<u32>, window: Duration) -> Result<Trial> {
    let (server, address) = start(hosts, subject)?;
    let folder = tempfile::tempdir()?;
    let load = |words: &[&str]| {
        let mut command = hosts.in_client(0, Command::new(curtail_path()));
        add_words(&mut command, &address, &[], words);
        bind(&mut command, &measured_on(GENERATOR_CPU))?;
        anyhow::Ok(command)
    };
    let filled = Run::of(
        load(&[
            "--rate",
            "1k",
            "-c",
            "8",
            "-w",
            "0",
            "-t",
            "10ms",
            "-r",
            "1000",
            "--prefill",
            "-q",
        ])?,
        folder.path(),
    )?;
    if filled.summary.is_none() {
        bail!("{}: {:?}", subject.name, filled.verdict());
    }
    let rate_text = rate.map_or("max".to_owned(), |rate| rate.to_string());
    let time = format!("{}ms", (window + Duration::from_millis(600)).as_millis());
    let words = [
        "--rate",
        &rate_text,
        "-c",
        CONNECTIONS,
        "-w",
        "300ms",
        "-t",
        &time,
        "-r",
        "1000",
        "-u",
        "0.1",
        "--no-spin",
        "-q",
    ];
    let command = load(&words)?;
    let (trial, run) = thread::scope(|scope| {
        let run = scope.spawn(|| Run::of(command, folder.path()));
        thread::sleep(WINDOW_DELAY);
        let before = Usage::now(server.pid())?;
        thread::sleep(window);
        let after = Usage::now(server.pid())?;
        let run = run.join().ok().context("the generator panicked")??;
        anyhow::Ok(((before, after), run))
    })?;
    let summary = run.summary.as_ref();
    let summary = summary.with_context(|| format!("{}: {:?}", subject.name, run.verdict()))?;
    let (before, after) = trial;
    let requests = summary.achieved_rps * (after.at - before.at).as_secs_f64();
    let us = |before_ns: u64, after_ns: u64| (after_ns - before_ns) as f64 / 1000.0 / requests;
    let percentiles = &summary.service.percentiles;
    let p99_ns = percentiles
        .iter()
        .find(|(percent, _)| (percent - 99.0).abs() < 1e-9);
    let p99_ns = p99_ns.map_or(0, |&(_, ns)| ns);
    Ok(Trial {
        busy_us: us(before.server_ns, after.server_ns),
        process_us: us(before.process_ns, after.process_ns),
        generator_us: us(before.generator_ns, after.generator_ns),
        waited: (after.waited_us - before.waited_us) as f64 / window.as_micros() as f64,
        achieved_rps: summary.achieved_rps,
        p99_us: p99_ns as f64 / 1000.0,
    })
}

/// Processor times at one moment, in nanoseconds.
struct Usage {
    at: Instant,
    server_ns: u64,
    generator_ns: u64,
    process_ns: u64,
    /// Time in which a task waited for a processor, in microseconds.
    waited_us: u64,
}

impl Usage {
    fn now(pid: u32) -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let cost = sys::cost::of_process(pid)?;
        Ok(Self {
            at: Instant::now(),
            server_ns: busy_ns(&stat, SERVER_CPU)?,
            generator_ns: busy_ns(&stat, GENERATOR_CPU)?,
            process_ns: cost.user_ns + cost.system_ns,
            waited_us: waited_us().unwrap_or(0),
        })
    }
}

/// The time since the start of the machine in which at least one task waited for a processor.
fn waited_us() -> Option<u64> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.parse().ok()
}

/// The time that a processor has been neither idle nor taken by the host of this machine
/// (proc_stat(5)): user, nice, system, interrupts and softirq.
fn busy_ns(stat: &str, cpu: usize) -> Result<u64> {
    const TICK_NS: u64 = 10_000_000;
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name));
    let line = line.with_context(|| format!("no processor {cpu}"))?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map_while(|it| it.parse().ok())
        .collect();
    let [user, nice, system, _, _, irq, softirq, ..] = ticks[..] else {
        bail!("{line:?}");
    };
    Ok((user + nice + system + irq + softirq) * TICK_NS)
}

/// A process on a processor of its own, before other programs where that is allowed.
fn measured_on(cpu: usize) -> Bounds {
    Bounds {
        cpus: vec![cpu],
        dies_with_parent: true,
        own_session: true,
        goes_first: sys::thread::may_go_first(),
        ..Bounds::default()
    }
}

/// Starts a server, and waits until it answers.
fn start(hosts: &Hosts, subject: &Subject) -> Result<(HostServer, String)> {
    let mut command = match memcached() {
        Some(path) if subject.name == MEMCACHED => memcached_command(&path),
        _ => {
            let mut command = Command::new(curtail_path());
            command.args(["serve", "-u", "root"]).args(subject.flags);
            command
        }
    };
    let address = add_flags(&mut command, hosts, subject.flags.contains(&"bypass"));
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut command = hosts.in_server(command);
    bind(&mut command, &measured_on(SERVER_CPU))?;
    let server = HostServer::start(command, hosts, address, TIMEOUT).context(subject.name)?;
    Ok((server, address.to_string()))
}
