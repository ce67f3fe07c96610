//! Checks a declaration against a plan.

use std::collections::HashSet;

use super::{Figure, FigureKind};
use crate::limits;
use crate::record::{Better, Metric, Plan, Value};
use crate::units;

/// How similar a known name must be to be suggested (Jaro-Winkler, 0 to 1).
const NEAR: f64 = 0.7;
/// Names suggested at most.
const SUGGESTIONS: usize = 3;

/// What a key of a declaration may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Factor,
    Metric,
    Either,
}

/// Checks the names and keys of a declaration against a plan.
///
/// # Errors
/// The problem in words, with the figure, the key and the nearest known names. The names of series
/// and artefacts are not checked: a plan does not list them.
pub fn check(figure: &Figure, plan: &Plan) -> Result<(), String> {
    let checked = keys(figure).and_then(|()| names(figure, plan));
    let problem = checked
        .err()
        .or_else(|| clash(figure))
        .or_else(|| units_of(figure, plan));
    match problem.or_else(|| directions(figure, plan)) {
        Some(what) => Err(format!("figure `{}`: {what}", figure.name)),
        None => Ok(()),
    }
}

impl FigureKind {
    /// Its name in files, and the keys that have an effect on it, beyond those of every kind.
    fn description(self) -> (&'static str, &'static str) {
        match self {
            Self::Curve => (
                "curve",
                "x y by unit scale x-scale knee diagonal diagonal-title",
            ),
            Self::Cdf => ("cdf", "y by unit scale x-scale"),
            Self::Bars => ("bars", "x y by unit scale"),
            Self::Deciles => ("deciles", "y unit classes"),
            Self::Scatter => ("scatter", PLANE),
            Self::Pareto => ("pareto", PLANE),
            Self::HeatMap => ("heat-map", "x y unit step-s"),
            Self::Table => ("table", "x y by unit"),
            Self::Stack => ("stack", "x parts by unit"),
            Self::Ratios => ("ratios", "y"),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.description().0
    }

    /// Whether each cell has a marker of its own, whatever `x` is.
    pub(crate) fn is_of_cells(self) -> bool {
        matches!(self, Self::Scatter | Self::Pareto)
    }
}

const PLANE: &str = "x y by unit scale x-scale size shade marks";
const COMMON: &str = "name kind title y-title panel only stage";

/// Which keys a kind needs, and which have no effect on it.
fn keys(figure: &Figure) -> Result<(), String> {
    use FigureKind::{Curve, HeatMap, Pareto, Ratios, Scatter, Stack};
    let (kind, known) = figure.kind.description();
    if !is_fit(&figure.name) || figure.name.is_empty() || figure.name.starts_with('.') {
        let most = limits::FILE_NAME_CHARACTERS;
        let what = "the name is a part of file names";
        return Err(format!(
            "{what}: 1 to {most} of letters, digits, `-`, `_` and `.`"
        ));
    }
    if figure.x.is_none() && matches!(figure.kind, Curve | HeatMap | Pareto | Scatter) {
        return Err(format!("a {kind} needs `x`"));
    }
    let (count, most) = (figure.parts.len(), limits::PARTS);
    match figure.kind {
        Stack if !(2..=most).contains(&count) => {
            let parts = units::plural(count as u64, "name");
            return Err(format!("`parts` has {parts}; a stack needs 2 to {most}"));
        }
        Stack | Ratios => {}
        _ if figure.y.is_empty() => return Err(format!("a {kind} needs `y`")),
        _ => {}
    }
    let set = toml::Table::try_from(figure).map_err(|error| error.to_string())?;
    let is_vain = |(key, value): &(&String, &toml::Value)| {
        let is_default = *key == "scale" && value.as_str() == Some("linear");
        !is_default
            && !COMMON
                .split(' ')
                .chain(known.split(' '))
                .any(|it| it == *key)
    };
    match set.iter().find(is_vain) {
        Some((key, _)) => Err(format!("`{key}` has no effect on a {kind}")),
        None => Ok(()),
    }
}

/// The names of factors and metrics, and the values of factors.
fn names(figure: &Figure, plan: &Plan) -> Result<(), String> {
    use FigureKind::{Cdf, Deciles, HeatMap};
    let is_plane = matches!(figure.kind, FigureKind::Curve) || figure.kind.is_of_cells();
    let of_x = if is_plane {
        Known::Either
    } else {
        Known::Factor
    };
    // A distribution may be of an artefact; deciles and heat maps are of a series.
    let has_metric = !matches!(figure.kind, Cdf | Deciles | HeatMap) && !figure.y.is_empty();
    let one = [
        ("x", figure.x.as_ref(), of_x),
        ("y", Some(&figure.y).filter(|_| has_metric), Known::Metric),
        ("by", figure.by.as_ref(), Known::Factor),
        ("panel", figure.panel.as_ref(), Known::Factor),
        ("size", figure.size.as_ref(), Known::Either),
        ("shade", figure.shade.as_ref(), Known::Either),
        ("knee", figure.knee.as_ref(), Known::Metric),
    ];
    let marks = figure
        .marks
        .iter()
        .map(|name| ("marks", Some(name), Known::Metric));
    let parts = figure
        .parts
        .iter()
        .map(|name| ("parts", Some(name), Known::Metric));
    let only = figure
        .only
        .keys()
        .map(|name| ("only", Some(name), Known::Factor));
    for (key, name, known) in one.into_iter().chain(marks).chain(parts).chain(only) {
        name.map_or(Ok(()), |name| find_of(key, plan, name, known))?;
    }
    for (name, value) in &figure.only {
        check_value(plan, name, value).map_err(|what| format!("`only`: {what}"))?;
    }
    let stage = figure
        .stage
        .as_ref()
        .filter(|name| plan.stage(name).is_none());
    if let Some(name) = stage {
        let known = nearest(
            name,
            plan.stages.iter().map(|it| it.name.as_str()).collect(),
        );
        return Err(format!("`stage`: no stage is named `{name}`; {known}"));
    }
    // The short form may lack the cells of which there are published values.
    let has_none = plan.published.is_empty() && !plan.quick;
    if figure.kind == FigureKind::Ratios && has_none {
        return Err("a ratios figure needs published values (`[[published]]`)".to_owned());
    }
    match plan.factor(&figure.y) {
        Some(it) => Err(format!(
            "`y` is the factor `{}`: it is not measured",
            it.name
        )),
        None => Ok(()),
    }
}

/// One name in two places.
fn clash(figure: &Figure) -> Option<String> {
    let mut seen = HashSet::new();
    if let Some(twice) = figure.parts.iter().find(|name| !seen.insert(*name)) {
        return Some(format!("`parts` has `{twice}` twice"));
    }
    if figure.by.is_some() && figure.by == figure.x {
        return Some("`by` and `x` are the same factor".to_owned());
    }
    let shown = [figure.x.as_ref(), figure.by.as_ref()];
    let panel = figure
        .panel
        .as_ref()
        .filter(|name| shown.contains(&Some(name)));
    panel.map(|name| format!("`panel` is `{name}`, as `x` or `by` is"))
}

fn units_of(figure: &Figure, plan: &Plan) -> Option<String> {
    let mut drawn = figure.drawn().filter_map(|name| plan.metric(name));
    let Metric { name, unit, .. } = drawn.next()?;
    if let Some(shown) = figure
        .unit
        .as_ref()
        .filter(|shown| unit.to(shown).is_none())
    {
        return Some(format!("`unit`: `{name}` is in `{unit}`, not `{shown}`"));
    }
    let other = drawn.find(|it| it.unit.to(unit).is_none())?;
    let (of_other, other) = (&other.unit, &other.name);
    let parts = format!("`{name}` is in `{unit}` and `{other}` in `{of_other}`");
    Some(format!("`parts`: {parts}, which have no sum"))
}

/// Metrics of which it must be known which values are better.
fn directions(figure: &Figure, plan: &Plan) -> Option<String> {
    let better = |name: &String| plan.metric(name).map_or(Better::Neither, |it| it.better);
    let knee = figure
        .knee
        .as_ref()
        .filter(|name| better(name) != Better::Lower);
    if let Some(name) = knee {
        let what = "must be a metric of which lower values are better";
        return Some(format!("`knee`: `{name}` {what}"));
    }
    let is_front = figure.kind == FigureKind::Pareto;
    let sides = [("x", figure.x.as_ref()), ("y", Some(&figure.y))];
    let sides = sides.into_iter().filter(|_| is_front);
    let marks = figure.marks.iter().map(|name| ("marks", Some(name)));
    let mut named = sides
        .chain(marks)
        .filter_map(|(key, name)| Some((key, name?)));
    let (key, name) = named.find(|(_, name)| better(name) == Better::Neither)?;
    let what = "must be a metric of which higher or lower values are better";
    Some(format!("`{key}`: `{name}` {what}"))
}

/// [`find`], with the key in the problem.
fn find_of(key: &str, plan: &Plan, name: &str, known: Known) -> Result<(), String> {
    find(plan, name, known).map_err(|what| format!("`{key}`: {what}"))
}

/// Checks that a factor has a value.
pub(crate) fn check_value(plan: &Plan, name: &str, value: &Value) -> Result<(), String> {
    let Some(factor) = plan.factor(name).filter(|it| !it.values.contains(value)) else {
        return Ok(());
    };
    let values = factor.values.iter().take(8).map(|it| format!("`{it}`"));
    let known = units::listed(&values.collect::<Vec<String>>());
    Err(format!("`{name}` has no value `{value}`; it has {known}"))
}

/// Checks that a name is of a factor or metric.
pub(crate) fn find(plan: &Plan, name: &str, known: Known) -> Result<(), String> {
    let has_factor = known != Known::Metric;
    let has_metric = known != Known::Factor;
    let is_factor = has_factor && plan.factor(name).is_some();
    if is_factor || (has_metric && plan.metric(name).is_some()) {
        return Ok(());
    }
    let mut names: Vec<&str> = Vec::new();
    if has_factor {
        names.extend(plan.factors.iter().map(|factor| factor.name.as_str()));
    }
    if has_metric {
        names.extend(plan.metrics.iter().map(|metric| metric.name.as_str()));
    }
    let what = match known {
        Known::Factor => "factor",
        Known::Metric => "metric",
        Known::Either => "factor or metric",
    };
    let known = nearest(name, names);
    Err(format!("no {what} is named `{name}`; {known}"))
}

/// The names nearest to one; all, if they are few and none is near.
fn nearest(name: &str, names: Vec<&str>) -> String {
    let mut near: Vec<(f64, &str)> = names
        .iter()
        .map(|&known| (strsim::jaro_winkler(name, known), known))
        .filter(|&(similarity, _)| similarity >= NEAR)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let quoted = |names: Vec<&str>| -> Vec<String> {
        names.iter().map(|name| format!("`{name}`")).collect()
    };
    let near: Vec<&str> = near
        .into_iter()
        .take(SUGGESTIONS)
        .map(|(_, it)| it)
        .collect();
    match (near.is_empty(), names.len()) {
        (false, _) => format!("the nearest known: {}", units::listed(&quoted(near))),
        (true, 0) => "there is none".to_owned(),
        (true, 1..=12) => format!("known: {}", units::listed(&quoted(names))),
        (true, count) => format!("none of the {count} known names is similar"),
    }
}

/// Whether a name is fit for a part of a file name.
pub(crate) fn is_fit(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.len() <= limits::FILE_NAME_CHARACTERS && name.chars().all(is_plain)
}
