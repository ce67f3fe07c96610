//! The tests of the server once more, with a fibre for each connection, by the stealing scheduler
//! over epoll: whoever runs the conversations must give the same answers, hold the same bounds, and
//! end in the same order.

#[path = "edges.rs"]
mod edges;
#[path = "idle.rs"]
mod idle;
#[path = "lifecycle.rs"]
mod lifecycle;
#[path = "memory.rs"]
mod memory;
#[path = "server_transcripts.rs"]
mod server_transcripts;
#[path = "tier.rs"]
mod tier;
