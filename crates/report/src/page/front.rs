//! The verdicts: the small table below the first figure, with a row for each cell told of.

use std::collections::BTreeSet;

use super::Shown;
use crate::answer::{self, StageResults, capitalised};
use crate::cell::Cell;
use crate::comparison::{Comparisons, Family, Verdict, words};
use crate::figures::SEQUENTIAL;
use crate::record::{Factor, Measured, Metric};
use crate::{Run, health, limits, units};

/// The table as the template takes it.
#[derive(Default)]
pub(super) struct Front {
    /// What its cells have in common, and that others are not shown.
    pub(super) caption: String,
    /// Heads of the columns of factors.
    pub(super) factors: Vec<String>,
    /// Heads of the columns of values: head and detail.
    pub(super) heads: Vec<(String, String)>,
    pub(super) rows: Vec<Row>,
    /// What grey values are, with the remedy. Empty: there are none.
    pub(super) grey: String,
}

/// One cell.
pub(super) struct Row {
    pub(super) factors: Vec<String>,
    pub(super) values: Vec<Shown>,
    /// `14 of 15`.
    pub(super) measured: String,
    /// Verdicts, missing trials, values that do not count.
    pub(super) marks: Vec<String>,
}

/// A column of values.
#[derive(Clone, Copy)]
enum Column<'f, 'a> {
    Metric(&'a Metric),
    /// The comparison with the baseline.
    Effect(&'f Comparisons<'a>, &'f Family<'a>),
}

impl Front {
    pub(super) fn of(run: &Run, last: Option<&StageResults>) -> Self {
        let Some(last) = last else {
            return Self::default();
        };
        let (shown, at) = answer::shown(run, last);
        let columns = columns(run, last);
        let telling = telling(last, &shown);
        let rows = shown.iter().filter_map(|&index| {
            let cell = last.cells.get(index)?;
            Some(row(last, &telling, index, cell, &columns))
        });
        let rows: Vec<Row> = rows.collect();
        let values = || rows.iter().flat_map(|row| &row.values);
        let mut sentences = Vec::new();
        let is_exact = answer::metric(run, last).is_some_and(|it| last.is_exact(it));
        if is_exact {
            sentences.push("One value each: the model leaves nothing to chance.".to_owned());
        } else if values().any(|it| !it.range.is_empty()) {
            let low = match values().any(|it| it.note.starts_with('(')) {
                true => "; a lower confidence is in parentheses",
                false => "",
            };
            sentences.push(format!("Median of the trials and its 95 % interval{low}."));
        } else if last.stage.repeats.most == 1 {
            sentences.push("One trial each.".to_owned());
        }
        sentences.extend(also(last, &columns));
        sentences.extend(at.map(|at| format!("{}.", capitalised(&at))));
        if last.stage.repeats.is_sequential() {
            sentences.push(SEQUENTIAL.to_owned());
        }
        let others = last.cells.len() - shown.len();
        if others > 0 {
            let cells = units::plural(others as u64, "cell");
            sentences.push(format!("The part Cells has {cells} more."));
        }
        if last.telling().len() < last.varied.len() {
            let what = "The part Cells has the factors that follow from those shown.";
            sentences.push(what.to_owned());
        }
        Self {
            caption: sentences.join(" "),
            factors: telling.iter().map(|it| capitalised(&it.title)).collect(),
            heads: columns.iter().map(|column| column_head(*column)).collect(),
            grey: grey(run, values()),
            rows,
        }
    }
}

/// What else differs between the sides of the comparisons, as a sentence.
fn also(last: &StageResults, columns: &[Column]) -> Option<String> {
    let differences = columns.iter().find_map(|column| match column {
        Column::Effect(comparisons, family) => {
            Some(comparisons.all_differences(family, &last.cells))
        }
        Column::Metric(_) => None,
    })?;
    let is_told = !differences.is_empty();
    is_told.then(|| format!("Also different from what they are compared with: {differences}."))
}

/// The factors that tell the cells shown apart.
fn telling<'a>(last: &StageResults<'a>, shown: &[usize]) -> Vec<&'a Factor> {
    let mut telling = last.telling();
    let differs = |factor: &&Factor| {
        let mut values = shown.iter().map(|&it| last.cells[it].value(factor));
        let first = values.next();
        values.any(|it| Some(it) != first)
    };
    if shown.len() < last.cells.len() && telling.iter().any(differs) {
        telling.retain(differs);
    }
    telling
}

/// What grey values are: each reason that the head of the page does not say, with the remedy.
/// Empty: there are none.
pub(super) fn grey<'s>(run: &Run, values: impl Iterator<Item = &'s Shown>) -> String {
    let faults = run.records.iter();
    let faults = faults.filter_map(|it| Some(&it.measured()?.fault.as_ref()?.reason));
    let said: BTreeSet<&String> = faults.collect();
    let all: Vec<&String> = values.filter_map(|it| it.out.as_ref()).collect();
    let mut reasons: Vec<&String> = Vec::new();
    for reason in all.iter().filter(|it| !said.contains(*it)) {
        if !reasons.contains(reason) {
            reasons.push(reason);
        }
    }
    let remedy = health::remedy(reasons.iter().map(|it| it.as_str()));
    let more = reasons.len().saturating_sub(limits::REASONS) as u64;
    let shown = reasons.iter().take(limits::REASONS);
    let mut shown: Vec<String> = shown
        .map(|it| units::shortened(it, limits::REASON_CHARACTERS))
        .collect();
    shown.extend((more > 0).then(|| units::plural(more, "other reason")));
    match (all.is_empty(), shown.is_empty()) {
        (true, _) => String::new(),
        (_, true) => "Grey values are not compared; the head of the page says why.".to_owned(),
        _ => {
            let reasons = units::listed(&shown);
            format!("Grey values are not compared: {reasons}.{remedy}")
        }
    }
}

/// The metrics, that of the answer first and with its comparison.
fn columns<'f, 'a>(run: &'a Run, last: &'f StageResults<'a>) -> Vec<Column<'f, 'a>> {
    let metrics = answer::columns(run, last, limits::FRONT_METRICS).into_iter();
    let mut columns: Vec<Column> = metrics.map(Column::Metric).collect();
    let main = answer::metric(run, last);
    if let Some((main, comparisons)) = main.zip(last.comparisons.as_ref()) {
        let mut families = comparisons.families.iter();
        let family = families.find(|family| family.metric.name == main.name);
        if let Some(family) = family.filter(|family| !family.comparisons.is_empty()) {
            columns.insert(1, Column::Effect(comparisons, family));
        }
    }
    columns
}

fn column_head(column: Column) -> (String, String) {
    match column {
        Column::Metric(metric) => head_of(metric),
        Column::Effect(comparisons, family) => (
            String::new(),
            family.effect_head(comparisons.factor, comparisons.baseline),
        ),
    }
}

/// The head of a column of a metric, and its detail.
pub(super) fn head_of(metric: &Metric) -> (String, String) {
    match metric.title.split_once(", ") {
        Some((title, detail)) => (capitalised(title), detail.to_owned()),
        None => (capitalised(&metric.title), String::new()),
    }
}

fn row(
    last: &StageResults,
    telling: &[&Factor],
    index: usize,
    cell: &Cell,
    columns: &[Column],
) -> Row {
    let text = |factor: &&Factor| {
        let value = cell.value(factor);
        value.map_or("–".to_owned(), |value| factor.value_text(value))
    };
    let value = |column: &Column| match column {
        Column::Metric(metric) => Shown::median(metric, &cell.values(&metric.name)),
        Column::Effect(comparisons, family) => effect(comparisons, family, index, cell),
    };
    Row {
        factors: telling.iter().map(text).collect(),
        values: columns.iter().map(value).collect(),
        measured: format!("{} of {}", cell.measured.len(), cell.planned),
        marks: marks(last, index, cell, columns),
    }
}

fn effect(comparisons: &Comparisons, family: &Family, index: usize, cell: &Cell) -> Shown {
    if cell.value(comparisons.factor) == Some(comparisons.baseline) {
        return Shown::text("baseline");
    }
    match answer::comparison_of(family, index).map(|it| &it.verdict) {
        None | Some(Verdict::Unknown(_) | Verdict::Fails(_)) => Shown::absent(),
        Some(Verdict::Decided(effect) | Verdict::Undecided(effect, _)) => {
            let words = family.effect(effect);
            let (median, range) = words.split_once(" [").unwrap_or((&words, ""));
            let range = match range.is_empty() {
                true => String::new(),
                false => format!("[{range}"),
            };
            Shown {
                range,
                ..Shown::text(median)
            }
        }
    }
}

/// The verdict of a row, and what qualifies it.
fn marks(last: &StageResults, index: usize, cell: &Cell, columns: &[Column]) -> Vec<String> {
    let mut marks = Vec::new();
    let failing = cell
        .measured
        .iter()
        .filter(|(_, it)| it.failing().is_some());
    let failing = failing.count() as u64;
    if failing > 0 {
        marks.push(format!(
            "fails here, in {}",
            units::plural(failing, "trial")
        ));
    }
    let is_out = |it: &Measured| it.fault.is_some() && it.failing().is_none();
    let faulty = cell.measured.iter().filter(|(_, it)| is_out(it)).count();
    let is_partly = |it: &Measured| it.fault.as_ref().is_some_and(|it| !it.spares.is_empty());
    if faulty > 0 {
        let how = match cell.measured.iter().any(|(_, it)| is_partly(it)) {
            true => "count in part",
            false => "do not count",
        };
        marks.push(format!("{faulty} {how}"));
    }
    for column in columns {
        match column {
            Column::Metric(metric) => {
                let invalid = cell.values(&metric.name).invalid;
                if invalid > faulty {
                    let title = words::title(metric);
                    marks.push(format!("{title}: {invalid} do not count"));
                }
            }
            Column::Effect(_, family) => {
                let comparison = answer::comparison_of(family, index);
                marks.extend(comparison.map(|it| match &it.verdict {
                    Verdict::Decided(effect) => family.quality(effect).to_owned(),
                    Verdict::Undecided(effect, _) if effect.estimate.samples < 2 => {
                        "one trial".to_owned()
                    }
                    Verdict::Undecided(_, None) => match answer::repeats(family, it, &last.cells) {
                        Some(remedy) => format!("undecided: {remedy}"),
                        None => "undecided".to_owned(),
                    },
                    Verdict::Undecided(_, Some(_)) => "not decided by so few trials".to_owned(),
                    Verdict::Unknown(_) => "not known".to_owned(),
                    Verdict::Fails(_) => "no comparison".to_owned(),
                }));
            }
        }
    }
    if cell.missing() > 0 {
        marks.push(format!("{} missing", cell.missing()));
    }
    marks
}
