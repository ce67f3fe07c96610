//! The tests of a server, each on several runtimes: every runtime must give the same answers, keep
//! the same bounds, and stop in the same order. `cargo test --test on_runtimes ::rings` runs those
//! of one.

// Helpers of tests may do what tests may.
#![allow(clippy::print_stderr, clippy::unwrap_used)]

mod admin;
mod administration;
mod clients;
mod device;
mod edges;
mod idle;
mod kernel_errors;
mod lifecycle;
mod login;
mod memory;
mod server_transcripts;
mod threads;
mod tier;
mod waiting;
