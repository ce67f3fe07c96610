//! The tests of the server on the runtime `rings` (io_uring): every runtime must give the same
//! answers, keep the same bounds, and stop in the same order.

#[path = "admin.rs"]
mod admin;
#[path = "administration.rs"]
mod administration;
#[path = "edges.rs"]
mod edges;
#[path = "idle.rs"]
mod idle;
#[path = "lifecycle.rs"]
mod lifecycle;
#[path = "login.rs"]
mod login;
#[path = "memory.rs"]
mod memory;
#[path = "server_transcripts.rs"]
mod server_transcripts;
#[path = "tier.rs"]
mod tier;
#[path = "waiting.rs"]
mod waiting;
