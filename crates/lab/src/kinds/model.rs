//! A model: a function that computes the metrics of a trial in virtual time.
//!
//! | model | what it simulates |
//! |---|---|
//! | `queue` | requests that arrive at random and wait for one of several servers (M/M/c, M/D/c) |
//!
//! The factors set the model's own settings, such as `rate`.

use std::time::Duration;

use report::record::{Better, Factors, Measured, Metric, Unit, Value};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::kind::{Context, Entry, Kind, Performed, Trial, TrialError, Violation, settings_of};

mod queue;

use queue::{Queue, Service};

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
}

/// The settings of the model `queue`, with the values of those that are not given.
const QUEUE: [(&str, f64); 4] = [
    ("rate", 0.0),
    ("service-us", 100.0),
    ("servers", 1.0),
    ("requests", 100_000.0),
];

impl Model {
    /// The queue of a trial.
    fn queue(&self, factors: &Factors) -> Result<Queue, String> {
        let get = |name: &str| factors.get(name).or_else(|| self.settings.get(name));
        let number = |at: usize| -> Result<f64, String> {
            let (name, default) = QUEUE[at];
            match get(name) {
                None => Ok(default),
                Some(Value::Number(number)) if *number > 0.0 => Ok(*number),
                Some(other) => Err(format!("`{name}` is {other}, not a number above 0")),
            }
        };
        let service = match get("service").map(ToString::to_string).as_deref() {
            None | Some("exponential") => Service::Exponential,
            Some("fixed") => Service::Fixed,
            Some(other) => {
                return Err(format!("`service` is `{other}`, not `exponential` or `fixed`"));
            }
        };
        let count = |at: usize| match number(at)? {
            count if count.fract() == 0.0 => Ok(count as usize),
            other => Err(format!("`{}` is {other}, not a whole number", QUEUE[at].0)),
        };
        let queue = Queue {
            rate_rps: number(0)?,
            service_ns: number(1)? * 1e3,
            service,
            servers: count(2)?,
            requests: count(3)?,
        };
        queue.check()?;
        Ok(queue)
    }

    /// Whether every factor and setting is one of the model's.
    fn check_names(&self, factors: &Factors) -> Result<(), String> {
        let known = |name: &&String| {
            QUEUE.iter().any(|(it, _)| it == *name) || name.as_str() == "service"
        };
        let mut names = factors.keys().chain(self.settings.keys());
        if let Some(unknown) = names.find(|name| !known(name)) {
            let names: Vec<&str> = QUEUE.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "`{unknown}` is no setting of the model; known are {}, service",
                names.join(", ")
            ));
        }
        Ok(())
    }
}

impl Kind for Model {
    fn metrics(&self) -> Vec<Metric> {
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

    fn check(&self, cells: &[Factors]) -> Result<(), Violation> {
        for cell in cells {
            let checked = self.queue(cell).and_then(|_| self.check_names(cell));
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
        let requests = self.queue(factors).map_or(0, |queue| queue.requests);
        REQUEST.saturating_mul(u32::try_from(requests).unwrap_or(u32::MAX))
    }

    fn schedule(&self, factors: &Factors) -> String {
        factors.get("rate").map(ToString::to_string).unwrap_or_default()
    }

    fn perform(&self, trial: &Trial<'_>, context: &Context<'_>) -> Result<Performed, TrialError> {
        let queue = self.queue(trial.factors).map_err(TrialError::Failed)?;
        let result = queue.simulate(trial.seed);
        let mut measured = Measured::default();
        for (name, value) in [
            ("response_mean_ns", result.response.mean()),
            ("response_p50_ns", result.response.percentile(50.0) as f64),
            ("response_p99_ns", result.response.percentile(99.0) as f64),
            ("wait_mean_ns", result.wait_mean_ns),
            ("achieved_rps", result.achieved_rps),
            ("load", queue.load()),
        ] {
            measured.metrics.insert(name.to_owned(), value);
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
