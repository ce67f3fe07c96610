//! A key-value store in the memory of a passive host, which clients read and write by RDMA.
//!
//! The design is that of Clover (Tsai, Shan, Zhang, "Disaggregating Persistent Memory and
//! Controlling Them Remotely", USENIX ATC 2020). All versions of a key are a chain of nodes in the
//! memory (crate `chain`).
//!
//! ```text
//! clients ──── READ, WRITE, compare-and-swap ────▶ memory node, which only serves its memory
//!    └─ chain of a key, slabs, lease ─▶ metadata service ─ anchors, slab table ─▶ ┘
//! ```
//!
//! - A read is one READ of the last node that the client knows. If it has a successor, the client
//!   follows.
//! - A write is a WRITE of a new node to a slot of the client, then a compare-and-swap of the last
//!   node's `next`. A client that loses follows the chain and tries again.
//! - The metadata service ([`Metadata`]) is off this path. It gives chains to keys and slabs to
//!   clients, moves anchors on, and frees the slots of old nodes.
//!
//! All three are state machines: frames and time in, frames and completions out. They do no I/O;
//! sockets, the mapped file and the clock are in [`port`] and [`process`]. [`client_thread`] drives
//! a client for users that must not wait.
//!
//! Invariants:
//! - A write that completed without an error is in the chain until it is superseded, whichever part
//!   crashes.
//! - A slot is written again only after its node is out of reach, and all operations are complete
//!   that were in progress then.
//! - All state is bounded ([`limits`]).

#![forbid(unsafe_code)]

mod channel;
mod client;
pub mod client_thread;
pub mod hosts;
pub mod layout;
pub mod limits;
mod memory_node;
pub mod message;
mod metadata;
mod operation;
pub mod port;
pub mod process;
mod slots;
mod station;
#[cfg(test)]
mod tests;

pub use channel::ChannelConfig;
pub use client::{Client, ClientConfig, ClientCounters};
pub use memory_node::{MemoryNode, MemoryNodeCounters};
pub use metadata::{Metadata, MetadataConfig, MetadataCounters, MetadataError};
pub use operation::{
    Action, Change, Completion, Item, NewItem, Operation, OperationError, Outcome, Refusal,
    SubmitError, is_storable,
};
pub use station::Station;
