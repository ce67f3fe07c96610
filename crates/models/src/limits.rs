//! All bounds of the models.

/// Requests that a model simulates.
pub const REQUESTS: usize = 100_000_000;
/// Servers of a queue.
pub const SERVERS: usize = 1_024;
/// Connections of a simulated web server.
pub const CONNECTIONS: usize = 100_000;
/// Megabytes of its files and of its page cache.
pub const MEGABYTES: usize = 100_000;
/// Highest load level: above it, only the length of the queue changes.
pub const LEVEL: f64 = lab::limits::LEVEL;
