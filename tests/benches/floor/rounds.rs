//! Rounds: every server once, in an order drawn anew, so that what the machine does meanwhile
//! falls on all of them alike.

use std::io::{IsTerminal, Write};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use sys::clock::monotonic_ns;
use workload::{Purpose, RandomStream};

use crate::Settings;
use crate::asks::Requests;
use crate::cases::Case;
use crate::client::{Client, Until};
use crate::servers::Subject;

/// For the server's threads to fall asleep after the last answer: only then has the kernel counted
/// all they took.
const REST: Duration = Duration::from_millis(2);

/// What one server took once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    /// Processor time of its process, user and system, for each request.
    pub(crate) cpu_us: f64,
    pub(crate) rate_rps: f64,
    /// Share of the time in which its process ran.
    pub(crate) busy: f64,
}

/// The trials of each subject, in the order of rounds.
pub(crate) fn measure(
    case: &Case,
    subjects: &[&Subject],
    settings: &Settings,
    progress: &Progress,
) -> Result<Vec<Vec<Trial>>> {
    let mut clients = Vec::new();
    for subject in subjects {
        // All are asked the same.
        let requests = Requests::new(case.asks, settings.records, 1);
        let client = Client::new(subject.address()?, case.connections, case.depth, requests);
        clients.push(client.with_context(|| subject.name.clone())?);
    }
    let mut trials = vec![Vec::new(); subjects.len()];
    let name = case.name();
    in_turns(settings.rounds, subjects.len(), |round, at| {
        progress.say(&name, round);
        let trial = measure_once(&mut clients[at], subjects[at], settings);
        trials[at].push(trial.with_context(|| subjects[at].name.clone())?);
        Ok(())
    })?;
    Ok(trials)
}

/// Has each of `count` its turn in every round, in an order drawn anew: told the round and whose
/// turn it is.
pub(crate) fn in_turns(
    rounds: usize,
    count: usize,
    mut turn: impl FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut random = RandomStream::new(2, Purpose::Other, 0);
    for round in 0..rounds {
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        order.iter().try_for_each(|&at| turn(round, at))?;
    }
    Ok(())
}

fn measure_once(client: &mut Client, subject: &Subject, settings: &Settings) -> Result<Trial> {
    let pid = subject.server.pid();
    client.run(Until::TimeNs(settings.warm_ns))?;
    thread::sleep(REST);
    let before = sys::cost::of_process(pid)?;
    let done = client.run(Until::TimeNs(settings.trial_ns))?;
    thread::sleep(REST);
    let cost = sys::cost::of_process(pid)?.since(&before);
    let cpu_ns = (cost.user_ns + cost.system_ns) as f64;
    Ok(Trial {
        cpu_us: cpu_ns / 1e3 / done.requests as f64,
        rate_rps: done.requests as f64 / (done.elapsed_ns as f64 / 1e9),
        busy: cpu_ns / done.elapsed_ns as f64,
    })
}

/// Says on a terminal how far it is.
pub(crate) struct Progress {
    begun_ns: u64,
    expected_ns: u64,
}

impl Progress {
    pub(crate) fn new(expected_ns: u64) -> Self {
        Self {
            begun_ns: monotonic_ns(),
            expected_ns,
        }
    }

    pub(crate) fn say(&self, name: &str, round: usize) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let past_ns = monotonic_ns() - self.begun_ns;
        let left_s = self.expected_ns.saturating_sub(past_ns) / 1_000_000_000;
        let text = format!("{name}, round {}, about {left_s} s to go", round + 1);
        // Whether a terminal shows it is no concern of the measurement.
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
    }

    /// Makes room for what is printed next.
    pub(crate) fn clear(&self) {
        if std::io::stderr().is_terminal() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
