//! The runtimes inside the process of the test: panics, bounds, online marks, completions, silent
//! peers, transforms, stop.

mod completions;
mod documents;
mod idle;
mod online;
mod panics;
mod sendfile;
mod stop;
mod tier;
mod transforms;
