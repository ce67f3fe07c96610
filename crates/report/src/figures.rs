//! The figures: each defines its quantity and axes, and [`crate::chart`] draws it.

mod bursts;
mod cpu;
mod tail;
mod throughput;

use crate::chart::axis::Scale;
use crate::folder::{FigureKind, Measurement};

/// One figure: a quantity of every trial of a sweep against the offered rate or the varied
/// parameter.
pub(crate) trait Figure {
    /// The plan's name for it.
    fn kind(&self) -> FigureKind;

    /// File stem, and name in the page.
    fn stem(&self) -> &'static str;

    /// The quantity, as in the title.
    fn quantity(&self) -> &'static str;

    /// Title of the y-axis, with its unit.
    fn axis_title(&self) -> &'static str;

    /// Scale of the y-axis.
    fn scale(&self) -> Scale;

    /// The quantity in its base unit (requests per second, nanoseconds). None: not measured.
    fn value(&self, measured: &Measurement) -> Option<f64>;

    /// Whether the value of a trial is a lower bound.
    fn is_lower_bound(&self, _measured: &Measurement) -> bool {
        false
    }

    /// A value as text, with its unit.
    fn words(&self, value: f64) -> String;

    /// The label of a value on an axis that ends at `greatest`.
    fn tick(&self, value: f64, greatest: f64) -> String;

    /// The unit by which the page's script labels a zoomed axis: `rate`, `duration`, `micro` or
    /// `count`.
    fn unit(&self) -> &'static str;

    /// Whether the quantity is a rate. Against offered rate, both axes then have the same range,
    /// the diagonal "achieved = offered" is drawn, and the trials of a cell are not drawn side by
    /// side.
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
