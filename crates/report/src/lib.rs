//! Run folder to tables, figures and one self-contained page.
//!
//! This crate reads run folders and nothing else. [`folder`] defines their format, which the lab
//! writes. The crate does not measure, and it does not interpolate: a missing trial is shown as
//! missing.
#![forbid(unsafe_code)]

mod answer;
mod cells;
mod chart;
mod error;
mod figures;
mod findings;
pub mod folder;
pub mod limits;
mod notes;
mod page;
mod raster;
mod render;
mod run;
mod settings;
mod sweep_axis;
mod terminal;
mod trials_csv;
mod units;
mod verdict;

pub use error::Error;
pub use render::{Figure, Rendered, figures_of, page_of, render};
pub use run::{Missing, Run};
pub use settings::Vary;
pub use terminal::text_summary;
pub use trials_csv::write_csv;
