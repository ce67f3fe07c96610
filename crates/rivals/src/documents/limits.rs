//! All bounds of the process servers.

use std::time::Duration;

/// Maximum number of processes that serve connections.
pub const PROCESSES_MAX: usize = 4096;
/// Connections that wait in the kernel for a process.
pub const BACKLOG: i32 = 4096;
/// How long a client may be silent, or not take its reply, before its connection is closed, in
/// nanoseconds.
pub const IDLE_NS: u64 = 60_000_000_000;
/// Bytes received at a time.
pub const RECEIVE_LEN: usize = 16 * 1024;
/// Maximum number of names that the backend remembers, with a descriptor for each.
pub const BACKEND_NAMES_MAX: usize = 4096;
/// How long the backend uses a remembered name, in nanoseconds.
pub const BACKEND_NAME_VALID_NS: u64 = 1_000_000_000;
/// Files that a process opens beside the documents and the sockets.
pub const OPEN_FILES_RESERVE: usize = 32;
/// How long a process pauses after it could not accept a connection.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Time between two checks that all processes still run, in nanoseconds.
pub const CHECK_INTERVAL_NS: u64 = 1_000_000_000;
/// Stack size of a thread of the backend, in bytes.
pub const BACKEND_STACK_LEN: usize = 128 * 1024;
