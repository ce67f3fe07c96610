//! Energy under a latency objective, in virtual time: a point of a sweep, or what a knob saves.
//!
//! The model is `power::model`; `docs/decisions/025-energy-model.md` has its parameters. A cell is
//! either a point (`part = "points"`: a `series`, a delay, a speed), or a saving (`part =
//! "savings"`: a `system` and a `line`), which is computed from the corners of its own sweep.

use measure::Histogram;
use power::model::published::{OBJECTIVE_US, Published, Savings, Which};
use power::model::{Law, Machine, Parameters, Setting, Simulated, System, fit, simulate};

use report::record::{Factor, Unit};

use super::settings::{Default, Settings};

/// The settings, with the values of those that are not given.
pub(super) const SETTINGS: [(&str, Default); 10] = [
    ("part", Default::Text("points")),
    ("series", Default::Text("linux-tuned")),
    ("system", Default::Text("linux")),
    ("line", Default::Text("speed, longest delay")),
    ("rate", Default::Number(0.0)),
    // Share of the system's published peak; 0: `rate` is given.
    ("level", Default::Number(0.0)),
    ("delay-us", Default::Number(10.0)),
    ("speed-ghz", Default::Number(2.9)),
    // Cycles of a request; 0: the preset's.
    ("request-cycles", Default::Number(0.0)),
    ("requests", Default::Number(40_000.0)),
];

/// The metrics: name, title, unit, which is better. A saving has `saved_j` only; a point has all
/// others, and `energy_kept_j` only if it keeps the objective.
pub(super) const METRICS: [(&str, &str, &str, super::Better); 20] = {
    use super::Better::{Higher, Lower, Neither};
    [
        ("energy_j", "energy of 30 s", "J", Lower),
        ("energy_kept_j", "energy of 30 s with p99 below 500 µs", "J", Lower),
        ("energy_per_request_uj", "energy a request", "µJ", Lower),
        ("power_w", "power", "W", Lower),
        ("response_mean_ns", "response time, mean", "ns", Lower),
        ("response_p50_ns", "response time, median", "ns", Lower),
        ("response_p90_ns", "response time, 90th percentile", "ns", Lower),
        ("response_p99_ns", "response time, 99th percentile", "ns", Lower),
        ("achieved_rps", "achieved rate", "/s", Higher),
        ("work_share", "cores that work", "share", Neither),
        ("exit_share", "cores that leave a C-state", "share", Lower),
        ("halt_share", "cores halted", "share", Neither),
        ("deep_share", "cores in a deep state", "share", Higher),
        ("poll_share", "cores that poll an empty queue", "share", Lower),
        ("interrupts_per_second", "interrupts", "/s", Lower),
        ("packets_per_interrupt", "packets that wait at an interrupt, mean", "count", Neither),
        ("idle_mean_ns", "idle interval, mean", "ns", Higher),
        ("idle_p50_ns", "idle interval, median", "ns", Higher),
        ("idle_p90_ns", "idle interval, 90th percentile", "ns", Higher),
        ("saved_j", "energy saved in 30 s", "J", Higher),
    ]
};

/// The lines of a saving, in the order of `published::NAMES`.
const LINES: [(&str, usize); 4] = [
    ("speed, longest delay", 0),
    ("speed, shortest delay", 1),
    ("delay, lowest speed", 2),
    ("delay, highest speed", 3),
];

const SYSTEMS: [(&str, Which); 2] = [("linux", Which::Linux), ("libos", Which::Libos)];

/// Delay of the series `linux-default`: the lowest-latency class of the device's adaptive mode,
/// in which small packets at these rates stay. Assumed, as is its speed, the highest.
const DEFAULT_DELAY_US: f64 = 10.0;

/// A factor with its title and unit.
pub(super) fn factor(factor: Factor) -> Factor {
    let (title, unit) = match factor.name.as_str() {
        "rate" => ("offered rate", Unit::per_second()),
        "level" => ("share of the published peak", Unit::share()),
        "delay-us" => ("interrupt delay", Unit::from("us".to_owned())),
        "speed-ghz" => ("processor speed", Unit::from("GHz".to_owned())),
        _ => return factor,
    };
    Factor {
        title: title.to_owned(),
        unit: Some(unit),
        ..factor
    }
}

/// The curves of the study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Series {
    LinuxDefault,
    LinuxTuned,
    LibosTuned,
    LibosPoll,
}

const SERIES: [(&str, Series); 4] = [
    ("linux-default", Series::LinuxDefault),
    ("linux-tuned", Series::LinuxTuned),
    ("libos-tuned", Series::LibosTuned),
    ("libos-poll", Series::LibosPoll),
];

/// A trial of this model.
#[derive(Debug, Clone)]
pub(super) struct Energy {
    machine: Machine,
    parameters: Parameters,
    system: System,
    which: Which,
    rate_rps: f64,
    requests: usize,
    part: Part,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Point(Setting),
    Saving(usize),
}

impl Energy {
    pub(super) fn read(settings: &Settings<'_>) -> Result<Self, String> {
        let parameters = Parameters::default();
        let machine = Machine::default();
        let is_point = settings.one_of("part", &[("points", true), ("savings", false)])?;
        let (which, part) = match is_point {
            true => {
                let (which, setting) = point(settings, &machine)?;
                (which, Part::Point(setting))
            }
            false => {
                let line = settings.one_of("line", &LINES)?;
                (settings.one_of("system", &SYSTEMS)?, Part::Saving(line))
            }
        };
        let mut system = fit::system(&parameters, which);
        let cycles = settings.number("request-cycles")?;
        if cycles > 0.0 {
            system.request_cycles = cycles;
        }
        let level = settings.number("level")?;
        let rate_rps = match level > 0.0 {
            true => level * system.peak_rps,
            false => settings.number("rate")?,
        };
        if !(1.0..=power::limits::RATE_RPS).contains(&rate_rps) {
            return Err("neither `rate` nor `level` is given".to_owned());
        }
        let requests = settings.whole("requests")? as usize;
        let bounds = power::limits::REQUESTS;
        if !bounds.contains(&requests) {
            let (least, most) = (bounds.start(), bounds.end());
            return Err(format!("`requests` is {requests}, not {least} to {most}"));
        }
        Ok(Self { machine, parameters, system, which, rate_rps, requests, part })
    }

    /// Requests that a trial simulates: a saving about 25 points.
    pub(super) fn requests(&self) -> usize {
        match self.part {
            Part::Point(_) => self.requests,
            Part::Saving(_) => self.requests * 25,
        }
    }

    pub(super) fn simulate(&self, seed: u64) -> (Vec<(&'static str, f64)>, Histogram) {
        match self.part {
            Part::Point(setting) => self.simulate_point(setting, seed),
            Part::Saving(line) => {
                let published = Published {
                    rate_rps: self.rate_rps,
                    which: self.which,
                    // Not read: only system and rate say what is simulated.
                    savings: Savings::NONE,
                };
                let requests = self.requests;
                let saved =
                    fit::savings(&self.machine, &self.parameters, &published, requests, seed);
                (vec![("saved_j", saved[line])], Histogram::new())
            }
        }
    }

    fn simulate_point(&self, setting: Setting, seed: u64) -> (Vec<(&'static str, f64)>, Histogram) {
        let Self { machine, system, rate_rps, requests, .. } = self;
        let found = simulate(machine, system, setting, *rate_rps, *requests, seed);
        let law = Law::new(&self.parameters);
        let power_w = law.power_w(machine, setting.speed_ghz, &found);
        let mut metrics = metrics(&found, power_w, machine.run_s);
        if found.keeps(OBJECTIVE_US) {
            metrics.push(("energy_kept_j", power_w * machine.run_s));
        }
        (metrics, found.latency)
    }
}

fn point(settings: &Settings<'_>, machine: &Machine) -> Result<(Which, Setting), String> {
    let series = settings.one_of("series", &SERIES)?;
    let delay_us = settings.number("delay-us")?;
    let speed_ghz = settings.positive("speed-ghz")?;
    if delay_us > power::limits::DELAY_US {
        let most = power::limits::DELAY_US;
        return Err(format!("`delay-us` is {delay_us}, not 0 to {most}"));
    }
    let (least, most) = (machine.speed_min_ghz, machine.speed_max_ghz);
    if !(least..=most).contains(&speed_ghz) {
        return Err(format!("`speed-ghz` is {speed_ghz}, not {least} to {most}"));
    }
    Ok(match series {
        Series::LinuxDefault => (Which::Linux, Setting::new(DEFAULT_DELAY_US, most)),
        Series::LinuxTuned => (Which::Linux, Setting::new(delay_us, speed_ghz)),
        Series::LibosTuned => (Which::Libos, Setting::new(delay_us, speed_ghz)),
        Series::LibosPoll => (Which::Libos, Setting::polling(speed_ghz)),
    })
}

fn metrics(found: &Simulated, power_w: f64, run_s: f64) -> Vec<(&'static str, f64)> {
    let percentile = |of: &Histogram, p| of.percentile(p) as f64;
    let mut metrics = vec![
        ("energy_j", power_w * run_s),
        ("energy_per_request_uj", power_w / found.achieved_rps.max(1.0) * 1e6),
        ("power_w", power_w),
        ("response_mean_ns", found.latency.mean()),
        ("response_p50_ns", percentile(&found.latency, 50.0)),
        ("response_p90_ns", percentile(&found.latency, 90.0)),
        ("response_p99_ns", percentile(&found.latency, 99.0)),
        ("achieved_rps", found.achieved_rps),
        ("work_share", found.work_share),
        ("exit_share", found.exit_share),
        ("halt_share", found.halt_share),
        ("deep_share", found.deep_share),
        ("poll_share", found.poll_share),
        ("interrupts_per_second", found.wakes_per_second),
    ];
    if found.wakes_per_second > 0.0 {
        metrics.extend([
            ("packets_per_interrupt", found.batch_mean),
            ("idle_mean_ns", found.idle.mean()),
            ("idle_p50_ns", percentile(&found.idle, 50.0)),
            ("idle_p90_ns", percentile(&found.idle, 90.0)),
        ]);
    }
    metrics
}
