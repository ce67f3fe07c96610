//! Achieved rate against offered rate: up to which rate a server keeps up.

use super::Figure;
use crate::chart::axis::Scale;
use crate::folder::{FigureKind, Measurement};
use crate::units;

pub(super) struct Throughput;

impl Figure for Throughput {
    fn kind(&self) -> FigureKind {
        FigureKind::Throughput
    }

    fn stem(&self) -> &'static str {
        "throughput"
    }

    fn quantity(&self) -> &'static str {
        "Achieved rate"
    }

    fn axis_title(&self) -> &'static str {
        "achieved rate (requests/s)"
    }

    fn scale(&self) -> Scale {
        Scale::Linear
    }

    fn value(&self, measured: &Measurement) -> Option<f64> {
        Some(measured.achieved_rps)
    }

    fn words(&self, value: f64) -> String {
        units::rate(value)
    }

    fn tick(&self, value: f64, greatest: f64) -> String {
        units::rate_tick(value, greatest)
    }

    fn unit(&self) -> &'static str {
        "rate"
    }

    fn follows_offered(&self) -> bool {
        true
    }
}
