//! Tests of the public interface. They are modules of the unit tests: one program a crate.

mod answers;
mod corpora;
mod direct;
mod faults;
mod lossy_network;
mod other_tools;
mod proxy;
mod world;
