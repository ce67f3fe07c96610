//! The table that stands directly below the answer: one row for each cell shown.

use super::Shown;
use crate::answer::{self, StageResults};
use crate::cell::{Cell, Values};
use crate::comparison::{Comparisons, Family, Verdict, words};
use crate::figures::SEQUENTIAL;
use crate::record::{Factor, Metric};
use crate::{Run, limits, units};

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
}

/// One cell.
pub(super) struct Row {
    pub(super) factors: Vec<String>,
    pub(super) values: Vec<Shown>,
    /// `14 of 15`.
    pub(super) measured: String,
    /// Caveats: verdicts, missing and suspect trials, values that do not count.
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
        let (shown, at) = answer::shown(last);
        let columns = columns(run, last);
        let rows = shown.iter().filter_map(|&index| {
            let cell = last.cells.get(index)?;
            Some(row(last, index, cell, &columns))
        });
        let others = last.cells.len() - shown.len();
        let at = at.map(|at| format!(", {at}")).unwrap_or_default();
        let mut caption = format!(
            "Median of the trials{at}, and its 95 % interval; a lower confidence is given in \
             parentheses. Values that do not count are left out."
        );
        if last.stage.repeats.is_sequential() {
            caption.push_str(&format!(" {SEQUENTIAL}"));
        }
        if others > 0 {
            let cells = units::plural(others as u64, "cell");
            caption.push_str(&format!(" The part Cells has {cells} more."));
        }
        let factors = last.telling();
        if factors.len() < last.varied.len() {
            caption.push_str(" The part Cells has the factors that follow from those shown.");
        }
        Self {
            caption,
            factors: factors.iter().map(|it| head(&it.title)).collect(),
            heads: columns.iter().map(|column| column_head(*column)).collect(),
            rows: rows.collect(),
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
        Column::Metric(metric) => match metric.title.split_once(", ") {
            Some((title, detail)) => (head(title), detail.to_owned()),
            None => (head(&metric.title), String::new()),
        },
        Column::Effect(comparisons, family) => (
            String::new(),
            family.effect_head(comparisons.factor, comparisons.baseline),
        ),
    }
}

fn row(last: &StageResults, index: usize, cell: &Cell, columns: &[Column]) -> Row {
    let text = |factor: &&Factor| {
        let value = cell.value(factor);
        value.map_or("–".to_owned(), |value| factor.value_text(value))
    };
    let value = |column: &Column| match column {
        Column::Metric(metric) => {
            let values = cell.values(&metric.name);
            estimated(metric, &values)
        }
        Column::Effect(comparisons, family) => effect(comparisons, family, index, cell),
    };
    Row {
        factors: last.telling().iter().map(text).collect(),
        values: columns.iter().map(value).collect(),
        measured: format!("{} of {}", cell.measured.len(), cell.planned),
        marks: marks(index, cell, columns),
    }
}

/// A median and its interval; `–` where there is none.
fn estimated(metric: &Metric, values: &Values) -> Shown {
    let shown = |estimate| Shown::of(metric, &estimate, values);
    values.median().map_or_else(Shown::absent, shown)
}

fn effect(comparisons: &Comparisons, family: &Family, index: usize, cell: &Cell) -> Shown {
    if cell.value(comparisons.factor) == Some(comparisons.baseline) {
        return Shown::text("baseline");
    }
    match answer::comparison_of(family, index).map(|it| &it.verdict) {
        None | Some(Verdict::Unknown(_)) => Shown::absent(),
        Some(Verdict::Decided(effect) | Verdict::Undecided(effect, _)) => {
            let words = family.effect(effect);
            let (median, range) = words.split_once(" [").unwrap_or((&words, ""));
            let range = match range.is_empty() {
                true => String::new(),
                false => format!("[{range}"),
            };
            Shown {
                median: median.to_owned(),
                range,
                note: String::new(),
            }
        }
    }
}

/// The caveats of a row.
fn marks(index: usize, cell: &Cell, columns: &[Column]) -> Vec<String> {
    let mut marks = Vec::new();
    for column in columns {
        match column {
            Column::Metric(metric) => {
                let invalid = cell.values(&metric.name).invalid;
                if invalid > 0 {
                    let title = words::title(metric);
                    marks.push(format!("{title}: {invalid} do not count"));
                }
            }
            Column::Effect(_, family) => {
                let comparison = answer::comparison_of(family, index);
                marks.extend(comparison.map(|comparison| match &comparison.verdict {
                    Verdict::Decided(effect) if family.is_better(effect) => "better".to_owned(),
                    Verdict::Decided(_) => "worse".to_owned(),
                    Verdict::Undecided(..) => "undecided".to_owned(),
                    Verdict::Unknown(_) => "not known".to_owned(),
                }));
            }
        }
    }
    let suspect = cell.measured.iter();
    let suspect = suspect.filter(|(_, it)| it.suspect.is_some()).count();
    if suspect > 0 {
        marks.push(format!("{suspect} suspect"));
    }
    if cell.missing() > 0 {
        marks.push(format!("{} missing", cell.missing()));
    }
    marks
}

/// A title as the head of a column.
pub(super) fn head(title: &str) -> String {
    let mut letters = title.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), letters.as_str())
}
