//! Which cells of a stage are compared with which.
//!
//! In a full design, two cells are compared if they differ in one factor alone. An experiment may
//! also zip factors (`threaded` is one cache with one pool), or list cells in which several vary
//! together. A factor is *dependent* here if the compared factor and the other factors that are
//! kept equal determine it: over all cells of the stage, equal values of those have one value of
//! it. Two cells are compared if they differ in the compared factor, and otherwise in dependent
//! factors only. What differs besides is stated with each comparison.
//!
//! Only the cells of the plan decide this, never a measured value.

use std::collections::{BTreeMap, HashMap};

use crate::cell::Cell;
use crate::published;
use crate::record::{Factor, Factors, Value};

/// The pairs of cells of a stage that are compared.
pub(super) struct Pairs<'a> {
    /// The factor that is compared.
    pub(super) factor: &'a Factor,
    /// Its value that the others are compared with.
    pub(super) baseline: &'a Value,
    /// The factors that are equal in both cells of a pair and vary between pairs.
    pub(super) equal: Vec<&'a Factor>,
    /// Dependent factors that differ within a pair.
    pub(super) dependent: Vec<Dependent<'a>>,
    pub(super) pairs: Vec<Pair<'a>>,
    /// Cells without a cell of the baseline to compare with.
    pub(super) unmatched: u64,
}

/// What an experiment wants to have compared.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The compared factor.
    pub(crate) factor: &'a Factor,
    /// What the others are compared with: cells with these values, which need not be equal on both
    /// sides. None: the factor's reference.
    pub(crate) baseline: Option<&'a Factors>,
}

/// A factor that differs together with the compared one.
pub(crate) struct Dependent<'a> {
    pub(crate) factor: &'a Factor,
    /// Whether it is part of what the compared factor names, so that the names of cells do without
    /// it: its values are names, and the compared factor, which precedes it, determines it alone.
    pub(crate) is_implied: bool,
}

/// The indices of a cell and that of the baseline, and the former's value of the factor.
pub(super) struct Pair<'a> {
    pub(super) of: usize,
    pub(super) to: usize,
    pub(super) value: &'a Value,
}

impl<'a> Pairs<'a> {
    /// The pairs by the wanted factor and baseline if there are any, else by the first of the
    /// varied factors that has some, or else by the first of them without any. None: no factor is
    /// varied.
    pub(super) fn of(
        varied: &[&'a Factor],
        cells: &[Cell<'a>],
        wanted: Option<Wanted<'a>>,
    ) -> Option<Self> {
        let table = Table::of(varied, cells);
        if let Some(wanted) = wanted
            && let Some(at) = varied.iter().position(|it| it.name == wanted.factor.name)
        {
            // The first of its values that has cells to compare with.
            let stated = wanted.baseline.and_then(|it| it.get(&wanted.factor.name));
            let values = stated.into_iter().chain(baselines(wanted.factor, cells));
            let mut pairs = values
                .map(|value| Self::by(at, value, wanted.baseline, varied, &table, cells))
                .filter(|it| !it.pairs.is_empty());
            if let Some(pairs) = pairs.next() {
                return Some(pairs);
            }
        }
        let by = |compared: usize| {
            let baseline = baselines(varied.get(compared)?, cells).next()?;
            Some(Self::by(compared, baseline, None, varied, &table, cells))
        };
        let first = by(0)?;
        if !first.pairs.is_empty() {
            return Some(first);
        }
        let mut others = (1..varied.len()).filter_map(by);
        let found = others.find(|it| !it.pairs.is_empty());
        Some(found.unwrap_or(first))
    }

    fn by(
        compared: usize,
        baseline: &'a Value,
        wanted: Option<&'a Factors>,
        varied: &[&'a Factor],
        table: &Table,
        cells: &[Cell<'a>],
    ) -> Self {
        let factor = varied[compared];
        let has_all = |cell: &Cell, of: &Factors| published::has_all(cell.factors, of);
        let wanted = wanted.filter(|it| {
            it.get(&factor.name) == Some(baseline) && cells.iter().any(|cell| has_all(cell, it))
        });
        let mut equal = table.equal(compared, varied.len());
        if let Some(wanted) = wanted {
            equal.retain(|&it| !wanted.contains_key(&varied[it].name));
        }
        let at = |cell: &Cell<'a>| -> Vec<Option<&'a Value>> {
            equal.iter().map(|&it| cell.value(varied[it])).collect()
        };
        let mut baselines = BTreeMap::new();
        for (index, cell) in cells.iter().enumerate() {
            let is_wanted = wanted.is_none_or(|it| has_all(cell, it));
            if cell.value(factor) == Some(baseline) && is_wanted {
                baselines.entry(at(cell)).or_insert(index);
            }
        }
        let (mut pairs, mut unmatched) = (Vec::new(), 0);
        for (of, cell) in cells.iter().enumerate() {
            let Some(value) = cell.value(factor).filter(|it| *it != baseline) else {
                continue;
            };
            match baselines.get(&at(cell)) {
                Some(&to) => pairs.push(Pair { of, to, value }),
                None => unmatched += 1,
            }
        }
        let differs = |it: &usize| {
            let column = &table.columns[*it];
            pairs.iter().any(|pair| column[pair.of] != column[pair.to])
        };
        let dependent = (0..varied.len())
            .filter(|it| *it != compared && !equal.contains(it))
            .filter(differs)
            .map(|it| Dependent {
                factor: varied[it],
                is_implied: varied[it].is_named()
                    && compared < it
                    && table.determine(&[compared], it),
            });
        let dependent = dependent.collect();
        Self {
            factor,
            baseline,
            equal: equal.into_iter().map(|it| varied[it]).collect(),
            dependent,
            pairs,
            unmatched,
        }
    }
}

/// The reference, then the other values, of those that a cell has.
fn baselines<'a>(factor: &'a Factor, cells: &[Cell]) -> impl Iterator<Item = &'a Value> {
    let is_there = |value: &&Value| cells.iter().any(|cell| cell.value(factor) == Some(*value));
    let reference = factor.reference.iter();
    reference.chain(&factor.values).filter(is_there)
}

/// Which factors are set aside, if others determine them.
#[derive(Clone, Copy)]
enum Rule {
    /// Those that determine the compared factor: as long as they are equal, it is too.
    Determining,
    /// Those that a single other factor determines.
    OfOne,
    Any,
}

/// The values of the varied factors in the cells, as numbers: equal ones have the same number.
struct Table {
    /// A column for each factor, with an entry for each cell.
    columns: Vec<Vec<u32>>,
}

impl Table {
    fn of(varied: &[&Factor], cells: &[Cell]) -> Self {
        let column = |factor: &&Factor| {
            let mut numbers = BTreeMap::new();
            let values = cells.iter().map(|cell| cell.value(factor));
            let number = values.map(|value| {
                let next = numbers.len() as u32;
                *numbers.entry(value).or_insert(next)
            });
            number.collect()
        };
        Self {
            columns: varied.iter().map(column).collect(),
        }
    }

    /// The factors that are equal in both cells of a pair, if those differ in `compared`.
    ///
    /// Factors are set aside one after another by each [`Rule`] in turn, and only if the compared
    /// factor and the remaining ones determine them. Of several that determine each other the
    /// earlier in the plan remain, because the last is set aside first.
    fn equal(&self, compared: usize, count: usize) -> Vec<usize> {
        let mut equal: Vec<usize> = (0..count).filter(|&it| it != compared).collect();
        for rule in [Rule::Determining, Rule::OfOne, Rule::Any] {
            for it in equal.clone().into_iter().rev() {
                let mut others: Vec<usize> = equal.clone();
                others.retain(|&other| other != it);
                let applies = match rule {
                    Rule::Determining => self.determine(&[it], compared),
                    Rule::OfOne => others.iter().any(|&other| {
                        self.determine(&[other], it) && !self.determine(&[it], other)
                    }),
                    Rule::Any => true,
                };
                if !applies {
                    continue;
                }
                others.push(compared);
                if self.determine(&others, it) {
                    others.pop();
                    equal = others;
                }
            }
        }
        equal
    }

    /// Whether cells with equal values of all these factors have one value of another.
    fn determine(&self, factors: &[usize], of: usize) -> bool {
        let column = &self.columns[of];
        let mut classes = vec![0; column.len()];
        for &factor in factors {
            let mut numbers = HashMap::new();
            for (class, value) in classes.iter_mut().zip(&self.columns[factor]) {
                let next = numbers.len() as u32;
                *class = *numbers.entry((*class, *value)).or_insert(next);
            }
        }
        let mut values = HashMap::new();
        let mut cells = classes.iter().zip(column);
        cells.all(|(class, value)| values.entry(class).or_insert(value) == &value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The factors of a table of text, whose first line has their names; `-` is no value.
    struct Design {
        factors: Vec<Factor>,
        cells: Vec<Factors>,
    }

    impl Design {
        fn of(text: &str) -> Self {
            let mut lines = text.lines().map(|it| it.split_whitespace());
            let mut factors: Vec<Factor> = lines
                .next()
                .unwrap()
                .map(|name| Factor::new(name, Vec::new()))
                .collect();
            let mut cells = Vec::new();
            for line in lines {
                let mut cell = Factors::new();
                for (factor, text) in factors.iter_mut().zip(line) {
                    let value = match text.parse::<f64>() {
                        _ if text == "-" => continue,
                        Ok(number) => Value::from(number),
                        Err(_) => Value::from(text),
                    };
                    if !factor.values.contains(&value) {
                        factor.values.push(value.clone());
                    }
                    cell.insert(factor.name.clone(), value);
                }
                cells.push(cell);
            }
            Self { factors, cells }
        }

        /// `FACTOR BASELINE; equal …; dependent …; pairs 1-0 …`, where an implied factor has `*`.
        fn words(&self) -> String {
            let cells = self.cells.iter().map(|factors| Cell {
                factors,
                planned: 1,
                measured: Vec::new(),
            });
            let cells: Vec<Cell> = cells.collect();
            let factors: Vec<&Factor> = self.factors.iter().collect();
            let pairs = Pairs::of(&factors, &cells, None).unwrap();
            let equal = pairs.equal.iter().map(|it| it.name.clone());
            let dependent = pairs.dependent.iter().map(|it| {
                let implied = if it.is_implied { "*" } else { "" };
                format!("{}{implied}", it.factor.name)
            });
            let listed = pairs.pairs.iter().map(|it| format!("{}-{}", it.of, it.to));
            format!(
                "{} {}; equal {}; dependent {}; pairs {}; unmatched {}",
                pairs.factor.name,
                pairs.baseline,
                equal.collect::<Vec<_>>().join(" "),
                dependent.collect::<Vec<_>>().join(" "),
                listed.collect::<Vec<_>>().join(" "),
                pairs.unmatched,
            )
        }
    }

    #[test]
    fn cells_of_a_full_design_differ_in_one_factor_alone() {
        let design = Design::of("a b\nx 1\nx 2\ny 1\ny 2");
        let words = "a x; equal b; dependent ; pairs 2-0 3-1; unmatched 0";
        assert_eq!(design.words(), words);
    }

    #[test]
    fn zipped_factors_are_dependent_whichever_is_first() {
        let design = Design::of(
            "server cache pool send\none u o get\none u o set\npoll e p get\npoll e p set\n\
             sleep e s get\nsleep e s set",
        );
        let words = "server one; equal send; dependent cache* pool*; pairs 2-0 3-1 4-0 5-1; \
                     unmatched 0";
        assert_eq!(design.words(), words);
        // Two servers have one cache: it does not determine the server.
        let design = Design::of("cache server\nu one\ne two\ne three");
        let words = "server one; equal ; dependent cache; pairs 1-0 2-0; unmatched 0";
        assert_eq!(design.words(), words);
    }

    #[test]
    fn a_number_that_differs_too_is_told_and_a_name_that_depends_on_more_is_too() {
        let design = Design::of(
            "server operation clients requests law\none get 5 100 x\none set 5 10 x\n\
             two get 4 25 y\ntwo set 4 25 x",
        );
        let words = "server one; equal operation; dependent clients requests law; pairs 2-0 3-1; \
                     unmatched 0";
        assert_eq!(design.words(), words);
    }

    #[test]
    fn the_earlier_of_factors_that_determine_each_other_stays_equal() {
        // 25 requests are of both kinds of iterations, and 10 and 100 of one.
        let design = Design::of(
            "server iterations operation send requests\n\
             one published get g 100\none published getx g 100\none published set s 10\n\
             two published get g 25\ntwo published getx g 25\ntwo published set s 25\n\
             one each get g 25\none each getx g 25\none each set s 25",
        );
        let words = "server one; equal iterations operation; dependent requests; \
                     pairs 3-0 4-1 5-2; unmatched 0";
        assert_eq!(design.words(), words);
    }

    #[test]
    fn a_rate_that_follows_from_server_and_load_level_is_dependent() {
        let design = Design::of("server load rate\na 0.5 10\na 1 20\nb 0.5 15\nb 1 30");
        let words = "server a; equal load; dependent rate; pairs 2-0 3-1; unmatched 0";
        assert_eq!(design.words(), words);
    }

    #[test]
    fn a_nested_factor_that_is_not_determined_separates_cells() {
        let design =
            Design::of("runtime scheduler\nevents -\nthreads -\nfibres fair\nfibres steal");
        let words = "runtime events; equal scheduler; dependent ; pairs 1-0; unmatched 2";
        assert_eq!(design.words(), words);
    }

    #[test]
    fn steps_that_add_settings_are_compared_by_their_names() {
        let design = Design::of(
            "server a b step\nx - - s1\nx on - s2\nx on on s3\ny - - s1\ny on - s2\ny on on s3",
        );
        let words = "server x; equal step; dependent ; pairs 3-0 4-1 5-2; unmatched 0";
        assert_eq!(design.words(), words);
    }

    #[test]
    fn of_nested_factors_the_inner_one_is_compared_and_the_outer_one_told() {
        let design = Design::of("a b\nx 1\nx 2\ny 3\ny 4");
        let words = "b 1; equal ; dependent a; pairs 1-0 2-0 3-0; unmatched 0";
        assert_eq!(design.words(), words);
    }
}
