//! One side of a plot: an axis with its title and its labels.

use super::axis::Axis;
use super::svg;

/// Size of the labels, pixels.
pub(crate) const LABEL_SIZE: f64 = 12.5;

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
    /// An axis of which `label` gives the label of a value, where `greatest` is the end.
    pub(crate) fn new(
        axis: Axis,
        title: &str,
        unit: String,
        label: impl Fn(f64, f64) -> String,
    ) -> Self {
        let greatest = axis.greatest();
        let labels = axis.labelled.iter();
        let label = |&at: &f64| label(axis.value(at), greatest);
        let labels = labels.map(label).collect();
        Self {
            axis,
            title: title.to_owned(),
            labels,
            unit,
        }
    }

    /// Whether its labels are names, which have no values between them.
    pub(crate) fn has_names(&self) -> bool {
        self.axis.is_of_names
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
        let widths = self
            .labels
            .iter()
            .map(|label| svg::width(label, LABEL_SIZE));
        let widest = widths.fold(0.0, f64::max);
        let is_crowded = widest > width / (axis.end - axis.start) - 4.0;
        (axis.is_of_names && is_crowded).then_some(0.58 * widest - 8.0)
    }

    /// The axis as the page's script reads it.
    pub(crate) fn script(&self) -> String {
        let axis = &self.axis;
        let scale = match axis.scale {
            super::axis::Scale::Log => "log",
            super::axis::Scale::Linear | super::axis::Scale::Fitted => "linear",
        };
        format!("{scale} {} {} {}", axis.start, axis.end, self.unit)
    }
}
