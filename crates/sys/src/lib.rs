//! A safe interface to Linux: epoll, io_uring, sockets, files, the page cache, signals, clocks,
//! threads, child processes, namespaces, mounts, resource limits, and facts about the machine.
//!
//! The crate is independent of caches. Each `unsafe` block has a `SAFETY` comment with the
//! invariant that makes it sound. Of the other crates, only `fibre` and `store` have such blocks,
//! and `runtime` and `rivals` one for each contract of these crates that they take on.

pub mod bound_datagram;
pub mod child;
pub mod clock;
pub mod cost;
pub mod daemon;
pub mod datagram;
#[cfg(test)]
mod device_pair;
pub mod file;
pub mod file_opener;
pub mod file_replacement;
pub mod file_ring;
pub mod file_send;
pub mod fork;
pub mod hang_up;
pub mod ingress_filter;
pub mod job_pool;
pub mod limits;
pub mod machine;
pub mod mount;
pub mod namespace;
pub mod netlink;
pub mod packet;
pub mod packet_ring;
pub mod page_cache;
pub mod poll;
pub mod privileges;
pub mod ring;
pub mod shared_memory;
mod shortage;
pub mod signals;
pub mod socket;
mod socket_address;
mod socket_option;
mod source;
#[cfg(test)]
mod tests;
pub mod thread;
