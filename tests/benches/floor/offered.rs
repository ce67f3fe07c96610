//! Trials by the project's own generator, a process of its own, which offers a rate: latency counts
//! from the moment a request was due.
//!
//! Which trials count for a percentile is decided by the generator's lateness and by the stall
//! detector on the server's processor (`--detect-stalls`), each against a bound fixed beforehand,
//! and by nothing that was measured of the server.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use curtail_tests::process;
use load::Summary;
use measure::{Estimate, generator_limited_at_p999, ratio_of_medians};
use sys::child::{Bounds, bind};

use crate::Settings;
use crate::servers::{Cache, Subject};
use crate::table::CONFIDENCE;

/// Connections a server accepts besides the measured ones: those of the prefill and the saturating
/// ones.
const OTHERS: u64 = 64;
/// Connections of the trial before, at most, that it may not yet have closed: a server whose
/// threads go first by turns accepts for long before it closes.
const LEAVING_MAX: u64 = 2_048;
/// A wait on the server's processor, of whoever goes before all others there, beyond which a p99.9
/// says more of the machine than of the server.
const STALLED_NS: u64 = 300_000;
/// The same trials have the same intervals.
const RESAMPLING_SEED: u64 = 1;

/// What is asked of a server: the load of the rate ladder, keys, values and arrivals of Facebook's
/// ETC pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: u32,
    /// Requests a second; none: as many as are answered.
    pub(crate) rate_rps: Option<f64>,
    /// Saturating connections beside those.
    pub(crate) saturating: u32,
    /// Requests one of those has outstanding.
    pub(crate) saturating_depth: u32,
    /// With a stall detector on the server's processor.
    pub(crate) detects_stalls: bool,
}

/// Starts a server, under a program and its arguments if any, fills it with the records and has it
/// answer a first trial.
pub(crate) fn start_filled(
    cache: &Cache,
    under: &[&str],
    load: &Load,
    settings: &Settings,
) -> Result<Subject> {
    let connections = u64::from(load.connections);
    let most = connections + connections.min(LEAVING_MAX) + OTHERS;
    let subject = cache.start_under(under, most, settings.records, settings.place())?;
    generate(&subject, load, settings, &["--prefill"])?;
    Ok(subject)
}

/// One trial.
pub(crate) fn trial(subject: &Subject, load: &Load, settings: &Settings) -> Result<Summary> {
    generate(subject, load, settings, &[])
}

/// Runs the generator. It and the server go before whatever else the machine does, where they may.
fn generate(subject: &Subject, load: &Load, settings: &Settings, more: &[&str]) -> Result<Summary> {
    let mut command = settings
        .hosts
        .in_client(0, Command::new(process::curtail_path()));
    command.args(["load", &subject.address()?.to_string(), "--json", "-"]);
    let rate = load.rate_rps.map_or("max".to_owned(), |it| it.to_string());
    let us = |ns: u64| format!("{}us", ns / 1_000);
    for (name, value) in [
        ("--rate", rate),
        ("--connections", load.connections.to_string()),
        ("--saturating", load.saturating.to_string()),
        ("--saturating-depth", load.saturating_depth.to_string()),
        ("--records", settings.records.to_string()),
        ("--warmup", us(settings.offered_warm_ns)),
        ("--duration", us(settings.offered_ns)),
        ("--cpus", settings.client_cpu.to_string()),
    ] {
        command.args([name, &value]);
    }
    if load.detects_stalls {
        command.args(["--detect-stalls", &settings.server_cpu.to_string()]);
    }
    command.args(more);
    let bounds = Bounds {
        cpus: vec![settings.client_cpu],
        dies_with_parent: true,
        own_session: true,
        goes_first: sys::thread::may_go_first(),
    };
    bind(&mut command, &bounds)?;
    let output = command.stdin(Stdio::null()).output();
    let output = output.context("start the generator")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", subject.name, said.trim());
    }
    serde_json::from_slice(&output.stdout).context("the generator's summary")
}

/// The tail of one trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) p50_us: f64,
    pub(crate) p95_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    /// The generator was late at p99: these say more of it than of the server.
    is_limited: bool,
    /// It was at p99.9.
    is_limited_at_p999: bool,
    /// The machine held up whoever ran on the server's processor.
    is_stalled: bool,
    /// Requests were never answered: the percentiles may be lower bounds.
    is_censored: bool,
    pub(crate) saturating_rps: Option<f64>,
}

/// What stands below a table in some of whose trials requests were never answered.
pub(crate) fn censored<'a>(trials: impl Iterator<Item = &'a Tail>) -> Option<String> {
    let (mut all, mut with) = (0, 0);
    for trial in trials {
        all += 1;
        with += usize::from(trial.is_censored);
    }
    (with > 0).then(|| {
        format!(
            "  ≥ in {with} of {all} trials requests were never answered: their percentiles may be \
             lower bounds"
        )
    })
}

impl Tail {
    pub(crate) fn of(summary: &Summary) -> Result<Self> {
        let response = summary.response.as_ref().context("no response times")?;
        let lateness = summary.lateness.as_ref().context("no lateness")?;
        let at_ns = |points: &[(f64, u64)], percentile: f64| {
            let mut found = points.iter().filter(|point| point.0 == percentile);
            found.next().map(|point| point.1)
        };
        let at = |percentile: f64| {
            let ns = at_ns(&response.percentiles, percentile);
            ns.map_or(f64::NAN, |ns| ns as f64 / 1e3)
        };
        let late_ns = at_ns(&lateness.percentiles, 99.9).context("no lateness at p99.9")?;
        Ok(Self {
            p50_us: at(50.0),
            p95_us: at(95.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            is_limited: summary.generator_limited,
            is_limited_at_p999: generator_limited_at_p999(late_ns),
            is_censored: summary.censored > 0,
            is_stalled: summary
                .stalls
                .as_ref()
                .is_some_and(|it| it.max > STALLED_NS),
            saturating_rps: summary.saturating_rps,
        })
    }
}

/// A percentile of a trial.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) of: fn(&Tail) -> f64,
    /// The generator was late for it.
    is_late: fn(&Tail) -> bool,
    /// The stall detector, where it ran, was stalled beyond its bound: the tail is the machine's.
    is_stalled: fn(&Tail) -> bool,
}

pub(crate) const P99: Figure = Figure {
    of: |tail| tail.p99_us,
    is_late: |tail| tail.is_limited,
    is_stalled: |_| false,
};

pub(crate) const P999: Figure = Figure {
    of: |tail| tail.p999_us,
    is_late: |tail| tail.is_limited || tail.is_limited_at_p999,
    is_stalled: |tail| tail.is_stalled,
};

impl Figure {
    /// How many of the trials say more of the generator.
    pub(crate) fn late(self, trials: &[Tail]) -> usize {
        trials.iter().filter(|tail| (self.is_late)(tail)).count()
    }

    /// In how many of them the machine held up whoever ran on the server's processor.
    pub(crate) fn stalled(self, trials: &[Tail]) -> usize {
        trials.iter().filter(|tail| (self.is_stalled)(tail)).count()
    }

    /// The ratio over those trials in which the generator was in time, and the machine did not hold
    /// up the server's processor: as in the laboratory, the others take no part in what is said of
    /// a server. They are not the same rounds of both.
    pub(crate) fn ratio_in_time(self, trials: &[Tail], base: &[Tail]) -> Option<Estimate> {
        let (trials, base) = (self.in_time(trials), self.in_time(base));
        ratio_of_medians(&trials, &base, CONFIDENCE, RESAMPLING_SEED)
    }

    fn in_time(self, trials: &[Tail]) -> Vec<f64> {
        let is_in_time = |tail: &&Tail| !(self.is_late)(tail) && !(self.is_stalled)(tail);
        trials.iter().filter(is_in_time).map(self.of).collect()
    }
}
