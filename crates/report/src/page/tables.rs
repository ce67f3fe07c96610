//! The rows of the page's tables, as text.

use std::collections::{BTreeMap, BTreeSet};

use crate::answer::{StageResults, capitalised};
use crate::cell::{self, Cell};
use crate::comparison::{Comparison, Comparisons, Family, Verdict, words};
use crate::record::{Better, Factor, Metric, Outcome};
use crate::{Run, limits, published, units};

use super::Shown;
use super::front::head_of;

/// Rows of which the page shows the first [`limits::PAGE_ROWS`].
pub(super) struct Cut<T> {
    pub(super) rows: Vec<T>,
    pub(super) all: usize,
}

impl<T> Cut<T> {
    fn of(rows: impl Iterator<Item = T>) -> Self {
        let mut rows: Vec<T> = rows.collect();
        let all = rows.len();
        rows.truncate(limits::PAGE_ROWS);
        Self { rows, all }
    }

    /// A sentence on the rows that are not shown. Empty: all are.
    pub(super) fn remark(&self) -> String {
        remark(self.all, self.rows.len())
    }
}

fn remark(all: usize, shown: usize) -> String {
    match all - shown {
        0 => String::new(),
        _ => format!(
            "The first {} of {} rows; trials.csv has all trials.",
            units::count(shown as u64),
            units::count(all as u64)
        ),
    }
}

/// The comparisons of one metric.
pub(super) struct FamilyTable {
    pub(super) title: String,
    pub(super) better: &'static str,
    /// Heads of the columns of factors: those that are the same on both sides, then the compared.
    pub(super) factors: Vec<String>,
    /// Whether a comparison has other differences that are told.
    pub(super) has_differences: bool,
    pub(super) effect_head: String,
    pub(super) base_head: String,
    pub(super) rows: Vec<ComparisonRow>,
    pub(super) remark: String,
}

pub(super) struct ComparisonRow {
    pub(super) factors: Vec<String>,
    /// What differs besides the compared factor.
    pub(super) differences: String,
    pub(super) of: Shown,
    pub(super) to: Shown,
    pub(super) effect: String,
    pub(super) p_value: String,
    pub(super) verdict: String,
}

pub(super) fn family(comparisons: &Comparisons, family: &Family, cells: &[Cell]) -> FamilyTable {
    let factors = comparisons.equal.iter().chain([&comparisons.factor]);
    let count = family.comparisons.len();
    let shown = family.comparisons.iter().take(limits::PAGE_ROWS);
    let rows = shown.filter_map(|comparison| row(comparisons, family, comparison, cells));
    FamilyTable {
        title: capitalised(&words::title(family.metric)),
        better: better(family.metric.better),
        factors: factors.map(|factor| capitalised(&factor.title)).collect(),
        has_differences: !comparisons.dependent.is_empty(),
        effect_head: family.effect_head(comparisons.factor, comparisons.baseline),
        base_head: capitalised(&words::subject(comparisons.factor, comparisons.baseline)),
        rows: rows.collect(),
        remark: remark(count, count.min(limits::PAGE_ROWS)),
    }
}

fn row(
    comparisons: &Comparisons,
    family: &Family,
    comparison: &Comparison,
    cells: &[Cell],
) -> Option<ComparisonRow> {
    let (of, to) = (cells.get(comparison.of)?, cells.get(comparison.to)?);
    let factors = comparisons.equal.iter().chain([&comparisons.factor]);
    let (effect, p_value) = match &comparison.verdict {
        Verdict::Decided(effect) | Verdict::Undecided(effect, _) => {
            (family.effect(effect), p_value(effect.p_value))
        }
        Verdict::Unknown(_) | Verdict::Fails(_) => ("–".to_owned(), "–".to_owned()),
    };
    let metric = family.metric;
    Some(ComparisonRow {
        factors: factors.map(|factor| value_text(factor, of)).collect(),
        differences: comparisons.differences(comparison, cells),
        of: Shown::spread(metric, &of.values(&metric.name), of.measured.len()),
        to: Shown::spread(metric, &to.values(&metric.name), to.measured.len()),
        effect,
        p_value,
        verdict: family.verdict(comparison),
    })
}

fn p_value(p: f64) -> String {
    match p {
        p if p < 0.0001 => "<\u{a0}0.0001".to_owned(),
        p => format!("{p:.4}"),
    }
}

fn value_text(factor: &Factor, cell: &Cell) -> String {
    let value = cell.value(factor);
    value.map_or("–".to_owned(), |value| factor.value_text(value))
}

/// The cells of a stage, of one group of metrics.
pub(super) struct CellTable {
    pub(super) caption: String,
    pub(super) factors: Vec<String>,
    /// Heads of the metrics: title and detail.
    pub(super) heads: Vec<(String, String)>,
    pub(super) rows: Vec<CellRow>,
    pub(super) remark: String,
}

pub(super) struct CellRow {
    pub(super) factors: Vec<String>,
    pub(super) values: Vec<Shown>,
    /// `14 of 15`.
    pub(super) measured: String,
}

/// Two tables of a stage: the metrics that have a better direction, and those that have none.
pub(super) fn cells(run: &Run, results: &StageResults) -> Vec<CellTable> {
    let measured = cell::measured(&run.plan, &results.cells).into_iter();
    let (neither, directed): (Vec<&Metric>, Vec<&Metric>) =
        measured.partition(|metric| metric.better == Better::Neither);
    let stage = match run.plan.stages.as_slice() {
        [_] => String::new(),
        _ => format!("Stage {}: ", results.stage.name),
    };
    let groups = [
        (directed, "metrics that have a better direction"),
        (neither, "metrics that describe the trials"),
    ];
    let groups = groups
        .into_iter()
        .filter(|(metrics, _)| !metrics.is_empty());
    let mut tables: Vec<CellTable> = groups
        .map(|(metrics, what)| cell_table(results, &metrics, &format!("{stage}{what}")))
        .collect();
    if tables.is_empty() {
        let caption = format!("{stage}nothing was measured");
        tables.push(cell_table(results, &[], &caption));
    }
    tables
}

fn cell_table(results: &StageResults, metrics: &[&Metric], caption: &str) -> CellTable {
    let count = results.cells.len();
    let most = limits::PAGE_ROWS.min(limits::PAGE_VALUES / metrics.len().max(1));
    let shown = results.cells.iter().take(most);
    let fixed = fixed(results);
    let rows = shown.map(|cell| CellRow {
        factors: results
            .varied
            .iter()
            .map(|it| value_text(it, cell))
            .collect(),
        values: metrics
            .iter()
            .map(|metric| Shown::spread(metric, &cell.values(&metric.name), cell.measured.len()))
            .collect(),
        measured: format!("{} of {}", cell.measured.len(), cell.planned),
    });
    let heads = metrics.iter().map(|metric| head_of(metric));
    CellTable {
        caption: format!("{}{fixed}", capitalised(caption)),
        factors: results
            .varied
            .iter()
            .map(|it| capitalised(&it.title))
            .collect(),
        heads: heads.collect(),
        rows: rows.collect(),
        remark: remark(count, count.min(most)),
    }
}

/// The cell in words, if the stage has one only: no column tells its factors.
fn fixed(results: &StageResults) -> String {
    let [cell] = results.cells.as_slice() else {
        return String::new();
    };
    let values = cell.factors.iter();
    let values: Vec<String> = values
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    match values.is_empty() {
        true => String::new(),
        false => format!(", with {}", units::listed(&values)),
    }
}

/// Published values beside those of the last stage.
pub(super) struct PublishedTable {
    /// Heads of the columns of factors.
    pub(super) factors: Vec<String>,
    pub(super) rows: Vec<PublishedRow>,
}

pub(super) struct PublishedRow {
    pub(super) factors: Vec<String>,
    pub(super) metric: String,
    pub(super) value: String,
    pub(super) measured: Shown,
    pub(super) ratio: String,
    pub(super) source: String,
}

/// None: nothing was published.
pub(super) fn published(run: &Run, results: &StageResults) -> Option<PublishedTable> {
    let pairs = published::pairs(run, results);
    let rows = pairs.iter().map(|pair| {
        let (metric, cell) = (pair.metric, pair.cell);
        let factors = results.varied.iter().map(|it| value_text(it, cell));
        PublishedRow {
            factors: factors.collect(),
            metric: capitalised(&pair.words(&metric.title)),
            value: pair.published(),
            measured: match pair.other {
                None => Shown::spread(metric, &cell.values(&metric.name), cell.measured.len()),
                Some(_) => pair
                    .measured()
                    .map_or_else(Shown::absent, |it| Shown::text(&pair.text(it))),
            },
            ratio: pair.ratio(),
            source: pair.source.to_owned(),
        }
    });
    let factors = results.varied.iter().map(|it| capitalised(&it.title));
    (!pairs.is_empty()).then(|| PublishedTable {
        factors: factors.collect(),
        rows: rows.collect(),
    })
}

/// A trial that has no measurement.
pub(super) struct MissingRow {
    pub(super) place: String,
    pub(super) repeat: String,
    pub(super) why: String,
}

pub(super) fn missing(run: &Run) -> Cut<MissingRow> {
    let rows = run.missing().into_iter().map(|missing| MissingRow {
        place: place(run, missing.stage, missing.cell),
        repeat: (missing.repeat + 1).to_string(),
        why: match missing.failure {
            Some(why) => format!("failed: {why}"),
            None => "not run: the run was stopped, or has not finished".to_owned(),
        },
    });
    Cut::of(rows)
}

/// A cell in words: `memcached at load level 0.8`, with its stage if the run has several.
pub(crate) fn place(run: &Run, stage: &str, cell: u32) -> String {
    let of_stage = match run.plan.stages.as_slice() {
        [_] => None,
        _ => Some(format!("stage {stage}")),
    };
    let factors = run
        .plan
        .stage(stage)
        .and_then(|it| it.cells.get(cell as usize));
    let values = run.plan.factors.iter().filter_map(|factor| {
        let value = factors?.get(&factor.name)?;
        Some(factor.words(value))
    });
    let words: Vec<String> = of_stage.into_iter().chain(values).collect();
    match words.is_empty() {
        true => format!("cell {cell}"),
        false => words.join(", "),
    }
}

/// A trial that failed before it was measured, or before its last failure.
pub(super) struct RetriedRow {
    pub(super) id: String,
    pub(super) place: String,
    pub(super) retries: u32,
    pub(super) result: &'static str,
}

pub(super) fn retried(run: &Run) -> Cut<RetriedRow> {
    let retried = run.records.iter().filter(|record| record.retries > 0);
    Cut::of(retried.map(|record| RetriedRow {
        id: record.id.clone(),
        place: place(run, &record.stage, record.cell),
        retries: record.retries,
        result: match record.outcome {
            Outcome::Measured(_) => "measured",
            Outcome::Failed(_) => "failed again",
        },
    }))
}

/// A trial that has a fault.
pub(super) struct FaultRow {
    pub(super) id: String,
    pub(super) place: String,
    pub(super) class: &'static str,
    pub(super) reason: String,
}

pub(super) fn faults(run: &Run) -> Cut<FaultRow> {
    let faults = run.records.iter().filter_map(|record| {
        let fault = record.measured()?.fault.as_ref()?;
        Some(FaultRow {
            id: record.id.clone(),
            place: place(run, &record.stage, record.cell),
            class: fault.class.words(),
            reason: fault.reason.clone(),
        })
    });
    Cut::of(faults)
}

/// Values of a metric that have the same flag.
pub(super) struct FlagRow {
    pub(super) metric: String,
    pub(super) flag: String,
    pub(super) trials: String,
}

pub(super) fn flags(run: &Run) -> Vec<FlagRow> {
    let mut counts: BTreeMap<(&str, String), u64> = BTreeMap::new();
    let measured = run.records.iter().filter_map(|record| record.measured());
    for (name, flag) in measured.flat_map(|it| &it.flags) {
        let bound = flag.lower_bound.then(|| "lower bound".to_owned());
        let invalid = flag.invalid.as_ref();
        let invalid = invalid.map(|reason| format!("does not count: {reason}"));
        for words in bound.into_iter().chain(invalid) {
            *counts.entry((name, words)).or_default() += 1;
        }
    }
    let rows = counts.into_iter().map(|((name, flag), count)| FlagRow {
        metric: name.to_owned(),
        flag,
        trials: units::count(count),
    });
    rows.collect()
}

/// Trials that have notes: identity and notes.
pub(super) fn noted(run: &Run) -> Cut<(String, String)> {
    let noted = run.records.iter().filter(|record| !record.notes.is_empty());
    Cut::of(noted.map(|record| (record.id.clone(), record.notes.join("; "))))
}

/// The definition of a factor.
pub(super) struct FactorRow {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) unit: String,
    pub(super) values: String,
    pub(super) reference: String,
}

pub(super) fn factors(run: &Run) -> Vec<FactorRow> {
    let rows = run.plan.factors.iter().map(|factor| {
        let text = |value| factor.value_text(value);
        let values: Vec<String> = factor.values.iter().map(text).collect();
        FactorRow {
            name: factor.name.clone(),
            title: factor.title.clone(),
            unit: factor
                .unit
                .as_ref()
                .map_or("name".to_owned(), ToString::to_string),
            values: values.join(", "),
            reference: factor.reference.as_ref().map(text).unwrap_or_default(),
        }
    });
    rows.collect()
}

/// The definition of a metric.
pub(super) struct MetricRow {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) unit: String,
    pub(super) better: &'static str,
    pub(super) judged: String,
    /// The number of trials that have a value.
    pub(super) trials: String,
}

pub(super) fn metrics(run: &Run) -> Vec<MetricRow> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for record in &run.records {
        let measured = record
            .measured()
            .into_iter()
            .flat_map(|it| it.metrics.keys());
        let names: BTreeSet<&String> = measured.chain(record.resolved.keys()).collect();
        for name in names {
            *counts.entry(name).or_default() += 1;
        }
    }
    let rows = run.plan.metrics.iter().map(|metric| MetricRow {
        name: metric.name.clone(),
        title: metric.title.clone(),
        unit: metric.unit.to_string(),
        better: better(metric.better),
        judged: metric
            .judged
            .clone()
            .unwrap_or("every value counts".to_owned()),
        trials: units::count(
            counts
                .get(metric.name.as_str())
                .copied()
                .unwrap_or_default(),
        ),
    });
    rows.collect()
}

pub(super) fn better(better: Better) -> &'static str {
    match better {
        Better::Lower => "lower",
        Better::Higher => "higher",
        Better::Neither => "neither",
    }
}
