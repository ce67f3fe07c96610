//! Tests of the public interface. They are modules of the unit tests: one program a crate.

mod against_model;
mod bounds;
mod contention;
mod evicted;
mod eviction_policy;
mod holes;
mod marks;
mod rejected;
mod room;
mod torn;
mod touch;
mod walk;
