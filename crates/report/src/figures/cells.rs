//! The marks that several kinds of figures have: trials, medians, published values and what is
//! missing, with the words under the pointer and the rows of the CSV.

use super::dimension::Dimension;
use super::panel::{Curve, Panel, Point, Trial};
use super::summary::{self, Summary};
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
    /// The columns that every row begins with.
    pub(super) fn row(
        &self,
        curve: &Curve,
        row: &str,
        trial: &str,
        x: &str,
        y: Option<f64>,
    ) -> Row {
        let of_x = self.figure.x.as_deref().unwrap_or("cell");
        let y = y.map(|it| it.to_string()).unwrap_or_default();
        row! {
            "curve" => curve.name, "row" => row, "trial" => trial, of_x => x, self.y.name() => y,
        }
    }

    /// A trial whose value of `x` is `x`, at `at` along the axis.
    pub(super) fn trial(
        &self,
        (index, curve): (usize, &Curve),
        point: &Point,
        trial: Trial,
        (x, at): (&str, Option<f64>),
    ) -> Mark {
        let y = self.y;
        let value = y.of_record(trial.record);
        let is_bound = summary::is_bound(trial.measured, y);
        let state = summary::state(trial.measured, y.name());
        let number = match point.planned {
            0 | 1 => String::new(),
            planned => format!(", trial {} of {planned}", trial.number + 1),
        };
        let text = value.map(|it| y.text(it)).unwrap_or_default();
        // The place along a metric is that of the trial.
        let (name, place) = match (self.x, at) {
            (Some(x @ Dimension::Metric(_)), Some(at)) => {
                (curve.name.clone(), format!(" {}", x.place(at)))
            }
            _ => (self.point_name(curve, point), String::new()),
        };
        let bound = units::lower_bound(is_bound);
        let aside = self.aside(&trial.record.factors);
        let hint = format!("{name}: {bound}{text}{place}{aside}{number}{}", why(&state));
        let mut row = self.row(curve, "trial", &trial.record.id, x, value);
        // Where nothing was measured, only the trial is known.
        row.retain(|_| value.is_some());
        Mark {
            at: at.zip(value).into_iter().collect(),
            series: Some(index),
            state,
            bound: Bound {
                x: false,
                y: is_bound,
            },
            hint,
            row,
            ..Mark::default()
        }
    }

    /// The median of a point, told and in the CSV.
    pub(super) fn median(
        &self,
        (index, curve): (usize, &Curve),
        point: &Point,
        x: &str,
        of: &Summary,
    ) -> Mark {
        let y = self.y;
        let mut row = self.row(curve, "median", "", x, Some(of.value));
        row.extend(interval(of));
        Mark {
            series: Some(index),
            state: of.state.clone(),
            bound: Bound {
                x: false,
                y: of.is_bound,
            },
            hint: format!("{}: {}", self.point_name(curve, point), words(y, of)),
            tells: format!("{} {}", self.cell_place(point), words(y, of)),
            row,
            ..Mark::default()
        }
    }

    /// Where a point is, within its curve.
    fn cell_place(&self, point: &Point) -> String {
        let at = self.x.zip(point.at).map(|(x, at)| x.place(at));
        let cell = Some(self.cell_name(point.factors)).filter(|name| !name.is_empty());
        let parts: Vec<String> = at.into_iter().chain(cell).collect();
        parts.join(", ")
    }

    /// What others published for a point.
    pub(super) fn published_mark(
        &self,
        (index, curve): (usize, &Curve),
        point: &Point,
        (x, at): (&str, Option<f64>),
    ) -> Option<Mark> {
        let (value, source) = self.published(point, self.y.name())?;
        let text = self.y.text(value);
        let name = self.point_name(curve, point);
        Some(Mark {
            at: at.map(|at| (at, value)).into_iter().collect(),
            series: Some(index),
            state: State::Published(source.to_owned()),
            hint: format!("{name}: published {text}, {source}"),
            tells: format!("{} published {text}", self.cell_place(point)),
            row: self.row(curve, "published", "", x, Some(value)),
            ..Mark::default()
        })
    }

    /// The trials that a point lacks.
    pub(super) fn missing_mark(
        &self,
        (index, curve): (usize, &Curve),
        point: &Point,
        (x, at): (&str, Option<f64>),
    ) -> Option<Mark> {
        let (missing, planned) = (point.missing(), point.planned);
        (missing > 0).then(|| Mark {
            at: at.map(|at| (at, f64::NAN)).into_iter().collect(),
            series: Some(index),
            state: State::Missing(format!("{missing} of {planned}")),
            hint: format!(
                "{}: {missing} of {planned} trials missing",
                self.point_name(curve, point)
            ),
            row: self.row(curve, "missing", "", x, None),
            ..Mark::default()
        })
    }

    /// The interval of a point, or the range of its trials.
    pub(super) fn interval(&self, of: &Summary, at: f64) -> Option<Mark> {
        (of.is_spread() && of.counts()).then(|| Mark {
            shape: Shape::Interval,
            at: vec![(at, of.low), (at, of.high)],
            bound: Bound {
                x: false,
                y: of.is_open,
            },
            key: match of.confidence >= crate::cell::CONFIDENCE {
                true => "95\u{a0}% interval of the median".to_owned(),
                false => "range of the trials (six give a 95\u{a0}% interval)".to_owned(),
            },
            ..Mark::default()
        })
    }
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
