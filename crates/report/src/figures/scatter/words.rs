//! Table, notes, legend and text alternative of a scatter.

use super::super::dimension::Dimension;
use super::super::panel::Curve;
use super::super::{Rows, notes};
use super::cells::Cell;
use super::{Scaled, Scatter};
use crate::chart::legend::{Entry, Sample};
use crate::chart::mark::BEST_SHAPES;
use crate::figures::Spread;
use crate::{limits, units};

/// Characters of a title or of a cell's name in the legend.
const WORDS: usize = 36;

impl Scatter<'_> {
    /// A row for each cell.
    pub(super) fn table(&self) -> Rows {
        let (x, y) = (self.x.name(), self.panel.y.name());
        let mut header: Vec<String> = ["curve", "cell"].map(str::to_owned).to_vec();
        for name in [x, y] {
            header.extend([
                name.to_owned(),
                format!("{name} minimum"),
                format!("{name} maximum"),
            ]);
        }
        let scaled = [&self.size, &self.shade];
        header.extend(
            scaled
                .iter()
                .filter_map(|it| Some(it.as_ref()?.of.name().to_owned())),
        );
        header.extend(["trials", "missing", "flag"].map(str::to_owned));
        header.extend(self.is_pareto().then(|| "front".to_owned()));
        header.extend((!self.best.is_empty()).then(|| "best".to_owned()));
        let row = |(index, cell): (usize, &Cell)| self.row(index, cell);
        Rows {
            header,
            rows: self.cells.iter().enumerate().map(row).collect(),
        }
    }

    fn row(&self, index: usize, cell: &Cell) -> Vec<String> {
        let plain = |of: Dimension, value: Option<f64>| {
            value.map(|value| of.plain(value)).unwrap_or_default()
        };
        let mut row = vec![cell.curve.name.clone(), cell.name.clone()];
        let sides: [(Dimension, f64, Option<Spread>); 2] = [
            (self.x, cell.x, cell.range_x),
            (self.panel.y, cell.y, cell.range_y),
        ];
        for (of, value, range) in sides {
            row.push(of.plain(value));
            row.push(plain(of, range.map(|it| it.min)));
            row.push(plain(of, range.map(|it| it.max)));
        }
        for (scaled, value) in [(&self.size, cell.size), (&self.shade, cell.shade)] {
            row.extend(scaled.as_ref().map(|it| plain(it.of, value)));
        }
        row.push(cell.point.trials.len().to_string());
        row.push(cell.point.missing().to_string());
        row.push(self.flags(cell));
        if self.is_pareto() {
            let is_front = self.front.contains(&index);
            row.push(if is_front { "front" } else { "" }.to_owned());
        }
        if !self.best.is_empty() {
            let best = self.best.iter().filter(|best| best.cell == index);
            let names: Vec<&str> = best.map(|best| best.of.name()).collect();
            row.push(names.join("; "));
        }
        row
    }

    pub(super) fn remarks(&self) -> (Vec<String>, Vec<String>) {
        let panel = self.panel;
        let mut after: Vec<String> = notes::lacking(panel).into_iter().collect();
        after.extend(notes::without_value(self.without.clone()));
        let outside = |cell: &&Cell| {
            let (x, y) = (&self.axes.0.axis, &self.axes.1.axis);
            x.position(cell.x).is_none() || y.position(cell.y).is_none()
        };
        let outside = self
            .cells
            .iter()
            .filter(outside)
            .map(|cell| cell.name.clone());
        let outside: Vec<String> = outside.take(limits::PLACES).collect();
        if !outside.is_empty() {
            let outside = units::listed(&outside);
            after.push(format!(
                "Not drawn: {outside}, with a value that the axis cannot hold."
            ));
        }
        after.extend(self.unscaled());
        after.extend(notes::left_out(panel));
        let upward = "An upward arrow marks medians that may be higher";
        after.extend(notes::bounds(panel, upward));
        let right = format!("An arrow to the right marks medians of {}", self.x.title());
        after.extend(notes::bounds_of(panel, self.x.name(), &right));
        if self.is_pareto() {
            let what = "Front: the cells to which no other cell is at least as good in both and better \
                        in one. Medians decide; cells whose ranges overlap may be on it by \
                        chance.";
            after.push(what.to_owned());
        }
        if self.has_ranges() && panel.points().any(|point| point.trials.len() > 1) {
            let what = "Markers are medians; lines reach from the least to the greatest trial.";
            after.push(what.to_owned());
        }
        (notes::hollow_cells(panel).into_iter().collect(), after)
    }

    /// Cells without the value that size or shade show.
    fn unscaled(&self) -> Vec<String> {
        type Value = fn(&Cell) -> Option<f64>;
        let kinds: [(&Option<Scaled>, Value, &str); 2] = [
            (&self.size, |cell| cell.size, "drawn at the least size"),
            (&self.shade, |cell| cell.shade, "drawn without a shade"),
        ];
        let mut notes = Vec::new();
        for (scaled, value, effect) in kinds {
            let Some(scaled) = scaled else { continue };
            let lacking = self.cells.iter().filter(|cell| value(cell).is_none());
            let names: Vec<String> = lacking
                .map(|it| it.name.clone())
                .take(limits::PLACES)
                .collect();
            if !names.is_empty() {
                let names = units::listed(&names);
                notes.push(format!("No {}: {names}, {effect}.", scaled.of.title()));
            }
        }
        notes
    }

    pub(super) fn text(&self) -> String {
        if self.cells.is_empty() {
            return "No measurement.".to_owned();
        }
        let words = |cell: &Cell| {
            let (x, y) = (self.x.place(cell.x), self.panel.y.text(cell.y));
            format!("{} {y} {x}", cell.name)
        };
        let cells = self.cells.iter().map(words).collect();
        let mut text = notes::values_of("Medians", cells);
        if self.is_pareto() {
            let front = self
                .front
                .iter()
                .map(|&index| self.cells[index].name.clone());
            text.push_str(&format!(
                " {}",
                notes::values_of("On the front", front.collect())
            ));
        }
        for best in &self.best {
            let (title, name) = (best.of.title(), &self.cells[best.cell].name);
            text.push_str(&format!(" Best {title}: {name}."));
        }
        text
    }

    pub(super) fn hint(&self, cell: &Cell) -> String {
        let bound = units::lower_bound(cell.is_bound_y);
        let bound_x = units::lower_bound(cell.is_bound_x);
        let y = self.panel.y;
        let mut parts = vec![
            format!("{}: {} {bound}{}", cell.name, y.title(), y.text(cell.y)),
            format!("{} {bound_x}{}", self.x.title(), self.x.text(cell.x)),
        ];
        for (scaled, value) in [(&self.size, cell.size), (&self.shade, cell.shade)] {
            if let Some((scaled, value)) = scaled.as_ref().zip(value) {
                parts.push(format!("{} {}", scaled.of.title(), scaled.of.text(value)));
            }
        }
        parts.push(units::plural(cell.point.trials.len() as u64, "trial"));
        parts.extend(Some(self.flags(cell)).filter(|flags| !flags.is_empty()));
        parts.join(", ")
    }

    /// What must be known of a cell's values.
    fn flags(&self, cell: &Cell) -> String {
        let mut words: Vec<String> = Vec::new();
        let bound = |of: Dimension| format!("{}: lower bound", of.title());
        words.extend(cell.is_bound_x.then(|| bound(self.x)));
        words.extend(cell.is_bound_y.then(|| bound(self.panel.y)));
        let reasons = cell.point.trials.iter();
        words.extend(reasons.filter_map(|trial| trial.measured.suspect.clone()));
        words.sort_unstable();
        words.dedup();
        words.join("; ")
    }

    pub(super) fn entries(&self) -> Vec<Vec<Entry>> {
        let panel = self.panel;
        let entry = |curve: &Curve| (Sample::Marker(curve.style), panel.legend_name(curve));
        let curves = panel.curves.iter().filter(|_| panel.figure.by.is_some());
        vec![
            curves.map(entry).collect(),
            self.size_entries(),
            self.shade_entry().into_iter().collect(),
            self.best_entries(),
            self.key(),
        ]
    }

    fn size_entries(&self) -> Vec<Entry> {
        let Some(size) = &self.size else {
            return Vec::new();
        };
        let title = units::shortened(size.of.title(), WORDS);
        let Some((least, greatest)) = size.range else {
            return vec![(Sample::None, format!("{title}: no value"))];
        };
        let entry = |value: f64| (Sample::Circle(size.radius(value)), size.of.text(value));
        vec![
            (Sample::None, format!("area: {title}")),
            entry(least),
            entry(greatest),
        ]
    }

    fn shade_entry(&self) -> Option<Entry> {
        let shade = self.shade.as_ref()?;
        let title = units::shortened(shade.of.title(), WORDS);
        let range = shade.range.map(|(least, greatest)| {
            format!("{} to {}", shade.of.text(least), shade.of.text(greatest))
        });
        let range = range.unwrap_or_else(|| "no value".to_owned());
        Some((Sample::Ramp, format!("{title}: {range}")))
    }

    fn best_entries(&self) -> Vec<Entry> {
        let entry = |(index, best): (usize, &super::Best)| {
            let shape = BEST_SHAPES[index % BEST_SHAPES.len()];
            let title = units::shortened(best.of.title(), WORDS);
            let name = units::shortened(&self.cells[best.cell].name, WORDS);
            let text = format!("best {title}: {name} ({})", best.of.text(best.value));
            (Sample::Outline(shape), text)
        };
        self.best.iter().enumerate().map(entry).collect()
    }

    fn key(&self) -> Vec<Entry> {
        let mut key = Vec::new();
        if self.front.len() > 1 {
            let words = "Pareto front".to_owned();
            key.push((Sample::Line("pareto", "none", "1.4"), words));
        }
        if self.cells.iter().any(|cell| cell.point.is_suspect()) {
            key.extend(notes::reasons(self.panel).map(|reasons| (Sample::Hollow, reasons)));
        }
        if (self.cells.iter()).any(|cell| cell.is_bound_x || cell.is_bound_y) {
            key.push((Sample::Bound, "lower bound".to_owned()));
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::WORDS;
    use crate::chart::{WIDTH, svg};

    #[test]
    fn the_longest_entry_of_the_legend_fits() {
        let longest = format!("best {0}: {0} (123 MiB)", "n".repeat(WORDS));
        assert!(svg::width(&longest, 12.5) < WIDTH - 68.0);
    }
}
