//! Mean number of ready connections when a worker of the server wakes up: how bursty its work is.
//! Only servers that count it are drawn.

use super::Figure;
use crate::chart::axis::Scale;
use crate::folder::{FigureKind, Measurement};
use crate::units;

pub(super) struct Bursts;

impl Figure for Bursts {
    fn kind(&self) -> FigureKind {
        FigureKind::Bursts
    }

    fn stem(&self) -> &'static str {
        "bursts"
    }

    fn quantity(&self) -> &'static str {
        "Connections served per wake-up"
    }

    fn axis_title(&self) -> &'static str {
        "ready connections per wake-up, mean (log scale)"
    }

    fn scale(&self) -> Scale {
        Scale::Log
    }

    fn value(&self, measured: &Measurement) -> Option<f64> {
        measured.bursts.as_ref().map(|bursts| bursts.mean)
    }

    fn words(&self, value: f64) -> String {
        format!("{} per wake-up", units::number(value))
    }

    fn tick(&self, value: f64, _greatest: f64) -> String {
        units::plain_tick(value)
    }

    fn unit(&self) -> &'static str {
        "count"
    }
}
