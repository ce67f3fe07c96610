//! The laboratory: experiment file to plan to trials to run folder.
#![forbid(unsafe_code)]

pub mod error;
pub mod experiment;
pub mod limits;
pub mod plan;
pub mod units;
