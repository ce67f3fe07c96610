//! What a run found of each server: capacity, knee, tail, cost, and how it stands to another.
//!
//! Trials the generator limited are kept out of all of it.

use measure::{
    Capacity, CapacityTrial, Estimate, KNEE_FACTOR, Knee, LITTLES_LAW_TOLERANCE, LittlesLaw,
    RankTest, TailPoint,
};

use crate::cells::{self, Cell, Spread};
use crate::chart::Look;
use crate::folder::{Measurement, Phase, Server, Trial};
use crate::run::Run;
use crate::words;

/// Of every interval, where there are trials enough; the interval says what it really has.
const CONFIDENCE: f64 = 0.95;

/// Load levels the verdict speaks of.
const HALF: f64 = 0.5;
const NEARLY_FULL: f64 = 0.9;
/// How far a cell may lie from a level that is spoken of.
const LEVEL_TOLERANCE: f64 = 0.051;

/// A server at one load level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AtLevel {
    pub(crate) level: f64,
    pub(crate) p99_ns: Option<Estimate>,
    pub(crate) cpu_ns: Option<Estimate>,
    /// Medians of processor time a request, (user, system).
    pub(crate) cpu_parts_ns: Option<(f64, f64)>,
}

/// Little's law over a server's trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outstanding {
    pub(crate) trials: usize,
    /// Trials in which it holds.
    pub(crate) holding: usize,
    /// The greatest relative difference of counted and expected.
    pub(crate) worst: f64,
}

/// This server's figures ÷ another's of the same run: the median ratio over all pairs of trials,
/// with the exact interval of the rank-sum test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ratio<'a> {
    pub(crate) to: &'a str,
    pub(crate) capacity: Option<Estimate>,
    pub(crate) p99_half: Option<Estimate>,
    pub(crate) p99_nearly_full: Option<Estimate>,
    pub(crate) cpu_half: Option<Estimate>,
    pub(crate) cpu_nearly_full: Option<Estimate>,
}

/// All that is said of a server.
#[derive(Debug, Clone)]
pub(crate) struct Standing<'a> {
    pub(crate) server: &'a Server,
    pub(crate) look: Look,
    pub(crate) cells: Vec<Cell<'a>>,
    /// None: there was no trial of it.
    pub(crate) capacity: Option<Capacity>,
    /// Share of one processor that the generator used in the capacity trials, median.
    pub(crate) generator_cpu: Option<f64>,
    /// By offered rate. None: too few levels.
    pub(crate) knee: Option<Knee>,
    pub(crate) half: Option<AtLevel>,
    pub(crate) nearly_full: Option<AtLevel>,
    pub(crate) littles_law: Option<Outstanding>,
    /// To the first server of the plan that took part; of that one, to the second.
    pub(crate) ratio: Option<Ratio<'a>>,
}

impl Standing<'_> {
    /// The load level of an offered rate, in words.
    pub(crate) fn level_of(&self, offered_rps: f64) -> Option<String> {
        let cell = self
            .cells
            .iter()
            .find(|cell| cell.offered_rps == Some(offered_rps))?;
        cell.level.map(words::level)
    }
}

/// The findings of every server that took part, in the order of the plan.
pub(crate) fn of(run: &Run) -> Vec<Standing<'_>> {
    let mut standings: Vec<Standing> = run
        .plan
        .servers
        .iter()
        .enumerate()
        .filter(|(_, server)| server.skipped.is_none())
        .map(|(index, server)| standing(run, server, Look::of(index)))
        .collect();
    for index in 0..standings.len() {
        let other = usize::from(index == 0);
        if let Some(to) = standings.get(other) {
            let ratio = ratio(run, &standings[index], to);
            standings[index].ratio = Some(ratio);
        }
    }
    standings
}

fn standing<'a>(run: &'a Run, server: &'a Server, look: Look) -> Standing<'a> {
    let cells = Cell::of_server(run, &server.name);
    Standing {
        server,
        look,
        capacity: capacity(run, &server.name),
        generator_cpu: generator_cpu(run, &server.name),
        knee: knee(&cells),
        half: at_level(&cells, HALF),
        nearly_full: at_level(&cells, NEARLY_FULL),
        littles_law: littles_law(run, &server.name),
        ratio: None,
        cells,
    }
}

fn trials_of<'a>(run: &'a Run, server: &str) -> impl Iterator<Item = (&'a Trial, &'a Measurement)> {
    run.trials
        .iter()
        .filter(move |trial| trial.server == server)
        .filter_map(cells::measured)
}

fn capacity_trials(run: &Run, server: &str) -> Vec<CapacityTrial> {
    trials_of(run, server)
        .filter(|(trial, _)| trial.phase == Phase::Capacity)
        .map(|(_, measured)| CapacityTrial {
            achieved_rps: measured.achieved_rps,
            generator_limited: measured.generator_limited,
        })
        .collect()
}

fn capacity(run: &Run, server: &str) -> Option<Capacity> {
    Capacity::of(&capacity_trials(run, server), CONFIDENCE)
}

fn generator_cpu(run: &Run, server: &str) -> Option<f64> {
    let trials = trials_of(run, server).filter(|(trial, _)| trial.phase == Phase::Capacity);
    Spread::of(trials.map(|(_, measured)| measured.generator_cpu)).map(|spread| spread.median)
}

/// A cell is one level, whatever its trials were offered to the last digit: its median.
fn knee(cells: &[Cell]) -> Option<Knee> {
    let points: Vec<TailPoint> = cells
        .iter()
        .filter_map(|cell| Some((cell, cell.offered_rps?)))
        .flat_map(|(cell, offered_rps)| {
            cell.measured.iter().filter_map(move |(_, measured)| {
                Some(TailPoint {
                    level: offered_rps,
                    p99_ns: measured.response?.p99,
                    generator_limited: measured.generator_limited,
                })
            })
        })
        .collect();
    Knee::of(&points, KNEE_FACTOR)
}

/// The cell nearest a load level, where one is near.
fn near<'c, 'a>(cells: &'c [Cell<'a>], level: f64) -> Option<(&'c Cell<'a>, f64)> {
    cells
        .iter()
        .filter_map(|cell| Some((cell, cell.level?)))
        .filter(|(_, at)| (at - level).abs() <= LEVEL_TOLERANCE)
        .min_by(|(_, a), (_, b)| (a - level).abs().total_cmp(&(b - level).abs()))
}

fn at_level(cells: &[Cell], level: f64) -> Option<AtLevel> {
    let (cell, level) = near(cells, level)?;
    let estimate = |values: Vec<f64>| measure::median_of_trials(&values, CONFIDENCE);
    let middle = |part: fn(&Measurement) -> Option<f64>| {
        Spread::of(cell.unlimited(part)).map(|spread| spread.median)
    };
    Some(AtLevel {
        level,
        p99_ns: estimate(cell.unlimited(cells::p99_ns)),
        cpu_ns: estimate(cell.unlimited(cells::cpu_ns)),
        cpu_parts_ns: middle(cells::user_ns).zip(middle(cells::system_ns)),
    })
}

fn littles_law(run: &Run, server: &str) -> Option<Outstanding> {
    let checks: Vec<LittlesLaw> = trials_of(run, server)
        .map(|(_, measured)| {
            LittlesLaw::check(
                measured.outstanding_mean,
                measured.achieved_rps,
                measured.service.mean,
                LITTLES_LAW_TOLERANCE,
            )
        })
        .collect();
    let worst = checks
        .iter()
        .map(|check| check.relative_difference.abs())
        .reduce(f64::max)?;
    let holding = checks.iter().filter(|check| check.holds).count();
    Some(Outstanding {
        trials: checks.len(),
        holding,
        worst,
    })
}

fn ratio<'a>(run: &Run, of: &Standing<'a>, to: &Standing<'a>) -> Ratio<'a> {
    let at = |level: f64, value: fn(&Measurement) -> Option<f64>| {
        let (of, to) = (near(&of.cells, level)?, near(&to.cells, level)?);
        times(&of.0.unlimited(value), &to.0.unlimited(value))
    };
    let capacities = |server: &str| -> Vec<f64> {
        let trials = capacity_trials(run, server).into_iter();
        trials
            .filter(|trial| !trial.generator_limited)
            .map(|trial| trial.achieved_rps)
            .collect()
    };
    let (own, other) = (capacities(&of.server.name), capacities(&to.server.name));
    Ratio {
        to: &to.server.name,
        capacity: times(&own, &other),
        p99_half: at(HALF, cells::p99_ns),
        p99_nearly_full: at(NEARLY_FULL, cells::p99_ns),
        cpu_half: at(HALF, cells::cpu_ns),
        cpu_nearly_full: at(NEARLY_FULL, cells::cpu_ns),
    }
}

fn times(of: &[f64], to: &[f64]) -> Option<Estimate> {
    RankTest::of(of, to, CONFIDENCE)?.ratio
}
