//! Files without waiting for a disk, and documents over HTTP.
//!
//! ```text
//! documents: a service            strategy: may the worker do it itself?         disk
//!   request ──▶ FileWorker::open ─▶ nowait · flash · … ────── Attempt::Done ◀─ system, or a test's
//!               FileWorker::read      └── Attempt::WouldBlock
//!                                              │ open_elsewhere, read_elsewhere
//!   Next::Completion ◀── ticket ◀── reader pool: threads that may wait ◀──────────┘
//!                                   and with some strategies an opener process for each;
//!                                   or an io_uring, for reads
//! ```
//!
//! All strategies are asked the same question, "these bytes, or would you block?", and a worker
//! that is told [`Attempt::WouldBlock`] gives the operation to the pool and serves other
//! connections. So a read from a disk delays only the connection that needs it. `naive` never says
//! so: it blocks, and is there to be compared with.
//!
//! Invariants:
//! - With `nowait`, no worker makes a system call that waits for a disk, as far as the kernel
//!   tells.
//! - No name leaves the root, whatever links the root contains ([`sys::file::Folder`]).
//! - Bytes are copied by reads, never taken from a mapping, so a file that becomes shorter while
//!   it is sent costs its connection and nothing else.
//! - The bytes of a document in memory are bounded: one block of [`limits::BLOCK_LEN`] for each
//!   connection, beside its output.
//!
//! The service is a module of this crate, because nothing else uses the strategies yet.

#![forbid(unsafe_code)]

mod counts;
mod disk;
pub mod documents;
pub mod limits;
mod miss_ring;
mod name_cache;
mod reader_pool;
mod strategy;
mod system_disk;
mod worker;

pub use counts::{FileCount, FileCounts};
pub use disk::{Disk, Document, OpenFile, ResidencyProbe};
pub use name_cache::NameCache;
pub use reader_pool::{Completion, Openers};
pub use strategy::{Attempt, Misses, StrategyKind};
pub use sys::file::{Attributes, FileKind, Wait};
pub use system_disk::{SystemDisk, SystemFile};
pub use worker::{FileSet, FileWorker, StartError};
