//! `y` against `x`: a marker for each trial, a solid line for the median, a dashed one for the
//! maximum and a dotted one for the minimum.
//!
//! The trials of a point are drawn side by side if they have the same `x`. A point without a
//! measurement interrupts the lines; a cross at the bottom says how many of its trials are missing.

use measure::{KNEE_FACTOR, Knee, TailPoint};

use super::dimension::Dimension;
use super::panel::{Curve, Panel, Point, Trial};
use super::{Data, Rows, Spread, notes, titled};
use crate::chart::axis::Axis;
use crate::chart::legend::{Entry, Legend, Sample};
use crate::chart::mark::{self, BOUND_SHAPE, GUIDE_DASHES, MAXIMUM_DASHES, MINIMUM_DASHES};
use crate::chart::side::Side;
use crate::chart::svg::{Svg, coordinate, coordinates};
use crate::chart::{Field, INK};
use crate::{limits, units};

const KNEE_RADIUS: &str = "11";
/// Greatest distance of a trial from its `x`, and of neighbouring trials from each other, when the
/// trials of a point are drawn side by side. Pixels.
const SIDE_BY_SIDE: f64 = 7.0;
const SIDE_STEP: f64 = 3.0;
/// Widths of the median lines: where two coincide, the wider one stays visible.
const MEDIAN_WIDTHS: [&str; 2] = ["2.8", "1.7"];

/// The data of a curve figure.
pub(super) struct Curves<'a> {
    panel: &'a Panel<'a>,
    x: Dimension<'a>,
    /// The knee of each curve, as a value of `x`. None: it has none, or none is asked for.
    knees: Vec<Option<f64>>,
    axes: (Side, Side),
    /// The trials of a point are drawn side by side.
    is_spread: bool,
}

impl<'a> Curves<'a> {
    pub(super) fn of(panel: &'a Panel<'a>) -> Self {
        // The declaration has been checked: a curve has an `x`.
        let x = panel.x.unwrap_or(panel.y);
        let figure = panel.figure;
        let knee = figure.knee.as_ref();
        let knees = panel
            .curves
            .iter()
            .map(|curve| knee_of(panel, curve, knee?));
        Self {
            panel,
            x,
            knees: knees.collect(),
            axes: axes(panel, x),
            // On the diagonal, different values of `x` are apart already.
            is_spread: !figure.diagonal && panel.is_over_setting(),
        }
    }

    fn curves(&self) -> impl Iterator<Item = (&Curve<'a>, Option<f64>)> {
        self.panel.curves.iter().zip(self.knees.iter().copied())
    }

    fn is_lower_bound(&self, trial: Trial) -> bool {
        trial.measured.is_lower_bound(self.panel.y.name())
    }

    /// The entries for lines and markers.
    fn key(&self) -> Vec<Entry> {
        let panel = self.panel;
        let mut key = vec![
            (Sample::Line("median", "none", "2"), "median".to_owned()),
            (
                Sample::Line("maximum", MAXIMUM_DASHES, "1.2"),
                "maximum".to_owned(),
            ),
            (
                Sample::Line("minimum", MINIMUM_DASHES, "1.4"),
                "minimum".to_owned(),
            ),
        ];
        if panel.figure.diagonal {
            let composed = || format!("{} = {}", panel.y.title(), self.x.title());
            let title = panel.figure.diagonal_title.clone();
            key.push((
                Sample::Line("guide", GUIDE_DASHES, "1"),
                title.unwrap_or_else(composed),
            ));
        }
        if self.knees.iter().any(Option::is_some) {
            key.push((Sample::Knee, "knee".to_owned()));
        }
        let has_bound = panel.trials().any(|trial| self.is_lower_bound(trial));
        key.extend(notes::marked(panel, has_bound));
        key
    }
}

impl Data for Curves<'_> {
    fn title(&self) -> String {
        titled(self.panel.y.title(), Some(self.x.title()))
    }

    fn rows(&self) -> Rows {
        let panel = self.panel;
        let (x, y) = (self.x, panel.y);
        let mut rows = Rows::new(["curve", "row", "trial", x.name(), y.name(), "flag"]);
        for (curve, knee) in self.curves() {
            let mut push = |row: &str, trial: &str, at: Option<f64>, y: String, flag: String| {
                let at = at.map(|at| x.plain(at)).unwrap_or_default();
                let cells = [&curve.name, row, trial, &at, &y, &flag];
                rows.rows.push(cells.map(str::to_owned).to_vec());
            };
            for point in &curve.points {
                for trial in &point.trials {
                    let at = x.of_record(trial.record);
                    let value = y.of_record(trial.record).map(|value| value.to_string());
                    let flag = flag_words(*trial, y.name());
                    push(
                        "trial",
                        &trial.record.id,
                        at,
                        value.unwrap_or_default(),
                        flag,
                    );
                }
                if let Some(spread) = point.spread(y) {
                    let ends = [
                        ("median", spread.median),
                        ("minimum", spread.min),
                        ("maximum", spread.max),
                    ];
                    for (row, value) in ends {
                        push(row, "", point.at, value.to_string(), String::new());
                    }
                }
                if point.missing() > 0 {
                    let flag = format!("{} of {}", point.missing(), point.planned);
                    push("missing", "", point.at, String::new(), flag);
                }
            }
            if knee.is_some() {
                push("knee", "", knee, String::new(), String::new());
            }
        }
        rows
    }

    fn notes(&self) -> (Vec<String>, Vec<String>) {
        let panel = self.panel;
        let mut after: Vec<String> = notes::lacking(panel).into_iter().collect();
        after.extend(notes::unmeasured(panel, &self.axes.1.axis));
        after.extend(notes::beside(panel, self.x, &self.axes.0.axis));
        after.extend(notes::lower_bounds(panel));
        if panel.is_general() {
            after.extend(notes::merged(panel, "point"));
        }
        if self.is_spread && panel.points().any(|point| point.planned > 1) {
            let what = match self.x {
                Dimension::Metric(metric) if metric.unit.as_str() == "/s" => "rate",
                _ => "setting",
            };
            after.push(format!("The trials of one {what} are drawn side by side."));
        }
        (notes::hollow(panel).into_iter().collect(), after)
    }

    fn description(&self) -> String {
        let sentence = |curve: &Curve| {
            let medians: Vec<(f64, f64)> = (curve.points.iter())
                .filter_map(|point| Some((point.at?, point.spread(self.panel.y)?.median)))
                .collect();
            let words = |(at, value): (f64, f64)| {
                format!("{} {}", self.panel.y.text(value), self.x.place(at))
            };
            match (medians.first(), medians.last()) {
                (Some(&first), Some(&last)) => {
                    format!(
                        "{}: median {} to {}.",
                        curve.name,
                        words(first),
                        words(last)
                    )
                }
                _ => format!("{}: no measurement.", curve.name),
            }
        };
        let sentences: Vec<String> = self.panel.curves.iter().map(sentence).collect();
        sentences.join(" ")
    }

    fn legend(&self) -> Legend {
        let entry = |(curve, knee): (&Curve, Option<f64>)| {
            let name = units::shortened(&curve.short, limits::NAME_CHARACTERS);
            let knee = knee.map(|at| format!(" (knee {})", self.x.text(at)));
            let text = format!("{name}{}", knee.unwrap_or_default());
            (Sample::Curve(curve.style), text)
        };
        Legend::of([self.curves().map(entry).collect(), self.key()])
    }

    fn axes(&self) -> Option<(Side, Side)> {
        Some(self.axes.clone())
    }

    fn draw(&self, svg: &mut Svg, field: &Field) {
        if self.panel.figure.diagonal {
            guide(svg, field);
        }
        for part in [Self::markers, Self::lines] {
            for (curve, knee) in self.curves() {
                let class = format!("server {}", curve.style.class);
                svg.group(&[("class", &class), ("data-server", &curve.name)]);
                part(self, svg, field, curve, knee);
                svg.close();
            }
        }
    }
}

/// Both axes over all trials.
fn axes(panel: &Panel, x: Dimension) -> (Side, Side) {
    let figure = panel.figure;
    let values = || {
        let values = panel.trials().filter_map(|it| panel.y.of_record(it.record));
        values.collect::<Vec<f64>>().into_iter()
    };
    let at = || {
        let points = panel.points().filter_map(|point| point.at);
        // Where trials of a point differ in `x`, each must be within.
        let own = panel.trials().filter_map(|it| x.of_record(it.record));
        let own = own.filter(|_| !panel.is_over_setting());
        points.chain(own).collect::<Vec<f64>>().into_iter()
    };
    let (unit, title) = (figure.unit.as_ref(), figure.y_title.as_ref());
    if figure.diagonal {
        // One range for both axes, so that equal values lie on the diagonal.
        let all = || values().chain(at());
        let vertical = panel.y.vertical(figure.scale, all(), unit, title);
        return (x.horizontal(Some(figure.scale), all()), vertical);
    }
    (
        x.horizontal(figure.x_scale, at()),
        panel.y.vertical(figure.scale, values(), unit, title),
    )
}

/// The knee of a curve: the last `x` before a metric leaves its plateau. Values that do not count
/// are left out; where they are more than half of a point, the point is.
fn knee_of(panel: &Panel, curve: &Curve, metric: &str) -> Option<f64> {
    let mut points = Vec::new();
    for point in &curve.points {
        let Some(level) = point.at else { continue };
        for trial in &point.trials {
            let Some(value) = trial.measured.metric(metric) else {
                continue;
            };
            points.push(TailPoint {
                level,
                tail: value.max(0.0),
                generator_limited: trial.measured.valid(metric).is_none(),
            });
        }
    }
    panel.plan.metric(metric)?;
    Knee::of(&points, KNEE_FACTOR).map(|knee| knee.level)
}

/// How a value counts, in words: `lower bound`, why it is invalid, why the trial is suspect.
pub(super) fn flag_words(trial: Trial, metric: &str) -> String {
    let bound = trial.measured.is_lower_bound(metric);
    let mut words: Vec<&str> = Vec::new();
    words.extend(bound.then_some("lower bound"));
    let flag = trial.measured.flags.get(metric);
    words.extend(flag.and_then(|flag| flag.invalid.as_deref()));
    words.extend(trial.measured.suspect.as_deref());
    words.dedup();
    words.join("; ")
}

/// The diagonal.
fn guide(svg: &mut Svg, field: &Field) {
    let ends = |axis: &Axis| (axis.value(axis.start), axis.greatest());
    let ((x_least, x_end), (y_least, y_end)) = (ends(&field.x.axis), ends(&field.y.axis));
    let (least, end) = (x_least.max(y_least), x_end.min(y_end));
    if let (Some(from), Some(to)) = (field.pixel(least, least), field.pixel(end, end)) {
        svg.element(
            "polyline",
            &[
                ("class", "guide"),
                ("points", &coordinates(&[from, to])),
                ("fill", "none"),
                ("stroke", INK),
                ("stroke-opacity", "0.55"),
                ("stroke-width", "1"),
                ("stroke-dasharray", GUIDE_DASHES),
            ],
        );
    }
}

/// Class, which end of a spread, width and dashes of a line.
type LineStyle = (&'static str, fn(&Spread) -> f64, &'static str, &'static str);

impl Curves<'_> {
    fn markers(&self, svg: &mut Svg, field: &Field, curve: &Curve, _knee: Option<f64>) {
        for point in &curve.points {
            for &trial in &point.trials {
                self.marker(svg, field, curve, point, trial);
            }
            self.absent(svg, field, curve, point);
        }
    }

    fn marker(&self, svg: &mut Svg, field: &Field, curve: &Curve, point: &Point, trial: Trial) {
        let y = self.panel.y;
        let at = self.x.of_record(trial.record);
        let Some((at, value)) = at.zip(y.of_record(trial.record)) else {
            return;
        };
        let Some((pixel_x, pixel_y)) = field.pixel(at, value) else {
            return;
        };
        let aside = match self.is_spread {
            true => aside(trial, point),
            false => 0.0,
        };
        let suspect = trial.measured.suspect.as_deref();
        let is_bound = self.is_lower_bound(trial);
        let shape = match is_bound {
            true => format!("{}{BOUND_SHAPE}", curve.style.shape),
            false => curve.style.shape.to_owned(),
        };
        let hint = format!(
            "{}: {}{} {}{}, trial {} of {}{}",
            curve.name,
            units::lower_bound(is_bound),
            y.text(value),
            self.x.place(at),
            self.panel.aside(&trial.record.factors),
            trial.number + 1,
            point.planned,
            suspect.map(|why| format!(", {why}")).unwrap_or_default(),
        );
        let is_hollow = suspect.is_some();
        let at = mark::at(pixel_x + aside, pixel_y);
        let aside = coordinate(aside);
        svg.hinted(
            "path",
            &[
                ("data-aside", &aside),
                ("class", if is_hollow { "mark hollow" } else { "mark" }),
                ("transform", &at),
                ("d", &shape),
                (
                    "fill",
                    if is_hollow {
                        "none"
                    } else {
                        curve.style.colour
                    },
                ),
                ("fill-opacity", "0.5"),
                ("stroke", curve.style.colour),
                ("stroke-width", if is_hollow { "1.2" } else { "0.7" }),
            ],
            &hint,
        );
    }

    /// A cross at the bottom of the plot if trials are missing.
    fn absent(&self, svg: &mut Svg, field: &Field, curve: &Curve, point: &Point) {
        let missing = point.missing();
        let Some(at) = point.at.filter(|_| missing > 0) else {
            return;
        };
        let Some(x) = field.pixel_x(at) else {
            return;
        };
        let hint = format!(
            "{}: {missing} of {} trials missing {}",
            curve.name,
            point.planned,
            self.x.place(at),
        );
        mark::missing(svg, (x, field.bottom() - 7.0), curve.style.colour, &hint);
    }

    fn lines(&self, svg: &mut Svg, field: &Field, curve: &Curve, knee: Option<f64>) {
        let median = MEDIAN_WIDTHS[curve.index % MEDIAN_WIDTHS.len()];
        let styles: [LineStyle; 3] = [
            ("maximum", |spread| spread.max, "1.2", MAXIMUM_DASHES),
            ("minimum", |spread| spread.min, "1.4", MINIMUM_DASHES),
            ("median", |spread| spread.median, median, "none"),
        ];
        for (class, end, stroke_width, dashes) in styles {
            for points in self.pieces(field, curve, end) {
                svg.element(
                    "polyline",
                    &[
                        ("class", class),
                        ("points", &coordinates(&points)),
                        ("fill", "none"),
                        ("stroke", curve.style.colour),
                        ("stroke-width", stroke_width),
                        ("stroke-linejoin", "round"),
                        ("stroke-dasharray", dashes),
                    ],
                );
            }
        }
        if let Some(at) = knee {
            self.knee(svg, field, curve, at);
        }
    }

    /// The pieces of a line, of two points at least.
    fn pieces(
        &self,
        field: &Field,
        curve: &Curve,
        end: fn(&Spread) -> f64,
    ) -> Vec<Vec<(f64, f64)>> {
        let mut piece: Vec<(f64, f64)> = Vec::new();
        let mut pieces = Vec::new();
        for point in &curve.points {
            let value = point.spread(self.panel.y).map(|spread| end(&spread));
            let place = point.at.zip(value);
            match place.and_then(|(at, value)| field.pixel(at, value)) {
                Some(place) => piece.push(place),
                None => pieces.push(std::mem::take(&mut piece)),
            }
        }
        pieces.push(piece);
        pieces.retain(|points| points.len() > 1);
        pieces
    }

    /// A ring around the median at the knee.
    fn knee(&self, svg: &mut Svg, field: &Field, curve: &Curve, at: f64) {
        let point = curve.points.iter().find(|point| point.at == Some(at));
        let Some(spread) = point.and_then(|point| point.spread(self.panel.y)) else {
            return;
        };
        let Some((x, y)) = field.pixel(at, spread.median) else {
            return;
        };
        let place = self.x.place(at);
        let hint = format!(
            "{}: the knee, {}",
            curve.name,
            place.trim_start_matches("at ")
        );
        svg.hinted(
            "circle",
            &[
                ("class", "knee"),
                ("transform", &mark::at(x, y)),
                ("r", KNEE_RADIUS),
                ("fill", "none"),
                ("stroke", curve.style.colour),
                ("stroke-width", "1.8"),
            ],
            &hint,
        );
    }
}

/// Horizontal offset of a trial, in pixels, so that markers do not hide each other.
fn aside(trial: Trial, point: &Point) -> f64 {
    let middle = f64::from(point.planned.saturating_sub(1)) / 2.0;
    let step = if middle > 0.0 {
        (SIDE_BY_SIDE / middle).min(SIDE_STEP)
    } else {
        0.0
    };
    (f64::from(trial.number) - middle) * step
}
