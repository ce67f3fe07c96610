//! Run folder to tables, figures and one self-contained page.
//!
//! This crate reads run folders and nothing else. [`record`] defines their format, which the lab
//! writes, and [`figure`] the declarations of figures. The crate
//! does not measure, and it does not interpolate: a missing trial is shown as missing.
#![forbid(unsafe_code)]

pub mod answer;
mod cell;
mod chart;
pub mod compare;
mod comparison;
mod error;
pub mod figure;
mod figures;
mod findings;
mod gallery;
mod health;
mod history;
pub mod limits;
mod located;
mod page;
pub mod published;
mod read;
pub mod record;
mod render;
mod run;
pub mod target;
mod target_verdict;
mod terminal;
#[cfg(test)]
mod tests;
mod trials_csv;
mod units;

pub use self::units::plural;
pub use error::Error;
pub use gallery::{Gallery, gallery};
pub use health::{Faults, Health, Reason, health};
pub use history::{History, history};
pub use located::{Located, LocatedError};
pub use page::shell_word;
pub use render::{Rendered, SvgFigure, figures_of, page_of, render, target_text, text_summary};
pub use run::{MissingTrial, Run, check_readable};
pub use trials_csv::{COLUMNS, write_csv};
