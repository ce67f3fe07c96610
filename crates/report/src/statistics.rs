//! The questions this room asks of `measure`, in the shape the report needs.
use crate::folder::Measurement;

/// A value, and where it lies with 95 % confidence; no interval where there are too few samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
}

pub(crate) fn median(values: &[f64], _seed: u64) -> Option<Estimate> {
    let s = crate::cells::Spread::of(values.iter().copied())?;
    Some(Estimate {
        value: s.median,
        interval: Some((s.min, s.max)),
    })
}
pub(crate) fn ratio(of: &[f64], to: &[f64], _seed: u64) -> Option<Estimate> {
    let (a, b) = (
        crate::cells::Spread::of(of.iter().copied())?,
        crate::cells::Spread::of(to.iter().copied())?,
    );
    Some(Estimate {
        value: a.median / b.median,
        interval: Some((a.min / b.max, a.max / b.min)),
    })
}
pub(crate) fn knee(points: &[(f64, f64)]) -> Option<usize> {
    let least = points.iter().map(|p| p.1).reduce(f64::min)?;
    points.iter().rposition(|p| p.1 < 2.0 * least)
}
/// Relative difference, and whether it is within what is allowed.
pub(crate) fn littles_law(measured: &Measurement) -> (f64, bool) {
    let check = measure::LittlesLaw::check(
        measured.outstanding_mean,
        measured.achieved_rps,
        measured.service.mean,
        measure::LITTLES_LAW_TOLERANCE,
    );
    (check.relative_difference.abs(), check.holds)
}
