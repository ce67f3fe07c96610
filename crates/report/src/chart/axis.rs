//! Axes: range, title and labels.

use super::svg;
use crate::record::Unit;
use crate::units;

pub(crate) use crate::figure::Scale;

/// Left edge of the plot of most kinds, and its width. Pixels.
pub(crate) const PLOT_LEFT: f64 = 84.0;
pub(crate) const PLOT_WIDTH: f64 = 652.0;
/// Size of the labels, and greatest width of a name along an axis. Pixels.
pub(crate) const LABEL_SIZE: f64 = 12.5;
pub(crate) const NAMES: f64 = 190.0;

/// Greatest magnitude of a value that an axis can hold: steps and margins must be finite.
const GREATEST: f64 = 1e300;
/// Least step between labels.
const LEAST_STEP: f64 = 1e-300;
/// Least range of an axis, as a share of its values: steps must differ once rounded.
const LEAST_RANGE: f64 = 1e-12;

/// One axis. Positions are values or, on a [`Scale::Log`], their logarithms to base ten.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) scale: Scale,
    /// Positions of its ends.
    pub(crate) start: f64,
    pub(crate) end: f64,
    /// Positions with a line and a label, and with a faint line.
    pub(crate) labelled: Vec<f64>,
    pub(crate) between: Vec<f64>,
    /// Its labels are names.
    pub(crate) is_of_names: bool,
}

impl Axis {
    fn new(scale: Scale, start: f64, end: f64, labelled: impl Iterator<Item = f64>) -> Self {
        Self {
            scale,
            start,
            end,
            labelled: labelled.collect(),
            between: Vec::new(),
            is_of_names: false,
        }
    }

    /// An axis over all values. Values without a position on it (not finite, or beyond
    /// [`GREATEST`]; not above 0 on a [`Scale::Log`]) are ignored. Without any value it ranges from
    /// 0 to 1 (1 to 10).
    pub(crate) fn over(scale: Scale, values: impl IntoIterator<Item = f64>) -> Self {
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        let values = values.into_iter();
        for value in values.filter(|&value| has_position(scale, value)) {
            least = least.min(value);
            greatest = greatest.max(value);
        }
        match scale {
            Scale::Linear => linear(if greatest > 0.0 { greatest } else { 1.0 }),
            Scale::Fitted if least > greatest => linear(1.0),
            Scale::Fitted => fitted(least, greatest),
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

    /// An axis with `count` places for names, at 0, 1 and so on.
    pub(crate) fn of_names(count: usize) -> Self {
        let labelled = (0..count).map(|index| index as f64);
        Self {
            is_of_names: true,
            ..Self::new(Scale::Fitted, -0.5, count.max(1) as f64 - 0.5, labelled)
        }
    }

    /// The value at its upper end.
    pub(crate) fn greatest(&self) -> f64 {
        self.value(self.end)
    }

    /// The position of a value. None: the scale has none for it.
    pub(crate) fn position(&self, value: f64) -> Option<f64> {
        has_position(self.scale, value).then(|| match self.scale {
            Scale::Linear | Scale::Fitted => value,
            Scale::Log => value.log10(),
        })
    }

    /// How far from its lower end to its upper a position is: 0 to 1.
    pub(crate) fn share(&self, position: f64) -> f64 {
        (position - self.start) / (self.end - self.start)
    }

    /// The value at a position.
    pub(crate) fn value(&self, position: f64) -> f64 {
        match self.scale {
            Scale::Linear | Scale::Fitted => position,
            Scale::Log => 10f64.powf(position),
        }
    }
}

fn has_position(scale: Scale, value: f64) -> bool {
    let is_in_scale = match scale {
        Scale::Linear => value >= 0.0,
        Scale::Log => value > 0.0,
        Scale::Fitted => true,
    };
    value.abs() <= GREATEST && is_in_scale
}

/// Steps of 1, 2 or 5 × 10ⁿ over a range, with a margin at both ends.
fn fitted(least: f64, greatest: f64) -> Axis {
    let range = match greatest - least {
        range if range > LEAST_RANGE * least.abs() => range,
        _ if least == 0.0 => 1.0,
        _ => least.abs() * 0.1,
    };
    let step = round_step(range / 5.0);
    let start = ((least - 0.04 * range) / step).floor() * step;
    let end = ((greatest + 0.04 * range) / step).ceil() * step;
    let count = ((end - start) / step).round() as u32;
    let label = |index: u32| {
        let at = start + f64::from(index) * step;
        // The sum of steps may miss 0 by a rounding error.
        if at.abs() < 1e-9 * step { 0.0 } else { at }
    };
    Axis::new(Scale::Fitted, start, end, (0..=count).map(label))
}

/// The least step of 1, 2 or 5 × 10ⁿ that is not below `rough`.
fn round_step(rough: f64) -> f64 {
    let rough = rough.max(LEAST_STEP);
    let power = 10f64.powf(rough.log10().floor());
    let mut multiples = [1.0, 2.0, 5.0, 10.0].into_iter();
    let fits = |multiple: &f64| multiple * power >= rough;
    power * multiples.find(fits).unwrap_or(10.0)
}

/// Four to nine steps of 1, 2 or 5 × 10ⁿ, with a margin above the greatest value.
fn linear(greatest: f64) -> Axis {
    let greatest = greatest.max(LEAST_STEP);
    let step = round_step(greatest / 6.0);
    let mut end = (greatest / step).ceil() * step;
    if end - greatest < 0.04 * end {
        end += step / 2.0;
    }
    let count = (end / step + 1e-9).floor() as u32;
    let labelled = (0..=count).map(|index| f64::from(index) * step);
    Axis::new(Scale::Linear, 0.0, end, labelled)
}

/// Labels at 1, 2, 5 × 10ⁿ if they fit, else at 10ⁿ; it begins and ends at such a value.
fn logarithmic(least: f64, greatest: f64) -> Axis {
    let (low, high) = (least.log10() - 0.05, greatest.log10() + 0.05);
    let exponents = low.floor() as i32 - 1..=high.ceil() as i32 + 1;
    let rungs = exponents.flat_map(|exponent| (1..10).map(move |rung: u32| (rung, exponent)));
    let position = |(rung, exponent)| f64::from(rung).log10() + f64::from(exponent);
    let rungs: Vec<(u32, f64)> = rungs.map(|it| (it.0, position(it))).collect();
    let mut round = rungs.iter().filter(|it| [1, 2, 5].contains(&it.0));
    let below = round.clone().rfind(|it| it.1 <= low).map_or(low, |it| it.1);
    let above = round.find(|it| it.1 >= high).map_or(high, |it| it.1);
    let is_fine = above - below < 2.5;
    let is_labelled = |rung| rung == 1 || (is_fine && (rung == 2 || rung == 5));
    let within = below - 1e-9..=above + 1e-9;
    let rungs = rungs.into_iter().filter(|it| within.contains(&it.1));
    let (labelled, between): (Vec<_>, Vec<_>) = rungs.partition(|it| is_labelled(it.0));
    let labelled = labelled.into_iter().map(|it| it.1);
    Axis {
        between: between.into_iter().map(|it| it.1).collect(),
        ..Axis::new(Scale::Log, below, above, labelled)
    }
}

/// An axis with its title and its labels.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) axis: Axis,
    pub(crate) title: String,
    /// One for each of [`Axis::labelled`]; empty if it has no room.
    pub(crate) labels: Vec<String>,
    /// The unit by which the page's script labels a zoomed axis.
    unit: String,
}

impl Side {
    pub(crate) fn new(
        axis: Axis,
        title: &str,
        unit: String,
        label: impl Fn(f64) -> String,
    ) -> Self {
        let labels = axis.labelled.iter().map(|&at| label(axis.value(at)));
        Self {
            labels: labels.collect(),
            axis,
            title: title.to_owned(),
            unit,
        }
    }

    /// Labels of numbers in a unit, or converted to another one.
    pub(crate) fn of_unit(
        unit: Option<&Unit>,
        shown: Option<&Unit>,
        axis: Axis,
        title: &str,
    ) -> Self {
        let greatest = axis.greatest();
        let factor = match (unit, shown) {
            (Some(unit), None) => {
                let label = |value| unit.tick(value, greatest);
                return Self::new(axis, title, unit.script(), label);
            }
            (Some(unit), Some(shown)) => unit.to(shown).unwrap_or(1.0),
            (None, _) => 1.0,
        };
        let script = match factor {
            1.0 => "count".to_owned(),
            // The name that pages have had from the first.
            1e-3 => "micro".to_owned(),
            _ => format!("count:{factor}"),
        };
        Self::new(axis, title, script, |value| units::plain(value * factor))
    }

    /// Names; long ones are shortened to `width` pixels.
    pub(crate) fn of_names(title: &str, names: &[String], width: f64) -> Self {
        let label = |at: f64| {
            let name = names.get(at.round().max(0.0) as usize);
            name.map_or_else(String::new, |name| svg::fitted(name, LABEL_SIZE, width))
        };
        let axis = Axis::of_names(names.len());
        Self::new(axis, title, "count".to_owned(), label)
    }

    /// Drops labels that would overlap others within `width` pixels. Their lines remain.
    pub(crate) fn thinned(mut self, width: f64) -> Self {
        let axis = &self.axis;
        let mut free = f64::NEG_INFINITY;
        let mut order: Vec<usize> = (0..axis.labelled.len()).collect();
        order.sort_by(|&a, &b| axis.labelled[a].total_cmp(&axis.labelled[b]));
        for index in order {
            let half = svg::width(&self.labels[index], LABEL_SIZE) / 2.0;
            let middle = axis.share(axis.labelled[index]) * width;
            if middle - half < free {
                self.labels[index].clear();
            } else {
                free = middle + half;
            }
        }
        self
    }

    /// How far names reach below a plot of that width, if they stand askew because they would
    /// overlap otherwise.
    pub(crate) fn askew(&self, width: f64) -> Option<f64> {
        let axis = &self.axis;
        let widest = widest(&self.labels);
        let is_crowded = widest > width / (axis.end - axis.start) - 4.0;
        (axis.is_of_names && is_crowded).then_some(0.58 * widest - 8.0)
    }

    /// The axis as the page's script reads it.
    pub(crate) fn script(&self) -> String {
        let axis = &self.axis;
        let scale = match axis.scale {
            Scale::Log => "log",
            Scale::Linear | Scale::Fitted => "linear",
        };
        format!("{scale} {} {} {}", axis.start, axis.end, self.unit)
    }
}

/// The width of the widest label, pixels.
pub(crate) fn widest(labels: &[String]) -> f64 {
    let widths = labels.iter().map(|label| svg::width(label, LABEL_SIZE));
    widths.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_has_round_steps_and_a_margin() {
        for greatest in [0.7, 1.0, 9.9, 181_234.0, 240_000.0, 3e9] {
            let axis = Axis::over(Scale::Linear, [greatest]);
            assert!(axis.end > greatest && axis.end < 1.6 * greatest, "{axis:?}");
            assert!(
                (4..=9).contains(&axis.labelled.len()),
                "{greatest}: {axis:?}"
            );
        }
        let fitted = Axis::over(Scale::Fitted, [-0.29, 0.21]);
        assert!(fitted.labelled.contains(&0.0), "{fitted:?}");
    }

    #[test]
    fn a_log_axis_holds_its_values_within() {
        for (least, greatest) in [(100.0, 100.0), (3e4, 9e8), (1.0, 2.0), (99.0, 101_000.0)] {
            let axis = Axis::over(Scale::Log, [least, greatest, 0.0, f64::NAN]);
            let is_within = axis.start < least.log10() && axis.end > greatest.log10();
            assert!(is_within && axis.labelled.len() >= 2, "{axis:?}");
        }
        let log = Axis::over(Scale::Log, []);
        assert_eq!((log.position(0.0), log.position(f64::NAN)), (None, None));
    }

    #[test]
    fn extreme_values_make_few_labels() {
        let values = [
            f64::MAX,
            f64::MIN,
            1e300,
            -1e300,
            5e-324,
            1e-310,
            1.0,
            1.0 + f64::EPSILON,
        ];
        for scale in [Scale::Linear, Scale::Fitted] {
            for (first, second) in values.iter().flat_map(|a| values.map(|b| (*a, b))) {
                let axis = Axis::over(scale, [first, second]);
                let count = axis.labelled.len();
                assert!(axis.end > axis.start && axis.end.is_finite(), "{axis:?}");
                assert!((1..=12).contains(&count), "{first} {second}: {count}");
            }
        }
        assert_eq!(Axis::over(Scale::Linear, []).position(f64::MAX), None);
    }
}
