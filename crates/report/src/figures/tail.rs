//! The 99th percentile of response time against *offered* rate. Against the achieved rate, the
//! points of an overloaded server would overlap those below its capacity.

use super::Figure;
use crate::cells;
use crate::chart::axis::Scale;
use crate::folder::{FigureKind, Measurement};
use crate::units;

pub(super) struct Tail;

impl Figure for Tail {
    fn kind(&self) -> FigureKind {
        FigureKind::Tail
    }

    fn stem(&self) -> &'static str {
        "tail"
    }

    fn quantity(&self) -> &'static str {
        "99th percentile of response time"
    }

    fn axis_title(&self) -> &'static str {
        "response time, 99th percentile (log scale)"
    }

    fn scale(&self) -> Scale {
        Scale::Log
    }

    fn value(&self, measured: &Measurement) -> Option<f64> {
        cells::p99_ns(measured)
    }

    fn is_lower_bound(&self, measured: &Measurement) -> bool {
        cells::is_lower_bound(measured, cells::P99)
    }

    fn words(&self, value: f64) -> String {
        units::duration(value)
    }

    fn tick(&self, value: f64, _greatest: f64) -> String {
        units::duration_tick(value)
    }

    fn unit(&self) -> &'static str {
        "duration"
    }
}
