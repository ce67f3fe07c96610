//! The dimension along which the cells of a curve differ, drawn as the x-axis: the offered rate or,
//! in an experiment with a single rate, the varied parameter.

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

/// Above this ratio of the greatest setting to the least, the axis is logarithmic.
const WIDE: f64 = 5.0;

impl<'a> SweepAxis<'a> {
    pub(crate) fn of(plan: &'a Plan) -> Self {
        match &plan.vary {
            Some(vary) if plan.sweep.rates() == 1 => Self::Setting(vary),
            _ => Self::Rate,
        }
    }

    /// Name in titles.
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
            Self::Setting(Vary::Depth(_)) => "outstanding requests per connection",
            Self::Setting(Vary::Update(_)) => "share of updates",
            Self::Setting(Vary::Saturating(_)) => {
                "saturating connections, in addition to the measured ones"
            }
        }
    }

    /// The axis over all cells. Every setting has a label; rates have labels at round values.
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

    /// The position of a trial.
    pub(crate) fn of_trial(self, trial: &Trial) -> Option<f64> {
        match self {
            Self::Rate => trial.offered_rps,
            Self::Setting(_) => trial.setting,
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

    /// The label of a value on an axis that ends at `greatest`.
    pub(crate) fn tick(self, value: f64, greatest: f64) -> String {
        match self {
            Self::Rate => units::rate_tick(value, greatest),
            Self::Setting(vary) => vary.value_text(value),
        }
    }

    /// The unit by which the page's script labels a zoomed axis.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Setting(Vary::Update(_)) => "share",
            Self::Setting(_) => "count",
        }
    }
}
