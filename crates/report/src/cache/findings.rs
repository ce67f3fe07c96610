//! The findings of a run on each server: capacity, knee, tail, cost, and ratios to other servers.
//!
//! Generator-limited trials are excluded from capacity, knee and tail. If they are more than half,
//! nothing is concluded. Processor time per request covers all trials: the generator's limits do
//! not affect it.

mod highlight;

use measure::{
    Capacity, CapacityTrial, Estimate, KNEE_FACTOR, Knee, LITTLES_LAW_TOLERANCE, LittlesLaw,
    TailPoint,
};

pub(crate) use self::highlight::{Comparison, Highlight, p99_ratio};

use crate::cache::Run;
use crate::cache::cells::{self, Cell, Spread};
use crate::cache::folder::{Measurement, Phase, Server, Trial};
use crate::cache::settings::Vary;
use crate::cache::sweep_axis::SweepAxis;
use crate::chart::CurveStyle;
use crate::units;

/// Confidence of every interval. With few trials an interval has less, which is shown.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// Little's law over a server's trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outstanding {
    pub(crate) trials: usize,
    /// Trials in which it holds.
    pub(crate) holding: usize,
    /// The greatest relative difference between time stamps and count.
    pub(crate) worst: f64,
}

/// The findings on one curve: a server or, where each setting has a curve, a server under one
/// setting.
#[derive(Debug, Clone)]
pub(crate) struct CurveFindings<'a> {
    pub(crate) server: &'a Server,
    /// The curve's setting. None: nothing is varied, or the curve is over settings.
    pub(crate) setting: Option<u32>,
    /// That setting in words, such as `16 connections`.
    pub(crate) condition: Option<String>,
    /// The server and, if the curve has one, the setting.
    pub(crate) name: String,
    pub(crate) style: CurveStyle,
    pub(crate) axis: SweepAxis<'a>,
    /// The varied parameter of the run.
    pub(crate) vary: Option<&'a Vary>,
    pub(crate) cells: Vec<Cell<'a>>,
    /// None: not measured, or each setting has its own ([`Highlight::capacity`]).
    pub(crate) capacity: Option<Capacity>,
    /// Capacity ÷ that of `baseline`: the median ratio over all pairs of trials, with the exact
    /// interval of the rank-sum test.
    pub(crate) capacity_ratio: Option<Estimate>,
    /// The server it is compared with: the first of the plan that took part or, for that one, the
    /// second.
    pub(crate) baseline: Option<&'a str>,
    /// Capacity ÷ its own under the reference setting, likewise.
    pub(crate) capacity_change: Option<Estimate>,
    /// Busy share of the generator in the capacity trials, median.
    pub(crate) generator_busy: Option<f64>,
    /// Steal time on the server's and on the generator's processors, over all trials.
    pub(crate) stolen: Option<(Spread, Spread)>,
    /// (trials in which connections were lost, connections lost).
    pub(crate) lost_connections: (u64, u64),
    /// By offered rate. None: too few levels, or the curve is over settings.
    pub(crate) knee: Option<Knee>,
    /// The cells that the findings mention, in their order.
    pub(crate) highlights: Vec<Highlight>,
    pub(crate) littles_law: Option<Outstanding>,
}

impl CurveFindings<'_> {
    /// The load level of an offered rate, in words.
    pub(crate) fn level_of(&self, offered_rps: f64) -> Option<String> {
        let cell = self
            .cells
            .iter()
            .find(|cell| cell.offered_rps == Some(offered_rps))?;
        cell.level.map(units::level)
    }
}

/// The findings on every server that took part, in the order of the plan and, where each setting
/// has a curve, by setting.
pub(crate) fn of(run: &Run) -> Vec<CurveFindings<'_>> {
    let plan = &run.plan;
    let has_curve_each = plan.vary.is_some() && matches!(SweepAxis::of(plan), SweepAxis::Rate);
    let mut curves = Vec::new();
    let servers = plan.servers.iter().enumerate();
    for (index, server) in servers.filter(|(_, server)| server.skipped.is_none()) {
        if has_curve_each {
            let of = |setting| curve(run, server, Some(setting), CurveStyle::of(setting as usize));
            curves.extend((0..plan.settings()).map(of));
        } else {
            curves.push(curve(run, server, None, CurveStyle::of(index)));
        }
    }
    let compared: Vec<Compared> = curves
        .iter()
        .map(|own| compare(run, &curves, own))
        .collect();
    for (curve, compared) in curves.iter_mut().zip(compared) {
        curve.baseline = compared.baseline;
        curve.capacity_ratio = compared.capacity_ratio;
        curve.capacity_change = compared.capacity_change;
        curve.highlights = compared.highlights;
    }
    curves
}

fn curve<'a>(
    run: &'a Run,
    server: &'a Server,
    setting: Option<u32>,
    style: CurveStyle,
) -> CurveFindings<'a> {
    let plan = &run.plan;
    let axis = SweepAxis::of(plan);
    let indices: Vec<u32> = match setting {
        Some(setting) => (0..plan.sweep.rates())
            .map(|rate| plan.cell(setting, rate))
            .collect(),
        None => (0..plan.cells()).collect(),
    };
    let cells: Vec<Cell> = indices
        .into_iter()
        .map(|index| Cell::of(run, &server.name, index))
        .collect();
    let trials = trials_of(run, &server.name, setting);
    let is_by_rate = matches!(axis, SweepAxis::Rate);
    let condition = setting.and_then(|setting| plan.condition(setting));
    CurveFindings {
        server,
        setting,
        name: match &condition {
            Some(condition) => format!("{}, {condition}", server.name),
            None => server.name.clone(),
        },
        condition,
        style,
        axis,
        vary: plan.vary.as_ref(),
        capacity: capacity(&trials).filter(|_| is_by_rate),
        capacity_ratio: None,
        baseline: None,
        capacity_change: None,
        generator_busy: generator_busy(&trials).filter(|_| is_by_rate),
        stolen: stolen(&trials),
        lost_connections: lost_connections(&trials),
        knee: knee(&cells).filter(|_| is_by_rate),
        highlights: Vec::new(),
        littles_law: littles_law(&trials),
        cells,
    }
}

/// Ratios of a curve to others.
struct Compared<'a> {
    baseline: Option<&'a str>,
    capacity_ratio: Option<Estimate>,
    capacity_change: Option<Estimate>,
    highlights: Vec<Highlight>,
}

fn compare<'a>(
    run: &'a Run,
    curves: &[CurveFindings<'a>],
    own: &CurveFindings<'a>,
) -> Compared<'a> {
    let is_own = |other: &&CurveFindings| other.server.name == own.server.name;
    let baseline = curves
        .iter()
        .find(|other| !is_own(other) && other.setting == own.setting);
    let reference = run.plan.reference();
    let before = curves.iter().find(|other| {
        let is_other = other.setting.is_some() && other.setting != own.setting;
        is_own(other) && is_other && other.setting == reference
    });
    let capacities = |curve: &CurveFindings| -> Vec<f64> {
        // A lower bound has no ratio.
        if curve.capacity.is_none_or(|capacity| capacity.at_least) {
            return Vec::new();
        }
        let trials = trials_of(run, &curve.server.name, curve.setting);
        capacity_trials(&trials)
            .iter()
            .filter(|trial| !trial.generator_limited)
            .map(|trial| trial.achieved_rps)
            .collect()
    };
    Compared {
        baseline: baseline.map(|other| other.server.name.as_str()),
        capacity_ratio: baseline.and_then(|to| highlight::times(&capacities(own), &capacities(to))),
        capacity_change: before.and_then(|to| highlight::times(&capacities(own), &capacities(to))),
        highlights: highlight::of(run, own, baseline, before),
    }
}

type Measured<'a> = (&'a Trial, &'a Measurement);

/// The measured trials of a server; of one setting only, if one is given.
fn trials_of<'a>(run: &'a Run, server: &str, setting: Option<u32>) -> Vec<Measured<'a>> {
    let is_of = |trial: &&Trial| {
        let of = run.plan.setting_of(trial.phase, trial.cell);
        trial.server == server && setting.is_none_or(|setting| setting == of)
    };
    let trials = run.trials.iter().filter(is_of);
    trials.filter_map(cells::measured).collect()
}

fn capacity_trials(trials: &[Measured]) -> Vec<CapacityTrial> {
    trials
        .iter()
        .filter(|(trial, _)| trial.phase == Phase::Capacity)
        .map(|(_, measured)| CapacityTrial {
            achieved_rps: measured.achieved_rps,
            generator_limited: measured.generator_limited,
        })
        .collect()
}

fn capacity(trials: &[Measured]) -> Option<Capacity> {
    Capacity::of(&capacity_trials(trials), CONFIDENCE)
}

/// The capacity of a server under a setting (none: nothing is varied). None: not measured.
pub(crate) fn capacity_under(run: &Run, server: &str, setting: Option<u32>) -> Option<Capacity> {
    capacity(&trials_of(run, server, setting))
}

fn generator_busy(trials: &[Measured]) -> Option<f64> {
    let trials = trials.iter();
    let trials = trials.filter(|(trial, _)| trial.phase == Phase::Capacity);
    let busy = trials.filter_map(|(_, measured)| measured.generator_busy);
    Spread::of(busy).map(|spread| spread.median)
}

fn stolen(trials: &[Measured]) -> Option<(Spread, Spread)> {
    let shares = || trials.iter().filter_map(|(_, measured)| measured.stolen);
    Spread::of(shares().map(|stolen| stolen.server))
        .zip(Spread::of(shares().map(|stolen| stolen.load)))
}

fn lost_connections(trials: &[Measured]) -> (u64, u64) {
    trials
        .iter()
        .filter_map(|(_, measured)| measured.lost_connections)
        .filter(|&lost| lost > 0)
        .fold((0, 0), |(trials, all), lost| (trials + 1, all + lost))
}

/// All trials of a cell count as one level, the median of their offered rates.
fn knee(cells: &[Cell]) -> Option<Knee> {
    let points: Vec<TailPoint> = cells
        .iter()
        .filter_map(|cell| Some((cell, cell.offered_rps?)))
        .flat_map(|(cell, offered_rps)| {
            cell.measured.iter().filter_map(move |(_, measured)| {
                Some(TailPoint {
                    level: offered_rps,
                    tail: measured.response?.p99 as f64,
                    generator_limited: measured.generator_limited,
                })
            })
        })
        .collect();
    Knee::of(&points, KNEE_FACTOR)
}

fn littles_law(trials: &[Measured]) -> Option<Outstanding> {
    let checks: Vec<LittlesLaw> = trials
        .iter()
        .map(|(_, measured)| {
            LittlesLaw::check(
                measured.outstanding_mean,
                measured.outstanding_unread,
                measured.outstanding_expected,
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
