//! Tests of the public interface. They are modules of the unit tests: one program a crate.

mod basics;
mod configurations;
mod files;
mod process;
mod sockets;
mod starvation;
mod stop;
mod stress;
