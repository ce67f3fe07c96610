//! Other people's designs, small and honest, to measure ours against.
//!
//! [`textile`] holds the caches of the multithreaded-cache study, [`documents`] HTTP servers with a
//! process for each connection, [`echo`] servers that only send as many bytes as a cache would.
#![deny(unsafe_code)]

pub mod documents;
pub mod echo;
pub mod textile;
