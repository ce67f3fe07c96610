//! Energy under a latency objective, in virtual time: a point of a sweep, or what a knob saves.
//!
//! The model is `power::model`; `docs/decisions/025-energy-model.md` has its parameters. A cell is
//! either a point (`part = "points"`: a `series`, a delay, a speed), or a saving (`part =
//! "savings"`: a `system` and a `line`), which is computed from the corners of its own sweep.

use measure::Histogram;
use power::model::published::{NAMES, OBJECTIVE_US, Published, Savings, Which};
use power::model::{Law, Machine, Parameters, Setting, Simulated, System, fit, simulate};
use power::tuner::rival::DEFAULT_DELAY_US;

use report::record::{Factor, Unit};

use super::settings::{Default, Settings};

/// The settings, with the values of those that are not given.
pub(super) const SETTINGS: [(&str, Default); 10] = [
    ("part", Default::Text("points")),
    ("series", Default::Text("linux-tuned")),
    ("system", Default::Text("linux")),
    ("line", Default::Text(NAMES[0])),
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

/// The lines of a saving, by their names.
const LINES: [(&str, usize); 4] = [(NAMES[0], 0), (NAMES[1], 1), (NAMES[2], 2), (NAMES[3], 3)];

const SYSTEMS: [(&str, Which); 2] = [("linux", Which::Linux), ("libos", Which::Libos)];

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
        // Its speed is assumed to be the highest.
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

#[cfg(test)]
mod tests {
    use report::record::{Factors, Value};

    use super::*;

    fn read(given: &[(&str, Value)]) -> Result<Energy, String> {
        let factors: Factors = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let own = Factors::new();
        Energy::read(&Settings { factors: &factors, own: &own, defaults: &SETTINGS })
    }

    fn number(value: f64) -> Value {
        Value::Number(value)
    }

    fn text(value: &str) -> Value {
        Value::Text(value.to_owned())
    }

    fn value(metrics: &[(&'static str, f64)], name: &str) -> Option<f64> {
        metrics.iter().find(|it| it.0 == name).map(|it| it.1)
    }

    #[test]
    fn an_overloaded_point_has_energy_but_none_that_keeps_the_objective() {
        let at = |speed: f64| {
            let given = [("rate", number(400e3)), ("speed-ghz", number(speed))];
            read(&given).unwrap().simulate(1).0
        };
        let [slow, fast] = [1.2, 2.9].map(at);
        // 800 K at 2.9 GHz is 331 K at 1.2 GHz.
        assert!(value(&slow, "achieved_rps").unwrap() < 340e3);
        assert!(value(&slow, "energy_j").is_some() && value(&slow, "energy_kept_j").is_none());
        assert_eq!(value(&fast, "energy_kept_j"), value(&fast, "energy_j"));
        let shares = ["work_share", "exit_share", "halt_share", "deep_share", "poll_share"];
        let sum: f64 = shares.iter().map(|it| value(&fast, it).unwrap()).sum();
        assert!((sum - 1.0).abs() < 0.01, "{sum}");
    }

    #[test]
    fn polling_has_no_interrupts_and_the_default_no_knobs() {
        let at = |series: &str, delay: f64| {
            let given =
                [("rate", number(200e3)), ("series", text(series)), ("delay-us", number(delay))];
            read(&given).unwrap().simulate(1).0
        };
        let poll = at("libos-poll", 2.0);
        assert_eq!(value(&poll, "interrupts_per_second"), Some(0.0));
        assert_eq!(value(&poll, "idle_mean_ns"), None);
        assert_eq!(at("linux-default", 2.0), at("linux-default", 400.0));
        assert_ne!(at("linux-tuned", 2.0), at("linux-tuned", 400.0));
    }

    #[test]
    fn a_level_is_a_share_of_the_systems_own_peak() {
        let rate = |series: &str| {
            read(&[("level", number(0.5)), ("series", text(series))]).unwrap().rate_rps
        };
        assert_eq!((rate("linux-tuned"), rate("libos-tuned")), (400e3, 1_000e3));
    }

    #[test]
    fn a_saving_has_no_other_metric() {
        let given = [
            ("part", text("savings")),
            ("rate", number(200e3)),
            ("system", text("libos")),
            ("line", text("delay, lowest speed")),
            ("requests", number(2_000.0)),
        ];
        let (metrics, latency) = read(&given).unwrap().simulate(1);
        assert!(latency.is_empty());
        let [("saved_j", saved)] = metrics[..] else { panic!("{metrics:?}") };
        assert!(saved > 5.0 && saved < 60.0, "{saved}");
    }

    #[test]
    fn settings_out_of_bounds_are_named() {
        let rate = ("rate", number(200e3));
        for (given, name) in [
            (vec![], "rate"),
            (vec![rate.clone(), ("speed-ghz", number(3.0))], "speed-ghz"),
            (vec![rate.clone(), ("delay-us", number(20_000.0))], "delay-us"),
            (vec![rate.clone(), ("requests", number(10.0))], "requests"),
            (vec![rate, ("series", text("windows"))], "series"),
        ] {
            let problem = read(&given).unwrap_err();
            assert!(problem.contains(name), "{problem}");
        }
    }
}
