//! The runtimes inside the process of the test: panics, bounds, online marks, completions, silent
//! peers, transforms, stop.
// The helpers of tests may panic and print, as tests may.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "runtimes/completions.rs"]
mod completions;
#[path = "runtimes/documents.rs"]
mod documents;
#[path = "runtimes/idle.rs"]
mod idle;
#[path = "runtimes/online.rs"]
mod online;
#[path = "runtimes/panics.rs"]
mod panics;
#[path = "runtimes/sendfile.rs"]
mod sendfile;
#[path = "runtimes/stop.rs"]
mod stop;
#[path = "runtimes/tier.rs"]
mod tier;
#[path = "runtimes/transforms.rs"]
mod transforms;
