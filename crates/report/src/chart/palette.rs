//! One colour and one shape per curve, so that a figure is readable without colour; and a ramp for
//! shades.
//!
//! Colours of curves: Okabe and Ito, "Color Universal Design", 2008; without yellow, which
//! is too faint on white; sky blue comes after the darker colours for the same reason.

pub(crate) const INK: &str = "#000000";
pub(crate) const SOFT_INK: &str = "#444444";
pub(crate) const PAPER: &str = "#FFFFFF";
/// The colour of what does not count.
pub(crate) const GREY: &str = "#8A8A8A";

/// Colours for print. The page has its own for dark mode (`templates/report.css`, `--s0` to
/// `--s6`).
const COLOURS: [&str; 7] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
];

/// From light to dark, for print; in dark mode the page has them from dark to light, the darkest
/// lightened until they stand out from its background (`templates/report.css`, `--h0` to `--h8`).
/// Lightness is even, so that the ramp is readable in grey and with every colour vision: cividis
/// (Nuñez, Anderton and Renslow, "Optimizing colormaps with consideration for color vision
/// deficiency", 2018).
const RAMP: [&str; 9] = [
    "#FFEA46", "#E1CC55", "#C4B56C", "#A69D75", "#8A8779", "#707173", "#575C6D", "#39486B",
    "#00204D",
];

/// Paths around (0, 0), of about equal area.
const SHAPES: [&str; 7] = [
    "M-3.2,0a3.2,3.2 0 1 0 6.4,0a3.2,3.2 0 1 0 -6.4,0z",
    "M-2.9,-2.9h5.8v5.8h-5.8z",
    "M0,-4L3.7,2.6H-3.7z",
    "M0,-4.2L4.2,0L0,4.2L-4.2,0z",
    "M0,4L3.7,-2.6H-3.7z",
    "M0,-3.8L3.6,-1.2L2.2,3.1H-2.2L-3.6,-1.2z",
    "M-1.2,-3.6h2.4v2.4h2.4v2.4h-2.4v2.4h-2.4v-2.4h-2.4v-2.4h2.4z",
];

/// Dashes of the first seven curves, of the next seven, and so on.
pub(crate) const DASHES: [&str; 7] = ["none", "9 3", "5 2 1.5 2", "1.5 2.5", "12 4", "6 6", "2 6"];

/// The style of one curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CurveStyle {
    /// `s0` to `s6`: the CSS class by which the page colours the curve.
    pub(crate) class: &'static str,
    /// Colour for print.
    pub(crate) colour: &'static str,
    /// Path of its marker.
    pub(crate) shape: &'static str,
    /// Dashes of its line: solid, unless its colour is taken.
    pub(crate) dashes: &'static str,
}

impl CurveStyle {
    /// Of what belongs to no curve.
    pub(crate) const NEUTRAL: Self = Self {
        class: "neutral",
        colour: INK,
        shape: SHAPES[0],
        dashes: DASHES[0],
    };

    /// The style of the `index`-th curve; 49 styles are distinct.
    pub(crate) fn of(index: usize) -> Self {
        const CLASSES: [&str; 7] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6"];
        let colour = index % COLOURS.len();
        Self {
            class: CLASSES[colour],
            colour: COLOURS[colour],
            shape: SHAPES[(index + index / COLOURS.len()) % SHAPES.len()],
            dashes: DASHES[index / COLOURS.len() % DASHES.len()],
        }
    }
}

/// A shade of the ramp from the least value to the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ramp {
    /// `h0` to `h8`: the CSS class by which the page colours the shade.
    pub(crate) class: &'static str,
    /// Colour for print.
    pub(crate) colour: &'static str,
}

impl Ramp {
    /// Its number of shades, and the width of each in a legend, pixels.
    pub(crate) const STEPS: usize = RAMP.len();
    pub(crate) const WIDTH: f64 = 10.0;

    /// The shade of a step; the last one beyond the end.
    pub(crate) fn step(step: usize) -> Self {
        const CLASSES: [&str; 9] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8"];
        let step = step.min(Self::STEPS - 1);
        Self {
            class: CLASSES[step],
            colour: RAMP[step],
        }
    }

    /// The shade of a share of the range, 0 to 1.
    pub(crate) fn of(share: f64) -> Self {
        Self::step((share.clamp(0.0, 1.0) * Self::STEPS as f64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::CurveStyle;
    use crate::limits;

    #[test]
    fn no_two_servers_look_alike() {
        let looks: HashSet<_> = (0..limits::SERVERS)
            .map(|i| (CurveStyle::of(i).colour, CurveStyle::of(i).shape))
            .collect();
        assert_eq!(looks.len(), limits::SERVERS);
    }
}
