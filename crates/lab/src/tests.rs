//! Tests of the public interface. They are modules of the unit tests: one program a crate.

mod fake;
mod gate;
mod lifecycle;
pub(crate) mod model;
mod program;
pub(crate) mod records;
pub(crate) mod repository;
pub(crate) mod toy;
