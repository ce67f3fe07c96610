//! The models of the studies: each computes the metrics of a trial in virtual time.
//!
//! | model | what it simulates |
//! |---|---|
//! | `queue` | requests that arrive at random and wait for one of several servers (M/M/c, M/D/c) |
//! | `blocking` | a web server whose files do not fit into memory, and a slow disk |
//! | `energy` | a server with interrupt delay and processor speed as knobs |
//! | `steering` | remote memory, and a middlebox that steers verbs to the last version of a key |
//! | `pool` | the packets of our own memory pool and middlebox, on a network with faults |
#![forbid(unsafe_code)]

use lab::Entry;
use lab::model::{self, Model, Registry};

mod blocking;
mod energy;
pub mod limits;
mod pool;
mod queue;
mod steering;
#[cfg(test)]
mod tests;

/// The kind `model`, with these models.
pub const KIND: Entry = model::kind::<Models>();

#[derive(Debug)]
struct Models;

impl Registry for Models {
    const MODELS: &'static [Model] = &[
        queue::MODEL,
        blocking::MODEL,
        energy::MODEL,
        steering::MODEL,
        pool::MODEL,
    ];
}
