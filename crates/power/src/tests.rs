//! Tests of the public interface. They are modules of the unit tests: one program a crate.

mod trees;
