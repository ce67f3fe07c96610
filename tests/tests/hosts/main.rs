//! Tests on hosts of their own, which are network namespaces, and on disks of their own. Without
//! the right to make them, they are skipped.

// Helpers of tests may do what tests may.
#![allow(clippy::print_stderr, clippy::unwrap_used)]

mod agents_on_hosts;
mod disk;
mod experiments_on_hosts;
mod link;
mod pool_on_hosts;
