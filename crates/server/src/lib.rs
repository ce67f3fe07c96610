//! A server: listens, limits, gives up root, tells its statistics, ends in order.
//!
//! [`Server::start`] turns a [`Config`] into listening sockets, a store and a running runtime;
//! [`Server::serve`] waits for a signal and stops it all. Start-up happens in an order that keeps
//! what needs root before root is given up, and says nothing on its own: the program passes a
//! function that is told each line.

#![forbid(unsafe_code)]

mod config;
mod error;
mod maintenance;
mod start;
mod state;
mod watch;

pub use config::{Config, DEFAULT_USER, UnixSocket};
pub use error::Error;
pub use runtime::{
    Kind, Patience, Scheduler, conversations_max, fibre_areas_wanted, fibres_max, guards_are_light,
    memory_areas_wanted,
};
pub use start::{Server, best_runtime, open_files_needed};
pub use store::limits::HUGE_FROM;
