//! A disk whose delays follow a known law.
//!
//! ```text
//!  program ─▶ ext4 ─▶ loop device ─▶ FUSE file ─▶ server (B): law ─▶ queue ─▶ memory
//!             └──────── page cache, bounded by a memory control group
//! ```
//!
//! [`law`] and [`queue`] are pure: times are values, and the same seed gives the same delays. A
//! model may use them in virtual time. [`server`] applies them to a real file: a FUSE file system
//! that consists of that one file ([`message`]). [`stack`] makes a block device and an ext4 of it,
//! in a mount namespace of its own, so that the page cache, `mincore`, `cachestat` and
//! `RWF_NOWAIT` behave as on a disk that one can buy.
//!
//! Nothing outlives the process that made the stack, however it ends: the namespace ends with its
//! processes, and the loop device with its mount. Two processes are needed for that. One that is
//! killed while it both serves the file and uses it would wait for itself.
#![forbid(unsafe_code)]

pub mod calibration;
pub mod control;
pub mod counts;
pub mod law;
pub mod limits;
pub mod memory_group;
pub mod message;
pub mod queue;
pub mod server;
pub mod stack;
