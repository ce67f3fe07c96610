//! The grammar of figures. A figure is a table of marks between two axes; picture, legend, text
//! description, notes and the CSV beside it follow from the marks.

use super::axis::{PLOT_LEFT, Side};
use super::palette::{CurveStyle, Ramp};
use crate::{limits, units};

/// A figure before it is drawn.
pub(crate) struct Scene {
    pub(crate) title: String,
    /// Horizontal and vertical.
    pub(crate) axes: (Side, Side),
    pub(crate) series: Vec<Series>,
    /// Later ones cover earlier ones of the same layer.
    pub(crate) marks: Vec<Mark>,
    /// Entries of the legend that no mark has: the ranges of shades and sizes.
    pub(crate) key: Vec<Entry>,
    pub(crate) notes: Vec<String>,
    pub(crate) height: f64,
    /// Left edge of the plot: the labels of the vertical axis are left of it.
    pub(crate) left: f64,
    /// The names of rows and columns, if the figure is a table of [`Shape::Words`].
    pub(crate) words: Option<Words>,
}

/// The names of rows and columns. A mark at (2, 1) stands in the third column of the second row.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    pub(crate) caption: String,
    pub(crate) corner: String,
    pub(crate) rows: Vec<String>,
    pub(crate) columns: Vec<String>,
}

impl Scene {
    pub(crate) fn new(title: String, axes: (Side, Side), series: Vec<Series>) -> Self {
        Self {
            title,
            axes,
            series,
            marks: Vec::new(),
            key: Vec::new(),
            notes: Vec::new(),
            height: 360.0,
            left: PLOT_LEFT,
            words: None,
        }
    }

    pub(crate) fn add(&mut self, marks: impl IntoIterator<Item = Mark>) {
        self.marks.extend(marks);
    }

    pub(crate) fn say_if(&mut self, is_so: bool, note: &str) {
        self.notes.extend(is_so.then(|| note.to_owned()));
    }

    /// A note that names some cells.
    pub(crate) fn note(&mut self, what: &str, names: Vec<String>) {
        let names = listed(names, "other", "; ");
        let note = names.map(|names| format!("{what}: {names}."));
        self.notes.extend(note);
    }
}

/// Marks of one look.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Its name in the legend. Empty: it has no entry.
    pub(crate) short: String,
    pub(crate) look: Look,
}

impl Series {
    pub(crate) fn new(name: String, short: String, look: Look) -> Self {
        Self { name, short, look }
    }

    /// Classes or parts in their order, as shades.
    pub(crate) fn shades(names: Vec<String>) -> Vec<Self> {
        let last = names.len().saturating_sub(1).max(1) as f64;
        let series = |(index, name): (usize, String)| {
            let look = Look::Shade(Ramp::of(index as f64 / last));
            Self::new(name.clone(), shortened(&name), look)
        };
        names.into_iter().enumerate().map(series).collect()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Look {
    Style(CurveStyle),
    Shade(Ramp),
    Ink,
}

impl Look {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Shade(shade) => shade.class,
            Self::Style(_) | Self::Ink => self.style().class,
        }
    }

    pub(super) fn style(self) -> CurveStyle {
        match self {
            Self::Style(style) => style,
            Self::Shade(_) | Self::Ink => CurveStyle::NEUTRAL,
        }
    }
}

/// A symbol and its words in the legend.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(super) look: Look,
    /// Marks without places. None: words alone.
    pub(super) marks: Vec<Mark>,
    pub(super) text: String,
}

impl Entry {
    pub(crate) fn new(look: Look, marks: Vec<Mark>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { look, marks, text }
    }

    pub(crate) fn words(text: impl Into<String>) -> Self {
        Self::new(Look::Ink, Vec::new(), text)
    }

    /// All shades.
    pub(crate) fn ramp(text: String) -> Self {
        let tile = |step| {
            let tile = Mark::new(Shape::Tile, None, []).aside(step as f64 * Ramp::WIDTH);
            tile.shade(Some(Ramp::step(step)))
        };
        Self::new(Look::Ink, (0..Ramp::STEPS).map(tile).collect(), text)
    }
}

/// A mark with another value of a field, for each field.
macro_rules! with {
    ($($field:ident: $type:ty),*) => {
        $(pub(crate) fn $field(self, $field: $type) -> Self {
            Self { $field, ..self }
        })*
    };
}

/// One mark.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) shape: Shape,
    /// Its points on the axes. Empty: it is not drawn, only told.
    pub(crate) at: Vec<(f64, f64)>,
    /// Pixels to the right of its place.
    pub(crate) aside: f64,
    /// An index of [`Scene::series`].
    pub(crate) series: Option<usize>,
    /// Its filling, in place of the series' colour.
    pub(crate) shade: Option<Ramp>,
    /// Times the size of a marker.
    pub(crate) size: f64,
    pub(crate) state: State,
    /// The true value may be higher, along the vertical and the horizontal axis.
    pub(crate) bound: bool,
    pub(crate) bound_x: bool,
    /// The words under the pointer.
    pub(crate) hint: String,
    /// Its words in the text description.
    pub(crate) tells: String,
    /// Its words in the legend, beside those of series and state.
    pub(crate) key: String,
    /// Its row of the CSV: columns and cells.
    pub(crate) row: Vec<(String, String)>,
}

impl Mark {
    pub(crate) fn new(
        shape: Shape,
        series: Option<usize>,
        at: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        Self {
            shape,
            at: at.into_iter().collect(),
            aside: 0.0,
            series,
            shade: None,
            size: 1.0,
            state: State::Counts,
            bound: false,
            bound_x: false,
            hint: String::new(),
            tells: String::new(),
            key: String::new(),
            row: Vec::new(),
        }
    }

    /// A line, if it has two points.
    pub(crate) fn line(
        line: Line,
        mut at: Vec<(f64, f64)>,
        series: Option<usize>,
        key: &str,
    ) -> Self {
        if at.iter().filter(|it| it.1.is_finite()).count() < 2 {
            at.clear();
        }
        Self::new(Shape::Line(line), series, at).key(key)
    }

    /// Words of the text description, and nothing to see.
    pub(crate) fn told(series: usize, tells: String) -> Self {
        Self::new(Shape::Point, Some(series), []).tells(tells)
    }

    /// The same to see, without its words in text description and CSV.
    pub(crate) fn untold(self) -> Self {
        let row = Vec::new();
        Self { row, ..self }.tells(String::new())
    }

    pub(crate) fn at(self, at: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let at = at.into_iter().collect();
        Self { at, ..self }
    }

    with! { shape: Shape, aside: f64, shade: Option<Ramp>, size: f64, state: State }
    with! { bound: bool, bound_x: bool, hint: String, tells: String }

    pub(crate) fn key(self, key: &str) -> Self {
        let key = key.to_owned();
        Self { key, ..self }
    }

    /// As others published it: words for it, the name of what it is of, and their source.
    pub(crate) fn published(self, name: &str, words: &str, source: &str) -> Self {
        let hint = format!("{name}: {words}, {source}");
        self.state(State::Published(source.to_owned())).hint(hint)
    }

    /// With more columns.
    pub(crate) fn row(mut self, row: Vec<(String, String)>) -> Self {
        self.row.extend(row);
        self
    }

    fn flag(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.bound_x.then(|| "x: lower bound".to_owned()));
        words.extend(self.bound.then(|| "lower bound".to_owned()));
        words.extend(match &self.state {
            State::Counts => None,
            State::Failing(reason) => Some(format!("fails here: {reason}")),
            State::Grey(it) | State::Missing(it) | State::Published(it) => Some(it.clone()),
        });
        words.join("; ")
    }
}

/// What is drawn at the points of a mark, from the lowest layer to the highest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// An area without outline, such as the range of trials around a line.
    Band,
    /// A rectangle between two corners, without a gap to its neighbours.
    Tile,
    /// A rectangle between two corners.
    Bar,
    Line(Line),
    /// From one point to another, with ends across.
    Interval,
    Point,
    /// A trial.
    Dot,
    /// An outline around another mark.
    Ring(&'static str),
    /// Lines of text, the first of which is large.
    Words(Vec<String>),
}

impl Shape {
    pub(super) fn layer(&self) -> u8 {
        match self {
            Self::Band => 0,
            Self::Tile | Self::Bar => 1,
            Self::Line(_) => 2,
            Self::Interval => 3,
            Self::Point => 4,
            Self::Dot => 5,
            Self::Ring(_) | Self::Words(_) => 6,
        }
    }
}

/// How a line is drawn: its class, its dashes unless those of the series, and its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line(
    pub(super) &'static str,
    pub(super) Option<&'static str>,
    pub(super) &'static str,
);

impl Line {
    pub(crate) const MEDIAN: Self = Self("median", None, "2");
    pub(crate) const PUBLISHED: Self = Self("median", Some("3 3"), "1.2");
    pub(crate) const FRONT: Self = Self("pareto", Some("none"), "1.4");
    /// The diagonal, or another line to compare with.
    pub(crate) const RULE: Self = Self("guide", Some("10 3 2 3"), "1");
}

/// How a value counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum State {
    #[default]
    Counts,
    /// It does not, for this reason.
    Grey(String),
    /// It counts against the server, for this reason.
    Failing(String),
    /// There is none: so many trials are missing.
    Missing(String),
    /// Others published it, here.
    Published(String),
}

/// The rows of the table beside a figure.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rows {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Rows {
    /// The rows as CSV.
    pub(crate) fn csv(&self) -> Vec<u8> {
        let mut table = csv::Writer::from_writer(Vec::new());
        // Only a failing writer, or rows of other lengths than the header's, fail; a vector does
        // not.
        let _ = table.write_record(&self.header);
        for row in &self.rows {
            let _ = table.write_record(row);
        }
        table.into_inner().unwrap_or_default()
    }
}

/// The words of a figure that follow from its marks.
impl Scene {
    /// The CSV: every column that a mark has, in the order of their first use.
    pub(super) fn rows(&self) -> Rows {
        let mut header: Vec<&str> = Vec::new();
        let marks = || self.marks.iter().filter(|mark| !mark.row.is_empty());
        for (column, _) in marks().flat_map(|mark| &mark.row) {
            if !header.contains(&column.as_str()) {
                header.push(column);
            }
        }
        let row = |mark: &Mark| {
            let of = |name: &&str| mark.row.iter().find(|(column, _)| column == name);
            let cells = header.iter().map(|it| of(it).map(|(_, cell)| cell.clone()));
            let cells = cells.map(Option::unwrap_or_default);
            cells.chain([mark.flag()]).collect()
        };
        let rows = marks().map(row).collect();
        header.push("flag");
        Rows {
            header: header.into_iter().map(str::to_owned).collect(),
            rows,
        }
    }

    /// The text alternative: what the marks of each series tell.
    pub(super) fn description(&self) -> String {
        let told = |series: Option<usize>| -> Vec<String> {
            let marks = self.marks.iter().filter(|it| it.series == series);
            let told = marks.filter(|it| !it.tells.is_empty());
            told.map(|it| it.tells.clone()).collect()
        };
        let mut sentences = Vec::new();
        for (index, series) in self.series.iter().enumerate().take(limits::PLACES) {
            sentences.push(match listed(told(Some(index)), "other value", "; ") {
                Some(told) => format!("{}: {told}.", series.name),
                None => format!("{}: no measurement.", series.name),
            });
        }
        let more = self.series.len().saturating_sub(limits::PLACES) as u64;
        sentences.extend((more > 0).then(|| format!("And {}.", units::plural(more, "other"))));
        sentences.extend(told(None).into_iter().map(|it| format!("{it}.")));
        match sentences.is_empty() {
            true => "No measurement.".to_owned(),
            false => sentences.join(" "),
        }
    }

    /// The sources of what was published, and the number of marks that the axes cannot hold.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut sources: Vec<String> = Vec::new();
        let mut outside = 0;
        for mark in &self.marks {
            if let State::Published(source) = &mark.state {
                let source = units::shortened(source, limits::REASON_CHARACTERS);
                if !source.is_empty() && !sources.contains(&source) {
                    sources.push(source);
                }
            }
            let is_one = matches!(mark.shape, Shape::Point | Shape::Dot | Shape::Bar);
            let is_missing = matches!(mark.state, State::Missing(_));
            let (x, y) = (&self.axes.0.axis, &self.axes.1.axis);
            let mut at = mark.at.iter();
            let is_out = at.any(|it| x.position(it.0).is_none() || y.position(it.1).is_none());
            outside += u64::from(is_one && !is_missing && is_out);
        }
        let published = listed(sources, "other source", "; ");
        let published = published.map(|sources| format!("Published: {sources}."));
        let outside = (outside > 0).then(|| {
            let values = units::plural(outside, "value");
            format!("Not drawn: {values} that the axis cannot hold.")
        });
        published.into_iter().chain(outside).collect()
    }
}

/// At most [`limits::PLACES`] items, and how many more there are.
pub(crate) fn listed(mut items: Vec<String>, noun: &str, between: &str) -> Option<String> {
    let more = items.len().saturating_sub(limits::PLACES) as u64;
    items.truncate(limits::PLACES);
    items.extend((more > 0).then(|| units::plural(more, noun)));
    (!items.is_empty()).then(|| items.join(between))
}

/// The name of a class or part in a legend.
pub(crate) fn shortened(name: &str) -> String {
    units::shortened(name, limits::CELL_CHARACTERS)
}
