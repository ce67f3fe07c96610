//! What a load generator pays for a request: the project's own beside mutilate, memtier_benchmark
//! and memcslap.
//!
//! `[--rounds N] [--seconds N] [--before PROGRAM]`: trials of each generator, seconds of a trial,
//! and an older build of `curtail`.
//!
//! All of them ask one `curtail serve --runtime events` for keys of some 30 bytes that it does not
//! hold, in closed loop over 16 connections by one thread, the server on the first processor and
//! the generator on the second. The figure is the processor time of the generator's process, user
//! and system, from its start to its end, for each request that the server counted in `stats`.
//! Requests that a generator sends to warm up or to load records count like the others.
//!
//! `curtail load` and mutilate poll their connections without sleeping unless told otherwise; each
//! also has a row in which it sleeps (`--no-spin`, `--blocking`), as the other two always do.
//!
//! The other generators are looked up in `PATH`, or are the programs that `$MUTILATE`, `$MEMTIER`
//! and `$MEMCSLAP` name. One that is not installed is reported as such.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints"
)]

mod generator;

use std::env;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use curtail_tests::client::Client;
use curtail_tests::process::{self, Server};
use measure::{Estimate, RankTest, median_of_trials};
use sys::child::{Bounds, bind};
use workload::{Purpose, RandomStream};

use generator::Generator;

/// Requests that one connection has outstanding.
const DEPTHS: [u32; 2] = [1, 16];
const CONFIDENCE: f64 = 0.95;
/// The greatest processor time beside the older build's.
const BEFORE_MAX: f64 = 1.05;
/// Requests without which a trial says nothing.
const REQUESTS_MIN: u64 = 1000;

struct Settings {
    rounds: usize,
    seconds: u32,
    before: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("generators: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Prints the table of each depth. Returns whether every target that can be judged is met.
fn run() -> Result<bool> {
    let settings = settings(env::args().skip(1))?;
    let cpus = sys::thread::allowed_cpus()?;
    let [server_cpu, generator_cpu, ..] = cpus[..] else {
        bail!("server and generator need a processor each, and this process may use only one");
    };
    let server = Server::tcp_on(Ipv4Addr::LOCALHOST, &[server_cpu], || {
        let mut command = Command::new(process::curtail_path());
        command.args(["serve", "--runtime", "events", "-t", "1"]);
        command
    })?;
    let (installed, missing) = generator::all(settings.before.as_deref());
    for name in missing {
        println!("{name}: not installed");
    }
    println!(
        "{} rounds of {} s, 16 connections, closed loop, server on processor {server_cpu}, \
         generator on {generator_cpu}",
        settings.rounds, settings.seconds
    );
    let mut all_met = true;
    for depth in DEPTHS {
        let generators: Vec<&Generator> = installed
            .iter()
            .filter(|generator| depth == 1 || generator.pipelines)
            .collect();
        let mut costs = vec![Vec::new(); generators.len()];
        let mut random = RandomStream::new(2, Purpose::Other, u64::from(depth));
        for round in 0..settings.rounds {
            for at in shuffled(generators.len(), &mut random) {
                let generator = generators[at];
                eprintln!("depth {depth}, round {}: {}", round + 1, generator.name);
                let cost = trial(generator, &server, depth, settings.seconds, generator_cpu);
                costs[at].push(cost.with_context(|| generator.name.clone())?);
            }
        }
        all_met &= print(depth, &generators, &costs);
    }
    Ok(all_met)
}

fn settings(mut words: impl Iterator<Item = String>) -> Result<Settings> {
    const USAGE: &str = "there are --rounds N, --seconds N and --before PROGRAM";
    let mut settings = Settings {
        rounds: 15,
        seconds: 2,
        before: None,
    };
    while let Some(word) = words.next() {
        if word == "--bench" {
            continue;
        }
        let value = words.next().with_context(|| format!("{word}: {USAGE}"))?;
        match word.as_str() {
            "--rounds" => settings.rounds = value.parse().context("--rounds")?,
            "--seconds" => settings.seconds = value.parse().context("--seconds")?,
            "--before" => settings.before = Some(PathBuf::from(value)),
            _ => bail!("no option {word:?}; {USAGE}"),
        }
    }
    Ok(settings)
}

/// The numbers below `count` in a random order.
fn shuffled(count: usize, random: &mut RandomStream) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

/// Runs a generator once. Returns its processor time for each request, microseconds.
fn trial(
    generator: &Generator,
    server: &Server,
    depth: u32,
    seconds: u32,
    cpu: usize,
) -> Result<f64> {
    let requests_before = requests(server)?;
    let mut command = generator.command(&server.address, depth, seconds)?;
    let bounds = Bounds {
        cpus: vec![cpu],
        dies_with_parent: true,
        own_session: true,
        goes_first: sys::thread::may_go_first(),
        ..Bounds::default()
    };
    bind(&mut command, &bounds)?;
    let cpu_before_ns = sys::cost::ended_children_ns();
    let output = command.stdin(Stdio::null()).output()?;
    let cpu_ns = sys::cost::ended_children_ns() - cpu_before_ns;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", output.status);
    let requests = requests(server)? - requests_before;
    ensure!(
        requests >= REQUESTS_MIN,
        "the server counted only {requests} requests: {said}"
    );
    Ok(cpu_ns as f64 / 1e3 / requests as f64)
}

/// Gets and sets that the server has counted.
fn requests(server: &Server) -> Result<u64> {
    let mut client = Client::connect(&server.address)?;
    Ok(client.stat("cmd_get")? + client.stat("cmd_set")?)
}

/// Prints the rows of one depth. Returns whether the targets that can be judged are met.
fn print(depth: u32, generators: &[&Generator], costs: &[Vec<f64>]) -> bool {
    println!("\ndepth {depth}");
    println!(
        "  {:<32}{:>20}   {:<30}target",
        "generator", "CPU a request, us", "ours with the same waits ÷ it"
    );
    let mut all_met = true;
    for (at, generator) in generators.iter().enumerate() {
        let own = median_of_trials(&costs[at], CONFIDENCE);
        let ours = generator::OURS[usize::from(generator.sleeps)];
        let ours = generators.iter().position(|it| it.name == ours);
        let ratio = ours
            .filter(|&ours| ours != at)
            .and_then(|ours| RankTest::of(&costs[ours], &costs[at], CONFIDENCE)?.ratio);
        let limit = if generator.is_before { BEFORE_MAX } else { 1.0 };
        let verdict = match ratio {
            Some(ratio) if ratio.interval.high < limit => format!("below {limit}: met"),
            Some(ratio) if ratio.interval.low > limit => format!("below {limit}: not met"),
            Some(_) => format!("below {limit}: not decided here"),
            None => String::new(),
        };
        all_met &= !verdict.ends_with("not met");
        println!(
            "  {:<32}{:>20}   {:<30}{verdict}",
            generator.name,
            shown(own),
            shown(ratio)
        );
    }
    all_met
}

fn shown(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(|| "-".to_owned(), |estimate| estimate.to_string())
}
