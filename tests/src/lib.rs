//! Black-box tests of Curtail.
//!
//! A *transcript* is a golden conversation (`tests/transcripts/*.txt`, see
//! [`transcript`] for the format). A *peer* is anything that can hold one: the model, a session
//! without a socket, a server process, a real memcached. [`play`] plays the one to the other
//! and says where they part.
//!
//! | variable | means |
//! |---|---|
//! | `CURTAIL` | the program under test; else it is built from this source |
//! | `MEMCACHED` | the memcached to compare with; else the one on the PATH, if any |
//! | `CURTAIL_SLOW_TRANSCRIPTS` | that memcached waits through `@tick` in real time |
#![forbid(unsafe_code)]

pub mod admin;
pub mod agents;
pub mod background_client;
pub mod calibration;
pub mod client;
pub mod echo;
pub mod in_process;
pub mod namespace;
pub mod pair;
pub mod pattern;
pub mod peer;
pub mod play;
pub mod process;
pub mod toy;
pub mod transcript;
