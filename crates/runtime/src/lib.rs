//! Who runs the conversations: threads that wait for sockets, hand what has arrived to sessions,
//! and send what they answer.
//!
//! Each runtime is a folder with the same four files: `accept` (new connections), `worker` (the
//! loop), `wake` (how one thread rouses another), `stop` (how it all ends). This version has one,
//! [`events`]: an epoll loop per worker. Whatever runs a session must give the same answers.
//!
//! Invariants: a connection belongs to one worker for life; a worker makes no system call while
//! it answers, unless it is asked for statistics or told to say more or less; what a slow peer
//! can make the server hold is bounded, and while a peer does not
//! take its answers its requests are not read.

#![forbid(unsafe_code)]

mod census;
mod connection;
pub mod events;
pub mod limits;
mod setup;
mod transport;

pub use census::{Census, Tally};
pub use setup::{Clock, Setup};
