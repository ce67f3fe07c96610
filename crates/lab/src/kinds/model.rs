//! A model: a function that computes the metrics of a trial in virtual time.
//!
//! | model | what it simulates |
//! |---|---|
//! | `queue` | requests that arrive at random and wait for one of several servers (M/M/c, M/D/c) |
//! | `blocking` | a web server whose files do not fit into memory, and a slow disk |
//! | `energy` | a server with interrupt delay and processor speed as knobs |
//! | `steering` | remote memory, and a middlebox that steers verbs to the last version of a key |
//! | `pool` | the packets of our own memory pool and middlebox, on a network with faults |
//!
//! The factors set the model's own settings, such as `rate`.

use std::time::Duration;

use report::record::{Better, Factor, Factors, Measured, Metric, Unit, Value};
use serde::{Deserialize, Serialize};
use sim::steering::Config;
use sim::world::trial::Trial as PoolTrial;

use crate::error::Error;
use crate::kind::{Context, Entry, Kind, Performed, Trial, TrialError, Violation, settings_of};

mod blocking;
mod energy;
mod pool;
mod queue;
mod settings;
mod steering;

use blocking::Blocking;
use energy::Energy;
use queue::{Queue, Service};
use settings::{Default, Settings};

/// This kind.
pub(crate) const ENTRY: Entry = Entry::of::<Model>("model");

/// The settings of an experiment of this kind. Each setting may be a factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Model {
    model: Name,
    /// Settings that no factor sets.
    #[serde(default)]
    settings: Factors,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Name {
    Queue,
    Blocking,
    Energy,
    Steering,
    Pool,
}

/// The settings of the model `queue`, with the values of those that are not given.
const QUEUE: [(&str, Default); 5] = [
    ("rate", Default::Number(0.0)),
    ("service-us", Default::Number(100.0)),
    ("servers", Default::Number(1.0)),
    ("requests", Default::Number(100_000.0)),
    ("service", Default::Text("exponential")),
];

/// The metrics of the model `blocking`: name, title, unit, which is better.
const BLOCKING: [(&str, &str, &str, Better); 16] = [
    ("achieved_rps", "achieved rate", "/s", Better::Higher),
    ("capacity_rps", "achieved rate at infinite demand", "/s", Better::Higher),
    ("throughput_mbit", "throughput", "Mbit/s", Better::Higher),
    ("response_mean_ns", "response time, mean", "ns", Better::Lower),
    ("response_p50_ns", "response time, median", "ns", Better::Lower),
    ("response_p90_ns", "response time, 90th percentile", "ns", Better::Lower),
    ("response_p99_ns", "response time, 99th percentile", "ns", Better::Lower),
    ("service_inversion", "service inversion", "ratio", Better::Lower),
    ("events_per_wait_p50", "events per wait, median", "count", Better::Lower),
    ("events_per_wait_mean", "events per wait, mean", "count", Better::Lower),
    ("events_per_wait_max", "events per wait, most", "count", Better::Lower),
    ("runnable_share", "runnable processes", "share", Better::Lower),
    ("hit_share", "requests that need no read from the disk", "share", Better::Neither),
    ("blocked_share", "time that the worker waits for the disk", "share", Better::Lower),
    ("processor_share", "time that the worker works", "share", Better::Neither),
    ("disk_share", "time that the disk works", "share", Better::Neither),
];

/// What a model computed.
#[derive(Debug)]
struct Computed {
    metrics: Vec<(&'static str, f64)>,
    /// Response times; empty: none.
    response: measure::Histogram,
    series: Vec<(&'static str, Vec<f64>)>,
}

impl Computed {
    /// Metrics alone.
    fn of(metrics: Vec<(&'static str, f64)>) -> Self {
        Self {
            metrics,
            response: measure::Histogram::new(),
            series: Vec::new(),
        }
    }
}

impl Model {
    fn settings<'a>(&'a self, factors: &'a Factors) -> Settings<'a> {
        Settings {
            factors,
            own: &self.settings,
            defaults: match self.model {
                Name::Queue => &QUEUE,
                Name::Blocking => &blocking::SETTINGS,
                Name::Energy => &energy::SETTINGS,
                Name::Steering => &steering::SETTINGS,
                Name::Pool => &pool::SETTINGS,
            },
        }
    }

    /// The queue of a trial.
    fn queue(&self, factors: &Factors) -> Result<Queue, String> {
        let settings = self.settings(factors);
        let laws = [("exponential", Service::Exponential), ("fixed", Service::Fixed)];
        let queue = Queue {
            rate_rps: settings.positive("rate")?,
            service_ns: settings.positive("service-us")? * 1e3,
            service: settings.one_of("service", &laws)?,
            servers: settings.whole("servers")? as usize,
            requests: settings.whole("requests")? as usize,
        };
        queue.check()?;
        Ok(queue)
    }

    fn blocking(&self, factors: &Factors) -> Result<Blocking, String> {
        Blocking::read(&self.settings(factors))
    }

    fn energy(&self, factors: &Factors) -> Result<Energy, String> {
        Energy::read(&self.settings(factors))
    }

    fn steering(&self, factors: &Factors) -> Result<Config, String> {
        steering::read(&self.settings(factors))
    }

    fn pool(&self, factors: &Factors) -> Result<PoolTrial, String> {
        pool::read(&self.settings(factors))
    }

    /// Requests that a trial simulates.
    fn requests(&self, factors: &Factors) -> Result<usize, String> {
        Ok(match self.model {
            Name::Queue => self.queue(factors)?.requests,
            Name::Blocking => self.blocking(factors)?.requests(),
            Name::Energy => self.energy(factors)?.requests(),
            Name::Steering => self.steering(factors)?.operations as usize,
            Name::Pool => self.pool(factors)?.operations as usize,
        })
    }

    fn compute(&self, trial: &Trial<'_>) -> Result<Computed, String> {
        Ok(match self.model {
            Name::Queue => {
                let queue = self.queue(trial.factors)?;
                let found = queue.simulate(trial.seed);
                let metrics = vec![
                    ("response_mean_ns", found.response.mean()),
                    ("response_p50_ns", found.response.percentile(50.0) as f64),
                    ("response_p99_ns", found.response.percentile(99.0) as f64),
                    ("wait_mean_ns", found.wait_mean_ns),
                    ("achieved_rps", found.achieved_rps),
                    ("load", queue.load()),
                ];
                Computed { response: found.response, ..Computed::of(metrics) }
            }
            Name::Blocking => {
                let found = self.blocking(trial.factors)?.simulate(trial.seed);
                Computed {
                    metrics: found.metrics,
                    response: found.response,
                    series: vec![("size_deciles", found.deciles)],
                }
            }
            Name::Energy => self.energy(trial.factors)?.compute(trial.seed),
            Name::Steering => {
                let config = Config {
                    seed: trial.seed,
                    ..self.steering(trial.factors)?
                };
                let found = steering::run(&config)?;
                Computed { response: found.response, ..Computed::of(found.metrics) }
            }
            Name::Pool => {
                let settings = self.pool(trial.factors)?;
                let found = pool::run(&PoolTrial { seed: trial.seed, ..settings })?;
                Computed { response: found.response, ..Computed::of(found.metrics) }
            }
        })
    }
}

impl Kind for Model {
    fn metrics(&self) -> Vec<Metric> {
        let metric = |(name, title, unit, better): &(&str, &str, &str, Better)| {
            Metric::new(name, title, Unit::from((*unit).to_owned()), *better)
        };
        match self.model {
            Name::Queue => {}
            Name::Blocking => return BLOCKING.iter().map(metric).collect(),
            Name::Energy => return energy::METRICS.iter().map(metric).collect(),
            Name::Steering => return steering::METRICS.iter().map(metric).collect(),
            Name::Pool => return pool::METRICS.iter().map(metric).collect(),
        }
        let time = |name, title| Metric::new(name, title, Unit::nanoseconds(), Better::Lower);
        vec![
            time("response_mean_ns", "response time, mean"),
            time("response_p50_ns", "response time, median"),
            time("response_p99_ns", "response time, 99th percentile"),
            time("wait_mean_ns", "time in the queue, mean"),
            Metric::new("achieved_rps", "achieved rate", Unit::per_second(), Better::Higher),
            Metric::new("load", "offered load", Unit::ratio(), Better::Neither),
        ]
    }

    fn settings(&self) -> Result<toml::Table, Error> {
        settings_of(self)
    }

    fn factor(&self, name: &str, values: Vec<Value>) -> Result<Factor, String> {
        let factor = Factor::new(name, values);
        Ok(match self.model {
            Name::Energy => energy::factor(factor),
            Name::Queue | Name::Blocking | Name::Steering | Name::Pool => factor,
        })
    }

    fn check(&self, cells: &[Factors]) -> Result<(), Violation> {
        for cell in cells {
            let names = self.settings(cell).check_names();
            let checked = names.and_then(|()| self.requests(cell));
            checked.map_err(|problem| {
                let problem = format!("makes a cell in which {problem}");
                Violation::new("", 0, "factor", problem)
            })?;
        }
        Ok(())
    }

    fn estimate(&self, factors: &Factors) -> Duration {
        /// Simulating one request.
        const REQUEST: Duration = Duration::from_nanos(200);
        let requests = self.requests(factors).unwrap_or(0);
        let request = match self.model {
            Name::Queue | Name::Energy => REQUEST,
            Name::Blocking => REQUEST * 5,
            Name::Steering => REQUEST * 15,
            Name::Pool => REQUEST * 200,
        };
        request.saturating_mul(u32::try_from(requests).unwrap_or(u32::MAX))
    }

    fn schedule(&self, factors: &Factors) -> String {
        factors.get("rate").map(ToString::to_string).unwrap_or_default()
    }

    fn perform(&self, trial: &Trial<'_>, context: &Context<'_>) -> Result<Performed, TrialError> {
        let result = self.compute(trial).map_err(TrialError::Failed)?;
        let mut measured = Measured::default();
        for (name, value) in result.metrics {
            measured.metrics.insert(name.to_owned(), value);
        }
        for (name, numbers) in result.series.into_iter().filter(|it| !it.1.is_empty()) {
            measured.series.insert(name.to_owned(), numbers);
        }
        if result.response.is_empty() {
            return Ok(Performed { measured, notes: Vec::new() });
        }
        let histograms = serde_json::json!({ "response": result.response.to_base64() });
        let path = format!("histograms/{}.hist", trial.id);
        context.write(&path, histograms.to_string().as_bytes())?;
        measured
            .artefacts
            .insert("response".to_owned(), format!("{path}#response"));
        Ok(Performed {
            measured,
            notes: Vec::new(),
        })
    }
}
