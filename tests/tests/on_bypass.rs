//! The tests of the server on the runtime `bypass`, each across a pair of network namespaces: every
//! runtime must give the same answers and keep the same bounds. The stack is tested without
//! privileges in `crates/tcpip`, and its transcripts in `transcripts.rs`.

#[path = "clients.rs"]
mod clients;
#[path = "edges.rs"]
mod edges;
#[path = "idle.rs"]
mod idle;
#[path = "transcripts.rs"]
mod transcripts;
#[path = "waiting.rs"]
mod waiting;
