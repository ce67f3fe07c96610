//! One trial: a known-law server, the generator, and both their views of the same requests.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, ensure};
use load::agents::{Agent, AgentAddress, Coordinator, Token};
use load::{Config, Protocol, Rate, Recorded, Summary, Target};

use super::Setting;
use super::law::Service;
use super::server::Truth;

/// Both views of one trial.
#[derive(Debug)]
pub struct Trial {
    /// What the generator reports.
    pub summary: Summary,
    /// Every measured request, as the generator and as the server saw it.
    pub requests: Vec<(Recorded, Truth)>,
}

impl Trial {
    /// Reported less true response time of each request that `counts`, nanoseconds, ascending.
    #[must_use]
    pub fn differences_ns(&self, counts: impl Fn(&Recorded) -> bool) -> Vec<i64> {
        let difference = |(reported, truth): &(Recorded, Truth)| {
            let reported_ns =
                reported.answered_ns.cast_signed() - reported.intended_ns.cast_signed();
            reported_ns - (truth.left_ns - truth.arrived_ns).cast_signed()
        };
        let counted = self.requests.iter().filter(|(seen, _)| counts(seen));
        let mut differences: Vec<i64> = counted.map(difference).collect();
        differences.sort_unstable();
        differences
    }

    /// How many requests took at least so long from their send to their answer.
    #[must_use]
    pub fn slower_than(&self, ns: u64) -> usize {
        self.requests
            .iter()
            .filter(|(seen, _)| seen.answered_ns - seen.sent_ns >= ns)
            .count()
    }
}

/// A percentile of ascending values; the least such that the share is at most it.
#[must_use]
pub fn percentile<T: Copy + Default>(ascending: &[T], percentile: f64) -> T {
    let place = (ascending.len() as f64 * percentile / 100.0).ceil() as usize;
    ascending
        .get(place.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

/// The load of a calibration: gets with opaque tokens over few connections with room to spare.
#[must_use]
pub fn load_of(rate: Rate, seconds: f64) -> Config {
    let mut config = Config::new(Target::Tcp(([127, 0, 0, 1], 0).into()));
    config.rate = rate;
    config.connections = 8;
    config.depth = 64;
    config.protocol = Protocol::Meta;
    config.update = 0.0;
    config.records = 1000;
    config.warmup_ns = 500_000_000;
    config.duration_ns = (seconds * 1e9) as u64;
    config.grace_ns = 5_000_000_000;
    config.arrivals = workload::Distribution::Exponential { lambda: 1.0 };
    config
}

/// Makes one trial.
///
/// # Errors
/// The server or the generator fails, or a request that the generator saw answered is not in the
/// server's log.
pub fn trial(setting: &Setting, law: Service, config: &Config) -> anyhow::Result<Trial> {
    let run = |config: &Config| load::run_recorded(config, 1 << 22, |_| ());
    let ((summary, recorded), truths) = logged(setting, law, config, run)?;
    let requests: Vec<_> = recorded
        .into_iter()
        .filter_map(|seen| truths.get(&seen.opaque).map(|&truth| (seen, truth)))
        .collect();
    ensure!(
        requests.len() as u64 == summary.answered,
        "{} requests answered, of which the server knows {}",
        summary.answered,
        requests.len()
    );
    Ok(Trial { summary, requests })
}

/// What agents reported of one trial, and what the server logged of it.
#[derive(Debug)]
pub struct AgentsTrial {
    /// What the coordinator reports.
    pub summary: Summary,
    /// True residences of all requests, nanoseconds, ascending.
    pub residences_ns: Vec<u64>,
}

/// Makes one trial whose load agents offer, each on a thread of this process that is started here
/// and waits for coordinators until the process ends. All requests are measured: there is no
/// warm-up.
///
/// # Errors
/// As [`trial`], or an agent sent no request.
pub fn trial_by_agents(
    setting: &Setting,
    law: Service,
    config: &Config,
    agents: usize,
) -> anyhow::Result<AgentsTrial> {
    let addresses = (0..agents).map(|_| start_agent(setting.load_cpu));
    let coordinator = Coordinator {
        agents: addresses.collect::<anyhow::Result<_>>()?,
        token: Token::default(),
        client: None,
    };
    let mut config = config.clone();
    config.warmup_ns = 0;
    let run = |config: &Config| coordinator.run(config, |_| ());
    let (summary, truths) = logged(setting, law, &config, run)?;
    ensure!(
        truths.len() as u64 == summary.answered,
        "{} requests answered, but the server knows {}",
        summary.answered,
        truths.len()
    );
    // The upper bits of a token say whose request it is.
    let senders: HashSet<u64> = truths.keys().map(|opaque| opaque >> 44).collect();
    ensure!(senders.len() == agents, "{} agents sent", senders.len());
    let residences = truths.values().map(|it| it.left_ns - it.arrived_ns);
    let mut residences_ns: Vec<u64> = residences.collect();
    residences_ns.sort_unstable();
    Ok(AgentsTrial {
        summary,
        residences_ns,
    })
}

fn start_agent(cpu: Option<usize>) -> anyhow::Result<AgentAddress> {
    let cpus = cpu.into_iter().collect();
    let agent = Agent::bind(([127, 0, 0, 1], 0).into(), Token::default(), cpus)?;
    let address = agent.address()?.to_string().parse()?;
    thread::spawn(move || agent.serve(|_, _| ()));
    Ok(address)
}

/// Runs against a server of a known law; returns the result and the server's log, by opaque token.
fn logged<T>(
    setting: &Setting,
    law: Service,
    config: &Config,
    run: impl FnOnce(&Config) -> Result<T, load::Error>,
) -> anyhow::Result<(T, HashMap<u64, Truth>)> {
    let mut server = Server::start(setting, law, config.seed)?;
    let mut config = config.clone();
    config.targets = vec![Target::Tcp(([127, 0, 0, 1], server.port).into())];
    config.cpus = setting.load_cpu.into_iter().collect();
    let result = run(&config)?;
    let log = server.stop()?.into_iter();
    Ok((result, log.map(|truth| (truth.opaque, truth)).collect()))
}

/// A known-law server in a process of its own.
pub(super) struct Server {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    /// Where it listens, on the loopback interface.
    pub(super) port: u16,
}

impl Server {
    pub(super) fn start(setting: &Setting, law: Service, seed: u64) -> anyhow::Result<Self> {
        let cpu = setting
            .server_cpu
            .map_or_else(|| "-".to_owned(), |cpu| cpu.to_string());
        let mut child = Command::new(&setting.program)
            .args([
                "known-law-server",
                &law.to_string(),
                &seed.to_string(),
                &cpu,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", setting.program.display()))?;
        let output = child.stdout.take().context("the server's output")?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let port = line.trim().parse().context("the server says no port")?;
        Ok(Self {
            child,
            output,
            port,
        })
    }

    /// Ends the server and reads its log, in the order of the replies.
    pub(super) fn stop(&mut self) -> anyhow::Result<Vec<Truth>> {
        drop(self.child.stdin.take());
        let mut log = Vec::new();
        for line in self.output.by_ref().lines() {
            let line = line?;
            let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
            let [opaque, arrived_ns, due_ns, left_ns] = numbers?[..] else {
                anyhow::bail!("log line `{line}`");
            };
            log.push(Truth {
                opaque,
                arrived_ns,
                due_ns,
                left_ns,
            });
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends when its input does; this is for a trial that failed midway.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
