//! Reports of synthetic run folders, as a reader sees them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what stops a test fails it"
)]

mod answer;
mod browser;
mod compare;
mod conversion;
mod edge_cases;
mod figures;
mod gallery;
mod general;
mod general_run;
mod history;
mod illustrated;
mod kinds;
mod page;
mod published;
mod reading;
mod settings;
mod stack;
mod summary;
mod synthetic;
mod target;
mod zipped;
