//! Other people's designs, small and honest, to measure ours against.
//!
//! [`policy`] holds eviction policies as their papers state them, all over one interface and
//! charged for every byte they would need, so that a hit ratio at equal memory can be compared.
//! They hold no values and are no caches to use. [`ours`] is what the benches have in common,
//! [`cases`] which of their cases are asked for, [`memcached`] the server they start beside it.
//! [`textile`] holds the caches of the multithreaded-cache study, [`documents`] HTTP servers with a
//! process for each connection, [`echo`] servers that only send as many bytes as a cache would.
//! [`trace`] reads the public traces that hit ratios are measured with, and [`replay`] replays
//! their requests on a cache; [`segments`] is the store's eviction without the store.
#![forbid(unsafe_code)]

pub mod cases;
pub mod documents;
pub mod echo;
pub mod memcached;
pub mod ours;
pub mod policy;
pub mod replay;
pub mod segments;
pub mod textile;
pub mod trace;
