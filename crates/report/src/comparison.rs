//! Verdicts on the metrics of a run: each cell compared with the cell of the baseline.
//!
//! One factor is compared: the first of the plan that has several values in the stage and cells to
//! compare. Its reference, or else its first value, is the baseline. Two cells are compared if they
//! differ in that factor, and otherwise only in factors that it determines ([`pairs`]). A
//! comparison is the median of the ratios over all pairs of trials (Hodges and Lehmann's estimator)
//! with the interval of the rank-sum test ([`measure::RankTest`]), which is exact up to 2500 pairs
//! without ties; for a metric that has a value of zero or less anywhere in the stage, it is that of
//! the differences.
//!
//! A comparison is decided if the 95 % interval excludes no effect, and the test still rejects
//! equality after Holm's correction for all comparisons of that metric in the stage. It is not
//! known if more than half of the values of either side are invalid or lower bounds. If fewer are
//! lower bounds, only the direction that higher true values cannot reverse is decided. Nothing is
//! compared with a cell in which the server fails. A model whose trials of a cell are all equal has
//! no chance in it: two of its cells differ by exactly what they differ by.

mod pairs;
pub(crate) mod words;

use measure::{Estimate, RankTest, holm};

use crate::cell::{self, CONFIDENCE, Cell, Values};
use crate::record::{Better, Factor, Metric, Stage, Value};
use crate::{Run, limits, units};

pub(crate) use self::pairs::{Dependent, Wanted};
use self::pairs::{Pair, Pairs};

/// The kind of trials in virtual time.
const MODEL: &str = "model";
/// Why an interval decides nothing, as a clause.
pub(crate) const TOO_FEW_TRIALS: &str = "there are too few trials for a 95\u{a0}% interval";
/// Why lower bounds decide nothing, as a clause.
pub(crate) const COULD_REVERSE: &str =
    "some values are lower bounds, and the true ones could reverse it";

/// The comparisons of a stage.
pub(crate) struct Comparisons<'a> {
    /// The factor that is compared.
    pub(crate) factor: &'a Factor,
    /// Its value that the others are compared with.
    pub(crate) baseline: &'a Value,
    /// The factors that are equal on both sides of a comparison and vary between comparisons.
    pub(crate) equal: Vec<&'a Factor>,
    /// The factors that differ together with the compared one in some comparison.
    pub(crate) dependent: Vec<Dependent<'a>>,
    /// One for each metric that has a better direction and was measured.
    pub(crate) families: Vec<Family<'a>>,
    /// Cells without a cell of the baseline to compare with.
    pub(crate) unmatched: u64,
    /// Metrics that are not compared, because there would be more than [`limits::COMPARISONS`].
    pub(crate) omitted: Vec<&'a Metric>,
}

/// The comparisons of one metric, corrected together.
pub(crate) struct Family<'a> {
    pub(crate) metric: &'a Metric,
    pub(crate) scale: Scale,
    /// In the order of the cells.
    pub(crate) comparisons: Vec<Comparison<'a>>,
}

/// What a comparison computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Value ÷ baseline.
    Ratio,
    /// Value − baseline.
    Difference,
}

/// A cell compared with that of the baseline.
pub(crate) struct Comparison<'a> {
    /// Indices of the two cells in the stage.
    pub(crate) of: usize,
    pub(crate) to: usize,
    /// The value of the factor that is compared.
    pub(crate) value: &'a Value,
    pub(crate) verdict: Verdict,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    Decided(Effect),
    /// With the reason, if it is another than the interval.
    Undecided(Effect, Option<String>),
    /// Why, as a clause.
    Unknown(String),
    /// The server fails on one side: which, and why, as a clause.
    Fails(String),
}

/// A ratio or difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Effect {
    pub(crate) estimate: Estimate,
    /// Corrected for all comparisons of the metric.
    pub(crate) p_value: f64,
    /// Whether it is of a model without chance, so that it has no interval.
    pub(crate) is_exact: bool,
}

impl Verdict {
    /// Whether it says something.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown(_))
    }
}

impl Scale {
    /// The value that means no effect.
    pub(crate) fn neutral(self) -> f64 {
        match self {
            Self::Ratio => 1.0,
            Self::Difference => 0.0,
        }
    }
}

impl Family<'_> {
    /// `better`, `worse` or, of a model, `equal`.
    pub(crate) fn quality(&self, effect: &Effect) -> &'static str {
        match effect.estimate.value == self.scale.neutral() {
            true => "equal",
            false if self.is_better(effect) => "better",
            false => "worse",
        }
    }

    /// Whether a decided effect is an improvement.
    fn is_better(&self, effect: &Effect) -> bool {
        let is_higher = effect.estimate.value > self.scale.neutral();
        is_higher == (self.metric.better == Better::Higher)
    }
}

impl Comparisons<'_> {
    /// Whether a factor is compared, kept equal, or needed beside these to tell all cells apart.
    pub(crate) fn tells(&self, factor: &Factor) -> bool {
        let needed = self.dependent.iter().filter(|it| !it.is_implied);
        let mut others = self.equal.iter().copied().chain(needed.map(|it| it.factor));
        self.factor.name == factor.name || others.any(|it| it.name == factor.name)
    }
}

/// The comparisons of a stage, those that are wanted if there are any. None: no factor has several
/// values in it.
pub(crate) fn of<'a>(
    run: &'a Run,
    stage: &'a Stage,
    cells: &[Cell<'a>],
    wanted: Option<Wanted<'a>>,
) -> Option<Comparisons<'a>> {
    let Pairs {
        factor,
        baseline,
        equal,
        dependent,
        pairs,
        unmatched,
    } = Pairs::of(&cell::varied(&run.plan, stage), cells, wanted)?;
    let is_model = run.plan.kind == MODEL;
    let (mut families, mut omitted) = (Vec::new(), Vec::new());
    for metric in cell::measured(&run.plan, cells) {
        if metric.better == Better::Neither {
            continue;
        }
        if (families.len() + 1) * pairs.len() > limits::COMPARISONS {
            omitted.push(metric);
            continue;
        }
        let values: Vec<Values> = cells.iter().map(|cell| cell.values(&metric.name)).collect();
        families.push(family(metric, factor, baseline, &pairs, &values, is_model));
    }
    Some(Comparisons {
        factor,
        baseline,
        equal,
        dependent,
        families,
        unmatched,
        omitted,
    })
}

fn family<'a>(
    metric: &'a Metric,
    factor: &Factor,
    baseline: &Value,
    pairs: &[Pair<'a>],
    values: &[Values],
    is_model: bool,
) -> Family<'a> {
    let scale = match values.iter().all(Values::are_positive) {
        true => Scale::Ratio,
        false => Scale::Difference,
    };
    let subject = |value: &Value| words::subject(factor, value);
    let tested: Vec<Result<Tested, Verdict>> = pairs
        .iter()
        .map(|pair| {
            let sides = [(&values[pair.of], pair.value), (&values[pair.to], baseline)];
            let fails = sides.iter().find_map(|(values, value)| {
                let (trials, why) = values.failing.as_ref()?;
                let trials = units::plural(*trials as u64, "trial");
                Some(format!("{} fails in {trials} ({why})", factor.label(value)))
            });
            if let Some(fails) = fails {
                return Err(Verdict::Fails(fails));
            }
            let unknown = sides
                .iter()
                .find_map(|(it, value)| unknown(it, &subject(value)));
            if let Some(reason) = unknown {
                return Err(Verdict::Unknown(reason));
            }
            let [of, to] = sides.map(|(values, _)| values);
            let tested = tested(of, to, scale).map_err(Verdict::Unknown)?;
            if !is_model || !of.are_equal() || !to.are_equal() {
                return Ok(tested);
            }
            Err(Verdict::Decided(Effect {
                estimate: tested.estimate,
                p_value: 0.0,
                is_exact: true,
            }))
        })
        .collect();
    let p_values: Vec<f64> = tested.iter().flatten().map(|it| it.p_value).collect();
    let count = p_values.len() as u64;
    // Every p-value of the test is a probability, so there are corrected ones.
    let mut corrected = holm(&p_values).unwrap_or_default().into_iter();
    let verdict = |tested: Result<Tested, Verdict>| match tested {
        Err(verdict) => verdict,
        Ok(tested) => {
            let effect = Effect {
                estimate: tested.estimate,
                p_value: corrected.next().unwrap_or(1.0),
                is_exact: false,
            };
            decide(effect, &tested, scale, count)
        }
    };
    let verdicts = tested.into_iter().map(verdict);
    let comparisons = pairs
        .iter()
        .zip(verdicts)
        .map(|(pair, verdict)| Comparison {
            of: pair.of,
            to: pair.to,
            value: pair.value,
            verdict,
        });
    Family {
        metric,
        scale,
        comparisons: comparisons.collect(),
    }
}

/// A test of two cells, not yet corrected.
pub(crate) struct Tested {
    pub(crate) estimate: Estimate,
    p_value: f64,
    /// Whether the true effect may be higher, and whether it may be lower.
    may_be: (bool, bool),
}

/// Compares the values of two cells.
///
/// # Errors
/// Why they cannot be compared, as a clause.
pub(crate) fn tested(of: &Values, to: &Values, scale: Scale) -> Result<Tested, String> {
    let Some(test) = RankTest::of(&of.valid, &to.valid, CONFIDENCE) else {
        return Err("there are too many trials for the test".to_owned());
    };
    let estimate = match scale {
        Scale::Ratio => test.ratio.unwrap_or(test.shift),
        Scale::Difference => test.shift,
    };
    Ok(Tested {
        estimate,
        p_value: test.p_value,
        may_be: (!of.bounds.is_empty(), !to.bounds.is_empty()),
    })
}

/// Why nothing can be concluded from the values of a cell. None: something can.
pub(crate) fn unknown(values: &Values, subject: &str) -> Option<String> {
    let count = values.count();
    if let Some((trials, why)) = &values.failing {
        let trials = units::plural(*trials as u64, "trial");
        return Some(format!("{trials} {subject} fail ({why})"));
    }
    if count == 0 {
        return Some(format!("no trial {subject} has a value"));
    }
    let of_all = |some: usize| match some == count {
        true => format!("all {} {subject}", units::plural(count as u64, "value")),
        false => format!(
            "{some} of {} {subject}",
            units::plural(count as u64, "value")
        ),
    };
    if values.mostly_invalid() {
        let reason = values.reason.as_deref().unwrap_or_default();
        return Some(format!(
            "{} do not count ({reason})",
            of_all(values.invalid)
        ));
    }
    if 2 * values.bounds.len() > count {
        return Some(format!("{} are lower bounds", of_all(values.bounds.len())));
    }
    let unusable = values.invalid + values.bounds.len();
    (2 * unusable > count).then(|| format!("{} do not count or are lower bounds", of_all(unusable)))
}

fn decide(effect: Effect, tested: &Tested, scale: Scale, count: u64) -> Verdict {
    let Estimate {
        value, interval, ..
    } = effect.estimate;
    let undecided = |reason: Option<String>| Verdict::Undecided(effect, reason);
    if !has_full_confidence(&effect.estimate) {
        return undecided(Some(TOO_FEW_TRIALS.to_owned()));
    }
    if interval.contains(scale.neutral()) {
        return undecided(None);
    }
    if effect.p_value >= 1.0 - CONFIDENCE {
        let comparisons = units::plural(count, "comparison");
        let reason = format!("it is not significant after Holm's correction for {comparisons}");
        return undecided(Some(reason));
    }
    let (may_be_higher, may_be_lower) = tested.may_be;
    let is_higher = value > scale.neutral();
    if (is_higher && may_be_lower) || (!is_higher && may_be_higher) {
        return undecided(Some(COULD_REVERSE.to_owned()));
    }
    Verdict::Decided(effect)
}

/// Whether an interval has 95 %; few trials give less.
pub(crate) fn has_full_confidence(estimate: &Estimate) -> bool {
    // Order statistics and ranks attain a confidence that is at least the requested one.
    estimate.samples >= 2 && estimate.interval.confidence >= CONFIDENCE - 0.001
}
