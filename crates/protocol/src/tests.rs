//! Tests of the public interface. They are modules of the unit tests: one program a crate.

mod binary;
mod client;
mod corpora;
mod login;
mod parse;
mod properties;
mod replies;
