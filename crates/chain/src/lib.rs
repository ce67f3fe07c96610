//! The layout of a chained key-value store in memory that peers read and write by RDMA.
//!
//! All versions of a key's value are a chain of nodes, as in Clover (Tsai, Shan, Zhang, ATC 2020).
//! The first is an anchor, without a value, which stays where it is. The last is the present value:
//!
//! ```text
//! anchor ──▶ node ──▶ node ──▶ node
//! next: Link  Link     Link     Empty { generation of this node's slot }
//! ```
//!
//! A successor is linked by one compare-and-swap of the last `next`, from `Empty` to the link of
//! the new node. A chain is ended by a compare-and-swap from `Empty` to `Closed`.
//!
//! A slot of memory holds one node after the other, and counts them: the generation. A link is an
//! address and the generation of the node that lies there. So an old link never leads to a newer
//! node unnoticed: the node states its own link, and a compare-and-swap expects `Empty` with the
//! generation of the old node, which the word does not have any more (this is the ABA problem).
//!
//! Invariants:
//! - No bytes make a function panic.
//! - A node that was written parses to the same value.
//! - [`Node::parse`] accepts no node of which a byte was changed, except in `next`.
//!
//! The crate does no I/O, and knows neither packets nor what holds the memory. Words are
//! little-endian in memory. The operands of atomic operations are values: on the wire, RDMA has
//! them big-endian.

#![forbid(unsafe_code)]

pub mod limits;
mod link;
mod node;
#[cfg(test)]
mod tests;

pub use link::{Link, Next};
pub use node::{Header, Kind, Node, NodeError, Prefix, node_len};
