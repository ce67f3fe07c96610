//! Renders SVG to PNG with the fonts of `fonts/` only, so that every machine produces the same
//! bytes.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use crate::Error;
use crate::chart::Drawing;

/// Pixels of the PNG per pixel of the figure, for sharp slides; for print there is the SVG.
const MAGNIFIED: f32 = 2.0;

const REGULAR: &[u8] = include_bytes!("../fonts/Inter-Regular.otf");
const SEMI_BOLD: &[u8] = include_bytes!("../fonts/Inter-SemiBold.otf");

/// Renders a figure as the bytes of a PNG file.
///
/// # Errors
/// The figure is not valid SVG, or too large.
pub(crate) fn png(drawing: &Drawing) -> Result<Vec<u8>, Error> {
    let failed = |what: String| Error::Draw {
        figure: drawing.stem.clone(),
        what,
    };
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(REGULAR.to_vec());
    fonts.load_font_data(SEMI_BOLD.to_vec());
    fonts.set_sans_serif_family("Inter");
    let options = Options {
        font_family: "Inter".to_owned(),
        fontdb: Arc::new(fonts),
        ..Options::default()
    };
    let tree = Tree::from_str(&drawing.file(), &options).map_err(|e| failed(e.to_string()))?;
    let (width, height) = drawing.size();
    let pixels = |length: f64| (length * f64::from(MAGNIFIED)).ceil() as u32;
    let mut picture = Pixmap::new(pixels(width), pixels(height))
        .ok_or_else(|| failed(format!("{width} by {height} pixels")))?;
    let transform = Transform::from_scale(MAGNIFIED, MAGNIFIED);
    resvg::render(&tree, transform, &mut picture.as_mut());
    picture.encode_png().map_err(|e| failed(e.to_string()))
}
