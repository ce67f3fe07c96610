//! Checks a declaration against a plan.

use std::collections::HashSet;

use super::{Figure, FigureKind};
use crate::figures::is_fit;
use crate::limits;
use crate::record::{Better, Plan, Value};
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
    let checked = name(figure)
        .and_then(|()| keys(figure))
        .and_then(|()| names(figure, plan))
        .and_then(|()| values(figure, plan));
    checked.map_err(|what| format!("figure `{}`: {what}", figure.name))
}

fn name(figure: &Figure) -> Result<(), String> {
    match is_fit(&figure.name) && !figure.name.is_empty() && !figure.name.starts_with('.') {
        true => Ok(()),
        false => Err(format!(
            "the name is a part of file names: 1 to {} of letters, digits, `-`, `_` and `.`",
            limits::FILE_NAME_CHARACTERS
        )),
    }
}

/// Which keys a kind needs, and which have no effect on it.
fn keys(figure: &Figure) -> Result<(), String> {
    use FigureKind::{Curve, HeatMap, Pareto, Ratios, Scatter, Stack};
    let kind = figure.kind.name();
    if figure.x.is_none() && matches!(figure.kind, Curve | HeatMap | Pareto | Scatter) {
        return Err(format!("a {kind} needs `x`"));
    }
    match figure.kind {
        Stack => parts(figure)?,
        Ratios => {}
        _ if figure.y.is_empty() => return Err(format!("a {kind} needs `y`")),
        _ => {}
    }
    let known = figure.kind.keys();
    let set = toml::Table::try_from(figure).map_err(|error| error.to_string())?;
    let is_vain = |(key, value): &(&String, &toml::Value)| {
        let is_default = *key == "scale" && value.as_str() == Some("linear");
        !is_default && !COMMON.contains(&key.as_str()) && !known.contains(&key.as_str())
    };
    match set.iter().find(is_vain) {
        Some((key, _)) => Err(format!("`{key}` has no effect on a {kind}")),
        None => Ok(()),
    }
}

/// The keys of every kind.
const COMMON: [&str; 7] = ["name", "kind", "title", "y-title", "panel", "only", "stage"];

/// The parts of a stack.
fn parts(figure: &Figure) -> Result<(), String> {
    let (count, most) = (figure.parts.len(), limits::PARTS);
    if !(2..=most).contains(&count) {
        let parts = units::plural(count as u64, "name");
        return Err(format!("`parts` has {parts}; a stack needs 2 to {most}"));
    }
    let mut seen = HashSet::new();
    match figure.parts.iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(format!("`parts` has `{twice}` twice")),
        None => Ok(()),
    }
}

fn names(figure: &Figure, plan: &Plan) -> Result<(), String> {
    use FigureKind::{Bars, Cdf, Deciles, HeatMap, Stack, Table};
    let is_grouped = matches!(figure.kind, Bars | Table | HeatMap | Stack);
    let x = if is_grouped {
        Known::Factor
    } else {
        Known::Either
    };
    // A distribution may be of an artefact; deciles and heat maps are of a series.
    let has_metric = !matches!(figure.kind, Cdf | Deciles | HeatMap | Stack);
    let named = [
        ("x", figure.x.as_ref(), x),
        (
            "y",
            Some(&figure.y).filter(|it| has_metric && !it.is_empty()),
            Known::Metric,
        ),
        ("by", figure.by.as_ref(), Known::Factor),
        ("panel", figure.panel.as_ref(), Known::Factor),
        ("size", figure.size.as_ref(), Known::Either),
        ("shade", figure.shade.as_ref(), Known::Either),
        ("knee", figure.knee.as_ref(), Known::Metric),
    ];
    for (key, name, known) in named {
        name.map_or(Ok(()), |name| find_of(key, plan, name, known))?;
    }
    for name in &figure.marks {
        find_of("marks", plan, name, Known::Metric)?;
    }
    for name in &figure.parts {
        find_of("parts", plan, name, Known::Metric)?;
    }
    if figure.kind == FigureKind::Ratios && plan.published.is_empty() {
        return Err("a ratios figure needs published values (`[[published]]`)".to_owned());
    }
    if plan.factor(&figure.y).is_some() {
        return Err(format!(
            "`y` is the factor `{}`: it is not measured",
            figure.y
        ));
    }
    if figure.by.is_some() && figure.by == figure.x {
        return Err("`by` and `x` are the same factor".to_owned());
    }
    if let Some(name) = figure.panel.as_ref()
        && [figure.x.as_ref(), figure.by.as_ref()].contains(&Some(name))
    {
        return Err(format!("`panel` is `{name}`, as `x` or `by` is"));
    }
    Ok(())
}

fn values(figure: &Figure, plan: &Plan) -> Result<(), String> {
    for (name, value) in &figure.only {
        find_of("only", plan, name, Known::Factor)?;
        check_value(plan, name, value).map_err(|what| format!("`only`: {what}"))?;
    }
    if let Some(name) = &figure.stage
        && plan.stage(name).is_none()
    {
        let stages = plan.stages.iter().map(|stage| stage.name.as_str());
        let known = nearest(name, stages.collect());
        return Err(format!("`stage`: no stage is named `{name}`; {known}"));
    }
    let mut drawn = figure.drawn().filter_map(|name| plan.metric(name));
    let first = drawn.next();
    if let (Some(of), Some(shown)) = (first, &figure.unit)
        && of.unit.to(shown).is_none()
    {
        return Err(format!(
            "`unit`: `{}` is in `{}`, not `{shown}`",
            of.name, of.unit
        ));
    }
    if let Some(first) = first
        && let Some(other) = drawn.find(|it| it.unit.to(&first.unit).is_none())
    {
        return Err(format!(
            "`parts`: `{}` is in `{}` and `{}` in `{}`, which have no sum",
            first.name, first.unit, other.name, other.unit
        ));
    }
    if let Some(name) = &figure.knee
        && plan
            .metric(name)
            .is_none_or(|it| it.better != Better::Lower)
    {
        return Err(format!(
            "`knee`: `{name}` must be a metric of which lower values are better"
        ));
    }
    let sides = [("x", figure.x.as_ref()), ("y", Some(&figure.y))];
    let fronts = sides
        .into_iter()
        .filter(|_| figure.kind == FigureKind::Pareto);
    let marks = figure.marks.iter().map(|name| ("marks", Some(name)));
    for (key, name) in fronts.chain(marks) {
        let better = name.and_then(|name| plan.metric(name)).map(|it| it.better);
        if matches!(better, None | Some(Better::Neither)) {
            let name = name.map(String::as_str).unwrap_or_default();
            return Err(format!(
                "`{key}`: `{name}` must be a metric of which higher or lower values are better"
            ));
        }
    }
    Ok(())
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

impl FigureKind {
    /// Whether each cell has a marker of its own, whatever `x` is.
    pub(crate) fn is_of_cells(self) -> bool {
        matches!(self, Self::Scatter | Self::Pareto)
    }

    /// The keys that have an effect on it, beyond those of every kind.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Curve => &[
                "x",
                "y",
                "by",
                "unit",
                "scale",
                "x-scale",
                "knee",
                "diagonal",
                "diagonal-title",
            ],
            Self::Cdf => &["y", "by", "unit", "scale", "x-scale"],
            Self::Bars => &["x", "y", "by", "unit", "scale"],
            Self::Deciles => &["y", "unit", "classes"],
            Self::Scatter | Self::Pareto => &[
                "x", "y", "by", "unit", "scale", "x-scale", "size", "shade", "marks",
            ],
            Self::HeatMap => &["x", "y", "unit", "step-s"],
            Self::Table => &["x", "y", "by", "unit"],
            Self::Stack => &["x", "parts", "by", "unit"],
            Self::Ratios => &["y"],
        }
    }

    /// Its name in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Curve => "curve",
            Self::Cdf => "cdf",
            Self::Bars => "bars",
            Self::Deciles => "deciles",
            Self::Scatter => "scatter",
            Self::HeatMap => "heat-map",
            Self::Pareto => "pareto",
            Self::Table => "table",
            Self::Stack => "stack",
            Self::Ratios => "ratios",
        }
    }
}
