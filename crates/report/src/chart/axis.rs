//! Axes: range and labels.

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From 0.
    Linear,
    /// Logarithmic, base ten.
    Log,
}

/// One axis. Positions are values or, on a [`Scale::Log`], their logarithms to base ten.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) scale: Scale,
    /// Position of the lower end.
    pub(crate) start: f64,
    /// Position of the upper end.
    pub(crate) end: f64,
    /// Positions with a line and a label.
    pub(crate) labelled: Vec<f64>,
    /// Positions with a faint line.
    pub(crate) between: Vec<f64>,
}

impl Axis {
    /// An axis over all values. Values without a position on it (not finite; not above 0 on a
    /// [`Scale::Log`]) are ignored. Without any value it ranges from 0 to 1 (1 to 10).
    pub(crate) fn over(scale: Scale, values: impl IntoIterator<Item = f64>) -> Self {
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values
            .into_iter()
            .filter(|&value| has_position(scale, value))
        {
            least = least.min(value);
            greatest = greatest.max(value);
        }
        match scale {
            Scale::Linear => linear(if greatest > 0.0 { greatest } else { 1.0 }),
            Scale::Log if least > greatest => logarithmic(1.0, 10.0),
            Scale::Log => logarithmic(least, greatest),
        }
    }

    /// The same axis with labels at `values` only.
    pub(crate) fn labelled_at(mut self, values: &[f64]) -> Self {
        self.labelled = values.iter().filter_map(|&at| self.position(at)).collect();
        self.between.clear();
        self
    }

    /// The position of a value. None: the scale has none for it.
    pub(crate) fn position(&self, value: f64) -> Option<f64> {
        if !has_position(self.scale, value) {
            return None;
        }
        Some(match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
        })
    }

    /// The value at a position.
    pub(crate) fn value(&self, position: f64) -> f64 {
        match self.scale {
            Scale::Linear => position,
            Scale::Log => 10f64.powf(position),
        }
    }
}

fn has_position(scale: Scale, value: f64) -> bool {
    value.is_finite() && (value > 0.0 || (scale == Scale::Linear && value >= 0.0))
}

/// Four to nine steps of 1, 2 or 5 × 10ⁿ, with a margin above the greatest value.
fn linear(greatest: f64) -> Axis {
    let rough = greatest / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = power
        * [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .find(|m| m * power >= rough)
            .unwrap_or(10.0);
    let mut end = (greatest / step).ceil() * step;
    if end - greatest < 0.04 * end {
        end += step / 2.0;
    }
    let count = (end / step + 1e-9).floor() as u32;
    Axis {
        scale: Scale::Linear,
        start: 0.0,
        end,
        labelled: (0..=count).map(|index| f64::from(index) * step).collect(),
        between: Vec::new(),
    }
}

/// Labels at 1, 2, 5 × 10ⁿ if they fit, else at 10ⁿ.
fn logarithmic(least: f64, greatest: f64) -> Axis {
    let below = ladder(least.log10() - 0.05, &[1.0, 2.0, 5.0], Side::Below);
    let above = ladder(greatest.log10() + 0.05, &[1.0, 2.0, 5.0], Side::Above);
    let fine = above - below < 2.5;
    let (mut labelled, mut between) = (Vec::new(), Vec::new());
    for exponent in below.floor() as i32..=above.ceil() as i32 {
        for multiple in 1..10 {
            let position = f64::from(multiple).log10() + f64::from(exponent);
            if position < below - 1e-9 || position > above + 1e-9 {
                continue;
            }
            if multiple == 1 || (fine && (multiple == 2 || multiple == 5)) {
                labelled.push(position);
            } else {
                between.push(position);
            }
        }
    }
    Axis {
        scale: Scale::Log,
        start: below,
        end: above,
        labelled,
        between,
    }
}

#[derive(Debug, Clone, Copy)]
enum Side {
    Below,
    Above,
}

/// The nearest of `multiples` × 10ⁿ on one side of a logarithm.
fn ladder(logarithm: f64, multiples: &[f64], side: Side) -> f64 {
    let exponent = logarithm.floor();
    let mut rungs: Vec<f64> = multiples
        .iter()
        .map(|multiple| exponent + multiple.log10())
        .collect();
    rungs.push(exponent + 1.0);
    match side {
        Side::Below => rungs
            .into_iter()
            .rev()
            .find(|&rung| rung <= logarithm)
            .unwrap_or(exponent),
        Side::Above => rungs
            .into_iter()
            .find(|&rung| rung >= logarithm)
            .unwrap_or(exponent + 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_has_round_steps_and_a_margin() {
        for greatest in [0.7, 1.0, 9.9, 181_234.0, 240_000.0, 3e9] {
            let axis = Axis::over(Scale::Linear, [greatest]);
            assert!(
                axis.end > greatest && axis.end < 1.6 * greatest,
                "{greatest}: {axis:?}"
            );
            assert!(
                (4..=9).contains(&axis.labelled.len()),
                "{greatest}: {axis:?}"
            );
        }
        assert_eq!(
            Axis::over(Scale::Linear, [181_234.0]).labelled,
            [0.0, 50_000.0, 100_000.0, 150_000.0, 200_000.0]
        );
    }

    #[test]
    fn a_log_axis_holds_its_values_within() {
        for (least, greatest) in [(100.0, 100.0), (3e4, 9e8), (1.0, 2.0), (99.0, 101_000.0)] {
            let axis = Axis::over(Scale::Log, [least, greatest, 0.0, f64::NAN]);
            assert!(
                axis.start < least.log10() && axis.end > greatest.log10(),
                "{axis:?}"
            );
            assert!(axis.labelled.len() >= 2, "{axis:?}");
        }
    }

    #[test]
    fn values_outside_the_scale_have_no_position() {
        let log = Axis::over(Scale::Log, []);
        assert_eq!(log.position(0.0), None);
        assert_eq!(log.position(f64::NAN), None);
        assert_eq!(Axis::over(Scale::Linear, []).position(0.0), Some(0.0));
    }
}
