//! What a run found of each server: capacity, knee, tail, cost, and how it stands to another.
//!
//! Trials the generator limited are kept out of capacity, knee and tail, and where they are more
//! than half there is nothing left to say. What a request costs the server is counted over all
//! trials: its processor time is its own, whoever was the limit.

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

/// A server at one load level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AtLevel {
    pub(crate) level: f64,
    /// Trials measured, and those of them in which the generator was the limit.
    pub(crate) measured: u64,
    pub(crate) limited: u64,
    /// Of the trials the generator did not limit. None where it limited more than half.
    pub(crate) p99_ns: Option<Estimate>,
    /// `p99_ns` falls among requests that were never answered.
    pub(crate) p99_is_lower_bound: bool,
    /// Of all trials.
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
    /// Share of the time that the generator was busy in the capacity trials, median.
    pub(crate) generator_busy: Option<f64>,
    /// What the host took of the server's and of the generator's processors, over all trials.
    pub(crate) stolen: Option<(Spread, Spread)>,
    /// Trials in which connections were lost, and how many.
    pub(crate) lost_connections: (u64, u64),
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
        generator_busy: generator_busy(run, &server.name),
        stolen: stolen(run, &server.name),
        lost_connections: lost_connections(run, &server.name),
        knee: knee(&cells),
        half: half(&cells).map(at_level),
        nearly_full: nearly_full(&cells).map(at_level),
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

fn generator_busy(run: &Run, server: &str) -> Option<f64> {
    let trials = trials_of(run, server).filter(|(trial, _)| trial.phase == Phase::Capacity);
    let busy = trials.filter_map(|(_, measured)| measured.generator_busy);
    Spread::of(busy).map(|spread| spread.median)
}

fn stolen(run: &Run, server: &str) -> Option<(Spread, Spread)> {
    let shares = || trials_of(run, server).filter_map(|(_, measured)| measured.stolen);
    Spread::of(shares().map(|stolen| stolen.server))
        .zip(Spread::of(shares().map(|stolen| stolen.load)))
}

fn lost_connections(run: &Run, server: &str) -> (u64, u64) {
    trials_of(run, server)
        .filter_map(|(_, measured)| measured.lost_connections)
        .filter(|&lost| lost > 0)
        .fold((0, 0), |(trials, all), lost| (trials + 1, all + lost))
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

/// A cell and its load level.
type Level<'c, 'a> = (&'c Cell<'a>, f64);

/// The cell nearest a load level, measured or not: two servers are compared at one level.
fn nearest<'c, 'a>(cells: &'c [Cell<'a>], level: f64) -> Option<Level<'c, 'a>> {
    cells
        .iter()
        .filter_map(|cell| Some((cell, cell.level?)))
        .min_by(|(_, a), (_, b)| (a - level).abs().total_cmp(&(b - level).abs()))
}

/// The level at which a server is half loaded.
fn half<'c, 'a>(cells: &'c [Cell<'a>]) -> Option<Level<'c, 'a>> {
    let other = nearest(cells, NEARLY_FULL).map(|(_, level)| level);
    // A sweep of one level has one thing to say.
    nearest(cells, HALF).filter(|&(_, level)| other != Some(level))
}

fn nearly_full<'c, 'a>(cells: &'c [Cell<'a>]) -> Option<Level<'c, 'a>> {
    nearest(cells, NEARLY_FULL)
}

fn at_level((cell, level): Level) -> AtLevel {
    let estimate = |values: &[f64]| measure::median_of_trials(values, CONFIDENCE);
    let middle =
        |part: fn(&Measurement) -> Option<f64>| cell.spread(part).map(|spread| spread.median);
    let free = cell.measured.iter().map(|(_, measured)| *measured);
    let free = free.filter(|measured| !measured.generator_limited);
    AtLevel {
        level,
        measured: cell.measured.len() as u64,
        limited: u64::from(cell.limited()),
        p99_ns: estimate(&tails_ns(cell)),
        p99_is_lower_bound: cells::lower_bounds(free, cells::P99).0,
        cpu_ns: estimate(&cell.values(cells::cpu_ns)),
        cpu_parts_ns: middle(cells::user_ns).zip(middle(cells::system_ns)),
    }
}

/// The tails of a cell that say something of the server. None where the generator was the limit of
/// most.
fn tails_ns(cell: &Cell) -> Vec<f64> {
    if cell.mostly_limited() {
        return Vec::new();
    }
    cell.unlimited(cells::p99_ns)
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
    let capacities = |standing: &Standing| -> Vec<f64> {
        // A lower bound has no ratio to anything.
        let known = standing.capacity.filter(|capacity| !capacity.at_least);
        let trials = known.map(|_| capacity_trials(run, &standing.server.name));
        let trials = trials.into_iter().flatten();
        trials
            .filter(|trial| !trial.generator_limited)
            .map(|trial| trial.achieved_rps)
            .collect()
    };
    let tails = |of: Option<Level>, to: Option<Level>| {
        let (of, to) = (of?.0, to?.0);
        let bound = of.lower_bounds(cells::P99).0 || to.lower_bounds(cells::P99).0;
        times(&tails_ns(of), &tails_ns(to)).filter(|_| !bound)
    };
    let costs = |of: Option<Level>, to: Option<Level>| {
        times(&of?.0.values(cells::cpu_ns), &to?.0.values(cells::cpu_ns))
    };
    Ratio {
        to: &to.server.name,
        capacity: times(&capacities(of), &capacities(to)),
        p99_half: tails(half(&of.cells), half(&to.cells)),
        p99_nearly_full: tails(nearly_full(&of.cells), nearly_full(&to.cells)),
        cpu_half: costs(half(&of.cells), half(&to.cells)),
        cpu_nearly_full: costs(nearly_full(&of.cells), nearly_full(&to.cells)),
    }
}

fn times(of: &[f64], to: &[f64]) -> Option<Estimate> {
    RankTest::of(of, to, CONFIDENCE)?.ratio
}
