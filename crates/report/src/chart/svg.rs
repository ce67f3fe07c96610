//! Writing SVG: elements with escaped attributes and text, coordinates to a tenth of a pixel.

/// Width of every figure, in pixels; the height follows from legend and notes.
pub(crate) const WIDTH: f64 = 760.0;

/// Builds the content of an SVG document.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    out: String,
}

impl Svg {
    pub(crate) fn into_string(self) -> String {
        self.out
    }

    /// Adds an element. Names and attributes are not escaped: none is a user's.
    pub(crate) fn tag(&mut self, name: &str, attributes: &str) {
        self.raw(&format!("<{name} {attributes}/>\n"));
    }

    /// Adds an element with `hint` as its tooltip and accessible name.
    pub(crate) fn hinted(&mut self, name: &str, attributes: &str, hint: &str) {
        let hint = escaped(hint);
        let element = format!("<{name} {attributes}><title>{hint}</title></{name}>\n");
        self.raw(&element);
    }

    pub(crate) fn raw(&mut self, svg: &str) {
        self.out.push_str(svg);
    }

    pub(crate) fn group(&mut self, attributes: &str) {
        self.raw(&format!("<g {attributes}>\n"));
    }

    pub(crate) fn close(&mut self) {
        self.out.push_str("</g>\n");
    }

    /// Adds text with its baseline at (x, y).
    pub(crate) fn text(&mut self, (x, y): (f64, f64), attributes: &str, text: &str) {
        let [x, y] = [x, y].map(coordinate);
        let space = if attributes.is_empty() { "" } else { " " };
        let text = escaped(text);
        let start = format!(r#"<text x="{x}" y="{y}"{space}{attributes}>"#);
        self.raw(&format!("{start}{text}</text>\n"));
    }
}

/// A coordinate as text, to a tenth of a pixel.
pub(crate) fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Coordinates of a polyline.
pub(crate) fn coordinates(points: &[(f64, f64)]) -> String {
    let pair = |&(x, y): &(f64, f64)| format!("{},{}", coordinate(x), coordinate(y));
    let pairs: Vec<String> = points.iter().map(pair).collect();
    pairs.join(" ")
}

/// Text escaped for content and quoted attributes of XML and HTML. Characters that XML does not
/// allow are replaced.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// A text in which U+FFFD replaces the characters that XML does not allow.
fn printable(text: &str) -> String {
    let replaced = |character: char| match character {
        '\t' | '\n' => character,
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        control if control.is_control() => '\u{fffd}',
        other => other,
    };
    text.chars().map(replaced).collect()
}

/// Approximate width of a text in a sans-serif face: sufficient to lay out a legend.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let widths = text.chars().map(|character| em_width(character) * size);
    widths.sum()
}

fn em_width(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '\u{a0}' => 0.3,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '·' => 0.4,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 0.92,
        'A'..='Z' | '×' | '=' => 0.7,
        '\u{1100}'.. => 1.05,
        _ => 0.57,
    }
}

/// A text cut to at most `limit` pixels, with an ellipsis if cut.
pub(crate) fn fitted(text: &str, size: f64, limit: f64) -> String {
    if width(text, size) <= limit {
        return text.to_owned();
    }
    let room = limit - em_width('…') * size;
    let mut end = 0.0;
    let fits = |character: &char| {
        end += em_width(*character) * size;
        end <= room
    };
    let mut cut: String = text.chars().take_while(fits).collect();
    cut.push('…');
    cut
}

/// A text wrapped at spaces into lines of at most `limit` pixels.
pub(crate) fn wrapped(text: &str, size: f64, limit: f64) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let space = if line.is_empty() { "" } else { " " };
        let longer = format!("{line}{space}{word}");
        if width(&longer, size) > limit && !line.is_empty() {
            lines.push(std::mem::replace(&mut line, word.to_owned()));
        } else {
            line = longer;
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        let mut svg = Svg::default();
        svg.text((1.0, 2.25), "class=\"a\"", "</text><script>\u{0}&");
        assert_eq!(
            svg.into_string(),
            "<text x=\"1\" y=\"2.2\" class=\"a\">&lt;/text&gt;&lt;script&gt;\u{fffd}&amp;</text>\n"
        );
    }

    #[test]
    fn texts_are_cut_or_wrapped_to_fit_and_wrapping_loses_no_word() {
        assert_eq!(fitted("wide words", 10.0, 100.0), "wide words");
        let cut = fitted("wide words", 10.0, 40.0);
        assert!(cut.starts_with("wid") && cut.ends_with('…') && width(&cut, 10.0) <= 40.0);
        let text = "one two three four five six";
        let lines = wrapped(text, 10.0, 60.0);
        let is_narrow = |line: &String| width(line, 10.0) <= 60.0;
        assert!(lines.len() > 1 && lines.iter().all(is_narrow), "{lines:?}");
        assert_eq!(lines.join(" "), text);
    }
}
