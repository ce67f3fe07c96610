//! Capacities, knees and the check of the instrument, of any run whose records have the names of
//! [`names`].
//!
//! A capacity is the achieved rate of the trials of the stage `capacity`. A curve is all cells of
//! the last stage that differ in their rate or load level alone; its knee is the last rate before
//! the tail leaves its plateau. Where the server fails, the tail has left.

use std::collections::BTreeMap;

use measure::{
    Capacity, CapacityTrial, KNEE_FACTOR, Knee, LITTLES_LAW_TOLERANCE, LittlesLaw, TailPoint,
};

use crate::Run;
use crate::cell::{self, CONFIDENCE, Cell};
use crate::record::{Factor, Factors, Measured, Stage, Unit, Value, names};
use crate::units;

/// The findings on a run. Empty tables: it does not have the records.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) capacities: Vec<CapacityRow>,
    pub(crate) knees: Vec<KneeRow>,
    pub(crate) law: Option<Law>,
}

/// The capacity of a cell of the first stage.
#[derive(Debug)]
pub(crate) struct CapacityRow {
    pub(crate) name: String,
    /// `181 k/s`, `≥181 k/s`, or why there is none.
    pub(crate) rate: String,
    /// `[179, 183] k/s`. Empty: one trial.
    pub(crate) range: String,
    /// `5 of 5`.
    pub(crate) trials: String,
    /// Why it is a lower bound, or is none.
    pub(crate) remark: String,
}

/// The knee of a curve.
#[derive(Debug)]
pub(crate) struct KneeRow {
    pub(crate) name: String,
    /// `keeps its tail up to 181 k/s`.
    pub(crate) words: String,
    /// The tail on the plateau.
    pub(crate) plateau: String,
}

/// Little's law over all trials that have both counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law {
    pub(crate) trials: u64,
    /// Trials in which it holds.
    pub(crate) holding: u64,
    /// The greatest relative difference.
    pub(crate) worst: f64,
}

/// The findings on a run.
pub(crate) fn of(run: &Run) -> Findings {
    Findings {
        capacities: capacities(run),
        knees: knees(run),
        law: law(run),
    }
}

impl Law {
    /// `Little's law holds in 240 of 240 trials …`.
    pub(crate) fn words(&self) -> String {
        format!(
            "Little's law holds in {} of {}: outstanding requests as counted and as they follow from \
             response times differ by at most {} ({} is allowed).",
            units::count(self.holding),
            units::plural(self.trials, "trial"),
            units::share(self.worst),
            units::percent(LITTLES_LAW_TOLERANCE),
        )
    }
}

/// Little's law. None: no trial has both counts.
pub(crate) fn law(run: &Run) -> Option<Law> {
    let checks = run.records.iter().filter_map(|record| {
        let measured = record.measured()?;
        let counted = measured.metric(names::OUTSTANDING_MEAN)?;
        let unread = measured.metric(names::OUTSTANDING_UNREAD).unwrap_or(0.0);
        let stamped = measured.metric(names::OUTSTANDING_EXPECTED)?;
        Some(LittlesLaw::check(
            counted,
            unread,
            stamped,
            LITTLES_LAW_TOLERANCE,
        ))
    });
    let checks: Vec<LittlesLaw> = checks.collect();
    let differences = checks.iter().map(|it| it.relative_difference.abs());
    Some(Law {
        trials: checks.len() as u64,
        holding: checks.iter().filter(|it| it.holds).count() as u64,
        worst: differences.reduce(f64::max)?,
    })
}

fn capacity(cell: &Cell) -> Option<Capacity> {
    let trial = |measured: &Measured| {
        Some(CapacityTrial {
            achieved_rps: measured.metric(names::ACHIEVED_RPS)?,
            generator_limited: measured.invalid(names::ACHIEVED_RPS).is_some()
                || measured.is_lower_bound(names::ACHIEVED_RPS),
        })
    };
    let trials = cell.measured.iter().filter_map(|(_, it)| trial(it));
    Capacity::of(&trials.collect::<Vec<_>>(), CONFIDENCE)
}

/// The capacity of the server and settings of a cell. None: it is not known, or a lower bound.
pub(crate) fn capacity_of(run: &Run, cell: &Factors) -> Option<f64> {
    let cells = cell::of_stage(run, run.plan.stage(names::CAPACITY)?);
    let is_of = |it: &&Cell| {
        it.factors
            .iter()
            .all(|(name, value)| cell.get(name) == Some(value))
    };
    let known = capacity(cells.iter().find(is_of)?)?;
    (!known.at_least).then_some(known.rps.value)
}

fn capacities(run: &Run) -> Vec<CapacityRow> {
    let Some(stage) = run.plan.stage(names::CAPACITY) else {
        return Vec::new();
    };
    let cells = cell::of_stage(run, stage);
    let unit = Unit::per_second();
    let telling = telling(run, stage);
    let row = |cell: &Cell| {
        let values = cell.values(names::ACHIEVED_RPS);
        let known = capacity(cell);
        let failing = values.failing.as_ref();
        let (rate, range) = match &known {
            None => ("not known".to_owned(), String::new()),
            Some(it) => {
                let bound = units::lower_bound(it.at_least);
                let (low, high) = (it.rps.interval.low, it.rps.interval.high);
                let range = match it.rps.samples {
                    0 | 1 => String::new(),
                    _ => unit.range(it.rps.value, low, high),
                };
                (format!("{bound}{}", unit.words(it.rps.value)), range)
            }
        };
        let remark = match (failing, &known) {
            (Some((trials, why)), _) => {
                format!(
                    "fails in {} ({why})",
                    units::plural(*trials as u64, "trial")
                )
            }
            (None, Some(it)) if it.at_least => {
                let why = values.reason.clone().unwrap_or_default();
                format!("at least this much: {why}")
            }
            (None, Some(it)) if it.limited > 0 => {
                format!("{} left out", units::plural(it.limited as u64, "trial"))
            }
            _ => String::new(),
        };
        CapacityRow {
            name: name(&telling, cell.factors),
            rate,
            range,
            trials: format!("{} of {}", cell.measured.len(), cell.planned),
            remark,
        }
    };
    cells.iter().map(row).collect()
}

/// The factors that have several values in a stage, without the rate.
fn telling<'a>(run: &'a Run, stage: &Stage) -> Vec<&'a Factor> {
    let is_rate = |it: &&Factor| [names::LEVEL, names::RATE].contains(&it.name.as_str());
    let varied = cell::varied(&run.plan, stage).into_iter();
    varied.filter(|it| !is_rate(it)).collect()
}

/// A cell by some of its factors: `memcached, 16 connections`.
fn name(telling: &[&Factor], factors: &Factors) -> String {
    let labels = telling.iter();
    let labels = labels.filter_map(|it| Some(it.label(factors.get(&it.name)?)));
    match labels.collect::<Vec<_>>().join(", ") {
        name if name.is_empty() => "all trials".to_owned(),
        name => name,
    }
}

fn knees(run: &Run) -> Vec<KneeRow> {
    let Some(stage) = run.plan.last_stage() else {
        return Vec::new();
    };
    let Some(unit) = run.plan.metric(names::RESPONSE_P99_NS).map(|it| &it.unit) else {
        return Vec::new();
    };
    let mut curves: BTreeMap<Vec<(&String, &Value)>, Vec<Cell>> = BTreeMap::new();
    let mut order = Vec::new();
    for cell in cell::of_stage(run, stage) {
        let is_rate = |name: &str| [names::LEVEL, names::RATE].contains(&name);
        let factors = cell.factors.iter();
        let key: Vec<_> = factors.filter(|(name, _)| !is_rate(name)).collect();
        if key.len() == cell.factors.len() {
            continue;
        }
        if !curves.contains_key(&key) {
            order.push(key.clone());
        }
        curves.entry(key).or_default().push(cell);
    }
    let telling = telling(run, stage);
    let rows = order.iter().filter_map(|key| {
        let cells = curves.get(key)?;
        let knee = knee(cells)?;
        Some(KneeRow {
            name: name(&telling, cells.first()?.factors),
            words: knee_words(&knee, cells),
            plateau: unit.words(knee.plateau_ns),
        })
    });
    rows.collect()
}

/// The rate at which a cell is offered: the median of its trials.
fn offered(cell: &Cell) -> Option<f64> {
    let offered = cell.values(names::OFFERED_RPS);
    let planned = || cell.factors.get(names::RATE)?.number();
    measure::median(&offered.valid).or_else(planned)
}

fn knee(cells: &[Cell]) -> Option<Knee> {
    let points = cells.iter().filter_map(|cell| Some((cell, offered(cell)?)));
    let points = points.flat_map(|(cell, level)| {
        cell.measured.iter().filter_map(move |(_, measured)| {
            let tail = match measured.failing() {
                // Not infinite: a median of two is to be a number.
                Some(_) => f64::MAX / 4.0,
                None => measured.metric(names::RESPONSE_P99_NS)?,
            };
            Some(TailPoint {
                level,
                tail,
                generator_limited: measured.invalid(names::RESPONSE_P99_NS).is_some(),
            })
        })
    });
    let knee = Knee::of(&points.collect::<Vec<_>>(), KNEE_FACTOR)?;
    (knee.plateau_ns < f64::MAX / 8.0).then_some(knee)
}

/// `keeps its tail up to 181 k/s (load level 0.9)`.
fn knee_words(knee: &Knee, cells: &[Cell]) -> String {
    let rate = |rate_rps: f64| {
        let mut at = cells.iter().filter(|it| offered(it) == Some(rate_rps));
        let level = at
            .next()
            .and_then(|it| it.factors.get(names::LEVEL)?.number());
        let level = level.map(|it| format!(" (load level {})", units::level(it)));
        format!("{}{}", units::rate(rate_rps), level.unwrap_or_default())
    };
    let last = rate(knee.level);
    match (knee.leaves_at, knee.unknown_above) {
        (None, 0) => format!("{last}, the most that was offered"),
        (None, _) => format!("at least {last}; above it, most trials do not count"),
        (Some(at), 0) => format!("{last}; beyond it at {}", rate(at)),
        (Some(at), _) => format!(
            "between {last} and {}, where most trials do not count",
            rate(at)
        ),
    }
}
