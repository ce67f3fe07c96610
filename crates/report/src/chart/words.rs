//! Tables: words at the places of rows and columns, as a picture and as HTML.

use std::collections::HashMap;

use super::mark::{Mark, Scene, Shape, State, Words};
use super::palette::{GREY, INK, SOFT_INK};
use super::svg::{self, Svg, WIDTH, coordinate, escaped};
use crate::limits;

const LEFT: f64 = 16.0;
const HEAD: f64 = 30.0;
const SIZE: f64 = 12.5;
const LINE: f64 = 13.0;
/// Greatest width of the names of the rows, and width of a column whose title needs no more:
/// numbers far apart are hard to compare.
const NAMES: f64 = 220.0;
const COLUMN: f64 = 150.0;

impl Words {
    /// Whether the picture lacks rows or columns.
    pub(super) fn is_cut(&self) -> bool {
        self.columns.len() > limits::TABLE_COLUMNS || self.rows.len() > limits::TABLE_ROWS
    }

    fn row_height(scene: &Scene) -> f64 {
        let lines = |mark: &Mark| words(mark).len();
        let most = scene.marks.iter().map(lines).max().unwrap_or(1).max(1);
        8.0 + LINE * most as f64
    }

    pub(super) fn height(&self, scene: &Scene) -> f64 {
        HEAD + self.rows.len().min(limits::TABLE_ROWS) as f64 * Self::row_height(scene)
    }

    pub(super) fn draw(&self, svg: &mut Svg, scene: &Scene, top: f64) {
        let columns = self.columns.len().min(limits::TABLE_COLUMNS);
        let rows = self.rows.len().min(limits::TABLE_ROWS);
        let height = Self::row_height(scene);
        let wide = |text: &String| svg::width(text, SIZE);
        let names = self.rows.iter().chain([&self.corner]).map(wide);
        let names = names.fold(50.0, f64::max).min(NAMES) + 12.0;
        let heads = self.columns.iter().map(|head| wide(head) * 1.1 + 12.0);
        let room = (WIDTH - 2.0 * LEFT - names) / columns.max(1) as f64;
        let width = room.min(heads.fold(COLUMN, f64::max));
        let right = |column: f64| LEFT + names + (column + 1.0) * width;
        let text = |svg: &mut Svg, at: (f64, f64), text: &str, [anchor, look]: [&str; 2]| {
            let room = if anchor == "start" { names } else { width };
            let text = svg::fitted(text, SIZE, room - 6.0);
            svg.text(at, &format!(r#"text-anchor="{anchor}" {look}"#), &text);
        };
        let soft = format!(r#"font-size="11" fill="{SOFT_INK}""#);
        let grey = format!(r#"font-size="12.5" fill="{GREY}" font-style="italic""#);
        let plain = format!(r#"font-size="12.5" fill="{INK}""#);
        let strong = format!(r#"{plain} font-weight="600""#);
        let base = top + HEAD - 14.0;
        text(svg, (LEFT, base), &self.corner, ["start", &strong]);
        for (column, head) in self.columns.iter().take(columns).enumerate() {
            text(svg, (right(column as f64), base), head, ["end", &strong]);
        }
        let end = coordinate(right(columns as f64 - 1.0));
        let rule = |svg: &mut Svg, y: f64, colour: &str| {
            let y = coordinate(y);
            let line = format!(r#"x1="{LEFT}" x2="{end}" y1="{y}" y2="{y}" stroke="{colour}""#);
            svg.tag("line", &format!(r#"class="grid" {line}"#));
        };
        rule(svg, top + HEAD - 6.0, INK);
        for (row, name) in self.rows.iter().take(rows).enumerate() {
            let top = top + HEAD + row as f64 * height;
            text(svg, (LEFT, top + 10.0), name, ["start", &plain]);
            rule(svg, top + height - 5.0, "#DDDDDD");
        }
        for mark in &scene.marks {
            let is_in = |it: &&(f64, f64)| (it.0 as usize) < columns && (it.1 as usize) < rows;
            let Some(&(x, y)) = mark.at.first().filter(is_in) else {
                continue;
            };
            for (line, words) in words(mark).iter().enumerate() {
                let down = y * height + LINE * line as f64;
                let at = (right(x), top + HEAD + down + 10.0);
                let look = match line {
                    0 if is_grey(mark) => &grey,
                    0 => &plain,
                    _ => &soft,
                };
                text(svg, at, words, ["end", look]);
            }
        }
    }

    pub(super) fn html(&self, scene: &Scene) -> String {
        let mut html = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n",
            escaped(&scene.title)
        );
        if !self.caption.is_empty() {
            html.push_str(&format!("<caption>{}</caption>\n", escaped(&self.caption)));
        }
        let corner = escaped(&self.corner);
        let corner = format!("<th scope=\"col\" class=\"left\">{corner}</th>");
        html.push_str(&format!("<thead><tr>{corner}"));
        for head in &self.columns {
            html.push_str(&format!("<th scope=\"col\">{}</th>", escaped(head)));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        let place = |&(x, y): &(f64, f64)| (x as usize, y as usize);
        let marks = scene.marks.iter();
        let marks = marks.filter_map(|mark| Some((mark.at.first().map(place)?, mark)));
        let marks: HashMap<(usize, usize), &Mark> = marks.collect();
        for (row, name) in self.rows.iter().enumerate() {
            html.push_str(&format!("<tr><th scope=\"row\">{}</th>", escaped(name)));
            for column in 0..self.columns.len() {
                let mark = marks.get(&(column, row));
                html.push_str(&mark.map_or("<td></td>".to_owned(), |mark| cell(mark)));
            }
            html.push_str("</tr>\n");
        }
        html + "</tbody>\n</table>\n</div>"
    }
}

fn words(mark: &Mark) -> &[String] {
    match &mark.shape {
        Shape::Words(lines) => lines,
        _ => &[],
    }
}

fn is_grey(mark: &Mark) -> bool {
    matches!(mark.state, State::Grey(_) | State::Missing(_))
}

fn cell(mark: &Mark) -> String {
    let class = if is_grey(mark) { " class=\"grey\"" } else { "" };
    let line = |(index, line): (usize, &String)| match index {
        0 => escaped(line),
        _ => format!("<span class=\"range\">{}</span>", escaped(line)),
    };
    let lines: String = words(mark).iter().enumerate().map(line).collect();
    format!("<td{class}>{lines}</td>")
}
