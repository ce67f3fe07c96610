//! The cells of a curve that the findings mention, and their comparison with other cells.

use measure::{Capacity, Estimate, RankTest};

use super::{CONFIDENCE, CurveFindings, capacity, trials_of};
use crate::cache::Run;
use crate::cache::cells::{self, Cell};
use crate::cache::folder::Measurement;
use crate::cache::sweep_axis::SweepAxis;
use crate::units;

/// Load levels that the findings mention.
const HALF: f64 = 0.5;
const NEARLY_FULL: f64 = 0.9;
/// With up to this many settings, the findings mention all of them.
const ALL_SETTINGS: usize = 4;

/// A cell that the findings mention.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Highlight {
    /// Such as `at load level 0.9`, `at 20.0 k/s offered`, `with 16 connections`.
    pub(crate) place: String,
    /// Under this setting, for a curve over settings; else none.
    pub(crate) capacity: Option<Capacity>,
    /// Trials measured, and those of them that are generator-limited.
    pub(crate) measured: u64,
    pub(crate) limited: u64,
    /// Over the trials that are not generator-limited. None: more than half are.
    pub(crate) p99_ns: Option<Estimate>,
    /// Requests that were never answered may lie above `p99_ns`.
    pub(crate) p99_is_lower_bound: bool,
    /// Over all trials.
    pub(crate) cpu_ns: Option<Estimate>,
    /// Medians of processor time per request: (user, system).
    pub(crate) cpu_parts_ns: Option<(f64, f64)>,
    /// Ratios to other cells.
    pub(crate) comparison: Vec<Comparison>,
}

/// Ratios of a cell to another of the same run: the median ratio over all pairs of trials, with the
/// exact interval of the rank-sum test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    /// `memcached's`, `its own with 16 connections`.
    pub(crate) baseline: String,
    pub(crate) p99: Option<Estimate>,
    pub(crate) cpu: Option<Estimate>,
}

/// The highlights of a curve, compared with another server under the same setting and with the same
/// server under the reference setting.
pub(super) fn of(
    run: &Run,
    own: &CurveFindings,
    baseline: Option<&CurveFindings>,
    before: Option<&CurveFindings>,
) -> Vec<Highlight> {
    let reference = run.plan.reference();
    let of_reference = reference.and_then(|setting| run.plan.condition(setting));
    let (is_across, reference) = match own.axis {
        SweepAxis::Rate => (false, None),
        SweepAxis::Setting(_) => (true, reference.map(|setting| setting as usize)),
    };
    let highlight = |at: usize| {
        let cell = own.cells.get(at)?;
        let mut highlight = alone(own, cell)?;
        if is_across {
            let trials = trials_of(run, &own.server.name, u32::try_from(at).ok());
            highlight.capacity = capacity(&trials);
        }
        let other =
            baseline.and_then(|to| Some((format!("{}'s", to.server.name), to.cells.get(at)?)));
        let earlier = match is_across {
            true => reference
                .filter(|&it| it != at)
                .and_then(|it| own.cells.get(it)),
            false => before.and_then(|to| to.cells.get(at)),
        };
        let earlier = earlier.zip(of_reference.as_ref());
        let earlier = earlier.map(|(cell, with)| (format!("its own with {with}"), cell));
        highlight.comparison = [other, earlier]
            .into_iter()
            .flatten()
            .map(|(baseline, to)| comparison(baseline, cell, to))
            .collect();
        Some(highlight)
    };
    indices(own, reference)
        .into_iter()
        .filter_map(highlight)
        .collect()
}

/// Indices of the highlighted cells: of levels, those nearest 0.5 and 0.9; of rates, the ends; of
/// settings, all if they are few, else the ends and the reference.
fn indices(own: &CurveFindings, reference: Option<usize>) -> Vec<usize> {
    let last = own.cells.len().saturating_sub(1);
    let mut indices = match own.axis {
        SweepAxis::Setting(_) if own.cells.len() <= ALL_SETTINGS => (0..=last).collect(),
        SweepAxis::Setting(_) => vec![0, reference.unwrap_or(0), last],
        SweepAxis::Rate => match (nearest(&own.cells, HALF), nearest(&own.cells, NEARLY_FULL)) {
            (Some(half), Some(nearly_full)) => vec![half, nearly_full],
            _ => vec![0, last],
        },
    };
    indices.sort_unstable();
    // In a sweep of one level, all highlights are the same cell.
    indices.dedup();
    indices
}

/// The cell nearest a load level, measured or not, so that all servers are compared at one level.
fn nearest(cells: &[Cell], level: f64) -> Option<usize> {
    let distance = |cell: &Cell| cell.level.map(|at| (at - level).abs());
    cells
        .iter()
        .enumerate()
        .filter_map(|(index, cell)| Some((index, distance(cell)?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(index, _)| index)
}

/// The highlight of a cell, without ratios. None: its place is not known, because no trial records
/// an offered rate.
fn alone(own: &CurveFindings, cell: &Cell) -> Option<Highlight> {
    let place = match (own.axis, cell.level) {
        (SweepAxis::Rate, Some(level)) => format!("at load level {}", units::level(level)),
        (axis, _) => axis.place(axis.of_cell(cell)?),
    };
    let estimate = |values: &[f64]| measure::median_of_trials(values, CONFIDENCE);
    let middle =
        |part: fn(&Measurement) -> Option<f64>| cell.spread(part).map(|spread| spread.median);
    let free = cell.measured.iter().map(|(_, measured)| *measured);
    let free = free.filter(|measured| !measured.generator_limited);
    Some(Highlight {
        place,
        capacity: None,
        measured: cell.measured.len() as u64,
        limited: u64::from(cell.limited()),
        p99_ns: estimate(&tails_ns(cell)),
        p99_is_lower_bound: cells::lower_bounds(free, cells::P99).0,
        cpu_ns: estimate(&cell.values(cells::cpu_ns)),
        cpu_parts_ns: middle(cells::user_ns).zip(middle(cells::system_ns)),
        comparison: Vec::new(),
    })
}

/// The 99th percentiles of a cell's trials that are not generator-limited. Empty if more than half
/// are.
fn tails_ns(cell: &Cell) -> Vec<f64> {
    if cell.mostly_limited() {
        return Vec::new();
    }
    cell.unlimited(cells::p99_ns)
}

fn comparison(baseline: String, of: &Cell, to: &Cell) -> Comparison {
    let bound = of.lower_bounds(cells::P99).0 || to.lower_bounds(cells::P99).0;
    Comparison {
        baseline,
        p99: p99_ratio(of, to).filter(|_| !bound),
        cpu: times(&of.values(cells::cpu_ns), &to.values(cells::cpu_ns)),
    }
}

/// The 99th percentile of one cell ÷ that of another, of the trials the generator did not limit.
/// None where it limited more than half of either.
pub(crate) fn p99_ratio(of: &Cell, to: &Cell) -> Option<Estimate> {
    times(&tails_ns(of), &tails_ns(to))
}

pub(super) fn times(of: &[f64], to: &[f64]) -> Option<Estimate> {
    RankTest::of(of, to, CONFIDENCE)?.ratio
}
