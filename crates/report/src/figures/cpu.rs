//! Processor time of the server per request, user and system together. It stays meaningful where
//! server and generator share a small machine.

use super::Figure;
use crate::cells;
use crate::chart::axis::Scale;
use crate::folder::{FigureKind, Measurement};
use crate::units;

pub(super) struct Cpu;

impl Figure for Cpu {
    fn kind(&self) -> FigureKind {
        FigureKind::Cpu
    }

    fn stem(&self) -> &'static str {
        "cpu"
    }

    fn quantity(&self) -> &'static str {
        "Server processor time per request"
    }

    fn axis_title(&self) -> &'static str {
        "processor time per request, user + system (µs)"
    }

    fn scale(&self) -> Scale {
        Scale::Linear
    }

    fn value(&self, measured: &Measurement) -> Option<f64> {
        cells::cpu_ns(measured)
    }

    fn words(&self, value: f64) -> String {
        units::duration(value)
    }

    fn tick(&self, value: f64, _greatest: f64) -> String {
        units::plain_tick(value / 1e3)
    }

    fn unit(&self) -> &'static str {
        "micro"
    }
}
