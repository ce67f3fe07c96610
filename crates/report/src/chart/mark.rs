//! The grammar of figures. A figure is a table of marks between two axes; picture, legend, text
//! description, notes and the CSV beside it follow from the marks.

use std::cmp::Ordering;

use super::legend::Entry;
use super::palette::{CurveStyle, Ramp};
use super::side::Side;
use super::svg::{Svg, coordinate, coordinates, escaped};
use super::{Field, INK, PAPER, PLOT_HEIGHT, PLOT_LEFT, Rows, Words};
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

impl Scene {
    pub(crate) fn new(title: String, axes: (Side, Side), series: Vec<Series>) -> Self {
        Self {
            title,
            axes,
            series,
            marks: Vec::new(),
            key: Vec::new(),
            notes: Vec::new(),
            height: PLOT_HEIGHT,
            left: PLOT_LEFT,
            words: None,
        }
    }

    /// A note that names some cells.
    pub(crate) fn note(&mut self, what: &str, names: Vec<String>) {
        let names = listed(names, "other", "; ");
        self.notes
            .extend(names.map(|names| format!("{what}: {names}.")));
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

#[derive(Debug, Clone, Copy)]
pub(crate) enum Look {
    Style(CurveStyle),
    Shade(Ramp),
    Ink,
}

impl Look {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Style(style) => style.class,
            Self::Shade(shade) => shade.class,
            Self::Ink => "neutral",
        }
    }

    fn style(self) -> CurveStyle {
        let neutral = CurveStyle {
            class: "neutral",
            colour: INK,
            ..CurveStyle::of(0)
        };
        match self {
            Self::Style(style) => style,
            Self::Shade(_) | Self::Ink => neutral,
        }
    }
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
    pub(crate) bound: Bound,
    /// The words under the pointer.
    pub(crate) hint: String,
    /// Its words in the text description.
    pub(crate) tells: String,
    /// Its words in the legend, beside those of series and state.
    pub(crate) key: String,
    /// Its row of the CSV: columns and cells.
    pub(crate) row: Vec<(String, String)>,
}

impl Default for Mark {
    fn default() -> Self {
        Self {
            shape: Shape::Point,
            at: Vec::new(),
            aside: 0.0,
            series: None,
            shade: None,
            size: 1.0,
            state: State::Counts,
            bound: Bound::default(),
            hint: String::new(),
            tells: String::new(),
            key: String::new(),
            row: Vec::new(),
        }
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
    fn layer(&self) -> u8 {
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

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    class: &'static str,
    /// None: those of the series.
    dashes: Option<&'static str>,
    width: &'static str,
}

impl Line {
    pub(crate) const MEDIAN: Self = Self::new("median", None, "2");
    pub(crate) const PUBLISHED: Self = Self::new("median", Some("3 3"), "1.2");
    pub(crate) const FRONT: Self = Self::new("pareto", Some("none"), "1.4");
    /// The diagonal, or another line to compare with.
    pub(crate) const RULE: Self = Self::new("guide", Some("10 3 2 3"), "1");

    const fn new(class: &'static str, dashes: Option<&'static str>, width: &'static str) -> Self {
        Self {
            class,
            dashes,
            width,
        }
    }
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

/// Whether the true value may be higher, along each axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bound {
    pub(crate) x: bool,
    pub(crate) y: bool,
}

impl Bound {
    pub(crate) fn y(y: bool) -> Self {
        Self { x: false, y }
    }
}

impl Mark {
    pub(crate) fn line(line: Line, at: Vec<(f64, f64)>, series: Option<usize>, key: &str) -> Self {
        let (shape, key) = (Shape::Line(line), key.to_owned());
        let is_line = at.iter().filter(|it| it.1.is_finite()).count() > 1;
        let at = if is_line { at } else { Vec::new() };
        Self {
            shape,
            at,
            series,
            key,
            ..Self::default()
        }
    }

    /// Words of the text description, and nothing to see.
    pub(crate) fn told(series: Option<usize>, tells: String) -> Self {
        Self {
            series,
            tells,
            ..Self::default()
        }
    }

    fn flag(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.bound.x.then(|| "x: lower bound".to_owned()));
        words.extend(self.bound.y.then(|| "lower bound".to_owned()));
        words.extend(match &self.state {
            State::Counts => None,
            State::Failing(reason) => Some(format!("fails here: {reason}")),
            State::Grey(it) | State::Missing(it) | State::Published(it) => Some(it.clone()),
        });
        words.join("; ")
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

/// Draws all marks.
pub(super) fn draw(svg: &mut Svg, field: &Field, scene: &Scene) {
    let mut marks: Vec<&Mark> = scene.marks.iter().collect();
    // Small ones last, or large ones would hide them.
    let order = |mark: &Mark| (mark.shape.layer(), -mark.size);
    marks.sort_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(Ordering::Equal));
    for marks in marks.chunk_by(|a, b| a.series == b.series) {
        let series = marks[0].series.and_then(|index| scene.series.get(index));
        let look = series.map_or(Look::Ink, |it| it.look);
        let name = series.map(|it| format!(r#" data-series="{}""#, escaped(&it.name)));
        let (class, name) = (look.class(), name.unwrap_or_default());
        svg.group(&format!(r#"class="series {class}"{name}"#));
        for mark in marks {
            for pixels in pieces(field, mark) {
                draw_one(svg, mark, look, &pixels, scene.series.len() > 1);
            }
        }
        svg.close();
    }
}

/// The pixels of a mark; those of a line are interrupted where an axis has no position.
fn pieces(field: &Field, mark: &Mark) -> Vec<Vec<(f64, f64)>> {
    let pixel = |&(x, y): &(f64, f64)| {
        // What is missing has no value: it stands at the bottom.
        let is_missing = matches!(mark.state, State::Missing(_)) && y.is_nan();
        let bottom = is_missing.then(|| field.bottom() - 7.0);
        let y = bottom.or_else(|| field.pixel_y(y));
        Some((field.pixel_x(x)? + mark.aside, y?))
    };
    let pixels: Vec<Option<(f64, f64)>> = mark.at.iter().map(pixel).collect();
    if let Shape::Line(_) = mark.shape {
        let pieces = pixels.split(Option::is_none);
        let pieces = pieces.map(|it| it.iter().copied().flatten().collect());
        return pieces.filter(|it: &Vec<_>| it.len() > 1).collect();
    }
    let whole: Option<Vec<(f64, f64)>> = pixels.into_iter().collect();
    whole.into_iter().filter(|it| !it.is_empty()).collect()
}

/// The colour of what does not count.
pub(super) const GREY: &str = "#8A8A8A";
/// A diamond, for a published value.
const PUBLISHED: &str = "M0,-6L6,0L0,6L-6,0Z";
/// A cross, where a server fails.
const FAILS: &str = "M-4.5,-4.5L4.5,4.5M-4.5,4.5L4.5,-4.5";
/// A struck-out circle, where trials are missing.
const MISSING: &str = "M-3.2,0a3.2,3.2 0 1 0 6.4,0a3.2,3.2 0 1 0 -6.4,0zM-4.5,4.5L4.5,-4.5";
const DOT: &str = "M-1.7,0a1.7,1.7 0 1 0 3.4,0a1.7,1.7 0 1 0 -3.4,0z";
/// Arrowheads above a marker, right of it and above an interval, for lower bounds.
const BOUND_Y: &str = "M-3,-6.5L0,-10.5L3,-6.5Z";
const BOUND_X: &str = "M6.5,-3L10.5,0L6.5,3Z";
const OPEN: &str = "M-3,-1L0,-6L3,-1Z";

/// Draws a mark at pixels.
pub(super) fn draw_one(
    svg: &mut Svg,
    mark: &Mark,
    look: Look,
    pixels: &[(f64, f64)],
    is_one_of_many: bool,
) {
    let style = look.style();
    let is_grey = matches!(mark.state, State::Grey(_));
    let colour = if is_grey { GREY } else { style.colour };
    let points = coordinates(pixels);
    let ends = [pixels[0], pixels[pixels.len() - 1]];
    let shade = match look {
        Look::Shade(shade) => Some(shade),
        Look::Style(_) | Look::Ink => mark.shade,
    };
    match (&mark.shape, shade) {
        (Shape::Point | Shape::Dot | Shape::Ring(_), _) => {
            marker(svg, mark, style, colour, ends[0]);
        }
        (Shape::Band, _) => {
            let band = format!(r#"class="band" points="{points}" fill="{colour}""#);
            svg.tag("polygon", &format!(r#"{band} fill-opacity="0.16""#));
        }
        (Shape::Line(line), _) => {
            let (class, width) = (line.class, line.width);
            let dashes = line.dashes.unwrap_or(style.dashes);
            let line = format!(r#"class="{class}" points="{points}" fill="none""#);
            let stroke = format!(r#"stroke="{colour}" stroke-width="{width}""#);
            svg.tag(
                "polyline",
                &format!(r#"{line} {stroke} stroke-dasharray="{dashes}""#),
            );
        }
        (Shape::Interval, _) => interval(svg, mark, colour, ends),
        (Shape::Tile | Shape::Bar, Some(shade)) => tile(svg, mark, shade, ends),
        (Shape::Tile | Shape::Bar, None) => {
            bar(svg, mark, colour, ends);
            let foot = Some(style.shape).filter(|_| is_one_of_many);
            foot.into_iter()
                .for_each(|shape| bar_foot(svg, shape, colour, ends));
        }
        (Shape::Words(lines), _) => {
            let look = format!(r#"text-anchor="middle" font-size="12.5" fill="{INK}""#);
            svg.text(ends[0], &look, &lines.join(" "));
        }
    }
}

fn interval(svg: &mut Svg, mark: &Mark, colour: &str, [from, to]: [(f64, f64); 2]) {
    // The ends stand across.
    let end = 4.0 * mark.size;
    let (across, up) = [(0.0, end), (end, 0.0)][usize::from(from.0 == to.0)];
    let ends = |(x, y): (f64, f64)| [(x - across, y - up), (x + across, y + up)];
    let points = coordinates(&[&ends(from)[..], &[from, to], &ends(to)[..]].concat());
    let line = format!(r#"class="interval" points="{points}" fill="none" stroke="{colour}""#);
    svg.tag("polyline", &format!(r#"{line} stroke-width="1.3""#));
    if mark.bound.y {
        let at = at(to);
        svg.tag(
            "path",
            &format!(r#"class="bound" {at} d="{OPEN}" fill="{colour}""#),
        );
    }
}

/// The attributes of a rectangle between two corners, and its width and height.
fn area([from, to]: [(f64, f64); 2]) -> (String, f64, f64) {
    let (left, top) = (from.0.min(to.0), from.1.min(to.1));
    let (wide, high) = ((from.0 - to.0).abs(), (from.1 - to.1).abs());
    let [x, y, width, height] = [left, top, wide, high].map(coordinate);
    let area = format!(r#"x="{x}" y="{y}" width="{width}" height="{height}""#);
    (area, wide, high)
}

fn tile(svg: &mut Svg, mark: &Mark, shade: Ramp, [from, mut to]: [(f64, f64); 2]) {
    let edge = match (&mark.shape, &mark.state) {
        (Shape::Tile, state) => {
            // Neighbours overlap a little, or the paper would show between them.
            to.0 += 0.3;
            let opacity = if *state == State::Counts { "1" } else { "0.3" };
            format!(r#"shape-rendering="crispEdges" fill-opacity="{opacity}""#)
        }
        (_, State::Counts) => format!(r#"stroke="{PAPER}""#),
        _ => format!(r#"stroke="{INK}" fill-opacity="0.3" stroke-dasharray="4 3""#),
    };
    let (area, ..) = area([from, to]);
    let Ramp { class, colour } = shade;
    let tile = format!(r#"class="shade {class}" {area} fill="{colour}" {edge}"#);
    svg.hinted("rect", &tile, &mark.hint);
}

fn bar(svg: &mut Svg, mark: &Mark, colour: &str, ends: [(f64, f64); 2]) {
    let (class, fill, dashes) = match mark.state {
        State::Counts => ("bar", colour, "none"),
        State::Grey(_) => ("bar hollow grey", "none", "4 3"),
        _ => ("bar hollow", "none", "4 3"),
    };
    let bar = format!(
        r#"class="{class}" {} fill="{fill}" fill-opacity="0.5""#,
        area(ends).0
    );
    let stroke = format!(r#"stroke="{colour}" stroke-width="1.2" stroke-dasharray="{dashes}""#);
    svg.hinted("rect", &format!("{bar} {stroke}"), &mark.hint);
}

/// The marker of a series at the foot of its bar, so that bars differ without colour too.
fn bar_foot(svg: &mut Svg, shape: &str, colour: &str, ends: [(f64, f64); 2]) {
    let (_, wide, high) = area(ends);
    if wide > 8.0 && high > 12.0 {
        let at = at((
            ends[0].0.midpoint(ends[1].0),
            ends[0].1.max(ends[1].1) - 7.0,
        ));
        let fill = format!(r#"fill="{PAPER}" stroke="{colour}""#);
        svg.tag("path", &format!(r#"class="foot" {at} d="{shape}" {fill}"#));
    }
}

fn marker(svg: &mut Svg, mark: &Mark, style: CurveStyle, colour: &str, place: (f64, f64)) {
    let (class, shape, width) = match (&mark.state, &mark.shape) {
        (State::Missing(_), _) => ("absent", MISSING, 1.4),
        (State::Failing(_), _) => ("mark hollow failing", FAILS, 2.0),
        (State::Published(_), _) => ("mark hollow published", PUBLISHED, 1.6),
        (_, Shape::Ring(shape)) => ("mark hollow ring", *shape, 1.7),
        (State::Grey(_), Shape::Dot) => ("mark hollow grey", DOT, 0.9),
        (State::Grey(_), _) => ("mark hollow grey", style.shape, 1.1),
        (State::Counts, Shape::Dot) => ("mark", DOT, 0.8),
        (State::Counts, _) => ("mark", style.shape, 0.8),
    };
    let is_filled = class == "mark";
    let size = mark.size.min(if is_filled { f64::INFINITY } else { 1.6 });
    let shade = mark.shade.filter(|_| is_filled);
    let (shaded, fill) = match (class, shade) {
        (_, Some(shade)) => (format!(" shaded {}", shade.class), shade.colour),
        ("mark", None) => (String::new(), colour),
        // It stands out from a dark bar.
        ("mark hollow published" | "absent", None) => (String::new(), PAPER),
        _ => (String::new(), "none"),
    };
    let bounds = [(mark.bound.y, BOUND_Y), (mark.bound.x, BOUND_X)];
    let arrows = bounds.map(|(is_bound, arrow)| if is_bound { arrow } else { "" });
    let aside = match mark.aside {
        0.0 => String::new(),
        aside => format!(r#" data-aside="{}""#, coordinate(aside)),
    };
    let at = match size {
        1.0 => at(place),
        size => at(place).replace(")", &format!(") scale({})", coordinate(size))),
    };
    let path = format!(r#"{at} d="{shape}{}""#, arrows.concat());
    let width = (width / size * 100.0).round() / 100.0;
    let opacity = if size == 1.0 && is_filled {
        "0.55"
    } else {
        "0.9"
    };
    let fill = format!(r#"fill="{fill}" fill-opacity="{opacity}""#);
    let look = format!(r#"{fill} stroke="{colour}" stroke-width="{width}""#);
    let marker = format!(r#"class="{class}{shaded}"{aside} {path} {look}"#);
    svg.hinted("path", &marker, &mark.hint);
}

/// `transform="translate(x y)"`.
fn at((x, y): (f64, f64)) -> String {
    let [x, y] = [x, y].map(coordinate);
    format!(r#"transform="translate({x} {y})""#)
}
