//! The design of an experiment: its factors, and the cells that they make.
//!
//! | in the file | cells |
//! |---|---|
//! | `[[factor]]` | crossed with all factors before it |
//! | `[[factor]]` with `with = "NAME"` | advances together with the factors of the same name |
//! | `[[factor]]` with `only = { other = [...] }` | only in cells with those values of the other factor |
//! | `[[cell]]` | a list of combinations, crossed with the factors |
//! | `[ladder]` | steps, each of which adds its settings to those of the steps before it |

use std::collections::{BTreeMap, BTreeSet, HashSet};

use report::record::{Factor, Factors, Value};
use serde::de::MapAccess;
use serde::{Deserialize, Deserializer};

use crate::error::suggestion;
use crate::kind::{Kind, Violation};
use crate::limits;
use crate::{placeholder, rates};

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FactorSpec {
    name: String,
    values: Vec<Value>,
    unit: Option<String>,
    title: Option<String>,
    phrase: Option<String>,
    reference: Option<Value>,
    with: Option<String>,
    #[serde(default)]
    only: BTreeMap<String, Vec<Value>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Listed {
    cells: Vec<Factors>,
    /// The names of their factors, in the order in which the file has them first.
    names: Vec<String>,
}

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let mut listed = Self::default();
        for InOrder(cell) in Vec::deserialize(source)? {
            for (name, _) in &cell {
                if !listed.names.contains(name) {
                    listed.names.push(name.clone());
                }
            }
            listed.cells.push(cell.into_iter().collect());
        }
        Ok(listed)
    }
}

impl Listed {
    pub(crate) fn read_rates(&mut self) {
        self.cells.iter_mut().for_each(rates::read_all);
    }
}

struct InOrder(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for InOrder {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = InOrder;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table of factors and their values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InOrder, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(InOrder(entries))
            }
        }
        source.deserialize_map(Visitor)
    }
}

/// Steps, each of which adds its settings to those of the steps before it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Ladder {
    pub(crate) name: String,
    step: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Step {
    name: String,
    #[serde(default)]
    set: Factors,
}

impl Ladder {
    pub(crate) fn read_rates(&mut self) {
        self.step
            .iter_mut()
            .for_each(|it| rates::read_all(&mut it.set));
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Design {
    pub(crate) factors: Vec<Factor>,
    pub(crate) cells: Vec<Factors>,
}

const FACTOR: &str = "[[factor]]";
const CELL: &str = "[[cell]]";
const LADDER: &str = "[ladder]";
const STEP: &str = "[[ladder.step]]";

impl Design {
    /// Expands the declarations of a file. The kind's own factors come first and vary slowest.
    pub(crate) fn of(
        kind: &dyn Kind,
        specs: &[FactorSpec],
        listed: &Listed,
        ladder: Option<&Ladder>,
    ) -> Result<Self, Violation> {
        let mut design = Self {
            factors: Vec::new(),
            cells: vec![Factors::new()],
        };
        for factor in kind.own_factors() {
            let rows = factor.values.iter().map(|it| row(&factor.name, it));
            design.cross(&rows.collect::<Vec<_>>(), |_| true);
            design.factors.push(factor);
        }
        if !listed.cells.is_empty() {
            let rows = read_rows(kind, &listed.cells)
                .map_err(|(nth, key, problem)| Violation::new(CELL, nth, &key, problem))?;
            design.cross(&rows, |_| true);
            design.define_all(kind, &listed.cells, &listed.names)?;
        }
        if let Some(ladder) = ladder {
            design.climb(kind, ladder)?;
        }
        design.add(kind, specs)?;
        let most = report::limits::CELLS;
        if design.cells.len() > most {
            let problem = format!("tables make more than {most} cells");
            return Err(Violation::new("", 0, "factor", problem));
        }
        design.check_names()?;
        Ok(design)
    }

    /// Replaces each cell that `applies` by its combinations with `rows`.
    fn cross(&mut self, rows: &[Factors], applies: impl Fn(&Factors) -> bool) {
        // The count is checked by the caller; the bound here only limits the work before that.
        let most = report::limits::CELLS + 1;
        let mut cells = Vec::new();
        for cell in &self.cells {
            if !applies(cell) {
                cells.push(cell.clone());
                continue;
            }
            for row in rows {
                let mut combined = cell.clone();
                combined.extend(row.clone());
                cells.push(combined);
            }
            if cells.len() > most {
                break;
            }
        }
        self.cells = cells;
    }

    /// Defines the factors of listed rows, as the file has them, each with its distinct values in
    /// order: those of `names` first and in that order, then the others by name.
    fn define_all(
        &mut self,
        kind: &dyn Kind,
        rows: &[Factors],
        names: &[String],
    ) -> Result<(), Violation> {
        let mut values: BTreeMap<&String, Vec<Value>> = BTreeMap::new();
        for (name, value) in rows.iter().flatten() {
            let of_name = values.entry(name).or_default();
            if !of_name.contains(value) {
                of_name.push(value.clone());
            }
        }
        let named = names.iter().filter_map(|name| values.remove_entry(name));
        let named: Vec<(&String, Vec<Value>)> = named.collect();
        for (name, values) in named.into_iter().chain(values) {
            let mut factor = kind
                .factor(name, values)
                .map_err(|problem| Violation::new("", 0, name, problem))?;
            keep_distinct(&mut factor.values);
            self.factors.push(factor);
        }
        Ok(())
    }

    fn climb(&mut self, kind: &dyn Kind, ladder: &Ladder) -> Result<(), Violation> {
        if ladder.step.len() < 2 {
            let problem = "is missing: a ladder has at least two steps";
            return Err(Violation::new(LADDER, 0, "step", problem));
        }
        check_name(&ladder.name).map_err(|problem| Violation::new(LADDER, 0, "name", problem))?;
        let mut settings = Factors::new();
        let mut rows = Vec::new();
        for (nth, step) in ladder.step.iter().enumerate() {
            let violation = |key, problem| Err(Violation::new(STEP, nth, key, problem));
            if ladder.step[..nth].iter().any(|it| it.name == step.name) {
                let problem = format!("is `{}`, as that of an earlier step", step.name);
                return violation("name", problem);
            }
            if step.set.contains_key(&ladder.name) {
                let problem = format!("has `{}`, which is the name of the ladder", ladder.name);
                return violation("set", problem);
            }
            settings.extend(step.set.clone());
            let mut row = settings.clone();
            row.insert(ladder.name.clone(), Value::from(step.name.as_str()));
            rows.push(row);
        }
        let read = read_rows(kind, &rows).map_err(|(nth, key, problem)| {
            Violation::new(STEP, nth, "set", format!("has `{key}`, which {problem}"))
        })?;
        self.cross(&read, |_| true);
        self.define_all(kind, &rows, &[])?;
        // After the settings of its steps.
        self.factors.sort_by_key(|it| it.name == ladder.name);
        Ok(())
    }

    fn add(&mut self, kind: &dyn Kind, specs: &[FactorSpec]) -> Result<(), Violation> {
        let mut zipped: HashSet<&str> = HashSet::new();
        for (nth, spec) in specs.iter().enumerate() {
            let violation = |key: &str, problem: String| Violation::new(FACTOR, nth, key, problem);
            let factor = spec
                .read(kind)
                .map_err(|(key, problem)| violation(key, problem))?;
            let group = match &spec.with {
                Some(with) if !zipped.insert(with) => {
                    self.factors.push(factor);
                    continue;
                }
                Some(with) => specs
                    .iter()
                    .filter(|it| it.with.as_ref() == Some(with))
                    .collect(),
                None => vec![spec],
            };
            if let (Some(with), 1) = (&spec.with, group.len()) {
                let others = specs.iter().filter_map(|it| it.with.as_deref());
                let near = suggestion(with, others.filter(|it| it != with));
                let problem = format!("is `{with}`, as that of no other factor{near}");
                return Err(violation("with", problem));
            }
            let rows = zip(kind, &group).map_err(|problem| violation("with", problem))?;
            let only = self.conditions(kind, &spec.only);
            let only = only.map_err(|problem| violation("only", problem))?;
            let is_in = |cell: &Factors| {
                let mut only = only.iter();
                only.all(|(other, values)| cell.get(*other).is_some_and(|it| values.contains(it)))
            };
            self.cross(&rows, is_in);
            self.factors.push(factor);
        }
        Ok(())
    }

    /// The values of other factors under which a factor exists, as the kind reads them.
    fn conditions<'a>(
        &self,
        kind: &dyn Kind,
        only: &'a BTreeMap<String, Vec<Value>>,
    ) -> Result<Vec<(&'a String, Vec<Value>)>, String> {
        let mut conditions = Vec::new();
        for (other, values) in only {
            let Some(known) = self.factors.iter().find(|it| it.name == *other) else {
                let near = suggestion(other, self.factors.iter().map(|it| it.name.as_str()));
                return Err(format!(
                    "names `{other}`, which is no factor above this one{near}"
                ));
            };
            // The values of a factor that follows from the settings are names.
            let read = kind.factor(other, values.clone());
            let read = read.map_or_else(|_| values.clone(), |it| it.values);
            let mut unknown = read.iter().zip(values);
            if let Some((_, unknown)) = unknown.find(|(it, _)| !known.values.contains(it)) {
                return Err(format!("has {unknown}, which `{other}` never is"));
            }
            conditions.push((other, read));
        }
        Ok(conditions)
    }

    fn check_names(&self) -> Result<(), Violation> {
        let mut names = HashSet::new();
        for factor in &self.factors {
            if !names.insert(&factor.name) {
                let problem = format!("tables declare `{}` twice", factor.name);
                return Err(Violation::new("", 0, "factor", problem));
            }
        }
        let most = report::limits::FACTORS;
        if self.factors.len() > most {
            let problem = format!("tables are {}, at most {most}", self.factors.len());
            return Err(Violation::new("", 0, "factor", problem));
        }
        Ok(())
    }

    /// Refuses equal cells, which would be two places of one combination in every table.
    pub(crate) fn check_distinct(&self) -> Result<(), Violation> {
        let mut seen = BTreeSet::new();
        let Some(again) = self.cells.iter().find(|cell| !seen.insert(*cell)) else {
            return Ok(());
        };
        let words = again.iter().map(|(name, value)| format!("{name} {value}"));
        let words = words.collect::<Vec<_>>().join(", ");
        let problem = format!("tables make two cells with {words}");
        Err(Violation::new("", 0, "factor", problem))
    }
}

/// The name of a factor is a column of a table, and a placeholder.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    match (1..=64).contains(&name.len()) && name.chars().all(placeholder::is_in_name) {
        true => Ok(()),
        false => Err("must be 1 to 64 letters, digits, `.`, `_` or `-`".to_owned()),
    }
}

impl FactorSpec {
    pub(crate) fn read_rates(&mut self) {
        let values = self.values.iter_mut().chain(&mut self.reference);
        let read = values.map(|it| rates::read(&self.name, it));
        // Each is read.
        if read.fold(false, |any, it| any | it) && self.unit.is_none() {
            self.unit = Some("/s".to_owned());
        }
        for (name, values) in &mut self.only {
            for value in values {
                rates::read(name, value);
            }
        }
    }

    /// The definition, or the key that is wrong and its problem.
    fn read(&self, kind: &dyn Kind) -> Result<Factor, (&'static str, String)> {
        check_name(&self.name).map_err(|problem| ("name", problem))?;
        let most = limits::LEVELS;
        if self.values.is_empty() || self.values.len() > most {
            let problem = format!("has {} entries, not 1 to {most}", self.values.len());
            return Err(("values", problem));
        }
        let mut factor = kind
            .factor(&self.name, self.values.clone())
            .map_err(|problem| ("values", problem))?;
        let distinct: HashSet<String> = factor.values.iter().map(|it| format!("{it:?}")).collect();
        if self.with.is_none() && distinct.len() < factor.values.len() {
            return Err(("values", "holds a value twice".to_owned()));
        }
        keep_distinct(&mut factor.values);
        if let Some(unit) = &self.unit {
            factor.unit = Some(unit.clone().into());
        }
        if let Some(title) = &self.title {
            factor.title.clone_from(title);
        }
        if self.phrase.is_some() {
            factor.phrase.clone_from(&self.phrase);
        }
        if let Some(reference) = &self.reference {
            let read = kind.factor(&self.name, vec![reference.clone()]);
            let read = read.map_err(|problem| ("reference", problem))?;
            let reference = read.values.into_iter().next();
            if !reference
                .as_ref()
                .is_some_and(|it| factor.values.contains(it))
            {
                return Err(("reference", "is not among the values".to_owned()));
            }
            factor.reference = reference;
        }
        Ok(factor)
    }
}

/// Keeps the first of equal values, such as `1ms` and `1000us`.
fn keep_distinct(values: &mut Vec<Value>) {
    let mut seen = Vec::new();
    values.retain(|value| {
        let is_new = !seen.contains(value);
        seen.push(value.clone());
        is_new
    });
}

fn row(name: &str, value: &Value) -> Factors {
    Factors::from([(name.to_owned(), value.clone())])
}

/// Rows with the values as the kind reads them; the index, key and problem of the first wrong one.
fn read_rows(kind: &dyn Kind, rows: &[Factors]) -> Result<Vec<Factors>, (usize, String, String)> {
    let read = |(nth, row): (usize, &Factors)| {
        let read = row.iter().map(|(name, value)| {
            check_name(name).map_err(|problem| (nth, name.clone(), problem))?;
            let factor = kind.factor(name, vec![value.clone()]);
            let factor = factor.map_err(|problem| (nth, name.clone(), problem))?;
            let value = factor.values.into_iter().next();
            Ok((name.clone(), value.unwrap_or_else(|| Value::from(0.0))))
        });
        read.collect()
    };
    rows.iter().enumerate().map(read).collect()
}

fn zip(kind: &dyn Kind, group: &[&FactorSpec]) -> Result<Vec<Factors>, String> {
    let len = group.first().map_or(0, |first| first.values.len());
    let only = group.first().map(|first| &first.only);
    let mut rows = vec![Factors::new(); len];
    for spec in group {
        if spec.values.len() != len {
            return Err(format!(
                "joins factors of {len} and {} values, which cannot advance together",
                spec.values.len()
            ));
        }
        if Some(&spec.only) != only {
            return Err("joins factors with different `only`".to_owned());
        }
        let factor = kind.factor(&spec.name, spec.values.clone())?;
        for (row, value) in rows.iter_mut().zip(factor.values) {
            row.insert(spec.name.clone(), value);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests;
