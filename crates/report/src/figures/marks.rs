//! The marks that several kinds of figures have: trials, medians, published values and what is
//! missing, with the words under the pointer and the rows of the CSV.

use super::dimension::Dimension;
use super::panel::{Panel, joined};
use super::point::{Point, Summary, Trial};
use crate::cell::CONFIDENCE;
use crate::chart::mark::{Mark, Shape, State};
use crate::units;

/// A row of the CSV: columns and cells.
macro_rules! row {
    ($($column:expr => $cell:expr),* $(,)?) => {
        vec![$((($column).to_string(), ($cell).to_string())),*]
    };
}
pub(super) use row;

impl Panel<'_> {
    /// The name of the column of `x`.
    pub(super) fn x_name(&self) -> &str {
        self.figure.x.as_deref().unwrap_or("cell")
    }

    /// A value of `x`, or a cell, as the CSV has it.
    pub(super) fn x_cell(&self, point: &Point, x: Option<f64>) -> String {
        match self.x {
            Some(along) => x.map(|x| along.plain(x)).unwrap_or_default(),
            None => self.cell_name(point.factors),
        }
    }

    /// A mark that is not drawn yet, with the columns that every row of the CSV begins with.
    pub(super) fn mark(
        &self,
        point: &Point,
        row: &str,
        trial: &str,
        x: Option<f64>,
        y: Option<f64>,
    ) -> Mark {
        let y = y.map(|it| it.to_string()).unwrap_or_default();
        Mark::told(point.curve, String::new()).row(row! {
            "curve" => self.curve(point).name, "row" => row, "trial" => trial,
            self.x_name() => self.x_cell(point, x), self.y.name() => y,
        })
    }

    /// A trial at a place along the axis. Along a metric, the place is its own `x`.
    pub(super) fn trial(
        &self,
        point: &Point,
        trial: Trial,
        x: Option<f64>,
        at: Option<f64>,
    ) -> Mark {
        let Some(value) = self.y.of_record(trial.record) else {
            return Mark::new(Shape::Point, None, []);
        };
        let is_bound = trial.is_bound(self.y);
        let state = trial.state(self.y.name());
        let number = match point.planned {
            0 | 1 => String::new(),
            planned => format!(", trial {} of {planned}", trial.number + 1),
        };
        let (along, place) = match (self.x, point.at, x) {
            (Some(x @ Dimension::Factor(_)), Some(at), _) => (Some(x.place(at)), String::new()),
            (Some(x), _, Some(at)) => (None, format!(" {}", x.place(at))),
            _ => (None, String::new()),
        };
        let curve = self.curve(point);
        let by = self.figure.by.as_ref().map(|_| curve.short.clone());
        let name = joined([by, along]).unwrap_or_else(|| curve.name.clone());
        let text = format!(
            "{}{}{place}",
            units::lower_bound(is_bound),
            self.y.text(value)
        );
        let aside = self.aside(&trial.record.factors);
        self.mark(point, "trial", &trial.record.id, x, Some(value))
            .at(at.map(|at| (at, value)))
            .bound(is_bound)
            .hint(format!("{name}: {text}{aside}{number}{}", why(&state)))
            .state(state)
    }

    /// The median of a point, told and in the CSV.
    pub(super) fn median(&self, point: &Point, x: Option<f64>, of: &Summary) -> Mark {
        let words = words(self.y, of);
        self.mark(point, "median", "", x, Some(of.value))
            .row(interval_cells(of))
            .state(of.state.clone())
            .bound(of.is_bound)
            .hint(format!("{}: {words}", self.point_name(point)))
            .tells(format!("{} {words}", self.place_words(point)))
    }

    /// Where a point is, within its curve.
    fn place_words(&self, point: &Point) -> String {
        let at = self.x.zip(point.at).map(|(x, at)| x.place(at));
        joined([at, Some(self.cell_name(point.factors))]).unwrap_or_default()
    }

    /// What others published for a point, at a place along the axis.
    pub(super) fn published_mark(
        &self,
        point: &Point,
        x: Option<f64>,
        at: Option<f64>,
    ) -> Option<Mark> {
        let (value, source) = self.published(point, self.y.name())?;
        let text = format!("published {}", self.y.text(value));
        let tells = format!("{} {text}", self.place_words(point));
        let mark = self.mark(point, "published", "", x, Some(value));
        let mark = mark.at(at.map(|at| (at, value))).tells(tells);
        Some(mark.published(&self.point_name(point), &text, source))
    }

    /// What others published for a point, and the trials it lacks, at a place along the axis.
    pub(super) fn beside(&self, point: &Point, at: Option<f64>) -> impl Iterator<Item = Mark> {
        let published = self.published_mark(point, point.at, at);
        let (missing, planned) = (point.missing(), point.planned);
        let missing = (missing > 0).then(|| {
            let (name, count) = (self.point_name(point), format!("{missing} of {planned}"));
            self.mark(point, "missing", "", point.at, None)
                .at(at.map(|at| (at, f64::NAN)))
                .hint(format!("{name}: {count} trials missing"))
                .state(State::Missing(count))
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
    let mark = Mark::new(Shape::Interval, None, [(at, of.low), (at, of.high)]);
    (of.is_spread() && of.counts()).then(|| mark.bound(of.is_open).key(key))
}

/// The columns of an interval.
pub(super) fn interval_cells(of: &Summary) -> Vec<(String, String)> {
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
