//! The tests of the server on the runtime `bypass`, each across a pair of network namespaces: every
//! runtime must give the same answers and keep the same bounds. The stack is tested without
//! privileges in `crates/tcpip`, and its transcripts in `transcripts.rs`.

// The helpers of tests may panic and print, as tests may.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

#[path = "clients.rs"]
mod clients;
#[path = "on_bypass/device.rs"]
mod device;
#[path = "edges.rs"]
mod edges;
#[path = "idle.rs"]
mod idle;
#[path = "login.rs"]
mod login;
#[path = "server_transcripts.rs"]
mod server_transcripts;
#[path = "waiting.rs"]
mod waiting;
