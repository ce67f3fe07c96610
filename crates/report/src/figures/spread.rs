//! Median, minimum and maximum.

/// Median, minimum and maximum of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// None of no values; values that are not finite are ignored.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values = values.into_iter().filter(|value| value.is_finite());
        let values: Vec<f64> = values.collect();
        Some(Self {
            median: measure::median(&values)?,
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let spread = Spread::of([4.0, 1.0, f64::NAN, 3.0, 2.0]);
        let expected = Spread {
            median: 2.5,
            min: 1.0,
            max: 4.0,
        };
        assert_eq!(spread, Some(expected));
        assert_eq!(Spread::of([f64::NAN]), None);
    }
}
