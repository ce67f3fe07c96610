//! The figures: each says what it draws, [`crate::chart`] draws it.

mod bursts;
mod cpu;
mod tail;
mod throughput;

use crate::chart::axis::Scale;
use crate::folder::{FigureKind, Measurement};

/// One figure: a quantity of every trial of a sweep against the offered rate, or against what is
/// varied.
pub(crate) trait Figure {
    /// What asks for it.
    fn kind(&self) -> FigureKind;

    /// File stem, and name in the page.
    fn stem(&self) -> &'static str;

    /// What is shown, as a title says it.
    fn quantity(&self) -> &'static str;

    /// Title of the upright axis, with its unit.
    fn axis_title(&self) -> &'static str;

    /// How the upright axis is spread.
    fn scale(&self) -> Scale;

    /// The quantity, in the base unit (requests per second, nanoseconds). None: not measured.
    fn value(&self, measured: &Measurement) -> Option<f64>;

    /// The value of this trial is a lower bound.
    fn is_lower_bound(&self, _measured: &Measurement) -> bool {
        false
    }

    /// A value as a person reads it, with its unit.
    fn words(&self, value: f64) -> String;

    /// A value at the axis, where `greatest` is the axis's end.
    fn tick(&self, value: f64, greatest: f64) -> String;

    /// What the script of the page labels a zoomed axis by: `rate`, `duration`, `micro`
    /// or `count`.
    fn unit(&self) -> &'static str;

    /// The quantity is the rate itself: against offered rate, "achieved = offered" is drawn, both
    /// axes are one, and the trials of a cell stand at one place, where elsewhere they stand side
    /// by side.
    fn follows_offered(&self) -> bool {
        false
    }
}

/// The figure of a kind.
pub(crate) fn of(kind: FigureKind) -> Box<dyn Figure> {
    match kind {
        FigureKind::Throughput => Box::new(throughput::Throughput),
        FigureKind::Tail => Box::new(tail::Tail),
        FigureKind::Cpu => Box::new(cpu::Cpu),
        FigureKind::Bursts => Box::new(bursts::Bursts),
    }
}
