//! Black-box tests of Curtail.
//!
//! A *transcript* is a golden conversation (`tests/transcripts/*.txt`, see
//! [`transcript`] for the format). A *peer* is anything that can hold one: the model, a session
//! without a socket, a server process, a real memcached. [`play`] plays the one to the other
//! and says where they part.
#![forbid(unsafe_code)]

pub mod client;
pub mod pattern;
pub mod peer;
pub mod play;
pub mod process;
pub mod transcript;
pub mod witness;
