//! What an axis, a size or a shade shows: a factor or a metric by its name, or a series or
//! artefact, which a plan does not define.
//!
//! Values are numbers. Those of a factor whose values are names are their indices.

use crate::chart::axis::{Axis, NAMES, PLOT_WIDTH, Scale, Side};
use crate::record::{Factor, Factors, Measured, Metric, Plan, Record, Unit, Value};
use crate::units;

/// Above this ratio of the greatest value of a factor to the least, its axis is logarithmic.
pub(super) const WIDE: f64 = 5.0;

/// What is shown.
#[derive(Debug, Clone, Copy)]
pub(super) enum Dimension<'a> {
    Factor(&'a Factor),
    Metric(&'a Metric),
    /// A series or artefact.
    Other(&'a str),
}

impl<'a> Dimension<'a> {
    /// The factor or metric of that name, or else a series or artefact.
    pub(super) fn of(plan: &'a Plan, name: &'a str) -> Self {
        match (plan.factor(name), plan.metric(name)) {
            (Some(factor), _) => Self::Factor(factor),
            (None, Some(metric)) => Self::Metric(metric),
            (None, None) => Self::Other(name),
        }
    }

    /// Its name, title, unit and declared title of an axis.
    fn parts(self) -> (&'a str, &'a str, Option<&'a Unit>, Option<&'a String>) {
        let (name, title, unit, axis) = match self {
            Self::Factor(it) => (&it.name, &it.title, it.unit.as_ref(), &it.axis_title),
            Self::Metric(it) => (&it.name, &it.title, Some(&it.unit), &it.axis_title),
            Self::Other(name) => return (name, name, None, None),
        };
        (name, title, unit, axis.as_ref())
    }

    pub(super) fn name(self) -> &'a str {
        self.parts().0
    }

    pub(super) fn title(self) -> &'a str {
        self.parts().1
    }

    pub(super) fn unit(self) -> Option<&'a Unit> {
        self.parts().2
    }

    pub(super) fn factor(self) -> Option<&'a Factor> {
        match self {
            Self::Factor(factor) => Some(factor),
            Self::Metric(_) | Self::Other(_) => None,
        }
    }

    /// Whether a measurement has it.
    pub(super) fn is_in(self, record: &Record, of: &Measured) -> bool {
        match self {
            Self::Factor(_) | Self::Metric(_) => self.of_record(record).is_some(),
            Self::Other(it) => of.series.contains_key(it) || of.artefacts.contains_key(it),
        }
    }

    /// The value of a trial. None: not measured.
    pub(super) fn of_record(self, record: &Record) -> Option<f64> {
        match self {
            Self::Factor(_) => self.of_factors(&record.factors),
            Self::Metric(metric) => record.number(&metric.name),
            Self::Other(_) => None,
        }
    }

    /// The value of a cell, where no trial is needed to know it: of a factor, or of the factor that
    /// is the planned value of a metric.
    pub(super) fn of_factors(self, factors: &Factors) -> Option<f64> {
        match self {
            Self::Factor(factor) => {
                let value = factors.get(&factor.name)?;
                if !factor.is_named() {
                    return value.number();
                }
                let index = factor.values.iter().position(|it| it == value)?;
                Some(index as f64)
            }
            Self::Metric(metric) => {
                let planned = metric.planned.as_ref()?;
                factors.get(planned)?.number()
            }
            Self::Other(_) => None,
        }
    }

    /// A value with its unit.
    pub(super) fn text(self, number: f64) -> String {
        match self {
            Self::Factor(factor) => factor.value_text(&value_of(factor, number)),
            Self::Metric(metric) => metric.unit.words(number),
            Self::Other(_) => units::number(number),
        }
    }

    /// A value on its own: `16 connections`.
    pub(super) fn label(self, number: f64) -> String {
        match self {
            Self::Factor(factor) => factor.label(&value_of(factor, number)),
            Self::Metric(_) | Self::Other(_) => self.text(number),
        }
    }

    /// A value as the data beside a figure has it: a number or a name.
    pub(super) fn plain(self, number: f64) -> String {
        match self {
            Self::Factor(factor) => value_of(factor, number).to_string(),
            Self::Metric(_) | Self::Other(_) => number.to_string(),
        }
    }

    /// A value in a sentence: `at 20.0 k/s offered`, `with 16 connections`.
    pub(super) fn place(self, number: f64) -> String {
        match self {
            Self::Factor(factor) => factor.words(&value_of(factor, number)),
            Self::Metric(metric) => metric.words(number),
            Self::Other(name) => format!("at {name} {}", units::number(number)),
        }
    }

    /// The horizontal axis over some values. Every value of a factor has a label; metrics have
    /// labels at round values.
    pub(super) fn horizontal(self, scale: Option<Scale>, values: Vec<f64>) -> Side {
        if let Self::Factor(factor) = self {
            return self.factor_side(factor, scale, values);
        }
        let least = values.iter().copied().reduce(f64::min);
        let scale = scale.unwrap_or(linear_over(least.unwrap_or_default()));
        let axis = Axis::over(scale, values);
        Side::of_unit(self.unit(), None, axis, &self.axis_title())
    }

    fn factor_side(self, factor: &Factor, scale: Option<Scale>, values: Vec<f64>) -> Side {
        let title = self.axis_title();
        if factor.is_named() {
            let names = factor.values.iter().map(|value| factor.value_text(value));
            return Side::of_names(&title, &names.collect::<Vec<String>>(), NAMES);
        }
        let numbers: Vec<f64> = factor.values.iter().filter_map(Value::number).collect();
        let (least, greatest) = range(numbers.iter().copied()).unwrap_or_default();
        let is_wide = least > 0.0 && greatest > WIDE * least;
        let scale = scale.unwrap_or(match is_wide {
            true => Scale::Log,
            false => linear_over(least),
        });
        let axis = Axis::over(scale, values).labelled_at(&numbers);
        let script = factor.unit.as_ref().map(Unit::script);
        let script = script.unwrap_or_else(|| "count".to_owned());
        Side::new(axis, &title, script, |at| self.text(at)).thinned(PLOT_WIDTH)
    }

    /// The title of an axis with labels in `unit`, if that is given.
    pub(super) fn scaled_title(self, scale: Scale, unit: Option<&Unit>) -> String {
        let title = match unit {
            Some(unit) => format!("{} ({})", self.title(), unit.name()),
            None => self.axis_title(),
        };
        match scale {
            Scale::Log => title + " (log scale)",
            Scale::Linear | Scale::Fitted => title,
        }
    }

    /// The title of an axis, with the unit, if the labels have none.
    pub(super) fn axis_title(self) -> String {
        let declared = self.parts().3.cloned();
        declared.unwrap_or_else(|| match self.unit() {
            Some(unit) if !unit.is_in_ticks() => format!("{} ({})", self.title(), unit.name()),
            _ => self.title().to_owned(),
        })
    }
}

/// The scale without logarithms of values of which this is the least: from 0, if none is below.
fn linear_over(least: f64) -> Scale {
    match least < 0.0 {
        true => Scale::Fitted,
        false => Scale::Linear,
    }
}

/// The value of a factor that a number stands for. The number may have been computed from its
/// logarithm.
fn value_of(factor: &Factor, number: f64) -> Value {
    if factor.is_named() {
        let index = number.round().max(0.0) as usize;
        let value = factor.values.get(index).cloned();
        return value.unwrap_or(Value::Number(number));
    }
    let is_near = |value: &&Value| {
        let value = value.number().unwrap_or(f64::NAN);
        (value - number).abs() <= 1e-9 * value.abs()
    };
    let near = factor.values.iter().find(is_near);
    near.cloned().unwrap_or(Value::Number(number))
}

/// The labels of some factors in a cell.
pub(super) fn labels<'f>(of: impl Iterator<Item = &'f Factor>, cell: &Factors) -> Vec<String> {
    let label = |factor: &Factor| Some(factor.label(cell.get(&factor.name)?));
    of.filter_map(label).collect()
}

/// The least and the greatest of some values.
pub(super) fn range(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let least = values.clone().reduce(f64::min)?;
    Some((least, values.reduce(f64::max)?))
}
