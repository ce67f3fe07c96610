//! To the kernel's floor: what a server pays for a request beside what a server pays that only
//! echoes.
//!
//! `[--quick] [--rounds N] [--records N] [--connections N] [--offered MS] [--real-time]
//! [--two-hosts] [--server NAME]… [--with FLAGS]… [--before PROGRAM] [CASE]`: fewer rounds,
//! records, and connections of the levels, or so many; trials under an offered rate of so many
//! milliseconds; the servers of the levels before every other program, with a stall detector of the
//! machine's own waits; servers and generator as on two machines; the servers of those names alone;
//! Curtail with those flags besides; our servers beside those of an older build, which is that
//! program; the cases whose names contain `CASE`.
//!
//! Every server has one worker and is a process of its own with all its threads on one processor;
//! the client, a closed loop, is on another. The figure is the processor time of the server's
//! process for each request, user and system, and its ratio within a round to the echo's by
//! io_uring. What the network stack does while the client sends is paid by the client.
//!
//! Behind the cases come tables of another kind: instructions, memory of idle connections, and
//! three of the tail under an offered rate.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark speaks to the terminal"
)]

mod asks;
mod cases;
mod client;
mod hosts;
mod idle;
mod instructions;
mod levels;
mod offered;
mod rounds;
mod saturating;
mod servers;
mod table;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use curtail_tests::echo::Kind;
use lab::hosts::Hosts;

use cases::Case;
use rounds::Progress;
use servers::{Cache, Place, Role, Subject};

const USAGE: &str = "there are --quick, --rounds N, --records N, --connections N, --offered MS, \
                     --real-time, --two-hosts, --server NAME, --with FLAGS, --before PROGRAM and \
                     the name of a case";
/// Files the client needs: a thousand connections to each of six servers, or those of the ladder,
/// and some.
const OPEN_FILES: u64 = LADDER_CONNECTIONS + 200;
/// Connections of the published ladder.
const LADDER_CONNECTIONS: u64 = 15_360;
/// The longest trial under an offered rate.
const OFFERED_MAX_MS: u64 = 60_000;
/// What a case takes beside its rounds: echoes are started, connections made.
const CASE_NS: u64 = 500_000_000;
/// Filling a server takes about so long for each record.
const FILL_NS: u64 = 1_500;

/// What is measured in another way than the cases.
struct Table {
    name: &'static str,
    /// The project's own generator offers a rate.
    is_offered: bool,
    expected_ns: fn(&Settings, &[Cache]) -> u64,
    print: fn(&Settings, &[Cache], &Progress) -> Result<()>,
}

const TABLES: [Table; 5] = [
    Table {
        name: instructions::NAME,
        is_offered: false,
        expected_ns: instructions::expected_ns,
        print: instructions::print,
    },
    Table {
        name: idle::NAME,
        is_offered: false,
        expected_ns: idle::expected_ns,
        print: idle::print,
    },
    Table {
        name: saturating::NAME,
        is_offered: true,
        expected_ns: saturating::expected_ns,
        print: saturating::print,
    },
    Table {
        name: levels::NAMES[0],
        is_offered: true,
        expected_ns: levels::expected_ns,
        print: levels::print::<0>,
    },
    Table {
        name: levels::NAMES[1],
        is_offered: true,
        expected_ns: levels::expected_ns,
        print: levels::print::<1>,
    },
];

/// How it is measured.
pub(crate) struct Settings {
    pub(crate) rounds: usize,
    pub(crate) warm_ns: u64,
    pub(crate) trial_ns: u64,
    pub(crate) records: u64,
    /// Before a trial under an offered rate is measured.
    pub(crate) offered_warm_ns: u64,
    /// Of such a trial.
    pub(crate) offered_ns: u64,
    /// Connections at the levels.
    pub(crate) ladder_connections: u32,
    /// The servers of the levels are in the real-time class.
    pub(crate) real_time: bool,
    /// Servers and generator are to be on two hosts.
    two_hosts: bool,
    /// Where they are.
    pub(crate) hosts: Hosts,
    /// Requests under valgrind, and twice as many.
    pub(crate) counted_requests: u64,
    pub(crate) server_cpu: usize,
    pub(crate) client_cpu: usize,
    /// Names of servers; none: all.
    servers: Vec<String>,
    /// Flags of one more of ours, each.
    with: Vec<String>,
    /// An older build of ours.
    before: Option<PathBuf>,
    /// Of cases.
    only: Option<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some((&servers::ECHO, words)) = words.split_first() {
        return servers::serve_echo(words);
    }
    let mut settings = Settings::parse(&words)?;
    let cases: Vec<Case> = Case::ALL
        .into_iter()
        .filter(|case| settings.means(&case.name()))
        .collect();
    let tables: Vec<&Table> = TABLES
        .iter()
        .filter(|table| settings.means(table.name))
        .collect();
    if cases.is_empty() && tables.is_empty() {
        let names = Case::ALL.map(|case| case.name()).join("\n  ");
        let others = TABLES.map(|table| table.name).join("\n  ");
        bail!("no case has that in its name; the cases are:\n  {names}\n  {others}");
    }
    if settings.two_hosts {
        if !cases.is_empty() || tables.iter().any(|table| !table.is_offered) {
            let offered = TABLES.iter().filter(|table| table.is_offered);
            let names: Vec<&str> = offered.map(|table| table.name).collect();
            bail!(
                "--two-hosts is for what is asked under an offered rate; name one of them:\n  {}",
                names.join("\n  ")
            );
        }
        settings.hosts = hosts::two(settings.server_cpu, settings.client_cpu)?;
    }
    // Before anything is bound to a processor: this may have to build.
    let mut caches = settings.chosen(Cache::all())?;
    caches.splice(0..0, settings.with.iter().map(|flags| Cache::with(flags)));
    if let Some(program) = &settings.before {
        let before: Vec<Cache> = caches.iter().filter_map(|it| it.before(program)).collect();
        caches.extend(before);
    }
    sys::limits::raise_open_files(OPEN_FILES);
    sys::thread::pin(&[settings.client_cpu]).context("bind the client to its processor")?;
    let mut expected_ns = settings.expected_ns(&cases, caches.len());
    for table in &tables {
        expected_ns += (table.expected_ns)(&settings, &caches);
    }
    settings.announce(&caches, expected_ns);
    let progress = Progress::new(expected_ns);
    if !cases.is_empty() {
        measure(&settings, &cases, &caches, &progress)?;
    }
    for table in tables {
        (table.print)(&settings, &caches, &progress).context(table.name)?;
    }
    Ok(())
}

fn measure(
    settings: &Settings,
    cases: &[Case],
    caches: &[Cache],
    progress: &Progress,
) -> Result<()> {
    let mut filled = Vec::new();
    for cache in caches {
        let subject = cache.start(settings.records, settings.place())?;
        asks::fill(subject.address()?, settings.records).with_context(|| cache.name.clone())?;
        filled.push(subject);
    }
    for case in cases {
        let mut echoes = Vec::new();
        if let Some(exchange) = case.asks.exchange() {
            for kind in Kind::ALL {
                match kind.probe() {
                    Ok(()) => {
                        let echo = servers::start_echo(kind, exchange, settings.place())?;
                        echoes.push(echo);
                    }
                    Err(error) => println!("skipped: no echo by {}: {error}", kind.name()),
                }
            }
        }
        let subjects: Vec<&Subject> = echoes.iter().chain(&filled).collect();
        let trials =
            rounds::measure(case, &subjects, settings, progress).with_context(|| case.name())?;
        progress.clear();
        table::print(case, &subjects, &trials);
    }
    Ok(())
}

impl Settings {
    fn parse(words: &[&str]) -> Result<Self> {
        let cpus = sys::thread::allowed_cpus()?;
        let &[server_cpu, client_cpu, ..] = cpus.as_slice() else {
            bail!(
                "one processor is too few: the server needs one to itself, since what the client \
                 does there would delay it and take its caches"
            );
        };
        let quick = words.contains(&"--quick");
        let mut settings = Self {
            rounds: if quick { 5 } else { 15 },
            warm_ns: if quick { 30_000_000 } else { 100_000_000 },
            trial_ns: if quick { 150_000_000 } else { 500_000_000 },
            records: if quick { 10_000 } else { 1_000_000 },
            offered_warm_ns: if quick { 300_000_000 } else { 800_000_000 },
            offered_ns: if quick { 500_000_000 } else { 2_000_000_000 },
            ladder_connections: if quick {
                1_024
            } else {
                LADDER_CONNECTIONS as u32
            },
            real_time: false,
            two_hosts: false,
            hosts: Hosts::One,
            counted_requests: if quick { 5_000 } else { 20_000 },
            server_cpu,
            client_cpu,
            servers: Vec::new(),
            with: Vec::new(),
            before: None,
            only: None,
        };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                // Cargo says so to every benchmark.
                "--quick" | "--bench" => {}
                "--rounds" => {
                    settings.rounds = number(word, words.next(), 10_000)? as usize;
                }
                "--records" => {
                    settings.records = number(word, words.next(), asks::RECORDS_MAX)?;
                }
                "--connections" => {
                    let most = LADDER_CONNECTIONS;
                    settings.ladder_connections = number(word, words.next(), most)? as u32;
                }
                "--offered" => {
                    settings.offered_ns = number(word, words.next(), OFFERED_MAX_MS)? * 1_000_000;
                }
                "--real-time" => {
                    levels::check_real_time()?;
                    settings.real_time = true;
                }
                "--two-hosts" => settings.two_hosts = true,
                "--server" => {
                    let name = words.next().context("--server wants the name of one")?;
                    settings.servers.push((*name).to_owned());
                }
                "--with" => {
                    let flags = words
                        .next()
                        .context("--with wants flags of curtail serve")?;
                    settings.with.push((*flags).to_owned());
                }
                "--before" => {
                    let program = words
                        .next()
                        .context("--before wants an older curtail program")?;
                    settings.before = Some(PathBuf::from(program));
                }
                _ if word.starts_with('-') => bail!("no option {word:?}; {USAGE}"),
                _ if settings.only.is_some() => bail!("one case at most, not also {word:?}"),
                _ => settings.only = Some(word.to_owned()),
            }
        }
        Ok(settings)
    }

    /// Of the servers.
    pub(crate) fn place(&self) -> Place {
        Place {
            ip: self.hosts.server_ip(),
            cpu: self.server_cpu,
        }
    }

    /// The servers to be measured.
    fn chosen(&self, caches: Vec<Cache>) -> Result<Vec<Cache>> {
        if self.servers.is_empty() {
            return Ok(caches);
        }
        let names: Vec<&str> = caches.iter().map(|it| it.name.as_str()).collect();
        for name in &self.servers {
            if !names.contains(&name.as_str()) {
                bail!("no server {name:?}; there are {}", names.join(", "));
            }
        }
        let is_chosen = |cache: &Cache| self.servers.contains(&cache.name);
        Ok(caches.into_iter().filter(is_chosen).collect())
    }

    fn means(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }

    fn expected_ns(&self, cases: &[Case], caches: usize) -> u64 {
        let rounds = cases.iter().map(|case| {
            let echoes = case.asks.exchange().map_or(0, |_| Kind::ALL.len());
            let trial_ns = self.warm_ns + self.trial_ns + 5_000_000;
            CASE_NS + (self.rounds * (caches + echoes)) as u64 * trial_ns
        });
        let filling = caches as u64 * (CASE_NS + self.records * FILL_NS);
        rounds.sum::<u64>() + if cases.is_empty() { 0 } else { filling }
    }

    fn announce(&self, caches: &[Cache], expected_ns: u64) {
        println!(
            "servers on processor {}, the client on {}; closed loop, {} records, {} rounds in \
             random order; about {} s",
            self.server_cpu,
            self.client_cpu,
            self.records,
            self.rounds,
            expected_ns.div_ceil(1_000_000_000)
        );
        if self.rounds < 6 {
            println!("fewer than 6 rounds: their intervals are the whole range, and below 95 %");
        }
        let has_memcached = caches.iter().any(|cache| cache.role == Role::Memcached);
        if !has_memcached && self.servers.is_empty() {
            println!("skipped: no memcached to compare with; none is installed");
        }
    }
}

fn number(option: &str, text: Option<&&str>, most: u64) -> Result<u64> {
    let text = text.with_context(|| format!("{option} wants a number"))?;
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => bail!("{option} {text}: it is a number from 1 to {most}"),
    }
}
