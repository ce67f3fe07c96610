//! Energy under a latency objective, in virtual time.
//!
//! The model is `power::model`; `docs/decisions/025-energy-model.md` has its parameters. The `part`
//! of a cell says what it is:
//!
//! | `part` | a cell |
//! |---|---|
//! | `points` | a point: a `series`, a delay, a speed, a rate |
//! | `savings` | what a knob saves (`line`) on a `system`, from the corners of a sweep of its own |
//! | `peak` | rates that rise until throughput stops rising |
//! | `day` | the load of a day under a `controller` |

use std::time::Duration;

use lab::model::{Computed, Default, Model, Settings, Simulate};
use power::model::peak::peak;
use power::model::published::{NAMES, OBJECTIVE_US, Published, Savings, Which};
use power::model::{Law, Machine, Parameters, Setting, System, fit, simulate, system};
use power::tuner::rival::DEFAULT_DELAY_US;

mod day;
mod metrics;

use day::Day;
use metrics::METRICS;

pub(crate) const MODEL: Model = Model {
    name: "energy",
    settings: &SETTINGS,
    metrics: &METRICS,
    factors: &[
        ("rate", "offered rate", "/s"),
        ("level", "share of the published peak", "share"),
        ("delay-us", "interrupt delay", "us"),
        ("speed-ghz", "processor speed", "GHz"),
    ],
    read: |settings| Ok(Box::new(Energy::read(settings)?)),
};

const SETTINGS: [(&str, Default); 14] = [
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
    // Of a day.
    ("controller", Default::Text("tuner")),
    ("least-rate", Default::Number(150_000.0)),
    ("most-rate", Default::Number(600_000.0)),
    ("trace-seed", Default::Number(1.0)),
];

/// The lines of a saving, by their names.
const LINES: [(&str, usize); 4] = [(NAMES[0], 0), (NAMES[1], 1), (NAMES[2], 2), (NAMES[3], 3)];

const SYSTEMS: [(&str, Which); 2] = [("linux", Which::Linux), ("libos", Which::Libos)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Series {
    LinuxDefault,
    LinuxTuned,
    LibosTuned,
    LibosPoll,
    /// Work as measured of our own server, on Linux.
    Rings,
    Bypass,
}

const SERIES: [(&str, Series); 6] = [
    ("linux-default", Series::LinuxDefault),
    ("linux-tuned", Series::LinuxTuned),
    ("libos-tuned", Series::LibosTuned),
    ("libos-poll", Series::LibosPoll),
    ("rings", Series::Rings),
    ("bypass", Series::Bypass),
];

#[derive(Debug, Clone)]
struct Energy {
    machine: Machine,
    parameters: Parameters,
    system: System,
    requests: usize,
    part: Part,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Point {
        setting: Setting,
        rate_rps: f64,
    },
    /// Of a system, on a line.
    Saving {
        which: Which,
        line: usize,
        rate_rps: f64,
    },
    Peak(Setting),
    Day(Day),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartName {
    Points,
    Savings,
    Peak,
    Day,
}

const PARTS: [(&str, PartName); 4] = [
    ("points", PartName::Points),
    ("savings", PartName::Savings),
    ("peak", PartName::Peak),
    ("day", PartName::Day),
];

impl Simulate for Energy {
    fn takes(&self) -> Duration {
        let simulations = match self.part {
            Part::Point { .. } => 1,
            Part::Saving { .. } => 25,
            Part::Peak(_) => 60,
            Part::Day(day) => day.simulations(),
        };
        Duration::from_nanos(200 * (self.requests * simulations) as u64)
    }

    fn simulate(&self, seed: u64) -> Result<Computed, String> {
        Ok(self.compute(seed))
    }
}

impl Energy {
    fn read(settings: &Settings<'_>) -> Result<Self, String> {
        let parameters = Parameters::default();
        let machine = Machine::default();
        let of_preset = || -> Result<(Which, System), String> {
            let which = settings.one_of("system", &SYSTEMS)?;
            Ok((which, fit::system(&parameters, which)))
        };
        let (mut system, part) = match settings.one_of("part", &PARTS)? {
            PartName::Points => {
                let (system, setting) = point(settings, &machine, &parameters)?;
                let rate_rps = rate(settings, &system)?;
                (system, Part::Point { setting, rate_rps })
            }
            PartName::Savings => {
                let (which, system) = of_preset()?;
                let line = settings.one_of("line", &LINES)?;
                let rate_rps = rate(settings, &system)?;
                (
                    system,
                    Part::Saving {
                        which,
                        line,
                        rate_rps,
                    },
                )
            }
            PartName::Peak => {
                let (system, setting) = point(settings, &machine, &parameters)?;
                (system, Part::Peak(setting))
            }
            PartName::Day => (of_preset()?.1, Part::Day(Day::read(settings)?)),
        };
        let cycles = settings.number("request-cycles")?;
        if cycles > 0.0 {
            system.request_cycles = cycles;
        }
        let bounds = power::limits::REQUESTS;
        let (least, most) = (*bounds.start() as u64, *bounds.end() as u64);
        let requests = settings.within("requests", least, most)? as usize;
        Ok(Self {
            machine,
            parameters,
            system,
            requests,
            part,
        })
    }

    fn compute(&self, seed: u64) -> Computed {
        match self.part {
            Part::Point { setting, rate_rps } => self.compute_point(setting, rate_rps, seed),
            Part::Saving {
                which,
                line,
                rate_rps,
            } => {
                let published = Published {
                    rate_rps,
                    which,
                    // Not read: only system and rate say what is simulated.
                    savings: Savings::NONE,
                };
                let requests = self.requests;
                let saved =
                    fit::savings(&self.machine, &self.parameters, &published, requests, seed);
                Computed::of(vec![("saved_j", saved[line])])
            }
            Part::Peak(setting) => {
                let found = peak(&self.machine, &self.system, setting, self.requests, seed);
                let mut metrics = vec![("peak_rps", found.rps), ("last_rps", found.last_rps)];
                if found.kept_rps > 0.0 {
                    metrics.push(("kept_rps", found.kept_rps));
                }
                Computed::of(metrics)
            }
            Part::Day(day) => {
                let law = Law::new(&self.parameters);
                day.compute(&self.machine, &self.system, law, self.requests, seed)
            }
        }
    }

    fn compute_point(&self, setting: Setting, rate_rps: f64, seed: u64) -> Computed {
        let Self {
            machine,
            system,
            requests,
            ..
        } = self;
        let found = simulate(machine, system, setting, rate_rps, *requests, seed);
        let law = Law::new(&self.parameters);
        let power_w = law.power_w(machine, setting.speed_ghz, &found);
        let mut metrics = metrics::of_point(&found, power_w, machine.run_s);
        if found.keeps(OBJECTIVE_US) {
            metrics.push(("energy_kept_j", power_w * machine.run_s));
        }
        Computed {
            metrics,
            response: found.latency,
            ..Computed::default()
        }
    }
}

/// The offered rate: given, or as a share of the system's peak.
fn rate(settings: &Settings<'_>, system: &System) -> Result<f64, String> {
    let level = settings.number("level")?;
    let rate_rps = match level > 0.0 {
        true => level * system.peak_rps,
        false => settings.number("rate")?,
    };
    match (1.0..=power::limits::RATE_RPS).contains(&rate_rps) {
        true => Ok(rate_rps),
        false => Err("neither `rate` nor `level` is given".to_owned()),
    }
}

fn point(
    settings: &Settings<'_>,
    machine: &Machine,
    parameters: &Parameters,
) -> Result<(System, Setting), String> {
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
    let tuned = Setting::new(delay_us, speed_ghz);
    let (system, setting) = match series {
        // Its speed is assumed to be the highest.
        Series::LinuxDefault => (
            System::linux(parameters),
            Setting::new(DEFAULT_DELAY_US, most),
        ),
        Series::LinuxTuned => (System::linux(parameters), tuned),
        Series::LibosTuned => (System::libos(parameters), tuned),
        Series::LibosPoll => (System::libos(parameters), Setting::polling(speed_ghz)),
        Series::Rings => (System::measured(&system::RINGS), tuned),
        Series::Bypass => (System::measured(&system::BYPASS), tuned),
    };
    Ok((system, setting))
}

#[cfg(test)]
mod tests {
    use report::record::Factors;

    use super::*;
    use crate::tests::factors;

    /// The trial of settings such as `rate = 200000, series = rings`.
    fn read(given: &str) -> Result<Energy, String> {
        let (factors, own) = (factors(given), Factors::new());
        Energy::read(&Settings {
            factors: &factors,
            own: &own,
            defaults: &SETTINGS,
        })
    }

    fn metrics(given: &str) -> Vec<(&'static str, f64)> {
        read(given).unwrap().compute(1).metrics
    }

    fn value(metrics: &[(&'static str, f64)], name: &str) -> Option<f64> {
        metrics.iter().find(|it| it.0 == name).map(|it| it.1)
    }

    #[test]
    fn an_overloaded_point_has_energy_but_none_that_keeps_the_objective() {
        let at = |speed: f64| metrics(&format!("rate = 400000, speed-ghz = {speed}"));
        let [slow, fast] = [1.2, 2.9].map(at);
        // 800 K at 2.9 GHz is 331 K at 1.2 GHz.
        assert!(value(&slow, "achieved_rps").unwrap() < 340e3);
        assert!(value(&slow, "energy_j").is_some() && value(&slow, "energy_kept_j").is_none());
        assert_eq!(value(&fast, "energy_kept_j"), value(&fast, "energy_j"));
        let shares = [
            "work_share",
            "exit_share",
            "halt_share",
            "deep_share",
            "poll_share",
        ];
        let sum: f64 = shares.iter().map(|it| value(&fast, it).unwrap()).sum();
        assert!((sum - 1.0).abs() < 0.01, "{sum}");
    }

    #[test]
    fn polling_has_no_interrupts_and_the_default_no_knobs() {
        let at = |series: &str, delay: f64| {
            metrics(&format!(
                "rate = 200000, series = {series}, delay-us = {delay}"
            ))
        };
        let poll = at("libos-poll", 2.0);
        assert_eq!(value(&poll, "interrupts_per_second"), Some(0.0));
        assert_eq!(value(&poll, "idle_mean_ns"), None);
        assert_eq!(at("linux-default", 2.0), at("linux-default", 400.0));
        assert_ne!(at("linux-tuned", 2.0), at("linux-tuned", 400.0));
        assert_ne!(at("rings", 2.0), at("bypass", 2.0));
    }

    #[test]
    fn a_level_is_a_share_of_the_systems_own_peak() {
        let rate = |series: &str| match read(&format!("level = 0.5, series = {series}"))
            .unwrap()
            .part
        {
            Part::Point { rate_rps, .. } => rate_rps,
            part => panic!("{part:?}"),
        };
        assert_eq!((rate("linux-tuned"), rate("libos-tuned")), (400e3, 1_000e3));
    }

    #[test]
    fn a_saving_has_no_other_metric() {
        let given = "part = savings, rate = 200000, system = libos, line = delay; lowest speed, \
                     requests = 2000";
        let Computed {
            metrics, response, ..
        } = read(given).unwrap().compute(1);
        assert!(response.is_empty());
        let [("saved_j", saved)] = metrics[..] else {
            panic!("{metrics:?}")
        };
        assert!(saved > 5.0 && saved < 60.0, "{saved}");
    }

    #[test]
    fn a_peak_needs_no_rate_and_has_no_other_metric() {
        let metrics = metrics("part = peak, series = libos-poll, requests = 10000");
        let peak = value(&metrics, "peak_rps").unwrap();
        assert!(peak > 1_900e3 && peak < 2_100e3, "{peak}");
        assert_eq!(value(&metrics, "energy_j"), None);
    }

    #[test]
    fn a_day_has_its_energy_and_a_number_for_each_hour() {
        let at = |controller: &str| {
            let day = "part = day, system = libos, requests = 1000, controller =";
            read(&format!("{day} {controller}")).unwrap().compute(1)
        };
        let [race, pace] = ["race-to-idle", "pace-to-idle"].map(at);
        let day = |it: &Computed| value(&it.metrics, "day_energy_kj").unwrap();
        assert!(
            day(&pace) < day(&race),
            "{:?} {:?}",
            pace.metrics,
            race.metrics
        );
        let hours = |name| {
            let series = pace.series.iter().find(|it| it.0 == name);
            series.unwrap().1.clone()
        };
        let power = hours("power_by_hour");
        assert_eq!((power.len(), hours("broken_by_hour").len()), (24, 24));
        assert!((power.iter().sum::<f64>() * 3.6 / day(&pace) - 1.0).abs() < 1e-9);
        assert!(power[16] > power[4], "{power:?}");
    }

    #[test]
    fn settings_out_of_bounds_are_named() {
        for (given, name) in [
            ("", "rate"),
            ("rate = 200000, speed-ghz = 3", "speed-ghz"),
            ("rate = 200000, delay-us = 20000", "delay-us"),
            ("rate = 200000, requests = 10", "requests"),
            ("rate = 200000, series = windows", "series"),
            ("part = day, controller = none", "controller"),
            ("part = day, most-rate = 1", "most-rate"),
        ] {
            let problem = read(given).unwrap_err();
            assert!(problem.contains(name), "{problem}");
        }
    }
}
