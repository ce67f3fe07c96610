//! Checks a declaration against a plan.

use std::collections::HashSet;

use super::{Figure, FigureKind};
use crate::limits;
use crate::record::{Better, Metric, Plan, Value};
use crate::units;

/// How similar a known name must be to be suggested (Jaro-Winkler, 0 to 1), and how many are.
const NEAR: f64 = 0.7;
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
    keys(figure)
        .and_then(|()| names(figure, plan))
        .and_then(|()| clash(figure))
        .and_then(|()| units_of(figure, plan))
        .and_then(|()| directions(figure, plan))
        .map_err(|what| format!("figure `{}`: {what}", figure.name))
}

impl FigureKind {
    /// Its name in files, and the keys that have an effect on it, beyond those of every kind.
    fn description(self) -> (&'static str, &'static str) {
        const CURVE: &str = "x y by unit scale x-scale knee diagonal diagonal-title";
        const PLANE: &str = "x y by unit scale x-scale size shade marks";
        match self {
            Self::Curve => ("curve", CURVE),
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
    if figure.kind == Stack && !(2..=most).contains(&count) {
        let parts = units::plural(count as u64, "name");
        return Err(format!("`parts` has {parts}; a stack needs 2 to {most}"));
    }
    if figure.y.is_empty() && !matches!(figure.kind, Stack | Ratios) {
        return Err(format!("a {kind} needs `y`"));
    }
    let set = toml::Table::try_from(figure).map_err(|error| error.to_string())?;
    let is_known = |key: &str| {
        COMMON
            .split(' ')
            .chain(known.split(' '))
            .any(|it| it == key)
    };
    let is_default = |key: &str| key == "scale" && figure.scale == super::Scale::default();
    match set.keys().find(|key| !is_known(key) && !is_default(key)) {
        Some(key) => Err(format!("`{key}` has no effect on a {kind}")),
        None => Ok(()),
    }
}

/// The names of factors and metrics, and the values of factors.
fn names(figure: &Figure, plan: &Plan) -> Result<(), String> {
    use FigureKind::{Cdf, Curve, Deciles, HeatMap, Ratios};
    let of_x = match figure.kind {
        kind if kind == Curve || kind.is_of_cells() => Known::Either,
        _ => Known::Factor,
    };
    // A distribution may be of an artefact; deciles and heat maps are of a series.
    let has_metric = !matches!(figure.kind, Cdf | Deciles | HeatMap) && !figure.y.is_empty();
    let y = Some(&figure.y).filter(|_| has_metric);
    let one = [
        ("x", figure.x.as_ref(), of_x),
        ("y", y, Known::Metric),
        ("by", figure.by.as_ref(), Known::Factor),
        ("panel", figure.panel.as_ref(), Known::Factor),
        ("size", figure.size.as_ref(), Known::Either),
        ("shade", figure.shade.as_ref(), Known::Either),
        ("knee", figure.knee.as_ref(), Known::Metric),
    ];
    let one = one.into_iter().filter_map(|it| Some((it.0, it.1?, it.2)));
    let marks = figure.marks.iter().map(|it| ("marks", it, Known::Metric));
    let parts = figure.parts.iter().map(|it| ("parts", it, Known::Metric));
    let only = figure.only.keys().map(|it| ("only", it, Known::Factor));
    for (key, name, known) in one.chain(marks).chain(parts).chain(only) {
        find(plan, name, known).map_err(|what| format!("`{key}`: {what}"))?;
    }
    for (name, value) in &figure.only {
        check_value(plan, name, value).map_err(|what| format!("`only`: {what}"))?;
    }
    let stage = figure.stage.iter().find(|name| plan.stage(name).is_none());
    if let Some(name) = stage {
        let known = plan.stages.iter().map(|it| it.name.as_str());
        let known = nearest(name, known.collect());
        return Err(format!("`stage`: no stage is named `{name}`; {known}"));
    }
    // The short form may lack the cells of which there are published values.
    if figure.kind == Ratios && plan.published.is_empty() && !plan.quick {
        return Err("a ratios figure needs published values (`[[published]]`)".to_owned());
    }
    match plan.factor(&figure.y).map(|it| &it.name) {
        Some(name) => Err(format!("`y` is the factor `{name}`: it is not measured")),
        None => Ok(()),
    }
}

/// One name in two places.
fn clash(figure: &Figure) -> Result<(), String> {
    let mut seen = HashSet::new();
    if let Some(twice) = figure.parts.iter().find(|name| !seen.insert(*name)) {
        return Err(format!("`parts` has `{twice}` twice"));
    }
    if figure.by.is_some() && figure.by == figure.x {
        return Err("`by` and `x` are the same factor".to_owned());
    }
    match &figure.panel {
        Some(name) if [&figure.x, &figure.by].contains(&&figure.panel) => {
            Err(format!("`panel` is `{name}`, as `x` or `by` is"))
        }
        _ => Ok(()),
    }
}

fn units_of(figure: &Figure, plan: &Plan) -> Result<(), String> {
    let mut drawn = figure.drawn().filter_map(|name| plan.metric(name));
    let Some(Metric { name, unit, .. }) = drawn.next() else {
        return Ok(());
    };
    let shown = figure.unit.as_ref();
    if let Some(shown) = shown.filter(|shown| unit.to(shown).is_none()) {
        return Err(format!("`unit`: `{name}` is in `{unit}`, not `{shown}`"));
    }
    match drawn.find(|it| it.unit.to(unit).is_none()) {
        Some(Metric {
            name: other,
            unit: of_other,
            ..
        }) => {
            let parts = format!("`{name}` is in `{unit}` and `{other}` in `{of_other}`");
            Err(format!("`parts`: {parts}, which have no sum"))
        }
        None => Ok(()),
    }
}

/// Metrics of which it must be known which values are better.
fn directions(figure: &Figure, plan: &Plan) -> Result<(), String> {
    let better = |name: &String| plan.metric(name).map_or(Better::Neither, |it| it.better);
    let needs = "must be a metric of which";
    let is_unfit = |name: &&String| better(name) != Better::Lower;
    if let Some(name) = figure.knee.as_ref().filter(is_unfit) {
        return Err(format!("`knee`: `{name}` {needs} lower values are better"));
    }
    let sides = [("x", figure.x.as_ref()), ("y", Some(&figure.y))];
    let sides = sides
        .into_iter()
        .filter(|_| figure.kind == FigureKind::Pareto);
    let marks = figure.marks.iter().map(|name| ("marks", Some(name)));
    for (key, name) in sides.chain(marks) {
        if let Some(name) = name.filter(|name| better(name) == Better::Neither) {
            return Err(format!(
                "`{key}`: `{name}` {needs} higher or lower values are better"
            ));
        }
    }
    Ok(())
}

/// Checks that a factor has a value.
pub(crate) fn check_value(plan: &Plan, name: &str, value: &Value) -> Result<(), String> {
    let Some(factor) = plan.factor(name).filter(|it| !it.values.contains(value)) else {
        return Ok(());
    };
    let known = quoted(factor.values.iter().take(8));
    Err(format!("`{name}` has no value `{value}`; it has {known}"))
}

/// Checks that a name is of a factor or metric.
pub(crate) fn find(plan: &Plan, name: &str, known: Known) -> Result<(), String> {
    let (what, has_factors, has_metrics) = match known {
        Known::Factor => ("factor", true, false),
        Known::Metric => ("metric", false, true),
        Known::Either => ("factor or metric", true, true),
    };
    let factors = plan
        .factors
        .iter()
        .filter(|_| has_factors)
        .map(|it| &it.name);
    let metrics = plan
        .metrics
        .iter()
        .filter(|_| has_metrics)
        .map(|it| &it.name);
    let names: Vec<&str> = factors.chain(metrics).map(String::as_str).collect();
    match names.contains(&name) {
        true => Ok(()),
        false => Err(format!(
            "no {what} is named `{name}`; {}",
            nearest(name, names)
        )),
    }
}

/// The names nearest to one; all, if they are few and none is near.
fn nearest(name: &str, names: Vec<&str>) -> String {
    let known = names.iter().copied();
    let near = known.map(|known| (strsim::jaro_winkler(name, known), known));
    let mut near: Vec<(f64, &str)> = near.collect();
    near.retain(|it| it.0 >= NEAR);
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near = near.into_iter().take(SUGGESTIONS).map(|it| it.1);
    match (near.len(), names.len()) {
        (1.., _) => format!("the nearest known: {}", quoted(near)),
        (0, 0) => "there is none".to_owned(),
        (0, 1..=12) => format!("known: {}", quoted(names.into_iter())),
        (0, count) => format!("none of the {count} known names is similar"),
    }
}

fn quoted(names: impl Iterator<Item = impl std::fmt::Display>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    units::listed(&names)
}

/// Whether a name is fit for a part of a file name.
pub(crate) fn is_fit(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.len() <= limits::FILE_NAME_CHARACTERS && name.chars().all(is_plain)
}
