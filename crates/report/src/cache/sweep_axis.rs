//! The dimension along which the cells of a curve differ, drawn as the x-axis: the offered rate or,
//! in an experiment with a single rate, the varied parameter.

use crate::cache::cells::Cell;
use crate::cache::folder::Plan;
use crate::cache::settings::Vary;
use crate::units;

#[derive(Debug, Clone, Copy)]
pub(crate) enum SweepAxis<'a> {
    Rate,
    Setting(&'a Vary),
}

impl<'a> SweepAxis<'a> {
    pub(crate) fn of(plan: &'a Plan) -> Self {
        match &plan.vary {
            Some(vary) if plan.sweep.rates() == 1 => Self::Setting(vary),
            _ => Self::Rate,
        }
    }

    /// The position of a cell.
    pub(crate) fn of_cell(self, cell: &Cell) -> Option<f64> {
        match self {
            Self::Rate => cell.offered_rps,
            Self::Setting(_) => cell.setting,
        }
    }

    /// `value` in words: `at 20.0 k/s offered`, `with 16 connections`.
    pub(crate) fn place(self, value: f64) -> String {
        match self {
            Self::Rate => format!("at {} offered", units::rate(value)),
            Self::Setting(vary) => format!("with {}", vary.condition(value)),
        }
    }
}
