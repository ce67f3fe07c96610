//! The marks that several kinds of figures have: trials, medians, published values and what is
//! missing, with the words under the pointer and the rows of the CSV.

use super::dimension::Dimension;
use super::grid::Placed;
use super::panel::{Panel, Point, Trial};
use super::summary::{self, Summary};
use crate::cell::CONFIDENCE;
use crate::chart::mark::{Bound, Mark, Shape, State};
use crate::units;

/// A row of the CSV: columns and cells.
macro_rules! row {
    ($($column:expr => $cell:expr),* $(,)?) => {
        vec![$((($column).to_string(), ($cell).to_string())),*]
    };
}
pub(super) use row;

pub(super) type Row = Vec<(String, String)>;

impl<'a> Panel<'a> {
    /// A mark that is not drawn yet, with the columns that every row of the CSV begins with.
    pub(super) fn mark(&self, of: &Placed, row: &str, trial: &str, y: Option<f64>) -> Mark {
        let x = self.figure.x.as_deref().unwrap_or("cell");
        let y = y.map(|it| it.to_string()).unwrap_or_default();
        let row = row! {
            "curve" => of.curve.1.name, "row" => row, "trial" => trial, x => of.position.plain,
            self.y.name() => y,
        };
        Mark {
            row,
            ..Mark::told(Some(of.curve.0), String::new())
        }
    }

    /// A trial at a place along the axis.
    pub(super) fn trial(&self, of: &Placed, trial: Trial, at: Option<f64>) -> Mark {
        let (y, curve) = (self.y, of.curve.1);
        let Some(value) = y.of_record(trial.record) else {
            return Mark::default();
        };
        let is_bound = summary::is_bound(trial.measured, y);
        let state = summary::state(trial.measured, y.name());
        let number = match of.point.planned {
            0 | 1 => String::new(),
            planned => format!(", trial {} of {planned}", trial.number + 1),
        };
        // Along a metric, the place is that of the trial.
        let (along, place) = match (self.x, of.point.at, at) {
            (Some(x @ Dimension::Factor(_)), Some(at), _) => (Some(x.place(at)), String::new()),
            (Some(x), _, Some(at)) => (None, format!(" {}", x.place(at))),
            _ => (None, String::new()),
        };
        let by = self.figure.by.as_ref().map(|_| curve.short.clone());
        let name: Vec<String> = by.into_iter().chain(along).collect();
        let name = if name.is_empty() {
            curve.name.clone()
        } else {
            name.join(", ")
        };
        let text = format!("{}{}{place}", units::lower_bound(is_bound), y.text(value));
        let aside = self.aside(&trial.record.factors);
        Mark {
            at: at.map(|at| (at, value)).into_iter().collect(),
            bound: Bound::y(is_bound),
            hint: format!("{name}: {text}{aside}{number}{}", why(&state)),
            state,
            ..self.mark(of, "trial", &trial.record.id, Some(value))
        }
    }

    /// The median of a point, told and in the CSV.
    pub(super) fn median(&self, of: &Placed, summary: &Summary) -> Mark {
        let words = words(self.y, summary);
        let mut mark = self.mark(of, "median", "", Some(summary.value));
        mark.row.extend(interval(summary));
        Mark {
            state: summary.state.clone(),
            bound: Bound::y(summary.is_bound),
            hint: format!("{}: {words}", self.point_name(of.curve.1, of.point)),
            tells: format!("{} {words}", self.place(of.point)),
            ..mark
        }
    }

    /// Where a point is, within its curve.
    fn place(&self, point: &Point) -> String {
        let at = self.x.zip(point.at).map(|(x, at)| x.place(at));
        let cell = Some(self.cell_name(point.factors)).filter(|name| !name.is_empty());
        let parts: Vec<String> = at.into_iter().chain(cell).collect();
        parts.join(", ")
    }

    /// What others published for a point, and what it lacks, at a place along the axis.
    pub(super) fn beside(&self, of: &Placed, at: Option<f64>) -> impl Iterator<Item = Mark> {
        let name = self.point_name(of.curve.1, of.point);
        let published = self
            .published(of.point, self.y.name())
            .map(|(value, source)| {
                let text = format!("published {}", self.y.text(value));
                Mark {
                    at: at.map(|at| (at, value)).into_iter().collect(),
                    state: State::Published(source.to_owned()),
                    hint: format!("{name}: {text}, {source}"),
                    tells: format!("{} {text}", self.place(of.point)),
                    ..self.mark(of, "published", "", Some(value))
                }
            });
        let (missing, planned) = (of.point.missing(), of.point.planned);
        let missing = (missing > 0).then(|| Mark {
            at: at.map(|at| (at, f64::NAN)).into_iter().collect(),
            state: State::Missing(format!("{missing} of {planned}")),
            hint: format!("{name}: {missing} of {planned} trials missing"),
            ..self.mark(of, "missing", "", None)
        });
        published.into_iter().chain(missing)
    }
}

/// The interval of a point, or the range of its trials.
pub(super) fn interval_mark(of: &Summary, at: f64) -> Option<Mark> {
    let key = match of.confidence >= CONFIDENCE {
        true => "95\u{a0}% interval of the median",
        false => "range of the trials (six give a 95\u{a0}% interval)",
    };
    (of.is_spread() && of.counts()).then(|| Mark {
        shape: Shape::Interval,
        at: vec![(at, of.low), (at, of.high)],
        bound: Bound::y(of.is_open),
        key: key.to_owned(),
        ..Mark::default()
    })
}

/// The columns of an interval.
pub(super) fn interval(of: &Summary) -> Row {
    let mut cells = row! { "trials" => of.trials };
    if of.is_spread() {
        let confidence = format!("{:.3}", of.confidence);
        cells.extend(row! { "low" => of.low, "high" => of.high, "confidence" => confidence });
    }
    cells
}

/// A value with its interval, and how it counts: `2.00 s [1.95, 2.04], 12 trials`.
pub(super) fn words(y: Dimension, of: &Summary) -> String {
    let text = format!("{}{}", units::lower_bound(of.is_bound), y.text(of.value));
    if !of.is_spread() {
        return format!("{text}{}", why(&of.state));
    }
    let range = y.unit().map(|it| it.range(of.value, of.low, of.high));
    let range = units::bounded_range(&range.unwrap_or_default(), of.is_open);
    let trials = units::plural(of.trials as u64, "trial");
    format!("{text} {range}, {trials}{}", why(&of.state))
}

/// Why a value does not count as it is.
pub(super) fn why(state: &State) -> String {
    match state {
        State::Counts | State::Missing(_) | State::Published(_) => String::new(),
        State::Grey(reason) => format!(", does not count: {reason}"),
        State::Failing(reason) => format!(", fails here: {reason}"),
    }
}
