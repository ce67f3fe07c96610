//! Tests of the public interface. They are modules of the unit tests: one program a crate.

mod corpora;
mod exactly_once;
mod golden;
mod other_tools;
mod properties;
mod responder;
