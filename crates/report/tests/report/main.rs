//! Reports of synthetic run folders, as a reader sees them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what stops a test fails it"
)]

mod answer;
mod browser;
mod figures;
mod page;
mod reading;
mod settings;
mod summary;
mod synthetic;
