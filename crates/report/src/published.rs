//! Values of metrics that others have published, beside those of a run.
//!
//! A published value belongs to the cells in which some factors have the stated values. It is shown
//! beside their medians, and never takes part in a comparison: of its trials nothing is known. A
//! published ratio is shown beside the quotient of two medians.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::answer::StageResults;
use crate::cell::Cell;
use crate::figure::{Known, check_value, find};
use crate::record::{Factors, Metric, Plan, Unit, Value};
use crate::{Run, limits, units};

/// A published value of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Published {
    /// The metric.
    pub metric: String,
    /// The value.
    pub value: f64,
    /// The unit of the value. None: that of the metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// The cells to which it applies: those in which these factors have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, Value>,
    /// The other cells of a ratio: the value is the metric of the former cells divided by that of
    /// the cells in which these factors have these values. Empty: the value is no ratio.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub to: BTreeMap<String, Value>,
    /// Where it was published, such as `Smith 2016, table 2`.
    pub source: String,
}

impl Published {
    /// Whether it applies to a cell.
    #[must_use]
    pub fn is_of(&self, cell: &Factors) -> bool {
        has_all(cell, &self.only)
    }

    /// Whether it is a quotient of two values.
    pub(crate) fn is_ratio(&self) -> bool {
        !self.to.is_empty()
    }

    /// What the other cell of a ratio is called beside `cell`: the values of `to` that differ from
    /// those of `cell`, such as `strategy nowait`.
    fn other_name(&self, cell: &Factors) -> String {
        let differing = self.to.iter();
        let differing = differing.filter(|(name, value)| cell.get(*name) != Some(*value));
        let names = differing.map(|(name, value)| format!("{name} {value}"));
        names.collect::<Vec<String>>().join(", ")
    }

    /// The value in the unit of its metric.
    pub(crate) fn number(&self, metric: &Metric) -> f64 {
        let unit = self.unit.as_ref().unwrap_or(&metric.unit);
        self.value * unit.to(&metric.unit).unwrap_or(1.0)
    }
}

/// Whether these factors have these values in a cell.
pub(crate) fn has_all(cell: &Factors, values: &BTreeMap<String, Value>) -> bool {
    let mut values = values.iter();
    values.all(|(name, value)| cell.get(name) == Some(value))
}

/// The index of the other cell of a ratio: the one with the values of `to` and otherwise those of
/// `cell`, or else the only one with the values of `to`, in which factors may differ that follow
/// from these. None: there is none, there are several, or it is `cell`.
pub(crate) fn other<'c>(
    to: &BTreeMap<String, Value>,
    cell: &Factors,
    cells: impl Iterator<Item = &'c Factors> + Clone,
) -> Option<usize> {
    if has_all(cell, to) {
        return None;
    }
    let mut wanted = cell.clone();
    wanted.extend(to.clone());
    if let Some(at) = cells.clone().position(|it| *it == wanted) {
        return Some(at);
    }
    let mut found = cells.enumerate().filter(|(_, it)| has_all(it, to));
    match (found.next(), found.next()) {
        (Some((at, _)), None) => Some(at),
        _ => None,
    }
}

/// Checks the published values of a plan.
///
/// # Errors
/// The index of the first wrong one, its key, and the problem, which follows the key in a sentence.
pub fn check(plan: &Plan) -> Result<(), (usize, &'static str, String)> {
    for (nth, published) in plan.published.iter().enumerate() {
        let (key, problem) = match check_one(published, plan) {
            Ok(()) => match clash(nth, published, plan) {
                None => continue,
                Some(problem) => ("only", problem),
            },
            Err(wrong) => wrong,
        };
        return Err((nth, key, problem));
    }
    Ok(())
}

fn check_one(published: &Published, plan: &Plan) -> Result<(), (&'static str, String)> {
    find(plan, &published.metric, Known::Metric).map_err(|what| ("metric", wrong(&what)))?;
    if !published.value.is_finite() {
        return Err((
            "value",
            format!("is {}, not a finite number", published.value),
        ));
    }
    let metric = plan.metric(&published.metric);
    if let Some((of, unit)) = metric.map(|it| &it.unit).zip(published.unit.as_ref())
        && unit.to(of).is_none()
    {
        let problem = format!("is `{unit}`, but `{}` is in `{of}`", published.metric);
        return Err(("unit", problem));
    }
    if published.is_ratio() && published.unit.is_some() {
        return Err(("unit", "is of a value, and a ratio has none".to_owned()));
    }
    for (key, factors) in [("only", &published.only), ("to", &published.to)] {
        for (name, value) in factors {
            find(plan, name, Known::Factor).map_err(|what| (key, wrong(&what)))?;
            check_value(plan, name, value).map_err(|what| (key, wrong(&what)))?;
        }
    }
    let cells = plan.last_stage().into_iter().flat_map(|it| &it.cells);
    let own: Vec<&Factors> = cells.clone().filter(|it| published.is_of(it)).collect();
    if own.is_empty() {
        return Err((
            "only",
            "matches no cell: no cell has all these values".to_owned(),
        ));
    }
    let mut own = own.into_iter();
    if published.is_ratio() && own.any(|cell| other(&published.to, cell, cells.clone()).is_none()) {
        let problem = "matches not one cell for each of `only`: name more factors";
        return Err(("to", problem.to_owned()));
    }
    if published.source.trim().is_empty() {
        return Err((
            "source",
            "is empty: say where the value was published".to_owned(),
        ));
    }
    Ok(())
}

fn wrong(what: &str) -> String {
    format!("is wrong: {what}")
}

/// Whether an earlier one is of the same metric and cell: which of them would be shown is unclear.
fn clash(nth: usize, published: &Published, plan: &Plan) -> Option<String> {
    let cells = || plan.last_stage().into_iter().flat_map(|it| &it.cells);
    let is_same = |it: &&Published| {
        let is_of_both = |cell: &Factors| it.is_of(cell) && published.is_of(cell);
        it.metric == published.metric && it.to == published.to && cells().any(is_of_both)
    };
    let earlier = plan.published[..nth].iter().find(is_same)?;
    Some(format!(
        "matches a cell for which {} of `{}` is given already: name more factors",
        earlier.value, earlier.metric
    ))
}

/// A published value and the cell to which it applies.
#[derive(Debug)]
pub(crate) struct Pair<'r, 'a> {
    pub(crate) metric: &'a Metric,
    pub(crate) cell: &'r Cell<'a>,
    /// The other cell, and what it is called, if the value is a ratio.
    pub(crate) other: Option<(&'r Cell<'a>, String)>,
    /// In the unit of the metric, or a ratio.
    pub(crate) value: f64,
    pub(crate) source: &'a str,
}

impl Pair<'_, '_> {
    /// The median of the measured values, or the quotient of two medians, if there is one.
    pub(crate) fn measured(&self) -> Option<f64> {
        let median = |cell: &Cell| {
            let values = cell.values(&self.metric.name);
            values.spread().map(|it| it.median)
        };
        let own = median(self.cell)?;
        match &self.other {
            None => Some(own),
            Some((other, _)) => median(other).filter(|it| *it != 0.0).map(|it| own / it),
        }
    }

    /// What is published, after a name of the metric or of the cell: `response time ÷ strategy
    /// nowait`.
    pub(crate) fn words(&self, name: &str) -> String {
        match &self.other {
            None => name.to_owned(),
            Some((_, other)) => format!("{name} ÷ {other}"),
        }
    }

    /// The published value as text.
    pub(crate) fn published(&self) -> String {
        self.text(self.value)
    }

    /// A value or a ratio as text.
    pub(crate) fn text(&self, value: f64) -> String {
        match self.other {
            None => self.metric.unit.words(value),
            Some(_) => units::number(value),
        }
    }

    /// The quotient of the measured median and the published value, as text.
    pub(crate) fn ratio(&self) -> String {
        let measured = self.measured().filter(|_| self.value != 0.0);
        measured.map_or("–".to_owned(), |it| units::number(it / self.value))
    }
}

/// The published values with the cells of a stage, by cell, and within a cell in the order of the
/// plan; at most [`limits::PAGE_ROWS`].
pub(crate) fn pairs<'r, 'a>(run: &'a Run, results: &'r StageResults<'a>) -> Vec<Pair<'r, 'a>> {
    let of_cell = |cell: &'r Cell<'a>| {
        let own = run
            .plan
            .published
            .iter()
            .filter(|it| it.is_of(cell.factors));
        own.filter_map(move |it| {
            let metric = run.plan.metric(&it.metric)?;
            let other = match it.is_ratio() {
                false => None,
                true => {
                    let factors = results.cells.iter().map(|it| it.factors);
                    let other = results.cells.get(other(&it.to, cell.factors, factors)?)?;
                    Some((other, it.other_name(cell.factors)))
                }
            };
            Some(Pair {
                metric,
                cell,
                other,
                value: it.number(metric),
                source: &it.source,
            })
        })
    };
    let pairs = results.cells.iter().flat_map(of_cell);
    pairs.take(limits::PAGE_ROWS).collect()
}

/// How far the measured values agree: `7 of 9 published values within 10 %, 8 within 25 %, orders
/// kept: 10 of 12.` An order is that of two published values of one metric and publication. None:
/// nothing published was measured.
pub(crate) fn agreement<'a>(pairs: &[Pair<'_, 'a>]) -> Option<String> {
    let known: Vec<(&Pair<'_, 'a>, f64)> = pairs
        .iter()
        .filter_map(|it| Some((it, it.measured()?)))
        .collect();
    if known.is_empty() {
        return None;
    }
    let within = |share: f64| {
        let is_within = |(pair, measured): &&(&Pair<'_, 'a>, f64)| {
            (measured - pair.value).abs() <= share * pair.value.abs()
        };
        known.iter().filter(is_within).count()
    };
    // What follows is a part of the publication, such as a table or a server.
    let family = |pair: &Pair<'_, 'a>| {
        let publication = pair.source.split([',', ':', ';']).next();
        (publication, &pair.metric.name, pair.other.is_some())
    };
    let families: Vec<_> = known.iter().map(|(pair, _)| family(pair)).collect();
    let (mut orders, mut kept) = (0, 0);
    for (nth, (one, measured)) in known.iter().enumerate() {
        for (other_nth, (other, other_measured)) in known.iter().enumerate().skip(nth + 1) {
            if one.value == other.value || families[nth] != families[other_nth] {
                continue;
            }
            orders += 1;
            let is_same = (one.value < other.value) == (measured < other_measured);
            kept += usize::from(is_same && measured != other_measured);
        }
    }
    let mut sentence = format!(
        "{} of {} within 10\u{a0}%, {} within 25\u{a0}%",
        within(0.10),
        units::plural(known.len() as u64, "published value"),
        within(0.25),
    );
    if orders > 0 {
        sentence.push_str(&format!(", orders kept: {kept} of {orders}"));
    }
    let absent = pairs.len() - known.len();
    if absent > 0 {
        sentence.push_str(&format!("; {absent} not measured"));
    }
    Some(sentence + ".")
}

/// The sources of some pairs, each once.
pub(crate) fn sources<'a>(pairs: &[Pair<'_, 'a>]) -> Vec<&'a str> {
    let mut sources: Vec<&str> = Vec::new();
    for pair in pairs {
        if !sources.contains(&pair.source) {
            sources.push(pair.source);
        }
    }
    sources
}
