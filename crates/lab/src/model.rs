//! Kind `model`: a function computes the metrics of a trial, in virtual time.
//!
//! The laboratory has no model. Whoever has some lists them in a [`Registry`], and adds
//! [`kind`] to the kinds of its laboratory. Factors and `[settings]` set the model's own settings.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::time::Duration;

use measure::Histogram;
use report::record::{Better, Factor, Factors, Measured, Metric, Unit, Value};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, remedy};
use crate::kind::{
    Context, Entry, Estimate, Kind, Performed, Trial, TrialError, Violation, settings_of,
};

mod settings;

pub use settings::{Default, Settings};

/// A model, by its name in experiment files.
#[derive(Debug)]
pub struct Model {
    /// The name.
    pub name: &'static str,
    /// The settings, with the values of those that are not given.
    pub settings: &'static [(&'static str, Default)],
    /// The metrics: name, title, unit, which is better.
    pub metrics: &'static [(&'static str, &'static str, &'static str, Better)],
    /// Titles and units of factors whose name does not say them.
    pub factors: &'static [(&'static str, &'static str, &'static str)],
    /// Reads the settings of a trial, and checks them.
    pub read: fn(&Settings<'_>) -> Result<Box<dyn Simulate>, String>,
}

/// A trial of a model, with its settings.
pub trait Simulate {
    /// About how long it takes.
    fn takes(&self) -> Duration;

    /// Computes it. The seed decides all that is random.
    ///
    /// # Errors
    /// Why the trial failed.
    fn simulate(&self, seed: u64) -> Result<Computed, String>;
}

/// What a model computed.
#[derive(Debug, Clone, std::default::Default)]
pub struct Computed {
    /// The metrics, by name.
    pub metrics: Vec<(&'static str, f64)>,
    /// Response times. Empty: none.
    pub response: Histogram,
    /// Series, by name. Those without numbers are left out.
    pub series: Vec<(&'static str, Vec<f64>)>,
}

impl Computed {
    /// Metrics alone.
    #[must_use]
    pub fn of(metrics: Vec<(&'static str, f64)>) -> Self {
        Self {
            metrics,
            ..Self::default()
        }
    }
}

/// The models of a laboratory.
pub trait Registry: Debug + 'static {
    /// The models.
    const MODELS: &'static [Model];
}

/// The kind `model`, with the models of a registry.
#[must_use]
pub const fn kind<R: Registry>() -> Entry {
    Entry::of::<Modelled<R>>("model")
}

/// The settings of an experiment of this kind. Each setting may be a factor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound = "")]
struct Modelled<R: Registry> {
    model: Name<R>,
    /// Settings that no factor sets.
    #[serde(default)]
    settings: Factors,
}

#[derive(Debug)]
struct Name<R: Registry> {
    model: &'static Model,
    registry: PhantomData<R>,
}

impl<R: Registry> Serialize for Name<R> {
    fn serialize<S: Serializer>(&self, target: S) -> Result<S::Ok, S::Error> {
        target.serialize_str(self.model.name)
    }
}

impl<'de, R: Registry> Deserialize<'de> for Name<R> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let name = String::deserialize(source)?;
        let found = R::MODELS.iter().find(|it| it.name == name);
        let registry = PhantomData;
        found.map(|model| Self { model, registry }).ok_or_else(|| {
            let remedy = remedy(&name, R::MODELS.iter().map(|it| it.name));
            serde::de::Error::custom(format!("no model `{name}`{remedy}"))
        })
    }
}

impl<R: Registry> Modelled<R> {
    fn read(&self, factors: &Factors) -> Result<Box<dyn Simulate>, String> {
        let model = self.model.model;
        let settings = Settings {
            factors,
            own: &self.settings,
            defaults: model.settings,
        };
        settings.check_names()?;
        (model.read)(&settings)
    }
}

impl<R: Registry> Kind for Modelled<R> {
    fn metrics(&self) -> Vec<Metric> {
        let metrics = self.model.model.metrics.iter();
        let metric = |(name, title, unit, better): &(&str, &str, &str, Better)| {
            Metric::new(name, title, Unit::from((*unit).to_owned()), *better)
        };
        metrics.map(metric).collect()
    }

    fn settings(&self) -> Result<toml::Table, Error> {
        settings_of(self)
    }

    fn factor(&self, name: &str, values: Vec<Value>) -> Result<Factor, String> {
        let mut factor = Factor::new(name, values);
        let known = self.model.model.factors.iter().find(|it| it.0 == name);
        if let Some((_, title, unit)) = known {
            factor.title = (*title).to_owned();
            factor.unit = Some(Unit::from((*unit).to_owned()));
        }
        Ok(factor)
    }

    fn check(&self, cells: &[Factors]) -> Result<(), Violation> {
        for cell in cells {
            self.read(cell).map_err(|problem| {
                let problem = format!("makes a cell in which {problem}");
                Violation::new("", 0, "factor", problem)
            })?;
        }
        Ok(())
    }

    fn estimate(&self, factors: &Factors) -> Estimate {
        let simulation = self.read(factors);
        Estimate::about(simulation.map_or(Duration::ZERO, |it| it.takes()))
    }

    fn schedule(&self, factors: &Factors) -> String {
        factors
            .get("rate")
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    fn perform(&self, trial: &Trial<'_>, context: &Context<'_>) -> Result<Performed, TrialError> {
        let simulated = self
            .read(trial.factors)
            .and_then(|it| it.simulate(trial.seed));
        let computed = simulated.map_err(TrialError::Failed)?;
        let metrics = computed
            .metrics
            .into_iter()
            .map(|(name, it)| (name.to_owned(), it));
        let series = computed.series.into_iter().filter(|it| !it.1.is_empty());
        let mut measured = Measured {
            metrics: metrics.collect(),
            series: series.map(|(name, it)| (name.to_owned(), it)).collect(),
            ..Measured::default()
        };
        if !computed.response.is_empty() {
            let response = vec![("response", computed.response.to_base64())];
            context.keep_histograms(trial.id, response, &mut measured)?;
        }
        Ok(Performed {
            measured,
            notes: Vec::new(),
        })
    }
}
