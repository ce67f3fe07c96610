//! Trials by the project's own generator, a process of its own, which offers a rate: latency counts
//! from the moment a request was due.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use curtail_tests::process;
use load::Summary;
use measure::{Estimate, median_of_trials, paired_ratio};
use sys::child::{Bounds, bind};

use crate::Settings;
use crate::servers::Subject;
use crate::table::CONFIDENCE;

/// What is asked of a server: the load of the rate ladder, keys, values and arrivals of Facebook's
/// ETC pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: u32,
    /// Requests a second; none: as many as are answered.
    pub(crate) rate_rps: Option<f64>,
    /// Greedy connections beside those.
    pub(crate) greedy: u32,
    /// Requests one of those has outstanding.
    pub(crate) greedy_depth: u32,
    /// The server is filled first.
    pub(crate) fills: bool,
}

/// One trial. Generator and server go before whatever else the machine does, where they may.
pub(crate) fn trial(subject: &Subject, load: &Load, settings: &Settings) -> Result<Summary> {
    let mut command = Command::new(process::curtail_path());
    command.args(["load", &subject.address()?.to_string(), "--json", "-"]);
    let rate = load.rate_rps.map_or("max".to_owned(), |it| it.to_string());
    let us = |ns: u64| format!("{}us", ns / 1_000);
    for (name, value) in [
        ("--rate", rate),
        ("--connections", load.connections.to_string()),
        ("--greedy", load.greedy.to_string()),
        ("--greedy-depth", load.greedy_depth.to_string()),
        ("--records", settings.records.to_string()),
        ("--warmup", us(settings.offered_warm_ns)),
        ("--duration", us(settings.offered_ns)),
        ("--cpus", settings.client_cpu.to_string()),
    ] {
        command.args([name, &value]);
    }
    if load.fills {
        command.arg("--prefill");
    }
    let bounds = Bounds {
        cpus: vec![settings.client_cpu],
        dies_with_parent: true,
        own_session: true,
        goes_first: sys::thread::may_go_first(),
    };
    bind(&mut command, &bounds)?;
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("start the generator")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("the generator failed: {}", said.trim());
    }
    serde_json::from_slice(&output.stdout).context("the generator's summary")
}

/// The tail of one trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    /// The generator was late: these say more of it than of the server.
    pub(crate) is_limited: bool,
    pub(crate) greedy_rps: Option<f64>,
}

impl Tail {
    pub(crate) fn of(summary: &Summary) -> Result<Self> {
        let response = summary.response.as_ref().context("no response times")?;
        let at = |percentile: f64| {
            let points = response.percentiles.iter();
            let mut found = points.filter(|point| point.0 == percentile);
            found.next().map_or(f64::NAN, |point| point.1 as f64 / 1e3)
        };
        Ok(Self {
            p99_us: at(99.0),
            p999_us: at(99.9),
            is_limited: summary.generator_limited,
            greedy_rps: summary.greedy_rps,
        })
    }
}

pub(crate) fn median(trials: &[Tail], of: impl Fn(&Tail) -> f64) -> Option<Estimate> {
    let values: Vec<f64> = trials.iter().map(of).collect();
    median_of_trials(&values, CONFIDENCE)
}

/// Within the rounds, so that what a round's trials share cancels.
pub(crate) fn ratio(trials: &[Tail], base: &[Tail], of: impl Fn(&Tail) -> f64) -> Option<Estimate> {
    let pairs = trials.iter().zip(base);
    let pairs: Vec<(f64, f64)> = pairs.map(|(one, other)| (of(one), of(other))).collect();
    paired_ratio(&pairs, CONFIDENCE)
}

/// How many of the trials say more of the generator.
pub(crate) fn limited(trials: &[Tail]) -> String {
    let count = trials.iter().filter(|trial| trial.is_limited).count();
    format!("{count} of {}", trials.len())
}
