//! The questions this room asks of `measure`, in the shape the report needs.
use crate::folder::Measurement;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate { pub(crate) value: f64, pub(crate) low: f64, pub(crate) high: f64, pub(crate) samples: usize }

pub(crate) fn median(values: &[f64], _seed: u64) -> Option<Estimate> {
    let s = crate::cells::Spread::of(values.iter().copied())?;
    Some(Estimate { value: s.median, low: s.min, high: s.max, samples: values.len() })
}
pub(crate) fn ratio(of: &[f64], to: &[f64], _seed: u64) -> Option<Estimate> {
    let (a, b) = (median(of, 0)?, median(to, 0)?);
    Some(Estimate { value: a.value / b.value, low: a.low / b.high, high: a.high / b.low, samples: 0 })
}
pub(crate) fn knee(points: &[(f64, f64)]) -> Option<usize> {
    let least = points.iter().map(|p| p.1).reduce(f64::min)?;
    points.iter().rposition(|p| p.1 < 2.0 * least)
}
pub(crate) fn littles_law(m: &Measurement) -> (f64, bool) {
    let d = (m.outstanding_mean - m.outstanding_expected).abs() / m.outstanding_expected.max(1e-9);
    (d, d < 0.05)
}
