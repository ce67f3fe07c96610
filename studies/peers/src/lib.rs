//! What the benchmarks beside other caches share.
//!
//! [`policy`] holds eviction policies as their papers state them, all over one interface and
//! charged for every byte they would need, so that a hit ratio at equal memory can be compared.
//! They hold no values and are no caches to use. [`trace`] reads the public traces that hit ratios
//! are measured with, and [`replay`] replays their requests on a cache; [`segments`] is the store's
//! eviction without the store. [`ours`] is our own store as the benches use it, [`cases`] says
//! which of their cases are asked for, [`memcached`] is the server they start beside it.
#![forbid(unsafe_code)]

pub mod cases;
pub mod memcached;
pub mod ours;
pub mod policy;
pub mod replay;
pub mod segments;
pub mod trace;
