//! Tests of the public interface. They are modules of the unit tests: one program a crate.

mod fake;
mod gate;
mod lifecycle;
mod model;
mod pages;
mod program;
mod records;
mod toy;
