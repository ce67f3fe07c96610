//! What the cells of a curve differ in, and what stands along the lower axis of its figure: the
//! offered rate or, where an experiment has one rate only, what it varies.

use crate::cells::Cell;
use crate::chart::axis::{Axis, Scale};
use crate::folder::{Plan, Trial};
use crate::settings::Vary;
use crate::units;

#[derive(Debug, Clone, Copy)]
pub(crate) enum SweepAxis<'a> {
    Rate,
    Setting(&'a Vary),
}

/// From this ratio of the greatest setting to the least on, they stand by their logarithms.
const WIDE: f64 = 5.0;

impl<'a> SweepAxis<'a> {
    pub(crate) fn of(plan: &'a Plan) -> Self {
        match &plan.vary {
            Some(vary) if plan.sweep.rates() == 1 => Self::Setting(vary),
            _ => Self::Rate,
        }
    }

    /// What titles say a quantity is drawn against.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rate => "offered rate",
            Self::Setting(Vary::Connections(_)) => "connections",
            Self::Setting(Vary::Depth(_)) => "depth",
            Self::Setting(Vary::Update(_)) => "share of updates",
            Self::Setting(Vary::Saturating(_)) => "saturating connections",
        }
    }

    /// Title of the axis, with its unit.
    pub(crate) fn axis_title(self) -> &'static str {
        match self {
            Self::Rate => "offered rate (requests/s)",
            Self::Setting(Vary::Connections(_)) => "connections",
            Self::Setting(Vary::Depth(_)) => "requests outstanding a connection",
            Self::Setting(Vary::Update(_)) => "share of updates",
            Self::Setting(Vary::Saturating(_)) => "saturating connections besides those measured",
        }
    }

    /// The axis, on which every cell finds room. Settings are labelled each, rates roundly.
    pub(crate) fn axis<'c>(self, cells: impl Iterator<Item = &'c Cell<'c>>) -> Axis {
        let values = cells.filter_map(|cell| self.of_cell(cell));
        match self {
            Self::Rate => Axis::over(Scale::Linear, values),
            Self::Setting(vary) => {
                let settings = vary.values();
                let (least, greatest) = (settings.first(), settings.last());
                let is_wide = least
                    .zip(greatest)
                    .is_some_and(|(&least, &greatest)| least > 0.0 && greatest > WIDE * least);
                let scale = match is_wide {
                    true => Scale::Log,
                    false => Scale::Linear,
                };
                Axis::over(scale, values).labelled_at(&settings)
            }
        }
    }

    /// Where a trial stands.
    pub(crate) fn of_trial(self, trial: &Trial) -> Option<f64> {
        match self {
            Self::Rate => trial.offered_rps,
            Self::Setting(_) => trial.setting,
        }
    }

    /// Where a cell stands.
    pub(crate) fn of_cell(self, cell: &Cell) -> Option<f64> {
        match self {
            Self::Rate => cell.offered_rps,
            Self::Setting(_) => cell.setting,
        }
    }

    /// Where `value` is: `at 20.0 k/s offered`, `with 16 connections`.
    pub(crate) fn place(self, value: f64) -> String {
        match self {
            Self::Rate => format!("at {} offered", units::rate(value)),
            Self::Setting(vary) => format!("with {}", vary.condition(value)),
        }
    }

    /// A value at the axis, where `greatest` is the axis's end.
    pub(crate) fn tick(self, value: f64, greatest: f64) -> String {
        match self {
            Self::Rate => units::rate_tick(value, greatest),
            Self::Setting(vary) => vary.value_text(value),
        }
    }

    /// What the script of the page labels a zoomed axis by.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Setting(Vary::Update(_)) => "share",
            Self::Setting(_) => "count",
        }
    }
}
