//! The two ends of a reliable connection as state machines: packets and time in, packets and events
//! out.
//!
//! ```text
//! post ──▶ Requester ── requests ──▶ Responder ──▶ Memory, within Regions
//! completion ◀──┘ └◀── responses ──────┘ └──▶ events
//! ```
//!
//! A queue pair that sends and serves is one of each. Frames are parsed with
//! [`crate::wire::Repr::parse`], which drops corrupted ones, and leave through a function that the
//! caller passes.
//!
//! Invariants, whatever the network loses, repeats, reorders or damages:
//! - WRITEs, SENDs and atomic operations take effect once and in order.
//! - Each posted operation completes once, with a result or an error.
//! - Queues have the bounds of [`crate::limits`].

mod emitter;
mod memory;
mod regions;
mod requester;
mod responder;

pub use emitter::{Connection, Mtu};
pub use memory::{ByteMemory, Memory};
pub use regions::{Access, Region, Regions, RegionsError};
pub use requester::{Completion, OperationError, Outcome, PostError, Request, Requester, Retries};
pub use responder::{Event, Responder, ResponderCounters};
