//! Trials of a cache under an offered load: their metrics, and what a page tells of them.
//!
//! The rest of this crate knows only [`crate::record`]. This module defines the metrics of cache
//! trials ([`metrics`]), and reads the run folders of the first version ([`v1`]). Where the cells
//! of a run are servers under one varied setting at several rates ([`Run`]), it finds capacities,
//! knees and tails.

pub(crate) mod answer;
pub(crate) mod cells;
mod encode;
pub(crate) mod findings;
pub mod folder;
mod metrics;
pub(crate) mod notes;
pub(crate) mod page;
mod plan;
mod run;
mod settings;
pub(crate) mod sweep_axis;
pub(crate) mod terminal;
mod trial;
pub(crate) mod v1;
mod verdict;

/// The name of this kind of trial.
pub const KIND: &str = "cache";

pub use encode::{GENERATOR_LIMITED, OFFERED_RPS, decode, encode};
pub use folder::{load_table, load_with};
pub use metrics::metrics;
pub use plan::{CAPACITY, LEVEL, RATE, SERVER, SWEEP, factor, figure, suspects};
pub use run::{Missing, Run};
pub use settings::Vary;
pub use trial::artefacts;
