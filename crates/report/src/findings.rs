//! What a run found of each server: capacity, knee, tail, cost, and how it stands to another.
//!
//! Trials the generator limited are kept out of all of it.

use crate::cells::{self, Cell, Spread};
use crate::chart::Look;
use crate::folder::{Measurement, Phase, Server, Trial};
use crate::run::Run;
use crate::statistics::{self, Estimate};

/// Load levels the verdict speaks of.
const HALF: f64 = 0.5;
const NEARLY_FULL: f64 = 0.9;
/// How far a cell may lie from a level that is spoken of.
const LEVEL_TOLERANCE: f64 = 0.051;

/// What is known of a server's capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Capacity {
    /// Achieved under infinite demand: median with its interval, over so many trials.
    Measured { rate_rps: Estimate, trials: usize },
    /// In every trial the generator was the limit.
    GeneratorLimited { trials: usize },
    /// There was no trial.
    NotMeasured,
}

/// A server at one load level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AtLevel {
    pub(crate) level: f64,
    pub(crate) p99_ns: Option<Estimate>,
    pub(crate) cpu_ns: Option<Estimate>,
    /// Medians of processor time a request, (user, system).
    pub(crate) cpu_parts_ns: Option<(f64, f64)>,
}

/// The last load level before the tail leaves its plateau.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Knee {
    pub(crate) level: Option<f64>,
    pub(crate) offered_rps: f64,
    /// No higher level was measured: the knee lies here or beyond.
    pub(crate) is_last: bool,
}

/// Little's law over a server's trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LittlesLaw {
    pub(crate) trials: usize,
    /// Trials in which it holds.
    pub(crate) holding: usize,
    /// The greatest relative difference of counted and expected.
    pub(crate) worst: f64,
}

/// This server's figure ÷ another's of the same run.
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
    pub(crate) capacity: Capacity,
    pub(crate) knee: Option<Knee>,
    pub(crate) half: Option<AtLevel>,
    pub(crate) nearly_full: Option<AtLevel>,
    pub(crate) littles_law: Option<LittlesLaw>,
    /// To the first server of the plan that took part; of that one, to the second.
    pub(crate) ratio: Option<Ratio<'a>>,
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
        knee: knee(run, &cells),
        half: at_level(run, &cells, HALF),
        nearly_full: at_level(run, &cells, NEARLY_FULL),
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

/// What the capacity trials of a server achieved that the generator did not limit.
fn capacities(run: &Run, server: &str) -> Vec<f64> {
    trials_of(run, server)
        .filter(|(trial, measured)| trial.phase == Phase::Capacity && !measured.generator_limited)
        .map(|(_, measured)| measured.achieved_rps)
        .collect()
}

fn capacity(run: &Run, server: &str) -> Capacity {
    let trials = trials_of(run, server)
        .filter(|(trial, _)| trial.phase == Phase::Capacity)
        .count();
    let achieved = capacities(run, server);
    match statistics::median(&achieved, run.plan.seed) {
        Some(rate_rps) => Capacity::Measured {
            rate_rps,
            trials: achieved.len(),
        },
        None if trials > 0 => Capacity::GeneratorLimited { trials },
        None => Capacity::NotMeasured,
    }
}

fn knee(_run: &Run, cells: &[Cell]) -> Option<Knee> {
    let known: Vec<(&Cell, f64, f64)> = cells
        .iter()
        .filter_map(|cell| {
            let p99 = Spread::of(cell.unlimited(cells::p99_ns))?;
            Some((cell, cell.offered_rps?, p99.median))
        })
        .collect();
    let points: Vec<(f64, f64)> = known
        .iter()
        .map(|&(_, offered, p99)| (offered, p99))
        .collect();
    let index = statistics::knee(&points)?;
    let (cell, offered_rps, _) = known.get(index)?;
    Some(Knee {
        level: cell.level,
        offered_rps: *offered_rps,
        is_last: index + 1 == known.len(),
    })
}

/// The cell nearest a load level, where one is near.
fn near<'c, 'a>(cells: &'c [Cell<'a>], level: f64) -> Option<(&'c Cell<'a>, f64)> {
    cells
        .iter()
        .filter_map(|cell| Some((cell, cell.level?)))
        .filter(|(_, at)| (at - level).abs() <= LEVEL_TOLERANCE)
        .min_by(|(_, a), (_, b)| (a - level).abs().total_cmp(&(b - level).abs()))
}

fn at_level(run: &Run, cells: &[Cell], level: f64) -> Option<AtLevel> {
    let (cell, level) = near(cells, level)?;
    let estimate = |values: Vec<f64>| statistics::median(&values, run.plan.seed);
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

fn littles_law(run: &Run, server: &str) -> Option<LittlesLaw> {
    let checks: Vec<(f64, bool)> = trials_of(run, server)
        .map(|(_, measured)| statistics::littles_law(measured))
        .collect();
    let worst = checks
        .iter()
        .map(|(difference, _)| *difference)
        .reduce(f64::max)?;
    let holding = checks.iter().filter(|(_, holds)| *holds).count();
    Some(LittlesLaw {
        trials: checks.len(),
        holding,
        worst,
    })
}

fn ratio<'a>(run: &Run, of: &Standing<'a>, to: &Standing<'a>) -> Ratio<'a> {
    let seed = run.plan.seed;
    let at = |level: f64, value: fn(&Measurement) -> Option<f64>| {
        let (of, to) = (near(&of.cells, level)?, near(&to.cells, level)?);
        statistics::ratio(&of.0.unlimited(value), &to.0.unlimited(value), seed)
    };
    Ratio {
        to: &to.server.name,
        capacity: statistics::ratio(
            &capacities(run, &of.server.name),
            &capacities(run, &to.server.name),
            seed,
        ),
        p99_half: at(HALF, cells::p99_ns),
        p99_nearly_full: at(NEARLY_FULL, cells::p99_ns),
        cpu_half: at(HALF, cells::cpu_ns),
        cpu_nearly_full: at(NEARLY_FULL, cells::cpu_ns),
    }
}
