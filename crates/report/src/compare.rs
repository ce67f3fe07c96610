//! Compares the cells of a run, or two runs of one experiment.
//!
//! Several runs become one whose first factor is the run ([`joined`]); then everything is as within
//! a run: a comparison is between cells that differ in that factor alone, by the test of
//! `comparison`, with Holm's correction over all cells of a metric.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use crate::answer;
use crate::cell::Cell;
use crate::comparison::{Comparison, Comparisons, Family, Scale, Verdict, words};
use crate::record::{Better, Difference, Factor, Factors, Metric, Plan, Record, Value};
use crate::terminal::{row, told_apart, wrapped};
use crate::{Run, limits, page, units};

/// Name of the factor by which runs differ.
pub(crate) const RUN: &str = "run";

/// Width of the column that names the cells.
const PLACE_WIDTH: usize = 30;
/// Width of a column of medians.
const MEDIAN_WIDTH: usize = 11;
/// Width of the column of effects.
const EFFECT_WIDTH: usize = 20;

/// A bound on the effect of a comparison: `response_p99_ns > 1.05x`.
///
/// It is exceeded if the whole interval of the ratio lies beyond the factor, in a comparison that
/// is decided, or if the server fails that did not before. So a machine too noisy to tell exceeds
/// no bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// Name of the metric.
    pub metric: String,
    /// Whether higher ratios exceed it; else lower ones do.
    pub is_upper: bool,
    /// The ratio.
    pub factor: f64,
}

/// The comparisons of all cells, as text, and the bounds that they exceed.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// A table for each metric. Ends with a line break.
    pub text: String,
    /// A sentence for each comparison that exceeds a bound.
    pub exceeded: Vec<String>,
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            || format!("`{text}` is not `METRIC > FACTORx`, such as `response_p99_ns > 1.05x`");
        let (at, is_upper) = match (text.find('>'), text.find('<')) {
            (Some(at), None) => (at, true),
            (None, Some(at)) => (at, false),
            _ => return Err(form()),
        };
        let metric = text[..at].trim();
        let factor = text[at + 1..].trim().strip_suffix('x').ok_or_else(form)?;
        let factor: f64 = factor.trim().parse().map_err(|_| form())?;
        if metric.is_empty() || !factor.is_finite() || factor <= 0.0 {
            return Err(form());
        }
        Ok(Self {
            metric: metric.to_owned(),
            is_upper,
            factor,
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_upper { '>' } else { '<' };
        write!(f, "{} {sign} {}x", self.metric, self.factor)
    }
}

impl Bound {
    fn is_exceeded_by(&self, family: &Family, comparison: &Comparison, cells: &[Cell]) -> bool {
        let is_beyond = match &comparison.verdict {
            Verdict::Decided(effect) => match self.is_upper {
                true => effect.estimate.interval.low > self.factor,
                false => effect.estimate.interval.high < self.factor,
            },
            // A server that has begun to fail is beyond any bound.
            Verdict::Fails(_) => {
                let fails = |cell: usize| cells[cell].values(&self.metric).failing.is_some();
                fails(comparison.of) && !fails(comparison.to)
            }
            Verdict::Undecided(..) | Verdict::Unknown(_) => false,
        };
        family.metric.name == self.metric && is_beyond
    }
}

/// Runs of one experiment as one, with a factor for the run, whose first value is the baseline.
/// Metrics and stages that only some of them have are left out.
///
/// # Errors
/// There are none, or they are not of one experiment: the kind of trial, the factors or the
/// definition of a metric differ. The error is a sentence.
pub fn joined(runs: &[&Run]) -> Result<Run, String> {
    let (baseline, others) = runs.split_first().ok_or("there is no run")?;
    for other in others {
        check_comparable(&baseline.plan, &other.plan)?;
    }
    let names = names(runs)?;
    let mut plan = baseline.plan.clone();
    plan.figures.clear();
    plan.published.clear();
    plan.targets.clear();
    plan.metrics.retain(|metric| {
        others.iter().all(|other| {
            let other = other.plan.metric(&metric.name);
            other.is_some_and(|other| other.unit == metric.unit && other.better == metric.better)
        })
    });
    for factor in &mut plan.factors {
        let of_others = others.iter().filter_map(|it| it.plan.factor(&factor.name));
        for value in of_others.flat_map(|it| &it.values) {
            if !factor.values.contains(value) {
                factor.values.push(value.clone());
            }
        }
    }
    plan.factors.insert(0, Factor::new(RUN, names.clone()));
    plan.stages
        .retain(|stage| others.iter().all(|it| it.plan.stage(&stage.name).is_some()));
    let mut records = Vec::new();
    for stage in &mut plan.stages {
        stage.cells.clear();
        for (run, name) in runs.iter().zip(&names) {
            let with_run = |factors: &Factors| {
                let mut factors = factors.clone();
                factors.insert(RUN.to_owned(), name.clone());
                factors
            };
            let offset = stage.cells.len() as u32;
            let of_stage = run.records.iter().filter(|it| it.stage == stage.name);
            records.extend(of_stage.map(|record| Record {
                cell: record.cell + offset,
                factors: with_run(&record.factors),
                ..record.clone()
            }));
            let Some(own) = run.plan.stage(&stage.name) else {
                continue;
            };
            stage.cells.extend(own.cells.iter().map(with_run));
            stage.repeats.least = stage.repeats.least.min(own.repeats.least);
            stage.repeats.most = stage.repeats.most.max(own.repeats.most);
        }
    }
    Ok(Run {
        plan,
        records,
        ..(*baseline).clone()
    })
}

/// Checks whether two plans are of one experiment. The error is a sentence.
pub(crate) fn check_comparable(first: &Plan, second: &Plan) -> Result<(), String> {
    if first.kind != second.kind {
        return Err(format!(
            "the runs have trials of kind {} and {}: compare runs of one experiment",
            first.kind, second.kind
        ));
    }
    let factors = [first, second].map(|plan| {
        let mut names: Vec<String> = plan.factors.iter().map(|it| it.name.clone()).collect();
        names.sort();
        names
    });
    if factors[0].iter().any(|name| name == RUN) {
        return Err(format!(
            "the experiment has a factor `{RUN}`, the name by which two runs are told apart: rename it"
        ));
    }
    if factors[0] != factors[1] {
        let [first, second] = factors.map(|it| units::listed(&it));
        return Err(format!(
            "the runs have the factors {first} and {second}: compare runs of one experiment"
        ));
    }
    Ok(())
}

/// What tells runs apart: the names of their folders or, if two are equal, the paths.
fn names(runs: &[&Run]) -> Result<Vec<Value>, String> {
    let distinct = |of: &dyn Fn(&Run) -> Option<String>| {
        let names: Vec<String> = runs.iter().filter_map(|run| of(run)).collect();
        let is_distinct = names.iter().collect::<HashSet<_>>().len() == runs.len();
        is_distinct.then_some(names)
    };
    let by_name = distinct(&|run| Some(run.folder.file_name()?.to_string_lossy().into_owned()));
    let names = by_name.or_else(|| distinct(&|run| Some(run.folder.display().to_string())));
    let names = names.ok_or("both runs are the same folder")?;
    Ok(names.into_iter().map(Value::Text).collect())
}

/// What differs between the circumstances of two runs, as sentences.
#[must_use]
pub fn circumstances(baseline: &Run, other: &Run) -> Vec<String> {
    let mut sentences = vec![
        "The runs were made one after the other: a difference may be one of the machine's state."
            .to_owned(),
    ];
    let plans = [&baseline.plan, &other.plan];
    let [first_seed, other_seed] = plans.map(|it| it.seed.to_string());
    let [first_form, other_form] =
        plans.map(|it| if it.quick { "quick" } else { "full" }.to_owned());
    let mut differences = baseline.host.differences(&other.host);
    differences.extend(baseline.host.build_difference(&other.host));
    differences.extend(Difference::of("seed", first_seed, other_seed));
    differences.extend(Difference::of("form", first_form, other_form));
    sentences.extend(
        differences
            .iter()
            .map(|it| format!("Different {}: {:?} and {:?}.", it.what, it.first, it.second)),
    );
    if baseline.plan.settings != other.plan.settings {
        sentences.push("Their settings differ (plan.toml).".to_owned());
    }
    sentences
}

/// Compares the cells of the last stage: those of the first factor that has several values with its
/// reference. `metrics`: the names of those to show; empty: all that have a better direction.
///
/// # Errors
/// There is nothing to compare, or a name is not that of a compared metric. The error is a
/// sentence.
pub fn compare(run: &Run, metrics: &[String], bounds: &[Bound]) -> Result<Compared, String> {
    let stages = answer::stages(run);
    let last = stages.last().ok_or("the plan has no trials")?;
    let none = || "no factor has several values, so there is nothing to compare".to_owned();
    let comparisons = last.comparisons.as_ref().ok_or_else(none)?;
    let known: Vec<&str> = comparisons
        .families
        .iter()
        .map(|it| it.metric.name.as_str())
        .collect();
    let bounded = bounds.iter().map(|it| &it.metric);
    if let Some(unknown) = metrics
        .iter()
        .chain(bounded)
        .find(|it| !known.contains(&it.as_str()))
    {
        return Err(format!(
            "`{unknown}` is no metric that both sides have and that has a better direction; known: {}",
            known.join(", ")
        ));
    }
    let is_difference = |it: &&Family| it.scale == Scale::Difference;
    let differences = comparisons.families.iter().filter(is_difference);
    for family in differences {
        if bounds.iter().any(|it| it.metric == family.metric.name) {
            let name = &family.metric.name;
            return Err(format!(
                "`{name}` has values of zero or less, so it has no ratio to bound"
            ));
        }
    }
    let is_shown = |metric: &Metric| metrics.is_empty() || metrics.contains(&metric.name);
    let mut lines = vec![page::about(run)];
    let baseline = words::subject(comparisons.factor, comparisons.baseline);
    lines.push(format!(
        "Baseline: {}.",
        baseline.trim_start_matches("for ")
    ));
    for family in comparisons.families.iter().filter(|it| is_shown(it.metric)) {
        lines.push(String::new());
        lines.extend(table(comparisons, family, &last.cells));
    }
    if comparisons.unmatched > 0 {
        let cells = units::plural(comparisons.unmatched, "cell");
        lines.push(String::new());
        lines.push(format!(
            "{cells} had no cell of the baseline to compare with."
        ));
    }
    let mut exceeded = Vec::new();
    for bound in bounds {
        for family in &comparisons.families {
            let beyond = family
                .comparisons
                .iter()
                .filter(|it| bound.is_exceeded_by(family, it, &last.cells));
            exceeded.extend(beyond.map(|it| {
                let place = place(comparisons, it, &last.cells);
                let effect = match &it.verdict {
                    Verdict::Decided(effect) => family.effect(effect),
                    _ => family.verdict(it),
                };
                format!("{bound}: {place}: {effect}")
            }));
        }
    }
    Ok(Compared {
        text: wrapped(&lines),
        exceeded,
    })
}

fn table(comparisons: &Comparisons, family: &Family, cells: &[Cell]) -> Vec<String> {
    let metric = family.metric;
    let better = match metric.better {
        Better::Lower => "lower is better",
        _ => "higher is better",
    };
    let head = format!("{} ({}): {better}", metric.title, metric.name);
    let fields = |texts: [String; 5]| {
        let widths = [PLACE_WIDTH, MEDIAN_WIDTH, MEDIAN_WIDTH, EFFECT_WIDTH, 0];
        row(texts.iter().zip(widths))
    };
    let effect = match family.scale {
        Scale::Ratio => "ratio [95 %]",
        Scale::Difference => "difference [95 %]",
    };
    let heads = ["", "baseline", "other", effect, "verdict"];
    let mut lines = vec![head, fields(heads.map(str::to_owned))];
    let shown = family.comparisons.iter().take(limits::TERMINAL_ROWS);
    let names = family.comparisons.iter();
    let names: Vec<String> = names.map(|it| place(comparisons, it, cells)).collect();
    let names = told_apart(&names, PLACE_WIDTH);
    lines.extend(shown.zip(names).map(|(comparison, name)| {
        let median = |index: usize| {
            let values = cells.get(index).map(|it| it.values(&metric.name));
            let median = values
                .and_then(|it| it.spread())
                .map(|it| metric.unit.words(it.median));
            median.unwrap_or_else(|| "–".to_owned())
        };
        let effect = match &comparison.verdict {
            Verdict::Decided(effect) | Verdict::Undecided(effect, _) => family.effect(effect),
            Verdict::Unknown(_) | Verdict::Fails(_) => "–".to_owned(),
        };
        fields([
            name,
            median(comparison.to),
            median(comparison.of),
            effect,
            verdict(family, comparison),
        ])
    }));
    let others = family
        .comparisons
        .len()
        .saturating_sub(limits::TERMINAL_ROWS);
    if others > 0 {
        lines.push(format!(
            "… {}",
            units::plural(others as u64, "more comparison")
        ));
    }
    lines
}

/// The cell that is compared: its value of the compared factor, if there are several beside the
/// baseline, and those that both sides share.
fn place(comparisons: &Comparisons, comparison: &Comparison, cells: &[Cell]) -> String {
    let mut factors = comparisons.equal.clone();
    if comparisons.factor.values.len() > 2 || factors.is_empty() {
        factors.insert(0, comparisons.factor);
    }
    let cell = cells.get(comparison.of);
    let texts = factors.iter().filter_map(|factor| {
        let text = factor.label(cell?.value(factor)?);
        Some(units::shortened(&text, limits::NAME_CHARACTERS))
    });
    texts.collect::<Vec<_>>().join(" · ")
}

/// `12 % lower: better`, `no difference larger than 6 %`, or why nothing is decided.
fn verdict(family: &Family, comparison: &Comparison) -> String {
    let percent = |ratio: f64| format!("{:.1}\u{a0}%", (ratio - 1.0).abs() * 100.0);
    match (&comparison.verdict, family.scale) {
        (Verdict::Decided(effect), Scale::Ratio) => {
            let ratio = effect.estimate.value;
            let way = if ratio > 1.0 { "higher" } else { "lower" };
            format!("{} {way}: {}", percent(ratio), family.verdict(comparison))
        }
        (Verdict::Undecided(effect, None), Scale::Ratio) => {
            let interval = &effect.estimate.interval;
            let most = (interval.high - 1.0).max(1.0 - interval.low);
            format!("no difference larger than {}", percent(1.0 + most))
        }
        _ => family.verdict(comparison),
    }
}
