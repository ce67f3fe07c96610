//! Targets: bounds on metrics, stated before a run and judged by its trials.
//!
//! A target is a bound on the median of a metric in one cell, or on the ratio of that metric
//! between two cells. The figure is what a comparison of cells has: of a ratio the median over all
//! pairs of trials with the interval of the rank-sum test, of a cell alone the median with the
//! interval of its order statistics. The verdict is *go* if the whole 95 % interval is within the
//! bound, *missed* if the whole interval is beyond it, and *not decided* otherwise. It is also *not
//! decided* if most of the planned trials have no value that counts, or if values that are lower
//! bounds could reverse it.
//!
//! Values that do not count, and trials that are missing or were measured without this metric, are
//! left out of the figure for the reason that their records state, and counted beside it. There is
//! no correction for several targets: each is stated on its own.

use measure::Estimate;

use crate::answer::{self, StageResults};
use crate::cell::{Cell, Values};
use crate::comparison::{self, Scale};
use crate::figure::{Known, check_value, find};
use crate::published::{has_all, other};
use crate::record::{Factors, Metric, Plan, Unit};
use crate::{Run, units};

pub use crate::record::Target;
pub use crate::target_verdict::{Judged, Verdict};

/// A bound in one form.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bound {
    /// In the unit of the target.
    value: f64,
    /// Whether higher values are within it.
    is_lower: bool,
    /// Whether the value itself is within it.
    is_within: bool,
}

impl Bound {
    fn words(self) -> &'static str {
        match (self.is_lower, self.is_within) {
            (false, true) => "at most",
            (true, true) => "at least",
            (false, false) => "below",
            (true, false) => "above",
        }
    }

    fn holds(self, value: f64) -> bool {
        let is_beside = if self.is_lower {
            value > self.value
        } else {
            value < self.value
        };
        is_beside || (self.is_within && value == self.value)
    }
}

impl Target {
    fn is_ratio(&self) -> bool {
        !self.to.is_empty()
    }

    /// The bound. None: the target states none, or several.
    fn bound(&self) -> Option<Bound> {
        let bounds = [
            (self.at_most, false, true),
            (self.at_least, true, true),
            (self.below, false, false),
            (self.above, true, false),
        ];
        let bounds = bounds.map(|(value, is_lower, is_within)| {
            Some(Bound {
                value: value?,
                is_lower,
                is_within,
            })
        });
        let mut stated = bounds.into_iter().flatten();
        stated.next().filter(|_| stated.next().is_none())
    }

    /// The bound in the unit of the metric, or of a ratio.
    fn bound_of(&self, metric: &Metric) -> Option<Bound> {
        let unit = self.unit.as_ref().unwrap_or(&metric.unit);
        let factor = if self.is_ratio() {
            Some(1.0)
        } else {
            unit.to(&metric.unit)
        };
        let bound = self.bound()?;
        let value = bound.value * factor?;
        Some(Bound { value, ..bound })
    }

    /// The index of its cell. None: there is none, or there are several.
    fn cell<'c>(&self, cells: impl Iterator<Item = &'c Factors>) -> Option<usize> {
        let mut found = cells.enumerate().filter(|(_, it)| has_all(it, &self.of));
        let at = found.next()?.0;
        found.next().is_none().then_some(at)
    }
}

/// Checks the targets of a plan that has all cells of its experiment.
///
/// # Errors
/// The index of the first wrong one, its key, and the problem, which follows the key in a sentence.
pub fn check(plan: &Plan) -> Result<(), (usize, &'static str, String)> {
    for (nth, target) in plan.targets.iter().enumerate() {
        check_one(target, plan).map_err(|(key, problem)| (nth, key, problem))?;
    }
    Ok(())
}

fn check_one(target: &Target, plan: &Plan) -> Result<(), (&'static str, String)> {
    let wrong = |what: &str| format!("is wrong: {what}");
    if target.name.trim().is_empty() {
        return Err(("name", "is empty: say what the target is".to_owned()));
    }
    find(plan, &target.metric, Known::Metric).map_err(|what| ("metric", wrong(&what)))?;
    let bound = target.bound().filter(|it| it.value.is_finite());
    if bound.is_none() {
        let problem = "has not one bound: give one of `at-most`, `at-least`, `below` and `above`";
        return Err(("name", problem.to_owned()));
    }
    if target.is_ratio() && target.unit.is_some() {
        return Err(("unit", "is of a value, and a ratio has none".to_owned()));
    }
    let metric = plan.metric(&target.metric);
    if let Some((of, unit)) = metric.map(|it| &it.unit).zip(target.unit.as_ref())
        && unit.to(of).is_none()
    {
        let problem = format!("is `{unit}`, but `{}` is in `{of}`", target.metric);
        return Err(("unit", problem));
    }
    for (key, factors) in [("of", &target.of), ("to", &target.to)] {
        for (name, value) in factors {
            find(plan, name, Known::Factor).map_err(|what| (key, wrong(&what)))?;
            check_value(plan, name, value).map_err(|what| (key, wrong(&what)))?;
        }
    }
    let cells = || plan.last_stage().into_iter().flat_map(|it| &it.cells);
    let Some(at) = target.cell(cells()) else {
        let problem = "matches no cell, or several: name the factors that tell them apart";
        return Err(("of", problem.to_owned()));
    };
    let cell = cells().nth(at);
    if target.is_ratio()
        && cell
            .and_then(|cell| other(&target.to, cell, cells()))
            .is_none()
    {
        let problem = "matches not one other cell: name more factors";
        return Err(("to", problem.to_owned()));
    }
    Ok(())
}

/// Judges the targets of a run, in the order of its plan.
#[must_use]
pub fn judged(run: &Run) -> Vec<Judged> {
    let stages = answer::stages(run);
    let targets = run.plan.targets.iter();
    targets
        .map(|target| judge(run, stages.last(), target))
        .collect()
}

fn judge(run: &Run, last: Option<&StageResults>, target: &Target) -> Judged {
    let bound = run.plan.metric(&target.metric).and_then(|metric| {
        let bound = target.bound_of(metric)?;
        Some((metric, bound))
    });
    let undecided = |reason: &str| Judged {
        name: target.name.clone(),
        figure: String::new(),
        verdict: Verdict::NotDecided(reason.to_owned()),
        left_out: String::new(),
    };
    let Some((metric, bound)) = bound else {
        return undecided("the run has no such metric");
    };
    let unit = if target.is_ratio() {
        Unit::ratio()
    } else {
        metric.unit.clone()
    };
    let name = format!(
        "{}: {} {}",
        target.name,
        bound.words(),
        unit.words(bound.value)
    );
    let Some(cells) = last.and_then(|last| cells_of(target, &last.cells)) else {
        let undecided = undecided("the run does not have these cells");
        return Judged { name, ..undecided };
    };
    let values: Vec<Values> = cells.iter().map(|cell| cell.values(&metric.name)).collect();
    let (estimate, verdict) = match estimate(&values) {
        // No server that fails is within a bound.
        Err(_) if values[0].failing.is_some() => (None, Verdict::Missed),
        Err(reason) => (None, Verdict::NotDecided(reason)),
        Ok(estimate) => (
            Some(estimate),
            verdict_of(bound, &estimate, &cells, &values),
        ),
    };
    let figure = estimate.map(|it| {
        let (low, high) = (it.interval.low, it.interval.high);
        format!(
            "{} {}",
            unit.words(it.value),
            unit.range(it.value, low, high)
        )
    });
    Judged {
        name,
        figure: figure.unwrap_or_default(),
        verdict,
        left_out: left_out(&cells, &values),
    }
}

/// The cell of a target, and the other one of a ratio.
fn cells_of<'r, 'a>(target: &Target, cells: &'r [Cell<'a>]) -> Option<Vec<&'r Cell<'a>>> {
    let factors = || cells.iter().map(|it| it.factors);
    let own = &cells[target.cell(factors())?];
    if !target.is_ratio() {
        return Some(vec![own]);
    }
    let other = other(&target.to, own.factors, factors())?;
    Some(vec![own, &cells[other]])
}

/// The figure, or the reason why there is none.
fn estimate(values: &[Values]) -> Result<Estimate, String> {
    let sides = ["of this cell", "of the other cell"];
    let unknown = values
        .iter()
        .zip(sides)
        .find_map(|(values, side)| comparison::unknown(values, side));
    if let Some(reason) = unknown {
        return Err(reason);
    }
    match values {
        [own] => own
            .median()
            .ok_or_else(|| "a value is no finite number".to_owned()),
        [of, to] => {
            if !of.are_positive() || !to.are_positive() {
                return Err("a value is not above zero, so there is no ratio".to_owned());
            }
            comparison::tested(of, to, Scale::Ratio).map(|it| it.estimate)
        }
        _ => Err("there are not one or two cells".to_owned()),
    }
}

fn verdict_of(bound: Bound, estimate: &Estimate, cells: &[&Cell], values: &[Values]) -> Verdict {
    let undecided = |reason: &str| Verdict::NotDecided(reason.to_owned());
    if !comparison::has_full_confidence(estimate) {
        return undecided(comparison::TOO_FEW_TRIALS);
    }
    // The trials that succeeded are a biased sample if most did not.
    let is_mostly_missing =
        |(cell, values): (&&Cell, &Values)| 2 * values.valid.len() < cell.planned as usize;
    if cells.iter().zip(values).any(is_mostly_missing) {
        return undecided("more than half of the planned trials have no value that counts");
    }
    let interval = &estimate.interval;
    let holds = [interval.low, interval.high].map(|it| bound.holds(it));
    let is_go = match holds {
        [true, true] => true,
        [false, false] => false,
        _ => return undecided("the interval contains the bound"),
    };
    // The true value of a lower bound is higher, and that of the divisor makes the ratio lower.
    let has_bounds = |at: usize| values.get(at).is_some_and(|it| !it.bounds.is_empty());
    let (may_be_higher, may_be_lower) = (has_bounds(0), has_bounds(1));
    let could_reverse = match is_go == bound.is_lower {
        true => may_be_lower,
        false => may_be_higher,
    };
    match (could_reverse, is_go) {
        (true, _) => undecided(comparison::COULD_REVERSE),
        (false, true) => Verdict::Go,
        (false, false) => Verdict::Missed,
    }
}

/// The trials of the cells that a figure leaves out: `3 of 30 trials do not count (stalled); 2 of
/// 30 trials have no value; 1 of 30 trials missing`. Empty: none.
fn left_out(cells: &[&Cell], values: &[Values]) -> String {
    let planned: u32 = cells.iter().map(|it| it.planned).sum();
    let missing: u32 = cells.iter().map(|it| it.missing()).sum();
    let invalid: usize = values.iter().map(|it| it.invalid).sum();
    let trials = units::plural(planned.into(), "trial");
    let mut clauses = Vec::new();
    for (trials_of, why) in values.iter().filter_map(|it| it.failing.as_ref()) {
        clauses.push(format!("{trials_of} of {trials} fail ({why})"));
    }
    if invalid > 0 {
        let mut reasons: Vec<&str> = Vec::new();
        for reason in values.iter().filter_map(|it| it.reason.as_deref()) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        clauses.push(format!(
            "{invalid} of {trials} do not count ({})",
            reasons.join(", ")
        ));
    }
    let pairs = cells.iter().zip(values);
    let absent: usize = pairs
        .map(|(cell, values)| cell.measured.len().saturating_sub(values.count()))
        .sum();
    if absent > 0 {
        clauses.push(format!("{absent} of {trials} have no value"));
    }
    if missing > 0 {
        clauses.push(format!("{missing} of {trials} missing"));
    }
    clauses.join("; ")
}
